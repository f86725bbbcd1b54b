//! The counter: counts with a memory of what it has counted.

use crate::wire::{ChatRequest, Dialect, Message, Span, scan};

use super::cache::Cache;
use super::encoding::{Encoding, Rules};
use super::{message, tools};

/// What every reply is primed with: `<|start|>assistant<|message|>`.
const REPLY_PRIMING: usize = 3;

/// To look up what is known of larger requests takes long itself, in bytes.
const LOOK_UP_BYTES: usize = 512 * 1024;

/// A message of no text costs at most so much; so does the priming.
const MOST_PER_MESSAGE: usize = 5;

/// Marks in a cache's domain what a text was counted as.
const TEXT: u32 = 1 << 16;
const MESSAGE: u32 = 2 << 16;
const TOOLS: u32 = 3 << 16;
const FORMAT: u32 = 4 << 16;

/// Counts tokens, and counts each message only once. Shared by all requests; never locks, never fails.
#[derive(Debug)]
pub struct Counter {
    cache: Cache,
}

/// The tokens of a request, by where they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestCount {
    /// Of each message, with its overhead, names, parts, images and tool calls.
    pub messages: Vec<u32>,
    /// Of the tool schemas.
    pub tools: usize,
    /// Of `response_format`, or what another dialect has in its place.
    pub response_format: usize,
    /// What every request costs.
    pub overhead: usize,
    /// All of it.
    pub total: usize,
}

/// What was counted before of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Remembered {
    /// The tokens of it.
    pub tokens: usize,
    /// The bytes of what was not counted before.
    pub uncounted: usize,
}

impl RequestCount {
    /// What is sent beside the messages, and cannot be cut.
    #[must_use]
    pub fn fixed(&self) -> usize {
        self.tools + self.response_format + self.overhead
    }
}

impl Counter {
    /// Of so many bytes a count takes about a millisecond: more is counted off the async threads.
    pub const SOON_BYTES: usize = 16 * 1024;

    /// Makes a counter that remembers counts in `cache_bytes` bytes, 8 each. When that is full, old ones make room.
    #[must_use]
    pub fn new(cache_bytes: usize) -> Self {
        Self { cache: Cache::new(cache_bytes) }
    }

    /// Loads the vocabulary of nearly all models, so that the first request does not wait for it.
    pub fn warm_up(&self) {
        self.text(Encoding::O200k, "ready");
    }

    /// Returns a bound of a request's tokens that costs next to nothing: no token is shorter than a byte. It does not hold for parts
    /// and tool schemas.
    #[must_use]
    pub fn at_most(request: &ChatRequest) -> usize {
        let bytes = request.body().len();
        // Messages and calls of few bytes (`{}`) have more overhead than bytes.
        let calls_tools = |message: &Message| message.tool_calls.is_some();
        if request.messages().iter().any(calls_tools) {
            2 * bytes
        } else {
            bytes + MOST_PER_MESSAGE * (request.messages().len() + 1)
        }
    }

    /// Returns the tokens of a text.
    pub fn text(&self, rules: impl Into<Rules>, text: &str) -> usize {
        let rules = rules.into();
        if text.is_empty() {
            return 0;
        }
        self.cache.get_or(TEXT | rules.domain(), text, || rules.encoding.tokenizer().count(text))
    }

    /// Returns the tokens of the `index`th message of a request; 0 when there is none.
    pub fn message(&self, rules: impl Into<Rules>, request: &ChatRequest, index: usize) -> usize {
        request.messages().get(index).map_or(0, |message| self.message_in(rules.into(), request.text(), message))
    }

    /// Returns the tokens of a message of the body `text`.
    pub(crate) fn message_in(&self, rules: Rules, text: &str, message: &Message) -> usize {
        let json = message.span.of(text);
        self.cache.get_or(MESSAGE | rules.domain(), json, || message::count(rules, text, message))
    }

    /// Returns what was counted before of a request; `None` when to count the rest takes longer than an async thread should be kept.
    #[must_use]
    pub fn remembered(&self, rules: impl Into<Rules>, request: &ChatRequest) -> Option<Remembered> {
        let bytes = request.body().len();
        if bytes < Self::SOON_BYTES {
            return Some(Remembered { tokens: 0, uncounted: bytes });
        }
        if bytes > LOOK_UP_BYTES {
            return None;
        }
        let remembered = self.look_up(rules.into(), request);
        (remembered.uncounted < Self::SOON_BYTES).then_some(remembered)
    }

    fn look_up(&self, rules: Rules, request: &ChatRequest) -> Remembered {
        let text = request.text();
        let messages = request.messages().iter().map(|message| (MESSAGE, message.span));
        let mut remembered = Remembered { tokens: REPLY_PRIMING, uncounted: 0 };
        for (kind, span) in messages.chain(beside_messages(request)) {
            let json = span.of(text);
            match self.cache.get(kind | rules.domain(), json) {
                Some(tokens) => remembered.tokens += tokens,
                None => remembered.uncounted += json.len(),
            }
        }
        remembered
    }

    /// Returns the tokens of a whole request.
    ///
    /// Exact for messages and images of OpenAI's models; tool schemas by OpenAI's guide; the rest is estimated on the high side.
    pub fn request(&self, rules: impl Into<Rules>, request: &ChatRequest) -> RequestCount {
        let rules = rules.into();
        let text = request.text();
        let messages: Vec<u32> = request
            .messages()
            .iter()
            .map(|message| u32::try_from(self.message_in(rules, text, message)).unwrap_or(u32::MAX))
            .collect();
        let mut count = RequestCount { messages, overhead: REPLY_PRIMING, ..RequestCount::default() };
        for (kind, span) in beside_messages(request) {
            let counted = self.cache.get_or(kind | rules.domain(), span.of(text), || match kind {
                TOOLS => tools::count(rules, text, span),
                _ => message::raw(rules, text, span),
            });
            match kind {
                TOOLS => count.tools += counted,
                _ => count.response_format = counted,
            }
        }
        count.total = count.fixed() + count.messages.iter().map(|&n| n as usize).sum::<usize>();
        count
    }
}

/// What counts beside the messages: tool schemas and the form of the answer.
fn beside_messages(request: &ChatRequest) -> impl Iterator<Item = (u32, Span)> {
    let text = request.text();
    request.members().iter().filter_map(move |member| match member.key.of(text) {
        "tools" | "functions" => Some((TOOLS, member.value)),
        key if is_format(request.dialect(), text, key, member.value) => Some((FORMAT, member.value)),
        _ => None,
    })
}

/// Whether a member holds the form of the answer, which the model is shown. The default one, `{"type":"text"}`, is not.
fn is_format(dialect: Dialect, text: &str, key: &str, value: Span) -> bool {
    match (dialect, key) {
        (Dialect::Chat, "response_format") => kind_of(text, value).is_some_and(|kind| kind != r#""text""#),
        (Dialect::Messages, "output_format") => value.of(text).starts_with('{'),
        (Dialect::Responses, "text") => {
            let format = scan::member(text, value, "format").and_then(|format| kind_of(text, format));
            format.is_some_and(|kind| kind != r#""text""#)
        }
        (Dialect::Messages, "output_config") => scan::member(text, value, "format").is_some(),
        _ => false,
    }
}

/// Returns the literal of an object's `type`.
fn kind_of(text: &str, span: Span) -> Option<&str> {
    scan::member(text, span, "type").map(|kind| kind.of(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn request(body: &Value) -> ChatRequest {
        ChatRequest::decode(Bytes::from(body.to_string())).unwrap()
    }

    fn total(encoding: Encoding, body: &Value) -> usize {
        Counter::new(1 << 16).request(encoding, &request(body)).total
    }

    fn asked(content: Value) -> Value {
        json!({"model": "m", "messages": [{"role": "user", "content": content}]})
    }

    #[test]
    fn the_six_messages_of_openais_guide_count_129_and_124() {
        let body = json!({"model": "gpt-4o", "messages": [
            {"role": "system", "content": "You are a helpful, pattern-following assistant that translates corporate jargon into plain English."},
            {"role": "system", "name": "example_user", "content": "New synergies will help drive top-line growth."},
            {"role": "system", "name": "example_assistant", "content": "Things working well together will increase revenue."},
            {"role": "system", "name": "example_user", "content": "Let's circle back when we have more bandwidth to touch base on opportunities for increased leverage."},
            {"role": "system", "name": "example_assistant", "content": "Let's talk later when we're less busy about how to do better."},
            {"role": "user", "content": "This late pivot means we don't have time to boil the ocean for the client deliverable."},
        ]});
        assert_eq!(total(Encoding::Cl100k, &body), 129);
        assert_eq!(total(Encoding::O200k, &body), 124);
    }

    #[test]
    fn the_tool_of_openais_guide_counts_105_and_101() {
        let body = json!({"model": "gpt-4o",
            "messages": [
                {"role": "system", "content": "You are a helpful assistant that can answer to questions about the weather."},
                {"role": "user", "content": "What's the weather like in San Francisco?"},
            ],
            "tools": [{"type": "function", "function": {
                "name": "get_current_weather",
                "description": "Get the current weather in a given location",
                "parameters": {"type": "object", "required": ["location"], "properties": {
                    "location": {"type": "string", "description": "The city and state, e.g. San Francisco, CA"},
                    "unit": {"type": "string", "description": "The unit of temperature to return", "enum": ["celsius", "fahrenheit"]},
                }},
            }}],
        });
        assert_eq!(total(Encoding::Cl100k, &body), 105);
        assert_eq!(total(Encoding::O200k, &body), 101);
    }

    #[test]
    fn plain_words_count_one_each() {
        assert_eq!(total(Encoding::O200k, &asked(["word"; 100].join(" ").into())), 107);
    }

    #[test]
    fn a_long_request_is_remembered_once_it_was_counted() {
        let counter = Counter::new(1 << 16);
        let long = |n: usize| json!({"role": "user", "content": "word ".repeat(n)});
        let tools = json!([{"type": "function", "function": {"name": "f", "description": "word ".repeat(4_000)}}]);
        let before = request(&json!({"model": "m", "messages": [long(4_000), long(4_001)], "tools": tools}));
        assert_eq!(counter.remembered(Encoding::O200k, &before), None);
        let counted = counter.request(Encoding::O200k, &before).total;
        let all = Remembered { tokens: counted, uncounted: 0 };
        assert_eq!(counter.remembered(Encoding::O200k, &before), Some(all));
        assert_eq!(counter.remembered(Encoding::Cl100k, &before), None, "by other rules nothing is known");
        let next = request(&json!({"model": "m", "messages": [long(4_000), long(4_001), long(1)], "tools": tools}));
        let remembered = counter.remembered(Encoding::O200k, &next).unwrap();
        assert_eq!(remembered, Remembered { tokens: counted, uncounted: r#"{"content":"word ","role":"user"}"#.len() });
        let form = json!({"type": "json_schema", "json_schema": {"name": "word ".repeat(4_000)}});
        let formed = request(&json!({"model": "m", "messages": [long(1)], "response_format": form}));
        assert_eq!(counter.remembered(Encoding::O200k, &formed), None);
        let huge = request(&json!({"model": "m", "messages": [long(200_000)]}));
        counter.request(Encoding::O200k, &huge);
        assert_eq!(counter.remembered(Encoding::O200k, &huge), None);
    }

    /// Guards against BerriAI/litellm#1702 and PR#4036.
    #[test]
    fn text_in_parts_counts_like_the_same_text_in_one_string() {
        let parts = json!([{"type": "text", "text": "The quick brown fox"}]);
        assert_eq!(total(Encoding::O200k, &asked(parts)), total(Encoding::O200k, &asked("The quick brown fox".into())));
    }

    /// Guards against BerriAI/litellm#36671 and PR#4036.
    #[test]
    fn all_that_is_sent_counts() {
        let plain = json!({"model": "m", "messages": [{"role": "assistant", "content": "hi"}]});
        let base = total(Encoding::O200k, &plain);
        let with = |pointer: &str, key: &str, value: Value| {
            let mut body = plain.clone();
            body.pointer_mut(pointer).unwrap()[key] = value;
            total(Encoding::O200k, &body)
        };
        let call =
            json!([{"id": "c1", "type": "function", "function": {"name": "find", "arguments": "{\"q\":\"tea\"}"}}]);
        assert!(with("/messages/0", "name", "ada".into()) > base);
        assert!(with("/messages/0", "tool_calls", call) > base + 6);
        assert!(with("", "response_format", json!({"type": "json_schema", "json_schema": {"name": "x"}})) > base);
        assert!(with("", "tools", json!([{"type": "function", "function": {"name": "f"}}])) > base);
        assert_eq!(with("", "response_format", json!({"type": "text"})), base);
    }

    #[test]
    fn what_a_model_thought_aloud_counts_when_it_is_sent_back() {
        let plain = json!({"model": "m", "messages": [{"role": "assistant", "content": "hi"}]});
        let mut thought = plain.clone();
        thought["messages"][0]["reasoning_content"] = "one two three".into();
        assert_eq!(total(Encoding::O200k, &thought), total(Encoding::O200k, &plain) + 3);
        thought["messages"][0]["reasoning_content"] = Value::Null;
        assert_eq!(total(Encoding::O200k, &thought), total(Encoding::O200k, &plain));
    }

    /// A minute of speech must not look like a book.
    #[test]
    fn audio_is_estimated_by_its_length() {
        let data = "A".repeat(60 * 5_300);
        let audio = json!([{"type": "input_audio", "input_audio": {"data": data, "format": "mp3"}}]);
        let tokens = total(Encoding::O200k, &asked(audio));
        assert!((600..3_000).contains(&tokens), "{tokens}");
    }

    #[test]
    fn unknown_things_are_estimated_and_never_refused() {
        for content in [
            json!(7),
            json!([{"type": "hologram", "data": "xyz"}]),
            json!([1, null]),
            json!([{"type": "file", "file": {"file_data": "data:,"}}]),
        ] {
            assert!(total(Encoding::O200k, &asked(content)) > 7);
        }
        assert!(total(Encoding::O200k, &json!({"model": "m", "messages": [{}], "tools": {"a": 1}})) > 0);
    }

    #[test]
    fn the_counts_are_tiktokens() {
        let o200k = tiktoken_rs::o200k_base().unwrap();
        let cl100k = tiktoken_rs::cl100k_base().unwrap();
        let counter = Counter::new(1 << 16);
        let hostile = [
            "a".repeat(4_000),
            "记".repeat(1_000),
            " ".repeat(5_000),
            "\n \t".repeat(2_000),
            "<|endoftext|>".repeat(50),
            "=".repeat(3_333),
        ];
        let plain = [
            "I'm allergic to peanuts; it's DON'T-care 12345678 €9.99 naïve café\r\n\r\n  indented",
            "我住在上海，对花生过敏。订单号是 A-2291，金额 ¥1,299.00。",
            "fn main() {\n    let x: Vec<u8> = vec![0; 1 << 20]; // 你好 😀👩‍👩‍👧\n}\n",
            "مرحبا بالعالم हिन्दी ไทย 日本語 한국어",
        ];
        for text in hostile.iter().map(String::as_str).chain(plain) {
            assert_eq!(counter.text(Encoding::O200k, text), o200k.encode_ordinary(text).len());
            assert_eq!(counter.text(Encoding::Cl100k, text), cl100k.encode_ordinary(text).len());
        }
    }

    /// A message with any of its members, or none.
    fn message() -> impl Strategy<Value = Value> {
        let text = r#"\PC{0,12}|[ "\\\n]{0,12}"#;
        let call = prop_oneof![
            Just(json!({})),
            (text, text).prop_map(|(n, a)| json!({"function": {"name": n, "arguments": a}}))
        ];
        let member = prop_oneof![
            text.prop_map(|text| ("content", Value::from(text))),
            text.prop_map(|text| ("name", Value::from(text))),
            text.prop_map(|text| ("role", Value::from(text))),
            text.prop_map(|text| ("refusal", Value::from(text))),
            Just(("content", Value::Null)),
            Just(("role", "assistant".into())),
            Just(("function_call", json!({}))),
            prop::collection::vec(call, 0..4).prop_map(|calls| ("tool_calls", calls.into())),
        ];
        prop::collection::vec(member, 0..5)
            .prop_map(|members| members.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
    }

    proptest! {
        #[test]
        fn a_request_has_at_most_as_many_tokens_as_its_bytes_allow(messages in prop::collection::vec(message(), 1..12)) {
            let request = request(&json!({"model": "", "messages": messages}));
            for encoding in [Encoding::O200k, Encoding::Cl100k] {
                let total = Counter::new(0).request(encoding, &request).total;
                prop_assert!(total <= Counter::at_most(&request), "{total} of {}", Counter::at_most(&request));
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]
        #[test]
        fn any_text_counts_as_in_tiktoken(text in "\\PC{0,80}|[ \\n\\r\\ta-z'你0-9./]{0,80}") {
            let counter = Counter::new(1 << 10);
            let reference = tiktoken_rs::o200k_base_singleton().encode_ordinary(&text).len();
            prop_assert_eq!(counter.text(Encoding::O200k, &text), reference);
            prop_assert!(reference <= text.len());
        }
    }
}
