//! Summaries of what will be cut, made in the background ahead of need.
//!
//! A request whose conversation has passed the soft mark wishes for one ([`Summaries::want`]) and goes on; nothing here can fail
//! or delay it. At most one job of a conversation waits or runs at a time, and what does not fit into the queue is passed over: the
//! next request wishes again. A cut asks which summary it is to use ([`Summaries::settle`]): the answer is given once and kept, so
//! that a summary which becomes ready later changes nothing until the next cut.

mod memory;
#[cfg(test)]
mod tests;
mod work;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::memory::Memory;
use self::work::Shop;
use super::policy::Backoff;
use crate::ask::Ask;
use crate::base::{Clock, Random, Time, TraceParent};
use crate::context::summary::{Material, Summary};
use crate::conversation::Hash;
use crate::memory::Scope;
use crate::store::{Cut, Settled, StateKey, Store};
use crate::telemetry::{Metrics, SummaryOutcome};

/// How summaries are made.
#[derive(Clone, Debug)]
pub struct SummariesConfig {
    /// Questions at a time.
    pub max_running: usize,
    /// Jobs that wait; one more is passed over, and counted.
    pub max_waiting: usize,
    /// How long one answer may take.
    pub timeout: Duration,
    /// When a question is asked again.
    pub backoff: Backoff,
    /// Tokens that may be used in a day (UTC), of questions and answers; `None` = no cap.
    pub max_tokens_per_day: Option<u64>,
    /// How long a summary, and what was settled for a cut, is kept after its last use.
    pub keep: Duration,
}

impl Default for SummariesConfig {
    fn default() -> Self {
        Self {
            max_running: 2,
            max_waiting: 64,
            timeout: Duration::from_secs(60),
            backoff: Backoff { first: Duration::from_secs(2), longest: Duration::from_secs(60), max_attempts: 3 },
            max_tokens_per_day: None,
            keep: Duration::from_secs(7 * 24 * 3600),
        }
    }
}

/// Whose conversation it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The scope; without a subject, one that stands for the namespace alone.
    pub scope: Scope,
    /// The state before the first message.
    pub start: Hash,
    /// The scope's epoch when the request began.
    pub epoch: i64,
    /// Whether summaries go into the store. Without a subject, and where memory may not be written, they stay in the process.
    pub durable: bool,
}

/// A summary that will be of use.
#[derive(Clone, Debug)]
pub struct Wish {
    /// Whose conversation it is of.
    pub owner: Owner,
    /// Names the conversation.
    pub session: Hash,
    /// What it is to be made of.
    pub material: Material,
    /// The states before it, newest first: the summary of one of them stands for the messages up to there.
    pub candidates: Vec<Hash>,
    /// The span of the request that it would have helped.
    pub trace: Option<TraceParent>,
}

/// Makes summaries, keeps them, and says which one a cut uses.
pub struct Summaries {
    store: Arc<dyn Store>,
    memory: Arc<Memory>,
    queue: mpsc::Sender<Wish>,
    keep: Duration,
    metrics: Arc<Metrics>,
}

impl fmt::Debug for Summaries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Summaries").field("waiting", &self.waiting()).finish_non_exhaustive()
    }
}

/// What summaries are made with.
pub struct Means {
    /// The model.
    pub model: Arc<dyn Ask>,
    /// Where they are kept.
    pub store: Arc<dyn Store>,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// Spreads retries.
    pub random: Arc<dyn Random>,
    /// Counts what becomes of wishes.
    pub metrics: Arc<Metrics>,
}

impl fmt::Debug for Means {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Means").field("model", &self.model).finish_non_exhaustive()
    }
}

impl Summaries {
    /// Starts the work on `tracker`; it ends with `halt`, and what is asked then is dropped.
    #[must_use]
    pub fn start(means: Means, config: SummariesConfig, tracker: &TaskTracker, halt: CancellationToken) -> Self {
        let (queue, wishes) = mpsc::channel(config.max_waiting.max(1));
        let memory = Arc::new(Memory::new(config.keep));
        let summaries = Self {
            store: Arc::clone(&means.store),
            memory: Arc::clone(&memory),
            queue,
            keep: config.keep,
            metrics: Arc::clone(&means.metrics),
        };
        tracker.spawn(Shop::new(means, memory, config).run(wishes, halt));
        summaries
    }

    /// Wishes for the summary of the messages up to `covers`. `make` is called when nobody has it or is at it.
    pub fn want(&self, owner: &Owner, session: Hash, covers: Hash, make: impl FnOnce() -> Option<Wish>) {
        if self.memory.settled_for(owner, covers) || !self.memory.begin(session, owner.start) {
            return;
        }
        // Until it is in the queue, the conversation is free again when anything goes wrong.
        let Some(wish) = make() else {
            return self.memory.end(session);
        };
        if self.queue.try_send(wish).is_err() {
            self.memory.end(session);
            self.metrics.summaries.inc(SummaryOutcome::Full);
        }
    }

    /// Settles which summary the cut after `state` uses: what was settled before, else the newest of `candidates` that is there now.
    pub async fn settle(&self, owner: &Owner, state: Hash, candidates: &[Hash], now: Time) -> Option<Summary> {
        if !owner.durable {
            return self.memory.newest(owner, candidates);
        }
        let keep = i64::try_from(self.keep.as_secs()).unwrap_or(i64::MAX);
        let key = StateKey { scope: owner.scope.clone(), prefix: state };
        let cut = Cut { key, epoch: owner.epoch, candidates, expires_at: now.plus_seconds(keep) };
        match self.store.settle_cut(&cut, now).await {
            Ok(settled) => settled.unwrap_or_default().0,
            Err(error) => {
                tracing::warn!(%error, "cannot settle which summary a cut uses; it does without");
                // A store that cannot be written may still be read.
                self.store.cut(&cut.key, now).await.ok().flatten().unwrap_or_default().0
            }
        }
    }

    /// What [`Summaries::settle`] would say; nothing is settled by it.
    pub async fn foretell(&self, owner: &Owner, state: Hash, candidates: &[Hash], now: Time) -> Option<Summary> {
        if !owner.durable {
            return self.memory.newest(owner, candidates);
        }
        let key = StateKey { scope: owner.scope.clone(), prefix: state };
        match self.store.cut(&key, now).await {
            Ok(Some(Settled(summary))) => summary,
            Ok(None) => self.store.summary(&owner.scope, candidates, now).await.ok().flatten(),
            Err(_) => None,
        }
    }

    /// Forgets all that is kept in the process of a scope, by the hash that its conversations start from; jobs of it come to
    /// nothing.
    pub fn forget(&self, start: Hash) {
        self.memory.forget(start);
    }

    /// How many conversations have a job that waits or runs.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.memory.n_busy()
    }
}
