//! One request to one target, and what its answer means for the next step.

use std::error::Error;
use std::future::Future;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, Method, Response, StatusCode};
use reqwest::Url;

use super::body::{BodyLimits, UpstreamBody};
use super::provider::Provider;
use crate::exchange::{Credential, Payload};
use crate::wire::fault;

/// Error bodies are read up to this size, to mask keys and to see what they say.
pub(super) const MAX_ERROR_BYTES: usize = 64 * 1024;

/// Why no answer came.
#[derive(Debug, thiserror::Error)]
pub(super) enum AttemptError {
    /// No connection, or it broke before an answer.
    #[error("could not reach {provider}: {reason}")]
    Unreachable {
        /// The provider's name.
        provider: String,
        /// What went wrong, without the URL: it may carry secrets.
        reason: String,
    },
    /// No answer in time.
    #[error("{provider} did not answer within {} ms", .after.as_millis())]
    Timeout {
        /// The provider's name.
        provider: String,
        /// How long it had.
        after: Duration,
    },
}

/// What to do after an answer or failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Give it to the client.
    Stay,
    /// Try the next target, if there is one.
    GoOn,
}

/// What a status means (design, doubt 7). With the client's own key, answers that are about that key stay.
#[must_use]
pub(super) fn judge(status: StatusCode, client_key: bool) -> Next {
    match status.as_u16() {
        401 | 403 | 429 if client_key => Next::Stay,
        401 | 403 | 404 | 408 | 409 | 425 | 429 | 500..=599 => Next::GoOn,
        _ => Next::Stay,
    }
}

/// Posts a JSON body to where its kind of request goes, and waits for the header of the answer, at most for `header_timeout` (zero = for ever).
pub(super) async fn post(
    provider: &Provider,
    payload: &Payload,
    headers: HeaderMap,
    body: Bytes,
    header_timeout: Duration,
    limits: BodyLimits,
) -> Result<Response<UpstreamBody>, AttemptError> {
    let Some(direct) = provider.direct() else {
        let url = provider.url_for(payload);
        return send(provider, Method::POST, url, headers, body.into(), header_timeout, limits).await;
    };
    let answer = within(provider, header_timeout, direct.post(payload, headers, body)).await?;
    let answer = answer.map_err(|error| {
        let cause = innermost(&error);
        let timed_out = cause.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::TimedOut);
        failed(provider, header_timeout, timed_out, cause.to_string())
    })?;
    let (mut parts, body) = answer.into_parts();
    let body = UpstreamBody::new(body.into(), &mut parts.headers, limits);
    Ok(Response::from_parts(parts, body))
}

/// Sends one request to any URL and waits for the header of the answer, at most for `header_timeout` (zero = for ever).
pub(super) async fn send(
    provider: &Provider,
    method: Method,
    url: Url,
    headers: HeaderMap,
    body: reqwest::Body,
    header_timeout: Duration,
    limits: BodyLimits,
) -> Result<Response<UpstreamBody>, AttemptError> {
    let mut request = reqwest::Request::new(method, url);
    *request.headers_mut() = headers;
    *request.body_mut() = Some(body);
    let answer = within(provider, header_timeout, provider.http().execute(request)).await?;
    let answer = answer.map_err(|error| failed(provider, header_timeout, error.is_timeout(), root_cause(error)))?;
    let (mut parts, body) = Response::from(answer).into_parts();
    let body = UpstreamBody::new(body.into(), &mut parts.headers, limits);
    Ok(Response::from_parts(parts, body))
}

async fn within<F: Future>(provider: &Provider, header_timeout: Duration, sent: F) -> Result<F::Output, AttemptError> {
    if header_timeout.is_zero() {
        return Ok(sent.await);
    }
    let waited = tokio::time::timeout(header_timeout, sent).await;
    waited.map_err(|_| AttemptError::Timeout { provider: provider.name.clone(), after: header_timeout })
}

fn failed(provider: &Provider, after: Duration, timed_out: bool, reason: String) -> AttemptError {
    let provider = provider.name.clone();
    if timed_out { AttemptError::Timeout { provider, after } } else { AttemptError::Unreachable { provider, reason } }
}

/// Masks the key that was sent in an error body, should it stand there (design, doubt 22). Other answers are not touched.
pub(super) async fn masked(
    provider: &Provider,
    credential: &Credential,
    answer: Response<UpstreamBody>,
) -> Response<UpstreamBody> {
    let status = answer.status();
    let Some(key) = provider.key_for(credential).filter(|_| status.is_client_error() || status.is_server_error())
    else {
        return answer;
    };
    let (mut parts, mut body) = answer.into_parts();
    let said = body.read_up_to(MAX_ERROR_BYTES).await;
    match fault::mask_keys(&said, &[key.expose()]) {
        Some(masked) => {
            parts.headers.remove(CONTENT_LENGTH);
            body.put_back(masked);
        }
        None => body.put_back(said),
    }
    Response::from_parts(parts, body)
}

/// The innermost cause: "connection refused" rather than "error sending request for url (…)".
pub(super) fn root_cause(error: reqwest::Error) -> String {
    innermost(&error.without_url()).to_string()
}

fn innermost<'a>(error: &'a (dyn Error + 'static)) -> &'a (dyn Error + 'static) {
    let mut cause = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause
}

#[cfg(test)]
mod tests {
    use super::*;

    /// maximhq/bifrost#3261; mozilla-ai/otari#173.
    #[test]
    fn what_a_status_means_for_the_next_target() {
        let go_on = |code: u16, own| judge(StatusCode::from_u16(code).unwrap(), own) == Next::GoOn;
        for code in [401, 403, 404, 408, 409, 425, 429, 500, 502, 503, 529] {
            assert!(go_on(code, false), "{code}");
        }
        for code in [200, 400, 413, 422] {
            assert!(!go_on(code, false), "{code}");
        }
        for code in [401, 403, 429] {
            assert!(!go_on(code, true), "{code}");
        }
    }
}
