//! The one that writes: takes what is there, and commits it as one group.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::{Job, NOT_FAILING, NotCommitted, OutboxConfig, Redact, Shared};
use crate::base::Clock;
use crate::jobs::at_once::AtOnce;
use crate::store::{Finished, LearnOutcome, Learned, OutboxStore, StoreError};
use crate::telemetry::{names, trace_context};

/// When so many came at once, more are on their way: a moment's wait makes the group larger and each of them cheaper. At
/// lower rates a group is committed at once.
const GATHER_FROM: usize = 4;
/// How long that moment is.
const GATHER: Duration = Duration::from_millis(1);

/// The bytes that an exchange holds of the queue's limit, and who waits for it.
type Waiting = (u64, Option<oneshot::Sender<Result<(), NotCommitted>>>);

pub(super) struct Writer {
    pub(super) store: Arc<dyn OutboxStore>,
    pub(super) config: OutboxConfig,
    pub(super) redact: Redact,
    pub(super) at_once: Option<Arc<dyn AtOnce>>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) stop: CancellationToken,
    pub(super) shared: Arc<Shared>,
}

impl Writer {
    pub(super) async fn run(self, mut jobs: mpsc::Receiver<Job>) {
        let max_group = self.config.max_group.max(1);
        let mut group = Vec::with_capacity(max_group);
        let mut measured = tokio::time::Instant::now();
        loop {
            let backlog_full = self.shared.backlog_full.load(Ordering::Relaxed);
            let taken = tokio::select! {
                taken = jobs.recv_many(&mut group, max_group) => taken,
                // Nothing comes in while it is full, so nothing else would wake the writer.
                () = tokio::time::sleep(self.config.measure_every), if backlog_full => {
                    self.measure().await;
                    continue;
                }
                () = self.stop.cancelled(), if !jobs.is_closed() => {
                    jobs.close();
                    continue;
                }
            };
            // Closed, empty, and no reserved slot is left that could still be filled.
            if taken == 0 {
                break;
            }
            if (GATHER_FROM..max_group).contains(&taken) {
                tokio::time::sleep(GATHER).await;
                while group.len() < max_group
                    && let Ok(job) = jobs.try_recv()
                {
                    group.push(job);
                }
            }
            self.shared.in_hand.store(group.len() as u64, Ordering::Relaxed);
            self.write(std::mem::take(&mut group)).await;
            self.shared.in_hand.store(0, Ordering::Relaxed);
            if measured.elapsed() >= self.config.measure_every {
                self.measure().await;
                measured = tokio::time::Instant::now();
            }
        }
    }

    /// Learning may be slower than the exchanges come, or dead: the rows in the store are bounded as well.
    async fn measure(&self) {
        // A store that does not answer says nothing new; the appends find out.
        let Ok(depth) = self.store.depth().await else { return };
        let full = depth.waiting >= self.config.max_backlog;
        if self.shared.backlog_full.swap(full, Ordering::Relaxed) != full {
            tracing::warn!(
                waiting = depth.waiting,
                full,
                "the backlog of exchanges to be learned reached or left its limit"
            );
        }
    }

    async fn write(&self, jobs: Vec<Job>) {
        let (mut group, mut waiting): (Vec<_>, Vec<_>) =
            jobs.into_iter().map(|job| (job.finished, (job.bytes, Some(job.done)))).unzip();
        for finished in &mut group {
            self.redact(finished);
        }
        let span = tracing::debug_span!(names::COMMIT, backstory.exchanges = group.len());
        let turns = group.iter().filter_map(|finished| finished.turn.as_ref());
        turns.for_each(|turn| trace_context::link(&span, turn.trace));
        let stored = self.store(&group, &mut waiting).instrument(span).await;
        for ((bytes, done), stored) in waiting.into_iter().zip(stored) {
            self.shared.queued_bytes.fetch_sub(bytes, Ordering::Relaxed);
            let counter = if stored { &self.shared.appended } else { &self.shared.failed };
            counter.fetch_add(1, Ordering::Relaxed);
            if let Some(done) = done {
                // Nobody waits any more: the client was released by its own timeout, or left.
                let _ = done.send(if stored { Ok(()) } else { Err(NotCommitted::GivenUp) });
            }
        }
    }

    /// Stores a group, whatever it takes; returns which of it is stored.
    async fn store(&self, group: &[Finished], waiting: &mut [Waiting]) -> Vec<bool> {
        if let Some(at_once) = &self.at_once {
            let turn = at_once.in_turn().await;
            let learned = at_once.decide(group).await;
            match self.store.append_learned(group, &learned).await {
                Ok(outcomes) => {
                    self.works();
                    self.tell(&**at_once, group, &learned, &outcomes);
                    return vec![true; group.len()];
                }
                // All goes the long way now: what was decided may have been stored by a commit whose answer was lost.
                Err(error) => self.note_failure(&error, 2),
            }
            drop(turn);
        }
        let mut stored = vec![false; group.len()];
        if self.append(group, waiting).await {
            stored.fill(true);
        } else {
            // Something in the group cannot be stored. Alone each gets its own answer.
            for ((one, waiting), stored) in group.chunks(1).zip(waiting.chunks_mut(1)).zip(&mut stored) {
                *stored = self.append(one, waiting).await;
            }
        }
        self.shared.appended_notify.notify_one();
        stored
    }

    fn tell(
        &self,
        at_once: &dyn AtOnce,
        group: &[Finished],
        learned: &[Option<Learned>],
        outcomes: &[Option<LearnOutcome>],
    ) {
        for (learned, outcome) in learned.iter().zip(outcomes) {
            if let (Some(learned), Some(outcome)) = (learned, outcome) {
                at_once.stored(learned, *outcome);
            }
        }
        let waits = |(finished, outcome): (&Finished, &Option<LearnOutcome>)| {
            finished.turn.is_some() && matches!(outcome, None | Some(LearnOutcome::Stale))
        };
        if group.iter().zip(outcomes).any(waits) {
            self.shared.appended_notify.notify_one();
        }
    }

    /// Redaction must not let anything through: what it cannot handle is not stored.
    fn redact(&self, finished: &mut Finished) {
        let Some(turn) = &mut finished.turn else { return };
        if catch_unwind(AssertUnwindSafe(|| (self.redact)(turn))).is_err() {
            tracing::error!("redaction failed; the exchange is not remembered");
            finished.turn = None;
        }
    }

    /// Appends a group; tries again while the store is not available. `false` = given up.
    async fn append(&self, group: &[Finished], waiting: &mut [Waiting]) -> bool {
        let mut failures = 0;
        loop {
            let error = match self.store.append(group).await {
                Ok(()) => {
                    self.works();
                    return true;
                }
                Err(error) => error,
            };
            failures += 1;
            self.note_failure(&error, failures);
            if self.gives_up(&error, failures) {
                // The exchange's fault, or the end: no outage that an operator should wait for.
                self.end_of_failing();
                return false;
            }
            if failures > 1 && error.is_outage() {
                self.shared.keeps_failing.store(true, Ordering::Relaxed);
                waiting.iter_mut().filter_map(|(_, done)| done.take()).for_each(|done| self.shared.release(done));
            }
            tokio::time::sleep(self.config.backoff.pause(failures, u64::MAX)).await;
        }
    }

    /// The store took what it was given.
    fn works(&self) {
        if self.end_of_failing() {
            tracing::info!("the outbox can be written again; what waited in memory is stored");
        }
    }

    /// Whether it was failing until now.
    fn end_of_failing(&self) -> bool {
        self.shared.keeps_failing.store(false, Ordering::Relaxed);
        let failed = self.shared.failing_since.swap(NOT_FAILING, Ordering::Relaxed) != NOT_FAILING;
        if failed {
            self.shared.set_why(String::new());
        }
        failed
    }

    fn gives_up(&self, error: &StoreError, failures: u32) -> bool {
        failures >= self.config.backoff.max_attempts && (!error.is_outage() || self.stop.is_cancelled())
    }

    fn note_failure(&self, error: &StoreError, failures: u32) {
        let now = self.clock.now().0;
        let first = self.shared.failing_since.compare_exchange(NOT_FAILING, now, Ordering::Relaxed, Ordering::Relaxed);
        self.shared.set_why(error.to_string());
        // Once per outage, not once per try.
        if first.is_ok() || failures == 1 {
            tracing::error!(%error, "the outbox cannot be written; it is tried again");
        }
    }
}
