//! A request of a conversation, in whichever dialect, read without losing a byte.
//!
//! A [`ChatRequest`] is what all dialects have in common: the client's own text and where its messages stand in it. How a dialect
//! writes them its reader knows ([`View::of_array`] for OpenAI's, [`messages`] for Anthropic's).

use std::borrow::Cow;

use bytes::Bytes;
use bytestring::ByteString;

use super::dialect::Dialect;
use super::message::{Message, Part, Role};
use super::messages;
use super::patch::Patches;
use super::responses;
use super::scan::{self, Member, Span};
use super::text::{decode_lossy, encode_string};

/// Why a body is no chat request. Each text may be shown to the client.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The body is not UTF-8.
    #[error("the body is not valid UTF-8: invalid byte at offset {0}")]
    Utf8(usize),
    /// The body is not JSON; the text names line and column.
    #[error("the body is not valid JSON: {0}")]
    Json(String),
    /// A name has letters that are escaped, or capitals; the text is the beginning of it as it is written.
    #[error("`{0}` must be written plainly: in small letters, none of them escaped")]
    Spelling(String),
    /// The body is JSON but no object.
    #[error("the body must be a JSON object")]
    NotAnObject,
    /// A member is missing or of the wrong type.
    #[error("`{param}` {problem}")]
    Member {
        /// The member at fault, as in `messages[3].role`.
        param: String,
        /// What is wrong with it.
        problem: &'static str,
    },
}

/// A chat request: the client's own bytes and where things stand in them.
#[derive(Clone, Debug)]
pub struct ChatRequest {
    dialect: Dialect,
    text: ByteString,
    members: Vec<Member>,
    view: View,
    model: String,
    stream: bool,
}

/// The messages of a request, in the order in which the model reads them.
#[derive(Clone, Debug)]
pub(super) struct View {
    /// The array that holds them; what is no part of it, as Anthropic's `system`, comes first.
    pub(super) array: Span,
    /// The messages, at least one; none only in a responses request that goes on with what upstream keeps.
    pub(super) messages: Vec<Message>,
}

/// Checks that a body is JSON whose names are written as this program reads them.
///
/// # Errors
/// It is not.
pub fn check(text: &str) -> Result<(), DecodeError> {
    match scan::validate_sent(text).map_err(|e| DecodeError::Json(e.to_string()))? {
        Some(odd) => Err(DecodeError::Spelling(odd.of(text).chars().take(64).collect())),
        None => Ok(()),
    }
}

/// A body is a slice of the connection's read buffer, which is kept with it and may be much larger. Smaller ones than this, in bytes, are
/// copied, to let go of it.
const COPIED_BELOW: usize = 16 * 1024;

impl ChatRequest {
    /// Reads a body of chat completions.
    ///
    /// # Errors
    /// As [`ChatRequest::decode_as`].
    pub fn decode(body: Bytes) -> Result<Self, DecodeError> {
        Self::decode_as(Dialect::Chat, body)
    }

    /// Reads a body of a dialect.
    ///
    /// # Errors
    /// Invalid UTF-8 or JSON, `model` or `messages` missing or of the wrong type, a message that is no object.
    pub fn decode_as(dialect: Dialect, body: Bytes) -> Result<Self, DecodeError> {
        let body = if body.len() < COPIED_BELOW { Bytes::copy_from_slice(&body) } else { body };
        // Checked once, and kept as text.
        let owned = ByteString::try_from(body).map_err(|e| DecodeError::Utf8(e.valid_up_to()))?;
        let text: &str = &owned;
        check(text)?;
        let whole = Span::new(0, text.len());
        if !text.trim_start_matches([' ', '\n', '\r', '\t']).starts_with('{') {
            return Err(DecodeError::NotAnObject);
        }
        let (members, messages) = match dialect {
            Dialect::Chat => members_and_messages(text, whole),
            Dialect::Messages | Dialect::Responses => (scan::members(text, whole).collect(), None),
        };
        let last = |key: &str| members.iter().rev().find(|m| m.key.of(text) == key).map(|m| m.value);

        let model = match last("model").map(|s| s.of(text)) {
            None => return Err(fault("model", "is required")),
            Some(literal) if literal.starts_with('"') => decode_lossy(literal).into_owned(),
            Some(_) => return Err(fault("model", "must be a string")),
        };
        let stream = match last("stream").map(|s| s.of(text)) {
            Some("true") => true,
            None | Some("false" | "null") => false,
            Some(_) => return Err(fault("stream", "must be a boolean")),
        };
        let view = match dialect {
            Dialect::Chat => messages.unwrap_or_else(|| Err(fault("messages", "is required")))?,
            Dialect::Messages => messages::view(text, last("system"), last("messages"))?,
            Dialect::Responses => responses::view(text, last("instructions"), last("input"))?,
        };
        Ok(Self { dialect, members, view, model, stream, text: owned })
    }

    /// How it is written.
    #[must_use]
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// The body as it came.
    #[must_use]
    pub fn body(&self) -> &Bytes {
        self.text.as_bytes()
    }

    /// The body as text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The model that the client asks for.
    #[must_use]
    pub fn model(&self) -> &str {
        &self.model
    }

    /// Whether the client wants a stream.
    #[must_use]
    pub fn stream(&self) -> bool {
        self.stream
    }

    /// The messages, in order.
    #[must_use]
    pub fn messages(&self) -> &[Message] {
        &self.view.messages
    }

    /// The offset at which a system message of our own is put in, where the client has none: see [`ChatRequest::system_message`].
    #[must_use]
    pub fn system_message_at(&self) -> usize {
        match self.dialect {
            Dialect::Chat => self.view.array.start + 1,
            Dialect::Messages | Dialect::Responses => self.end_of_members(),
        }
    }

    /// Returns a system message of our own as it is put in there, in front of all messages. `role` is what it is called where it has one.
    #[must_use]
    pub fn system_message(&self, role: Role, content: &str) -> String {
        let content = encode_string(content);
        match self.dialect {
            Dialect::Chat => format!(r#"{{"role":"{}","content":{content}}},"#, role.as_str()),
            Dialect::Messages => format!(r#","system":{content}"#),
            Dialect::Responses => format!(r#","instructions":{content}"#),
        }
    }

    /// The members of the request, in order.
    #[must_use]
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// Returns the JSON text of the last member called `key`.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        self.get_span(key).map(|span| span.of(self.text()))
    }

    /// Returns the span of the last member called `key`.
    #[must_use]
    pub fn get_span(&self, key: &str) -> Option<Span> {
        let text = self.text();
        self.members.iter().rev().find(|m| m.key.of(text) == key).map(|m| m.value)
    }

    /// Returns a string member; `None` when it is absent or no string.
    #[must_use]
    pub fn get_string(&self, key: &str) -> Option<Cow<'_, str>> {
        self.get(key).filter(|v| v.starts_with('"')).map(decode_lossy)
    }

    /// Returns a non-negative integer member; `None` when it is absent or anything else.
    #[must_use]
    pub fn get_u64(&self, key: &str) -> Option<u64> {
        self.get(key)?.parse().ok()
    }

    /// Returns the most output tokens that the client asks for, by the newer name or the older one; 0 asks for nothing.
    #[must_use]
    pub fn max_output(&self) -> Option<u64> {
        max_output_of(|name| self.get_u64(name))
    }

    /// Returns the JSON text of a member of an object member, as in `metadata.user_id`.
    #[must_use]
    pub fn get_nested(&self, outer: &str, inner: &str) -> Option<&str> {
        let text = self.text();
        scan::member(text, self.get_span(outer)?, inner).map(|span| span.of(text))
    }

    /// What the client said of `stream_options.include_usage`, if anything.
    #[must_use]
    pub fn include_usage(&self) -> Option<bool> {
        let text = self.text();
        match scan::member(text, self.get_span("stream_options")?, "include_usage")?.of(text) {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        }
    }

    /// The newest user message: where the newest user turn begins.
    #[must_use]
    pub fn newest_user(&self) -> Option<usize> {
        self.messages().iter().rposition(|m| m.role == Role::User)
    }

    /// Returns the text of a message: its string, or its text parts joined by line feeds. Lone surrogates are replaced.
    #[must_use]
    pub fn message_text(&self, message: &Message) -> Cow<'_, str> {
        message.text(self.text())
    }

    /// Iterates over the content parts of a message; none unless its content is an array.
    pub fn parts(&self, message: &Message) -> impl Iterator<Item = Part> + '_ {
        message.parts(self.text())
    }

    /// Patches every `model` member to `model`.
    pub fn set_model(&self, model: &str, patches: &mut Patches) {
        let text = self.text();
        for member in self.members.iter().filter(|m| m.key.of(text) == "model") {
            patches.replace(member.value, encode_string(model));
        }
    }

    /// Patches `stream_options.include_usage` to `true`, adding what is missing.
    pub fn ask_usage(&self, patches: &mut Patches) {
        let text = self.text();
        let Some(options) = self.get_span("stream_options").filter(|s| s.of(text).starts_with('{')) else {
            match self.get_span("stream_options") {
                // `null`: replace it.
                Some(span) => patches.replace(span, r#"{"include_usage":true}"#),
                None => self.append_member(r#""stream_options":{"include_usage":true}"#, patches),
            }
            return;
        };
        match scan::member(text, options, "include_usage") {
            Some(span) => patches.replace(span, "true"),
            None => {
                let empty = scan::members(text, options).next().is_none();
                let comma = if empty { "" } else { "," };
                patches.insert(options.end - 1, format!(r#"{comma}"include_usage":true"#));
            }
        }
    }

    /// Patches the request to carry one more member at its end; `member` is `"key":value`.
    fn append_member(&self, member: &str, patches: &mut Patches) {
        patches.insert(self.end_of_members(), format!(",{member}"));
    }

    /// The end of the last member: a request has some.
    fn end_of_members(&self) -> usize {
        self.members.last().map_or(0, |last| last.value.end)
    }
}

impl View {
    /// Reads an array of messages that all stand for themselves.
    pub(super) fn of_array(text: &str, array: Option<Span>) -> Result<Self, DecodeError> {
        let array = array.ok_or_else(|| fault("messages", "is required"))?;
        Self::at(text, array.start)
    }

    /// Reads the messages of the array that begins at `start`, and finds out where it ends: a long history is gone through once.
    fn at(text: &str, start: usize) -> Result<Self, DecodeError> {
        if text.as_bytes().get(start) != Some(&b'[') {
            return Err(fault("messages", "must be an array"));
        }
        let mut elements = scan::elements(text, Span::new(start, text.len()));
        let mut messages: Vec<Message> = Vec::new();
        while let Some(at) = elements.begin() {
            let message = Message::read_at(text, at)
                .ok_or_else(|| fault(format!("messages[{}]", messages.len()), "must be an object"))?;
            elements.go_on(message.span.end);
            messages.push(message);
        }
        if messages.is_empty() {
            return Err(fault("messages", "must not be empty"));
        }
        Ok(Self { array: Span::new(start, elements.end()), messages })
    }
}

/// The members of a request, and what the last of them that is called `messages` holds, in one go.
fn members_and_messages(text: &str, whole: Span) -> (Vec<Member>, Option<Result<View, DecodeError>>) {
    let (mut members, mut messages) = (Vec::new(), None);
    let mut walk = scan::members(text, whole);
    while let Some((key, start)) = walk.begin() {
        let mut end = None;
        if key.of(text) == "messages" {
            let view = View::at(text, start);
            end = view.as_ref().ok().map(|view| view.array.end);
            messages = Some(view);
        }
        let end = end.unwrap_or_else(|| scan::end_of_value(text, start));
        walk.go_on(end);
        members.push(Member { key, value: Span::new(start, end) });
    }
    (members, messages)
}

pub(super) fn fault(param: impl Into<String>, problem: &'static str) -> DecodeError {
    DecodeError::Member { param: param.into(), problem }
}

/// The most output tokens, by either name that it goes by.
pub(super) fn max_output_of(number: impl Fn(&str) -> Option<u64>) -> Option<u64> {
    ["max_completion_tokens", "max_tokens", "max_output_tokens"]
        .into_iter()
        .find_map(|name| number(name).filter(|&n| n > 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(text: &str) -> Result<ChatRequest, DecodeError> {
        ChatRequest::decode(Bytes::copy_from_slice(text.as_bytes()))
    }

    #[test]
    fn a_long_body_is_not_copied_and_a_short_one_lets_go_of_the_buffer_that_it_came_in() {
        let is_copied = |content: usize| {
            let body = format!(r#"{{"model":"m","messages":[{{"role":"user","content":"{}"}}]}}"#, "x".repeat(content));
            let buffer = Bytes::from(format!("POST / HTTP/1.1\r\n\r\n{body}"));
            let slice = buffer.slice(buffer.len() - body.len()..);
            let request = ChatRequest::decode(slice.clone()).unwrap();
            assert_eq!(request.body(), &body);
            request.body().as_ptr() != slice.as_ptr()
        };
        assert!(is_copied(100));
        assert!(!is_copied(COPIED_BELOW));
    }

    #[test]
    fn a_request_is_read_where_it_stands() {
        let request = decode(
            r#"{ "model":"a\u002fb", "messages":[
                {"role":"system","content":"be kind"},
                {"role":"user","content":[{"type":"text","text":"hi"},{"type":"image_url","image_url":{"url":"data:,"}},{"type":"text","text":"there","cache_control":{}}]},
                {"content":null,"tool_calls":[{"id":"c1"}],"role":"assistant"}],
                "stream":true, "metadata":{"user_id":"u1"}, "max_tokens":10}"#,
        )
        .unwrap();
        assert_eq!((request.model(), request.stream()), ("a/b", true));
        let roles: Vec<_> = request.messages().iter().map(|m| m.role).collect();
        assert_eq!(roles, [Role::System, Role::User, Role::Assistant]);
        assert_eq!(request.message_text(&request.messages()[1]), "hi\nthere");
        assert!(request.messages()[2].calls_tools());
        assert_eq!(request.newest_user(), Some(1));
        assert_eq!(request.get_nested("metadata", "user_id"), Some("\"u1\""));
        assert_eq!(request.get_u64("max_tokens"), Some(10));
        assert!(request.parts(&request.messages()[1]).last().unwrap().cache_control);
    }

    #[test]
    fn faults_name_the_place() {
        let text = |body: &str| decode(body).unwrap_err().to_string();
        assert_eq!(text(r#"{"messages":[]}"#), "`model` is required");
        assert_eq!(text(r#"{"model":1,"messages":[]}"#), "`model` must be a string");
        assert_eq!(text(r#"{"model":"m"}"#), "`messages` is required");
        assert_eq!(text(r#"{"model":"m","messages":{}}"#), "`messages` must be an array");
        assert_eq!(text(r#"{"model":"m","messages":[]}"#), "`messages` must not be empty");
        assert_eq!(text(r#"{"model":"m","messages":[{},7]}"#), "`messages[1]` must be an object");
        assert_eq!(text("[]"), "the body must be a JSON object");
        assert!(text("{\"model\":\n  oops}").contains("line 2 column 3"));
        assert!(matches!(ChatRequest::decode(Bytes::from_static(b"{\"a\":\"\xff\"}")), Err(DecodeError::Utf8(6))));
    }

    #[test]
    fn usage_is_asked_for_whatever_the_client_wrote() {
        let asked = |options: &str| {
            let request = decode(&format!(r#"{{"model":"m","messages":[{{}}]{options} }}"#)).unwrap();
            let mut patches = Patches::default();
            request.ask_usage(&mut patches);
            let body = patches.apply(request.body());
            (request.include_usage(), String::from_utf8(body.to_vec()).unwrap())
        };
        let head = r#"{"model":"m","messages":[{}],"stream_options":"#;
        assert_eq!(asked(""), (None, format!(r#"{head}{{"include_usage":true}} }}"#)));
        assert_eq!(asked(r#","stream_options":null"#).1, format!(r#"{head}{{"include_usage":true}} }}"#));
        assert_eq!(asked(r#","stream_options":{}"#).1, format!(r#"{head}{{"include_usage":true}} }}"#));
        assert_eq!(asked(r#","stream_options":{"x":1}"#).1, format!(r#"{head}{{"x":1,"include_usage":true}} }}"#));
        assert_eq!(
            asked(r#","stream_options":{"include_usage":false}"#),
            (Some(false), format!(r#"{head}{{"include_usage":true}} }}"#))
        );
    }

    #[test]
    fn an_alias_replaces_the_model_and_nothing_else() {
        let request =
            decode(r#"{"model" : "fast", "n":1e3,"messages":[{"role":"user","content":"\ud800"}], "model":"fast"}"#)
                .unwrap();
        let mut patches = Patches::default();
        request.set_model("up/stream", &mut patches);
        assert_eq!(
            patches.apply(request.body()),
            r#"{"model" : "up/stream", "n":1e3,"messages":[{"role":"user","content":"\ud800"}], "model":"up/stream"}"#
        );
    }
}
