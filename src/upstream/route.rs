//! The service that walks the plan: fit, send, look, go on or stay.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use http::header::CONTENT_TYPE;
use http::{Method, Response, StatusCode};
use tower::Service;
use tracing::Instrument;

use super::attempt::{self, AttemptError, MAX_ERROR_BYTES, Next, judge};
use super::body::{BodyLimits, UpstreamBody, UpstreamBodyError};
use super::headers::{downward, upward};
use super::health::{Failed, retry_after};
use super::passthrough::unanswered;
use super::plan::{Routes, Target};
use super::provider::Auth;
use super::summaries::{Place, Summaries};
use crate::base::{ErrorKind, GatewayError};
use crate::context::{self, Digests, FitError, FitInput, Fitted, Trails};
use crate::conversation::Chain;
use crate::exchange::{Call, Payload, Recalled, Routed};
use crate::telemetry::{AttemptOutcome, Metrics, names};
use crate::tokens::Counter;
use crate::wire::{FirstEvent, fault, first_event, scan};

/// Requests from this size on are fitted off the async threads, in bytes: counting runs at about 15 MB/s.
const FIT_INLINE_BYTES: usize = 16 * 1024;
/// Digests that a preview may make, in bytes.
const PREVIEW_DIGEST_BYTES: u64 = 1024 * 1024;
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
    timeouts: Timeouts,
    retry: Retry,
    metrics: Arc<Metrics>,
    started: Instant,
}

/// A target's answer, and what was sent to get it.
type Answer = Box<(Response<UpstreamBody>, Prepared)>;

/// How one attempt ended without an answer for the client.
enum Failure {
    /// An answer that is worth trying elsewhere; it is the client's when nothing better comes.
    Answer(Answer),
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
    ask_usage: bool,
    figures: bool,
    /// Whether memory takes part: then our own fence is taken out of what came back.
    memory: bool,
}

impl Route {
    /// Walks the plans of `routes`. With `summaries`, digests have them.
    #[must_use]
    pub fn new(
        routes: Arc<Routes>,
        counter: Arc<Counter>,
        digests: Arc<Digests>,
        trails: Arc<Trails>,
        summaries: Option<Arc<dyn Summaries>>,
        timeouts: Timeouts,
        retry: Retry,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self(Arc::new(Shared {
            routes,
            counter,
            digests,
            trails,
            summaries,
            timeouts,
            retry,
            metrics,
            started: Instant::now(),
        }))
    }

    /// Returns what would be sent to the first target, and its label; nobody is called.
    ///
    /// # Errors
    /// As a real request: an unknown model, or one that cannot be made to fit.
    pub async fn preview(&self, request: &Recalled<()>) -> Result<(Fitted, String), GatewayError> {
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
    async fn preview(&self, request: &Recalled<()>) -> Result<(Fitted, String), GatewayError> {
        let call = &request.call;
        let plan = self.routes.plan(&call.principal, call.payload.model(), spread(call))?;
        let target = plan.first().ok_or_else(|| GatewayError::internal("a plan without targets"))?;
        // What is settled or made on the way to a preview stays in here.
        let digests = Arc::new(Digests::new(PREVIEW_DIGEST_BYTES));
        let fitted = self.prepare(request, target, &digests, true).await?.fitted;
        let fitted =
            fitted.ok_or_else(|| GatewayError::new(ErrorKind::BadRequest, "only chat requests can be explained"))?;
        Ok((fitted, target.label.clone()))
    }

    async fn run(&self, request: &Recalled<()>) -> Result<Routed<UpstreamBody>, GatewayError> {
        let call = &request.call;
        let plan = self.routes.plan(&call.principal, call.payload.model(), spread(call))?;
        let plan = self.not_cooling(plan)?;
        let mut attempts = 0;
        let mut answered: Option<(Answer, &Arc<Target>)> = None;
        let mut silent: Option<AttemptError> = None;
        let mut refused: Option<GatewayError> = None;

        for (at, target) in plan.iter().enumerate() {
            let more = at + 1 < plan.len();
            let prepared = match self.prepare(request, target, &self.digests, false).await {
                Ok(prepared) => prepared,
                // A target with a larger window may still take it.
                Err(error) if error.kind == ErrorKind::ContextLength && more => {
                    refused = Some(error);
                    continue;
                }
                Err(error) => return Err(error),
            };
            for repeat in 0..self.retry.attempts.max(1) {
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
                let outcome = self.attempt(request, target, prepared.clone(), more).instrument(span).await;
                match outcome {
                    Ok((response, prepared)) => {
                        target.health.succeeded();
                        if response.status().is_success() {
                            self.look_ahead(request, &prepared);
                        }
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
        Routed {
            response,
            fitted: prepared.fitted,
            target: target.label.clone(),
            attempts,
            withhold_usage: prepared.asked_usage,
        }
    }

    /// Makes the body for one target: counts, cuts and splices. With `look`, nothing is settled by it.
    async fn prepare(
        &self,
        request: &Recalled<()>,
        target: &Arc<Target>,
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
        let how = FitHow { chain: chain.clone(), digests: Arc::clone(digests), ask_usage, figures: counted, memory };
        let mut fitted = self.fit(request, target, how.clone()).await?;
        if let (Some(summaries), Some(chain)) = (summaries, &chain)
            && fitted.report.cut > 0
        {
            let first_kept = fitted.report.first_kept;
            if summaries.settle(Place { call, recall: &request.recall, chain, first_kept }, digests, look).await {
                fitted = self.fit(request, target, how).await?;
            }
        }
        Ok(Prepared { body: fitted.body.clone(), fitted: Some(fitted), asked_usage: ask_usage, chain })
    }

    /// Fits a chat request to a target; a large one off the async threads.
    async fn fit(&self, request: &Recalled<()>, target: &Arc<Target>, how: FitHow) -> Result<Fitted, GatewayError> {
        let (call, recall) = (Arc::clone(&request.call), Arc::clone(&request.recall));
        let (target, counter) = (Arc::clone(target), Arc::clone(&self.counter));
        let trails = Arc::clone(&self.trails);
        let large = request.call.payload.chat().is_some_and(|chat| chat.body().len() >= FIT_INLINE_BYTES);
        let fit = move || {
            let Payload::Chat(chat) = &call.payload else {
                unreachable!("only chat is fitted");
            };
            let target = context::Target { ask_usage: how.ask_usage, ..target.fit.clone() };
            context::fit(&FitInput {
                request: chat,
                chain: how.chain.as_deref(),
                notes: &recall.notes,
                target: &target,
                policy: &call.policy,
                budget_header: call.budget_header,
                counter: &counter,
                digests: Some(&how.digests),
                trails: how.figures.then_some(&*trails),
                figures: how.figures,
                strip_own_fence: how.memory,
            })
        };
        let fitted =
            if large { tokio::task::spawn_blocking(fit).await.map_err(GatewayError::internal)? } else { fit() };
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
        let url = provider.url_for(&call.payload);
        let (authorization, own) = provider.authorization(&call.credential);
        let headers = upward(&call.headers, own, authorization, &provider.headers);
        let stream = call.payload.stream();
        let limits = BodyLimits {
            first: if stream { self.timeouts.first_token } else { self.timeouts.header },
            idle: self.timeouts.idle,
            total: if stream { Duration::ZERO } else { self.timeouts.total },
        };
        let mut answer =
            attempt::send(provider, Method::POST, url, headers, attempt::json(body), self.timeouts.header, limits)
                .await?;
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
