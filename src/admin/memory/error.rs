//! Errors of the memory API, in OpenAI's envelope.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value};

use crate::base::{ErrorKind, GatewayError};
use crate::store::StoreError;
use crate::wire::fault;

/// An error and what else its body says.
#[derive(Debug)]
pub(super) struct ApiError {
    error: GatewayError,
    /// Members beside `error`.
    beside: Map<String, Value>,
}

/// What every handler returns.
pub(super) type Answer<T = Response> = Result<T, ApiError>;

impl ApiError {
    pub(super) fn new(kind: ErrorKind, public: impl Into<String>) -> Self {
        GatewayError::new(kind, public).into()
    }

    /// A member of the request is wrong.
    pub(super) fn bad(param: &str, public: impl Into<String>) -> Self {
        GatewayError::new(ErrorKind::BadRequest, public).with_param(param).into()
    }

    /// No such thing in the caller's scope.
    pub(super) fn not_found(what: &str) -> Self {
        Self::new(ErrorKind::NotFound, format!("no such {what}"))
    }

    /// Adds a member to the body, beside `error`.
    pub(super) fn beside(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.beside.insert(name.to_owned(), value.into());
        self
    }
}

impl From<GatewayError> for ApiError {
    fn from(error: GatewayError) -> Self {
        Self { error, beside: Map::new() }
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Conflict { .. } => {
                Self::new(ErrorKind::Conflict, "it was changed by someone else in between; read it and try again")
            }
            StoreError::Unavailable(_) | StoreError::Crossed(_) => {
                GatewayError::new(ErrorKind::Overloaded, "the store is not available right now")
                    .with_source(error)
                    .into()
            }
            _ => GatewayError::internal(error).into(),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let Self { error, beside } = self;
        if let Some(cause) = std::error::Error::source(&error) {
            tracing::error!(error = cause, "a call of the memory API failed");
        }
        let body = if beside.is_empty() { fault::envelope(&error).to_vec() } else { with_members(&error, beside) };
        let status = StatusCode::from_u16(error.kind.status()).expect("every kind has a valid status");
        let json = HeaderValue::from_static("application/json");
        let mut response = (status, [(header::CONTENT_TYPE, json)], body).into_response();
        if let Some(after) = error.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(after.as_secs().max(1)));
        }
        response
    }
}

fn with_members(error: &GatewayError, beside: Map<String, Value>) -> Vec<u8> {
    let mut body: Map<String, Value> =
        serde_json::from_slice(&fault::envelope(error)).expect("the envelope is a JSON object");
    body.extend(beside);
    Value::Object(body).to_string().into_bytes()
}

/// The path is there, the method is not.
pub(super) async fn method_not_allowed() -> ApiError {
    ApiError::new(ErrorKind::MethodNotAllowed, "this path does not take this method")
}
