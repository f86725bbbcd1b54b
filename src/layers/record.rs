//! `Record`: tees the reply, and turns each reservation into one outcome.
//!
//! Innermost of the stack but for routing, so that it sees what was shown and every byte of the reply. It is a wrapper because it must see the
//! body: the reply is put together from a copy, and its very end is held until the exchange is in the outbox.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::BodyExt;
use tokio_util::task::TaskTracker;
use tower::{Layer, Service};

use super::body::ReplyBody;
use super::books::{self, Course, Figures, Past};
use super::continued::{handed_out, is_noted};
use super::reserve::{Booking, Reservation};
use super::tee::{Tee, TeeOptions};
use super::turn::{self, Answered, Ended};
use crate::access::{Running, Standing};
use crate::base::{Clock, GatewayError};
use crate::context::{Common, Fitted, Trails};
use crate::exchange::{Call, MemoryOutcome, Recall, Recalled, Routed};
use crate::jobs::Committed;
use crate::states::States;
use crate::store::{StateKey, TurnState};
use crate::telemetry::{self, Metrics, PromptPart, PromptTurn, Route};
use crate::tokens::Counter;
use crate::upstream::{Learned, Reported, UpstreamBody};
use crate::wire::{ChatRequest, Reply, Usage, Verdict};

const EXCHANGE: HeaderName = HeaderName::from_static("x-backstory-exchange");
const TARGET: HeaderName = HeaderName::from_static("x-backstory-target");
const MEMORY: HeaderName = HeaderName::from_static("x-backstory-memory");
const CONTEXT: HeaderName = HeaderName::from_static("x-backstory-context");
const X_ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// Tees replies. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Record(Arc<RecordSettings>);

impl Record {
    /// Makes the layer.
    #[must_use]
    pub fn new(settings: RecordSettings) -> Self {
        Self(Arc::new(settings))
    }
}

/// Settings of [`Record`], shared by all requests.
pub struct RecordSettings {
    /// What requests are counted under.
    pub route: Route,
    /// Conversation states, for the next request of a tool loop.
    pub states: Arc<States>,
    /// On which is written what must not be waited for.
    pub tasks: TaskTracker,
    /// How the last request of each conversation was sent: tells how much of its prompt the next one repeats.
    pub trails: Arc<Trails>,
    /// Tells when an exchange ended.
    pub clock: Arc<dyn Clock>,
    /// Counts tokens, cuts and releases.
    pub metrics: Arc<Metrics>,
    /// What answers teach about targets.
    pub learned_of_targets: Learned,
    /// How long the end of a reply waits for the outbox.
    pub commit_wait: Duration,
    /// After how much silence a comment keeps a stream alive; zero = never.
    pub keepalive: Duration,
    /// Whether what was shown for an answer is kept.
    pub trace: bool,
    /// Counts what upstream does not.
    pub counter: Arc<Counter>,
    /// Whether it is booked what exchanges use.
    pub books: bool,
}

impl fmt::Debug for RecordSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordSettings").field("commit_wait", &self.commit_wait).finish_non_exhaustive()
    }
}

impl<S> Layer<S> for Record {
    type Service = Recording<S>;

    fn layer(&self, inner: S) -> Recording<S> {
        Recording { inner, shared: Arc::clone(&self.0) }
    }
}

/// The service of [`Record`].
#[derive(Clone, Debug)]
pub struct Recording<S> {
    inner: S,
    shared: Arc<RecordSettings>,
}

impl<S> Service<Recalled<Reservation>> for Recording<S>
where
    S: Service<Recalled<()>, Response = Routed<UpstreamBody>, Error = GatewayError>,
    S::Future: Send + 'static,
{
    type Response = Response<ReplyBody>;
    type Error = GatewayError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, GatewayError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), GatewayError>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Recalled<Reservation>) -> Self::Future {
        let Recalled { call, reservation, recall } = request;
        let full = reservation.full;
        let mut outcome = Outcome {
            reservation: Some(reservation),
            call: Arc::clone(&call),
            recall: Arc::clone(&recall),
            answered: None,
            state: None,
            shared: Arc::clone(&self.shared),
        };
        let routed = self.inner.call(Recalled { call, reservation: (), recall });
        Box::pin(async move {
            // A client that leaves here drops this future, and with it `outcome`, which then records what there is.
            let routed = match routed.await {
                Ok(routed) => routed,
                Err(error) => {
                    let (standing, asked) = (outcome.standing(), outcome.call.progress.last());
                    outcome.close(Course::Unanswered(error.kind.status()));
                    // A refusal by a limit tells more itself.
                    let told = standing.filter(|_| error.headers().is_none());
                    let mut headers = told.map(|standing| standing.headers()).unwrap_or_default();
                    if let Some((target, attempts)) = asked {
                        set_target(&mut headers, &target, attempts);
                    }
                    return Err(error.with_headers(headers));
                }
            };
            Ok(outcome.reply(routed, full))
        })
    }
}

/// The one outcome of a reservation: finished, released, or (when dropped) cut short.
pub(super) struct Outcome {
    reservation: Option<Reservation>,
    call: Arc<Call>,
    recall: Arc<Recall>,
    answered: Option<Answered>,
    state: Option<(StateKey, TurnState)>,
    shared: Arc<RecordSettings>,
}

/// How a reply ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ending<'a> {
    /// The reply, as far as it came and was kept.
    pub(super) reply: &'a Reply,
    /// Bytes of it that came, where it is no stream: of that nothing is read before its end.
    pub(super) bytes: u64,
    /// Whether it came to its end.
    pub(super) verdict: Verdict,
    /// It ended because the client left.
    pub(super) client_left: bool,
    /// When its first byte came.
    pub(super) first: Option<Instant>,
}

impl Ending<'_> {
    /// Whether it ended as it should.
    pub(super) fn is_complete(&self) -> bool {
        self.verdict.is_complete()
    }

    /// Whether all that upstream sent is an error: there is no reply, though there is a 200.
    pub(super) fn failed(&self) -> bool {
        self.verdict == Verdict::Error && self.reply.events == 0
    }
}

impl Outcome {
    /// What is left of the limits that the request touches.
    fn standing(&self) -> Option<Standing> {
        self.reservation.as_ref().map(|reservation| *reservation.taken.standing())
    }

    /// Records the exchange; the result resolves when it is durable. `None` when there is nothing to wait for.
    pub(super) fn finish(mut self, ending: &Ending<'_>) -> Option<Committed> {
        self.close(Course::Reply(ending))
    }

    /// Ends the exchange: settles what it used, once for all who ask, and hands over what is to be kept of it.
    fn close(&mut self, course: Course<'_>) -> Option<Committed> {
        let Reservation { slot, mut taken, booking, .. } = self.reservation.take()?;
        let line = booking.and_then(Booking::into_line);
        let figures = Figures::of(&self.call, course, &self.shared.counter);
        taken.settle(figures.spent());
        figures.count(&self.shared.metrics);
        if let Some(ended) = ended(course) {
            self.shared.metrics.requests.inc(self.shared.route, ended);
        }
        figures.end_span(&self.call, course, &self.shared.metrics);
        let past = Past { call: &self.call, recall: Some(&self.recall), course, now: Instant::now() };
        let used = self.shared.books.then(|| Box::new(books::row(&past, figures)));
        let ending = match course {
            Course::Reply(ending) => Some(ending),
            _ => None,
        };
        if let Some(usage) = ending.and_then(|ending| ending.reply.usage) {
            self.learn(usage);
        }
        if let Some(ending) = ending {
            self.hand_out(ending.reply);
        }
        // No target answered, or with an error: that is not worth remembering.
        let remembered = matches!(course, Course::Reply(_) | Course::Gone);
        // Without a place in the outbox nobody keeps what would be put together here, but for the books.
        let Some(slot) = slot.filter(|_| remembered) else {
            if let (Some(row), Some(line)) = (used, line) {
                line.write(row);
            }
            return None;
        };
        let text = ending.and_then(|ending| ending.reply.choices.first()).map(|choice| choice.text.clone());
        let ended = Ended {
            usage: used,
            state: self.state.take(),
            reply: text.filter(|text| !text.is_empty()),
            complete: ending.is_some_and(Ending::is_complete),
            trace: self.shared.trace,
            at: self.shared.clock.now(),
        };
        let finished = turn::finished(&self.call, &self.recall, self.answered.as_ref(), ended)?;
        Some(slot.finish(finished))
    }

    /// Compares what upstream counted with our own count.
    fn learn(&self, usage: Usage) {
        let Some(answered) = &self.answered else { return };
        let (target, report) = (answered.target.as_str(), &answered.fitted.report);
        if let Some(estimate) = report.sent.filter(|_| report.partial.is_none()) {
            self.shared.metrics.observe_token_estimate(estimate as u64, usage.prompt_tokens);
        }
        if let Some(request) = self.call.payload.chat() {
            let at = self.shared.clock.now();
            self.shared.learned_of_targets.reported(&Reported { target, request, report, usage, at });
        }
    }

    /// Turns upstream's answer into the client's reply.
    fn reply(mut self, routed: Routed<UpstreamBody>, full: bool) -> Response<ReplyBody> {
        let Routed { response, fitted, target, attempts, withhold_usage } = routed;
        let (mut parts, body) = response.into_parts();
        let ok = parts.status == StatusCode::OK;
        let sse = parts.headers.get(CONTENT_TYPE).is_some_and(|v| v.as_bytes().starts_with(b"text/event-stream"));

        let headers = &mut parts.headers;
        if let Some(standing) = self.standing() {
            standing.write(headers);
        }
        set(headers, EXCHANGE, self.call.stamp.exchange.to_string());
        set_target(headers, &target, attempts);
        let memory = memory_header(&self.recall, fitted.as_deref(), full);
        set(headers, MEMORY, memory.clone());
        let context = fitted.as_deref().and_then(context_header).unwrap_or_default();
        if !context.is_empty() {
            set(headers, CONTEXT, context.clone());
        }
        let with_memory = fitted.as_deref().is_some_and(Fitted::shows_memory);
        if with_memory {
            headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        }
        if sse {
            headers.insert(X_ACCEL_BUFFERING, HeaderValue::from_static("no"));
            let cache = if with_memory { "no-store, no-cache, no-transform" } else { "no-cache, no-transform" };
            headers.insert(CACHE_CONTROL, HeaderValue::from_static(cache));
            // A stream that we may add to or take from has no length of upstream's.
            headers.remove(CONTENT_LENGTH);
        }

        let counted = fitted.as_ref().is_some_and(|fitted| fitted.report.sent.is_some());
        if let Some(fitted) = &fitted {
            self.shared.metrics.cut_messages.inc_by(fitted.report.cut as u64);
        }
        let running = self.reservation.as_mut().and_then(|reservation| reservation.running.take());
        if !ok {
            self.close(Course::Error(parts.status.as_u16()));
            return Response::from_parts(parts, body_of(body, running));
        }
        if let Some(fitted) = fitted {
            self.follow(&target, &fitted);
            self.state = turn::state(&self.call, &self.recall, &fitted);
            if let Some((key, state)) = self.state.clone() {
                self.shared.states.put(key, self.recall.epoch, state);
            }
            self.answered = Some(Answered { fitted, target, memory, context });
        }
        let options = TeeOptions {
            dialect: self.call.payload.chat().map(ChatRequest::dialect).unwrap_or_default(),
            named: is_noted(&self.call, &self.recall),
            sse,
            // What is held back at the end waits for what has to be durable.
            record: self.records(),
            books: counted || self.shared.books || self.call.reserved.is_some(),
            withhold_usage: withhold_usage && sse,
            commit_wait: self.shared.commit_wait,
            keepalive: if sse { self.shared.keepalive } else { Duration::ZERO },
        };
        let metrics = Arc::clone(&self.shared.metrics);
        let tee = Tee::new(body, self, &options, metrics, running);
        Response::from_parts(parts, tee.boxed_unsync())
    }

    /// Measures how much of the prompt the last request of this conversation had in common with this one.
    fn follow(&self, target: &str, fitted: &Fitted) {
        let Some(trail) = &fitted.trail else { return };
        if let Some(common) = self.shared.trails.follow(target, trail) {
            observe(&self.shared.metrics, &common);
        }
    }

    /// Notes to whom an answer was handed out that upstream keeps, where a later request asks for it.
    fn hand_out(&self, reply: &Reply) {
        if let Some(handed) = handed_out(&self.call, &self.recall, self.answered.as_ref(), reply) {
            self.shared.states.hand_out(handed, &self.shared.tasks);
        }
    }

    /// Whether the end of this exchange goes into the outbox with something to learn from.
    fn records(&self) -> bool {
        self.call.identity.memory.write && self.reservation.as_ref().is_some_and(|r| r.slot.is_some())
    }
}

/// What a request is counted as; `None` for what was refused, which `Respond` counts.
fn ended(course: Course<'_>) -> Option<telemetry::Outcome> {
    match course {
        Course::Reply(ending) if ending.is_complete() => Some(telemetry::Outcome::Ok),
        Course::Reply(ending) if !ending.client_left => Some(telemetry::Outcome::Cut),
        Course::Reply(_) | Course::Gone => Some(telemetry::Outcome::ClientGone),
        Course::Unanswered(_) | Course::Error(_) => None,
    }
}

impl Drop for Outcome {
    fn drop(&mut self) {
        // The client left before the reply began, or upstream's future was dropped: what the user said still counts.
        let _not_awaited = self.close(Course::Gone);
    }
}

impl fmt::Debug for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outcome").field("open", &self.reservation.is_some()).finish_non_exhaustive()
    }
}

fn observe(metrics: &Metrics, common: &Common) {
    let turn = match (common.newly_cut, common.is_tool_loop) {
        (true, _) => PromptTurn::Cut,
        (false, true) => PromptTurn::ToolLoop,
        (false, false) => PromptTurn::Chat,
    };
    let parts = [
        (PromptPart::Prefix, common.tokens, common.bytes),
        (PromptPart::New, common.all_tokens - common.tokens, common.all_bytes - common.bytes),
    ];
    for (part, tokens, bytes) in parts {
        metrics.prompt_tokens.add(turn, part, tokens as u64);
        metrics.prompt_bytes.add(turn, part, bytes as u64);
    }
    metrics.prefix_share.observe(common.share());
}

/// A body that is passed on as it is, and ends what runs with it.
fn body_of(body: UpstreamBody, running: Option<Running>) -> ReplyBody {
    let both = (body, running);
    http_body_util::StreamBody::new(futures_util::stream::unfold(both, |(mut body, running)| async move {
        let next = body.next().await?;
        Some((next.map(http_body::Frame::data).map_err(Into::into), (body, running)))
    }))
    .boxed_unsync()
}

/// Returns the value of `x-backstory-memory`.
pub fn memory_header(recall: &Recall, fitted: Option<&Fitted>, full: bool) -> String {
    if full {
        return "skipped; reason=outbox-full".to_owned();
    }
    let report = fitted.map(|fitted| &fitted.report);
    let (mut facts, mut episodes, mut passages) =
        report.map_or((0, 0, 0), |report| (report.n_facts, report.n_episodes, report.n_passages));
    let tokens = report.map_or(0, |report| report.memory_tokens);
    if let MemoryOutcome::Pinned { n_facts, n_episodes, n_passages } = recall.outcome {
        (facts, episodes, passages) = (n_facts, n_episodes, n_passages);
    }
    let shown = fitted.is_some_and(Fitted::shows_memory);
    let outcome = if shown {
        // Most namespaces have no documents.
        let passages = if passages > 0 { format!("; passages={passages}") } else { String::new() };
        format!("hit; facts={facts}; episodes={episodes}{passages}; tokens={tokens}")
    } else {
        "miss".to_owned()
    };
    let with = |degraded: Option<&str>| degraded.map_or_else(String::new, |channel| format!("; degraded={channel}"));
    match recall.outcome {
        MemoryOutcome::Skipped(reason) => format!("skipped; reason={reason}"),
        MemoryOutcome::Timeout => "timeout".to_owned(),
        MemoryOutcome::Error => "error".to_owned(),
        MemoryOutcome::Pinned { .. } => outcome,
        MemoryOutcome::Asked { degraded } => outcome + &with(degraded),
        MemoryOutcome::NoSubject { degraded } if shown => format!("{outcome}; reason=no-subject{}", with(degraded)),
        MemoryOutcome::NoSubject { degraded } => format!("skipped; reason=no-subject{}", with(degraded)),
    }
}

/// Returns the value of `x-backstory-context`; `None` where nothing was counted.
pub fn context_header(fitted: &Fitted) -> Option<String> {
    let report = &fitted.report;
    let (counted, sent) = (report.counted?, report.sent?);
    let mut text = format!("counted={counted}; sent={sent}; cut={}", report.cut);
    if let Some(budget) = report.budget {
        text.push_str(&format!("; budget={budget}"));
    }
    if let Some(member) = report.partial {
        text.push_str(&format!("; partial={member}"));
    }
    Some(text)
}

/// Who was asked, and how often, also when nobody answered.
fn set_target(headers: &mut HeaderMap, target: &str, attempts: u32) {
    set(headers, TARGET, format!("{target}; attempts={attempts}"));
}

fn set(headers: &mut HeaderMap, name: HeaderName, value: String) {
    if let Ok(value) = HeaderValue::from_maybe_shared(Bytes::from(value)) {
        headers.insert(name, value);
    }
}
