//! Paths that we do not know: passed through as they are, to one provider, for those who may.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use http::{Method, Request, Response};
use http_body::{Body, Frame};
use http_body_util::{LengthLimitError, Limited};

use super::attempt::{self, AttemptError};
use super::body::{BodyLimits, UpstreamBody};
use super::headers::{add_passing, downward_passing};
use super::plan::Routes;
use super::route::Timeouts;
use crate::base::{ErrorKind, GatewayError};
use crate::exchange::{Credential, Principal};

/// Passes requests through.
#[derive(Debug)]
pub struct Passthrough {
    routes: Arc<Routes>,
    timeouts: Timeouts,
    max_body_bytes: usize,
}

/// Methods that are passed on. `CONNECT` and `TRACE` speak to proxies.
const PASSED: [Method; 7] =
    [Method::GET, Method::HEAD, Method::OPTIONS, Method::POST, Method::PUT, Method::PATCH, Method::DELETE];

impl Passthrough {
    /// Passes to the default provider of `routes`, bodies of at most `max_body_bytes`.
    #[must_use]
    pub fn new(routes: Arc<Routes>, timeouts: Timeouts, max_body_bytes: usize) -> Self {
        Self { routes, timeouts, max_body_bytes }
    }

    /// Whether a key may reach a path (design, section 3): with the client's own key any, with a virtual key those that its
    /// `passthrough` list names. An entry covers its path and all below it.
    #[must_use]
    pub fn allows(principal: &Principal, credential: &Credential, path: &str) -> bool {
        matches!(credential, Credential::Client(_))
            || principal.passthrough.iter().any(|entry| {
                let entry = entry.trim_end_matches('/');
                entry == "*" || path == entry || path.strip_prefix(entry).is_some_and(|rest| rest.starts_with('/'))
            })
    }

    /// Whether a path is upstream's list of models, and the key may see it: where no names are configured it may ask for any of them.
    fn lists_models(&self, principal: &Principal, path: &str) -> bool {
        let any_name = self.routes.names().is_empty() && principal.models.is_empty() && self.routes.passes_unknown();
        any_name && path.strip_prefix("/v1/models").is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// Sends the request on and returns upstream's answer; both bodies stream.
    ///
    /// # Errors
    /// 404 for a path that the key may not reach, in the same words as for one that does not exist; 413 for a body over the
    /// limit, announced or not; 502 and 504 when no answer comes.
    pub async fn pass<B>(
        &self,
        principal: &Principal,
        credential: &Credential,
        request: Request<B>,
    ) -> Result<Response<UpstreamBody>, GatewayError>
    where
        B: Body<Data = bytes::Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let not_found = || {
            GatewayError::new(
                ErrorKind::NotFound,
                format!("no such path: {} {}", request.method(), request.uri().path()),
            )
        };
        let path = request.uri().path();
        if !PASSED.contains(request.method()) {
            return Err(GatewayError::new(
                ErrorKind::MethodNotAllowed,
                format!("{path} takes no {}", request.method()),
            ));
        }
        let provider = self.routes.default_provider().ok_or_else(not_found)?;
        let listing = request.method() == Method::GET && self.lists_models(principal, path);
        if !listing && !Self::allows(principal, credential, path) {
            return Err(not_found());
        }
        let tail = request.uri().path_and_query().map_or("", |p| p.as_str());
        let tail = tail.strip_prefix("/v1/").ok_or_else(not_found)?;
        let url = provider.url(tail).ok_or_else(not_found)?;
        let most = self.max_body_bytes;
        let too_large =
            || GatewayError::new(ErrorKind::TooLarge, format!("the body is larger than the limit of {most} bytes"));
        if request.body().size_hint().lower() > most as u64 {
            return Err(too_large());
        }
        let mut headers = provider.headers_for(request.headers(), credential);
        if let Some(length) = request.headers().get(http::header::CONTENT_LENGTH) {
            headers.insert(http::header::CONTENT_LENGTH, length.clone());
        }
        add_passing(request.headers(), &mut headers);
        let method = request.method().clone();
        let body = request.into_body();
        let over = Arc::new(AtomicBool::new(false));
        let body = if body.is_end_stream() {
            reqwest::Body::default()
        } else {
            reqwest::Body::wrap(SyncBody::new(Limited::new(body, most), Arc::clone(&over)))
        };
        let limits = BodyLimits { first: self.timeouts.header, idle: self.timeouts.idle, total: Default::default() };
        let answer = attempt::send(provider, method, url, headers, body, self.timeouts.header, limits).await;
        let mut answer =
            answer.map_err(|error| if over.load(Ordering::Relaxed) { too_large() } else { unanswered(&error) })?;
        *answer.headers_mut() = downward_passing(answer.headers());
        Ok(attempt::masked(provider, credential, answer).await)
    }
}

/// What a client is told when no target answered.
pub(super) fn unanswered(error: &AttemptError) -> GatewayError {
    let kind = match error {
        AttemptError::Unreachable { .. } | AttemptError::Invalid { .. } => ErrorKind::UpstreamFailed,
        AttemptError::Timeout { .. } => ErrorKind::UpstreamTimeout,
    };
    GatewayError::new(kind, error.to_string())
}

/// reqwest wants a `Sync` body; nobody ever shares this one. It notes when the body turns out to be over its limit.
struct SyncBody<B> {
    body: Mutex<Pin<Box<Limited<B>>>>,
    over: Arc<AtomicBool>,
}

impl<B> SyncBody<B> {
    fn new(body: Limited<B>, over: Arc<AtomicBool>) -> Self {
        Self { body: Mutex::new(Box::pin(body)), over }
    }
}

impl<B> Body for SyncBody<B>
where
    B: Body,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Data = B::Data;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, Self::Error>>> {
        let this = &mut *self;
        let body = this.body.get_mut().unwrap_or_else(PoisonError::into_inner);
        let polled = body.as_mut().poll_frame(cx);
        if matches!(&polled, Poll::Ready(Some(Err(error))) if error.is::<LengthLimitError>()) {
            this.over.store(true, Ordering::Relaxed);
        }
        polled
    }
}
