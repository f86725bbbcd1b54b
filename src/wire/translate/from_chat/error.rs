//! An error in Anthropic's envelope, in upstream's own words.

use crate::wire::fault::upstream_error;
use crate::wire::translate::json;

/// Translates any error that [`upstream_error`] recognises. Only the words of its kind are told apart: the status is the answer's own.
pub(in crate::wire::translate) fn error(text: &str) -> Option<String> {
    let error = upstream_error(text)?;
    let mut out = String::with_capacity(text.len() + 64);
    json::object(&mut out, |envelope| {
        envelope.raw("type", r#""error""#);
        envelope.object("error", |out| {
            out.text("type", anthropic_type(error.kind.as_deref(), error.code.as_deref()));
            out.text("message", &error.message);
        });
    });
    Some(out)
}

fn anthropic_type(kind: Option<&str>, code: Option<&str>) -> &'static str {
    match (kind.unwrap_or_default(), code.unwrap_or_default()) {
        ("authentication_error", _) | (_, "invalid_api_key" | "401") => "authentication_error",
        ("permission_error" | "permission_denied_error", _) => "permission_error",
        ("not_found_error", _) | (_, "model_not_found" | "DeploymentNotFound" | "404") => "not_found_error",
        ("rate_limit_error" | "tokens" | "requests" | "insufficient_quota", _) | (_, "rate_limit_exceeded" | "429") => {
            "rate_limit_error"
        }
        ("overloaded_error", _) | (_, "overloaded") => "overloaded_error",
        ("invalid_request_error", _) | (_, "content_filter" | "context_length_exceeded" | "400") => {
            "invalid_request_error"
        }
        _ => "api_error",
    }
}
