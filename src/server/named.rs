//! Gives each request of the memory and the admin API an id and a span, as `Respond` gives those of models.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{MatchedPath, State};
use axum::middleware::Next;
use http::{HeaderValue, Request, Response};
use tracing::Instrument;

use super::routes::stamp;
use crate::app::App;
use crate::layers::{request_span, spanned};
use crate::telemetry::request;

/// Names a request in its log, its trace and its reply.
pub(super) async fn named(
    State(app): State<Arc<App>>,
    matched: MatchedPath,
    request: Request<Body>,
    next: Next,
) -> Response<Body> {
    let mut stamp = stamp(&app);
    let span = request_span(&request, &mut stamp, matched.as_str());
    let mut reply = request::scope(stamp.id, next.run(request)).instrument(span.clone()).await;
    if let Ok(id) = HeaderValue::from_str(&stamp.id.to_string()) {
        reply.headers_mut().entry("x-request-id").or_insert(id);
    }
    spanned(span, reply, Body::new)
}
