//! What the tests of this module share: a store that fails as told.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use tokio::sync::Semaphore;

use crate::base::ExchangeId;
use crate::store::sql::{SqlStore, SqliteOptions};
use crate::store::{Claim, Claimed, Depth, Finished, JobFailure, LearnOutcome, Learned, OutboxStore, StoreError};

pub(super) async fn store() -> Arc<SqlStore> {
    Arc::new(SqlStore::sqlite(SqliteOptions::default()).await.unwrap())
}

pub(super) fn unavailable() -> StoreError {
    StoreError::Unavailable("as told".to_owned())
}

/// The queue of a store in memory, with faults.
#[derive(Debug)]
pub(super) struct Faulty {
    pub(super) store: Arc<SqlStore>,
    /// What the next appends fail with.
    pub(super) append: Mutex<VecDeque<StoreError>>,
    /// Every append fails as not available.
    pub(super) down: AtomicBool,
    /// An exchange that cannot be appended.
    pub(super) poison: Option<ExchangeId>,
    /// One permit is taken by each append; for tests that need the writer to be busy.
    pub(super) gate: Semaphore,
    /// The sizes of the groups that were appended.
    pub(super) groups: Mutex<Vec<usize>>,
}

impl Faulty {
    pub(super) async fn new() -> Self {
        Self {
            store: store().await,
            append: Mutex::default(),
            down: AtomicBool::new(false),
            poison: None,
            gate: Semaphore::new(1_000_000),
            groups: Mutex::default(),
        }
    }
}

#[async_trait]
impl OutboxStore for Faulty {
    async fn append(&self, group: &[Finished]) -> Result<(), StoreError> {
        self.append_learned(group, &[]).await.map(drop)
    }

    async fn append_learned(
        &self,
        group: &[Finished],
        learned: &[Option<Learned>],
    ) -> Result<Vec<Option<LearnOutcome>>, StoreError> {
        self.gate.acquire().await.unwrap().forget();
        if self.down.load(Ordering::Relaxed) {
            return Err(unavailable());
        }
        if let Some(error) = self.append.lock().unwrap().pop_front() {
            return Err(error);
        }
        if group.iter().any(|f| Some(f.exchange) == self.poison) {
            return Err(StoreError::Driver { doing: "append", source: "poison".into() });
        }
        self.groups.lock().unwrap().push(group.len());
        self.store.append_learned(group, learned).await
    }

    async fn claim(&self, claim: &Claim) -> Result<Vec<Claimed>, StoreError> {
        self.store.claim(claim).await
    }

    async fn learn(&self, owner: &str, learned: &[Learned]) -> Result<Vec<LearnOutcome>, StoreError> {
        self.store.learn(owner, learned).await
    }

    async fn fail(&self, owner: &str, exchange: ExchangeId, failure: &JobFailure) -> Result<(), StoreError> {
        self.store.fail(owner, exchange, failure).await
    }

    async fn depth(&self) -> Result<Depth, StoreError> {
        self.store.depth().await
    }
}
