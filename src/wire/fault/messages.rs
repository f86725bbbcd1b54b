//! Errors of ours in Anthropic's shape.
//!
//! Source: Anthropic's API reference, "Errors" (version 2023-06-01).

use crate::base::{ErrorKind, GatewayError};
use crate::wire::text::encode_string;

/// `{"type":"error","error":{"type","message"},"request_id"}`.
pub(super) fn object(error: &GatewayError, request_id: Option<&str>) -> String {
    let message = match &error.param {
        // There is no place for the member at fault but the sentence.
        Some(param) if !error.public.contains(param.as_str()) => format!("{param}: {}", error.public),
        _ => error.public.clone(),
    };
    write(kind_of(error.kind), &message, request_id)
}

pub(super) fn write(kind: &str, message: &str, request_id: Option<&str>) -> String {
    let message = encode_string(message);
    let id = request_id.map_or_else(String::new, |id| format!(r#","request_id":{}"#, encode_string(id)));
    format!(r#"{{"type":"error","error":{{"type":"{kind}","message":{message}}}{id}}}"#)
}

/// One event, as the end of a stream.
pub(super) fn event(json: &str) -> String {
    format!("event: error\ndata: {json}\n\n")
}

/// What an error is called there.
fn kind_of(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::BadRequest
        | ErrorKind::ContextLength
        | ErrorKind::MethodNotAllowed
        | ErrorKind::Conflict
        | ErrorKind::NoSuchResponse
        | ErrorKind::UrlTooLong
        | ErrorKind::HeaderTooLarge
        | ErrorKind::UnsupportedMedia
        | ErrorKind::NotImplemented
        | ErrorKind::NoWebSocket => "invalid_request_error",
        ErrorKind::Unauthenticated => "authentication_error",
        ErrorKind::Forbidden => "permission_error",
        ErrorKind::NotFound | ErrorKind::ModelNotFound => "not_found_error",
        ErrorKind::TooLarge => "request_too_large",
        ErrorKind::RateLimited => "rate_limit_error",
        ErrorKind::Overloaded => "overloaded_error",
        ErrorKind::UploadTimeout | ErrorKind::UpstreamTimeout => "timeout_error",
        ErrorKind::UpstreamFailed | ErrorKind::Internal => "api_error",
    }
}
