//! One request to one target, and what its answer means for the next step.

use std::error::Error;
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, Method, Response, StatusCode};
use reqwest::Url;

use super::body::{BodyLimits, UpstreamBody};
use super::provider::Provider;
use crate::exchange::Credential;
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

/// Sends one request and waits for the header of the answer, at most for `header_timeout` (zero = for ever).
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
    let sent = provider.http().execute(request);
    let answer =
        if header_timeout.is_zero() { Ok(sent.await) } else { tokio::time::timeout(header_timeout, sent).await };
    let answer = answer
        .map_err(|_| AttemptError::Timeout { provider: provider.name.clone(), after: header_timeout })?
        .map_err(|error| {
            if error.is_timeout() {
                AttemptError::Timeout { provider: provider.name.clone(), after: header_timeout }
            } else {
                AttemptError::Unreachable { provider: provider.name.clone(), reason: root_cause(error) }
            }
        })?;
    let (mut parts, body) = Response::from(answer).into_parts();
    let body = UpstreamBody::new(body, &mut parts.headers, limits);
    Ok(Response::from_parts(parts, body))
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
    let error = error.without_url();
    let mut cause: &dyn Error = &error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}

/// A JSON body for an upstream request.
#[must_use]
pub(super) fn json(bytes: Bytes) -> reqwest::Body {
    reqwest::Body::from(bytes)
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
