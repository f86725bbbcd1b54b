//! The first look at an answer, before it is the client's: while another target could be tried, an error inside a 200 or a
//! silence is a failure.

use bytes::BytesMut;
use http::Response;
use http::header::CONTENT_TYPE;

use super::Shared;
use crate::upstream::attempt::AttemptError;
use crate::upstream::body::{MAX_ERROR_BYTES, UpstreamBody, UpstreamBodyError};
use crate::upstream::plan::Target;
use crate::wire::{FirstEvent, fault, first_event, scan};

/// How much of a stream is looked at before it is passed on.
const MAX_LOOK_BYTES: usize = 64 * 1024;

impl Shared {
    /// Looks at the first event of a stream before it is the client's: while another target could be tried, an error or
    /// a silence before the first content is a failure (design, section 10 and doubt 9).
    pub(super) async fn look(
        &self,
        target: &Target,
        answer: Response<UpstreamBody>,
    ) -> Result<Response<UpstreamBody>, Looked> {
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
pub(super) async fn look_whole(
    target: &Target,
    answer: Response<UpstreamBody>,
) -> Result<Response<UpstreamBody>, Looked> {
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
pub(super) enum Looked {
    /// It is an error, or begins with one.
    Error(Box<Response<UpstreamBody>>),
    /// It does not begin.
    Nothing(AttemptError),
}

pub(super) fn is_sse(answer: &Response<UpstreamBody>) -> bool {
    answer.headers().get(CONTENT_TYPE).and_then(|v| v.to_str().ok()).is_some_and(|t| t.starts_with("text/event-stream"))
}
