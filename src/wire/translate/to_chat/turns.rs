//! Turns as messages: the results of tools are messages of their own there.

use super::content::{only_text, part};
use crate::wire::ChatRequest;
use crate::wire::translate::json::{Array, Object};
use crate::wire::translate::losses::Losses;
use crate::wire::translate::value::{Value, get};

/// Writes what instructs the model, and all messages.
pub(super) fn write(messages: &mut Array<'_>, request: &ChatRequest, losses: &mut Losses) {
    if let Some(text) = get(request, "system").filter(|system| !system.is_neutral()) {
        system(messages, text, || "system".to_owned(), losses);
    }
    for (at, message) in get(request, "messages").into_iter().flat_map(Value::elements).enumerate() {
        let Some(content) = message.get("content") else {
            losses.refuse(format!("messages[{at}].content"), "is required");
            continue;
        };
        match message.get_string("role").as_deref() {
            Some("user") => user(messages, content, at, losses),
            Some("assistant") => messages.object(|out| assistant(out, content, at, losses)),
            // Claude Code tells so of the place where it runs, behind the user's first words.
            Some("system") => system(messages, content, || format!("messages[{at}].content"), losses),
            _ => losses.refuse(format!("messages[{at}].role"), "must be `user`, `assistant` or `system`"),
        }
    }
}

fn system(messages: &mut Array<'_>, content: Value<'_>, param: impl Fn() -> String, losses: &mut Losses) {
    match only_text(content) {
        Some(text) => messages.object(|message| {
            message.raw("role", r#""system""#);
            message.escaped("content", &text);
        }),
        None => losses.refuse(param(), "must be a string or blocks of type `text`"),
    }
}

/// A user's turn: first the results, then the user's own words, with the pictures that tools gave, which their messages cannot hold.
fn user(messages: &mut Array<'_>, content: Value<'_>, at: usize, losses: &mut Losses) {
    if let Some(text) = only_text(content) {
        return messages.object(|message| {
            message.raw("role", r#""user""#);
            message.escaped("content", &text);
        });
    }
    let mut own = String::new();
    let mut parts = Array::behind(&mut own);
    for (n, block) in content.elements().enumerate() {
        let param = format!("messages[{at}].content[{n}]");
        if block.kind() != "tool_result" {
            part(&mut parts, block, &param, losses);
            continue;
        }
        if block.get("is_error").is_some_and(|is_error| is_error.literal() == "true") {
            losses.mention("tool_result.is_error");
        }
        messages.object(|message| {
            message.raw("role", r#""tool""#);
            message.raw("tool_call_id", block.get("tool_use_id").map_or(r#""""#, Value::literal));
            message.escaped("content", &result(block.get("content"), &mut parts, &param, losses));
        });
    }
    if !own.is_empty() {
        messages.object(|message| {
            message.raw("role", r#""user""#);
            message.array("content", |parts| parts.raw(&own));
        });
    }
}

/// The text of a tool's result, escaped. What is no text goes to `parts`.
fn result(content: Option<Value<'_>>, parts: &mut Array<'_>, param: &str, losses: &mut Losses) -> String {
    let Some(content) = content else { return String::new() };
    if let Some(text) = only_text(content) {
        return text.into_owned();
    }
    let mut texts = Vec::new();
    for (n, block) in content.elements().enumerate() {
        match block.get_text("text").filter(|_| block.kind() == "text") {
            Some(text) => texts.push(text.inner()),
            None => part(parts, block, &format!("{param}.content[{n}]"), losses),
        }
    }
    texts.join(r"\n")
}

fn assistant(out: &mut Object<'_>, content: Value<'_>, at: usize, losses: &mut Losses) {
    out.raw("role", r#""assistant""#);
    if content.is_string() {
        return out.raw("content", content.literal());
    }
    let (mut texts, mut calls) = (Vec::new(), String::new());
    for (n, block) in content.elements().enumerate() {
        match &*block.kind() {
            "text" => texts.push(block.get_text("text").map_or("", Value::inner)),
            "thinking" | "redacted_thinking" => losses.mention("thinking"),
            "tool_use" => Array::behind(&mut calls).object(|call| {
                call.raw("id", block.get("id").map_or(r#""""#, Value::literal));
                call.raw("type", r#""function""#);
                call.object("function", |function| {
                    function.raw("name", block.get("name").map_or(r#""""#, Value::literal));
                    function.text("arguments", block.get("input").map_or("{}", Value::literal));
                });
            }),
            kind => losses.refuse(
                format!("messages[{at}].content[{n}]"),
                format!("is of type `{kind}`, which cannot be carried over to this target"),
            ),
        }
    }
    match texts.is_empty() && !calls.is_empty() {
        true => out.raw("content", "null"),
        false => out.escaped("content", &texts.join(r"\n")),
    }
    if !calls.is_empty() {
        out.array("tool_calls", |array| array.raw(&calls));
    }
}
