//! What a connection talks to. On the data listener the two paths that carry the load go straight to their stack, all else
//! through the router.
//!
//! A router boxes and clones for each request, which these two have no use for. What is decided before routing (who may talk
//! to us at all) and after it (a panic is a 500) is the same for both.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use futures_util::FutureExt;
use http::{Method, Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tower::Service;

use super::bounds::Bounds;
use super::guard;
use super::routes;
use super::stack::{Gateway, gateway};
use crate::app::{App, Settings};
use crate::base::{GatewayError, RequestId};
use crate::exchange::Kind;
use crate::layers::{Paced, Patience, ReplyBody, TooSlow, respond, respond_in};
use crate::telemetry::{HandshakeFailure, Held, Listener, Metrics};
use crate::wire::Dialect;

/// How long a body may come that is read as it comes.
const LONGEST_UPLOAD: Duration = Duration::from_secs(3_600);

/// Everything behind one listener. Cheap to clone.
///
/// What stands there is built from one configuration and never changes; with a new configuration the whole is exchanged. A request takes
/// it once, when it arrives, and keeps it to its end.
#[derive(Clone)]
pub struct Front(Arc<Door>);

struct Door {
    of: Listener,
    metrics: Arc<Metrics>,
    now: RwLock<Arc<Shared>>,
}

struct Shared {
    /// The paths that carry the load; `None` on the admin listener.
    direct: Option<Direct>,
    router: Router,
    bounds: Bounds,
    loopback_only: bool,
    /// Of bodies that the router's paths read as they come, an import as long as it may be: only silence ends them.
    patience: Patience,
}

struct Direct {
    chat: Gateway<Incoming>,
    messages: Gateway<Incoming>,
    responses: Gateway<Incoming>,
    embeddings: Gateway<Incoming>,
}

impl fmt::Debug for Front {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Front").field(&self.0.of).finish()
    }
}

impl Front {
    /// Builds what stands behind the data listener.
    #[must_use]
    pub fn new(app: &Arc<App>) -> Self {
        Self::of(Listener::Data, app)
    }

    /// Builds what stands behind the admin listener.
    #[must_use]
    pub fn admin(app: &Arc<App>) -> Self {
        Self::of(Listener::Admin, app)
    }

    fn of(of: Listener, app: &Arc<App>) -> Self {
        Self(Arc::new(Door { of, metrics: Arc::clone(&app.metrics), now: RwLock::new(Arc::new(Shared::new(of, app))) }))
    }

    /// Goes over to another configuration: requests that come from now on are answered by it.
    pub fn follow(&self, app: &Arc<App>) {
        // Built before the lock is taken: nobody waits for it.
        let next = Arc::new(Shared::new(self.0.of, app));
        *self.0.now.write().unwrap_or_else(PoisonError::into_inner) = next;
    }

    /// Counts a connection while it lasts.
    pub(super) fn connected(&self) -> Held {
        self.0.metrics.edges.connection(self.0.of)
    }

    /// Counts a handshake that came to nothing.
    pub(super) fn handshake_failed(&self, why: HandshakeFailure) {
        self.0.metrics.edges.handshakes_failed.inc(why);
    }

    /// Answers one request; a panic is a 500 for that request, and is counted.
    pub(super) async fn answer(self, request: Request<Incoming>) -> Response<ReplyBody> {
        let shared = Arc::clone(&self.0.now.read().unwrap_or_else(PoisonError::into_inner));
        match AssertUnwindSafe(shared.route(request)).catch_unwind().await {
            Ok(reply) => reply,
            Err(_) => {
                self.0.metrics.panics.inc();
                respond(&GatewayError::internal("a request panicked"), RequestId(0))
            }
        }
    }
}

impl Shared {
    fn new(of: Listener, app: &Arc<App>) -> Self {
        let stack = |kind| gateway(app, kind, app.upstream.clone());
        let (direct, router, loopback_only) = match of {
            Listener::Data => {
                let direct = Direct {
                    chat: stack(Kind::CHAT),
                    messages: stack(Kind::Chat(Dialect::Messages)),
                    responses: stack(Kind::Chat(Dialect::Responses)),
                    embeddings: stack(Kind::Embeddings),
                };
                (Some(direct), routes::data(app), app.settings.loopback_only)
            }
            Listener::Admin => (None, routes::admin(app), app.settings.admin_loopback_only),
        };
        let Settings { max_header_bytes, max_url_bytes, .. } = app.settings;
        let bounds = Bounds { max_header_bytes, max_url_bytes };
        let patience = Patience { total: LONGEST_UPLOAD, idle: app.settings.patience.idle };
        Self { direct, router, bounds, loopback_only, patience }
    }

    async fn route(&self, request: Request<Incoming>) -> Response<ReplyBody> {
        let dialect = Dialect::of_path(request.uri().path());
        if let Err(error) = self.bounds.check(&request) {
            return respond_in(dialect, &error, RequestId(0));
        }
        // Before anything is done: who may talk to us at all.
        if self.loopback_only
            && let Err(error) = guard::check(request.headers(), request.uri())
        {
            return respond_in(dialect, &error, RequestId(0));
        }
        let direct = match (&self.direct, request.method(), request.uri().path()) {
            (Some(direct), &Method::POST, "/v1/chat/completions") => Some(&direct.chat),
            (Some(direct), &Method::POST, "/v1/messages") => Some(&direct.messages),
            (Some(direct), &Method::POST, "/v1/responses") => Some(&direct.responses),
            (Some(direct), &Method::POST, "/v1/embeddings") => Some(&direct.embeddings),
            _ => None,
        };
        match direct {
            Some(stack) => stack.answer(request).await,
            None => {
                let late = Arc::new(AtomicBool::new(false));
                let request = request.map(|body| Body::new(Paced::new(body, self.patience).noting(&late)));
                let reply = self.router.clone().call(request).await;
                let reply = reply.unwrap_or_else(|never| match never {});
                // Whoever reads or sends on a body hears only that it broke off: of the client, or of upstream.
                if late.load(Ordering::Relaxed) {
                    return respond_in(dialect, &TooSlow.refusal(), RequestId(0));
                }
                reply.map(|body| body.map_err(Into::into).boxed_unsync())
            }
        }
    }
}
