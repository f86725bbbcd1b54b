//! Every path but the two that carry the load (`front`).

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::middleware::from_fn_with_state;
use axum::routing::{any, get};
use http::header::{ALLOW, CONTENT_TYPE, UPGRADE};
use http::{HeaderMap, HeaderValue, Method, Request, Response, Uri};
use tracing::Instrument;

use super::count::count_tokens;
use super::models;
use super::named::named;
use crate::access::{Asking, Running};
use crate::admin;
use crate::app::App;
use crate::base::{ErrorKind, ExchangeId, GatewayError, RequestId};
use crate::exchange::Stamp;
use crate::layers::{name_request, request_span, respond, respond_in, spanned};
use crate::telemetry::{self, Outcome, Route, request};
use crate::upstream::{Passthrough, UpstreamBody};
use crate::wire::Dialect;

/// Builds the router of the data listener, for all but the two paths that carry the load, which `front` takes.
pub(super) fn data(app: &Arc<App>) -> Router {
    let apis = admin::routes(app).route_layer(from_fn_with_state(Arc::clone(app), named));
    let routes = health(app).merge(apis).route("/v1/{*rest}", any(other).with_state(Arc::clone(app)));
    // With an address of their own they are there and nowhere else.
    let routes = if app.config.server.admin_listen.is_some() { routes } else { routes.merge(operators(app)) };
    with_fallbacks(routes)
}

/// Builds the router of the admin listener.
pub(super) fn admin(app: &Arc<App>) -> Router {
    with_fallbacks(health(app).merge(operators(app)))
}

/// Signs of life; on every listener.
fn health(app: &Arc<App>) -> Router {
    Router::new().route("/livez", get(|| async { "ok\n" })).route("/readyz", get(ready)).with_state(Arc::clone(app))
}

/// What is for those who run the gateway.
fn operators(app: &Arc<App>) -> Router {
    let api = admin::admin_routes(app).route_layer(from_fn_with_state(Arc::clone(app), named));
    Router::new().route("/metrics", get(metrics)).with_state(Arc::clone(app)).merge(api)
}

fn with_fallbacks(routes: Router) -> Router {
    routes
        .fallback(|method: Method, uri: Uri| async move { plain_error(&no_such_path(&method, &uri)) })
        .method_not_allowed_fallback(not_allowed)
}

/// Where tokens of responses are counted.
const INPUT_TOKENS: &str = "/v1/responses/input_tokens";

/// Paths under `/v1/` that are not ours: passed through for those who may.
async fn other(State(app): State<Arc<App>>, request: Request<Body>) -> Response<Body> {
    let mut stamp = stamp(&app);
    let path = request.uri().path();
    let dialect = Dialect::of_path(path);
    let counts = request.method() == Method::POST && path == "/v1/messages/count_tokens";
    let route = match dialect {
        Dialect::Messages => Route::Messages,
        _ if path.starts_with("/v1/models") => Route::Models,
        _ if path == INPUT_TOKENS => Route::Responses,
        _ => Route::Passthrough,
    };
    let span = request_span(&request, &mut stamp, if counts { "/v1/messages/count_tokens" } else { "/v1/{*rest}" });
    let answered = async {
        if counts { count_tokens(&app, &stamp, dialect, request).await } else { pass(&app, &stamp, request).await }
    };
    let answered = request::scope(stamp.id, answered).instrument(span.clone());
    let mut reply = match answered.await {
        Ok(reply) => reply,
        Err(error) => {
            let mut reply = span.in_scope(|| respond_in(dialect, &error, stamp.id)).map(Body::new);
            if error.kind == ErrorKind::MethodNotAllowed {
                reply.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
            }
            reply
        }
    };
    name_request(dialect, reply.headers_mut(), stamp.id);
    app.metrics.requests.inc(route, Outcome::of_status(reply.status().as_u16()));
    spanned(span, reply, Body::new)
}

async fn pass(app: &App, stamp: &Stamp, request: Request<Body>) -> Result<Response<Body>, GatewayError> {
    let (principal, credential) = app.keys.authenticate(request.headers()).await?;
    let path = request.uri().path();
    let is_upgrade = request.headers().contains_key(UPGRADE);
    // Codex tries a WebSocket first, and again and again after any other status.
    if is_upgrade && path == "/v1/responses" {
        let said = "responses are not served over WebSocket: post the request";
        let named = HeaderMap::from_iter([(UPGRADE, HeaderValue::from_static("HTTP/1.1"))]);
        return Err(GatewayError::new(ErrorKind::NoWebSocket, said).with_headers(named));
    }
    if is_upgrade || path.starts_with("/v1/realtime") {
        return Err(GatewayError::new(ErrorKind::NotImplemented, "upgrades (WebSocket, realtime) are not supported"));
    }
    // Who reaches upstream's stored objects gets its own count, which has in it what it keeps.
    if request.method() == Method::POST && path == INPUT_TOKENS && !Passthrough::allows(&principal, &credential, path) {
        return count_tokens(app, stamp, Dialect::Responses, request).await;
    }
    if matches!(path, "/v1/chat/completions" | "/v1/messages" | "/v1/embeddings") {
        return Err(GatewayError::new(ErrorKind::MethodNotAllowed, format!("{path} takes POST")));
    }
    let is_models = path == "/v1/models" || path.starts_with("/v1/models/");
    if request.method() == Method::GET
        && is_models
        && let Some(answer) = models::answer(&app.routes, &principal, path)
    {
        let mut reply = Response::new(Body::from(answer?));
        reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        return Ok(reply);
    }
    // Requests count here too; what these paths use of tokens nobody knows.
    let asking = Asking { principal: &principal, subject: None, model: None, now: stamp.started, at: stamp.at };
    let mut taken = app.limits.take_request(&asking).await?;
    let running = taken.running();
    let mut answer = app.passthrough.pass(&principal, &credential, request).await?;
    taken.standing().write(answer.headers_mut());
    Ok(answer.map(|body| stream_of(body, running)))
}

/// The body, and what ends with it.
fn stream_of(body: UpstreamBody, running: Option<Running>) -> Body {
    Body::from_stream(futures_util::stream::unfold((body, running), |(mut body, running)| async move {
        let next = body.next().await?;
        Some((next, (body, running)))
    }))
}

async fn ready(State(app): State<Arc<App>>) -> Response<Body> {
    let (status, text) = app.readiness();
    let mut reply = Response::new(Body::from(text));
    *reply.status_mut() = status;
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    reply
}

async fn metrics(State(app): State<Arc<App>>) -> Response<Body> {
    app.observe().await;
    let mut reply = Response::new(Body::from(app.metrics.render()));
    let kind = HeaderValue::from_static(telemetry::CONTENT_TYPE);
    reply.headers_mut().insert(CONTENT_TYPE, kind);
    reply
}

async fn not_allowed(method: Method, uri: Uri, _headers: HeaderMap) -> Response<Body> {
    let error = GatewayError::new(ErrorKind::MethodNotAllowed, format!("{} does not take {method}", uri.path()));
    let mut reply = plain_error(&error);
    if uri.path().starts_with("/v1/") {
        reply.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
    }
    reply
}

fn no_such_path(method: &Method, uri: &Uri) -> GatewayError {
    GatewayError::new(ErrorKind::NotFound, format!("no such path: {method} {}", uri.path()))
}

/// An error of a request that has no id of its own.
fn plain_error(error: &GatewayError) -> Response<Body> {
    respond(error, RequestId(0)).map(Body::new)
}

pub(super) fn stamp(app: &App) -> Stamp {
    let at = app.clock.now();
    Stamp {
        id: RequestId::generate(at, &*app.random),
        exchange: ExchangeId::generate(at, &*app.random),
        at,
        started: Instant::now(),
        trace: None,
    }
}
