//! A store that could not be opened: every call fails with the reason, so that requests pass without memory.

use std::time::Duration;

use async_trait::async_trait;

use super::{
    Aging, Audit, Audited, Change, ChangeStore, Claim, Claimed, Cut, Depth, Divided, EpisodeFilter, EpisodeStore,
    Erased, ExchangeStore, FactFilter, FactStore, Finished, Forgetting, Forgotten, HandedOut, JobFailure, KeyHash,
    KeyStore, LearnOutcome, Learned, OutboxStore, Page, Proposal, ProposalStatus, ScopeState, ScopeStore, Settled,
    Shown, StateKey, StateStore, StoreError, StoredKey, SubjectUse, TargetRecord, TargetStore, TurnState, UpkeepStore,
};
use super::{BudgetStore, BudgetTotal, BudgetUse};
use super::{
    DeadLetter, Queued, QueuedTurn, Window, WindowClaim, WindowDepth, WindowOutcome, WindowRules, WindowStore,
};
use super::{
    Due, DueEpisode, GenerationRecord, KnowledgeStore, NewVector, PutDocument, Shelf, ShelfLimits, Signal, UsageGroup,
    UsageQuery, UsageRow, UsageStore, VectorStore,
};
use crate::base::{EpisodeId, ExchangeId, FactId, KeyId, Time};
use crate::context::summary::Summary;
use crate::conversation::Hash;
use crate::embed::Generation;
use crate::memory::knowledge::{Document, DocumentId, Passage};
use crate::memory::{Episode, Fact, FactChange, HistoryEntry, Namespace, Scope, Turn};

/// Stands in for a store that could not be opened.
#[derive(Clone, Debug)]
pub struct Unreachable {
    reason: String,
}

impl Unreachable {
    /// Fails every call for `reason`.
    #[must_use]
    pub fn new(reason: String) -> Self {
        Self { reason }
    }

    fn unavailable<T>(&self) -> Result<T, StoreError> {
        Err(StoreError::Unavailable(self.reason.clone()))
    }
}

#[async_trait]
impl OutboxStore for Unreachable {
    async fn append(&self, _: &[Finished]) -> Result<(), StoreError> {
        self.unavailable()
    }

    async fn append_learned(
        &self,
        _: &[Finished],
        _: &[Option<Learned>],
    ) -> Result<Vec<Option<LearnOutcome>>, StoreError> {
        self.unavailable()
    }

    async fn claim(&self, _: &Claim) -> Result<Vec<Claimed>, StoreError> {
        self.unavailable()
    }

    async fn learn(&self, _: &str, _: &[Learned]) -> Result<Vec<LearnOutcome>, StoreError> {
        self.unavailable()
    }

    async fn fail(&self, _: &str, _: ExchangeId, _: &JobFailure) -> Result<(), StoreError> {
        self.unavailable()
    }

    async fn depth(&self) -> Result<Depth, StoreError> {
        self.unavailable()
    }
}

#[async_trait]
impl FactStore for Unreachable {
    async fn list_facts(&self, _: &Scope, _: &FactFilter, _: &Page) -> Result<Vec<Fact>, StoreError> {
        self.unavailable()
    }

    async fn fact(&self, _: &Scope, _: FactId) -> Result<Option<Fact>, StoreError> {
        self.unavailable()
    }

    async fn history(&self, _: &Scope, _: FactId) -> Result<Vec<HistoryEntry>, StoreError> {
        self.unavailable()
    }

    async fn apply(&self, _: &Scope, _: &[FactChange]) -> Result<i64, StoreError> {
        self.unavailable()
    }

    async fn delete_fact(&self, _: &Scope, _: FactId, _: Time) -> Result<bool, StoreError> {
        self.unavailable()
    }
}

#[async_trait]
impl EpisodeStore for Unreachable {
    async fn list_episodes(&self, _: &Scope, _: &EpisodeFilter, _: &Page) -> Result<Vec<Episode>, StoreError> {
        self.unavailable()
    }

    async fn episode(&self, _: &Scope, _: EpisodeId) -> Result<Option<Episode>, StoreError> {
        self.unavailable()
    }

    async fn newest_episodes(&self, _: &Scope, _: Option<EpisodeId>, _: u32) -> Result<Vec<Episode>, StoreError> {
        self.unavailable()
    }

    async fn episodes_of(&self, _: &Scope, _: &[EpisodeId]) -> Result<Vec<Episode>, StoreError> {
        self.unavailable()
    }

    async fn put_episodes(&self, _: &Scope, _: &[Episode]) -> Result<i64, StoreError> {
        self.unavailable()
    }

    async fn update_episode(&self, _: &Scope, _: &Episode) -> Result<bool, StoreError> {
        self.unavailable()
    }

    async fn mark_episodes(&self, _: &Scope, _: &[EpisodeId], _: FactId, _: bool) -> Result<(), StoreError> {
        self.unavailable()
    }

    async fn delete_episode(&self, _: &Scope, _: EpisodeId, _: Time) -> Result<bool, StoreError> {
        self.unavailable()
    }

    async fn touch_episodes(&self, _: &Scope, _: &[EpisodeId], _: Time) -> Result<(), StoreError> {
        self.unavailable()
    }
}

#[async_trait]
impl StateStore for Unreachable {
    async fn turn_state(&self, _: &StateKey, _: Time) -> Result<Option<TurnState>, StoreError> {
        self.unavailable()
    }

    async fn summary(&self, _: &Scope, _: &[Hash], _: Time) -> Result<Option<Summary>, StoreError> {
        self.unavailable()
    }

    async fn keep_summary(&self, _: &Scope, _: i64, _: &Summary, _: Time) -> Result<bool, StoreError> {
        self.unavailable()
    }

    async fn cut(&self, _: &StateKey, _: Time) -> Result<Option<Settled>, StoreError> {
        self.unavailable()
    }

    async fn settle_cut(&self, _: &Cut<'_>, _: Time) -> Result<Option<Settled>, StoreError> {
        self.unavailable()
    }

    async fn hand_out(&self, _: &HandedOut) -> Result<(), StoreError> {
        self.unavailable()
    }

    async fn handed_out(&self, _: &StateKey, _: Time) -> Result<Option<Option<TurnState>>, StoreError> {
        self.unavailable()
    }
}

#[async_trait]
impl ScopeStore for Unreachable {
    async fn scope_state(&self, _: &Scope) -> Result<ScopeState, StoreError> {
        self.unavailable()
    }

    async fn namespaces(&self, _: &str, _: &str) -> Result<Vec<(String, i64)>, StoreError> {
        self.unavailable()
    }

    async fn erase(&self, _: &Scope, _: Time) -> Result<Erased, StoreError> {
        self.unavailable()
    }

    async fn tombstoned(&self, _: &Scope, _: &[&str]) -> Result<Vec<bool>, StoreError> {
        self.unavailable()
    }

    async fn sweep(&self, _: Time, _: Time, _: u32) -> Result<u64, StoreError> {
        self.unavailable()
    }

    async fn shared_secret(&self, _: &str, _: &[u8; 32]) -> Result<[u8; 32], StoreError> {
        self.unavailable()
    }

    async fn ping(&self) -> Result<(), StoreError> {
        self.unavailable()
    }
}

#[async_trait]
impl ExchangeStore for Unreachable {
    async fn shown(&self, _: &Scope, _: ExchangeId) -> Result<Option<Shown>, StoreError> {
        self.unavailable()
    }

    async fn raw(&self, _: &Scope, _: ExchangeId) -> Result<Option<Turn>, StoreError> {
        self.unavailable()
    }

    async fn sweep_raw(&self, _: Time, _: u32) -> Result<u64, StoreError> {
        self.unavailable()
    }

    async fn rate(&self, _: &Scope, _: ExchangeId, _: Signal) -> Result<Option<u64>, StoreError> {
        self.unavailable()
    }

    async fn proposals(&self, _: &Scope, _: Option<ProposalStatus>, _: &Page) -> Result<Vec<Proposal>, StoreError> {
        self.unavailable()
    }
}

#[async_trait]
impl KeyStore for Unreachable {
    async fn create_key(&self, _: &StoredKey, _: &KeyHash) -> Result<(), StoreError> {
        self.unavailable()
    }

    async fn key_by_hash(&self, _: &KeyHash) -> Result<Option<StoredKey>, StoreError> {
        self.unavailable()
    }

    async fn list_keys(&self, _: &Page) -> Result<Vec<StoredKey>, StoreError> {
        self.unavailable()
    }

    async fn rotate_key(&self, _: KeyId, _: &KeyHash, _: Time, _: Time) -> Result<bool, StoreError> {
        self.unavailable()
    }

    async fn revoke_key(&self, _: KeyId, _: Time) -> Result<bool, StoreError> {
        self.unavailable()
    }

    async fn keys_revision(&self) -> Result<i64, StoreError> {
        self.unavailable()
    }

    async fn keys_used(&self, _: &[(KeyId, Time)]) -> Result<(), StoreError> {
        self.unavailable()
    }
}

#[async_trait]
impl ChangeStore for Unreachable {
    async fn changes(&self, _: &Scope, _: i64, _: u32) -> Result<Vec<Change>, StoreError> {
        self.unavailable()
    }

    async fn last_change_of(&self, _: &Scope) -> Result<i64, StoreError> {
        self.unavailable()
    }

    async fn histories(&self, _: &Scope, _: &Page) -> Result<Vec<Vec<HistoryEntry>>, StoreError> {
        self.unavailable()
    }
}

#[async_trait]
impl WindowStore for Unreachable {
    async fn queue_turns(&self, _: &str, _: &[QueuedTurn], _: &WindowRules, _: Time) -> Result<Queued, StoreError> {
        self.unavailable()
    }

    async fn claim_window(&self, _: &WindowClaim) -> Result<Option<Window>, StoreError> {
        self.unavailable()
    }

    async fn finish_window(&self, _: &str, _: i64, _: &[Learned]) -> Result<WindowOutcome, StoreError> {
        self.unavailable()
    }

    async fn fail_window(&self, _: &str, _: i64, _: &JobFailure) -> Result<(), StoreError> {
        self.unavailable()
    }

    async fn release_windows(&self, _: &str) -> Result<(), StoreError> {
        self.unavailable()
    }

    async fn spend(&self, _: &str, _: i64, _: i64) -> Result<u64, StoreError> {
        self.unavailable()
    }

    async fn window_depth(&self, _: i64, _: Option<u64>) -> Result<WindowDepth, StoreError> {
        self.unavailable()
    }

    async fn dead_letters(&self, _: &Scope, _: &Page) -> Result<Vec<DeadLetter>, StoreError> {
        self.unavailable()
    }
}

#[async_trait]
impl UpkeepStore for Unreachable {
    async fn scopes_after(&self, _: i64, _: u32) -> Result<Vec<(i64, Scope)>, StoreError> {
        self.unavailable()
    }

    async fn count_episodes(&self) -> Result<u64, StoreError> {
        self.unavailable()
    }

    async fn forget(&self, _: &Scope, _: &Forgetting) -> Result<Forgotten, StoreError> {
        self.unavailable()
    }

    async fn divide(&self, _: Aging, _: u32) -> Result<Divided, StoreError> {
        self.unavailable()
    }

    async fn mark(&self, _: &str) -> Result<Option<String>, StoreError> {
        self.unavailable()
    }

    async fn set_mark(&self, _: &str, _: &str) -> Result<(), StoreError> {
        self.unavailable()
    }

    async fn audit(&self, _: &Scope, _: &Audit) -> Result<(), StoreError> {
        self.unavailable()
    }

    async fn audited(&self, _: &Scope, _: i64, _: u32) -> Result<Vec<Audited>, StoreError> {
        self.unavailable()
    }

    async fn add_subject_use(&self, _: &[SubjectUse], _: Time) -> Result<(), StoreError> {
        self.unavailable()
    }

    async fn subject_use(&self, _: Time, _: u32) -> Result<Vec<SubjectUse>, StoreError> {
        self.unavailable()
    }

    async fn end_writing(&self) {}
}

#[async_trait]
impl TargetStore for Unreachable {
    async fn targets(&self, _: Time) -> Result<Vec<TargetRecord>, StoreError> {
        self.unavailable()
    }

    async fn put_target(&self, _: &TargetRecord) -> Result<bool, StoreError> {
        self.unavailable()
    }
}

#[async_trait]
impl UsageStore for Unreachable {
    async fn book(&self, _: &[UsageRow]) -> Result<(), StoreError> {
        self.unavailable()
    }

    async fn usage(&self, _: &UsageQuery) -> Result<Vec<UsageGroup>, StoreError> {
        self.unavailable()
    }

    async fn sweep_usage(&self, _: Time, _: u32) -> Result<u64, StoreError> {
        self.unavailable()
    }
}

#[async_trait]
impl BudgetStore for Unreachable {
    async fn budget_totals(&self, _: &[(String, String)]) -> Result<Vec<BudgetTotal>, StoreError> {
        self.unavailable()
    }

    async fn add_budget_use(&self, _: &[BudgetUse], _: Time) -> Result<Vec<BudgetTotal>, StoreError> {
        self.unavailable()
    }

    async fn budgets_written_at(&self) -> Result<Option<Time>, StoreError> {
        self.unavailable()
    }

    async fn forget_budgets(&self, _: Time, _: u32) -> Result<u64, StoreError> {
        self.unavailable()
    }
}

#[async_trait]
impl VectorStore for Unreachable {
    async fn use_generation(&self, _: &Generation, _: Time) -> Result<GenerationRecord, StoreError> {
        self.unavailable()
    }

    async fn generations(&self) -> Result<Vec<GenerationRecord>, StoreError> {
        self.unavailable()
    }

    async fn lease_generation(&self, _: &str, _: &str, _: Time, _: Duration) -> Result<bool, StoreError> {
        self.unavailable()
    }

    async fn release_generation(&self, _: &str, _: &str) -> Result<(), StoreError> {
        self.unavailable()
    }

    async fn set_background(&self, _: &str, _: u32, _: &[u8]) -> Result<(), StoreError> {
        self.unavailable()
    }

    async fn due_episodes(&self, _: &str, _: i64, _: u32) -> Result<Due, StoreError> {
        self.unavailable()
    }

    async fn count_due(&self, _: i64, _: u32) -> Result<u64, StoreError> {
        self.unavailable()
    }

    async fn put_vectors(&self, _: &str, _: &str, _: &[NewVector], _: Option<i64>) -> Result<bool, StoreError> {
        self.unavailable()
    }

    async fn rewind_generation(&self, _: &str) -> Result<bool, StoreError> {
        self.unavailable()
    }

    async fn vectors(
        &self,
        _: &Scope,
        _: &str,
        _: Option<EpisodeId>,
        _: u32,
    ) -> Result<Vec<(EpisodeId, Vec<u8>)>, StoreError> {
        self.unavailable()
    }

    async fn vectors_of(&self, _: &Scope, _: &str, _: &[EpisodeId]) -> Result<Vec<DueEpisode>, StoreError> {
        self.unavailable()
    }

    async fn complete_generation(&self, _: &str, _: Time) -> Result<(), StoreError> {
        self.unavailable()
    }

    async fn drop_generation(&self, _: &str, _: Time, _: u32) -> Result<(u64, bool), StoreError> {
        self.unavailable()
    }
}

#[async_trait]
impl KnowledgeStore for Unreachable {
    async fn put_document(
        &self,
        _: &Namespace,
        _: &Document,
        _: &str,
        _: &[Passage],
        _: ShelfLimits,
    ) -> Result<PutDocument, StoreError> {
        self.unavailable()
    }

    async fn document(&self, _: &Namespace, _: &DocumentId) -> Result<Option<(Document, String)>, StoreError> {
        self.unavailable()
    }

    async fn passages(&self, _: &Namespace, _: &DocumentId) -> Result<Vec<Passage>, StoreError> {
        self.unavailable()
    }

    async fn list_documents(&self, _: &Namespace, _: &Page) -> Result<Vec<Document>, StoreError> {
        self.unavailable()
    }

    async fn delete_document(&self, _: &Namespace, _: &DocumentId) -> Result<bool, StoreError> {
        self.unavailable()
    }

    async fn shelf_revision(&self, _: &Namespace) -> Result<i64, StoreError> {
        self.unavailable()
    }

    async fn shelf(&self, _: &Namespace) -> Result<Shelf, StoreError> {
        self.unavailable()
    }
}
