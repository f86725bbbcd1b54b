//! An error in OpenAI's envelope, in upstream's own words.

use crate::wire::translate::json;
use crate::wire::translate::value::Value;

/// Translates `{"type":"error","error":{"type","message"}}`; `None` for anything else.
pub(in crate::wire::translate) fn error(text: &str) -> Option<String> {
    let body = Value::whole(text);
    let error = body.get("error").filter(|error| error.is_object() && body.kind() == "error")?;
    let kind = error.kind();
    let mut out = String::with_capacity(text.len() + 64);
    json::object(&mut out, |envelope| {
        envelope.object("error", |out| {
            out.raw("message", error.get_text("message").map_or(r#""""#, Value::literal));
            out.text("type", openai_type(&kind));
            out.raw("param", "null");
            out.text("code", &kind);
        });
    });
    Some(out)
}

/// The word that OpenAI has for a kind of error; what both name alike stays, and so does what is new.
fn openai_type(kind: &str) -> &str {
    match kind {
        "not_found_error" | "request_too_large" => "invalid_request_error",
        "api_error" | "timeout_error" => "server_error",
        "billing_error" => "insufficient_quota",
        kind => kind,
    }
}
