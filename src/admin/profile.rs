//! `/admin/v1/profile`: where the time and the memory of this process go, while it runs. For holders of the admin key.
//!
//! Nothing is measured until somebody asks, and never by two at a time: a profile costs those who are being served a little.

mod cpu;
mod heap;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Query, State};
use axum::routing::get;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use serde::Deserialize;

use super::explain::answer;
use super::keys::{admit, reply};
use crate::app::App;
use crate::base::{ErrorKind, GatewayError};
use crate::telemetry::{Outcome, Route};

/// How long is measured when the request does not say, and at most, in seconds.
const SECONDS: (u64, u64) = (10, 60);

/// The routes, with their full paths.
pub(super) fn routes(app: &Arc<App>) -> Router {
    Router::new()
        .route("/admin/v1/profile/cpu", get(processor))
        .route("/admin/v1/profile/heap", get(memory))
        .with_state(Arc::clone(app))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Span {
    seconds: Option<u64>,
}

async fn processor(State(app): State<Arc<App>>, headers: HeaderMap, Query(span): Query<Span>) -> Response<Body> {
    let profiled = async {
        admit(&app, &headers)?;
        let seconds = span.seconds.unwrap_or(SECONDS.0);
        if !(1..=SECONDS.1).contains(&seconds) {
            let problem = format!("`seconds` must be a number from 1 to {}", SECONDS.1);
            return Err(GatewayError::new(ErrorKind::BadRequest, problem).with_param("seconds"));
        }
        let _alone = app.profiling.try_acquire().map_err(|_| {
            GatewayError::new(ErrorKind::Conflict, "a profile is being made already: wait for it to end")
        })?;
        tracing::info!(seconds, "a profile of the processor is being made");
        cpu::profile(Duration::from_secs(seconds)).await
    };
    let made = profiled.await;
    let kind = HeaderValue::from_static(if made.is_ok() { "text/plain; charset=utf-8" } else { "application/json" });
    let mut reply = answer(made);
    reply.headers_mut().insert(CONTENT_TYPE, kind);
    reply.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    app.metrics.requests.inc(Route::Admin, Outcome::of_status(reply.status().as_u16()));
    reply
}

async fn memory(State(app): State<Arc<App>>, headers: HeaderMap) -> Response<Body> {
    let told = admit(&app, &headers).map(|()| heap::profile(&app));
    reply(&app, StatusCode::OK, told)
}
