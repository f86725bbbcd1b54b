//! The dialects in which a conversation is asked for.

use super::scan::{self, Span};

/// How a request is written, and its answer. What a dialect calls things is decided in this module's readers; all else works on
/// the view that they give (`ChatRequest`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// OpenAI's chat completions.
    #[default]
    Chat,
    /// Anthropic's messages.
    Messages,
    /// OpenAI's responses.
    Responses,
}

impl Dialect {
    /// The path under a base URL that takes it.
    #[must_use]
    pub fn path(self) -> &'static str {
        match self {
            Self::Chat => "chat/completions",
            Self::Messages => "messages",
            Self::Responses => "responses",
        }
    }

    /// The dialect of those who ask for a path, and read its errors.
    #[must_use]
    pub fn of_path(path: &str) -> Self {
        match path.strip_prefix("/v1/messages") {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => Self::Messages,
            _ => Self::Chat,
        }
    }

    /// Reads the name of a dialect, as in the query of `/memory/v1/explain`.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "chat" => Some(Self::Chat),
            "messages" => Some(Self::Messages),
            "responses" => Some(Self::Responses),
            _ => None,
        }
    }

    /// The dialect that a body is written in, as far as its members tell: where only one of them has a member of that name.
    #[must_use]
    pub fn of_body(body: &str) -> Self {
        let whole = Span::new(0, body.len());
        let has = |key| scan::member(body, whole, key).is_some();
        let tools = scan::member(body, whole, "tools").unwrap_or_default();
        let has_schema = |tool| scan::member(body, tool, "input_schema").is_some();
        let is_messages = ["system", "stop_sequences", "output_config"].into_iter().any(has)
            || scan::elements(body, tools).any(has_schema);
        match (is_messages, has("input") && !has("messages")) {
            (true, _) => Self::Messages,
            (false, true) => Self::Responses,
            (false, false) => Self::Chat,
        }
    }

    /// Whether a stream tells what it cost only where `stream_options` asks for it; others always tell.
    #[must_use]
    pub fn is_asked_for_usage(self) -> bool {
        match self {
            Self::Chat => true,
            Self::Messages | Self::Responses => false,
        }
    }

    /// Whether an event of this type is the last of a stream. Chat has none: its streams end with `[DONE]`.
    #[must_use]
    pub fn is_last_event(self, kind: &str) -> bool {
        match self {
            Self::Chat => false,
            Self::Messages => kind == "message_stop",
            Self::Responses => {
                matches!(kind, "response.completed" | "response.incomplete" | "response.failed" | "response.cancelled")
            }
        }
    }

    /// The `type` of a part of a message that holds text for the model.
    #[must_use]
    pub fn text_part(self) -> &'static str {
        match self {
            Self::Chat | Self::Messages => "text",
            Self::Responses => "input_text",
        }
    }

    /// The member that holds the conversation.
    #[must_use]
    pub fn conversation_member(self) -> &'static str {
        match self {
            Self::Chat | Self::Messages => "messages",
            Self::Responses => "input",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_and_a_body_tell_their_dialect() {
        let of = Dialect::of_path;
        assert_eq!((of("/v1/messages"), of("/v1/messages/count_tokens")), (Dialect::Messages, Dialect::Messages));
        assert_eq!((of("/v1/messages2"), of("/v1/chat/completions")), (Dialect::Chat, Dialect::Chat));
        let of = Dialect::of_body;
        assert_eq!(of(r#"{"model":"m","messages":[],"system":"s"}"#), Dialect::Messages);
        assert_eq!(of(r#"{"tools":[{"name":"f","input_schema":{}}],"messages":[]}"#), Dialect::Messages);
        assert_eq!(
            of(r#"{"messages":[{"role":"system","content":"s"}],"tools":[{"type":"function"}]}"#),
            Dialect::Chat
        );
        assert_eq!(of(r#"{"model":"m","input":"hi"}"#), Dialect::Responses);
        assert_eq!(of("no json"), Dialect::Chat);
    }
}
