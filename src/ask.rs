//! Asking a model for something of ours, beside the requests of clients: what to learn from a turn, how to sum up what was cut.
//!
//! Only values and the trait stand here, so that those who ask need not know how a model is reached; `upstream` does.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;

/// How an answer is to look.
#[derive(Clone, Debug, PartialEq)]
pub enum Format {
    /// Prose.
    Text,
    /// Any JSON object.
    JsonObject,
    /// JSON that keeps to a schema, strictly.
    JsonSchema {
        /// Names the schema, in letters, digits, `_` and `-`.
        name: &'static str,
        /// The schema.
        schema: serde_json::Value,
    },
}

/// One question.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// What the model is told about its job.
    pub system: String,
    /// What it works on.
    pub user: String,
    /// How the answer is to look.
    pub format: Format,
    /// Tokens of the answer at most.
    pub max_output_tokens: u32,
    /// How long it may take, all in all.
    pub timeout: Duration,
}

/// What a model answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The text.
    pub text: String,
    /// Tokens of the question, as upstream reports them or else by our count.
    pub input_tokens: u64,
    /// Tokens of the answer, likewise.
    pub output_tokens: u64,
    /// Whether the answer ended by itself, not by its limit of tokens.
    pub finished: bool,
}

/// Why there is no answer. The texts carry no prompt and no key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// The model is busy or failing, or did not answer in time: later it may.
    #[error("the model is not available now: {reason}")]
    Later {
        /// What went wrong.
        reason: String,
        /// How long upstream asked to wait.
        retry_after: Option<Duration>,
    },
    /// This model, or the server before it, does not take this format.
    #[error("the model does not take this response format")]
    Format,
    /// Asking again would not help: wrong key, unknown model, refused content.
    #[error("the model refused: {0}")]
    Refused(String),
}

/// Asks a model.
#[async_trait]
pub trait Ask: fmt::Debug + Send + Sync {
    /// Asks one question; never retries by itself.
    ///
    /// Cancel safe: the call upstream ends with the future.
    async fn ask(&self, question: &Question) -> Result<Answer, AskError>;
}

/// About how many tokens a text is, for books that nobody pays by: a quarter of its ASCII bytes, and one for each other
/// character. No vocabulary is asked, so it costs nothing.
#[must_use]
pub fn estimate_tokens(text: &str) -> u64 {
    let ascii = text.bytes().filter(u8::is_ascii).count() as u64;
    let others = text.chars().filter(|c| !c.is_ascii()).count() as u64;
    ascii.div_ceil(4) + others
}
