//! Puts a reply together from the chunks of a stream, or from one whole body.
//!
//! It reads what real upstreams send, not only what the API reference says: tool calls without index,
//! counted from 1 or several in one chunk, content as `null` or as parts, unknown members, broken chunks.

use std::borrow::Cow;

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
}

/// Accumulates one reply.
#[derive(Debug)]
pub struct Accumulator {
    reply: Reply,
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
        Self { reply: Reply::default(), collect: true, text_bytes: 0, malformed: 0, error: false, chat: false }
    }

    /// Makes an accumulator that keeps no text: it follows choices, finish reasons, errors and usage only.
    #[must_use]
    pub fn light() -> Self {
        Self { collect: false, ..Self::new() }
    }

    /// Takes the data of one event of a stream. `[DONE]` is ignored.
    pub fn chunk(&mut self, data: &str) -> Seen {
        self.read(data, "delta")
    }

    /// Takes a whole reply that was not streamed.
    pub fn body(&mut self, json: &[u8]) -> Seen {
        self.read(&String::from_utf8_lossy(json), "message")
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

    /// The number of chunks that were no JSON object.
    #[must_use]
    pub fn malformed(&self) -> u64 {
        self.malformed
    }

    /// Whether any chunk had `choices`.
    #[must_use]
    pub fn is_chat(&self) -> bool {
        self.chat
    }

    /// Whether any chunk carried an error.
    #[must_use]
    pub fn has_error(&self) -> bool {
        self.error
    }

    fn read(&mut self, text: &str, message_key: &str) -> Seen {
        let trimmed = text.trim_ascii();
        if trimmed.starts_with("[DONE]") || trimmed.is_empty() {
            return Seen::default();
        }
        if !trimmed.starts_with('{') || !trimmed.ends_with('}') || scan::validate(text).is_err() {
            self.malformed += 1;
            return Seen { malformed: true, ..Seen::default() };
        }
        let mut seen = Seen::default();
        let mut choices = None;
        let mut none_in_any = true;
        for member in scan::members(text, whole(text)) {
            let value = member.value.of(text);
            match member.key.of(text) {
                "choices" => {
                    seen.chat = true;
                    none_in_any &= value.starts_with('[') && scan::elements(text, member.value).next().is_none();
                    choices = Some(member.value);
                }
                "usage" if value.starts_with('{') => {
                    seen.usage = true;
                    self.reply.usage = Usage::read(value).or(self.reply.usage);
                }
                "id" if self.collect && self.reply.id.is_none() => self.reply.id = short(value),
                "model" if self.collect && self.reply.model.is_none() => self.reply.model = short(value),
                "error" => seen.error = value.starts_with('{') || (value.starts_with('"') && value.len() > 2),
                "object" if value == r#""error""# => seen.error = true,
                _ => {}
            }
        }
        if let Some(span) = choices {
            seen.no_choices = none_in_any;
            for choice in scan::elements(text, span) {
                self.choice(text, choice, message_key);
            }
        }
        self.chat |= seen.chat;
        self.error |= seen.error;
        seen
    }

    fn choice(&mut self, text: &str, span: Span, message_key: &str) {
        let (mut index, mut finish, mut message, mut plain) = (0, None, None, None);
        for member in scan::members(text, span) {
            let value = member.value.of(text);
            match member.key.of(text) {
                "index" => index = value.parse().unwrap_or(0),
                "finish_reason" => finish = short(value),
                "text" => plain = Some(value),
                key if key == message_key => message = Some(member.value),
                _ => {}
            }
        }
        let Some(at) = self.slot(index) else {
            return;
        };
        if finish.is_some() {
            self.reply.choices[at].finish_reason = finish;
        }
        if !self.collect {
            return;
        }
        if let Some(literal) = plain.filter(|v| v.starts_with('"')) {
            let piece = decode_lossy(literal);
            self.push(at, Field::Text, &piece);
        }
        if let Some(message) = message {
            self.message(text, at, message);
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

/// A piece of a tool call.
#[derive(Default)]
struct CallPiece<'a> {
    index: Option<u64>,
    id: Cow<'a, str>,
    name: Cow<'a, str>,
    arguments: Cow<'a, str>,
}

impl<'a> CallPiece<'a> {
    fn function(text: &'a str, span: Span) -> Self {
        let mut piece = Self::default();
        for member in scan::members(text, span) {
            let value = member.value.of(text);
            match member.key.of(text) {
                "name" if value.starts_with('"') => piece.name = decode_lossy(value),
                // A custom tool has `input` where a function has `arguments`.
                "arguments" | "input" if value.starts_with('"') => piece.arguments = decode_lossy(value),
                // Some servers send the arguments as an object; its text is what the string would hold.
                "arguments" if value.starts_with('{') => piece.arguments = Cow::Borrowed(value),
                _ => {}
            }
        }
        piece
    }

    /// Finds the call that this piece goes on with; `None` when it begins a new one.
    fn place(&self, calls: &[ToolCall]) -> Option<usize> {
        if let Some(index) = self.index {
            let at = calls.iter().rposition(|c| c.index == Some(index))?;
            // Some upstreams count every parallel call as 0: another id with a name of its own is another call.
            let another = !self.id.is_empty() && !calls[at].id.is_empty() && calls[at].id != self.id;
            return if another && !self.name.is_empty() {
                calls.iter().position(|c| c.index == Some(index) && c.id == self.id)
            } else {
                Some(at)
            };
        }
        if !self.id.is_empty() {
            return calls.iter().rposition(|c| c.id == self.id);
        }
        let last = calls.len().checked_sub(1)?;
        let begins = !self.name.is_empty() && !calls[last].name.is_empty();
        (!begins).then_some(last)
    }
}

fn whole(text: &str) -> Span {
    Span::new(0, text.len())
}

/// Reads a string that is short by nature; longer than 1 KiB it is cut.
fn short(literal: &str) -> Option<String> {
    if !literal.starts_with('"') {
        return None;
    }
    let mut text = decode_lossy(literal).into_owned();
    text.truncate(text.floor_char_boundary(1024));
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn read(chunks: &[&str]) -> Reply {
        let mut books = Accumulator::new();
        for chunk in chunks {
            books.chunk(chunk);
        }
        books.into_reply()
    }

    fn delta(delta: &str) -> String {
        format!(r#"{{"choices":[{{"index":0,"delta":{delta},"finish_reason":null}}]}}"#)
    }

    fn calls(deltas: &[&str]) -> Vec<(String, String, String)> {
        let chunks: Vec<String> = deltas.iter().map(|d| delta(&format!(r#"{{"tool_calls":{d}}}"#))).collect();
        let reply = read(&chunks.iter().map(String::as_str).collect::<Vec<_>>());
        reply.choices[0].tool_calls.iter().map(|c| (c.id.clone(), c.name.clone(), c.arguments.clone())).collect()
    }

    fn expected(calls: &[(&str, &str, &str)]) -> Vec<(String, String, String)> {
        calls.iter().map(|(a, b, c)| ((*a).to_owned(), (*b).to_owned(), (*c).to_owned())).collect()
    }

    #[test]
    fn text_refusal_finish_and_usage_are_put_together() {
        let reply = read(&[
            r#"{"id":"c1","model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}],"usage":null}"#,
            r#"{"id":"c1","model":"m","choices":[{"index":0,"delta":{"content":"He\u006clo "},"finish_reason":null}]}"#,
            r#"{"id":"c1","choices":[{"index":0,"delta":{"content":null,"refusal":"no"},"finish_reason":null}]}"#,
            r#"{"id":"c1","choices":[{"index":0,"delta":{"content":[{"type":"text","text":"wor"},{"type":"x"},{"text":"ld\ud800"}]}}]}"#,
            r#"{"id":"c1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#,
            r#"{"id":"c1","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}"#,
            "[DONE]",
        ]);
        assert_eq!((reply.id.as_deref(), reply.model.as_deref()), (Some("c1"), Some("m")));
        assert_eq!(reply.choices[0].text, "Hello world\u{fffd}");
        assert_eq!(reply.choices[0].refusal, "no");
        assert_eq!(reply.choices[0].finish_reason.as_deref(), Some("stop"));
        assert_eq!(reply.usage.map(Usage::total), Some(5));
        assert!(!reply.truncated);
    }

    #[test]
    fn choices_are_kept_apart_and_a_reply_is_finished_when_all_are() {
        let mut books = Accumulator::new();
        assert!(!books.finished());
        books.chunk(r#"{"choices":[{"index":1,"delta":{"content":"b"}},{"index":0,"delta":{"content":"a"}}]}"#);
        books.chunk(r#"{"choices":[{"index":1,"delta":{"content":"B"},"finish_reason":"length"}]}"#);
        assert!(!books.finished());
        books.chunk(r#"{"choices":[{"index":0,"delta":{"content":"A"},"finish_reason":"stop"}]}"#);
        assert!(books.finished());
        let texts: Vec<_> = books.reply().choices.iter().map(|c| (c.index, c.text.as_str())).collect();
        assert_eq!(texts, [(0, "aA"), (1, "bB")]);
    }

    /// BerriAI/litellm#40404.
    #[test]
    fn a_malformed_chunk_is_skipped_and_counted() {
        let mut books = Accumulator::new();
        books.chunk(&delta(r#"{"content":"a"}"#));
        for bad in ["{\"choices\":[{", "no json", "[1]", "{]}", "null"] {
            assert!(books.chunk(bad).malformed, "{bad}");
        }
        books.chunk(&delta(r#"{"content":"b"}"#));
        assert_eq!((books.reply().choices[0].text.as_str(), books.malformed()), ("ab", 5));
    }

    /// maximhq/bifrost#1961, #1829.
    #[test]
    fn parallel_calls_with_interleaved_pieces_keep_apart() {
        let found = calls(&[
            r#"[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":""}}]"#,
            r#"[{"index":1,"id":"b","type":"function","function":{"name":"g","arguments":""}}]"#,
            r#"[{"index":0,"function":{"arguments":"{\"x\""}}]"#,
            r#"[{"index":1,"function":{"arguments":"{\"y\""}}]"#,
            r#"[{"index":0,"function":{"arguments":":1}"}},{"index":1,"function":{"arguments":":2}"}}]"#,
        ]);
        assert_eq!(found, expected(&[("a", "f", r#"{"x":1}"#), ("b", "g", r#"{"y":2}"#)]));
    }

    /// maximhq/bifrost PR#7235.
    #[test]
    fn two_calls_in_one_chunk_both_arrive_even_with_the_same_index() {
        let both = expected(&[("a", "f", "{}"), ("b", "f", "[]")]);
        let first = r#"{"id":"a","index":0,"function":{"name":"f","arguments":"{}"}}"#;
        for second in ["0", "1"] {
            let second = format!(r#"{{"id":"b","index":{second},"function":{{"name":"f","arguments":"[]"}}}}"#);
            assert_eq!(calls(&[&format!("[{first},{second}]")]), both);
        }
    }

    /// BerriAI/litellm#5231.
    #[test]
    fn calls_without_index_or_counted_from_one_are_read() {
        let found = calls(&[
            r#"[{"id":"a","function":{"name":"f","arguments":"{"}}]"#,
            r#"[{"function":{"arguments":"}"}}]"#,
            r#"[{"id":"b","function":{"name":"g","arguments":""}}]"#,
            r#"[{"id":"b","function":{"arguments":"{}"}}]"#,
            r#"[{"function":{"name":"h","arguments":{"k": 1}}}]"#,
        ]);
        assert_eq!(found, expected(&[("a", "f", "{}"), ("b", "g", "{}"), ("", "h", r#"{"k": 1}"#)]));
        let found = calls(&[
            r#"[{"index":1,"id":"a","function":{"name":"f","arguments":"1"}}]"#,
            r#"[{"index":2,"id":"b","function":{"name":"g","arguments":"2"}}]"#,
            r#"[{"index":1,"id":"a","function":{"name":"f","arguments":"1"}}]"#,
        ]);
        assert_eq!(found, expected(&[("a", "f", "11"), ("b", "g", "2")]));
    }

    #[test]
    fn a_whole_body_is_read_like_a_stream() {
        let body = json!({"id": "c", "model": "m", "choices": [{"index": 0, "message": {
            "role": "assistant", "content": "hi", "refusal": null,
            "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
        }, "finish_reason": "tool_calls"}], "usage": {"prompt_tokens": 1, "completion_tokens": 1}});
        let mut books = Accumulator::new();
        books.body(body.to_string().as_bytes());
        assert!(books.finished());
        let reply = books.into_reply();
        assert_eq!((reply.choices[0].text.as_str(), reply.choices[0].tool_calls[0].name.as_str()), ("hi", "f"));
        assert_eq!(reply.usage.map(Usage::total), Some(2));
    }

    #[test]
    fn text_is_bounded_and_says_so() {
        let mut books = Accumulator::new();
        let piece = "你".repeat(10_000);
        for _ in 0..20 {
            books.chunk(&delta(&json!({ "content": piece }).to_string()));
        }
        let reply = books.into_reply();
        assert!(reply.truncated && reply.choices[0].text.len() <= MAX_REPLY_BYTES);
        assert!(reply.choices[0].text.len() > MAX_REPLY_BYTES - 3);
    }

    #[test]
    fn choices_and_calls_are_bounded_and_say_so() {
        let mut books = Accumulator::new();
        for index in 0..1_000 {
            books.chunk(&json!({"choices": [{"index": index, "delta": {}}]}).to_string());
        }
        assert!(books.reply().truncated && books.reply().choices.len() == MAX_ITEMS);
    }

    #[test]
    fn the_light_one_follows_without_text() {
        let mut books = Accumulator::light();
        books.chunk(&delta(r#"{"content":"secret"}"#));
        assert!(!books.finished());
        books.chunk(
            r#"{"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":9}}"#,
        );
        assert!(books.finished());
        let reply = books.into_reply();
        assert_eq!((reply.choices[0].text.as_str(), reply.id), ("", None));
        assert_eq!(reply.usage.map(|u| u.prompt_tokens), Some(9));
    }

    proptest! {
        #[test]
        fn any_chunk_is_taken_without_panic(text in ".*", delta_text in r#"[\[\]{}":,a-z0-9\\]{0,40}"#) {
            let mut books = Accumulator::new();
            books.chunk(&text);
            books.chunk(&delta(&delta_text));
            books.body(text.as_bytes());
        }

        #[test]
        fn text_comes_back_however_it_was_cut(pieces in prop::collection::vec(".*", 0..10)) {
            let chunks: Vec<String> = pieces.iter().map(|p| delta(&json!({ "content": p }).to_string())).collect();
            let reply = read(&chunks.iter().map(String::as_str).collect::<Vec<_>>());
            let text = reply.choices.first().map_or("", |c| &c.text);
            prop_assert_eq!(text, pieces.concat());
        }
    }
}
