//! One attempt at one target: what is sent, and whether the answer is the client's.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use http::header::CONTENT_TYPE;
use http::{Response, StatusCode};

use super::Shared;
use super::look::{Looked, is_sse, look_whole};
use super::prepare::Prepared;
use crate::exchange::Recalled;
use crate::telemetry::AttemptOutcome;
use crate::upstream::attempt::{self, AttemptError};
use crate::upstream::body::{BodyLimits, UpstreamBody};
use crate::upstream::headers::downward;
use crate::upstream::mono::now_ms;
use crate::upstream::overflow::{self, Overflow};
use crate::upstream::plan::Target;
use crate::upstream::retry::{On, is_error};
use crate::upstream::translate;
use crate::upstream::wait::retry_after;
use crate::wire::translate::Back;

/// A target's answer, and what was sent to get it.
pub(super) type Answer = Box<(Response<UpstreamBody>, Prepared)>;

/// How one attempt ended.
pub(super) type Outcome = Result<Answer, Failure>;

/// How long upstream asked to wait; goes with its answer.
#[derive(Clone, Copy)]
pub(super) struct AskedToWait(pub(super) Duration);

/// How one attempt ended without an answer that is the client's at once.
pub(super) enum Failure {
    /// An error; it is the client's when nothing better comes.
    Answer(Answer, On),
    /// The request is larger than the target's window.
    Overflow(Answer, Overflow),
    /// No answer.
    None(AttemptError),
}

impl Shared {
    /// Sends to one target, with the key at `key` of its ring, and looks at the answer. With `more`, another target could be tried.
    pub(super) async fn attempt(
        &self,
        request: &Recalled<()>,
        target: &Arc<Target>,
        mut prepared: Prepared,
        key: usize,
        more: bool,
    ) -> Outcome {
        let call = &request.call;
        let stream = call.payload.stream();
        if let Some(latency) = &target.latency {
            latency.asked(stream, now_ms());
        }
        let begun = Instant::now();
        let mut answer = self.send(request, target, key, &prepared).await.map_err(|e| self.none(e))?;
        let took = begun.elapsed();
        self.metrics.upstream_header_seconds.observe(took.as_secs_f64());
        let asks_usage = prepared.asked_usage || prepared.back == Some(Back::ToMessages);
        if answer.status() == StatusCode::BAD_REQUEST && asks_usage {
            answer = Box::pin(self.without_usage(request, target, key, &mut prepared, answer)).await?;
        }
        let status = answer.status();
        if is_error(status) {
            self.metrics.attempts.inc(AttemptOutcome::of_status(status.as_u16()));
            let answer = Box::pin(attempt::masked(&target.provider, &call.credential, answer)).await;
            let (answer, overflow) = Box::pin(overflow_in(answer)).await;
            let answer = Box::new((answer, prepared));
            return Err(match overflow.filter(|_| call.payload.chat().is_some()) {
                Some(overflow) => Failure::Overflow(answer, overflow),
                None => Failure::Answer(answer, On::Status(status.as_u16())),
            });
        }
        if let Some(problem) = no_answer(&answer) {
            return Err(self.none(AttemptError::Invalid { provider: target.provider.name.clone(), problem }));
        }
        if more {
            let looked = if is_sse(&answer) {
                Box::pin(self.look(target, answer)).await
            } else {
                Box::pin(look_whole(target, answer)).await
            };
            answer = match looked {
                Ok(answer) => answer,
                Err(failure) => {
                    self.metrics.attempts.inc(AttemptOutcome::ErrorEvent);
                    return Err(match failure {
                        Looked::Error(answer) => Failure::Answer(Box::new((*answer, prepared)), On::ErrorEvent),
                        Looked::Nothing(error) => Failure::None(error),
                    });
                }
            };
        }
        if let Some(latency) = &target.latency {
            latency.answered(stream, took, now_ms());
        }
        self.metrics.attempts.inc(AttemptOutcome::Ok);
        Ok(Box::new((answer, prepared)))
    }

    fn none(&self, error: AttemptError) -> Failure {
        self.metrics.attempts.inc(match error {
            AttemptError::Timeout { .. } => AttemptOutcome::Timeout,
            AttemptError::Unreachable { .. } => AttemptOutcome::Connect,
            AttemptError::Invalid { .. } => AttemptOutcome::Invalid,
        });
        Failure::None(error)
    }

    async fn send(
        &self,
        request: &Recalled<()>,
        target: &Target,
        key: usize,
        prepared: &Prepared,
    ) -> Result<Response<UpstreamBody>, AttemptError> {
        let call = &request.call;
        let provider = &target.provider;
        let headers = || provider.headers_with(&call.headers, &call.credential, key);
        let stream = call.payload.stream();
        let limits = BodyLimits {
            first: if stream { self.timeouts.first_token } else { self.timeouts.header },
            idle: self.timeouts.idle,
            total: if stream { Duration::ZERO } else { self.timeouts.total },
        };
        let (place, body) = ((&**provider, target.deployment.as_ref()), prepared.body.clone());
        let mut answer = attempt::post(place, prepared.kind, headers, body, self.timeouts.header, limits).await?;
        // Read before the client's headers are picked: a date is read against upstream's own clock.
        if is_error(answer.status())
            && let Some(wait) = retry_after(answer.headers(), call.stamp.at)
        {
            answer.extensions_mut().insert(AskedToWait(wait));
        }
        *answer.headers_mut() = downward(answer.headers());
        // From here on everybody reads the client's dialect.
        Ok(translate::back(answer, prepared.back))
    }

    /// Asks once more without `stream_options`, when that is what the target complains about, and remembers it.
    async fn without_usage(
        &self,
        request: &Recalled<()>,
        target: &Arc<Target>,
        key: usize,
        prepared: &mut Prepared,
        answer: Response<UpstreamBody>,
    ) -> Result<Response<UpstreamBody>, Failure> {
        let (parts, mut body) = answer.into_parts();
        let said = body.read_error().await;
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
        self.send(request, target, key, prepared).await.map_err(|e| self.none(e))
    }
}

/// Why a reply that is no error is no answer either: a redirect, which is never followed since it would carry the key
/// to a host that nobody named, or a page of HTML. The texts may be shown to the client.
fn no_answer(answer: &Response<UpstreamBody>) -> Option<String> {
    let status = answer.status();
    if status.is_redirection() {
        let status = status.as_u16();
        return Some(format!("answered with a redirect ({status}), which is not followed; check its base_url"));
    }
    let kind = answer.headers().get(CONTENT_TYPE)?.to_str().ok()?;
    let kind = kind.split(';').next().unwrap_or_default().trim();
    let is_page = ["text/html", "application/xhtml+xml"].iter().any(|page| kind.eq_ignore_ascii_case(page));
    is_page.then(|| "answered with a page of HTML instead of JSON; check its base_url".to_owned())
}

/// Looks whether an error is about the window; its body can be read as before.
async fn overflow_in(answer: Response<UpstreamBody>) -> (Response<UpstreamBody>, Option<Overflow>) {
    if !overflow::is_worth_reading(answer.status()) {
        return (answer, None);
    }
    let (parts, mut body) = answer.into_parts();
    let said = body.read_error().await;
    let overflow = overflow::recognise(parts.status, &said);
    body.put_back(said);
    (Response::from_parts(parts, body), overflow)
}
