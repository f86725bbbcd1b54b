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
}

impl Dialect {
    /// The path under a base URL that takes it.
    #[must_use]
    pub fn path(self) -> &'static str {
        match self {
            Self::Chat => "chat/completions",
            Self::Messages => "messages",
        }
    }

    /// Whether a stream tells what it cost only where `stream_options` asks for it; others always tell.
    #[must_use]
    pub fn is_asked_for_usage(self) -> bool {
        match self {
            Self::Chat => true,
            Self::Messages => false,
        }
    }
}
