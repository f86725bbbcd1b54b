//! Members beside messages and tools.

use super::ToChat;
use crate::wire::ChatRequest;
use crate::wire::translate::json::Object;
use crate::wire::translate::losses::Losses;
use crate::wire::translate::value::{Value, get, members};

/// A longer id of a person is refused there, in bytes.
const MAX_USER_BYTES: usize = 64;

/// Writes what steers the answer.
pub(super) fn write(body: &mut Object<'_>, request: &ChatRequest, how: ToChat, losses: &mut Losses) {
    for (key, value) in members(request) {
        one(body, key, value, how, losses);
    }
    if request.stream() && how.ask_usage {
        body.object("stream_options", |options| options.raw("include_usage", "true"));
    }
    if let Some(config) = get(request, "output_config") {
        output(body, config, losses);
    }
}

fn one(body: &mut Object<'_>, key: &str, value: Value<'_>, how: ToChat, losses: &mut Losses) {
    let literal = value.literal();
    match key {
        // Written elsewhere.
        "model" | "messages" | "system" | "tools" | "tool_choice" | "output_config" => {}
        _ if literal == "null" => {}
        "max_tokens" if how.completion_tokens => body.raw("max_completion_tokens", literal),
        "max_tokens" | "stream" | "temperature" | "top_p" => body.raw(key, literal),
        "stop_sequences" if value.is_neutral() => {}
        "stop_sequences" => body.raw("stop", literal),
        "metadata" => match value.get_text("user_id") {
            Some(id) if id.inner().len() <= MAX_USER_BYTES => body.raw("user", id.literal()),
            Some(_) => losses.mention("metadata.user_id"),
            None => {}
        },
        "service_tier" => match literal {
            r#""auto""# => body.raw("service_tier", literal),
            r#""standard_only""# => body.raw("service_tier", r#""default""#),
            _ => losses.lose("service_tier"),
        },
        "thinking" if value.kind() == "disabled" => {}
        "mcp_servers" if !value.is_neutral() => {
            losses.refuse("mcp_servers", "are called by the server itself, which this target does not do");
        }
        _ if value.is_neutral() => {}
        _ => losses.lose(key),
    }
}

/// How much is thought about the answer, and what form it has.
fn output(body: &mut Object<'_>, config: Value<'_>, losses: &mut Losses) {
    for (key, value) in config.members() {
        match key {
            _ if value.is_neutral() => {}
            "effort" => match value.literal() {
                r#""max""# => body.raw("reasoning_effort", r#""xhigh""#),
                literal => body.raw("reasoning_effort", literal),
            },
            "format" if value.get("schema").is_some() => body.object("response_format", |format| {
                format.raw("type", r#""json_schema""#);
                format.object("json_schema", |named| {
                    named.raw("name", r#""answer""#);
                    named.raw("strict", "true");
                    named.raw_if("schema", value.get("schema").map(Value::literal));
                });
            }),
            _ => losses.lose(&format!("output_config.{key}")),
        }
    }
}
