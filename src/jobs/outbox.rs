//! The way from a finished exchange to a durable row: a bounded queue and one writer that commits in groups.
//!
//! Nobody waits to put something in: a place is reserved before the request is sent on ([`Outbox::reserve`], refused
//! when the queue is full) and filled when the reply ends ([`Slot::finish`], callable from a destructor). The writer
//! takes what is there and commits it in one transaction; while it does so the next group gathers. An idle writer
//! commits a single exchange at once.
//!
//! What can be learned at once is ([`AtOnce`]): then the group's transaction stores what an exchange taught instead of the exchange.
//!
//! While the store fails the writer keeps its group and tries again; the queue fills, and then `reserve` refuses. Nobody
//! waits for a store that keeps failing: who asks is told at once that the exchange is not durable yet.

mod writer;

#[cfg(test)]
mod tests;

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::{Notify, mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use writer::Writer;

use super::at_once::AtOnce;
use super::policy::Backoff;
use crate::base::{Clock, Time};
use crate::memory::Turn;
use crate::store::{Finished, OutboxStore};

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
    /// Exchanges of which was said that they are not durable yet, because the store fails.
    pub released_total: u64,
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
    /// What the store said to the last try; empty while it works.
    why: Mutex<String>,
    /// Whether it failed again when it was tried again: then nobody is kept waiting for it.
    keeps_failing: AtomicBool,
    backlog_full: AtomicBool,
    appended: AtomicU64,
    failed: AtomicU64,
    refused: AtomicU64,
    released: AtomicU64,
    appended_notify: Arc<Notify>,
}

/// `failing_since` while nothing fails.
const NOT_FAILING: i64 = i64::MIN;

#[derive(Debug)]
struct Job {
    finished: Finished,
    bytes: u64,
    done: oneshot::Sender<Result<(), NotCommitted>>,
}

/// Starts the writer on `tracker`, and returns its handle. Without `at_once` every exchange waits for the worker.
///
/// On `stop` the writer takes no new reservations, commits
/// what is queued and what still comes through slots that were reserved before, and ends.
pub fn outbox(
    store: Arc<dyn OutboxStore>,
    config: OutboxConfig,
    redact: Redact,
    at_once: Option<Arc<dyn AtOnce>>,
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
        why: Mutex::default(),
        keeps_failing: AtomicBool::new(false),
        backlog_full: AtomicBool::new(false),
        appended: AtomicU64::new(0),
        failed: AtomicU64::new(0),
        refused: AtomicU64::new(0),
        released: AtomicU64::new(0),
        appended_notify: Arc::new(Notify::new()),
    });
    let writer = Writer { store, config, redact, at_once, clock, stop, shared: Arc::clone(&shared) };
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
            released_total: shared.released.load(Ordering::Relaxed),
        }
    }

    /// Why the store cannot be written, as it says itself; `None` while it can.
    #[must_use]
    pub fn why_failing(&self) -> Option<String> {
        let why = self.shared.why.lock().unwrap_or_else(PoisonError::into_inner).clone();
        (!why.is_empty()).then_some(why)
    }

    /// Is notified after each committed group of which something waits; for the one worker that waits for work.
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
        let (mut done, committed) = oneshot::channel();
        if self.shared.keeps_failing.load(Ordering::Relaxed) {
            self.shared.release(done);
            // Nobody waits for the answer to this one.
            (done, _) = oneshot::channel();
        }
        let bytes = text_bytes(&finished);
        self.shared.queued_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.place.send(Job { finished, bytes, done });
        Committed(committed)
    }
}

/// Resolves when the exchange is durable, or when it is known that it will not be soon. A store may take long to
/// fail: bound it with a timeout.
///
/// Cancel safe: dropping it changes nothing.
#[derive(Debug)]
pub struct Committed(oneshot::Receiver<Result<(), NotCommitted>>);

/// Why the exchange is not durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotCommitted {
    /// It was given up: it is not stored and will not be remembered.
    #[error("the exchange could not be stored")]
    GivenUp,
    /// The store fails; the exchange waits in memory until it works again.
    #[error("the store fails, the exchange waits in memory")]
    StoreFails,
}

impl Future for Committed {
    type Output = Result<(), NotCommitted>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx).map(|done| done.unwrap_or(Err(NotCommitted::GivenUp)))
    }
}

impl Shared {
    fn set_why(&self, why: String) {
        *self.why.lock().unwrap_or_else(PoisonError::into_inner) = why;
    }

    /// Tells who waits for an exchange that it is not durable yet.
    fn release(&self, done: oneshot::Sender<Result<(), NotCommitted>>) {
        self.released.fetch_add(1, Ordering::Relaxed);
        // Nobody waits any more: the client was released by its own timeout, or left.
        let _ = done.send(Err(NotCommitted::StoreFails));
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
