//! The records: facts, episodes, history, outbox, conversation state, exchange records.
//!
//! One trait per subject; a method is one use case and one transaction, so no transaction travels up. Look-ups return
//! `Option`: not found is no error. Ids and times come from the caller, so that every backend agrees. Every method is
//! in the contract suite (`contract.rs`), which runs on every backend. Only this module speaks SQL.
//!
//! Start with [`Store`], then `sql/`.

mod budgets;
#[cfg(test)]
pub(crate) mod contract;
mod error;
mod index;
mod knowledge;
pub mod pgvector;
pub mod qdrant;
mod scope_key;
pub mod sql;
mod types;
mod unreachable;
mod upkeep;
mod usage;
mod vectors;
mod windows;

use async_trait::async_trait;

pub use budgets::{BudgetStore, BudgetTotal, BudgetUse};
pub use error::StoreError;
pub use index::{IndexHits, IndexPoint, IndexQuery, VectorIndex, WeightedTerm};
#[cfg(test)]
pub(crate) use index::{faulty::Faulty, memory::MemoryIndex};
pub use knowledge::{KnowledgeStore, PutDocument, Shelf, ShelfLimits};
pub use scope_key::ScopeKey;
pub use types::{
    Claim, Claimed, Cut, Depth, EpisodeFilter, Erased, FactFilter, Finished, HandedOut, JobFailure, KeyHash,
    LearnOutcome, Learned, Page, Proposal, ProposalStatus, ScopeState, Settled, Shown, Signal, StateKey, StoredKey,
    TargetRecord, TurnState,
};
pub use unreachable::Unreachable;
pub use upkeep::{Aging, Audit, Audited, Change, Changed, Divided, Forgetting, Forgotten, SubjectUse};
pub use usage::{
    UsageBy, UsageGroup, UsageOutcome, UsageQuery, UsageRow, UsageStore, UsageSums, UsageTimes, UsageTokens,
};
pub use vectors::{Due, DueEpisode, GenerationRecord, GenerationState, NewVector, VectorStore};
pub use windows::{
    DeadLetter, Queued, QueuedTurn, Window, WindowClaim, WindowDepth, WindowOutcome, WindowRules, WindowStore,
};

use crate::base::{EpisodeId, ExchangeId, FactId, KeyId, Time};
use crate::context::summary::Summary;
use crate::conversation::Hash;
use crate::memory::{Episode, Fact, FactChange, HistoryEntry, Scope, Turn};

/// Everything that one backend must do.
pub trait Store:
    OutboxStore
    + FactStore
    + EpisodeStore
    + StateStore
    + ScopeStore
    + ExchangeStore
    + WindowStore
    + KeyStore
    + ChangeStore
    + UpkeepStore
    + TargetStore
    + UsageStore
    + BudgetStore
    + VectorStore
    + KnowledgeStore
{
}
impl<T> Store for T where
    T: OutboxStore
        + FactStore
        + EpisodeStore
        + StateStore
        + ScopeStore
        + ExchangeStore
        + WindowStore
        + KeyStore
        + ChangeStore
        + UpkeepStore
        + TargetStore
        + UsageStore
        + BudgetStore
        + VectorStore
        + KnowledgeStore
{
}

/// The durable queue between the reply and what is learned from it.
#[async_trait]
pub trait OutboxStore: Send + Sync {
    /// Appends a group of finished exchanges, with what was shown for each and the conversation states that came up
    /// with them, in one transaction: when it returns, they survive a crash of the process.
    async fn append(&self, group: &[Finished]) -> Result<(), StoreError>;

    /// Appends a group of which it is known already what some taught (`learned` stands in the order of `group`): of those it stores, in the
    /// same transaction, what they taught, and not themselves. `None` in the result, or [`LearnOutcome::Stale`], says that an exchange
    /// waits to be claimed, as after [`append`](Self::append).
    ///
    /// `learned` was decided as if nothing had ever been deleted; in a scope in which something was, all is stale.
    async fn append_learned(
        &self,
        group: &[Finished],
        learned: &[Option<Learned>],
    ) -> Result<Vec<Option<LearnOutcome>>, StoreError>;

    /// Leases at most `claim.max` exchanges that are due, oldest first, at most one *conversation* at a time: rows of a
    /// scope that has a live lease are left out, so that statements of one person are learned in order.
    async fn claim(&self, claim: &Claim) -> Result<Vec<Claimed>, StoreError>;

    /// Stores what several exchanges taught, each against the scope revision it was decided on, and deletes their outbox rows, in
    /// one transaction. Results stand in the order of `learned`. See [`LearnOutcome`] for what is not applied.
    async fn learn(&self, owner: &str, learned: &[Learned]) -> Result<Vec<LearnOutcome>, StoreError>;

    /// Gives a leased exchange back: it is tried again at `failure.retry_at`, or dead-lettered when that is `None`.
    async fn fail(&self, owner: &str, exchange: ExchangeId, failure: &JobFailure) -> Result<(), StoreError>;

    /// How much is waiting, and since when.
    async fn depth(&self) -> Result<Depth, StoreError>;
}

/// Facts and their history.
#[async_trait]
pub trait FactStore: Send + Sync {
    /// Lists facts of a scope, in order of id (newest last), a page at a time.
    async fn list_facts(&self, scope: &Scope, filter: &FactFilter, page: &Page) -> Result<Vec<Fact>, StoreError>;

    /// Returns one fact of the scope.
    async fn fact(&self, scope: &Scope, id: FactId) -> Result<Option<Fact>, StoreError>;

    /// Returns the history of one fact, oldest first; empty when the scope has no such fact.
    async fn history(&self, scope: &Scope, id: FactId) -> Result<Vec<HistoryEntry>, StoreError>;

    /// Applies changes that did not come from an exchange (API, operator, sweep) in one transaction with their history; returns the
    /// scope's new revision.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] when a fact's version is not the expected one, or a new value would be the second active one of a key that
    /// has one (of the same `about`); then nothing is applied.
    async fn apply(&self, scope: &Scope, changes: &[FactChange]) -> Result<i64, StoreError>;

    /// Deletes one fact with its history and the proposals that led to it, and leaves tombstones (hash of the evidence, keyed with the
    /// namespace's salt) so that the same words do not bring it back. `false` when the scope has no such fact.
    async fn delete_fact(&self, scope: &Scope, id: FactId, now: Time) -> Result<bool, StoreError>;
}

/// Episodes.
#[async_trait]
pub trait EpisodeStore: Send + Sync {
    /// Lists episodes of a scope, in order of id, a page at a time.
    async fn list_episodes(
        &self,
        scope: &Scope,
        filter: &EpisodeFilter,
        page: &Page,
    ) -> Result<Vec<Episode>, StoreError>;

    /// Lists the newest active episodes of a scope before an id, the newest first, at most `limit`.
    async fn newest_episodes(
        &self,
        scope: &Scope,
        before: Option<EpisodeId>,
        limit: u32,
    ) -> Result<Vec<Episode>, StoreError>;

    /// Returns one episode of the scope.
    async fn episode(&self, scope: &Scope, id: EpisodeId) -> Result<Option<Episode>, StoreError>;

    /// Returns those of these episodes that the scope has, of any status, in order of id.
    async fn episodes_of(&self, scope: &Scope, ids: &[EpisodeId]) -> Result<Vec<Episode>, StoreError>;

    /// Adds or replaces episodes that did not come from an exchange (API, import); returns the scope's new revision.
    async fn put_episodes(&self, scope: &Scope, episodes: &[Episode]) -> Result<i64, StoreError>;

    /// Replaces an episode that is there. `false` when the scope has no such episode (any more): nothing is written then.
    async fn update_episode(&self, scope: &Scope, episode: &Episode) -> Result<bool, StoreError>;

    /// Marks episodes as such that tell a value of a retired fact, or takes that mark off; unknown ids are passed over.
    async fn mark_episodes(
        &self,
        scope: &Scope,
        ids: &[EpisodeId],
        fact: FactId,
        retired: bool,
    ) -> Result<(), StoreError>;

    /// Deletes one episode and leaves a tombstone. `false` when the scope has no such episode.
    async fn delete_episode(&self, scope: &Scope, id: EpisodeId, now: Time) -> Result<bool, StoreError>;

    /// Counts one more use of each episode, at `now`. Unknown ids are passed over. Does not change the revision.
    async fn touch_episodes(&self, scope: &Scope, ids: &[EpisodeId], now: Time) -> Result<(), StoreError>;
}

/// Conversation state, known by content.
#[async_trait]
pub trait StateStore: Send + Sync {
    /// Returns the state of a turn; `None` when there is none or it has expired.
    async fn turn_state(&self, key: &StateKey, now: Time) -> Result<Option<TurnState>, StoreError>;

    /// Returns the first of these states' summaries that there is and that has not expired.
    async fn summary(&self, scope: &Scope, states: &[Hash], now: Time) -> Result<Option<Summary>, StoreError>;

    /// Keeps a summary until `expires_at`. `false`, and nothing is kept, when the scope was erased since `epoch`.
    async fn keep_summary(
        &self,
        scope: &Scope,
        epoch: i64,
        summary: &Summary,
        expires_at: Time,
    ) -> Result<bool, StoreError>;

    /// Returns what was settled for the cut after a state; `None` when nothing was, or it has expired.
    async fn cut(&self, key: &StateKey, now: Time) -> Result<Option<Settled>, StoreError>;

    /// Settles which summary the cut after `cut.key` uses: what was settled before, by whomever, else the first of the candidates'
    /// summaries that there is, or none. It then holds until `cut.expires_at`, for everyone. `None`, and nothing is settled, when the
    /// scope was erased since `cut.epoch`.
    async fn settle_cut(&self, cut: &Cut<'_>, now: Time) -> Result<Option<Settled>, StoreError>;

    /// Notes that a response was handed out. Nothing happens when all of the scope was erased meanwhile.
    async fn hand_out(&self, handed: &HandedOut) -> Result<(), StoreError>;

    /// Returns what was shown with a response, or an item of one, that was handed out in this scope; `None` when none of that name was, or
    /// it was too long ago.
    async fn handed_out(&self, key: &StateKey, now: Time) -> Result<Option<Option<TurnState>>, StoreError>;
}

/// Scopes as such.
#[async_trait]
pub trait ScopeStore: Send + Sync {
    /// Returns revision and epoch of a scope; zeros for one that was never written.
    async fn scope_state(&self, scope: &Scope) -> Result<ScopeState, StoreError>;

    /// The namespaces of a tenant in which this subject has something, with their revision.
    async fn namespaces(&self, tenant: &str, subject: &str) -> Result<Vec<(String, i64)>, StoreError>;

    /// Erases everything of one subject in one scope (design, promise 10): facts, history, episodes, outbox, dead letters, proposals, conversation
    /// state, exchange records. Keeps the tombstones and the scope's epoch, which it raises. Afterwards no file
    /// holds the erased bytes (`secure_delete`, WAL checkpoint); `complete` says whether that was reached.
    async fn erase(&self, scope: &Scope, now: Time) -> Result<Erased, StoreError>;

    /// Whether a text of the scope is barred from being learned again (its hash is a tombstone).
    async fn tombstoned(&self, scope: &Scope, texts: &[&str]) -> Result<Vec<bool>, StoreError>;

    /// Drops what has run out: expired conversation state, exchange records past `trace_before`, old marks of learned turns, turns that waited 30 days for a
    /// model; at most `max_rows` a
    /// call. Returns how many rows went.
    async fn sweep(&self, now: Time, trace_before: Time, max_rows: u32) -> Result<u64, StoreError>;

    /// A value that all replicas share and that is made once: salts. `fresh` is stored when there is none yet.
    async fn shared_secret(&self, name: &str, fresh: &[u8; 32]) -> Result<[u8; 32], StoreError>;

    /// Asks the backend for a sign of life.
    async fn ping(&self) -> Result<(), StoreError>;
}

/// What was shown for an answer, what was said, and what was proposed from it.
#[async_trait]
pub trait ExchangeStore: Send + Sync {
    /// Returns what was shown for an exchange of the scope.
    async fn shown(&self, scope: &Scope, exchange: ExchangeId) -> Result<Option<Shown>, StoreError>;

    /// Returns what was said in an exchange of the scope that was learned from, where that is kept.
    async fn raw(&self, scope: &Scope, exchange: ExchangeId) -> Result<Option<Turn>, StoreError>;

    /// Drops raw exchanges from before a moment, at most `max_rows` a call; returns how many.
    async fn sweep_raw(&self, before: Time, max_rows: u32) -> Result<u64, StoreError>;

    /// Notes what people think of an answer, in place of what they thought before, and moves the scores of the episodes that were shown for
    /// it. Returns how many those are; `None` when the scope has no such exchange, or what was shown for it is not kept.
    async fn rate(&self, scope: &Scope, exchange: ExchangeId, signal: Signal) -> Result<Option<u64>, StoreError>;

    /// Lists what was proposed in a scope and what became of it, newest last.
    async fn proposals(
        &self,
        scope: &Scope,
        status: Option<ProposalStatus>,
        page: &Page,
    ) -> Result<Vec<Proposal>, StoreError>;
}

/// Virtual keys that were made at run time. Of a secret only its hash comes here.
#[async_trait]
pub trait KeyStore: Send + Sync {
    /// Adds a key with its first secret.
    async fn create_key(&self, key: &StoredKey, secret: &KeyHash) -> Result<(), StoreError>;

    /// Returns the key that a secret belongs to, revoked or expired ones too; its `expires_at` is that of the secret
    /// where that ends first.
    async fn key_by_hash(&self, secret: &KeyHash) -> Result<Option<StoredKey>, StoreError>;

    /// Lists keys in order of id, which is that of their making, a page at a time.
    async fn list_keys(&self, page: &Page) -> Result<Vec<StoredKey>, StoreError>;

    /// Gives a key a new secret; its older ones end at `old_until` at the latest. `false` when there is no such key, or
    /// it was revoked.
    async fn rotate_key(&self, id: KeyId, secret: &KeyHash, now: Time, old_until: Time) -> Result<bool, StoreError>;

    /// Revokes a key. `false` when there is no such key, or it was revoked before.
    async fn revoke_key(&self, id: KeyId, now: Time) -> Result<bool, StoreError>;

    /// Returns a number that grows whenever a key is rotated or revoked: while it stays, what was read of keys holds.
    async fn keys_revision(&self) -> Result<i64, StoreError>;

    /// Notes when keys were last used; an earlier time than the one that stands changes nothing.
    async fn keys_used(&self, used: &[(KeyId, Time)]) -> Result<(), StoreError>;
}

/// How things came to be: the changes of a scope in order, and all history of its facts.
#[async_trait]
pub trait ChangeStore: Send + Sync {
    /// Lists the changes of a scope behind number `after`, in the order in which they were committed. Numbers grow with
    /// that order, whatever the clock says: whoever goes on from the last number misses nothing and sees nothing twice.
    async fn changes(&self, scope: &Scope, after: i64, limit: u32) -> Result<Vec<Change>, StoreError>;

    /// The number of a scope's last change; 0 when there was none. What is read afterwards has that change, and what follows it has higher numbers.
    async fn last_change_of(&self, scope: &Scope) -> Result<i64, StoreError>;

    /// Returns the whole history of each fact of a page of facts, in order of id, each oldest first.
    async fn histories(&self, scope: &Scope, page: &Page) -> Result<Vec<Vec<HistoryEntry>>, StoreError>;
}

/// What keeps a store in order, and what is known of scopes as a whole.
#[async_trait]
pub trait UpkeepStore: Send + Sync {
    /// Lists scopes that may hold something, of all tenants, each with a number to go on behind; for the sweep alone.
    async fn scopes_after(&self, after: i64, limit: u32) -> Result<Vec<(i64, Scope)>, StoreError>;

    /// How many active episodes there are, of all tenants.
    async fn count_episodes(&self) -> Result<u64, StoreError>;

    /// Puts aside and drops memories of a scope in one transaction. What is dropped leaves no tombstone: it may be told again.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] when the scope has another revision than `forgetting.revision`; then nothing is done.
    async fn forget(&self, scope: &Scope, forgetting: &Forgetting) -> Result<Forgotten, StoreError>;

    /// Sees to the parts of a table whose rows are kept for so many days, where the database divides it by time: makes room for what comes, and
    /// drops one part that is over. Rows that are in no part go by `sweep` and `sweep_usage`.
    async fn divide(&self, what: Aging, days: u32) -> Result<Divided, StoreError>;

    /// Reads where a job stands.
    async fn mark(&self, name: &str) -> Result<Option<String>, StoreError>;

    /// Notes where a job stands.
    async fn set_mark(&self, name: &str, value: &str) -> Result<(), StoreError>;

    /// Writes down what was done to a whole scope.
    async fn audit(&self, scope: &Scope, audit: &Audit) -> Result<(), StoreError>;

    /// Lists what was done to a scope as a whole, oldest first.
    async fn audited(&self, scope: &Scope, after: i64, limit: u32) -> Result<Vec<Audited>, StoreError>;

    /// Adds to the conversations that were begun for subjects.
    async fn add_subject_use(&self, uses: &[SubjectUse], now: Time) -> Result<(), StoreError>;

    /// Lists them, the most frequent first; the subject of each is a hash in hex.
    async fn subject_use(&self, since: Time, limit: u32) -> Result<Vec<SubjectUse>, StoreError>;

    /// Ends writing: returns when nothing of the last write goes on, its spans included. Later writes fail; reading goes on.
    async fn end_writing(&self);
}

/// So many targets are known at most; beyond, those that were not written for longest are forgotten.
pub const MAX_TARGETS: u32 = 1_000;

/// What was learned about upstream targets. It belongs to no scope: there is nothing of a request in it but numbers.
#[async_trait]
pub trait TargetStore: Send + Sync {
    /// Returns what was written at or after `since`, newest first.
    async fn targets(&self, since: Time) -> Result<Vec<TargetRecord>, StoreError>;

    /// Writes a record if the one in the store still has its revision (0 = there is none), under the next revision. `false` when
    /// another process was faster: read again and merge.
    async fn put_target(&self, record: &TargetRecord) -> Result<bool, StoreError>;
}
