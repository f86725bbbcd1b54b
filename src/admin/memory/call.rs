//! What a handler gets: who calls, in which scope, and the parts of the request, checked.

use std::str::FromStr;
use std::sync::Arc;

use async_trait::async_trait;
use axum::body::to_bytes;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use serde::de::DeserializeOwned;

use super::error::ApiError;
use super::{ApiAccess, Shared};
use crate::base::{ErrorKind, GatewayError};
use crate::memory::{Actor, Scope, Sensitivity};

/// The largest body of a call, in bytes: one fact or episode, not a document.
const MAX_BODY_BYTES: usize = 1 << 20;

/// Who calls, from key and headers.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Where it reads and writes; `None` = the request names no subject.
    pub scope: Option<Scope>,
    /// The tenant of its key.
    pub tenant: Arc<str>,
    /// The namespace that it writes.
    pub namespace: Arc<str>,
    /// Others that it may read.
    pub namespaces_readable: Vec<Arc<str>>,
    /// What it may do.
    pub memory_api: ApiAccess,
    /// Whether it may lock facts and edit as an operator.
    pub may_edit: bool,
    /// Whether it holds the admin key.
    pub admin: bool,
    /// Facts above it are not there for this caller.
    pub max_sensitivity: Sensitivity,
}

impl Caller {
    /// As whom it changes what is there.
    pub(super) fn editor(&self) -> Actor {
        if self.is_operator() { Actor::Operator } else { Actor::Api }
    }

    /// Whether it may lock, and change what is locked.
    pub(super) fn is_operator(&self) -> bool {
        self.admin || self.may_edit
    }

    /// Whether it may see memories of a sensitivity.
    pub(super) fn sees(&self, sensitivity: Sensitivity) -> bool {
        self.admin || sensitivity <= self.max_sensitivity
    }
}

/// Says who calls.
#[async_trait]
pub trait Identify: Send + Sync {
    /// Derives the caller from a request's headers.
    ///
    /// # Errors
    /// 401 for a key that is missing or unknown, 403 for a header that it may not use.
    async fn caller(&self, headers: &HeaderMap) -> Result<Caller, GatewayError>;
}

/// A call that reads: the key's `memory_api` is `read` or `write`, and there is a subject.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) caller: Caller,
    pub(super) scope: Scope,
}

/// A call that writes: the key's `memory_api` is `write`, and there is a subject.
#[derive(Debug)]
pub(super) struct Write {
    pub(super) caller: Caller,
    pub(super) scope: Scope,
}

/// Who calls, if it may do that, whether or not it names a subject.
pub(super) async fn caller_who_may(headers: &HeaderMap, api: &Shared, needed: ApiAccess) -> Result<Caller, ApiError> {
    let caller = api.identify.caller(headers).await?;
    if caller.memory_api < needed && !caller.admin {
        let doing = if needed == ApiAccess::Read { "use" } else { "write through" };
        return Err(ApiError::new(ErrorKind::Forbidden, format!("this key may not {doing} the memory API")));
    }
    Ok(caller)
}

/// Who calls, if it may do that, and in which scope.
pub(super) async fn allowed(headers: &HeaderMap, api: &Shared, needed: ApiAccess) -> Result<(Caller, Scope), ApiError> {
    let caller = caller_who_may(headers, api, needed).await?;
    // Never "all subjects": without one there is nothing to work on (moorcheh-ai/memanto PR#1891).
    let Some(scope) = caller.scope.clone() else {
        let public = "whose memory? name the subject in the header x-backstory-user, or give the key a default_subject";
        return Err(ApiError::bad("x-backstory-user", public));
    };
    Ok((caller, scope))
}

impl FromRequestParts<Shared> for Read {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, api: &Shared) -> Result<Self, ApiError> {
        allowed(&parts.headers, api, ApiAccess::Read).await.map(|(caller, scope)| Self { caller, scope })
    }
}

impl FromRequestParts<Shared> for Write {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, api: &Shared) -> Result<Self, ApiError> {
        allowed(&parts.headers, api, ApiAccess::Write).await.map(|(caller, scope)| Self { caller, scope })
    }
}

/// The id in the path. A text that is no id names nothing: 404.
#[derive(Debug)]
pub(super) struct Id<T>(pub(super) T);

impl<T: FromStr> FromRequestParts<Shared> for Id<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, api: &Shared) -> Result<Self, ApiError> {
        let text = Path::<String>::from_request_parts(parts, api).await.ok();
        text.and_then(|Path(text)| text.parse().ok()).map(Self).ok_or_else(|| ApiError::not_found("object"))
    }
}

/// The query string. Unknown names are errors: a misspelt filter must not list everything.
#[derive(Debug)]
pub(super) struct Filter<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequestParts<Shared> for Filter<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &Shared) -> Result<Self, ApiError> {
        match Query::<T>::try_from_uri(&parts.uri) {
            Ok(Query(filter)) => Ok(Self(filter)),
            Err(rejection) => Err(ApiError::new(ErrorKind::BadRequest, rejection.body_text())),
        }
    }
}

/// The version that a change expects: `If-Match: "3"`.
#[derive(Debug)]
pub(super) struct IfMatch(pub(super) Option<i64>);

impl FromRequestParts<Shared> for IfMatch {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &Shared) -> Result<Self, ApiError> {
        let Some(value) = parts.headers.get(header::IF_MATCH) else { return Ok(Self(None)) };
        let text = value.to_str().unwrap_or_default().trim();
        if text == "*" {
            return Ok(Self(None));
        }
        let digits = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text);
        let version = digits.parse().map_err(|_| ApiError::bad("If-Match", "must be one version, as in \"3\""))?;
        Ok(Self(Some(version)))
    }
}

/// A body of JSON, of a known shape.
#[derive(Debug)]
pub(super) struct Json<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequest<Shared> for Json<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &Shared) -> Result<Self, ApiError> {
        let (parts, body) = request.into_parts();
        if !is_json(&parts.headers) {
            return Err(ApiError::new(ErrorKind::UnsupportedMedia, "the body must be application/json"));
        }
        let bytes = to_bytes(body, MAX_BODY_BYTES).await.map_err(|error| body_error(&error, MAX_BODY_BYTES))?;
        serde_json::from_slice(&bytes)
            .map(Self)
            .map_err(|error| ApiError::new(ErrorKind::BadRequest, format!("cannot read the body: {error}")))
    }
}

/// A body that is too large, or that the client did not send whole.
pub(super) fn body_error(error: &axum::Error, max_bytes: usize) -> ApiError {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(inner) = cause {
        if inner.is::<http_body_util::LengthLimitError>() {
            let public = format!("the body is larger than {max_bytes} bytes");
            return ApiError::new(ErrorKind::TooLarge, public);
        }
        cause = inner.source();
    }
    ApiError::new(ErrorKind::BadRequest, "the body did not arrive whole")
}

/// Whether the content type is JSON; a missing one is taken as JSON, since nothing else is understood here.
fn is_json(headers: &HeaderMap) -> bool {
    let Some(value) = headers.get(header::CONTENT_TYPE) else { return true };
    let essence = value.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/json")
}
