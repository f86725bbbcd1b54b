//! One attempt at one target: what is sent, and whether the answer is the client's.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Response, StatusCode};

use super::Shared;
use super::look::{Looked, is_sse, look_whole};
use super::prepare::Prepared;
use crate::exchange::Recalled;
use crate::telemetry::AttemptOutcome;
use crate::upstream::attempt::{self, AttemptError, MAX_ERROR_BYTES, Next, judge};
use crate::upstream::body::{BodyLimits, UpstreamBody};
use crate::upstream::headers::{downward, upward};
use crate::upstream::overflow::{self, Overflow};
use crate::upstream::plan::Target;
use crate::upstream::provider::Auth;

/// A target's answer, and what was sent to get it.
pub(super) type Answer = Box<(Response<UpstreamBody>, Prepared)>;

/// How one attempt ended without an answer for the client.
pub(super) enum Failure {
    /// An answer that is worth trying elsewhere; it is the client's when nothing better comes.
    Answer(Answer),
    /// The request is larger than the target's window.
    Overflow(Answer, Overflow),
    /// No answer.
    None(AttemptError),
}

impl Shared {
    /// Sends to one target and decides whether its answer is the client's.
    pub(super) async fn attempt(
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
