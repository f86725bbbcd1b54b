//! The service that walks the plan: fit, send, look, go on or stay.

mod look;
mod prepare;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Response, StatusCode};
use tokio::sync::Semaphore;
use tower::Service;
use tracing::Instrument;

use look::{Looked, is_sse, look_whole};
use prepare::Prepared;

use super::attempt::{self, AttemptError, MAX_ERROR_BYTES, Next, judge};
use super::body::{BodyLimits, UpstreamBody};
use super::headers::{downward, upward};
use super::health::{Failed, retry_after};
use super::learned::{Known, Learned};
use super::overflow::{self, Overflow};
use super::passthrough::unanswered;
use super::plan::{Routes, Target};
use super::provider::Auth;
use super::summaries::Summaries;
use crate::base::{ErrorKind, GatewayError};
use crate::context::{Digests, Fitted, Trails};
use crate::exchange::{Call, Recalled, Routed};
use crate::telemetry::{AttemptOutcome, Metrics, OverflowOutcome, names};
use crate::tokens::Counter;

/// Digests that a preview may make, in bytes.
const PREVIEW_DIGEST_BYTES: u64 = 1024 * 1024;
/// Of the cores, this share at most counts large requests at a time: the rest is for everyone else.
const COUNTING_SHARE: usize = 2;

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
