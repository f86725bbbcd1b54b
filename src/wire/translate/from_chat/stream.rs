//! A stream of chunks as events, one by one.
//!
//! Blocks are opened and closed around what the chunks say; the end is told when upstream's own has come, since what the reply cost
//! comes behind its last word.

use std::collections::HashSet;

use super::error::error;
use super::usage;
use crate::wire::Usage;
use crate::wire::scan;
use crate::wire::sse::SseParser;
use crate::wire::translate::json::{self, Object};
use crate::wire::translate::reasons::stop_reason;
use crate::wire::translate::value::Value;

const BROKEN: &str =
    r#"{"type":"error","error":{"type":"api_error","message":"upstream sent an event that cannot be read"}}"#;

const MIXED: &str = r#"{"type":"error","error":{"type":"api_error","message":"upstream went back to a tool call that another one had followed"}}"#;

/// A stream that is being translated.
#[derive(Debug, Default)]
pub(in crate::wire::translate) struct Stream {
    parser: SseParser,
    out: String,
    begun: bool,
    /// The block that is open, and how many were opened.
    open: Option<Block>,
    opened: u64,
    /// The calls that were begun, by upstream's index.
    calls: HashSet<u64>,
    usage: Option<Usage>,
    stop: Option<&'static str>,
    /// The end was sent, or an error: nothing comes after it.
    over: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Block {
    Text,
    /// With upstream's index.
    Tool(u64),
}

impl Stream {
    /// What the next bytes come to.
    pub(in crate::wire::translate) fn push(&mut self, bytes: &[u8]) -> String {
        let mut rest = bytes;
        let mut parser = std::mem::take(&mut self.parser);
        while let Some(event) = parser.next(&mut rest) {
            let Some(data) = event.data.filter(|data| !self.over && !data.trim_ascii().is_empty()) else { continue };
            if data.trim_ascii() == b"[DONE]" {
                self.finish();
                continue;
            }
            match std::str::from_utf8(data).ok().filter(|text| !event.oversized && scan::validate(text).is_ok()) {
                Some(text) => self.chunk(text),
                // Passing over it could leave a hole in the reply.
                None => self.fail(BROKEN),
            }
        }
        self.parser = parser;
        std::mem::take(&mut self.out)
    }

    /// What is left at the end: servers that send no `[DONE]` have said why the reply ended.
    pub(in crate::wire::translate) fn end(&mut self) -> String {
        if !self.over && self.stop.is_some() {
            self.finish();
        }
        std::mem::take(&mut self.out)
    }

    fn chunk(&mut self, text: &str) {
        if let Some(error) = error(text) {
            return self.fail(&error);
        }
        let chunk = Value::whole(text);
        if let Some(told) = chunk.get("usage").and_then(|usage| Usage::read(usage.literal())) {
            self.usage = Some(told.after(self.usage));
        }
        // Azure's first chunk has no choices: it tells what its filters made of the prompt.
        for choice in chunk.get("choices").into_iter().flat_map(Value::elements) {
            if choice.get("index").is_none_or(|index| index.literal() == "0") {
                self.start(chunk);
                self.choice(choice);
            }
        }
    }

    fn choice(&mut self, choice: Value<'_>) {
        if let Some(delta) = choice.get("delta") {
            for key in ["content", "refusal"] {
                if let Some(text) = delta.get_text(key).filter(|text| !text.inner().is_empty()) {
                    self.text(text);
                }
            }
            for call in delta.get("tool_calls").into_iter().flat_map(Value::elements) {
                self.call(call);
            }
        }
        if let Some(reason) = choice.get_string("finish_reason") {
            self.stop = Some(stop_reason(&reason));
        }
    }

    fn text(&mut self, text: Value<'_>) {
        if self.open != Some(Block::Text) {
            self.open(Block::Text, |block| {
                block.raw("type", r#""text""#);
                block.raw("text", r#""""#);
            });
        }
        self.delta(|delta| {
            delta.raw("type", r#""text_delta""#);
            delta.raw("text", text.literal());
        });
    }

    fn call(&mut self, call: Value<'_>) {
        let index = call.get("index").and_then(|index| index.literal().parse().ok());
        // Some servers send calls whole and without an index: each is the next one.
        let index = index.unwrap_or(self.calls.len() as u64);
        let function = call.get("function").unwrap_or(call);
        if self.open != Some(Block::Tool(index)) {
            if !self.calls.insert(index) {
                return self.fail(MIXED);
            }
            self.open(Block::Tool(index), |block| {
                block.raw("type", r#""tool_use""#);
                block.raw("id", call.get("id").map_or(r#""""#, Value::literal));
                block.raw("name", function.get("name").map_or(r#""""#, Value::literal));
                block.object("input", |_| {});
            });
        }
        if let Some(piece) = function.get_text("arguments").filter(|piece| !piece.inner().is_empty()) {
            self.delta(|delta| {
                delta.raw("type", r#""input_json_delta""#);
                delta.raw("partial_json", piece.literal());
            });
        }
    }

    fn start(&mut self, chunk: Value<'_>) {
        if std::mem::replace(&mut self.begun, true) {
            return;
        }
        let usage = self.usage.unwrap_or_default();
        self.event("message_start", |event| {
            event.object("message", |message| {
                message.raw("id", chunk.get("id").map_or(r#""""#, Value::literal));
                message.raw("type", r#""message""#);
                message.raw("role", r#""assistant""#);
                message.raw("model", chunk.get("model").map_or(r#""""#, Value::literal));
                message.array("content", |_| {});
                message.raw("stop_reason", "null");
                message.raw("stop_sequence", "null");
                usage::write(message, usage);
            });
        });
    }

    fn open(&mut self, block: Block, fill: impl FnOnce(&mut Object<'_>)) {
        self.close();
        let index = self.opened;
        self.opened += 1;
        self.open = Some(block);
        self.event("content_block_start", |event| {
            event.number("index", index);
            event.object("content_block", fill);
        });
    }

    fn delta(&mut self, fill: impl FnOnce(&mut Object<'_>)) {
        let index = self.opened - 1;
        self.event("content_block_delta", |event| {
            event.number("index", index);
            event.object("delta", fill);
        });
    }

    fn close(&mut self) {
        if self.open.take().is_some() {
            let index = self.opened - 1;
            self.event("content_block_stop", |event| event.number("index", index));
        }
    }

    fn finish(&mut self) {
        self.over = true;
        // A stream that ends before it began, or without a reason, stays what it is: cut.
        let (true, Some(stop)) = (self.begun, self.stop) else { return };
        self.close();
        let usage = self.usage.unwrap_or_default();
        self.event("message_delta", |event| {
            event.object("delta", |delta| {
                delta.text("stop_reason", stop);
                delta.raw("stop_sequence", "null");
            });
            usage::write(event, usage);
        });
        self.event("message_stop", |_| {});
    }

    fn fail(&mut self, error: &str) {
        self.out.push_str("event: error\ndata: ");
        self.out.push_str(error);
        self.out.push_str("\n\n");
        self.over = true;
    }

    fn event(&mut self, kind: &str, fill: impl FnOnce(&mut Object<'_>)) {
        self.out.push_str("event: ");
        self.out.push_str(kind);
        self.out.push_str("\ndata: ");
        json::object(&mut self.out, |event| {
            event.text("type", kind);
            fill(event);
        });
        self.out.push_str("\n\n");
    }
}
