//! Turns that wait for the extraction model.

use std::time::Duration;

use async_trait::async_trait;

use super::{JobFailure, Learned, Page, StoreError};
use crate::base::{ExchangeId, Time};
use crate::memory::{Scope, Turn};

/// The durable queue between what was learned by rule and what a model proposes.
///
/// A turn is in the outbox or here, or in both, until it was learned from: a crash at any point loses nothing.
#[async_trait]
pub trait WindowStore: Send + Sync {
    /// Copies exchanges that `owner` has leased from the outbox into the open windows of their conversations, in one transaction. Passed over
    /// are exchanges that wait here already, and retries of a user turn that was learned in the last 10 minutes or waits here.
    async fn queue_turns(
        &self,
        owner: &str,
        turns: &[QueuedTurn],
        rules: &WindowRules,
        now: Time,
    ) -> Result<Queued, StoreError>;

    /// Leases the window that has been due for longest and closes it. Left out are scopes of which a window is leased, and tenants
    /// that have spent what they may today.
    async fn claim_window(&self, claim: &WindowClaim) -> Result<Option<Window>, StoreError>;

    /// Stores what the turns of a window taught, in order, and deletes the window with its turns, in one transaction. All of it is stored, or
    /// nothing.
    async fn finish_window(&self, owner: &str, window: i64, learned: &[Learned]) -> Result<WindowOutcome, StoreError>;

    /// Gives a leased window back: it is asked about again at `failure.retry_at`, or its turns become dead letters when that is `None`.
    async fn fail_window(&self, owner: &str, window: i64, failure: &JobFailure) -> Result<(), StoreError>;

    /// Gives back all windows that `owner` has leased, as if it had not claimed them: at shutdown.
    async fn release_windows(&self, owner: &str) -> Result<(), StoreError>;

    /// Adds to the tokens that models of ours used for a tenant on a day (takes away, when negative); returns their sum.
    async fn spend(&self, tenant: &str, day: i64, tokens: i64) -> Result<u64, StoreError>;

    /// How much waits, and since when.
    async fn window_depth(&self, day: i64, cap: Option<u64>) -> Result<WindowDepth, StoreError>;

    /// Lists the exchanges of a scope that were given up, by rule or by model, in order of their ids, a page at a time.
    async fn dead_letters(&self, scope: &Scope, page: &Page) -> Result<Vec<DeadLetter>, StoreError>;
}

/// An exchange on its way into a window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuedTurn {
    /// The exchange, which is in the outbox.
    pub exchange: ExchangeId,
    /// Names the conversation.
    pub session: String,
    /// Names the user turn.
    pub turn_key: String,
    /// About how many tokens it takes in a question.
    pub tokens: u64,
}

/// When a window is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowRules {
    /// After so much time without a new turn; zero = at once.
    pub idle: Duration,
    /// At once when it has so many turns.
    pub max_turns: u32,
    /// At once when it has so many tokens.
    pub max_tokens: u64,
    /// So many turns wait at most, in all windows; further ones are turned away.
    pub max_waiting: u64,
}

/// What became of turns that were to be queued.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queued {
    /// They wait in a window.
    pub queued: u64,
    /// They were turned away because the queue is full.
    pub refused: u64,
}

/// Who wants a window.
#[derive(Clone, Debug)]
pub struct WindowClaim {
    /// Names the worker; fences its lease.
    pub owner: String,
    /// Now.
    pub now: Time,
    /// How long the lease lasts.
    pub lease: Duration,
    /// Tokens that may be spent for one tenant on a day; none = without bound.
    pub cap: Option<u64>,
}

/// A leased window.
#[derive(Clone, Debug)]
pub struct Window {
    /// Names it.
    pub id: i64,
    /// Its turns, in the order in which they ended.
    pub turns: Vec<Turn>,
    /// How often it was asked about before.
    pub attempts: u32,
    /// When its first turn came.
    pub opened_at: Time,
}

/// What became of a window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WindowOutcome {
    /// Stored; the revisions of the scope after each turn.
    Applied {
        /// The revisions.
        revisions: Vec<i64>,
    },
    /// The scope was written in between, or a turn of the window was taken out: nothing was stored, decide again.
    Stale,
    /// The lease was lost, or the scope was erased: nothing was stored.
    NotOurs,
}

/// How much waits for the model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowDepth {
    /// Windows that wait or are being asked about.
    pub windows: u64,
    /// Turns in them.
    pub turns: u64,
    /// When the oldest of the windows was opened.
    pub oldest: Option<Time>,
    /// Windows of tenants that have spent what they may today.
    pub capped: u64,
}

/// An exchange that was given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetter {
    /// The exchange.
    pub exchange: ExchangeId,
    /// How often it was tried.
    pub attempts: u32,
    /// Why it was given up; no user text in it.
    pub error: String,
    /// When.
    pub at: Time,
}
