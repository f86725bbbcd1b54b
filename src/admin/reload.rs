//! `/admin/v1/reload`: has the configuration read again, and says what became of it.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::routing::get;
use http::{HeaderMap, Response, StatusCode};
use serde_json::{Value, json};

use super::keys::{admit, reply};
use crate::app::App;
use crate::app::reload::{Report, Why};
use crate::base::{ErrorKind, GatewayError};
use crate::telemetry::ReloadOutcome;

/// The routes, with their full paths.
pub(super) fn routes(app: &Arc<App>) -> Router {
    Router::new().route("/admin/v1/reload", get(last).post(reload)).with_state(Arc::clone(app))
}

/// What became of the last one, whoever asked for it.
async fn last(State(app): State<Arc<App>>, headers: HeaderMap) -> Response<Body> {
    let told = admit(&app, &headers).map(|()| match app.reloads.last() {
        Some((report, at)) => {
            let mut told = report.to_json();
            told["at"] = at.to_rfc3339().into();
            told
        }
        None => json!({"outcome": null, "generation": app.generation}),
    });
    reply(&app, StatusCode::OK, told)
}

async fn reload(State(app): State<Arc<App>>, headers: HeaderMap) -> Response<Body> {
    let asked = async {
        admit(&app, &headers)?;
        app.reloads.ask(Why::Request).await.ok_or_else(|| {
            GatewayError::new(ErrorKind::Overloaded, "no configuration is taken any more: the process is stopping")
        })
    };
    match asked.await {
        Ok(report) if report.outcome == ReloadOutcome::Refused => {
            reply(&app, StatusCode::BAD_REQUEST, Ok(refusal(&report)))
        }
        told => reply(&app, StatusCode::OK, told.map(|report| report.to_json())),
    }
}

/// The envelope of every error, and beside it what there is to do, one by one.
fn refusal(report: &Report) -> Value {
    let generation = report.generation;
    let mistakes = report.errors.join("; ");
    let mut told = report.to_json();
    told["error"] = json!({
        "message": format!("the configuration was not taken, and the last good one (generation {generation}) stays in force: {mistakes}"),
        "type": "invalid_request_error",
        "param": null,
        "code": "invalid_configuration",
    });
    told
}
