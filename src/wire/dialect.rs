//! The dialects in which a conversation is asked for.

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
