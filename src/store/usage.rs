//! What exchanges used and cost: rows that are booked once, and sums over them.

use std::sync::Arc;

use async_trait::async_trait;

use super::StoreError;
use crate::base::{ExchangeId, Time};
use crate::tokens::Cost;

/// What one exchange used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageRow {
    /// The exchange.
    pub exchange: ExchangeId,
    /// When the request arrived.
    pub at: Time,
    /// The owner of the key.
    pub tenant: Arc<str>,
    /// The namespace in force.
    pub namespace: Arc<str>,
    /// What people call the key; never the key.
    pub key: Arc<str>,
    /// Who it was for.
    pub subject: Option<Arc<str>>,
    /// Names the conversation, as a hash.
    pub conversation: Option<String>,
    /// `chat` or `embeddings`.
    pub operation: &'static str,
    /// The model that the client asked for.
    pub model: String,
    /// The target that answered or was asked last, as `provider/model`; `None` = nobody was asked.
    pub target: Option<String>,
    /// How many attempts were made.
    pub attempts: u32,
    /// Whether a stream was asked for.
    pub stream: bool,
    /// The status of the reply; 499 = the client left before there was one.
    pub status: u16,
    /// How it ended.
    pub outcome: UsageOutcome,
    /// The tokens.
    pub tokens: UsageTokens,
    /// What it cost; `None` = the price is not known.
    pub cost: Option<Cost>,
    /// What the tokens of memory cost, as input that no cache has.
    pub memory_cost: Option<Cost>,
    /// What the tokens that were cut would have cost.
    pub saved: Option<Cost>,
    /// How long it took.
    pub times: UsageTimes,
}

/// Tokens of one exchange.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsageTokens {
    /// Upstream did not say: these are our own figures.
    pub estimated: bool,
    /// Of the prompt.
    pub input: u64,
    /// Of the prompt, from upstream's cache.
    pub cached: u64,
    /// Of the prompt, written to upstream's cache.
    pub cache_write: u64,
    /// Of the reply.
    pub output: u64,
    /// Of the reply, spent on reasoning.
    pub reasoning: u64,
    /// Of the prompt, memory that was added.
    pub memory: u64,
    /// Of the client's prompt, cut.
    pub cut: u64,
}

/// How long an exchange took, in microseconds from the request's arrival.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsageTimes {
    /// To the end.
    pub total_us: u64,
    /// To the first byte of the reply's body.
    pub first_us: Option<u64>,
    /// Until it was sent on for the first time; all of it when it never was.
    pub overhead_us: u64,
}

/// How an exchange ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UsageOutcome {
    /// As it should.
    Complete,
    /// Upstream stopped in the middle.
    Cut,
    /// The client left before the end.
    Aborted,
    /// Upstream answered with an error, or not at all.
    Failed,
    /// We refused it before anyone was asked.
    Refused,
}

impl UsageOutcome {
    /// As it is stored and shown.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Cut => "cut",
            Self::Aborted => "aborted",
            Self::Failed => "failed",
            Self::Refused => "refused",
        }
    }
}

/// What rows are grouped by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UsageBy {
    /// Each exchange by itself.
    Exchange,
    /// The UTC day, as in `2026-11-30`.
    Day,
    /// The owner of the key.
    Tenant,
    /// The namespace.
    Namespace,
    /// What people call the key.
    Key,
    /// Who it was for.
    Subject,
    /// The conversation.
    Conversation,
    /// Chat or embeddings.
    Operation,
    /// The model that the client asked for.
    Model,
    /// The target that answered.
    Target,
    /// How it ended.
    Outcome,
}

impl UsageBy {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Exchange,
        Self::Day,
        Self::Tenant,
        Self::Namespace,
        Self::Key,
        Self::Subject,
        Self::Conversation,
        Self::Operation,
        Self::Model,
        Self::Target,
        Self::Outcome,
    ];

    /// As people write it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Exchange => "exchange",
            Self::Day => "day",
            Self::Tenant => "tenant",
            Self::Namespace => "namespace",
            Self::Key => "key",
            Self::Subject => "subject",
            Self::Conversation => "conversation",
            Self::Operation => "operation",
            Self::Model => "model",
            Self::Target => "target",
            Self::Outcome => "outcome",
        }
    }

    /// The one of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|by| by.name() == name)
    }
}

/// Which rows are summed up, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UsageQuery {
    /// What they are grouped by; groups come in this order. Empty = all in one.
    pub by: Vec<UsageBy>,
    /// Only rows that began at this moment or later.
    pub from: Option<Time>,
    /// Only rows that began before this moment.
    pub to: Option<Time>,
    /// Only rows of these.
    pub only: Vec<(UsageBy, String)>,
    /// Only groups behind this one: its values, as `by` names them.
    pub after: Option<Vec<String>>,
    /// At most so many groups.
    pub limit: u32,
}

/// One group of rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UsageGroup {
    /// Its values, as the query's `by` names them; `None` = the rows have none.
    pub of: Vec<Option<String>>,
    /// What its rows add up to.
    pub sums: UsageSums,
}

/// What rows add up to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UsageSums {
    /// Rows.
    pub exchanges: u64,
    /// Of them, cut by upstream or left by the client.
    pub incomplete: u64,
    /// Of them, failed or refused.
    pub failed: u64,
    /// Of them, with figures of our own.
    pub estimated: u64,
    /// Of them, of a price that is not known: they are in none of the amounts of money.
    pub unpriced: u64,
    /// Attempts.
    pub attempts: u64,
    /// See [`UsageTokens`].
    pub input: u64,
    /// See [`UsageTokens`].
    pub cached: u64,
    /// See [`UsageTokens`].
    pub cache_write: u64,
    /// See [`UsageTokens`].
    pub output: u64,
    /// See [`UsageTokens`].
    pub reasoning: u64,
    /// See [`UsageTokens`].
    pub memory: u64,
    /// See [`UsageTokens`].
    pub cut: u64,
    /// See [`UsageRow`].
    pub cost: Cost,
    /// See [`UsageRow`].
    pub memory_cost: Cost,
    /// See [`UsageRow`].
    pub saved: Cost,
    /// See [`UsageTimes`].
    pub total_us: u64,
    /// See [`UsageTimes`].
    pub first_us: u64,
    /// Rows that have a time to the first byte.
    pub n_first: u64,
    /// See [`UsageTimes`].
    pub overhead_us: u64,
}

/// The books.
#[async_trait]
pub trait UsageStore: Send + Sync {
    /// Books rows; one that is booked already stays as it is. A subject that was erased since the exchange began is left out.
    async fn book(&self, rows: &[UsageRow]) -> Result<(), StoreError>;

    /// Sums rows up, in groups, in order of what they are grouped by.
    async fn usage(&self, query: &UsageQuery) -> Result<Vec<UsageGroup>, StoreError>;

    /// Drops rows of exchanges that began before a moment, at most `max_rows` a call; returns how many.
    async fn sweep_usage(&self, before: Time, max_rows: u32) -> Result<u64, StoreError>;
}
