//! Leases exchanges and has them learned, until it is stopped.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::policy::Backoff;
use crate::base::{Clock, Random};
use crate::store::{Claim, Claimed, JobFailure, Store, StoreError};

/// Learns from exchanges and stores what it learned, which also takes them from the queue.
#[async_trait]
pub trait Learner: Send + Sync {
    /// Learns from a batch that `owner` has leased. May be given the same exchange again, at any time.
    ///
    /// # Errors
    /// Some of the batch may have been learned then; the worker tries the exchanges one by one.
    async fn learn(&self, batch: Vec<Claimed>, owner: &str) -> Result<(), LearnError>;
}

/// Why a batch was not learned, or not wholly.
#[derive(Debug, thiserror::Error)]
pub enum LearnError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// This exchange, or this batch, failed; a later attempt may help. No user text in it.
    #[error("{0}")]
    Retry(String),
    /// It cannot be learned, ever. No user text in it.
    #[error("{0}")]
    Fail(String),
}

/// How a worker works.
#[derive(Clone, Debug)]
pub struct WorkerConfig {
    /// Names the worker; unique among all processes on one store.
    pub owner: String,
    /// Most exchanges in a batch.
    pub batch: u32,
    /// How long a lease lasts; longer than a batch takes. A lost lease is harmless: the work is done twice and stored once.
    pub lease: Duration,
    /// How long an idle worker sleeps before it looks for rows of other processes, of a crash, and for retries.
    pub poll: Duration,
    /// When a failed exchange is tried again, and how often.
    pub backoff: Backoff,
}

impl WorkerConfig {
    /// The usual settings for a worker called `owner`.
    pub fn named(owner: impl Into<String>) -> Self {
        Self {
            owner: owner.into(),
            batch: 64,
            lease: Duration::from_secs(60),
            poll: Duration::from_secs(2),
            backoff: Backoff { first: Duration::from_secs(2), longest: Duration::from_secs(600), max_attempts: 5 },
        }
    }
}

/// What a worker did so far.
#[derive(Debug, Default)]
pub struct WorkerCounters {
    /// Exchanges learned, or found to be learned already.
    pub learned: AtomicU64,
    /// Attempts that failed and are repeated.
    pub retried: AtomicU64,
    /// Exchanges given up: they are in the dead letters.
    pub dead: AtomicU64,
    /// Times that the store could not be reached.
    pub store_failures: AtomicU64,
}

/// The loop: claim, learn, sleep until there is more.
pub struct Worker {
    store: Arc<dyn Store>,
    learner: Arc<dyn Learner>,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
    wake: Arc<Notify>,
    config: WorkerConfig,
    counters: Arc<WorkerCounters>,
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("config", &self.config).finish_non_exhaustive()
    }
}

impl Worker {
    /// Makes a worker that wakes on `wake` ([`Outbox::appended`](super::Outbox::appended)).
    #[must_use]
    pub fn new(
        store: Arc<dyn Store>,
        learner: Arc<dyn Learner>,
        clock: Arc<dyn Clock>,
        random: Arc<dyn Random>,
        wake: Arc<Notify>,
        config: WorkerConfig,
    ) -> Self {
        Self { store, learner, clock, random, wake, config, counters: Arc::default() }
    }

    /// What it did so far; for the metrics.
    #[must_use]
    pub fn counters(&self) -> Arc<WorkerCounters> {
        Arc::clone(&self.counters)
    }

    /// Works until `stop`; a batch that was begun is ended.
    pub async fn run(self, stop: CancellationToken) {
        let mut failures = 0;
        while !stop.is_cancelled() {
            let pause = match self.work_once().await {
                Ok(0) => {
                    failures = 0;
                    self.config.poll
                }
                Ok(_) => {
                    failures = 0;
                    continue;
                }
                Err(error) => {
                    failures += 1;
                    self.counters.store_failures.fetch_add(1, Ordering::Relaxed);
                    if failures == 1 {
                        tracing::error!(%error, "the worker cannot reach the store; it tries again");
                    }
                    self.config.backoff.pause(failures, self.random.next_u64()).min(self.config.poll)
                }
            };
            tokio::select! {
                () = stop.cancelled() => {}
                () = self.wake.notified() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Works until nothing is due; for shutdown and tests. Returns how many exchanges were worked on.
    ///
    /// # Errors
    /// The store failed.
    pub async fn run_until_empty(&self) -> Result<u64, StoreError> {
        let mut total = 0;
        loop {
            match self.work_once().await? {
                0 => return Ok(total),
                n => total += n,
            }
        }
    }

    /// Claims a batch and learns from it; returns how many exchanges were claimed.
    async fn work_once(&self) -> Result<u64, StoreError> {
        let claim = Claim {
            owner: self.config.owner.clone(),
            now: self.clock.now(),
            lease: self.config.lease,
            max: self.config.batch.max(1),
        };
        let batch = self.store.claim(&claim).await?;
        let claimed = batch.len() as u64;
        if claimed > 0 {
            self.learn(batch).await?;
        }
        Ok(claimed)
    }

    /// Learns from a batch, and when that fails from each exchange alone: one bad one must not hold up the others.
    async fn learn(&self, batch: Vec<Claimed>) -> Result<(), StoreError> {
        let size = batch.len() as u64;
        match self.attempt(batch.clone()).await {
            Ok(()) => {
                self.counters.learned.fetch_add(size, Ordering::Relaxed);
                return Ok(());
            }
            // Smaller batches would not help.
            Err(error @ LearnError::Store(StoreError::Unavailable(_))) => return self.fail(batch, error).await,
            Err(error) if size == 1 => return self.fail(batch, error).await,
            Err(_) => {}
        }
        for one in batch {
            match self.attempt(vec![one.clone()]).await {
                Ok(()) => {
                    self.counters.learned.fetch_add(1, Ordering::Relaxed);
                }
                Err(error) => self.fail(vec![one], error).await?,
            }
        }
        Ok(())
    }

    /// A panic is an error like any other.
    async fn attempt(&self, batch: Vec<Claimed>) -> Result<(), LearnError> {
        let learning = AssertUnwindSafe(self.learner.learn(batch, &self.config.owner));
        learning.catch_unwind().await.unwrap_or_else(|_| Err(LearnError::Retry("the learner panicked".to_owned())))
    }

    /// Gives exchanges back after an error.
    async fn fail(&self, failed: Vec<Claimed>, error: LearnError) -> Result<(), StoreError> {
        let now = self.clock.now();
        for one in failed {
            // `attempts` counts the earlier ones.
            let attempts = one.attempts + 1;
            let retry_at = match &error {
                LearnError::Fail(_) => None,
                // Not the exchange's fault: it is never given up for it.
                LearnError::Store(StoreError::Unavailable(_) | StoreError::Unusable(_)) => {
                    let endless = Backoff { max_attempts: u32::MAX, ..self.config.backoff };
                    endless.retry_at(attempts, now, self.random.next_u64())
                }
                _ => self.config.backoff.retry_at(attempts, now, self.random.next_u64()),
            };
            let counter = if retry_at.is_some() { &self.counters.retried } else { &self.counters.dead };
            counter.fetch_add(1, Ordering::Relaxed);
            let failure = JobFailure { retry_at, error: error.to_string(), now };
            self.store.fail(&self.config.owner, one.turn.exchange, &failure).await?;
        }
        Ok(())
    }
}
