//! Counts one message.
//!
//! Source of the rules: OpenAI's cookbook, "How to count tokens with tiktoken" (as of 2025-08): 3 tokens a message, all
//! values of its members, 1 more for a name. Tool calls are not in it; their overhead is an estimate on the high side.

use crate::wire::{Content, Message, Part, PartKind, Role, Span, decode_lossy, scan};

use super::encoding::Rules;
use super::media::{audio_tokens, image_size, image_size_of, opaque_tokens};

/// What every message costs beside its values.
const PER_MESSAGE: usize = 3;
/// What a name costs beside its own tokens.
const PER_NAME: usize = 1;
/// What a tool call costs beside its name and arguments.
const PER_CALL: usize = 4;
/// Raw JSON longer than this is taken for data, not text: nobody tokenises it as text.
const MAX_RAW_BYTES: usize = 256 * 1024;

/// Returns the tokens of one message, all that is sent of it included.
pub(super) fn count(rules: Rules, text: &str, message: &Message) -> usize {
    if let Some(span) = message.item {
        return PER_MESSAGE + item(rules, text, span);
    }
    let mut tokens = PER_MESSAGE + role(rules, text, message) + content(rules, text, message);
    if let Some(name) = message.name {
        tokens += PER_NAME + literal(rules, text, name);
    }
    if let Some(refusal) = message.refusal {
        tokens += literal(rules, text, refusal);
    }
    if let Some(calls) = message.tool_calls {
        tokens += scan::elements(text, calls).map(|call| tool_call(rules, text, call)).sum::<usize>();
    }
    // Providers whose models think aloud want it back, and read it.
    if message.role == Role::Assistant
        && let Some(reasoning) = scan::member(text, message.span, "reasoning_content")
        && reasoning.of(text) != "null"
    {
        tokens += literal(rules, text, reasoning);
    }
    if let Some(call) = message.function_call {
        tokens += PER_CALL + named_arguments(rules, text, call);
    }
    tokens
}

/// An item of a responses request that is no message: all that it says, on the high side.
fn item(rules: Rules, text: &str, item: Span) -> usize {
    let value = |value: Span| match value.of(text).as_bytes().first() {
        Some(b'"') if value.len() <= MAX_RAW_BYTES => literal(rules, text, value),
        _ => raw(rules, text, value),
    };
    let members = scan::members(text, item).map(|member| match member.key.of(text) {
        // What ties items together is not shown to the model.
        "type" | "id" | "status" | "call_id" | "approval_request_id" => 0,
        "encrypted_content" => opaque_tokens(member.value.len()),
        // A picture that the model made.
        "result" if member.value.len() > MAX_RAW_BYTES => rules.images.tokens(None, None),
        _ => value(member.value),
    });
    members.sum()
}

/// All known roles are one token in both vocabularies.
fn role(rules: Rules, text: &str, message: &Message) -> usize {
    match message.role {
        Role::Other => scan::member(text, message.span, "role").map_or(1, |span| literal(rules, text, span)),
        _ => 1,
    }
}

fn content(rules: Rules, text: &str, message: &Message) -> usize {
    match message.content {
        Content::Absent | Content::Null(_) => 0,
        Content::Text(span) => literal(rules, text, span),
        // One part alone, as a screenshot is.
        Content::Other(span) => part(rules, text, &Part::read(text, span)),
        Content::Parts(span) => scan::elements(text, span).map(|span| part(rules, text, &Part::read(text, span))).sum(),
    }
}

fn part(rules: Rules, text: &str, part: &Part) -> usize {
    match part.kind {
        PartKind::Text(span) | PartKind::Refusal(span) => literal(rules, text, span),
        PartKind::Image { url, detail } => {
            let url = url.map(|span| decode_lossy(span.of(text)));
            let detail = detail.map(|span| decode_lossy(span.of(text)));
            rules.images.tokens(url.as_deref().and_then(image_size), detail.as_deref())
        }
        PartKind::ImageData(data) => rules.images.tokens(image_size_of(data.of(text).trim_matches('"')), None),
        PartKind::Audio => audio_tokens(part.span.len()),
        PartKind::File => opaque_tokens(part.span.len()),
        PartKind::ToolUse { name, input } => {
            PER_CALL + [name, input].into_iter().flatten().map(|span| literal(rules, text, span)).sum::<usize>()
        }
        PartKind::ToolResult(content) => PER_CALL + content.map_or(0, |span| nested(rules, text, span)),
        // Signatures are not read by the model; of what is encrypted nobody knows, so it counts by its length.
        PartKind::Thinking(span) => literal(rules, text, span),
        PartKind::RedactedThinking => opaque_tokens(part.span.len()),
        PartKind::Other => raw(rules, text, part.span),
    }
}

/// What stands in a tool's result: a string, or parts, which hold no results themselves.
fn nested(rules: Rules, text: &str, content: Span) -> usize {
    if !content.of(text).starts_with('[') {
        return literal(rules, text, content);
    }
    let parts = scan::elements(text, content).map(|span| Part::read(text, span));
    let one = |part: Part| match part.kind {
        PartKind::ToolResult(_) => raw(rules, text, part.span),
        _ => self::part(rules, text, &part),
    };
    parts.map(one).sum()
}

fn tool_call(rules: Rules, text: &str, call: Span) -> usize {
    let custom = || scan::member(text, call, "custom");
    let called = scan::member(text, call, "function").or_else(custom).unwrap_or(call);
    PER_CALL + named_arguments(rules, text, called)
}

/// The name and the arguments (or a custom tool's input) of a call.
fn named_arguments(rules: Rules, text: &str, call: Span) -> usize {
    ["name", "arguments", "input"]
        .iter()
        .filter_map(|key| scan::member(text, call, key))
        .map(|span| literal(rules, text, span))
        .sum()
}

/// Returns the tokens of the text of a JSON string; other JSON counts as it is written.
pub(super) fn literal(rules: Rules, text: &str, span: Span) -> usize {
    if !span.of(text).starts_with('"') {
        return raw(rules, text, span);
    }
    rules.encoding.tokenizer().count(&decode_lossy(span.of(text)))
}

/// Returns the tokens of JSON as it is written; an estimate by length when it is very long.
pub(super) fn raw(rules: Rules, text: &str, span: Span) -> usize {
    let json = span.of(text);
    if json.len() > MAX_RAW_BYTES {
        return opaque_tokens(json.len());
    }
    rules.encoding.tokenizer().count(json)
}
