//! `GET /admin/v1/usage`: what keys, tenants, models and people used and cost, as JSON or CSV. For holders of the admin key.
//!
//! `ask` reads what is asked for, `table` writes the answer; the command line uses both. Nothing here adds anything up: the store does.

mod ask;
mod table;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Query, State};
use axum::routing::get;
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};

pub use ask::{Asked, Format, MAX_GROUPS, cursor, read};
pub use table::{Table, csv, from_json, json, text};

use super::keys::{admit, failed, reply};
use crate::app::App;
use crate::base::GatewayError;
use crate::store::{UsageQuery, UsageStore};
use crate::telemetry::{Outcome, Route};

/// Tells where a CSV goes on.
const NEXT: HeaderName = HeaderName::from_static("x-backstory-next");
/// How long is waited for what was used just now to be in the books.
const FLUSH_WAIT: Duration = Duration::from_secs(1);

/// The route, with its full path.
pub(super) fn routes(app: &Arc<App>) -> Router {
    Router::new().route("/admin/v1/usage", get(usage)).with_state(Arc::clone(app))
}

async fn usage(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    Query(pairs): Query<Vec<(String, String)>>,
) -> Response<Body> {
    let made = async {
        admit(&app, &headers)?;
        let wants_csv = headers.get(ACCEPT).is_some_and(|accept| accept.as_bytes().starts_with(b"text/csv"));
        let default = if wants_csv { Format::Csv } else { Format::Json };
        let asked = read(&pairs, default)?;
        if let Some(journal) = &app.journal {
            // A store that fails is told below, by the query.
            let _late = tokio::time::timeout(FLUSH_WAIT, journal.flush()).await;
        }
        Ok((table(&*app.store, &asked.query).await?, asked.format))
    };
    match made.await {
        Ok((table, Format::Json)) => reply(&app, StatusCode::OK, Ok(json(&table))),
        Ok((table, Format::Csv)) => csv_reply(&app, &table),
        Err(error) => reply(&app, StatusCode::OK, Err(error)),
    }
}

/// Asks a store for groups, and for what all of them add up to.
///
/// # Errors
/// The store cannot be read.
pub async fn table<S: UsageStore + ?Sized>(store: &S, query: &UsageQuery) -> Result<Table, GatewayError> {
    let all = UsageQuery { by: Vec::new(), after: None, limit: 1, ..query.clone() };
    let totals = store.usage(&all).await.map_err(failed)?.pop().unwrap_or_default().sums;
    let one_more = UsageQuery { limit: query.limit.saturating_add(1), ..query.clone() };
    let mut groups = store.usage(&one_more).await.map_err(failed)?;
    let more = groups.len() > query.limit as usize;
    groups.truncate(query.limit as usize);
    let next = groups.last().filter(|_| more).map(|last| cursor(&last.of));
    Ok(Table { by: query.by.clone(), groups, totals, next })
}

fn csv_reply(app: &App, table: &Table) -> Response<Body> {
    let mut reply = Response::new(Body::from(csv(table)));
    let headers = reply.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/csv; charset=utf-8; header=present"));
    headers.insert(CONTENT_DISPOSITION, HeaderValue::from_static("attachment; filename=\"usage.csv\""));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Some(next) = table.next.as_ref().and_then(|next| HeaderValue::from_str(next).ok()) {
        headers.insert(NEXT, next);
    }
    app.metrics.requests.inc(Route::Admin, Outcome::Ok);
    reply
}
