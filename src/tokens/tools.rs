//! Counts tool schemas.
//!
//! Source of the figures: OpenAI's cookbook, "How to count tokens with tiktoken", section on tool calls (as of 2025-08).
//! The guide covers flat schemas; nested ones are counted by the same rule, level by level.

use crate::wire::{Span, decode_lossy, scan};

use super::encoding::{Encoding, Rules};
use super::message;

/// For each object that has properties.
const PROPERTIES: usize = 3;
/// For each property.
const PROPERTY: usize = 3;
/// For an `enum`: less this once, …
const ENUM: usize = 3;
/// … and this for each of its values.
const ENUM_VALUE: usize = 3;
/// Once for all functions.
const END: usize = 12;
/// Schemas deeper than this count as the text they are: nothing recurses without end.
const MAX_DEPTH: usize = 32;

/// Returns the tokens of a `tools` (or legacy `functions`) array.
pub(super) fn count(rules: Rules, text: &str, tools: Span) -> usize {
    let each: usize = scan::elements(text, tools).map(|tool| tool_tokens(rules, text, tool)).sum();
    if each == 0 { 0 } else { each + END }
}

fn tool_tokens(rules: Rules, text: &str, tool: Span) -> usize {
    let function = match scan::member(text, tool, "function") {
        Some(function) => function,
        None if schema_of(text, tool).is_some() => tool,
        // A tool of another type: nobody says how it is shown, so it counts as written.
        None => return message::raw(rules, text, tool),
    };
    let start = match rules.encoding {
        Encoding::Cl100k => 10,
        Encoding::O200k => 7,
    };
    let mut line = string(text, function, "name");
    line.push(':');
    line.push_str(without_stop(&string(text, function, "description")));
    let parameters = schema_of(text, function).map_or(0, |s| schema(rules, text, s, 0));
    start + tokens(rules, &line) + parameters
}

/// The schema of what a function takes: OpenAI's `parameters`, Anthropic's `input_schema`.
fn schema_of(text: &str, function: Span) -> Option<Span> {
    ["parameters", "input_schema"].iter().find_map(|key| scan::member(text, function, key))
}

/// What stands below a schema: its properties, items, alternatives and definitions.
fn schema(rules: Rules, text: &str, span: Span, depth: usize) -> usize {
    if depth == MAX_DEPTH {
        return message::raw(rules, text, span);
    }
    let mut total = 0;
    for member in scan::members(text, span) {
        total += match member.key.of(text) {
            "properties" => properties(rules, text, member.value, depth),
            "items" | "additionalProperties" => schema(rules, text, member.value, depth + 1),
            "anyOf" | "oneOf" | "allOf" => {
                scan::elements(text, member.value).map(|s| schema(rules, text, s, depth + 1)).sum()
            }
            "$defs" | "definitions" => {
                scan::members(text, member.value).map(|m| schema(rules, text, m.value, depth + 1)).sum()
            }
            _ => 0,
        };
    }
    total
}

fn properties(rules: Rules, text: &str, span: Span, depth: usize) -> usize {
    let each: usize = scan::members(text, span)
        .map(|property| {
            let name = property.key.of(text);
            let kind = string(text, property.value, "type");
            let description = string(text, property.value, "description");
            let line = format!("{name}:{kind}:{}", without_stop(&description));
            let allowed = scan::member(text, property.value, "enum").map_or(0, |s| enumeration(rules, text, s));
            // The sum cannot go below zero: a property costs as much as an `enum` saves.
            (PROPERTY + allowed).saturating_sub(if allowed > 0 { ENUM } else { 0 })
                + tokens(rules, &line)
                + schema(rules, text, property.value, depth + 1)
        })
        .sum();
    if each == 0 { 0 } else { PROPERTIES + each }
}

fn enumeration(rules: Rules, text: &str, span: Span) -> usize {
    scan::elements(text, span).map(|value| ENUM_VALUE + message::literal(rules, text, value)).sum()
}

/// Returns a string member as text; a list of types as it is written; nothing when it is absent.
fn string(text: &str, span: Span, key: &str) -> String {
    scan::member(text, span, key).map(|s| decode_lossy(s.of(text)).into_owned()).unwrap_or_default()
}

/// Descriptions are shown without their last full stop.
fn without_stop(text: &str) -> &str {
    text.strip_suffix('.').unwrap_or(text)
}

fn tokens(rules: Rules, text: &str) -> usize {
    rules.encoding.tokenizer().count(text)
}
