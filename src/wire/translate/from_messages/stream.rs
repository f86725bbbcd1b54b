//! A stream of events as chunks, one by one.
//!
//! Events are those of <https://docs.anthropic.com/en/docs/build-with-claude/streaming>; one that is new to us is passed over.

use super::error::error;
use super::usage::Counts;
use crate::wire::scan;
use crate::wire::sse::SseParser;
use crate::wire::translate::json::{self, Object};
use crate::wire::translate::reasons::finish_reason;
use crate::wire::translate::value::Value;

/// What was thought is kept up to here, in bytes, to be told once more with its signature; of longer thoughts no signed block is made.
const MAX_THOUGHT_BYTES: usize = 1024 * 1024;

const BROKEN: &str = r#"{"error":{"message":"upstream sent an event that cannot be read","type":"upstream_error","param":null,"code":"upstream_invalid"}}"#;

/// A stream that is being translated.
#[derive(Debug)]
pub(in crate::wire::translate) struct Stream {
    parser: SseParser,
    writer: Writer,
    /// The block that is open.
    block: Block,
    calls: usize,
    counts: Counts,
    /// `[DONE]` was sent, or an error: nothing comes after it.
    over: bool,
}

/// Writes chunks, which all begin alike.
#[derive(Debug)]
struct Writer {
    created: u64,
    include_usage: bool,
    /// Literals.
    id: String,
    model: String,
    out: String,
}

#[derive(Debug)]
enum Block {
    Other,
    Tool {
        /// The literal that the block began with.
        input: String,
        /// Arguments have come.
        said: bool,
    },
    Thinking {
        /// Escaped, as it came.
        thought: String,
        signature: String,
        too_long: bool,
    },
}

impl Stream {
    pub(in crate::wire::translate) fn new(created: u64, include_usage: bool) -> Self {
        let writer =
            Writer { created, include_usage, id: r#""""#.to_owned(), model: r#""""#.to_owned(), out: String::new() };
        Self { parser: SseParser::new(), writer, block: Block::Other, calls: 0, counts: Counts::default(), over: false }
    }

    /// What the next bytes come to.
    pub(in crate::wire::translate) fn push(&mut self, bytes: &[u8]) -> String {
        let mut rest = bytes;
        let mut parser = std::mem::take(&mut self.parser);
        while let Some(event) = parser.next(&mut rest) {
            if let Some(data) = event.data.filter(|data| !self.over && !data.trim_ascii().is_empty()) {
                let text = std::str::from_utf8(data).ok().filter(|text| scan::validate(text).is_ok());
                match text.filter(|_| !event.oversized) {
                    Some(text) => self.event(text),
                    // Passing over it could leave a hole in the reply.
                    None => self.fail(BROKEN),
                }
            }
        }
        self.parser = parser;
        std::mem::take(&mut self.writer.out)
    }

    fn event(&mut self, text: &str) {
        let event = Value::whole(text);
        match &*event.kind() {
            "message_start" => self.message_start(event),
            "content_block_start" => self.block_start(event),
            "content_block_delta" => self.block_delta(event),
            "content_block_stop" => self.block_stop(),
            "message_delta" => self.message_delta(event),
            "message_stop" => self.message_stop(),
            "ping" => self.writer.out.push_str(": ping\n\n"),
            "error" => {
                let told = error(text);
                self.fail(told.as_deref().unwrap_or(BROKEN));
            }
            _ => {}
        }
    }

    fn fail(&mut self, error: &str) {
        self.writer.data(|out| out.push_str(error));
        self.over = true;
    }

    fn message_start(&mut self, event: Value<'_>) {
        let Some(message) = event.get("message") else { return };
        if let Some(id) = message.get_text("id") {
            id.literal().clone_into(&mut self.writer.id);
        }
        if let Some(model) = message.get_text("model") {
            model.literal().clone_into(&mut self.writer.model);
        }
        if let Some(usage) = message.get("usage") {
            self.counts.told(usage);
        }
        self.writer.delta(|delta| {
            delta.text("role", "assistant");
            delta.text("content", "");
        });
    }

    fn block_start(&mut self, event: Value<'_>) {
        self.block = Block::Other;
        let Some(block) = event.get("content_block") else { return };
        match &*block.kind() {
            "text" => self.writer.piece("content", block.get_text("text")),
            "thinking" => {
                self.block = Block::Thinking {
                    thought: String::new(),
                    signature: block.get_text("signature").map_or("", Value::inner).to_owned(),
                    too_long: false,
                };
                self.thought(block.get_text("thinking"));
            }
            "redacted_thinking" => {
                self.writer.delta(|delta| delta.array("thinking_blocks", |blocks| blocks.raw(block.literal())));
            }
            "tool_use" => {
                let index = self.calls;
                self.calls += 1;
                self.writer.call(index, |call| {
                    call.raw("id", block.get("id").map_or(r#""""#, Value::literal));
                    call.text("type", "function");
                    call.object("function", |function| {
                        function.raw("name", block.get("name").map_or(r#""""#, Value::literal));
                        function.text("arguments", "");
                    });
                });
                let input = block.get("input").map_or("{}", Value::literal);
                self.block = Block::Tool { input: input.to_owned(), said: false };
            }
            _ => {}
        }
    }

    fn block_delta(&mut self, event: Value<'_>) {
        let Some(delta) = event.get("delta") else { return };
        match &*delta.kind() {
            "text_delta" => self.writer.piece("content", delta.get_text("text")),
            "thinking_delta" => self.thought(delta.get_text("thinking")),
            "signature_delta" => {
                if let (Some(piece), Block::Thinking { signature, too_long, .. }) =
                    (delta.get_text("signature"), &mut self.block)
                {
                    keep(signature, piece, too_long);
                }
            }
            "input_json_delta" => {
                let piece = delta.get_text("partial_json").filter(|piece| !piece.inner().is_empty());
                if let (Some(piece), Block::Tool { said, .. }) = (piece, &mut self.block) {
                    *said = true;
                    self.writer.arguments(self.calls - 1, piece.inner());
                }
            }
            _ => {}
        }
    }

    fn block_stop(&mut self) {
        match std::mem::replace(&mut self.block, Block::Other) {
            // A call without arguments sends none; clients parse what they get.
            Block::Tool { input, said: false } => {
                let escaped = crate::wire::encode_string(&input);
                self.writer.arguments(self.calls - 1, Value::whole(&escaped).inner());
            }
            Block::Thinking { thought, signature, too_long: false } if !signature.is_empty() => {
                self.writer.delta(|delta| {
                    delta.array("thinking_blocks", |blocks| {
                        blocks.object(|block| {
                            block.text("type", "thinking");
                            block.escaped("thinking", &thought);
                            block.escaped("signature", &signature);
                        });
                    });
                });
            }
            _ => {}
        }
    }

    fn thought(&mut self, piece: Option<Value<'_>>) {
        self.writer.piece("reasoning_content", piece);
        if let (Some(piece), Block::Thinking { thought, too_long, .. }) = (piece, &mut self.block) {
            keep(thought, piece, too_long);
        }
    }

    fn message_delta(&mut self, event: Value<'_>) {
        if let Some(usage) = event.get("usage") {
            self.counts.told(usage);
        }
        if let Some(reason) = event.get("delta").and_then(|delta| delta.get_string("stop_reason")) {
            self.writer.chunk(|chunk| {
                chunk.array("choices", |choices| {
                    choices.object(|choice| {
                        choice.raw("index", "0");
                        choice.object("delta", |_| {});
                        choice.text("finish_reason", finish_reason(&reason));
                    });
                })
            });
        }
    }

    fn message_stop(&mut self) {
        if self.writer.include_usage {
            let counts = self.counts;
            self.writer.chunk(|chunk| {
                chunk.array("choices", |_| {});
                counts.write(chunk);
            });
        }
        self.writer.data(|out| out.push_str("[DONE]"));
        self.over = true;
    }
}

/// Keeps a further piece, as it is written, while there is room.
fn keep(kept: &mut String, piece: Value<'_>, too_long: &mut bool) {
    *too_long |= kept.len() + piece.inner().len() > MAX_THOUGHT_BYTES;
    if !*too_long {
        kept.push_str(piece.inner());
    }
}

impl Writer {
    fn data(&mut self, fill: impl FnOnce(&mut String)) {
        self.out.push_str("data: ");
        fill(&mut self.out);
        self.out.push_str("\n\n");
    }

    fn chunk(&mut self, fill: impl FnOnce(&mut Object<'_>)) {
        self.out.push_str("data: ");
        let Self { created, id, model, out, .. } = self;
        json::object(out, |chunk| {
            chunk.raw("id", id);
            chunk.raw("object", r#""chat.completion.chunk""#);
            chunk.number("created", *created);
            chunk.raw("model", model);
            fill(chunk);
        });
        self.out.push_str("\n\n");
    }

    fn delta(&mut self, fill: impl FnOnce(&mut Object<'_>)) {
        self.chunk(|chunk| {
            chunk.array("choices", |choices| {
                choices.object(|choice| {
                    choice.raw("index", "0");
                    choice.object("delta", fill);
                    choice.raw("finish_reason", "null");
                });
            });
        });
    }

    /// A piece of text, as it is written; none of an empty one.
    fn piece(&mut self, key: &str, text: Option<Value<'_>>) {
        if let Some(text) = text.filter(|text| !text.inner().is_empty()) {
            self.delta(|delta| delta.raw(key, text.literal()));
        }
    }

    fn call(&mut self, index: usize, fill: impl FnOnce(&mut Object<'_>)) {
        self.delta(|delta| {
            delta.array("tool_calls", |calls| {
                calls.object(|call| {
                    call.number("index", index as u64);
                    fill(call);
                });
            });
        });
    }

    fn arguments(&mut self, index: usize, escaped: &str) {
        self.call(index, |call| call.object("function", |function| function.escaped("arguments", escaped)));
    }
}
