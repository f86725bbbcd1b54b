//! The way of a usage row into the books, for exchanges that leave nothing else: a bounded queue and one writer that books in groups.
//!
//! A line is reserved before the request is sent on ([`Journal::reserve`]) and written when the exchange ends ([`Line::write`], callable
//! from a destructor). What goes through the outbox is booked in its transaction instead, and its line is given back.
//!
//! Rows wait a moment ([`JournalConfig::gather`]) for others, since a commit costs more than many rows: kill -9 loses what came in that moment. While the
//! store fails the writer keeps its group and tries again; the queue fills, and what finds no line is lost, and counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::policy::Backoff;
use crate::store::{UsageRow, UsageStore};

/// How large the queue and its groups are, and how patient the writer is.
#[derive(Clone, Debug)]
pub struct JournalConfig {
    /// Lines, reserved and waiting; when all are taken, [`Journal::reserve`] refuses.
    pub capacity: usize,
    /// Most rows that are booked at once.
    pub max_group: usize,
    /// How long the first row of a group waits for others.
    pub gather: Duration,
    /// Pauses while the store fails. `max_attempts` counts for what may not be tried for ever: rows that the store refuses for another
    /// reason than not being available, and everything after the stop.
    pub backoff: Backoff,
}

impl Default for JournalConfig {
    fn default() -> Self {
        Self {
            capacity: 8_192,
            max_group: 512,
            gather: Duration::from_millis(100),
            backoff: Backoff { first: Duration::from_millis(50), longest: Duration::from_secs(5), max_attempts: 5 },
        }
    }
}

/// What an operator wants to know about the journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JournalHealth {
    /// Lines reserved or waiting.
    pub queued: u64,
    /// Whether the store refused the last group.
    pub failing: bool,
    /// Rows booked.
    pub booked_total: u64,
    /// Exchanges that are in no book: there was no line, or the store refused the row for good.
    pub lost_total: u64,
}

/// The handle of the journal; cheap to clone.
#[derive(Clone, Debug)]
pub struct Journal {
    queue: mpsc::Sender<Entry>,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    capacity: u64,
    in_hand: AtomicU64,
    failing: AtomicBool,
    booked: AtomicU64,
    lost: AtomicU64,
    /// Somebody waits for what was written.
    hurry: Notify,
}

#[derive(Debug)]
enum Entry {
    Row(Box<UsageRow>),
    /// All that was written before is to be booked now.
    Flush(oneshot::Sender<()>),
}

/// Starts the writer on `tracker`, and returns its handle. On `stop` it books what is queued and what still comes on lines that were
/// reserved before, and ends.
pub fn journal(
    store: Arc<dyn UsageStore>,
    config: JournalConfig,
    tracker: &TaskTracker,
    stop: CancellationToken,
) -> Journal {
    let capacity = config.capacity.max(1);
    let (queue, entries) = mpsc::channel(capacity);
    let shared = Arc::new(Shared { capacity: capacity as u64, ..Shared::default() });
    tracker.spawn(Writer { store, config, stop, shared: Arc::clone(&shared) }.run(entries));
    Journal { queue, shared }
}

impl Journal {
    /// Reserves a line; never waits. When all are taken, or the writer has stopped, it is one on which nothing can be written.
    #[must_use]
    pub fn reserve(&self) -> Line {
        Line { place: self.queue.clone().try_reserve_owned().ok(), shared: Arc::clone(&self.shared) }
    }

    /// Resolves when all rows that were written before are in the store.
    ///
    /// Cancel safe: dropping it changes nothing. A store may take long to fail: bound it with a timeout.
    pub async fn flush(&self) {
        let (done, flushed) = oneshot::channel();
        if self.queue.send(Entry::Flush(done)).await.is_ok() {
            // Where the writer had it already, a later group goes a moment early, which does no harm.
            self.shared.hurry.notify_one();
            // The writer ended: what it had is booked or lost.
            let _ = flushed.await;
        }
    }

    /// How the journal is doing.
    #[must_use]
    pub fn health(&self) -> JournalHealth {
        let shared = &self.shared;
        let taken = shared.capacity.saturating_sub(self.queue.capacity() as u64);
        JournalHealth {
            queued: taken + shared.in_hand.load(Ordering::Relaxed),
            failing: shared.failing.load(Ordering::Relaxed),
            booked_total: shared.booked.load(Ordering::Relaxed),
            lost_total: shared.lost.load(Ordering::Relaxed),
        }
    }
}

/// A reserved line. Dropping it gives it back.
#[derive(Debug)]
pub struct Line {
    /// `None` = all were taken.
    place: Option<mpsc::OwnedPermit<Entry>>,
    shared: Arc<Shared>,
}

impl Line {
    /// Writes what an exchange used, or counts it as lost; never waits, so a destructor may call it.
    pub fn write(self, row: Box<UsageRow>) {
        match self.place {
            Some(place) => {
                place.send(Entry::Row(row));
            }
            None => {
                self.shared.lost.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

struct Writer {
    store: Arc<dyn UsageStore>,
    config: JournalConfig,
    stop: CancellationToken,
    shared: Arc<Shared>,
}

impl Writer {
    async fn run(self, mut entries: mpsc::Receiver<Entry>) {
        let max_group = self.config.max_group.max(1);
        let mut taken = Vec::with_capacity(max_group);
        loop {
            tokio::select! {
                n = entries.recv_many(&mut taken, max_group) => {
                    // Closed, empty, and no reserved line is left that could still be written.
                    if n == 0 {
                        return;
                    }
                }
                () = self.stop.cancelled(), if !entries.is_closed() => {
                    entries.close();
                    continue;
                }
            }
            self.gather(&mut entries, &mut taken).await;
            let mut group = Vec::with_capacity(taken.len());
            let mut waiting = Vec::new();
            for entry in taken.drain(..) {
                match entry {
                    Entry::Row(row) => group.push(*row),
                    Entry::Flush(done) => waiting.push(done),
                }
            }
            self.shared.in_hand.store(group.len() as u64, Ordering::Relaxed);
            self.book(&group).await;
            self.shared.in_hand.store(0, Ordering::Relaxed);
            for done in waiting {
                // Who asked may have gone.
                let _ = done.send(());
            }
        }
    }

    /// Waits for more, unless someone waits for these, or for the end. What comes meanwhile wakes nobody: to be woken for each row would cost
    /// more than to book it.
    async fn gather(&self, entries: &mut mpsc::Receiver<Entry>, taken: &mut Vec<Entry>) {
        let max_group = self.config.max_group;
        if taken.len() >= max_group || taken.iter().any(|entry| matches!(entry, Entry::Flush(_))) {
            return;
        }
        tokio::select! {
            () = tokio::time::sleep(self.config.gather) => {}
            () = self.shared.hurry.notified() => {}
            () = self.stop.cancelled() => {}
        }
        while taken.len() < max_group
            && let Ok(entry) = entries.try_recv()
        {
            taken.push(entry);
        }
    }

    /// Books a group; tries again while the store is not available.
    async fn book(&self, group: &[UsageRow]) {
        if group.is_empty() {
            return;
        }
        let mut failures = 0;
        loop {
            let error = match self.store.book(group).await {
                Ok(()) => {
                    self.shared.failing.store(false, Ordering::Relaxed);
                    self.shared.booked.fetch_add(group.len() as u64, Ordering::Relaxed);
                    return;
                }
                Err(error) => error,
            };
            failures += 1;
            // Once per outage, not once per try.
            if !self.shared.failing.swap(true, Ordering::Relaxed) {
                tracing::error!(%error, "usage cannot be booked; it is tried again");
            }
            let may_pass = error.is_outage();
            if failures >= self.config.backoff.max_attempts && (!may_pass || self.stop.is_cancelled()) {
                tracing::error!(%error, rows = group.len(), "usage was given up: it is in no book");
                self.shared.lost.fetch_add(group.len() as u64, Ordering::Relaxed);
                return;
            }
            tokio::time::sleep(self.config.backoff.pause(failures, u64::MAX)).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use async_trait::async_trait;

    use super::*;
    use crate::base::Time;
    use crate::store::contract::usage::row;
    use crate::store::{StoreError, UsageGroup, UsageQuery};

    /// Takes what it is given, unless it is to fail.
    #[derive(Debug, Default)]
    struct Books {
        groups: Mutex<Vec<usize>>,
        failures: Mutex<Vec<StoreError>>,
    }

    #[async_trait]
    impl UsageStore for Books {
        async fn book(&self, rows: &[UsageRow]) -> Result<(), StoreError> {
            if let Some(error) = self.failures.lock().unwrap().pop() {
                return Err(error);
            }
            self.groups.lock().unwrap().push(rows.len());
            Ok(())
        }

        async fn usage(&self, _: &UsageQuery) -> Result<Vec<UsageGroup>, StoreError> {
            Ok(Vec::new())
        }

        async fn sweep_usage(&self, _: Time, _: u32) -> Result<u64, StoreError> {
            Ok(0)
        }
    }

    struct Fixture {
        books: Arc<Books>,
        journal: Journal,
        tracker: TaskTracker,
        stop: CancellationToken,
    }

    fn fixture(config: JournalConfig, failures: Vec<StoreError>) -> Fixture {
        let books = Arc::new(Books { failures: Mutex::new(failures), ..Books::default() });
        let (tracker, stop) = (TaskTracker::new(), CancellationToken::new());
        let journal = journal(Arc::clone(&books) as Arc<_>, config, &tracker, stop.clone());
        Fixture { books, journal, tracker, stop }
    }

    impl Fixture {
        fn write(&self, n: u32) {
            self.journal.reserve().write(Box::new(row(n, "k", None)));
        }

        fn groups(&self) -> Vec<usize> {
            self.books.groups.lock().unwrap().clone()
        }
    }

    fn unavailable() -> StoreError {
        StoreError::Unavailable("locked".to_owned())
    }

    /// A writer that waits for nobody longer than a moment.
    fn hasty() -> JournalConfig {
        let moment = Duration::from_millis(1);
        let backoff = Backoff { first: moment, longest: moment, max_attempts: 3 };
        JournalConfig { gather: moment, backoff, ..JournalConfig::default() }
    }

    /// A writer that books only what someone waits for.
    fn patient() -> JournalConfig {
        JournalConfig { gather: Duration::from_secs(3_600), ..hasty() }
    }

    async fn until(mut what: impl FnMut() -> bool) {
        let patience = tokio::time::timeout(Duration::from_secs(20), async {
            while !what() {
                tokio::task::yield_now().await;
            }
        });
        patience.await.expect("it happens within seconds");
    }

    #[tokio::test]
    async fn rows_that_come_close_together_are_booked_as_one_group() {
        let f = fixture(patient(), Vec::new());
        for n in 0..3 {
            f.write(n);
        }
        f.journal.flush().await;
        assert_eq!(f.groups(), [3]);
        assert_eq!(f.journal.health(), JournalHealth { booked_total: 3, ..JournalHealth::default() });
    }

    #[tokio::test]
    async fn a_row_is_booked_though_no_other_comes() {
        let f = fixture(hasty(), Vec::new());
        f.write(0);
        until(|| f.groups() == [1]).await;
    }

    #[tokio::test]
    async fn a_flush_waits_for_what_was_written_before_and_for_no_longer() {
        let f = fixture(patient(), Vec::new());
        f.journal.flush().await;
        f.write(0);
        // The writer has the first row in hand and waits for others.
        until(|| f.journal.health().queued == 0).await;
        f.write(1);
        f.journal.flush().await;
        assert_eq!(f.groups().iter().sum::<usize>(), 2);
    }

    #[tokio::test]
    async fn when_all_lines_are_taken_what_would_be_written_on_the_next_is_lost_and_counted() {
        let f = fixture(JournalConfig { capacity: 2, ..hasty() }, Vec::new());
        let lines: Vec<_> = (0..2).map(|_| f.journal.reserve()).collect();
        // What is booked elsewhere gives its line back.
        drop(f.journal.reserve());
        assert_eq!(f.journal.health().lost_total, 0);
        f.write(0);
        assert_eq!(f.journal.health().lost_total, 1);
        drop(lines);
        f.write(1);
        until(|| f.groups() == [1]).await;
        assert_eq!(f.journal.health().lost_total, 1);
    }

    #[tokio::test]
    async fn while_the_store_is_away_rows_wait() {
        let f = fixture(hasty(), (0..20).map(|_| unavailable()).collect());
        f.write(0);
        until(|| f.journal.health().failing).await;
        assert_eq!(f.journal.health().queued, 1);
        until(|| f.groups() == [1]).await;
        until(|| !f.journal.health().failing).await;
        assert_eq!(f.journal.health().lost_total, 0);
    }

    #[tokio::test]
    async fn what_the_store_will_never_take_is_given_up_and_counted() {
        let refused = || StoreError::Conflict { what: "a row".to_owned() };
        let f = fixture(hasty(), (0..3).map(|_| refused()).collect());
        f.write(0);
        until(|| f.journal.health().lost_total == 1).await;
        f.write(1);
        f.journal.flush().await;
        assert_eq!(f.groups(), [1]);
    }

    #[tokio::test]
    async fn the_end_waits_for_lines_that_are_still_open() {
        let f = fixture(patient(), Vec::new());
        let open = f.journal.reserve();
        f.write(0);
        f.stop.cancel();
        until(|| f.groups() == [1]).await;
        open.write(Box::new(row(1, "k", None)));
        f.tracker.close();
        f.tracker.wait().await;
        assert_eq!(f.groups(), [1, 1]);
        f.write(2);
        assert_eq!(f.journal.health().lost_total, 1);
    }
}
