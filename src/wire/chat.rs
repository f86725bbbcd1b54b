//! A chat request, read without losing a byte.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;

use super::patch::Patches;
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

/// Who speaks in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// `system`.
    System,
    /// `developer`: what newer models call `system`.
    Developer,
    /// `user`.
    User,
    /// `assistant`.
    Assistant,
    /// `tool`: the result of a tool call.
    Tool,
    /// `function`: the legacy form of `tool`.
    Function,
    /// Anything else, or no role at all; passed on as it is.
    Other,
}

impl Role {
    /// Whether messages of this role instruct the model (and are pinned, unhashed and never learned from).
    #[must_use]
    pub fn is_instruction(self) -> bool {
        matches!(self, Self::System | Self::Developer)
    }

    /// Whether messages of this role carry a tool's result.
    #[must_use]
    pub fn is_tool_result(self) -> bool {
        matches!(self, Self::Tool | Self::Function)
    }

    /// The role as it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Developer => "developer",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
            Self::Function => "function",
            Self::Other => "other",
        }
    }

    fn parse(text: &str) -> Self {
        match text {
            "system" => Self::System,
            "developer" => Self::Developer,
            "user" => Self::User,
            "assistant" => Self::Assistant,
            "tool" => Self::Tool,
            "function" => Self::Function,
            _ => Self::Other,
        }
    }
}

/// The form of a message's `content`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// No `content` member.
    Absent,
    /// `null`.
    Null(Span),
    /// A string; the span includes the quotes.
    Text(Span),
    /// An array of parts.
    Parts(Span),
    /// Something else, passed on as it is.
    Other(Span),
}

/// Where one message stands in the body, and its members that someone reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// The whole object.
    pub span: Span,
    /// Who speaks.
    pub role: Role,
    /// `content`.
    pub content: Content,
    /// `name`.
    pub name: Option<Span>,
    /// `tool_calls` (an array).
    pub tool_calls: Option<Span>,
    /// `function_call`: the legacy form of `tool_calls`.
    pub function_call: Option<Span>,
    /// `tool_call_id`.
    pub tool_call_id: Option<Span>,
    /// `refusal`.
    pub refusal: Option<Span>,
    /// `cache_control` on the message itself.
    pub cache_control: bool,
}

/// What a content part is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartKind {
    /// `text` (and `input_text`); the span is the string literal.
    Text(Span),
    /// `refusal`; the span is the string literal.
    Refusal(Span),
    /// `image_url`: the URL literal and the `detail` literal.
    Image {
        /// The URL, or a `data:` URL.
        url: Option<Span>,
        /// `low`, `high` or `auto`.
        detail: Option<Span>,
    },
    /// `input_audio`.
    Audio,
    /// `file`.
    File,
    /// A part type that we do not know; passed on as it is.
    Other,
}

/// One content part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The whole object.
    pub span: Span,
    /// What it is.
    pub kind: PartKind,
    /// Whether it carries `cache_control`: such a part is not moved, merged or edited.
    pub cache_control: bool,
}

/// A chat request: the client's own bytes and where things stand in them.
#[derive(Clone, Debug)]
pub struct ChatRequest {
    text: Arc<String>,
    /// The same bytes.
    body: Bytes,
    members: Vec<Member>,
    messages_span: Span,
    messages: Vec<Message>,
    model: String,
    stream: bool,
}

/// Lends a text out as bytes.
struct OwnedText(Arc<String>);

impl AsRef<[u8]> for OwnedText {
    fn as_ref(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl ChatRequest {
    /// Reads a body.
    ///
    /// # Errors
    /// Invalid UTF-8 or JSON, `model` or `messages` missing or of the wrong type, a message that is no object.
    pub fn decode(body: Bytes) -> Result<Self, DecodeError> {
        // Checked once, and kept as text. A copy of its own also lets go of the connection's read buffer, which the body is a slice of.
        let owned = String::from_utf8(Vec::from(body)).map_err(|e| DecodeError::Utf8(e.utf8_error().valid_up_to()))?;
        let owned = Arc::new(owned);
        let text = owned.as_str();
        scan::validate(text).map_err(|e| DecodeError::Json(e.to_string()))?;
        let whole = Span::new(0, text.len());
        if !text.trim_start_matches([' ', '\n', '\r', '\t']).starts_with('{') {
            return Err(DecodeError::NotAnObject);
        }
        let members: Vec<Member> = scan::members(text, whole).collect();
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
        let messages_span = last("messages").ok_or_else(|| fault("messages", "is required"))?;
        if !messages_span.of(text).starts_with('[') {
            return Err(fault("messages", "must be an array"));
        }
        let messages = scan::elements(text, messages_span)
            .enumerate()
            .map(|(i, span)| {
                Message::read(text, span).ok_or_else(|| fault(format!("messages[{i}]"), "must be an object"))
            })
            .collect::<Result<Vec<_>, _>>()?;
        if messages.is_empty() {
            return Err(fault("messages", "must not be empty"));
        }
        let body = Bytes::from_owner(OwnedText(Arc::clone(&owned)));
        Ok(Self { members, messages_span, messages, model, stream, text: owned, body })
    }

    /// The body as it came.
    #[must_use]
    pub fn body(&self) -> &Bytes {
        &self.body
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
        &self.messages
    }

    /// The span of the `messages` array.
    #[must_use]
    pub fn messages_span(&self) -> Span {
        self.messages_span
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

    /// Returns a string member of an object member, as in `metadata.user_id`.
    #[must_use]
    pub fn get_nested_string(&self, outer: &str, inner: &str) -> Option<Cow<'_, str>> {
        let text = self.text();
        let span = scan::member(text, self.get_span(outer)?, inner)?;
        Some(span.of(text)).filter(|v| v.starts_with('"')).map(decode_lossy)
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
        self.messages.iter().rposition(|m| m.role == Role::User)
    }

    /// Returns the text of a message: its string, or its text parts joined by line feeds. Lone surrogates are replaced.
    #[must_use]
    pub fn message_text(&self, message: &Message) -> Cow<'_, str> {
        let text = self.text();
        match message.content {
            Content::Text(span) => decode_lossy(span.of(text)),
            Content::Parts(_) => {
                let texts: Vec<Cow<'_, str>> = self
                    .parts(message)
                    .filter_map(|part| match part.kind {
                        PartKind::Text(span) => Some(decode_lossy(span.of(text))),
                        _ => None,
                    })
                    .collect();
                match <[Cow<'_, str>; 1]>::try_from(texts) {
                    Ok([only]) => only,
                    Err(texts) => Cow::Owned(texts.join("\n")),
                }
            }
            Content::Absent | Content::Null(_) | Content::Other(_) => Cow::Borrowed(""),
        }
    }

    /// Iterates over the content parts of a message; none unless its content is an array.
    pub fn parts(&self, message: &Message) -> impl Iterator<Item = Part> + '_ {
        let text = self.text();
        let span = match message.content {
            Content::Parts(span) => span,
            _ => Span::default(),
        };
        scan::elements(text, span).map(|span| Part::read(text, span))
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
        // The last value ends where the object's own closing brace is searched from: a request has members.
        if let Some(last) = self.members.last() {
            patches.insert(last.value.end, format!(",{member}"));
        }
    }
}

impl Message {
    /// Reads the message under `span`; `None` when it is no object.
    fn read(text: &str, span: Span) -> Option<Self> {
        if !span.of(text).starts_with('{') {
            return None;
        }
        let mut message = Self {
            span,
            role: Role::Other,
            content: Content::Absent,
            name: None,
            tool_calls: None,
            function_call: None,
            tool_call_id: None,
            refusal: None,
            cache_control: false,
        };
        for Member { key, value } in scan::members(text, span) {
            let literal = value.of(text);
            let non_null = (literal != "null").then_some(value);
            match key.of(text) {
                "role" => message.role = Role::parse(literal.trim_matches('"')),
                "content" => {
                    message.content = match literal.as_bytes().first() {
                        Some(b'"') => Content::Text(value),
                        Some(b'[') => Content::Parts(value),
                        Some(b'n') => Content::Null(value),
                        _ => Content::Other(value),
                    }
                }
                "name" => message.name = non_null,
                "tool_calls" => message.tool_calls = non_null,
                "function_call" => message.function_call = non_null,
                "tool_call_id" => message.tool_call_id = non_null,
                "refusal" => message.refusal = non_null,
                "cache_control" => message.cache_control = non_null.is_some(),
                _ => {}
            }
        }
        Some(message)
    }

    /// Whether the message asks for tools: `tool_calls` with at least one, or `function_call`.
    #[must_use]
    pub fn calls_tools(&self) -> bool {
        self.function_call.is_some() || self.tool_calls.is_some_and(|s| s.len() > 2)
    }
}

impl Part {
    /// Reads the part under `span`.
    #[must_use]
    pub fn read(text: &str, span: Span) -> Self {
        let get = |key: &str| scan::member(text, span, key);
        let kind = match get("type").map(|s| s.of(text)) {
            Some(r#""text""# | r#""input_text""#) => {
                get("text").filter(|s| s.of(text).starts_with('"')).map_or(PartKind::Other, PartKind::Text)
            }
            Some(r#""refusal""#) => {
                get("refusal").filter(|s| s.of(text).starts_with('"')).map_or(PartKind::Other, PartKind::Refusal)
            }
            Some(r#""image_url""#) => match get("image_url") {
                Some(image) if image.of(text).starts_with('{') => PartKind::Image {
                    url: scan::member(text, image, "url"),
                    detail: scan::member(text, image, "detail"),
                },
                image => PartKind::Image { url: image, detail: get("detail") },
            },
            Some(r#""input_audio""#) => PartKind::Audio,
            Some(r#""file""#) => PartKind::File,
            _ => PartKind::Other,
        };
        let cache_control = get("cache_control").is_some_and(|s| s.of(text) != "null");
        Self { span, kind, cache_control }
    }
}

fn fault(param: impl Into<String>, problem: &'static str) -> DecodeError {
    DecodeError::Member { param: param.into(), problem }
}

/// The most output tokens, by either name that it goes by.
pub(super) fn max_output_of(number: impl Fn(&str) -> Option<u64>) -> Option<u64> {
    ["max_completion_tokens", "max_tokens"].into_iter().find_map(|name| number(name).filter(|&n| n > 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(text: &str) -> Result<ChatRequest, DecodeError> {
        ChatRequest::decode(Bytes::copy_from_slice(text.as_bytes()))
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
        assert_eq!(request.get_nested_string("metadata", "user_id").as_deref(), Some("u1"));
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
