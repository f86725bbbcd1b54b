//! Anthropic's messages as a conversation.
//!
//! Source: Anthropic's API reference, "Messages" (version 2023-06-01).

use super::chat::{DecodeError, View, fault};
use super::message::{Content, Message, Part, PartKind, Role};
use super::scan::{self, Span};
use super::text::decode_lossy;

/// Reads the messages. What the client has in `system` (a text, blocks, or `null`) is the first of them.
///
/// Results of tools stand in messages of the user, before anything else that is said there. A message that has some is a result of
/// tools ([`Role::Tool`]), so that it is never parted from the calls that it answers. What the user adds behind them is a message of its
/// own here, since it begins a new turn: it can be asked memory for, learned from, and kept when the results are cut. Texts that only stand in
/// tags, as the `<system-reminder>` that a coding agent puts there, are nobody's words and go with the results.
pub(super) fn view(text: &str, system: Option<Span>, array: Option<Span>) -> Result<View, DecodeError> {
    let View { array, messages: read } = View::of_array(text, array)?;
    let mut messages = Vec::with_capacity(read.len() + 1);
    if let Some(span) = system {
        let content = Content::read(text, span);
        if matches!(content, Content::Other(_)) {
            return Err(fault("system", "must be a string or an array of blocks"));
        }
        messages.push(Message::new(span, Role::System, content));
    }
    for mut message in read {
        let Content::Parts(blocks) = message.content else {
            messages.push(message);
            continue;
        };
        let types = || scan::elements(text, blocks).map(|block| (block, Part::type_of(text, block)));
        match message.role {
            Role::Assistant => {
                for (_, kind) in types() {
                    message.tool_uses |= kind == Some(TOOL_USE);
                    message.signed |= matches!(kind, Some(THINKING | REDACTED_THINKING));
                }
                messages.push(message);
            }
            Role::User => match types().filter(|(_, kind)| *kind == Some(TOOL_RESULT)).last() {
                None => messages.push(message),
                Some((last, _)) => with_results(text, message, blocks, last, &mut messages),
            },
            _ => messages.push(message),
        }
    }
    Ok(View { array, messages })
}

const TOOL_USE: &str = r#""tool_use""#;
const TOOL_RESULT: &str = r#""tool_result""#;
const THINKING: &str = r#""thinking""#;
const REDACTED_THINKING: &str = r#""redacted_thinking""#;

/// Adds a message of the user with results of tools, the last of which is `last`.
fn with_results(text: &str, message: Message, blocks: Span, last: Span, messages: &mut Vec<Message>) {
    let result = scan::elements(text, blocks).find(|block| Part::type_of(text, *block) == Some(TOOL_RESULT));
    let tool_call_id = result.and_then(|result| scan::member(text, result, "tool_use_id"));
    let results = Message { role: Role::Tool, tool_call_id, ..message };
    let behind = scan::elements(text, blocks).skip_while(|block| block.start <= last.start);
    let mut texts = behind.map(|block| Part::read(text, block)).filter_map(|part| match part.kind {
        PartKind::Text(literal) => Some(decode_lossy(literal.of(text))),
        _ => None,
    });
    if !texts.any(|text| has_own_words(&text)) {
        messages.push(results);
        return;
    }
    // The comma behind the results begins the rest of the array.
    let comma = last.end + text[last.end..].find(',').unwrap_or_default();
    messages.push(Message {
        span: Span::new(message.span.start, comma),
        content: Content::Parts(Span::new(blocks.start, last.end)),
        ..results
    });
    messages.push(Message {
        span: Span::new(comma, message.span.end),
        content: Content::Parts(Span::new(comma, blocks.end)),
        opening: Some(Span::new(message.span.start, blocks.start + 1)),
        ..message
    });
}

/// Whether a text says anything outside of tags.
fn has_own_words(text: &str) -> bool {
    let mut rest = text.trim();
    while let Some(name) = opening_tag(rest) {
        let end = format!("</{name}>");
        match rest.find(&end) {
            Some(at) => rest = rest[at + end.len()..].trim_start(),
            None => break,
        }
    }
    !rest.is_empty()
}

/// The name of the tag that a text begins with.
fn opening_tag(text: &str) -> Option<&str> {
    let tag = text.strip_prefix('<')?;
    let name = &tag[..tag.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | ':')))?];
    (!name.is_empty() && tag[name.len()..].starts_with(['>', ' '])).then_some(name)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use serde_json::{Value, json};

    use super::*;
    use crate::wire::{ChatRequest, Dialect};

    fn decode(text: &str) -> Result<ChatRequest, DecodeError> {
        ChatRequest::decode_as(Dialect::Messages, Bytes::copy_from_slice(text.as_bytes()))
    }

    #[test]
    fn what_stands_in_system_is_the_first_message() {
        let request = decode(
            r#"{"messages":[{"role":"user","content":"hi"}],"model":"m","system":[{"type":"text","text":"be kind"}]}"#,
        )
        .unwrap();
        let roles: Vec<_> = request.messages().iter().map(|m| m.role).collect();
        assert_eq!((request.dialect(), roles), (Dialect::Messages, vec![Role::System, Role::User]));
        assert_eq!(request.message_text(&request.messages()[0]), "be kind");
        let none = decode(r#"{"model":"m","system":null,"messages":[{"role":"user","content":"hi"}]}"#).unwrap();
        assert!(matches!(none.messages()[0].content, Content::Null(_)));
    }

    fn of(messages: &Value) -> ChatRequest {
        decode(&json!({"model": "m", "max_tokens": 9, "messages": messages}).to_string()).unwrap()
    }

    fn said(request: &ChatRequest) -> Vec<(Role, String)> {
        request.messages().iter().map(|m| (m.role, request.message_text(m).into_owned())).collect()
    }

    #[test]
    fn results_of_tools_answer_the_calls_before_them() {
        let request = of(&json!([
            {"role": "user", "content": "weather?"},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "t1", "name": "weather", "input": {"city": "Rome"}},
                {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "sun"}]},
                {"type": "text", "text": "<system-reminder>Be brief.</system-reminder>\n<x>y</x>"}]},
        ]));
        let [_, asks, results] = request.messages() else { panic!("three messages") };
        let calls: Vec<_> = asks.calls(request.text()).map(|call| call.id.unwrap().of(request.text())).collect();
        assert_eq!((asks.calls_tools(), asks.signed, calls), (true, true, vec![r#""t1""#]));
        assert_eq!(results.role, Role::Tool);
        assert_eq!(results.tool_call_id.map(|id| id.of(request.text())), Some(r#""t1""#));
        assert!(request.message_text(results).starts_with("sun\n<system-reminder>"));
        assert_eq!(request.newest_user(), Some(0));
    }

    #[test]
    fn what_the_user_says_behind_results_is_a_turn_of_its_own() {
        let request = of(&json!([
            {"role": "user", "content": "a"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "f", "input": {}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "t1", "content": "42"},
                {"type": "text", "text": "<system-reminder>x</system-reminder>"},
                {"type": "text", "text": "Stop. Do it in Rust."}]},
        ]));
        let said = said(&request);
        assert_eq!(said[2], (Role::Tool, "42".to_owned()));
        assert_eq!(said[3], (Role::User, "<system-reminder>x</system-reminder>\nStop. Do it in Rust.".to_owned()));
        let opening = request.messages()[3].opening.unwrap().of(request.text());
        assert!(opening.starts_with('{') && opening.ends_with('['), "{opening}");
    }

    #[test]
    fn words_outside_of_tags_are_the_users() {
        for (text, own) in [
            ("hello", true),
            ("", false),
            ("<a>x</a>", false),
            ("<a>x</a> <b c=\"d\">y</b>\n", false),
            ("<a>x</a> and this", true),
            ("<a>x", true),
            ("< 3", true),
            ("<", true),
        ] {
            assert_eq!(has_own_words(text), own, "{text}");
        }
    }

    #[test]
    fn faults_name_the_place() {
        let text = |body: &str| decode(body).unwrap_err().to_string();
        assert_eq!(text(r#"{"model":"m","system":"s"}"#), "`messages` is required");
        assert_eq!(text(r#"{"model":"m","system":"s","messages":[]}"#), "`messages` must not be empty");
        assert_eq!(
            text(r#"{"model":"m","system":7,"messages":[{}]}"#),
            "`system` must be a string or an array of blocks"
        );
    }
}
