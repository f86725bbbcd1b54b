//! `Respond`: below it there are errors, above it only replies.

use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use http::{Response, StatusCode};
use http_body_util::BodyExt;
use tower::{Layer, Service};
use tracing::Instrument;

use super::body::{ReplyBody, full};
use super::span::{request_span, spanned};
use crate::base::{Clock, ErrorKind, ExchangeId, GatewayError, Random, RequestId};
use crate::exchange::Stamp;
use crate::telemetry::{Metrics, Outcome, Route, request};
use crate::wire::{Dialect, fault};

const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const REQUEST_ID: HeaderName = HeaderName::from_static("request-id");
const RETRY_AFTER_MS: HeaderName = HeaderName::from_static("retry-after-ms");

/// A request with its names and times.
#[derive(Debug)]
pub struct Arrived<B> {
    /// Names and times.
    pub stamp: Stamp,
    /// The request.
    pub http: http::Request<B>,
}

/// Names each request, turns errors into the envelope of its dialect, counts what is refused.
#[derive(Clone)]
pub struct Respond(Arc<Shared>);

/// One pointer to clone per request, not four.
struct Shared {
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
    metrics: Arc<Metrics>,
    route: Route,
    dialect: Dialect,
}

impl fmt::Debug for Respond {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Respond").field("route", &self.0.route).finish_non_exhaustive()
    }
}

impl Respond {
    /// Makes the layer for one route (a metric label), whose clients read errors in this dialect.
    pub fn new(
        clock: Arc<dyn Clock>,
        random: Arc<dyn Random>,
        metrics: Arc<Metrics>,
        route: Route,
        dialect: Dialect,
    ) -> Self {
        Self(Arc::new(Shared { clock, random, metrics, route, dialect }))
    }
}

impl<S> Layer<S> for Respond {
    type Service = Responding<S>;

    fn layer(&self, inner: S) -> Responding<S> {
        Responding { inner, shared: self.clone() }
    }
}

/// The service of [`Respond`].
#[derive(Clone, Debug)]
pub struct Responding<S> {
    inner: S,
    shared: Respond,
}

impl<S, B> Service<http::Request<B>> for Responding<S>
where
    B: Send + 'static,
    S: Service<Arrived<B>, Response = Response<ReplyBody>, Error = GatewayError> + Clone + Send + 'static,
    S::Future: Send,
{
    type Response = Response<ReplyBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        // An error of readiness is told by the call that follows, which can answer it.
        match self.inner.poll_ready(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(_) => Poll::Ready(Ok(())),
        }
    }

    fn call(&mut self, http: http::Request<B>) -> Self::Future {
        let clone = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, clone);
        let shared = Arc::clone(&self.shared.0);
        let (at, route) = (shared.clock.now(), shared.route);
        let mut stamp = Stamp {
            id: RequestId::generate(at, &*shared.random),
            exchange: ExchangeId::generate(at, &*shared.random),
            at,
            started: Instant::now(),
            trace: None,
        };
        // Paths with a stack of their own have no parts that vary.
        let span = request_span(&http, &mut stamp, http.uri().path());
        let spans = span.clone();
        Box::pin(request::scope(
            stamp.id,
            async move {
                let mut reply = match inner.call(Arrived { stamp, http }).await {
                    Ok(reply) => reply,
                    Err(error) => respond_in(shared.dialect, &error, stamp.id),
                };
                name_request(shared.dialect, reply.headers_mut(), stamp.id);
                // What begins well is counted when it has ended, by `Record`.
                if reply.status() != StatusCode::OK {
                    shared.metrics.requests.inc(route, Outcome::of_status(reply.status().as_u16()));
                }
                Ok(spanned(span, reply, BodyExt::boxed_unsync))
            }
            .instrument(spans),
        ))
    }
}

/// Tells a client what its request is called, where it looks for that.
pub fn name_request(dialect: Dialect, headers: &mut HeaderMap, id: RequestId) {
    if let Ok(id) = HeaderValue::from_maybe_shared(Bytes::from(id.to_string())) {
        // Anthropic's own SDKs look here.
        if dialect == Dialect::Messages {
            headers.insert(REQUEST_ID, id.clone());
        }
        headers.insert(X_REQUEST_ID, id);
    }
}

/// Turns an error into a reply in OpenAI's envelope, and logs it where someone may have to act on it.
#[must_use]
pub fn respond(error: &GatewayError, request_id: RequestId) -> Response<ReplyBody> {
    respond_in(Dialect::Chat, error, request_id)
}

/// Turns an error into a reply as clients of a dialect read it, and logs it where someone may have to act on it.
#[must_use]
pub fn respond_in(dialect: Dialect, error: &GatewayError, request_id: RequestId) -> Response<ReplyBody> {
    let causes = error.causes();
    let causes = causes.as_deref().unwrap_or_default();
    match error.kind {
        ErrorKind::Internal => {
            tracing::error!(%request_id, kind = ?error.kind, causes, "request failed by our own fault");
        }
        ErrorKind::UpstreamFailed | ErrorKind::UpstreamTimeout | ErrorKind::Overloaded => {
            // What the client is told names the provider and what became of it; it holds nothing of the request.
            tracing::warn!(%request_id, kind = ?error.kind, %error, causes, "request failed; `backstory doctor` tries providers and the store");
        }
        _ => tracing::debug!(%request_id, kind = ?error.kind, causes, "request refused"),
    }
    let mut reply = Response::new(full(fault::body(dialect, error, &request_id.to_string())));
    *reply.status_mut() = StatusCode::from_u16(error.kind.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(after) = error.retry_after {
        // Whole seconds, rounded up: a client that waits so long does not come too early.
        let seconds = after.as_secs() + u64::from(after.subsec_nanos() > 0);
        reply.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds.max(1)));
        // OpenAI's own SDKs look here first.
        let millis = u64::try_from(after.as_micros().div_ceil(1_000)).unwrap_or(u64::MAX);
        reply.headers_mut().insert(RETRY_AFTER_MS, HeaderValue::from(millis.max(1)));
    }
    if let Some(headers) = error.headers() {
        reply.headers_mut().extend(headers.clone());
    }
    reply
}
