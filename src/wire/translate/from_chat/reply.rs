//! A whole reply.

use super::usage;
use crate::wire::Usage;
use crate::wire::scan;
use crate::wire::translate::json::{self, Array, Object};
use crate::wire::translate::reasons::stop_reason;
use crate::wire::translate::value::Value;

/// Translates a chat completion; `None` when it is none.
pub(in crate::wire::translate) fn reply(text: &str) -> Option<String> {
    let body = Value::whole(text);
    let choice = body.get("choices")?.elements().next()?;
    let message = choice.get("message")?;
    let usage = body.get("usage").and_then(|usage| Usage::read(usage.literal())).unwrap_or_default();
    let mut out = String::with_capacity(text.len() + 256);
    json::object(&mut out, |reply| {
        reply.raw("id", body.get("id").map_or(r#""""#, Value::literal));
        reply.raw("type", r#""message""#);
        reply.raw("role", r#""assistant""#);
        reply.raw("model", body.get("model").map_or(r#""""#, Value::literal));
        reply.array("content", |blocks| content(blocks, message));
        match choice.get_string("finish_reason") {
            Some(reason) => reply.text("stop_reason", stop_reason(&reason)),
            None => reply.raw("stop_reason", "null"),
        }
        reply.raw("stop_sequence", "null");
        usage::write(reply, usage);
    });
    Some(out)
}

fn content(blocks: &mut Array<'_>, message: Value<'_>) {
    for key in ["content", "refusal"] {
        let Some(said) = message.get(key) else { continue };
        let parts = said.is_array().then(|| said.elements().filter_map(|part| part.get_text("text")));
        for text in parts.into_iter().flatten().chain(Some(said).filter(|said| said.is_string())) {
            if !text.inner().is_empty() {
                blocks.object(|block| {
                    block.raw("type", r#""text""#);
                    block.raw("text", text.literal());
                });
            }
        }
    }
    for call in message.get("tool_calls").into_iter().flat_map(Value::elements) {
        blocks.object(|block| {
            let function = call.get("function").unwrap_or(call);
            block.raw("type", r#""tool_use""#);
            block.raw("id", call.get("id").map_or(r#""""#, Value::literal));
            block.raw("name", function.get("name").map_or(r#""""#, Value::literal));
            input(block, function);
        });
    }
}

/// The arguments as an object. What a model wrote that is none is told under one name.
fn input(block: &mut Object<'_>, function: Value<'_>) {
    let said = function.get_string("arguments").unwrap_or_default();
    if said.trim().is_empty() {
        block.raw("input", "{}");
    } else if said.trim_start().starts_with('{') && scan::validate(&said).is_ok() {
        block.raw("input", said.trim());
    } else {
        block.object("input", |input| input.text("arguments", &said));
    }
}
