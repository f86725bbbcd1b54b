//! What one exchange said, in the plain form that the write path reads and the outbox keeps.

use serde::{Deserialize, Serialize};

use super::scope::Scope;
use crate::base::{ExchangeId, Time, TraceParent};

/// Who said something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Speaker {
    /// The person.
    User,
    /// The model.
    Assistant,
    /// A tool.
    Tool,
    /// An app or a document.
    Other,
}

/// One text and who said it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Said {
    /// Who said it.
    pub role: Speaker,
    /// The text, our own fence taken out; secrets are redacted before it is stored.
    pub text: String,
    /// Content hash of the message in hex, as the conversation hash uses it.
    pub hash: String,
}

/// One accepted exchange: the newest user turn and its reply. Earlier history is not in it, except the
/// assistant message that the user answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turn {
    /// Names the exchange.
    pub exchange: ExchangeId,
    /// Whose memory it goes to.
    pub scope: Scope,
    /// The scope's epoch when the exchange began: after an erasure it differs, and nothing is learned.
    pub epoch: i64,
    /// Names the conversation: the prefix hash at its first user message, in hex.
    pub session: String,
    /// Names this user turn: the prefix hash up to and including the newest user message, in hex.
    /// Retries and tool loops of one user turn share it.
    pub turn_key: String,
    /// How many user messages came before this turn in the conversation.
    pub turn_index: i64,
    /// When the request arrived.
    pub said_at: Time,
    /// The assistant's message right before the newest user message, when there is one.
    pub before: Option<Said>,
    /// The newest user message; several only where user messages stand side by side at the end.
    pub user: Vec<Said>,
    /// Hashes of all earlier messages' sentences are not kept; this says whether the turn repeats an earlier message whole.
    pub repeated: bool,
    /// The reply's text; none when it was only tool calls, or empty.
    pub reply: Option<Said>,
    /// Whether the reply ended as it should. A cut one teaches nothing about the assistant's side.
    pub complete: bool,
    /// What was shown with it: texts of our own that must not be learned from when they come back.
    pub shown: Vec<String>,
    /// The span of its request, where spans are exported: what is done with it later points back to that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceParent>,
}
