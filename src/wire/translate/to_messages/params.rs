//! Members beside messages and tools.

use crate::wire::ChatRequest;
use crate::wire::translate::json::Object;
use crate::wire::translate::losses::Losses;
use crate::wire::translate::value::{Value, get, members};

/// Writes what steers the answer.
pub(super) fn write(body: &mut Object<'_>, request: &ChatRequest, default_max_tokens: u64, losses: &mut Losses) {
    body.number("max_tokens", request.max_output().unwrap_or(default_max_tokens));
    for (key, value) in members(request) {
        one(body, key, value, losses);
    }
    who(body, request);
    output(body, request, losses);
}

fn one(body: &mut Object<'_>, key: &str, value: Value<'_>, losses: &mut Losses) {
    let literal = value.literal();
    match key {
        // Written elsewhere. A stream always tells its usage, so that `stream_options` concerns the way back alone.
        "model"
        | "messages"
        | "max_tokens"
        | "max_completion_tokens"
        | "stream_options"
        | "user"
        | "safety_identifier"
        | "tools"
        | "tool_choice"
        | "parallel_tool_calls"
        | "functions"
        | "function_call"
        | "reasoning_effort"
        | "response_format"
        | "output_config" => {}
        // Whatever it is set to, `1` is what is done.
        "n" if literal == "1" => {}
        "n" if literal != "null" => losses.refuse("n", "must be 1: this target gives one choice for a request"),
        "modalities" if value.elements().any(|kind| kind.literal() != r#""text""#) => {
            losses.refuse("modalities", "must be [\"text\"]: this target answers with text only");
        }
        "modalities" => {}
        _ if literal == "null" => {}
        "stream" => body.raw("stream", literal),
        "temperature" => temperature(body, literal, losses),
        // The last two are Anthropic's own, which its SDK for OpenAI clients takes too.
        "top_p" | "top_k" | "thinking" => body.raw(key, literal),
        "stop" if value.is_array() => body.raw("stop_sequences", literal),
        "stop" => body.array("stop_sequences", |stops| stops.raw(literal)),
        "metadata" => {
            if value.members().any(|(name, _)| name != "user_id") {
                losses.lose("metadata");
            }
        }
        "service_tier" => match literal {
            r#""auto""# => body.raw("service_tier", literal),
            r#""default""# | r#""standard_only""# => body.raw("service_tier", r#""standard_only""#),
            _ => losses.lose("service_tier"),
        },
        _ if value.is_neutral() => {}
        _ => losses.lose(key),
    }
}

/// OpenAI's scale ends at 2, Anthropic's at 1.
fn temperature(body: &mut Object<'_>, literal: &str, losses: &mut Losses) {
    if literal.parse::<f64>().is_ok_and(|temperature| temperature > 1.0) {
        losses.lose("temperature");
        body.raw("temperature", "1");
    } else {
        body.raw("temperature", literal);
    }
}

/// Whom the request is about: opaque to both APIs.
fn who(body: &mut Object<'_>, request: &ChatRequest) {
    let named = get(request, "metadata").and_then(|metadata| metadata.get("user_id"));
    let named = named.or_else(|| get(request, "safety_identifier")).or_else(|| get(request, "user"));
    if let Some(id) = named.filter(|id| id.is_string() && !id.is_blank()) {
        body.object("metadata", |metadata| metadata.raw("user_id", id.literal()));
    }
}

/// `reasoning_effort` and `response_format`, which are one member there; or that member itself.
fn output(body: &mut Object<'_>, request: &ChatRequest, losses: &mut Losses) {
    let effort = get(request, "reasoning_effort").and_then(|effort| effort_of(effort, losses));
    let format = get(request, "response_format").and_then(|format| schema_of(format, losses));
    if let Some(own) = get(request, "output_config") {
        return body.raw("output_config", own.literal());
    }
    if effort.is_some() || format.is_some() {
        body.object("output_config", |config| {
            config.raw_if("effort", effort);
            if let Some(schema) = format {
                config.object("format", |format| {
                    format.raw("type", r#""json_schema""#);
                    format.raw("schema", schema.literal());
                });
            }
        });
    }
}

fn effort_of<'r>(effort: Value<'r>, losses: &mut Losses) -> Option<&'r str> {
    match effort.literal() {
        // It thinks only when it is told to.
        r#""none""# => None,
        r#""minimal""# => Some(r#""low""#),
        word @ (r#""low""# | r#""medium""# | r#""high""# | r#""xhigh""# | r#""max""#) => Some(word),
        _ => {
            losses.lose("reasoning_effort");
            None
        }
    }
}

fn schema_of<'r>(format: Value<'r>, losses: &mut Losses) -> Option<Value<'r>> {
    let schema = format.get("json_schema").and_then(|named| named.get("schema"));
    match &*format.kind() {
        "text" => None,
        "json_schema" if schema.is_some() => schema,
        // There is no mode for "any JSON".
        _ => {
            losses.lose("response_format");
            None
        }
    }
}
