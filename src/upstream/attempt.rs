//! One request to one target, and what its answer means for the next step.

use std::error::Error;
use std::future::Future;
use std::io;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, Method, Response};
use reqwest::Url;

use super::body::{BodyLimits, UpstreamBody, Wire};
use super::endpoints::Deployment;
use super::line;
use super::provider::Provider;
use super::retry::is_error;
use crate::exchange::{Credential, Kind};
use crate::wire::fault;

/// A kept connection that ends without an answer within so long was closed before the request was read.
const JUST_CLOSED: Duration = Duration::from_secs(1);

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
    /// An answer that is none.
    #[error("{provider} {problem}")]
    Invalid {
        /// The provider's name.
        provider: String,
        /// What it did, and what to look at.
        problem: String,
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

/// Posts a JSON body to where its kind of request goes, and waits for the header of the answer, at most for `header_timeout` (zero = for ever).
///
/// A kept connection may have been closed by its server at the very moment at which it was taken: one that ends at once and without a byte is
/// replaced by another, once. A request that its server may have read is never sent again here.
pub(super) async fn post(
    (provider, deployment): (&Provider, Option<&Deployment>),
    kind: Kind,
    headers: impl Fn() -> HeaderMap,
    body: Bytes,
    header_timeout: Duration,
    limits: BodyLimits,
) -> Result<Response<UpstreamBody>, AttemptError> {
    let begun = Instant::now();
    match post_once((provider, deployment), kind, headers(), body.clone(), header_timeout, limits).await {
        Err(Unanswered { untaken: true, .. }) if begun.elapsed() < JUST_CLOSED => {
            tracing::debug!(provider = provider.name, "a kept connection was closed by its server; trying a new one");
            let second = post_once((provider, deployment), kind, headers(), body, header_timeout, limits).await;
            second.map_err(|failed| failed.error)
        }
        other => other.map_err(|failed| failed.error),
    }
}

/// No answer came.
struct Unanswered {
    error: AttemptError,
    /// A kept connection was closed before a byte came.
    untaken: bool,
}

async fn post_once(
    (provider, deployment): (&Provider, Option<&Deployment>),
    kind: Kind,
    headers: HeaderMap,
    body: Bytes,
    header_timeout: Duration,
    limits: BodyLimits,
) -> Result<Response<UpstreamBody>, Unanswered> {
    let Some(direct) = provider.direct() else {
        let url = deployment.map_or(provider.endpoints(), |deployment| &deployment.urls).of(kind).clone();
        return send_once(provider, Method::POST, url, headers, body.into(), header_timeout, limits).await;
    };
    let uris = deployment.and_then(|deployment| deployment.uris.as_ref()).unwrap_or(direct.endpoints());
    let (posted, connection) = direct.post(uris.of(kind).clone(), headers, body);
    let answer = within(provider, header_timeout, posted).await?;
    let answer = answer.map_err(|error| {
        let cause = innermost(&error);
        let timed_out = cause.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::TimedOut);
        Unanswered {
            untaken: is_closed(&error) && line::was_kept_and_is_silent(&connection),
            error: failed(provider, header_timeout, timed_out, cause.to_string()),
        }
    })?;
    Ok(opened(answer, limits))
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
    send_once(provider, method, url, headers, body, header_timeout, limits).await.map_err(|failed| failed.error)
}

async fn send_once(
    provider: &Provider,
    method: Method,
    url: Url,
    headers: HeaderMap,
    body: reqwest::Body,
    header_timeout: Duration,
    limits: BodyLimits,
) -> Result<Response<UpstreamBody>, Unanswered> {
    let mut request = reqwest::Request::new(method, url);
    *request.headers_mut() = headers;
    *request.body_mut() = Some(body);
    let answer = within(provider, header_timeout, provider.http().execute(request)).await?;
    let answer = answer.map_err(|error| Unanswered {
        // Which connection it was is not told here.
        untaken: !error.is_connect() && is_closed(&error) && provider.may_keep_a_connection(),
        error: failed(provider, header_timeout, error.is_timeout(), root_cause(error)),
    })?;
    provider.answered();
    Ok(opened(Response::from(answer), limits))
}

/// An answer whose body is read within limits.
fn opened<B: Into<Wire>>(answer: Response<B>, limits: BodyLimits) -> Response<UpstreamBody> {
    let (mut parts, body) = answer.into_parts();
    let body = UpstreamBody::new(body.into(), &mut parts.headers, limits);
    Response::from_parts(parts, body)
}

/// Whether an error says that the other side closed the connection before it answered.
fn is_closed(error: &(dyn Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if error.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_incomplete_message) {
            return true;
        }
        let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
        if matches!(
            kind,
            Some(io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted | io::ErrorKind::BrokenPipe)
        ) {
            return true;
        }
        cause = error.source();
    }
    false
}

async fn within<F: Future>(provider: &Provider, header_timeout: Duration, sent: F) -> Result<F::Output, Unanswered> {
    if header_timeout.is_zero() {
        return Ok(sent.await);
    }
    let waited = tokio::time::timeout(header_timeout, sent).await;
    let late = || AttemptError::Timeout { provider: provider.name.clone(), after: header_timeout };
    waited.map_err(|_| Unanswered { error: late(), untaken: false })
}

fn failed(provider: &Provider, after: Duration, timed_out: bool, reason: String) -> AttemptError {
    let provider = provider.name.clone();
    if timed_out { AttemptError::Timeout { provider, after } } else { AttemptError::Unreachable { provider, reason } }
}

/// Masks the keys that may have been sent in an error body, should one stand there (design, doubt 22). Other answers are not touched.
pub(super) async fn masked(
    provider: &Provider,
    credential: &Credential,
    answer: Response<UpstreamBody>,
) -> Response<UpstreamBody> {
    if !is_error(answer.status()) {
        return answer;
    }
    let keys = provider.secrets(credential);
    if keys.is_empty() {
        return answer;
    }
    let (mut parts, mut body) = answer.into_parts();
    let said = body.read_error().await;
    match fault::mask_keys(&said, &keys) {
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
