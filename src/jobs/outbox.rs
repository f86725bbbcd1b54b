//! The way from a finished exchange to a durable row: a bounded queue and one writer that commits in groups.
//!
//! Nobody waits to put something in: a place is reserved before the request is sent on ([`Outbox::reserve`], refused
//! when the queue is full) and filled when the reply ends ([`Slot::finish`], callable from a destructor). The writer
//! takes what is there and commits it in one transaction; while it does so the next group gathers. An idle writer
//! commits a single exchange at once.
//!
//! While the store fails the writer keeps its group and tries again; the queue fills, and then `reserve` refuses.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::{Notify, mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::policy::Backoff;
use crate::base::{Clock, Time};
use crate::memory::Turn;
use crate::store::{Finished, OutboxStore, StoreError};

/// Takes secrets out of a turn before it is stored.
pub type Redact = fn(&mut Turn);

/// How large the queue and its groups are, and how patient the writer is.
#[derive(Clone, Debug)]
pub struct OutboxConfig {
    /// Places in the queue; when all are taken, [`Outbox::reserve`] refuses.
    pub capacity: usize,
    /// Bytes of text in the queue; above it [`Outbox::reserve`] refuses as well.
    pub max_bytes: u64,
    /// Rows that wait in the store to be learned; from so many on [`Outbox::reserve`] refuses until there are fewer.
    pub max_backlog: u64,
    /// How often they are counted, at most: the limit may be passed by what comes in between.
    pub measure_every: Duration,
    /// Most exchanges in one transaction.
    pub max_group: usize,
    /// Pauses while the store fails. `max_attempts` counts for what may not be tried for ever: a single exchange that
    /// the store refuses for another reason than not being available, and everything after the stop.
    pub backoff: Backoff,
}

impl Default for OutboxConfig {
    fn default() -> Self {
        Self {
            capacity: 4096,
            max_bytes: 64 << 20,
            max_backlog: 200_000,
            measure_every: Duration::from_secs(1),
            max_group: 128,
            backoff: Backoff { first: Duration::from_millis(20), longest: Duration::from_secs(2), max_attempts: 5 },
        }
    }
}

/// What an operator wants to know about the outbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutboxHealth {
    /// Places taken: reserved, waiting, or being written.
    pub queued: u64,
    /// Bytes of text waiting or being written.
    pub queued_bytes: u64,
    /// Since when the store fails; `None` while it works.
    pub failing_since: Option<Time>,
    /// Exchanges committed.
    pub appended_total: u64,
    /// Exchanges given up: not stored, not remembered.
    pub failed_total: u64,
    /// Reservations refused because the queue or the backlog was full.
    pub refused_total: u64,
    /// Whether more rows wait in the store than may.
    pub backlog_full: bool,
}

/// The handle of the outbox; cheap to clone.
#[derive(Clone, Debug)]
pub struct Outbox {
    queue: mpsc::Sender<Job>,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    capacity: u64,
    max_bytes: u64,
    /// Taken by the writer from the queue and not yet committed: they hold no place of the channel any more.
    in_hand: AtomicU64,
    queued_bytes: AtomicU64,
    failing_since: AtomicI64,
    backlog_full: AtomicBool,
    appended: AtomicU64,
    failed: AtomicU64,
    refused: AtomicU64,
    appended_notify: Arc<Notify>,
}

/// `failing_since` while nothing fails.
const NOT_FAILING: i64 = i64::MIN;

#[derive(Debug)]
struct Job {
    finished: Finished,
    bytes: u64,
    done: oneshot::Sender<()>,
}

/// Starts the writer on `tracker`, and returns its handle. On `stop` the writer takes no new reservations, commits
/// what is queued and what still comes through slots that were reserved before, and ends.
pub fn outbox(
    store: Arc<dyn OutboxStore>,
    config: OutboxConfig,
    redact: Redact,
    clock: Arc<dyn Clock>,
    tracker: &TaskTracker,
    stop: CancellationToken,
) -> Outbox {
    let capacity = config.capacity.max(1);
    let (queue, jobs) = mpsc::channel(capacity);
    let shared = Arc::new(Shared {
        capacity: capacity as u64,
        max_bytes: config.max_bytes,
        in_hand: AtomicU64::new(0),
        queued_bytes: AtomicU64::new(0),
        failing_since: AtomicI64::new(NOT_FAILING),
        backlog_full: AtomicBool::new(false),
        appended: AtomicU64::new(0),
        failed: AtomicU64::new(0),
        refused: AtomicU64::new(0),
        appended_notify: Arc::new(Notify::new()),
    });
    let writer = Writer { store, config, redact, clock, stop, shared: Arc::clone(&shared) };
    tracker.spawn(writer.run(jobs));
    Outbox { queue, shared }
}

impl Outbox {
    /// Reserves a place; never waits. `None` when the queue is full or the writer has stopped: the exchange then passes
    /// unremembered, and that is counted.
    #[must_use]
    pub fn reserve(&self) -> Option<Slot> {
        let room = self.shared.queued_bytes.load(Ordering::Relaxed) < self.shared.max_bytes
            && !self.shared.backlog_full.load(Ordering::Relaxed);
        let place = if room { self.queue.clone().try_reserve_owned().ok() } else { None };
        match place {
            Some(place) => Some(Slot { place, shared: Arc::clone(&self.shared) }),
            None => {
                self.shared.refused.fetch_add(1, Ordering::Relaxed);
                None
            }
        }
    }

    /// How the outbox is doing.
    #[must_use]
    pub fn health(&self) -> OutboxHealth {
        let shared = &self.shared;
        let taken = shared.capacity.saturating_sub(self.queue.capacity() as u64);
        let failing_since = shared.failing_since.load(Ordering::Relaxed);
        OutboxHealth {
            queued: taken + shared.in_hand.load(Ordering::Relaxed),
            queued_bytes: shared.queued_bytes.load(Ordering::Relaxed),
            failing_since: (failing_since != NOT_FAILING).then_some(Time(failing_since)),
            appended_total: shared.appended.load(Ordering::Relaxed),
            failed_total: shared.failed.load(Ordering::Relaxed),
            refused_total: shared.refused.load(Ordering::Relaxed),
            backlog_full: shared.backlog_full.load(Ordering::Relaxed),
        }
    }

    /// Is notified after each committed group; for the one worker that waits for work.
    #[must_use]
    pub fn appended(&self) -> Arc<Notify> {
        Arc::clone(&self.shared.appended_notify)
    }
}

/// A reserved place. Dropping it gives the place back.
#[derive(Debug)]
pub struct Slot {
    place: mpsc::OwnedPermit<Job>,
    shared: Arc<Shared>,
}

impl Slot {
    /// Puts a finished exchange in; never waits, so a destructor may call it. The result tells when it is durable, and
    /// may be dropped.
    pub fn finish(self, finished: Finished) -> Committed {
        let (done, committed) = oneshot::channel();
        let bytes = text_bytes(&finished);
        self.shared.queued_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.place.send(Job { finished, bytes, done });
        Committed(committed)
    }
}

/// Resolves when the exchange is durable. Waits as long as the store fails: bound it with a timeout.
///
/// Cancel safe: dropping it changes nothing.
#[derive(Debug)]
pub struct Committed(oneshot::Receiver<()>);

/// The exchange was given up: it is not stored and will not be remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the exchange could not be stored")]
pub struct NotCommitted;

impl Future for Committed {
    type Output = Result<(), NotCommitted>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx).map(|done| done.map_err(|_| NotCommitted))
    }
}

/// The bytes of text that an exchange keeps in memory while it waits, near enough.
fn text_bytes(finished: &Finished) -> u64 {
    let turn = finished.turn.as_ref().map_or(0, |turn| {
        let said = turn.user.iter().chain(&turn.before).chain(&turn.reply).map(|s| s.text.len());
        said.chain(turn.shown.iter().map(String::len)).sum()
    });
    let state = finished.state.as_ref().map_or(0, |(_, state)| state.profile.len() + state.recollection.len());
    (turn + state) as u64
}

/// When so many came at once, more are on their way: a moment's wait makes the group larger and each of them cheaper. At
/// lower rates a group is committed at once.
const GATHER_FROM: usize = 4;
/// How long that moment is.
const GATHER: Duration = Duration::from_millis(1);

struct Writer {
    store: Arc<dyn OutboxStore>,
    config: OutboxConfig,
    redact: Redact,
    clock: Arc<dyn Clock>,
    stop: CancellationToken,
    shared: Arc<Shared>,
}

impl Writer {
    async fn run(self, mut jobs: mpsc::Receiver<Job>) {
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
        let (mut group, waiting): (Vec<_>, Vec<_>) =
            jobs.into_iter().map(|job| (job.finished, (job.bytes, job.done))).unzip();
        for finished in &mut group {
            self.redact(finished);
        }
        let mut stored = vec![false; group.len()];
        if self.append(&group).await {
            stored.fill(true);
        } else {
            // Something in the group cannot be stored. Alone each gets its own answer.
            for (one, stored) in group.chunks(1).zip(&mut stored) {
                *stored = self.append(one).await;
            }
        }
        for ((bytes, done), stored) in waiting.into_iter().zip(stored) {
            self.shared.queued_bytes.fetch_sub(bytes, Ordering::Relaxed);
            let counter = if stored { &self.shared.appended } else { &self.shared.failed };
            counter.fetch_add(1, Ordering::Relaxed);
            if stored {
                // Nobody waits any more: the client was released by its own timeout, or left.
                let _ = done.send(());
            }
        }
        self.shared.appended_notify.notify_one();
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
    async fn append(&self, group: &[Finished]) -> bool {
        let mut failures = 0;
        loop {
            let error = match self.store.append(group).await {
                Ok(()) => {
                    self.shared.failing_since.store(NOT_FAILING, Ordering::Relaxed);
                    return true;
                }
                Err(error) => error,
            };
            failures += 1;
            self.note_failure(&error, failures);
            if self.gives_up(&error, failures) {
                // The exchange's fault, or the end: no outage that an operator should wait for.
                self.shared.failing_since.store(NOT_FAILING, Ordering::Relaxed);
                return false;
            }
            tokio::time::sleep(self.config.backoff.pause(failures, u64::MAX)).await;
        }
    }

    fn gives_up(&self, error: &StoreError, failures: u32) -> bool {
        let may_pass = matches!(error, StoreError::Unavailable(_) | StoreError::Unusable(_));
        failures >= self.config.backoff.max_attempts && (!may_pass || self.stop.is_cancelled())
    }

    fn note_failure(&self, error: &StoreError, failures: u32) {
        let now = self.clock.now().0;
        let first = self.shared.failing_since.compare_exchange(NOT_FAILING, now, Ordering::Relaxed, Ordering::Relaxed);
        // Once per outage, not once per try.
        if first.is_ok() || failures == 1 {
            tracing::error!(%error, "the outbox cannot be written; it is tried again");
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::Semaphore;

    use super::super::testing::{Faulty, unavailable};
    use super::*;
    use crate::base::{ExchangeId, ManualClock};
    use crate::store::contract::fixtures::{NOW, claim, finished, learned, scope};

    struct Running {
        outbox: Outbox,
        store: Arc<Faulty>,
        tracker: TaskTracker,
        stop: CancellationToken,
    }

    impl Running {
        async fn stop(self) -> Arc<Faulty> {
            self.stop.cancel();
            self.tracker.close();
            self.tracker.wait().await;
            self.store
        }
    }

    fn config() -> OutboxConfig {
        let backoff = Backoff { first: Duration::from_millis(1), longest: Duration::from_millis(2), max_attempts: 3 };
        OutboxConfig {
            capacity: 8,
            max_bytes: 1 << 20,
            max_backlog: 100,
            measure_every: Duration::ZERO,
            max_group: 5,
            backoff,
        }
    }

    fn start(store: Faulty, config: OutboxConfig, redact: Redact) -> Running {
        let store = Arc::new(store);
        let (tracker, stop) = (TaskTracker::new(), CancellationToken::new());
        let clock = Arc::new(ManualClock::new(NOW));
        let outbox = outbox(store.clone(), config, redact, clock, &tracker, stop.clone());
        Running { outbox, store, tracker, stop }
    }

    fn as_it_is(_: &mut Turn) {}

    fn put(outbox: &Outbox, n: u128) -> Committed {
        outbox.reserve().unwrap().finish(finished(n, &scope("ann")))
    }

    async fn stored(store: &Arc<Faulty>) -> Vec<u128> {
        let claimed = store.claim(&claim("me", 1000)).await.unwrap();
        claimed.iter().map(|c| c.turn.exchange.0).collect()
    }

    #[tokio::test]
    async fn an_idle_writer_commits_a_single_exchange_at_once() {
        let running = start(Faulty::new().await, config(), as_it_is);
        put(&running.outbox, 1).await.unwrap();
        assert_eq!(stored(&running.store).await, [1]);
        assert_eq!(running.outbox.health(), OutboxHealth { appended_total: 1, ..OutboxHealth::default() });
    }

    #[tokio::test]
    async fn what_comes_while_the_writer_is_busy_is_one_group() {
        let store = Faulty { gate: Semaphore::new(0), ..Faulty::new().await };
        let running = start(store, config(), as_it_is);
        let first = put(&running.outbox, 1);
        // The writer takes it and waits at the gate.
        while running.outbox.health().queued != 1 || running.outbox.queue.capacity() != 8 {
            tokio::task::yield_now().await;
        }
        let rest: Vec<_> = (2..=8).map(|n| put(&running.outbox, n)).collect();
        assert_eq!(running.outbox.health().queued, 8);
        running.store.gate.add_permits(100);
        first.await.unwrap();
        for committed in rest {
            committed.await.unwrap();
        }
        assert_eq!(*running.store.groups.lock().unwrap(), [1, 5, 2]);
        assert_eq!(stored(&running.store).await, [1, 2, 3, 4, 5, 6, 7, 8], "in the order in which they came");
    }

    #[tokio::test]
    async fn a_full_queue_refuses_and_a_dropped_slot_gives_its_place_back() {
        let running = start(Faulty::new().await, config(), as_it_is);
        let mut slots: Vec<_> = (0..8).map(|_| running.outbox.reserve().unwrap()).collect();
        assert!(running.outbox.reserve().is_none());
        assert_eq!(running.outbox.health(), OutboxHealth { queued: 8, refused_total: 1, ..OutboxHealth::default() });
        slots.pop();
        assert!(running.outbox.reserve().is_some());
    }

    #[tokio::test]
    async fn a_queue_with_too_much_text_refuses() {
        let store = Faulty { down: true.into(), ..Faulty::new().await };
        let running = start(store, OutboxConfig { max_bytes: 1000, ..config() }, as_it_is);
        let mut large = finished(1, &scope("ann"));
        large.turn.as_mut().unwrap().user[0].text = "x".repeat(1000);
        let committed = running.outbox.reserve().unwrap().finish(large);
        assert!(running.outbox.reserve().is_none());
        running.store.down.store(false, Ordering::Relaxed);
        committed.await.unwrap();
        assert_eq!(running.outbox.health().queued_bytes, 0);
        assert!(running.outbox.reserve().is_some());
    }

    /// Design, doubt 23: when the jobs are full, exchanges pass unremembered, and it is visible.
    #[tokio::test]
    async fn a_full_backlog_refuses_until_it_is_worked_on() {
        let running = start(Faulty::new().await, OutboxConfig { max_backlog: 2, ..config() }, as_it_is);
        put(&running.outbox, 1).await.unwrap();
        put(&running.outbox, 2).await.unwrap();
        while !running.outbox.health().backlog_full {
            tokio::task::yield_now().await;
        }
        assert!(running.outbox.reserve().is_none());
        let results = [learned(1, &scope("ann"), 0)];
        running.store.claim(&claim("me", 1)).await.unwrap();
        running.store.learn("me", &results).await.unwrap();
        while running.outbox.health().backlog_full {
            tokio::task::yield_now().await;
        }
        put(&running.outbox, 3).await.unwrap();
    }

    /// mem0ai/mem0#7196: a store that fails is a loud health state, and nothing is lost.
    #[tokio::test]
    async fn while_the_store_fails_the_group_is_kept_and_tried_again() {
        let store = Faulty { down: true.into(), ..Faulty::new().await };
        let running = start(store, config(), as_it_is);
        let committed = put(&running.outbox, 1);
        while running.outbox.health().failing_since.is_none() {
            tokio::task::yield_now().await;
        }
        let waiting = tokio::time::timeout(Duration::from_millis(20), put(&running.outbox, 2)).await;
        assert!(waiting.is_err(), "it waits; the caller's own timeout releases it");
        assert_eq!(running.outbox.health().failing_since, Some(NOW));
        running.store.down.store(false, Ordering::Relaxed);
        committed.await.unwrap();
        let outbox = running.outbox.clone();
        assert_eq!(stored(&running.stop().await).await, [1, 2]);
        assert_eq!(outbox.health(), OutboxHealth { appended_total: 2, ..OutboxHealth::default() });
    }

    #[tokio::test]
    async fn one_exchange_that_cannot_be_stored_does_not_take_others_with_it() {
        let store = Faulty { poison: Some(ExchangeId(2)), gate: Semaphore::new(0), ..Faulty::new().await };
        let running = start(store, config(), as_it_is);
        let all: Vec<_> = (1..=3).map(|n| put(&running.outbox, n)).collect();
        running.store.gate.add_permits(1000);
        let results: Vec<_> = futures_util::future::join_all(all).await;
        assert_eq!(results, [Ok(()), Err(NotCommitted), Ok(())]);
        let health = running.outbox.health();
        assert_eq!((health.appended_total, health.failed_total, health.failing_since), (2, 1, None));
        assert_eq!(stored(&running.store).await, [1, 3]);
    }

    #[tokio::test]
    async fn a_stop_drains_the_queue_and_waits_for_slots_that_were_reserved_before() {
        let running = start(Faulty::new().await, config(), as_it_is);
        let outbox = running.outbox.clone();
        let late = outbox.reserve().unwrap();
        for n in 1..=5 {
            drop(put(&outbox, n));
        }
        running.stop.cancel();
        while outbox.reserve().is_some() {
            tokio::task::yield_now().await;
        }
        late.finish(finished(6, &scope("ann"))).await.unwrap();
        assert_eq!(stored(&running.stop().await).await, [1, 2, 3, 4, 5, 6]);
    }

    #[tokio::test]
    async fn after_a_stop_a_store_that_keeps_failing_is_given_up() {
        let store = Faulty { down: true.into(), ..Faulty::new().await };
        let running = start(store, config(), as_it_is);
        let (outbox, committed) = (running.outbox.clone(), put(&running.outbox, 1));
        running.stop().await;
        assert_eq!(committed.await, Err(NotCommitted));
        assert_eq!(outbox.health().failed_total, 1);
    }

    #[tokio::test]
    async fn a_commit_whose_answer_was_lost_is_not_stored_twice() {
        let running = start(Faulty::new().await, config(), as_it_is);
        running.store.append(&[finished(1, &scope("ann"))]).await.unwrap();
        running.store.append.lock().unwrap().push_back(unavailable());
        put(&running.outbox, 1).await.unwrap();
        assert_eq!(stored(&running.store).await, [1]);
    }

    /// mem0ai/mem0#6817: secrets are taken out before anything is stored.
    #[tokio::test]
    async fn nothing_is_stored_that_was_not_redacted() {
        fn redact(turn: &mut Turn) {
            assert!(turn.exchange != ExchangeId(2), "a redaction that fails");
            turn.user[0].text = "[redacted]".to_owned();
        }
        let running = start(Faulty::new().await, config(), redact);
        put(&running.outbox, 1).await.unwrap();
        put(&running.outbox, 2).await.unwrap();
        let claimed = running.store.claim(&claim("me", 9)).await.unwrap();
        let texts: Vec<_> = claimed.iter().map(|c| c.turn.user[0].text.as_str()).collect();
        assert_eq!(texts, ["[redacted]"]);
    }
}
