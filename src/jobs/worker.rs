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
use tracing::Instrument;

use super::policy::Backoff;
use crate::base::{Clock, Random};
use crate::store::{Claim, Claimed, JobFailure, OutboxStore, StoreError};
use crate::telemetry::{names, trace_context};

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
    /// How long a lease lasts: longer than a batch takes, but no longer, since what a dead process has leased waits for its
    /// end. A lost lease is harmless: the work is done twice and stored once, so it is safe with several processes.
    pub lease: Duration,
    /// How long an idle worker sleeps before it looks for rows of other processes, of a crash, and for retries.
    pub poll: Duration,
    /// When a failed exchange is tried again, and how often.
    pub backoff: Backoff,
    /// How long exchanges are gathered before a batch is claimed: what a batch costs beside its rows is then paid for many. It delays
    /// learning by so much, and nothing else.
    pub gather: Duration,
}

impl WorkerConfig {
    /// The usual settings for a worker called `owner`.
    pub fn named(owner: impl Into<String>) -> Self {
        Self {
            owner: owner.into(),
            batch: 64,
            // After a crash nothing is learned about the persons concerned until it ends; a batch takes well under a second.
            lease: Duration::from_secs(15),
            gather: Duration::from_millis(10),
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
    store: Arc<dyn OutboxStore>,
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
        store: Arc<dyn OutboxStore>,
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
                Ok(n) => {
                    failures = 0;
                    // More is waiting than one batch takes.
                    if n >= u64::from(self.config.batch.max(1)) {
                        continue;
                    }
                    Duration::ZERO
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
                () = self.wake.notified(), if !pause.is_zero() => {}
                () = tokio::time::sleep(pause) => {}
            }
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(self.config.gather) => {}
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
            Err(error @ LearnError::Store(StoreError::Unavailable(_) | StoreError::Crossed(_))) => {
                return self.fail(batch, error).await;
            }
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
        let span = tracing::debug_span!(names::LEARN, backstory.exchanges = batch.len());
        batch.iter().for_each(|claimed| trace_context::link(&span, claimed.turn.trace));
        let learning = AssertUnwindSafe(self.learner.learn(batch, &self.config.owner));
        learning
            .catch_unwind()
            .instrument(span)
            .await
            .unwrap_or_else(|_| Err(LearnError::Retry("the learner panicked".to_owned())))
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
                LearnError::Store(error) if error.is_outage() => {
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

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::super::testing::store;
    use super::*;
    use crate::base::{ManualClock, SeededRandom};
    use crate::store::contract::fixtures::{NOW, finished, learned, scope};
    use crate::store::sql::SqlStore;

    /// Learns nothing from everything, apart from what is to fail.
    struct Scripted {
        store: Arc<SqlStore>,
        fail: fn(u128) -> Option<LearnError>,
        calls: Mutex<Vec<Vec<u128>>>,
    }

    #[async_trait]
    impl Learner for Scripted {
        async fn learn(&self, batch: Vec<Claimed>, owner: &str) -> Result<(), LearnError> {
            let exchanges: Vec<_> = batch.iter().map(|c| c.turn.exchange.0).collect();
            self.calls.lock().unwrap().push(exchanges.clone());
            if let Some(error) = exchanges.iter().find_map(|n| (self.fail)(*n)) {
                return Err(error);
            }
            let results: Vec<_> = batch.iter().map(|c| learned(c.turn.exchange.0, &c.turn.scope, 0)).collect();
            self.store.learn(owner, &results).await?;
            Ok(())
        }
    }

    struct Fixture {
        worker: Worker,
        store: Arc<SqlStore>,
        learner: Arc<Scripted>,
        clock: Arc<ManualClock>,
    }

    async fn fixture(fail: fn(u128) -> Option<LearnError>) -> Fixture {
        let store = store().await;
        let clock = Arc::new(ManualClock::new(NOW.plus_seconds(1)));
        let learner = Arc::new(Scripted { store: store.clone(), fail, calls: Mutex::default() });
        let config = WorkerConfig { batch: 3, ..WorkerConfig::named("me") };
        let random = Arc::new(SeededRandom::new(1));
        let worker = Worker::new(store.clone(), learner.clone(), clock.clone(), random, Arc::default(), config);
        Fixture { worker, store, learner, clock }
    }

    async fn append(store: &SqlStore, exchanges: impl IntoIterator<Item = u128>) {
        let group: Vec<_> = exchanges.into_iter().map(|n| finished(n, &scope(&n.to_string()))).collect();
        store.append(&group).await.unwrap();
    }

    #[tokio::test]
    async fn everything_that_is_due_is_learned_in_batches() {
        let f = fixture(|_| None).await;
        append(&f.store, 1..=7).await;
        assert_eq!(f.worker.run_until_empty().await.unwrap(), 7);
        assert_eq!(*f.learner.calls.lock().unwrap(), [vec![1, 2, 3], vec![4, 5, 6], vec![7]]);
        assert_eq!(f.store.depth().await.unwrap().waiting, 0);
        assert_eq!(f.worker.counters().learned.load(Ordering::Relaxed), 7);
    }

    #[tokio::test]
    async fn one_bad_exchange_does_not_hold_up_its_batch() {
        let f = fixture(|n| (n == 2).then(|| LearnError::Retry("no".to_owned()))).await;
        append(&f.store, 1..=3).await;
        f.worker.run_until_empty().await.unwrap();
        assert_eq!(*f.learner.calls.lock().unwrap(), [vec![1, 2, 3], vec![1], vec![2], vec![3]]);
        let depth = f.store.depth().await.unwrap();
        assert_eq!((depth.waiting, depth.dead), (1, 0));
    }

    #[tokio::test]
    async fn an_exchange_that_keeps_failing_is_given_up_after_the_last_attempt() {
        let f = fixture(|_| Some(LearnError::Retry("no".to_owned()))).await;
        append(&f.store, [1]).await;
        for attempt in 1..=5 {
            assert_eq!(f.worker.run_until_empty().await.unwrap(), 1, "attempt {attempt}");
            assert_eq!(f.worker.run_until_empty().await.unwrap(), 0, "not before its time");
            f.clock.advance_millis(600_000);
        }
        let depth = f.store.depth().await.unwrap();
        assert_eq!((depth.waiting, depth.dead), (0, 1));
        assert_eq!(f.worker.counters().dead.load(Ordering::Relaxed), 1);
        assert_eq!(f.worker.counters().retried.load(Ordering::Relaxed), 4);
    }

    #[tokio::test]
    async fn what_can_never_be_learned_is_given_up_at_once() {
        let f = fixture(|_| Some(LearnError::Fail("never".to_owned()))).await;
        append(&f.store, [1]).await;
        f.worker.run_until_empty().await.unwrap();
        assert_eq!(f.store.depth().await.unwrap().dead, 1);
    }

    #[tokio::test]
    async fn a_store_that_is_not_available_costs_no_exchange_its_life() {
        let f = fixture(|_| Some(LearnError::Store(StoreError::Unavailable("down".to_owned())))).await;
        append(&f.store, 1..=3).await;
        for _ in 0..20 {
            f.worker.run_until_empty().await.unwrap();
            f.clock.advance_millis(600_000);
        }
        assert_eq!(f.learner.calls.lock().unwrap()[0], [1, 2, 3], "smaller batches would not help");
        let depth = f.store.depth().await.unwrap();
        assert_eq!((depth.waiting, depth.dead), (3, 0));
    }

    #[tokio::test]
    async fn a_panic_fails_its_exchange_and_nothing_else() {
        let f = fixture(|n| if n == 2 { panic!("as told") } else { None }).await;
        append(&f.store, 1..=3).await;
        f.worker.run_until_empty().await.unwrap();
        assert_eq!(f.store.depth().await.unwrap().waiting, 1);
        assert_eq!(f.worker.counters().retried.load(Ordering::Relaxed), 1);
    }

    #[tokio::test]
    async fn what_a_dead_process_has_leased_is_learned_after_fifteen_seconds() {
        let f = fixture(|_| None).await;
        append(&f.store, 1..=2).await;
        let lease = WorkerConfig::named("dead").lease;
        let claim = Claim { owner: "dead".to_owned(), now: f.clock.now(), lease, max: 10 };
        assert_eq!(f.store.claim(&claim).await.unwrap().len(), 2);
        f.clock.advance_millis(14_999);
        assert_eq!(f.worker.run_until_empty().await.unwrap(), 0, "its owner may be alive");
        f.clock.advance_millis(1);
        assert_eq!(f.worker.run_until_empty().await.unwrap(), 2);
    }

    #[tokio::test]
    async fn a_worker_finds_what_a_crash_left_wakes_for_more_and_stops_when_told() {
        let f = fixture(|_| None).await;
        append(&f.store, [1]).await;
        let (wake, stop) = (Arc::clone(&f.worker.wake), CancellationToken::new());
        let counters = f.worker.counters();
        let until = async |n| {
            while counters.learned.load(Ordering::Relaxed) < n {
                tokio::task::yield_now().await;
            }
        };
        let others = async {
            until(1).await;
            append(&f.store, [2]).await;
            wake.notify_one();
            until(2).await;
            stop.cancel();
        };
        tokio::join!(f.worker.run(stop.clone()), others);
        assert_eq!(f.store.depth().await.unwrap().waiting, 0);
    }
}
