//! `/admin/v1/keys`: virtual keys, made and ended while the gateway runs. For holders of the admin key.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Query, State};
use axum::routing::{get, post};
use http::header::{AUTHORIZATION, CACHE_CONTROL};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::explain::answer;
use crate::access::fingerprint;
use crate::access::issue::{self, NewKey};
use crate::app::App;
use crate::base::{ErrorKind, GatewayError, KeyId, Secret, constant_time_eq};
use crate::config;
use crate::layers::{Patience, read_body};
use crate::shared::Change;
use crate::store::{Page, StoreError, StoredKey};
use crate::telemetry::{Outcome, Route};

/// Largest body, in bytes.
const MAX_BODY_BYTES: usize = 64 * 1024;
/// Keys of one list, when the request does not say, and at most.
const LIMITS: (u32, u32) = (100, 500);
/// Longest name, in bytes.
const MAX_NAME_BYTES: usize = 128;
/// The longest life and overlap that can be asked for.
const MAX_DAYS: u32 = 3_650;
const MAX_OVERLAP_HOURS: u32 = 24 * 30;

/// The routes, with their full paths.
pub(super) fn routes(app: &Arc<App>) -> Router {
    Router::new()
        .route("/admin/v1/keys", get(list).post(create))
        .route("/admin/v1/keys/{id}", axum::routing::delete(revoke))
        .route("/admin/v1/keys/{id}/rotate", post(rotate))
        .with_state(Arc::clone(app))
}

/// A key to be made, as people ask for it.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wanted {
    /// What people call it.
    pub name: String,
    /// After how many days it ends by itself; none = never.
    #[serde(default)]
    pub expires_in_days: Option<u32>,
    /// What it may do: the settings of a `[[keys]]` table.
    #[serde(default)]
    pub settings: toml::Table,
}

impl Wanted {
    /// Checks all of it.
    ///
    /// # Errors
    /// 400 that names what is wrong, and what is allowed.
    pub fn check(self) -> Result<NewKey, GatewayError> {
        let bad = |param: &str, problem: String| GatewayError::new(ErrorKind::BadRequest, problem).with_param(param);
        let name = self.name.trim().to_owned();
        if name.is_empty() || name.len() > MAX_NAME_BYTES || name.chars().any(char::is_control) {
            return Err(bad("name", format!("`name` must be one line of 1 to {MAX_NAME_BYTES} bytes")));
        }
        if self.expires_in_days.is_some_and(|days| !(1..=MAX_DAYS).contains(&days)) {
            return Err(bad("expires_in_days", format!("`expires_in_days` must be a number from 1 to {MAX_DAYS}")));
        }
        let key = config::Key::from_settings(&self.settings).map_err(|errors| bad("settings", errors.to_string()))?;
        Ok(NewKey {
            name,
            tenant: key.tenant,
            settings: serde_json::to_string(&self.settings).map_err(GatewayError::internal)?,
            lifetime: self.expires_in_days.map(|days| Duration::from_secs(u64::from(days) * 24 * 3_600)),
        })
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rotation {
    /// How long the old secret goes on being good.
    #[serde(default)]
    overlap_hours: u32,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Piece {
    limit: Option<u32>,
    cursor: Option<String>,
}

/// A key as it is shown: never its secret, which nobody has.
#[must_use]
pub fn shown(key: &StoredKey) -> Value {
    let settings: Value = serde_json::from_str(&key.settings).unwrap_or_default();
    json!({
        "id": key.id.to_string(),
        "name": key.name,
        "tenant": key.tenant,
        "settings": settings,
        "created_at": key.created_at.to_rfc3339(),
        "expires_at": key.expires_at.map(|at| at.to_rfc3339()),
        "revoked_at": key.revoked_at.map(|at| at.to_rfc3339()),
        "last_used_at": key.last_used_at.map(|at| at.to_rfc3339()),
    })
}

async fn list(State(app): State<Arc<App>>, headers: HeaderMap, Query(piece): Query<Piece>) -> Response<Body> {
    let listed = async {
        admit(&app, &headers)?;
        let limit = piece.limit.unwrap_or(LIMITS.0).clamp(1, LIMITS.1);
        let page = Page { after: piece.cursor, limit: limit + 1 };
        let mut keys = app.store.list_keys(&page).await.map_err(failed)?;
        let more = keys.len() > limit as usize;
        keys.truncate(limit as usize);
        let next = keys.last().filter(|_| more).map(|key| key.id.to_string());
        Ok(json!({"data": keys.iter().map(shown).collect::<Vec<_>>(), "next": next}))
    };
    reply(&app, StatusCode::OK, listed.await)
}

async fn create(State(app): State<Arc<App>>, request: Request<Body>) -> Response<Body> {
    let created = async {
        let wanted: Wanted = admitted_body(&app, request).await?;
        let new = wanted.check()?;
        let (key, secret) = issue::create(&*app.store, &*app.clock, &*app.random, new).await.map_err(failed)?;
        forget(&app);
        tracing::info!(key = %key.id, tenant = key.tenant, "a virtual key was made");
        Ok(with_secret(shown(&key), &secret))
    };
    reply(&app, StatusCode::CREATED, created.await)
}

async fn rotate(State(app): State<Arc<App>>, Path(id): Path<String>, request: Request<Body>) -> Response<Body> {
    let rotated = async {
        let Rotation { overlap_hours } = admitted_body(&app, request).await?;
        let id = key_id(&id)?;
        if overlap_hours > MAX_OVERLAP_HOURS {
            let problem = format!("`overlap_hours` must be a number from 0 to {MAX_OVERLAP_HOURS}");
            return Err(GatewayError::new(ErrorKind::BadRequest, problem).with_param("overlap_hours"));
        }
        let overlap = Duration::from_secs(u64::from(overlap_hours) * 3_600);
        let secret = issue::rotate(&*app.store, &*app.clock, &*app.random, id, overlap)
            .await
            .map_err(failed)?
            .ok_or_else(no_such_key)?;
        forget(&app);
        tracing::info!(key = %id, "a virtual key has a new secret");
        Ok(with_secret(json!({"id": id.to_string(), "overlap_hours": overlap_hours}), &secret))
    };
    reply(&app, StatusCode::OK, rotated.await)
}

async fn revoke(State(app): State<Arc<App>>, Path(id): Path<String>, headers: HeaderMap) -> Response<Body> {
    let revoked = async {
        admit(&app, &headers)?;
        let id = key_id(&id)?;
        let now = app.clock.now();
        if !app.store.revoke_key(id, now).await.map_err(failed)? {
            return Err(no_such_key());
        }
        forget(&app);
        tracing::info!(key = %id, "a virtual key was revoked");
        Ok(json!({"id": id.to_string(), "revoked_at": now.to_rfc3339()}))
    };
    reply(&app, StatusCode::OK, revoked.await)
}

/// Only the holder of the admin key; without one there is no admin API.
pub(super) fn admit(app: &App, headers: &HeaderMap) -> Result<(), GatewayError> {
    let Some(expected) = &app.admin_key else {
        return Err(GatewayError::new(ErrorKind::NotFound, "there is no admin API: [admin] key is not configured"));
    };
    let presented = headers
        .get(AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
        .and_then(|text| text.split_once(' '))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
        .map(|(_, key)| fingerprint(key.trim()));
    // The hashes are compared, so the time tells nothing about the key.
    if presented.is_some_and(|presented| constant_time_eq(&presented, expected)) {
        return Ok(());
    }
    Err(GatewayError::new(ErrorKind::Unauthenticated, "this needs the admin key, as `Authorization: Bearer KEY`"))
}

async fn admitted_body<T: DeserializeOwned>(app: &App, request: Request<Body>) -> Result<T, GatewayError> {
    let (parts, body) = request.into_parts();
    admit(app, &parts.headers)?;
    let body = read_body(&parts.headers, body, MAX_BODY_BYTES, Patience::default()).await?;
    serde_json::from_slice(&body).map_err(|error| {
        GatewayError::new(ErrorKind::BadRequest, format!("the body is not what this path takes: {error}"))
    })
}

/// What this process holds of keys is out of date.
fn forget(app: &App) {
    if let Some(keys) = &app.stored_keys {
        keys.forget();
    }
    app.tell_replicas(&Change::Keys);
}

fn with_secret(mut shown: Value, secret: &Secret) -> Value {
    shown["key"] = Value::from(secret.expose());
    shown
}

fn key_id(text: &str) -> Result<KeyId, GatewayError> {
    text.parse().map_err(|_| no_such_key())
}

fn no_such_key() -> GatewayError {
    GatewayError::new(ErrorKind::NotFound, "no such key, or it was revoked before")
}

pub(super) fn failed(error: StoreError) -> GatewayError {
    match error {
        StoreError::Unavailable(_) | StoreError::Crossed(_) => {
            GatewayError::new(ErrorKind::Overloaded, "the store is not available right now").with_source(error)
        }
        error => GatewayError::internal(error),
    }
}

pub(super) fn reply(app: &App, status: StatusCode, result: Result<Value, GatewayError>) -> Response<Body> {
    let ok = result.is_ok();
    let mut reply = answer(result.map(|value| value.to_string()));
    if ok {
        *reply.status_mut() = status;
    }
    reply.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    app.metrics.requests.inc(Route::Admin, Outcome::of_status(reply.status().as_u16()));
    reply
}
