//! What is to be written down of what was used, and how that goes.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::ledger::Unwritten;
use super::meter::{Meter, Shortage, When};
use super::refusal::refusal;
use super::standing::Standing;
use crate::base::{GatewayError, Time};
use crate::store::{BudgetStore, BudgetUse, StoreError};
use crate::telemetry::{LimitOf, Metrics};

/// Rows in one transaction.
const GROUP: usize = 500;

/// For how long budgets are given out while they cannot be written; then their owners are refused (design, doubt 23).
const OUTAGE: Duration = Duration::from_secs(60);
/// `failing_since` while nothing fails.
const NOT_FAILING: i64 = i64::MIN;

/// Which accounts are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    /// All to which something came.
    All,
    /// But not those that can wait.
    Due,
}

/// The accounts whose use is not in the store yet, and what is told of refusals.
#[derive(Debug)]
pub(super) struct Books {
    /// As many as there are accounts at most: each is on it once.
    listed: Mutex<Vec<Arc<Meter>>>,
    started: Instant,
    /// Since when writing fails, in milliseconds from `started`.
    failing_since: AtomicI64,
    pub(super) metrics: Arc<Metrics>,
}

impl Books {
    pub(super) fn new(metrics: Arc<Metrics>) -> Self {
        Self { listed: Mutex::default(), started: Instant::now(), failing_since: AtomicI64::new(NOT_FAILING), metrics }
    }

    /// Has accounts written.
    pub(super) fn list(&self, meters: Vec<Arc<Meter>>) {
        if !meters.is_empty() {
            self.listed.lock().unwrap_or_else(PoisonError::into_inner).extend(meters);
        }
    }

    /// Counts a refusal, and says it.
    pub(super) fn refuse(&self, of: LimitOf, shortage: &Shortage, standing: &Standing) -> GatewayError {
        self.metrics.limited.inc(shortage.limit, of);
        refusal(of, shortage, standing)
    }

    /// Whether writing has failed for so long that no more is given out.
    pub(super) fn are_broken(&self) -> bool {
        let since = self.failing_since.load(Ordering::Relaxed);
        since != NOT_FAILING && self.millis().saturating_sub(since) > OUTAGE.as_millis() as i64
    }

    /// Writes what is listed, or of that what is due. What cannot be written stays listed; only where the store as a whole fails that is an
    /// outage, which ends with refusals.
    pub(super) async fn write(&self, store: &dyn BudgetStore, now: Time, which: Which) -> Result<(), StoreError> {
        let meters = std::mem::take(&mut *self.listed.lock().unwrap_or_else(PoisonError::into_inner));
        let when = When::new(Instant::now(), now);
        let is_due = |meter: &Arc<Meter>| which == Which::All || meter.lock().is_due(&when);
        let (meters, mut again): (Vec<_>, Vec<_>) = meters.into_iter().partition(is_due);
        let mut result = Ok(());
        let mut is_down = false;
        // An account has a day and a month at most, but around midnight.
        for group in meters.chunks(GROUP / 2) {
            // They are listed still: nobody else puts them back.
            if is_down {
                again.extend_from_slice(group);
                continue;
            }
            match write_group(store, group, now).await {
                Ok(unwritten) => again.extend(unwritten),
                Err(error) => {
                    again.extend_from_slice(group);
                    // What is wrong with one group is no matter of the others.
                    is_down = error.is_outage();
                    result = Err(error);
                }
            }
        }
        self.list(again);
        if result.is_err() {
            self.metrics.budget_write_failures.inc();
        }
        let relaxed = Ordering::Relaxed;
        if is_down {
            let _failing_already = self.failing_since.compare_exchange(NOT_FAILING, self.millis(), relaxed, relaxed);
        } else {
            self.failing_since.store(NOT_FAILING, relaxed);
        }
        result
    }

    fn millis(&self) -> i64 {
        i64::try_from(self.started.elapsed().as_millis()).unwrap_or(i64::MAX)
    }
}

/// Writes what came to a group of accounts; returns those to which something came meanwhile.
async fn write_group(store: &dyn BudgetStore, group: &[Arc<Meter>], now: Time) -> Result<Vec<Arc<Meter>>, StoreError> {
    let mut uses: Vec<BudgetUse> = Vec::with_capacity(group.len());
    let mut written: Vec<(&Arc<Meter>, Unwritten)> = Vec::with_capacity(group.len());
    for meter in group {
        for unwritten in meter.lock().ledger.unwritten() {
            uses.push(BudgetUse {
                account: meter.name.clone(),
                period: unwritten.period.name(),
                ends_at: unwritten.period.end(),
                tokens: unwritten.tokens,
                nanos: unwritten.nanos,
            });
            written.push((meter, unwritten));
        }
    }
    let totals = if uses.is_empty() { Vec::new() } else { store.add_budget_use(&uses, now).await? };
    // Who asked the store before this may have heard less.
    let heard = Instant::now();
    for ((meter, unwritten), total) in written.iter().zip(totals) {
        meter.lock().ledger.written(unwritten, total, heard);
    }
    let mut unwritten = Vec::new();
    for meter in group {
        let mut state = meter.lock();
        state.listed = !state.ledger.is_written();
        if state.listed {
            unwritten.push(Arc::clone(meter));
        }
    }
    Ok(unwritten)
}

#[cfg(test)]
impl Books {
    /// As if writing had failed for so long already.
    pub(super) fn fail_for(&self, time: Duration) {
        self.failing_since.store(self.millis() - time.as_millis() as i64, Ordering::Relaxed);
    }

    pub(super) fn is_failing(&self) -> bool {
        self.failing_since.load(Ordering::Relaxed) != NOT_FAILING
    }

    pub(super) fn n_listed(&self) -> usize {
        self.listed.lock().unwrap().len()
    }
}
