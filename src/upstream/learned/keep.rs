//! Keeps what is learned in the store, and takes in what other replicas wrote there.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::state::State;
use super::{Held, Learned};
use crate::base::{Clock, Time};
use crate::store::{Store, StoreError, TargetRecord};

/// How often it is written and read. What was learned in between is lost with a crash, and learned again.
const EVERY: Duration = Duration::from_secs(10);
/// Clocks of replicas may differ by so much, in milliseconds.
const SKEW_MILLIS: i64 = 60_000;

/// Reads what is known, then keeps both sides alike until `halt`, and once more at the end.
pub async fn keep(learned: Learned, store: Arc<dyn Store>, clock: Arc<dyn Clock>, halt: CancellationToken) {
    let mut read_at = clock.now();
    let mut failing = false;
    loop {
        let stopping = tokio::select! {
            () = tokio::time::sleep(EVERY) => false,
            () = halt.cancelled() => true,
        };
        let now = clock.now();
        match exchange(&learned, &*store, read_at.plus_millis(-SKEW_MILLIS), now).await {
            Ok(()) => (read_at, failing) = (now, false),
            Err(error) => {
                if !std::mem::replace(&mut failing, true) {
                    tracing::warn!(%error, "what was learned of targets cannot be kept now; trying again");
                }
            }
        }
        if stopping {
            return;
        }
    }
}

/// Takes in what was written since, then writes what is new here.
async fn exchange(learned: &Learned, store: &dyn Store, since: Time, now: Time) -> Result<(), StoreError> {
    learned.take_in(&store.targets(since).await?);
    let mut failed = None;
    for record in learned.unwritten(now) {
        let written = store.put_target(&record).await;
        learned.written(&record, matches!(written, Ok(true)));
        failed = failed.or(written.err());
    }
    failed.map_or(Ok(()), Err)
}

impl Learned {
    /// Reads everything that is known; at the start.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn load(&self, store: &dyn Store) -> Result<(), StoreError> {
        self.take_in(&store.targets(Time(i64::MIN)).await?);
        Ok(())
    }

    pub(super) fn take_in(&self, records: &[TargetRecord]) {
        for record in records {
            let entry = self.targets.get(&record.target).unwrap_or_else(|| self.entry(&record.target, false));
            let mut held = entry.held();
            if record.revision <= held.revision {
                continue;
            }
            let theirs = State::read(&record.body);
            held.state.merge(&theirs);
            held.revision = record.revision;
            held.dirty = held.state != theirs;
            let correction = held.state.corrector.correction();
            if correction.generation > 0 && !entry.exact {
                self.gauges.set_correction(&record.target, correction.ratio, correction.overhead);
            }
            self.gauges.set_window(&record.target, held.state.window.map(|window| window.tokens));
        }
    }

    /// What is new here, as it is to be written.
    pub(super) fn unwritten(&self, now: Time) -> Vec<TargetRecord> {
        let mut records = Vec::new();
        for (target, entry) in &self.targets {
            let Held { state, revision, dirty, .. } = &mut *entry.held();
            if std::mem::take(dirty) {
                let (target, body) = (target.as_str().to_owned(), state.body());
                records.push(TargetRecord { target, revision: *revision, at: now, body });
            }
        }
        records
    }

    /// Notes what became of a write. A row that another replica wrote meanwhile is read the next time, and merged.
    pub(super) fn written(&self, record: &TargetRecord, written: bool) {
        let Some(entry) = self.targets.get(&record.target) else { return };
        let mut held = entry.held();
        if written {
            held.revision = record.revision + 1;
        }
        held.dirty |= !written;
    }
}
