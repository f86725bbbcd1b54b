//! The service that walks the plan: fit, send, look, go on or stay.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use http::header::CONTENT_TYPE;
use http::{Response, StatusCode};
use tokio::sync::Semaphore;
use tower::Service;
use tracing::Instrument;

use super::attempt::{self, AttemptError, MAX_ERROR_BYTES, Next, judge};
use super::body::{BodyLimits, UpstreamBody, UpstreamBodyError};
use super::headers::{downward, upward};
use super::health::{Failed, retry_after};
use super::learned::{Known, Learned};
use super::overflow::{self, Overflow};
use super::passthrough::unanswered;
use super::plan::{Routes, Target};
use super::provider::Auth;
use super::summaries::{Place, Summaries};
use crate::base::{ErrorKind, GatewayError};
use crate::context::{self, Digests, FitError, FitInput, Fitted, Trails};
use crate::conversation;
use crate::conversation::Chain;
use crate::exchange::{Call, Payload, Recalled, Routed};
use crate::memory::Scope;
use crate::telemetry::{AttemptOutcome, Metrics, OverflowOutcome, names};
use crate::tokens::Counter;
use crate::wire::{FirstEvent, fault, first_event, scan};

/// Requests from this size on are fitted off the async threads, in bytes: counting runs at about 15 MB/s.
const FIT_INLINE_BYTES: usize = 16 * 1024;
/// Digests that a preview may make, in bytes.
const PREVIEW_DIGEST_BYTES: u64 = 1024 * 1024;
/// Of the cores, this share at most counts large requests at a time: the rest is for everyone else.
const COUNTING_SHARE: usize = 2;
/// How much of a stream is looked at before it is passed on.
const MAX_LOOK_BYTES: usize = 64 * 1024;

/// How long upstream may take. Zero = for ever.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// Until the header of the answer.
    pub header: Duration,
    /// From the header of a stream to its first bytes.
    pub first_token: Duration,
    /// Between bytes.
    pub idle: Duration,
    /// For a whole answer that is not streamed.
    pub total: Duration,
}

/// How often one target is tried.
#[derive(Clone, Copy, Debug)]
pub struct Retry {
    /// Tries per target; 1 = no repeat.
    pub attempts: u32,
    /// How long a target that failed is left alone, when it does not say so itself.
    pub cooldown: Duration,
}

/// The innermost service of the stack.
#[derive(Clone, Debug)]
pub struct Route(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    routes: Arc<Routes>,
    counter: Arc<Counter>,
    digests: Arc<Digests>,
    trails: Arc<Trails>,
    summaries: Option<Arc<dyn Summaries>>,
    learned: Learned,
    timeouts: Timeouts,
    retry: Retry,
    metrics: Arc<Metrics>,
    started: Instant,
    /// Large requests wait here for their turn to be counted.
    counting: Arc<Semaphore>,
}

/// What would be sent to the first target, and what is known of it.
#[derive(Debug)]
pub struct Preview {
    /// What would be sent.
    pub fitted: Fitted,
    /// The target.
    pub target: Arc<Target>,
    /// What its answers have taught.
    pub known: Known,
}

/// What routing works with beside its plans.
#[derive(Clone, Debug)]
pub struct Services {
    /// Counts tokens.
    pub counter: Arc<Counter>,
    /// Digests of what was cut.
    pub digests: Arc<Digests>,
    /// How the last request of each conversation was sent.
    pub trails: Arc<Trails>,
    /// Who has parts of conversations summed up.
    pub summaries: Option<Arc<dyn Summaries>>,
    /// What answers teach about targets.
    pub learned: Learned,
    /// Counts everything else.
    pub metrics: Arc<Metrics>,
}

/// A target's answer, and what was sent to get it.
type Answer = Box<(Response<UpstreamBody>, Prepared)>;

/// How one attempt ended without an answer for the client.
enum Failure {
    /// An answer that is worth trying elsewhere; it is the client's when nothing better comes.
    Answer(Answer),
    /// The request is larger than the target's window.
    Overflow(Answer, Overflow),
    /// No answer.
    None(AttemptError),
}

/// What is sent to a target.
#[derive(Clone)]
struct Prepared {
    body: Bytes,
    fitted: Option<Fitted>,
    /// We ask for usage although the client did not.
    asked_usage: bool,
    /// The conversation's hashes, where there is a use for them.
    chain: Option<Arc<Chain>>,
}

/// How a request is fitted.
#[derive(Clone)]
struct FitHow {
    chain: Option<Arc<Chain>>,
    digests: Arc<Digests>,
    target: Arc<context::Target>,
    figures: bool,
    /// Whether memory takes part: then our own fence is taken out of what came back.
    memory: bool,
}

impl Route {
    /// Walks the plans of `routes`. With `summaries`, digests have them.
    #[must_use]
    pub fn new(routes: Arc<Routes>, services: Services, timeouts: Timeouts, retry: Retry) -> Self {
        let Services { counter, digests, trails, summaries, learned, metrics } = services;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self(Arc::new(Shared {
            routes,
            counter,
            digests,
            trails,
            summaries,
            learned,
            timeouts,
            retry,
            metrics,
            started: Instant::now(),
            counting: Arc::new(Semaphore::new((cores / COUNTING_SHARE).max(1))),
        }))
    }

    /// Returns what would be sent to the first target; nobody is called.
    ///
    /// # Errors
    /// As a real request: an unknown model, or one that cannot be made to fit.
    pub async fn preview(&self, request: &Recalled<()>) -> Result<Preview, GatewayError> {
        self.0.preview(request).await
    }
}

impl Service<Recalled<()>> for Route {
    type Response = Routed<UpstreamBody>;
    type Error = GatewayError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, GatewayError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), GatewayError>> {
        // Readiness is decided at the top, by `Admit`; an attempt has no queue of its own.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Recalled<()>) -> Self::Future {
        let shared = Arc::clone(&self.0);
        Box::pin(async move { shared.run(&request).await })
    }
}

impl Shared {
    /// What would be sent to the first target, for `explain`.
    async fn preview(&self, request: &Recalled<()>) -> Result<Preview, GatewayError> {
        let call = &request.call;
        let plan = self.routes.plan(&call.principal, call.payload.model(), spread(call))?;
        let target = plan.first().ok_or_else(|| GatewayError::internal("a plan without targets"))?;
        let known = self.learned.known(target, call.stamp.at);
        // What is settled or made on the way to a preview stays in here.
        let digests = Arc::new(Digests::new(PREVIEW_DIGEST_BYTES));
        let fitted = self.prepare(request, target, &digests, true).await?.fitted;
        let fitted =
            fitted.ok_or_else(|| GatewayError::new(ErrorKind::BadRequest, "only chat requests can be explained"))?;
        Ok(Preview { fitted, target: Arc::clone(target), known })
    }

    async fn run(&self, request: &Recalled<()>) -> Result<Routed<UpstreamBody>, GatewayError> {
        let call = &request.call;
        let plan = self.routes.plan(&call.principal, call.payload.model(), spread(call))?;
        let plan = self.not_cooling(plan)?;
        let mut attempts = 0;
        let mut answered: Option<(Answer, &Arc<Target>)> = None;
        let mut silent: Option<AttemptError> = None;
        let mut refused: Option<GatewayError> = None;
        // Windows up to this one are too small.
        let mut too_small: Option<usize> = None;

        for (at, target) in plan.iter().enumerate() {
            let more = at + 1 < plan.len();
            if !self.may_hold(target, too_small, call) {
                continue;
            }
            let mut prepared = match self.prepare(request, target, &self.digests, false).await {
                Ok(prepared) => Some(prepared),
                // A target with a larger window may still take it.
                Err(error) if error.kind == ErrorKind::ContextLength && more => {
                    refused = Some(error);
                    continue;
                }
                Err(error) => return Err(error),
            };
            let tries = self.retry.attempts.max(1);
            let mut refitted = false;
            let mut repeat = 0;
            while repeat < tries {
                if repeat > 0 {
                    tokio::time::sleep(backoff(repeat, spread(call))).await;
                }
                attempts += 1;
                if attempts == 1 {
                    self.metrics.overhead_seconds.observe(call.stamp.started.elapsed().as_secs_f64());
                }
                let span = tracing::debug_span!(
                    names::ATTEMPT,
                    gen_ai.operation.name = call.payload.operation(),
                    gen_ai.provider.name = target.provider.name,
                    gen_ai.request.model = target.label,
                    backstory.attempt = attempts,
                );
                // Kept only for a repeat that may come.
                let sent = if repeat + 1 < tries { prepared.clone() } else { prepared.take() };
                let Some(sent) = sent else { break };
                let outcome = self.attempt(request, target, sent, more).instrument(span).await;
                match outcome {
                    Ok((response, prepared)) => {
                        target.health.succeeded();
                        if response.status().is_success() {
                            self.look_ahead(request, &prepared);
                        }
                        return Ok(self.routed(response, prepared, target, attempts));
                    }
                    Err(Failure::Overflow(answer, overflow)) => {
                        let counted = answer.1.fitted.as_ref().and_then(|fitted| fitted.report.sent_uncorrected);
                        self.learned.overflowed(target, &overflow, counted, call.stamp.at);
                        let window = self.window(target, call).or(overflow.window);
                        if plan[at + 1..].iter().any(|next| self.may_hold(next, window.or(Some(0)), call)) {
                            self.metrics.overflows.inc(OverflowOutcome::NextTarget);
                            too_small = window.or(too_small);
                            answered = Some((answer, target));
                            break;
                        }
                        if !std::mem::replace(&mut refitted, true)
                            && let Some(again) = self.refit(request, target, &answer.1, &overflow).await
                        {
                            self.metrics.overflows.inc(OverflowOutcome::Refitted);
                            prepared = Some(again);
                            continue;
                        }
                        self.metrics.overflows.inc(OverflowOutcome::Passed);
                        let (response, prepared) = *answer;
                        return Ok(self.routed(response, prepared, target, attempts));
                    }
                    Err(Failure::Answer(answer)) => {
                        self.note_failure(target, Some(&answer.0), plan.len());
                        answered = Some((answer, target));
                    }
                    Err(Failure::None(error)) => {
                        self.note_failure(target, None, plan.len());
                        silent = Some(error);
                    }
                }
                repeat += 1;
            }
        }
        // An upstream's own words are worth more than ours, also when a later target said nothing.
        if let Some((answer, target)) = answered {
            let (response, prepared) = *answer;
            return Ok(self.routed(response, prepared, target, attempts));
        }
        Err(match (silent, refused) {
            (Some(error), _) => unanswered(&error),
            (None, Some(refused)) => refused,
            (None, None) => GatewayError::internal("a plan without targets"),
        })
    }

    /// The window of a target that is in force.
    fn window(&self, target: &Target, call: &Call) -> Option<usize> {
        target.window(self.learned.known(target, call.stamp.at).window)
    }

    /// Whether a target may hold what windows up to `too_small` did not: its window is larger, or not known.
    fn may_hold(&self, target: &Target, too_small: Option<usize>, call: &Call) -> bool {
        too_small.is_none_or(|small| self.window(target, call).is_none_or(|window| window > small))
    }

    /// Leaves out the targets that cool. A route with one target never cools: its upstream's own answer is the best there is.
    fn not_cooling(&self, plan: Vec<Arc<Target>>) -> Result<Vec<Arc<Target>>, GatewayError> {
        if plan.len() < 2 {
            return Ok(plan);
        }
        let now = self.now_ms();
        let cooling: Vec<_> = plan.iter().map(|target| target.health.cooling(now)).collect();
        if cooling.iter().all(Option::is_some) {
            let soonest = cooling.iter().flatten().map(|(left, _)| *left).min().unwrap_or_default();
            let limited = cooling.iter().flatten().all(|(_, limited)| *limited);
            let kind = if limited { ErrorKind::RateLimited } else { ErrorKind::Overloaded };
            let public = "every target of this model failed a moment ago and is left alone for now";
            return Err(GatewayError::new(kind, public).with_retry_after(soonest));
        }
        Ok(plan.into_iter().zip(cooling).filter(|(_, cooling)| cooling.is_none()).map(|(target, _)| target).collect())
    }

    fn note_failure(&self, target: &Target, answer: Option<&Response<UpstreamBody>>, n_targets: usize) {
        // A target that is the only one left is not cooled: there would be nobody to go on to.
        if n_targets < 2 {
            return;
        }
        let limited = answer.is_some_and(|answer| answer.status() == StatusCode::TOO_MANY_REQUESTS);
        let why = if limited { Failed::Limited } else { Failed::Otherwise };
        let wait = answer.and_then(|answer| retry_after(answer.headers()));
        target.health.failed(why, wait, self.retry.cooldown, self.now_ms());
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn routed(
        &self,
        response: Response<UpstreamBody>,
        prepared: Prepared,
        target: &Target,
        attempts: u32,
    ) -> Routed<UpstreamBody> {
        // What was sent is not needed any more, however long the reply takes.
        let fitted = prepared.fitted.map(|fitted| Fitted { body: Bytes::new(), ..fitted });
        Routed { response, fitted, target: target.label.clone(), attempts, withhold_usage: prepared.asked_usage }
    }

    /// Makes the body for one target: counts, cuts and splices. With `look`, nothing is settled by it.
    async fn prepare(
        &self,
        request: &Recalled<()>,
        target: &Arc<Target>,
        digests: &Arc<Digests>,
        look: bool,
    ) -> Result<Prepared, GatewayError> {
        let known = self.learned.known(target, request.call.stamp.at);
        let fit = context::Target {
            window: target.window(known.window),
            correction: known.correction.ratio,
            overhead: known.correction.overhead.round() as usize,
            ..target.fit.clone()
        };
        self.prepare_for(request, target, fit, digests, look).await
    }

    /// Makes the body anew for a target that found it larger than its window; `None` when nothing would be different.
    async fn refit(
        &self,
        request: &Recalled<()>,
        target: &Arc<Target>,
        sent: &Prepared,
        overflow: &Overflow,
    ) -> Option<Prepared> {
        let known = self.learned.known(target, request.call.stamp.at);
        let told = overflow.window.filter(|_| !target.window_is_configured);
        let counted = sent.fitted.as_ref()?.report.sent_uncorrected;
        // What upstream counted of this very request is worth more than what was learned from others.
        let exactly = counted.zip(overflow.sent).map(|(ours, theirs)| theirs as f64 / ours.max(1) as f64);
        let fit = context::Target {
            window: [target.window(known.window), told].into_iter().flatten().min(),
            correction: exactly.map_or(known.correction.ratio, |ratio| ratio.max(known.correction.ratio)),
            overhead: known.correction.overhead.round() as usize,
            ..target.fit.clone()
        };
        let again = self.prepare_for(request, target, fit, &self.digests, false).await.ok()?;
        (again.body != sent.body).then_some(again)
    }

    async fn prepare_for(
        &self,
        request: &Recalled<()>,
        target: &Arc<Target>,
        fit: context::Target,
        digests: &Arc<Digests>,
        look: bool,
    ) -> Result<Prepared, GatewayError> {
        let call = &request.call;
        let chat = match &call.payload {
            Payload::Embeddings(embeddings) => {
                let body =
                    target.fit.model.as_ref().map_or_else(|| embeddings.body.clone(), |m| embeddings.with_model(m));
                return Ok(Prepared { body, fitted: None, asked_usage: false, chain: None });
            }
            Payload::Chat(chat) => chat,
        };
        let memory = call.identity.memory.read || call.identity.memory.write;
        let counted = memory
            || call.principal.limits.tokens_per_minute.is_some()
            || call.policy.max_input_tokens > 0
            || call.budget_header.is_some();
        let ask_usage = chat.stream()
            && counted
            && chat.include_usage() != Some(true)
            && !target.refuses_usage.load(Ordering::Relaxed);
        // A conversation that nobody's budget limits may still grow out of its target's window.
        let summaries = self.summaries.as_ref().filter(|_| counted || chat.body().len() >= FIT_INLINE_BYTES);
        let chain = match (&request.recall.chain, summaries) {
            (None, Some(summaries)) => summaries.chain(call),
            (chain, _) => chain.clone(),
        };
        let target = Arc::new(context::Target { ask_usage, ..fit });
        let how = FitHow { chain: chain.clone(), digests: Arc::clone(digests), target, figures: counted, memory };
        let mut fitted = self.fit(request, how.clone()).await?;
        if let (Some(summaries), Some(chain)) = (summaries, &chain)
            && fitted.report.cut > 0
        {
            let first_kept = fitted.report.first_kept;
            if summaries.settle(Place { call, recall: &request.recall, chain, first_kept }, digests, look).await {
                fitted = self.fit(request, how).await?;
            }
        }
        Ok(Prepared { body: fitted.body.clone(), fitted: Some(fitted), asked_usage: ask_usage, chain })
    }

    /// Fits a chat request to a target; a large one off the async threads.
    async fn fit(&self, request: &Recalled<()>, how: FitHow) -> Result<Fitted, GatewayError> {
        let (call, recall) = (Arc::clone(&request.call), Arc::clone(&request.recall));
        let (counter, trails) = (Arc::clone(&self.counter), Arc::clone(&self.trails));
        let large = request.call.payload.chat().is_some_and(|chat| chat.body().len() >= FIT_INLINE_BYTES);
        let fit = move || {
            let Payload::Chat(chat) = &call.payload else {
                unreachable!("only chat is fitted");
            };
            // Without a subject no memory is asked, but what was cut is still known again by its state (design, doubt 3).
            let own = (how.figures && how.chain.is_none()).then(|| {
                let (tenant, namespace) = (&call.principal.tenant, &call.identity.namespace);
                conversation::chain(&Scope::new(Arc::clone(tenant), Arc::clone(namespace), ""), chat)
            });
            context::fit(&FitInput {
                request: chat,
                chain: how.chain.as_deref().or(own.as_ref()),
                notes: &recall.notes,
                target: &how.target,
                policy: &call.policy,
                budget_header: call.budget_header,
                counter: &counter,
                digests: Some(&how.digests),
                trails: how.figures.then_some(&*trails),
                figures: how.figures,
                strip_own_fence: how.memory,
            })
        };
        let fitted = if large {
            // Held by the work itself: a client that leaves does not stop it.
            let turn = Arc::clone(&self.counting).acquire_owned().await.map_err(GatewayError::internal)?;
            let fit = move || {
                let _turn = turn;
                fit()
            };
            tokio::task::spawn_blocking(fit).await.map_err(GatewayError::internal)?
        } else {
            fit()
        };
        fitted.map_err(|error| match error {
            FitError::ContextLength { message, .. } => {
                GatewayError::new(ErrorKind::ContextLength, message).with_param("messages")
            }
        })
    }

    /// Wishes for a summary of what the next cut will drop, when that is near.
    fn look_ahead(&self, request: &Recalled<()>, prepared: &Prepared) {
        let next = prepared.fitted.as_ref().and_then(|fitted| fitted.report.next_first_kept);
        if let (Some(summaries), Some(chain), Some(first_kept)) = (&self.summaries, &prepared.chain, next) {
            summaries.want(Place { call: &request.call, recall: &request.recall, chain, first_kept });
        }
    }

    /// Sends to one target and decides whether its answer is the client's.
    async fn attempt(
        &self,
        request: &Recalled<()>,
        target: &Arc<Target>,
        mut prepared: Prepared,
        more: bool,
    ) -> Result<(Response<UpstreamBody>, Prepared), Failure> {
        let call = &request.call;
        let begun = Instant::now();
        let mut answer = self.send(request, target, prepared.body.clone()).await.map_err(|error| {
            let timeout = matches!(error, AttemptError::Timeout { .. });
            self.metrics.attempts.inc(if timeout { AttemptOutcome::Timeout } else { AttemptOutcome::Connect });
            Failure::None(error)
        })?;
        self.metrics.upstream_header_seconds.observe(begun.elapsed().as_secs_f64());
        if answer.status() == StatusCode::BAD_REQUEST && prepared.asked_usage {
            answer = self.without_usage(request, target, &mut prepared, answer).await?;
        }
        let status = answer.status();
        if status.is_client_error() || status.is_server_error() {
            self.metrics.attempts.inc(AttemptOutcome::of_status(status.as_u16()));
            let answer = attempt::masked(&target.provider, &call.credential, answer).await;
            let (answer, overflow) = overflow_in(answer).await;
            if let Some(overflow) = overflow.filter(|_| call.payload.chat().is_some()) {
                return Err(Failure::Overflow(Box::new((answer, prepared)), overflow));
            }
            let client_key = matches!(target.provider.auth, Auth::Client);
            return match judge(status, client_key) {
                Next::GoOn => Err(Failure::Answer(Box::new((answer, prepared)))),
                Next::Stay => Ok((answer, prepared)),
            };
        }
        if more {
            let looked = if call.payload.stream() && is_sse(&answer) {
                self.look(target, answer).await
            } else {
                look_whole(target, answer).await
            };
            answer = match looked {
                Ok(answer) => answer,
                Err(failure) => {
                    self.metrics.attempts.inc(AttemptOutcome::ErrorEvent);
                    return Err(match failure {
                        Looked::Error(answer) => Failure::Answer(Box::new((*answer, prepared))),
                        Looked::Nothing(error) => Failure::None(error),
                    });
                }
            };
        }
        self.metrics.attempts.inc(AttemptOutcome::Ok);
        Ok((answer, prepared))
    }

    async fn send(
        &self,
        request: &Recalled<()>,
        target: &Target,
        body: Bytes,
    ) -> Result<Response<UpstreamBody>, AttemptError> {
        let call = &request.call;
        let provider = &target.provider;
        let (authorization, own) = provider.authorization(&call.credential);
        let headers = upward(&call.headers, own, authorization, &provider.headers);
        let stream = call.payload.stream();
        let limits = BodyLimits {
            first: if stream { self.timeouts.first_token } else { self.timeouts.header },
            idle: self.timeouts.idle,
            total: if stream { Duration::ZERO } else { self.timeouts.total },
        };
        let mut answer = attempt::post(provider, &call.payload, headers, body, self.timeouts.header, limits).await?;
        *answer.headers_mut() = downward(answer.headers());
        Ok(answer)
    }

    /// Asks once more without `stream_options`, when that is what the target complains about, and remembers it.
    async fn without_usage(
        &self,
        request: &Recalled<()>,
        target: &Arc<Target>,
        prepared: &mut Prepared,
        answer: Response<UpstreamBody>,
    ) -> Result<Response<UpstreamBody>, Failure> {
        let (parts, mut body) = answer.into_parts();
        let said = body.read_up_to(MAX_ERROR_BYTES).await;
        if memchr::memmem::find(&said, b"stream_options").is_none() {
            body.put_back(said);
            return Ok(Response::from_parts(parts, body));
        }
        target.refuses_usage.store(true, Ordering::Relaxed);
        tracing::warn!(target = target.label, "target refuses stream_options; it is not asked for usage again");
        match self.prepare(request, target, &self.digests, false).await {
            Ok(again) => *prepared = again,
            Err(_) => {
                body.put_back(said);
                return Ok(Response::from_parts(parts, body));
            }
        }
        self.send(request, target, prepared.body.clone()).await.map_err(Failure::None)
    }

    /// Looks at the first event of a stream before it is the client's: while another target could be tried, an error or
    /// a silence before the first content is a failure (design, section 10 and doubt 9).
    async fn look(&self, target: &Target, answer: Response<UpstreamBody>) -> Result<Response<UpstreamBody>, Looked> {
        let (parts, mut body) = answer.into_parts();
        let mut seen = BytesMut::new();
        let due =
            (!self.timeouts.first_token.is_zero()).then(|| tokio::time::Instant::now() + self.timeouts.first_token);
        loop {
            let next = match due {
                Some(due) => tokio::time::timeout_at(due, body.next()).await.map_err(|_| self.silent(target)),
                None => Ok(body.next().await),
            };
            match next.map_err(Looked::Nothing)? {
                Some(Ok(bytes)) => seen.extend_from_slice(&bytes),
                Some(Err(error)) => return Err(Looked::Nothing(broken(target, &error))),
                None if matches!(first_event(&seen), FirstEvent::NeedMore | FirstEvent::RoleOnly) => {
                    return Err(Looked::Nothing(AttemptError::Unreachable {
                        provider: target.provider.name.clone(),
                        reason: "its stream ended before it began".to_owned(),
                    }));
                }
                None => break,
            }
            match first_event(&seen) {
                FirstEvent::NeedMore | FirstEvent::RoleOnly if seen.len() < MAX_LOOK_BYTES => {}
                FirstEvent::Error { .. } => {
                    body.put_back(seen.freeze());
                    return Err(Looked::Error(Box::new(Response::from_parts(parts, body))));
                }
                _ => break,
            }
        }
        body.put_back(seen.freeze());
        Ok(Response::from_parts(parts, body))
    }

    fn silent(&self, target: &Target) -> AttemptError {
        AttemptError::Timeout { provider: target.provider.name.clone(), after: self.timeouts.first_token }
    }
}

/// Looks whether an error is about the window; its body can be read as before.
async fn overflow_in(answer: Response<UpstreamBody>) -> (Response<UpstreamBody>, Option<Overflow>) {
    if !overflow::is_worth_reading(answer.status()) {
        return (answer, None);
    }
    let (parts, mut body) = answer.into_parts();
    let said = body.read_up_to(MAX_ERROR_BYTES).await;
    let overflow = overflow::recognise(parts.status, &said);
    body.put_back(said);
    (Response::from_parts(parts, body), overflow)
}

/// Looks into a reply that is no stream, for an error inside a 200. Errors are short: a longer reply passes as it comes.
async fn look_whole(target: &Target, answer: Response<UpstreamBody>) -> Result<Response<UpstreamBody>, Looked> {
    let (parts, mut body) = answer.into_parts();
    if body.remaining().is_some_and(|n| n > MAX_ERROR_BYTES as u64) {
        return Ok(Response::from_parts(parts, body));
    }
    let mut said = BytesMut::new();
    let mut whole = false;
    while !whole && said.len() <= MAX_ERROR_BYTES {
        match body.next().await {
            Some(Ok(bytes)) => said.extend_from_slice(&bytes),
            Some(Err(error)) => return Err(Looked::Nothing(broken(target, &error))),
            None => whole = true,
        }
    }
    let text = std::str::from_utf8(&said).ok().filter(|text| whole && scan::validate(text).is_ok());
    let is_error = text.and_then(fault::upstream_error).is_some();
    body.put_back(said.freeze());
    let answer = Response::from_parts(parts, body);
    if is_error { Err(Looked::Error(Box::new(answer))) } else { Ok(answer) }
}

/// A reply that broke off before any of it was the client's.
fn broken(target: &Target, error: &UpstreamBodyError) -> AttemptError {
    let provider = target.provider.name.clone();
    match error {
        UpstreamBodyError::Idle(after) | UpstreamBodyError::Total(after) => {
            AttemptError::Timeout { provider, after: *after }
        }
        UpstreamBodyError::Broken(_) => AttemptError::Unreachable { provider, reason: error.to_string() },
    }
}

/// Why the first look at a reply was a disappointment.
enum Looked {
    /// It is an error, or begins with one.
    Error(Box<Response<UpstreamBody>>),
    /// It does not begin.
    Nothing(AttemptError),
}

fn is_sse(answer: &Response<UpstreamBody>) -> bool {
    answer.headers().get(CONTENT_TYPE).and_then(|v| v.to_str().ok()).is_some_and(|t| t.starts_with("text/event-stream"))
}

/// A number that differs between requests: the random part of its id.
fn spread(call: &Call) -> u64 {
    call.stamp.id.0 as u64
}

/// How long to wait before the `repeat`-th repeat: 100 ms doubling up to 2 s, less up to half by a number that differs between requests.
fn backoff(repeat: u32, spread: u64) -> Duration {
    let base = 100_u64.saturating_mul(1 << repeat.saturating_sub(1).min(5)).min(2_000);
    let jitter = spread % (base / 2 + 1);
    Duration::from_millis(base - jitter)
}
