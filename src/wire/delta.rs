//! Puts a reply together from the chunks of a stream, or from one whole body.
//!
//! It reads what real upstreams send, not only what the API reference says: tool calls without index,
//! counted from 1 or several in one chunk, content as `null` or as parts, unknown members, broken chunks.

mod call;
mod chunk;
mod messages;
mod quick;
mod responses;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use call::CallPiece;
use chunk::{Choice, Chunk, Literal};

use super::dialect::Dialect;
use super::scan::{self, Span};
use super::text::decode_lossy;
use super::usage::Usage;

/// The most bytes of text (content, refusals, tool names and arguments) that are kept for one reply.
pub const MAX_REPLY_BYTES: usize = 256 * 1024;

/// The most choices, and tool calls of a choice, that are kept.
const MAX_ITEMS: usize = 256;

/// A reply, as far as it came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// `id`, as upstream sent it.
    pub id: Option<String>,
    /// `model`, as upstream sent it.
    pub model: Option<String>,
    /// The choices, by index.
    pub choices: Vec<ChoiceReply>,
    /// `usage`, when upstream reported it.
    pub usage: Option<Usage>,
    /// Events that came of it and say something, what is not kept of it included, as reasoning; most servers send a token in each.
    pub events: u64,
    /// The ids of what is in it, where its dialect names them: a later request may refer to them. At most 256.
    pub items: Vec<String>,
    /// Whether text was left out because of [`MAX_REPLY_BYTES`], or choices or calls because there were too many.
    pub truncated: bool,
}

/// One choice of a reply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChoiceReply {
    /// `index`.
    pub index: u64,
    /// The content, text parts joined.
    pub text: String,
    /// The refusal; empty when there was none.
    pub refusal: String,
    /// The tool calls, in the order in which they began.
    pub tool_calls: Vec<ToolCall>,
    /// `finish_reason`, once it came.
    pub finish_reason: Option<String>,
}

/// One tool call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolCall {
    /// `id`; empty for a legacy `function_call`.
    pub id: String,
    /// The function's name.
    pub name: String,
    /// The arguments, which should be JSON and need not be.
    pub arguments: String,
    /// `index`, as upstream counts; it only tells pieces apart.
    pub index: Option<u64>,
}

/// What one chunk turned out to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// It has a `choices` member: it is of chat (or completion) shape.
    pub chat: bool,
    /// `choices` is an array with nothing in it.
    pub no_choices: bool,
    /// `usage` is an object.
    pub usage: bool,
    /// It carries an error.
    pub error: bool,
    /// It is no JSON object.
    pub malformed: bool,
    /// It says that the stream is over.
    pub end: bool,
}

/// Accumulates one reply.
#[derive(Debug)]
pub struct Accumulator {
    reply: Reply,
    dialect: Dialect,
    collect: bool,
    text_bytes: usize,
    malformed: u64,
    error: bool,
    chat: bool,
}

impl Default for Accumulator {
    fn default() -> Self {
        Self::new()
    }
}

impl Accumulator {
    /// Makes an accumulator that keeps text, up to [`MAX_REPLY_BYTES`].
    #[must_use]
    pub fn new() -> Self {
        Self {
            reply: Reply::default(),
            dialect: Dialect::Chat,
            collect: true,
            text_bytes: 0,
            malformed: 0,
            error: false,
            chat: false,
        }
    }

    /// Makes an accumulator that keeps no text: it follows choices, finish reasons, errors and usage only.
    #[must_use]
    pub fn light() -> Self {
        Self { collect: false, ..Self::new() }
    }

    /// Tells how the reply is written; without, it is of chat.
    #[must_use]
    pub fn in_dialect(self, dialect: Dialect) -> Self {
        Self { dialect, ..self }
    }

    /// Takes the data of one event of a stream. `[DONE]` is ignored.
    pub fn chunk(&mut self, data: &str) -> Seen {
        match self.dialect {
            Dialect::Chat => {}
            Dialect::Messages => return self.message_event(data),
            Dialect::Responses => return self.event_of_response(data),
        }
        // Nearly every chunk of a stream whose text nobody keeps ends here.
        if !self.collect && self.awaits_one_finish() && quick::tells_nothing_new(data.as_bytes()) {
            self.reply.events += 1;
            return Seen { chat: true, ..Seen::default() };
        }
        self.read(data, |choice| choice.delta)
    }

    /// Takes a whole reply that was not streamed.
    pub fn body(&mut self, json: &[u8]) -> Seen {
        // Nearly every body is UTF-8, and to find that out is several times faster than to read it as if it might not be.
        let text = std::str::from_utf8(json).map_or_else(|_| String::from_utf8_lossy(json), Cow::Borrowed);
        match self.dialect {
            Dialect::Chat => self.read(&text, |choice| choice.message),
            Dialect::Messages => self.message_body(&text),
            Dialect::Responses => self.whole_response(&text),
        }
    }

    /// The reply up to now.
    #[must_use]
    pub fn reply(&self) -> &Reply {
        &self.reply
    }

    /// Gives the reply away.
    #[must_use]
    pub fn into_reply(self) -> Reply {
        self.reply
    }

    /// Whether at least one choice was seen and every seen choice has a finish reason.
    #[must_use]
    pub fn finished(&self) -> bool {
        !self.reply.choices.is_empty() && self.reply.choices.iter().all(|c| c.finish_reason.is_some())
    }

    /// The number of chunks that were no JSON object, as far as they were looked at: a light one skips some.
    #[must_use]
    pub fn malformed(&self) -> u64 {
        self.malformed
    }

    /// Whether any chunk had `choices`, or was an event of another dialect that we know.
    #[must_use]
    pub fn is_chat(&self) -> bool {
        self.chat
    }

    /// Whether any chunk carried an error.
    #[must_use]
    pub fn has_error(&self) -> bool {
        self.error
    }

    /// Whether choice 0 has begun and not finished, and there is no other.
    fn awaits_one_finish(&self) -> bool {
        matches!(self.reply.choices.as_slice(), [ChoiceReply { index: 0, finish_reason: None, .. }])
    }

    fn read(&mut self, text: &str, message: for<'a> fn(&Choice<'a>) -> Option<Literal<'a>>) -> Seen {
        let trimmed = text.trim_ascii_start();
        if trimmed.starts_with("[DONE]") || trimmed.is_empty() {
            return Seen::default();
        }
        let Some(chunk) = Chunk::read(text) else {
            self.malformed += 1;
            return Seen { malformed: true, ..Seen::default() };
        };
        let usage = chunk.usage.filter(|l| l.is_object());
        let error = chunk.error.is_some_and(|l| l.is_object() || (l.is_string() && l.0.len() > 2));
        let seen = Seen {
            chat: chunk.choices.is_some(),
            no_choices: chunk.choices.as_ref().is_some_and(Vec::is_empty),
            usage: usage.is_some(),
            error: error || chunk.object == Some(Literal(r#""error""#)),
            malformed: false,
            end: false,
        };
        if let Some(literal) = usage {
            self.reply.usage = Usage::read(literal.0).map(|later| later.after(self.reply.usage)).or(self.reply.usage);
        }
        if self.collect && self.reply.id.is_none() {
            self.reply.id = chunk.id.and_then(short);
        }
        if self.collect && self.reply.model.is_none() {
            self.reply.model = chunk.model.and_then(short);
        }
        let mut says = false;
        for choice in chunk.choices.iter().flatten() {
            let message = message(choice);
            says |= choice.text.is_some_and(|text| is_filled(text.0));
            says |= message.is_some_and(|message| says_something(message.0, whole(message.0)));
            self.choice(choice, message);
        }
        self.reply.events += u64::from(says);
        self.chat |= seen.chat;
        self.error |= seen.error;
        seen
    }

    fn choice(&mut self, choice: &Choice<'_>, message: Option<Literal<'_>>) {
        let Some(at) = self.slot(choice.index) else {
            return;
        };
        if let Some(reason) = choice.finish_reason.and_then(short) {
            self.reply.choices[at].finish_reason = Some(reason);
        }
        if !self.collect {
            return;
        }
        if let Some(literal) = choice.text.filter(|l| l.is_string()) {
            self.push(at, Field::Text, &decode_lossy(literal.0));
        }
        if let Some(message) = message {
            self.message(message.0, at, whole(message.0));
        }
    }

    /// Finds the place of a choice, or makes one.
    fn slot(&mut self, index: u64) -> Option<usize> {
        match self.reply.choices.binary_search_by_key(&index, |c| c.index) {
            Ok(at) => Some(at),
            Err(_) if self.reply.choices.len() >= MAX_ITEMS => {
                self.reply.truncated = true;
                None
            }
            Err(at) => {
                self.reply.choices.insert(at, ChoiceReply { index, ..ChoiceReply::default() });
                Some(at)
            }
        }
    }

    fn message(&mut self, text: &str, at: usize, span: Span) {
        for member in scan::members(text, span) {
            let value = member.value.of(text);
            match member.key.of(text) {
                "content" => self.content(text, at, member.value),
                "refusal" if value.starts_with('"') => {
                    let piece = decode_lossy(value);
                    self.push(at, Field::Refusal, &piece);
                }
                "tool_calls" => {
                    for call in scan::elements(text, member.value) {
                        self.tool_call(text, at, call);
                    }
                }
                "function_call" if value.starts_with('{') => {
                    let piece = CallPiece { index: Some(0), ..CallPiece::function(text, member.value) };
                    self.call_piece(at, &piece);
                }
                _ => {}
            }
        }
    }

    fn content(&mut self, text: &str, at: usize, span: Span) {
        let value = span.of(text);
        if value.starts_with('"') {
            let piece = decode_lossy(value);
            self.push(at, Field::Text, &piece);
            return;
        }
        for part in scan::elements(text, span) {
            if let Some(literal) = scan::member(text, part, "text").map(|s| s.of(text)).filter(|v| v.starts_with('"')) {
                let piece = decode_lossy(literal);
                self.push(at, Field::Text, &piece);
            }
        }
    }

    fn tool_call(&mut self, text: &str, at: usize, span: Span) {
        let mut piece = CallPiece::default();
        for member in scan::members(text, span) {
            let value = member.value.of(text);
            match member.key.of(text) {
                "index" => piece.index = value.parse().ok(),
                "id" if value.starts_with('"') => piece.id = decode_lossy(value),
                "function" | "custom" => {
                    let CallPiece { name, arguments, .. } = CallPiece::function(text, member.value);
                    (piece.name, piece.arguments) = (name, arguments);
                }
                _ => {}
            }
        }
        self.call_piece(at, &piece);
    }

    fn call_piece(&mut self, at: usize, piece: &CallPiece<'_>) {
        let calls = &mut self.reply.choices[at].tool_calls;
        let call = match piece.place(calls) {
            Some(call) => call,
            None if calls.len() >= MAX_ITEMS => {
                self.reply.truncated = true;
                return;
            }
            None => {
                calls.push(ToolCall { index: piece.index, ..ToolCall::default() });
                calls.len() - 1
            }
        };
        if calls[call].id.is_empty() {
            calls[call].id.push_str(&piece.id);
        }
        // A name is sent whole; some upstreams repeat it with every piece.
        if calls[call].name != piece.name {
            self.push(at, Field::CallName(call), &piece.name);
        }
        self.push(at, Field::CallArguments(call), &piece.arguments);
    }

    /// Appends text within the bound of the whole reply.
    fn push(&mut self, at: usize, field: Field, piece: &str) {
        let room = MAX_REPLY_BYTES.saturating_sub(self.text_bytes);
        let kept = &piece[..piece.floor_char_boundary(room.min(piece.len()))];
        self.reply.truncated |= kept.len() < piece.len();
        self.text_bytes += kept.len();
        let choice = &mut self.reply.choices[at];
        match field {
            Field::Text => choice.text.push_str(kept),
            Field::Refusal => choice.refusal.push_str(kept),
            Field::CallName(call) => choice.tool_calls[call].name.push_str(kept),
            Field::CallArguments(call) => choice.tool_calls[call].arguments.push_str(kept),
        }
    }
}

#[derive(Clone, Copy)]
enum Field {
    Text,
    Refusal,
    CallName(usize),
    CallArguments(usize),
}

/// Whether a message, or a piece of one, says anything. Unknown members count too: reasoning, audio and what comes next year are content.
pub(super) fn says_something(text: &str, message: Span) -> bool {
    scan::members(text, message).any(|member| member.key.of(text) != "role" && is_filled(member.value.of(text)))
}

/// Whether there is anything in a value.
pub(super) fn is_filled(value: &str) -> bool {
    !matches!(value, "null" | r#""""# | "[]" | "{}")
}

fn whole(text: &str) -> Span {
    Span::new(0, text.len())
}

/// Reads a string that is short by nature; longer than 1 KiB it is cut.
fn short(literal: Literal<'_>) -> Option<String> {
    short_text(literal.0)
}

fn short_text(literal: &str) -> Option<String> {
    if !literal.starts_with('"') {
        return None;
    }
    let mut text = decode_lossy(literal).into_owned();
    text.truncate(text.floor_char_boundary(1024));
    Some(text)
}
