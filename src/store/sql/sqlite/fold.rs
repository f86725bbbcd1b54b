//! Folds the write-ahead log into the database while others write.
//!
//! Left to itself, SQLite does so at the end of the commit that makes the log long enough: that write and all behind it wait for thousands of
//! pages to be written and flushed, which is seen by every hundredth reply. Here another connection flushes the log and writes the pages
//! beside the writer. Between two writes the few pages that came meanwhile are folded in as well, so that the log begins anew; SQLite
//! flushes the database only then, with all that was written to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use sqlx::sqlite::SqlitePool;
use tokio::sync::Notify;

/// Pages of 4 KiB that the log has when it is folded in, about. More are written and flushed in one go, which those who write meanwhile notice:
/// at 1,000 exchanges a second the 99th percentile was 4 to 7 ms with so many, 8 with four times as many, 10 and more with sixteen times.
const LOG_PAGES: u32 = 1_000;
/// Where so many pages are there all the same, as after one very large write, SQLite does it at once.
pub(super) const MAX_LOG_PAGES: u32 = 4 * LOG_PAGES;
/// Writes from one time to the next. How many pages a write makes is seen from how long the log was the last time.
const MIN_WRITES: u32 = 16;
const MAX_WRITES: u32 = 4_000;
const FIRST_WRITES: u32 = 50;

/// Does nothing to a log that readers still need, and waits for nobody. Returns whether it was kept from it, the pages in the log, and how
/// many of them are folded in.
const FOLD: &str = "PRAGMA wal_checkpoint(PASSIVE)";

/// Counts writes until the log is to be folded in.
#[derive(Debug)]
pub(super) struct Pace {
    writes: AtomicU32,
    every: AtomicU32,
    due: Notify,
}

impl Default for Pace {
    fn default() -> Self {
        Self { writes: AtomicU32::new(0), every: AtomicU32::new(FIRST_WRITES), due: Notify::new() }
    }
}

impl Pace {
    /// Says that something was written.
    pub(super) fn written(&self) {
        if self.writes.fetch_add(1, Ordering::Relaxed) + 1 >= self.every.load(Ordering::Relaxed) {
            self.due.notify_one();
        }
    }

    /// Counts from the beginning; returns how many writes there were, once there are enough.
    fn begin_anew(&self) -> Option<u32> {
        let writes = self.writes.swap(0, Ordering::Relaxed);
        (writes >= self.every.load(Ordering::Relaxed)).then_some(writes)
    }

    /// Learns how long the log was after so many writes.
    fn learn(&self, writes: u32, pages: u32) {
        let every = u64::from(writes) * u64::from(LOG_PAGES) / u64::from(pages.max(1));
        let every = u32::try_from(every).unwrap_or(MAX_WRITES).clamp(MIN_WRITES, MAX_WRITES);
        self.every.store(every, Ordering::Relaxed);
    }
}

/// Folds the log in whenever it is due, until the pools are closed.
pub(super) async fn keep_folding(pace: Arc<Pace>, beside: SqlitePool, writer: SqlitePool) {
    loop {
        pace.due.notified().await;
        // May have been told of twice.
        let Some(writes) = pace.begin_anew() else { continue };
        let folded = async {
            pace.learn(writes, fold(&beside).await?);
            fold(&writer).await
        };
        match folded.await {
            Ok(_) => {}
            Err(sqlx::Error::PoolClosed) => return,
            // What is wrong with a disk is told by those who write to it. The log stays as it is until the next time.
            Err(error) => tracing::debug!(%error, "could not fold in the write-ahead log"),
        }
    }
}

/// Returns how many pages the log had.
async fn fold(pool: &SqlitePool) -> Result<u32, sqlx::Error> {
    let (_, pages, _) = sqlx::query_as::<_, (i64, i64, i64)>(FOLD).fetch_one(pool).await?;
    Ok(u32::try_from(pages).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_often_it_is_done_follows_how_long_the_log_was() {
        let pace = Pace::default();
        let after = |writes: u32, pages: u32| {
            (0..writes).for_each(|_| pace.written());
            pace.learn(pace.begin_anew().expect("it is due"), pages);
            assert_eq!(pace.begin_anew(), None, "it was done");
            pace.every.load(Ordering::Relaxed)
        };
        assert_eq!(after(100, 500), 200, "twice as many would have made the log that we want");
        assert_eq!(after(200, 10_000), 20);
        assert_eq!(after(20, 1_000_000), MIN_WRITES, "one write was very large");
        assert_eq!(after(16, 0), MAX_WRITES, "someone else has folded it in");
    }
}
