//! The messages of a conversation as all dialects have them: where each stands in the body, and what of it someone reads.

use std::borrow::Cow;

use super::scan::{self, Member, Span};
use super::text::decode_lossy;

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

    /// Reads a role from its literal, quotes included or not.
    pub(super) fn parse(literal: &str) -> Self {
        match literal.trim_matches('"') {
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
    /// `function_call`: the legacy form of `tool_calls`; and a call that is an item of its own.
    pub function_call: Option<Span>,
    /// `tool_call_id`.
    pub tool_call_id: Option<Span>,
    /// `refusal`.
    pub refusal: Option<Span>,
    /// `cache_control` on the message itself.
    pub cache_control: bool,
    /// Its content has `tool_use` blocks, as Anthropic's have: they are tool calls.
    pub tool_uses: bool,
    /// Its content has parts that the model signed: the texts beside them are not edited.
    pub signed: bool,
    /// It is the second half of what the client sent as one message: from here to there the body opens that one, and stays when the
    /// first half goes.
    pub opening: Option<Span>,
    /// The whole, where it is no message but another item of a responses request: reasoning, a call that upstream makes itself.
    /// How the model reads it nobody tells.
    pub item: Option<Span>,
    /// Whether it is the next piece of what the assistant said right before it: in a responses request reasoning, words and each call
    /// are items of their own, and stay together.
    pub goes_on: bool,
}

/// One tool call of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// The object that holds its name and its arguments.
    pub span: Span,
    /// The id by which its result names it, as it is written; the legacy form has none.
    pub id: Option<Span>,
}

/// What a content part is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartKind {
    /// `text` (and `input_text`, `output_text`); the span is the string literal.
    Text(Span),
    /// `refusal`; the span is the string literal.
    Refusal(Span),
    /// `image_url` (and `input_image`): the URL literal and the `detail` literal.
    Image {
        /// The URL, or a `data:` URL.
        url: Option<Span>,
        /// `low`, `high` or `auto`.
        detail: Option<Span>,
    },
    /// An image in base64 (Anthropic's `image`): the literal of its data.
    ImageData(Span),
    /// `input_audio`.
    Audio,
    /// `file` and `document`.
    File,
    /// `tool_use`: a tool call; its name and its input.
    ToolUse {
        /// The name literal.
        name: Option<Span>,
        /// The input, an object.
        input: Option<Span>,
    },
    /// `tool_result`; its content is a string or an array of parts.
    ToolResult(Option<Span>),
    /// What the model thought; the span is the string literal. It is signed, and never edited.
    Thinking(Span),
    /// What the model thought, encrypted.
    RedactedThinking,
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

impl Content {
    /// Reads the form of the value under `span`.
    pub(super) fn read(text: &str, span: Span) -> Self {
        match span.of(text).as_bytes().first() {
            Some(b'"') => Self::Text(span),
            Some(b'[') => Self::Parts(span),
            Some(b'n') => Self::Null(span),
            _ => Self::Other(span),
        }
    }
}

impl Message {
    /// A message of which nothing else is known.
    pub(super) fn new(span: Span, role: Role, content: Content) -> Self {
        Self {
            span,
            role,
            content,
            name: None,
            tool_calls: None,
            function_call: None,
            tool_call_id: None,
            refusal: None,
            cache_control: false,
            tool_uses: false,
            signed: false,
            opening: None,
            item: None,
            goes_on: false,
        }
    }

    /// Reads the message that begins at `start`, and finds out where it ends; `None` when it is no object.
    pub(super) fn read_at(text: &str, start: usize) -> Option<Self> {
        if text.as_bytes().get(start) != Some(&b'{') {
            return None;
        }
        let mut members = scan::members(text, Span::new(start, text.len()));
        let mut message = Self::new(Span::default(), Role::Other, Content::Absent);
        for Member { key, value } in members.by_ref() {
            let literal = value.of(text);
            let non_null = (literal != "null").then_some(value);
            match key.of(text) {
                "role" => message.role = Role::parse(literal),
                "content" => message.content = Content::read(text, value),
                "name" => message.name = non_null,
                "tool_calls" => message.tool_calls = non_null,
                "function_call" => message.function_call = non_null,
                "tool_call_id" => message.tool_call_id = non_null,
                "refusal" => message.refusal = non_null,
                "cache_control" => message.cache_control = non_null.is_some(),
                _ => {}
            }
        }
        message.span = Span::new(start, members.end());
        Some(message)
    }

    /// Whether the message asks for tools: `tool_calls` with at least one, `function_call` or a `tool_use` block.
    #[must_use]
    pub fn calls_tools(&self) -> bool {
        self.tool_uses || self.function_call.is_some() || self.tool_calls.is_some_and(|s| s.len() > 2)
    }

    /// Iterates over its tool calls, one that stands alone last.
    pub fn calls<'a>(&self, body: &'a str) -> impl Iterator<Item = Call> + use<'a> {
        let alone = self.function_call.map(|span| Call::alone(body, span));
        let blocks = if self.tool_uses { self.part_spans(body) } else { scan::elements(body, Span::default()) };
        let blocks = blocks.filter(|block| Part::type_of(body, *block) == Some(r#""tool_use""#));
        let blocks = blocks.map(|span| Call { span, id: scan::member(body, span, "id") });
        let calls = scan::elements(body, self.tool_calls.unwrap_or_default()).map(|call| Call::read(body, call));
        calls.chain(alone).chain(blocks)
    }

    fn part_spans<'a>(&self, body: &'a str) -> scan::Elements<'a> {
        let span = match self.content {
            Content::Parts(span) => span,
            _ => Span::default(),
        };
        scan::elements(body, span)
    }

    /// Iterates over its content parts; none unless its content is an array.
    pub fn parts<'a>(&self, body: &'a str) -> impl Iterator<Item = Part> + use<'a> {
        self.part_spans(body).map(|span| Part::read(body, span))
    }

    /// Returns its text: its string, or its text parts joined by line feeds, those in results of tools among them. Lone surrogates are
    /// replaced.
    #[must_use]
    pub fn text<'a>(&self, body: &'a str) -> Cow<'a, str> {
        if let Content::Text(span) = self.content {
            return decode_lossy(span.of(body));
        }
        let mut texts =
            self.parts(body).flat_map(|part| part.texts(body)).map(|text| decode_lossy(text.literal.of(body)));
        let first = texts.next().unwrap_or_default();
        match texts.next() {
            None => first,
            Some(second) => {
                let mut all = format!("{first}\n{second}");
                for more in texts {
                    all.push('\n');
                    all.push_str(&more);
                }
                Cow::Owned(all)
            }
        }
    }
}

impl Call {
    /// Reads an element of `tool_calls`.
    fn read(text: &str, span: Span) -> Self {
        let get = |key| scan::member(text, span, key);
        Self { span: get("function").or_else(|| get("custom")).unwrap_or(span), id: get("id") }
    }

    /// Reads a call that is no element of a list: a legacy one of chat, which has no id, or an item of a responses request.
    fn alone(text: &str, span: Span) -> Self {
        let get = |key| scan::member(text, span, key);
        Self { span, id: get("call_id").or_else(|| get("id")) }
    }
}

/// A text in a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartText {
    /// The string literal.
    pub literal: Span,
    /// Whether the part that it is in carries `cache_control`.
    pub cache_control: bool,
}

impl Part {
    /// The literal of the type of the part under `span`.
    pub(super) fn type_of(text: &str, span: Span) -> Option<&str> {
        scan::member(text, span, "type").map(|kind| kind.of(text))
    }

    /// Reads the part under `span`.
    #[must_use]
    pub fn read(text: &str, span: Span) -> Self {
        let get = |key: &str| scan::member(text, span, key);
        let kind = match Self::type_of(text, span) {
            Some(r#""text""# | r#""input_text""# | r#""output_text""#) => {
                get("text").filter(|s| s.of(text).starts_with('"')).map_or(PartKind::Other, PartKind::Text)
            }
            Some(r#""refusal""#) => {
                get("refusal").filter(|s| s.of(text).starts_with('"')).map_or(PartKind::Other, PartKind::Refusal)
            }
            Some(r#""image_url""# | r#""input_image""# | r#""computer_screenshot""#) => match get("image_url") {
                Some(image) if image.of(text).starts_with('{') => PartKind::Image {
                    url: scan::member(text, image, "url"),
                    detail: scan::member(text, image, "detail"),
                },
                image => PartKind::Image { url: image, detail: get("detail") },
            },
            Some(r#""input_audio""#) => PartKind::Audio,
            Some(r#""file""# | r#""input_file""#) => PartKind::File,
            Some(r#""image""#) => image_block(text, get("source")),
            Some(r#""document""#) => document_block(text, get("source")),
            Some(r#""tool_use""#) => PartKind::ToolUse { name: get("name"), input: get("input") },
            Some(r#""tool_result""#) => PartKind::ToolResult(get("content")),
            Some(r#""thinking""#) => get("thinking").map_or(PartKind::Other, PartKind::Thinking),
            Some(r#""redacted_thinking""#) => PartKind::RedactedThinking,
            _ => PartKind::Other,
        };
        let cache_control = get("cache_control").is_some_and(|s| s.of(text) != "null");
        Self { span, kind, cache_control }
    }

    /// Iterates over its texts: its own, or those of a tool's result.
    pub fn texts<'a>(&self, body: &'a str) -> impl Iterator<Item = PartText> + use<'a> {
        let (own, array) = match self.kind {
            PartKind::Text(literal) => (Some(literal), None),
            PartKind::ToolResult(Some(content)) if content.of(body).starts_with('"') => (Some(content), None),
            PartKind::ToolResult(content) => (None, content),
            _ => (None, None),
        };
        let within = scan::elements(body, array.unwrap_or_default()).filter_map(|span| {
            let part = Self::read(body, span);
            let PartKind::Text(literal) = part.kind else { return None };
            Some(PartText { literal, cache_control: part.cache_control })
        });
        let outer = self.cache_control;
        own.map(|literal| PartText { literal, cache_control: outer })
            .into_iter()
            .chain(within.map(move |text| PartText { cache_control: text.cache_control || outer, ..text }))
    }
}

/// An image as Anthropic writes it: `{"type":"base64","media_type","data"}`, or `{"type":"url","url"}`.
fn image_block(text: &str, source: Option<Span>) -> PartKind {
    let get = |key| scan::member(text, source?, key);
    match get("data") {
        Some(data) if data.of(text).starts_with('"') => PartKind::ImageData(data),
        _ => PartKind::Image { url: get("url"), detail: None },
    }
}

/// A document as Anthropic writes it. One that is text, or made of parts, is read as it is written.
fn document_block(text: &str, source: Option<Span>) -> PartKind {
    match source.and_then(|source| Part::type_of(text, source)) {
        Some(r#""text""# | r#""content""#) => PartKind::Other,
        _ => PartKind::File,
    }
}
