//! What a connection talks to: the two paths that carry the load go straight to their stack, all else through the router.
//!
//! A router boxes and clones for each request, which these two have no use for. What is decided before routing (who may talk
//! to us at all) and after it (a panic is a 500) is the same for both.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use futures_util::FutureExt;
use http::{Method, Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tower::Service;

use super::guard;
use super::routes::router;
use super::stack::{Gateway, gateway};
use crate::app::App;
use crate::base::{GatewayError, RequestId};
use crate::exchange::Kind;
use crate::layers::{ReplyBody, respond};
use crate::telemetry::Metrics;

/// Everything behind the data listener. Cheap to clone.
#[derive(Clone)]
pub struct Front(Arc<Shared>);

struct Shared {
    chat: Gateway<Incoming>,
    embeddings: Gateway<Incoming>,
    router: Router,
    loopback_only: bool,
    metrics: Arc<Metrics>,
}

impl fmt::Debug for Front {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Front")
    }
}

impl Front {
    /// Builds what stands behind the data listener.
    #[must_use]
    pub fn new(app: &Arc<App>) -> Self {
        Self(Arc::new(Shared {
            chat: gateway(app, Kind::CHAT, app.upstream.clone()),
            embeddings: gateway(app, Kind::Embeddings, app.upstream.clone()),
            router: router(app),
            loopback_only: app.settings.loopback_only,
            metrics: Arc::clone(&app.metrics),
        }))
    }

    /// Answers one request; a panic is a 500 for that request, and is counted.
    pub(super) async fn answer(self, request: Request<Incoming>) -> Response<ReplyBody> {
        let metrics = Arc::clone(&self.0.metrics);
        match AssertUnwindSafe(self.route(request)).catch_unwind().await {
            Ok(reply) => reply,
            Err(_) => {
                metrics.panics.inc();
                respond(&GatewayError::internal("a request panicked"), RequestId(0))
            }
        }
    }

    async fn route(self, request: Request<Incoming>) -> Response<ReplyBody> {
        // Before anything else: who may talk to us at all.
        if self.0.loopback_only
            && let Err(error) = guard::check(request.headers(), request.uri())
        {
            return respond(&error, RequestId(0));
        }
        let direct = match (request.method(), request.uri().path()) {
            (&Method::POST, "/v1/chat/completions") => Some(&self.0.chat),
            (&Method::POST, "/v1/embeddings") => Some(&self.0.embeddings),
            _ => None,
        };
        match direct {
            Some(stack) => stack.answer(request).await,
            None => {
                let reply = self.0.router.clone().call(request.map(Body::new)).await;
                let reply = reply.unwrap_or_else(|never| match never {});
                reply.map(|body| body.map_err(Into::into).boxed_unsync())
            }
        }
    }
}
