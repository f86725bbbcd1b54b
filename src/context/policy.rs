//! What is allowed ([`Policy`]) and what is asked for ([`Target`]).

use serde::Deserialize;

use crate::memory::Sensitivity;
use crate::tokens::{Encoding, ImageRule, ModelTable, Rules};

/// What happens to a request that is over its budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Overflow {
    /// Whole units are cut, oldest first; refused when what must stay is still too big.
    #[default]
    Trim,
    /// Never cut: refused, saying which part is how large.
    Reject,
    /// Cut, and when that is not enough, the largest text is shortened in its middle.
    Shorten,
}

/// What sort of traffic a budget is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// Single questions: the window only, no long-term memory.
    Single,
    /// Conversations.
    #[default]
    Chat,
    /// Agents: long results of tools are shortened before anything is cut.
    Task,
}

/// The budget's rules.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// Tokens of input at most; 0 = what the window leaves.
    pub max_input_tokens: usize,
    /// Tokens of memory at most, inside the budget.
    pub memory_tokens: usize,
    /// Share of the memory's tokens that passages of documents may take at most.
    pub knowledge_share: f64,
    /// Tokens kept free for the reply when the client does not say; `None` = a share of the window.
    pub output_reserve: Option<usize>,
    /// Share of the budget that is left after a cut, so that the next turns fit without another.
    pub low_water: f64,
    /// What happens above the budget.
    pub overflow: Overflow,
    /// What sort of traffic it is.
    pub profile: Profile,
    /// A user turn longer than this keeps its recollection in place, so that it stays cached; `usize::MAX` = none does.
    pub sticky_tokens: usize,
    /// Share of the budget from which on it is foretold where the next cut will get to; `None` = nobody wants to know.
    pub soft_mark: Option<f64>,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            max_input_tokens: 0,
            memory_tokens: 1000,
            knowledge_share: 0.5,
            output_reserve: None,
            low_water: 0.7,
            overflow: Overflow::Trim,
            profile: Profile::Chat,
            sticky_tokens: 4000,
            soft_mark: None,
        }
    }
}

/// Where the profile goes when the client sends no system message of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SystemRole {
    /// At the head of the first user message that is kept: every chat template takes that.
    #[default]
    FirstUser,
    /// Into a new first message of role `system`.
    System,
    /// Into a new first message of role `developer`.
    Developer,
}

/// One upstream model, as far as fitting depends on it.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// The upstream model's name; `None` = the client's own name stays.
    pub model: Option<String>,
    /// Tokens of input and output together; `None` = unknown, then nothing is cut for its sake.
    pub window: Option<usize>,
    /// Tokens of input at most, where that is less than what the window and the output leave.
    pub max_input: Option<usize>,
    /// Tokens of output at most.
    pub max_output: Option<usize>,
    /// The vocabulary.
    pub encoding: Encoding,
    /// What an image costs.
    pub images: ImageRule,
    /// Real tokens per token of ours, as learned from what upstream reports; 1 = ours are right.
    pub correction: f64,
    /// Real tokens that upstream adds to each request, as learned.
    pub overhead: usize,
    /// Where the profile goes without a system message.
    pub system_role: SystemRole,
    /// Whether upstream is asked to report usage on streams.
    pub ask_usage: bool,
    /// The most sensitive memory that may be sent there. Below the highest, blocks that were made for another target
    /// (pinned, or the conversation's first profile) are not sent either: nobody knows what is in them.
    pub max_sensitivity: Sensitivity,
}

impl Default for Target {
    fn default() -> Self {
        Self {
            model: None,
            window: None,
            max_input: None,
            max_output: None,
            encoding: Encoding::O200k,
            images: ImageRule::default(),
            correction: 1.0,
            overhead: 0,
            system_role: SystemRole::default(),
            ask_usage: false,
            max_sensitivity: Sensitivity::Sensitive,
        }
    }
}

impl Target {
    /// Returns the target for an upstream model by what a table knows of its name; `model` itself stays unset.
    #[must_use]
    pub fn for_model(table: &ModelTable, name: &str) -> Self {
        let limits = table.lookup(name);
        Self {
            window: limits.map(|l| l.window),
            max_input: limits.and_then(|l| l.max_input),
            max_output: limits.map(|l| l.max_output),
            encoding: limits.map_or_else(|| Encoding::for_model(name), |l| l.encoding),
            images: limits.map_or_else(ImageRule::default, |l| l.images),
            ..Self::default()
        }
    }

    /// How it counts.
    #[must_use]
    pub fn rules(&self) -> Rules {
        Rules { encoding: self.encoding, images: self.images }
    }

    /// The learned correction, kept inside what a tokenizer can plausibly differ by.
    pub(super) fn factor(&self) -> f64 {
        if self.correction.is_finite() { self.correction.clamp(0.25, 4.0) } else { 1.0 }
    }

    /// Returns what `counted` tokens of ours are upstream.
    pub(super) fn real(&self, counted: usize) -> usize {
        let factor = self.factor();
        // Most models need no correction: whole numbers stay exact.
        if factor == 1.0 { counted } else { (counted as f64 * factor).ceil() as usize }
    }

    /// Returns what a whole request of `counted` tokens of ours is upstream.
    #[must_use]
    pub fn real_request(&self, counted: usize) -> usize {
        self.real(counted) + self.overhead
    }
}
