//! A whole reply.

use super::usage::Counts;
use crate::wire::translate::json::{self, Array, Object};
use crate::wire::translate::reasons::finish_reason;
use crate::wire::translate::value::Value;

/// Translates a message; `None` when it is none.
pub(in crate::wire::translate) fn reply(text: &str, created: u64) -> Option<String> {
    let body = Value::whole(text);
    let content = body.get("content").filter(|content| content.is_array() && body.kind() == "message")?;
    let mut counts = Counts::default();
    if let Some(usage) = body.get("usage") {
        counts.told(usage);
    }
    let mut out = String::with_capacity(text.len() + 256);
    json::object(&mut out, |reply| {
        reply.raw("id", body.get("id").map_or(r#""""#, Value::literal));
        reply.text("object", "chat.completion");
        reply.number("created", created);
        reply.raw("model", body.get("model").map_or(r#""""#, Value::literal));
        reply.array("choices", |choices| {
            choices.object(|choice| {
                choice.raw("index", "0");
                choice.object("message", |out| message(out, content));
                choice.raw("logprobs", "null");
                match body.get_string("stop_reason") {
                    Some(reason) => choice.text("finish_reason", finish_reason(&reason)),
                    None => choice.raw("finish_reason", "null"),
                }
            });
        });
        counts.write(reply);
    });
    Some(out)
}

fn message(out: &mut Object<'_>, content: Value<'_>) {
    let (mut text, mut thought) = (None::<String>, String::new());
    let (mut thinking, mut calls) = (String::new(), String::new());
    for block in content.elements() {
        match &*block.kind() {
            "text" => text.get_or_insert_default().push_str(block.get_text("text").map_or("", Value::inner)),
            "tool_use" => Array::behind(&mut calls).object(|call| tool_call(call, block)),
            "thinking" => {
                thought.push_str(block.get_text("thinking").map_or("", Value::inner));
                Array::behind(&mut thinking).raw(block.literal());
            }
            "redacted_thinking" => Array::behind(&mut thinking).raw(block.literal()),
            // What servers do by themselves was not asked for, and has no place in a chat reply.
            _ => {}
        }
    }
    out.text("role", "assistant");
    match &text {
        Some(text) => out.escaped("content", text),
        None => out.raw("content", "null"),
    }
    out.raw("refusal", "null");
    if !thought.is_empty() {
        out.escaped("reasoning_content", &thought);
    }
    for (key, elements) in [("thinking_blocks", &thinking), ("tool_calls", &calls)] {
        if !elements.is_empty() {
            out.array(key, |array| array.raw(elements));
        }
    }
}

fn tool_call(call: &mut Object<'_>, block: Value<'_>) {
    call.raw("id", block.get("id").map_or(r#""""#, Value::literal));
    call.text("type", "function");
    call.object("function", |function| {
        function.raw("name", block.get("name").map_or(r#""""#, Value::literal));
        function.text("arguments", block.get("input").map_or("{}", Value::literal));
    });
}
