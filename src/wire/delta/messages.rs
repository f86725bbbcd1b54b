//! Reads a reply that is written in Anthropic's dialect: its events, or one whole message.
//!
//! Source: Anthropic's API reference, "Streaming Messages" (version 2023-06-01). Events of a type that is not known tell nothing here; they pass
//! all the same.

use std::borrow::Cow;

use super::call::CallPiece;
use super::{Accumulator, Field, Seen, is_filled, short};
use crate::wire::delta::chunk::Literal;
use crate::wire::scan::{self, Span};
use crate::wire::text::decode_lossy;
use crate::wire::usage::Usage;

/// How an event begins that can tell nothing new to one who keeps no text.
const DELTAS: [&str; 2] = [r#"{"type":"content_block_delta""#, r#"{"type": "content_block_delta""#];

impl Accumulator {
    /// Takes the data of one event.
    pub(super) fn message_event(&mut self, text: &str) -> Seen {
        // Nearly every event of a stream whose text nobody keeps ends here.
        if !self.collect && DELTAS.iter().any(|delta| text.starts_with(delta)) {
            self.reply.events += 1;
            return Seen { chat: true, ..Seen::default() };
        }
        let Some(event) = self.object(text) else { return Seen { malformed: true, ..Seen::default() } };
        let get = |key| scan::member(text, event, key);
        let kind = get("type").map_or("", |kind| kind.of(text));
        let mut seen = Seen { chat: true, ..Seen::default() };
        match kind.trim_matches('"') {
            "message_start" => {
                if let Some(message) = get("message") {
                    seen.usage = self.message_members(text, message);
                }
            }
            "content_block_start" => {
                if let Some(block) = get("content_block") {
                    self.block(text, index_of(text, event), block);
                }
            }
            "content_block_delta" => {
                if let Some(delta) = get("delta") {
                    self.block_delta(text, index_of(text, event), delta);
                }
            }
            "message_delta" => {
                if let Some(usage) = get("usage") {
                    seen.usage = self.usage(usage.of(text));
                }
                self.stop_reason(text, get("delta"));
            }
            "message_stop" => seen.end = true,
            "content_block_stop" | "ping" => {}
            "error" => seen.error = true,
            _ => seen = Seen { error: get("error").is_some_and(|error| error.of(text) != "null"), ..Seen::default() },
        }
        self.chat |= seen.chat;
        self.error |= seen.error;
        seen
    }

    /// Takes a whole message that was not streamed.
    pub(super) fn message_body(&mut self, text: &str) -> Seen {
        let Some(message) = self.object(text) else { return Seen { malformed: true, ..Seen::default() } };
        let get = |key| scan::member(text, message, key);
        let content = get("content");
        let error = get("error").is_some_and(|error| error.of(text) != "null");
        let mut seen = Seen { chat: content.is_some(), error, ..Seen::default() };
        if seen.chat {
            seen.usage = self.message_members(text, message);
            self.stop_reason(text, Some(message));
        }
        for (index, block) in (0..).zip(scan::elements(text, content.unwrap_or_default())) {
            self.block(text, Some(index), block);
            let input = scan::member(text, block, "input").map(|input| input.of(text));
            if let Some(input) = input.filter(|_| is_call(text, block)) {
                self.call(CallPiece { index: Some(index), arguments: Cow::Borrowed(input), ..CallPiece::default() });
            }
        }
        self.reply.events += u64::from(seen.chat);
        self.chat |= seen.chat;
        self.error |= seen.error;
        seen
    }

    /// The whole of a text that is an object; counts what is none.
    fn object(&mut self, text: &str) -> Option<Span> {
        let is_object = text.trim_ascii_start().starts_with('{') && scan::validate(text).is_ok();
        self.malformed += u64::from(!is_object);
        is_object.then(|| Span::new(0, text.len()))
    }

    /// What a message says of itself; whether that was what it cost.
    fn message_members(&mut self, text: &str, message: Span) -> bool {
        // A message is one choice, from its beginning on.
        let _first = self.slot(0);
        let get = |key| scan::member(text, message, key).map(|span| Literal(span.of(text)));
        if self.collect {
            self.reply.id = get("id").and_then(short);
            self.reply.model = get("model").and_then(short);
        }
        get("usage").is_some_and(|usage| self.usage(usage.0))
    }

    fn usage(&mut self, literal: &str) -> bool {
        let read = Usage::read(literal);
        self.reply.usage = read.map(|later| later.after(self.reply.usage)).or(self.reply.usage);
        read.is_some()
    }

    fn stop_reason(&mut self, text: &str, within: Option<Span>) {
        let reason = within.and_then(|span| scan::member(text, span, "stop_reason"));
        if let Some(reason) = reason.and_then(|span| short(Literal(span.of(text))))
            && let Some(at) = self.slot(0)
        {
            self.reply.choices[at].finish_reason = Some(reason);
        }
    }

    /// A block begins; in a whole message it is all there.
    fn block(&mut self, text: &str, index: Option<u64>, block: Span) {
        let get = |key| scan::member(text, block, key).map(|span| span.of(text)).filter(|v| v.starts_with('"'));
        if is_call(text, block) {
            self.reply.events += 1;
            let (id, name) = (get("id").map(decode_lossy), get("name").map(decode_lossy));
            let (id, name) = (id.unwrap_or_default(), name.unwrap_or_default());
            self.call(CallPiece { index, id, name, arguments: Cow::Borrowed("") });
        } else if let Some(piece) = get("text").filter(|_| self.collect) {
            // Blocks are parts, and the texts of parts stand on lines of their own, as in a request.
            if self.reply.choices.first().is_some_and(|choice| !choice.text.is_empty()) {
                self.say("\n");
            }
            self.say(&decode_lossy(piece));
        }
    }

    fn block_delta(&mut self, text: &str, index: Option<u64>, delta: Span) {
        let is_said = |member: scan::Member| member.key.of(text) != "type" && is_filled(member.value.of(text));
        self.reply.events += u64::from(scan::members(text, delta).any(is_said));
        if !self.collect {
            return;
        }
        let get = |key| scan::member(text, delta, key).map(|span| span.of(text)).filter(|v| v.starts_with('"'));
        if let Some(piece) = get("text") {
            self.say(&decode_lossy(piece));
        } else if let Some(arguments) = get("partial_json").map(decode_lossy) {
            self.call(CallPiece { index, arguments, ..CallPiece::default() });
        }
    }

    fn say(&mut self, piece: &str) {
        if let Some(at) = self.slot(0) {
            self.push(at, Field::Text, piece);
        }
    }

    /// A piece of a call. What the provider runs itself begins no call, so what comes of its input is left out.
    fn call(&mut self, piece: CallPiece<'_>) {
        let Some(at) = self.slot(0).filter(|_| self.collect) else { return };
        let begins = !piece.name.is_empty();
        if begins || piece.place(&self.reply.choices[at].tool_calls).is_some() {
            self.call_piece(at, &piece);
        }
    }
}

fn is_call(text: &str, block: Span) -> bool {
    scan::member(text, block, "type").is_some_and(|kind| kind.of(text) == r#""tool_use""#)
}

fn index_of(text: &str, event: Span) -> Option<u64> {
    scan::member(text, event, "index")?.of(text).parse().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::wire::{Dialect, Reply};

    fn read(events: &[serde_json::Value]) -> (Accumulator, Vec<Seen>) {
        let mut books = Accumulator::new().in_dialect(Dialect::Messages);
        let seen = events.iter().map(|event| books.chunk(&event.to_string())).collect();
        (books, seen)
    }

    fn calls(reply: &Reply) -> Vec<(&str, &str, &str)> {
        let calls = reply.choices[0].tool_calls.iter();
        calls.map(|call| (call.id.as_str(), call.name.as_str(), call.arguments.as_str())).collect()
    }

    #[test]
    fn events_and_a_whole_message_are_the_same_reply() {
        let delta = |index: u64, delta: serde_json::Value| json!({"type": "content_block_delta", "index": index, "delta": delta});
        let begin = |index: u64, block: serde_json::Value| json!({"type": "content_block_start", "index": index, "content_block": block});
        let (streamed, seen) = read(&[
            json!({"type": "message_start", "message": {"id": "msg_1", "model": "m", "role": "assistant", "content": [],
                "stop_reason": null, "usage": {"input_tokens": 10, "cache_read_input_tokens": 90, "output_tokens": 1}}}),
            json!({"type": "ping"}),
            begin(0, json!({"type": "thinking", "thinking": "", "signature": ""})),
            delta(0, json!({"type": "thinking_delta", "thinking": "hm"})),
            delta(0, json!({"type": "signature_delta", "signature": "c2ln"})),
            json!({"type": "content_block_stop", "index": 0}),
            begin(1, json!({"type": "text", "text": ""})),
            delta(1, json!({"type": "text_delta", "text": "I look "})),
            delta(1, json!({"type": "text_delta", "text": "it up."})),
            begin(2, json!({"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}})),
            delta(2, json!({"type": "input_json_delta", "partial_json": "{\"q\":1}"})),
            begin(3, json!({"type": "tool_use", "id": "t1", "name": "look", "input": {}})),
            delta(3, json!({"type": "input_json_delta", "partial_json": "{\"a\":"})),
            delta(3, json!({"type": "input_json_delta", "partial_json": "1}"})),
            begin(4, json!({"type": "text", "text": ""})),
            delta(4, json!({"type": "text_delta", "text": "So."})),
            json!({"type": "next_year", "x": 1}),
            json!({"type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": null}, "usage": {"output_tokens": 40}}),
            json!({"type": "message_stop"}),
        ]);
        let reply = streamed.reply();
        assert_eq!(reply.choices[0].text, "I look it up.\nSo.");
        assert_eq!(calls(reply), [("t1", "look", r#"{"a":1}"#)]);
        assert_eq!(reply.choices[0].finish_reason.as_deref(), Some("tool_use"));
        let usage = reply.usage.unwrap();
        assert_eq!((usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens), (100, 90, 40));
        assert!(streamed.finished() && streamed.is_chat() && seen.last().unwrap().end);
        assert_eq!(seen.iter().filter(|seen| seen.end).count(), 1);

        let mut whole = Accumulator::new().in_dialect(Dialect::Messages);
        whole.body(
            json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [
                {"type": "thinking", "thinking": "hm", "signature": "c2ln"}, {"type": "text", "text": "I look it up."},
                {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"q": 1}},
                {"type": "tool_use", "id": "t1", "name": "look", "input": {"a": 1}}, {"type": "text", "text": "So."}],
                "stop_reason": "tool_use", "usage": {"input_tokens": 10, "cache_read_input_tokens": 90, "output_tokens": 40}})
            .to_string()
            .as_bytes(),
        );
        assert_eq!((&whole.reply().choices, whole.reply().usage), (&reply.choices, reply.usage));
        assert_eq!((whole.reply().id.as_deref(), whole.reply().model.as_deref()), (Some("msg_1"), Some("m")));
    }

    #[test]
    fn errors_and_what_is_no_event_are_told_apart() {
        let (books, seen) = read(&[json!({"type": "error", "error": {"type": "overloaded_error", "message": "x"}})]);
        assert!(books.has_error() && seen[0].error);
        let mut books = Accumulator::new().in_dialect(Dialect::Messages);
        assert!(books.chunk("{\"type\":").malformed);
        assert!(books.body(br#"{"type":"error","error":{"type":"api_error","message":"x"}}"#).error);
        assert_eq!(books.malformed(), 1);
    }

    #[test]
    fn without_text_only_what_is_counted_is_kept() {
        let mut books = Accumulator::light().in_dialect(Dialect::Messages);
        books.chunk(r#"{"type":"message_start","message":{"usage":{"input_tokens":5}}}"#);
        books.chunk(r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hi"}}"#);
        assert!(!books.finished());
        books.chunk(r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}"#);
        assert!(books.finished());
        let reply = books.reply();
        assert_eq!((reply.usage.unwrap().total(), reply.events, reply.choices[0].text.as_str()), (7, 1, ""));
    }
}
