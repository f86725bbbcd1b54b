//! Writes what was used of days and months, and forgets who has not asked for long.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::LimitTable;
use super::books::Which;
use crate::base::{Clock, Time};
use crate::store::StoreError;

/// How often use is written. What was settled since is lost with kill -9: of accounts that have used less than half, what was in ten seconds.
const WRITE_EVERY: Duration = Duration::from_secs(1);
/// After how many of those rounds idle accounts are dropped.
const ROUNDS_TO_SWEEP: u32 = 60;
/// Accounts that were asked for within this time stay, idle or not.
const UNTOUCHED: Duration = Duration::from_secs(600);
/// How long the store keeps what was used of a period that is over, in seconds.
const KEEP_SECONDS: i64 = 7 * 24 * 3_600;
/// Rows that are forgotten at once.
const FORGET_AT_ONCE: u32 = 10_000;

/// Keeps the books of `table` until `halt`, and writes them once more at the end, when all replies have ended.
pub async fn keep_budgets(table: Arc<LimitTable>, clock: Arc<dyn Clock>, halt: CancellationToken) {
    let mut failing = false;
    let mut round = 0_u32;
    if let Err(error) = table.read_latest(clock.now()).await {
        tracing::warn!(%error, "it cannot be read when limits were written last");
    }
    loop {
        let stopping = tokio::select! {
            () = tokio::time::sleep(WRITE_EVERY) => false,
            () = halt.cancelled() => true,
        };
        let written = if stopping { table.write(clock.now()).await } else { table.write_due(clock.now()).await };
        match written {
            Ok(()) => failing = false,
            Err(error) => {
                if !std::mem::replace(&mut failing, true) {
                    let then =
                        if error.is_outage() { "; in a minute those who have such limits are refused" } else { "" };
                    tracing::error!(%error, "what was used of limits of the day and the month cannot be written{then}");
                }
            }
        }
        if stopping {
            return;
        }
        round = round.wrapping_add(1);
        if round.is_multiple_of(ROUNDS_TO_SWEEP) {
            table.sweep(clock.now()).await;
        }
    }
}

impl LimitTable {
    /// Writes what was used of days and months since the last time.
    ///
    /// # Errors
    /// The store cannot be written; what was to be written is tried again the next time.
    pub async fn write(&self, now: Time) -> Result<(), StoreError> {
        self.write_some(now, Which::All).await
    }

    /// The same of the accounts that are near a limit, or were not written for long.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub async fn write_due(&self, now: Time) -> Result<(), StoreError> {
        self.write_some(now, Which::Due).await
    }

    async fn write_some(&self, now: Time, which: Which) -> Result<(), StoreError> {
        match &self.held.store {
            Some(store) => self.held.books.write(&**store, now, which).await,
            None => Ok(()),
        }
    }

    /// Takes over when use was written last: a clock that jumped back over a restart does not make a budget whole.
    pub(super) async fn read_latest(&self, now: Time) -> Result<(), StoreError> {
        if let Some(store) = &self.held.store
            && let Some(latest) = store.budgets_written_at().await?
        {
            self.wall(latest);
            // One that is far ahead was wrong.
            self.wall(now);
        }
        Ok(())
    }

    /// Drops idle accounts, and what is over.
    async fn sweep(&self, now: Time) {
        self.drop_past(now);
        self.drop_idle(Instant::now(), UNTOUCHED);
        self.held.books.metrics.set_limit_accounts(self.len());
        if let Some(store) = &self.held.store
            && let Err(error) = store.forget_budgets(now.plus_seconds(-KEEP_SECONDS), FORGET_AT_ONCE).await
        {
            tracing::warn!(%error, "limits of days that are over cannot be forgotten");
        }
    }
}
