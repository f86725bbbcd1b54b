//! What is known of summaries in this process.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use moka::sync::Cache;

use super::Owner;
use crate::context::summary::Summary;
use crate::conversation::Hash;

/// Summaries that are kept in the process, in bytes.
const MAX_BYTES: u64 = 16 * 1024 * 1024;
/// After a summary came to nothing it is not tried again for so long.
const REST: Duration = Duration::from_secs(600);
/// So many that came to nothing are remembered.
const MAX_RESTING: u64 = 100_000;

/// Summaries that were made, those that came to nothing, and the conversations that are at work.
#[derive(Debug)]
pub(super) struct Memory {
    made: Cache<Hash, Made>,
    resting: Cache<Hash, ()>,
    /// By conversation: no more than jobs wait or run.
    busy: Mutex<HashMap<Hash, Busy>>,
}

#[derive(Clone, Debug)]
struct Made {
    start: Hash,
    epoch: i64,
    summary: Summary,
}

#[derive(Debug)]
struct Busy {
    start: Hash,
    forgotten: bool,
}

impl Memory {
    pub(super) fn new(keep: Duration) -> Self {
        let weigh = |_: &Hash, made: &Made| u32::try_from(made.summary.text.len() + 200).unwrap_or(u32::MAX);
        let made = Cache::builder().weigher(weigh).max_capacity(MAX_BYTES).time_to_idle(keep);
        Self {
            made: made.support_invalidation_closures().build(),
            resting: Cache::builder().max_capacity(MAX_RESTING).time_to_live(REST).build(),
            busy: Mutex::default(),
        }
    }

    /// Whether there is nothing to do for this state: its summary is made, or came to nothing a moment ago.
    pub(super) fn settled_for(&self, owner: &Owner, covers: Hash) -> bool {
        self.get(owner, &covers).is_some() || self.resting.contains_key(&covers)
    }

    fn get(&self, owner: &Owner, covers: &Hash) -> Option<Summary> {
        self.made.get(covers).filter(|made| made.epoch == owner.epoch).map(|made| made.summary)
    }

    /// The first of these states' summaries that was made here.
    pub(super) fn newest(&self, owner: &Owner, candidates: &[Hash]) -> Option<Summary> {
        candidates.iter().find_map(|covers| self.get(owner, covers))
    }

    pub(super) fn keep(&self, owner: &Owner, summary: Summary) {
        self.made.insert(summary.covers, Made { start: owner.start, epoch: owner.epoch, summary });
    }

    /// Keeps the summary that this conversation's job made; `false`, and nothing is kept, when it was forgotten meanwhile.
    pub(super) fn keep_unless_forgotten(&self, session: &Hash, owner: &Owner, summary: Summary) -> bool {
        let busy = self.busy();
        let stands = busy.get(session).is_some_and(|busy| !busy.forgotten);
        if stands {
            self.keep(owner, summary);
        }
        stands
    }

    pub(super) fn rest(&self, covers: Hash) {
        self.resting.insert(covers, ());
    }

    /// Marks a conversation as at work; `false` when it is already.
    pub(super) fn begin(&self, session: Hash, start: Hash) -> bool {
        let mut busy = self.busy();
        if busy.contains_key(&session) {
            return false;
        }
        busy.insert(session, Busy { start, forgotten: false });
        true
    }

    pub(super) fn end(&self, session: Hash) {
        self.busy().remove(&session);
    }

    /// Whether what this conversation's job is made of was erased meanwhile.
    pub(super) fn is_forgotten(&self, session: &Hash) -> bool {
        self.busy().get(session).is_none_or(|busy| busy.forgotten)
    }

    pub(super) fn forget(&self, start: Hash) {
        for busy in self.busy().values_mut().filter(|busy| busy.start == start) {
            busy.forgotten = true;
        }
        // Fails only without `support_invalidation_closures`, which `new` sets.
        if self.made.invalidate_entries_if(move |_, made| made.start == start).is_err() {
            self.made.invalidate_all();
        }
    }

    pub(super) fn n_busy(&self) -> usize {
        self.busy().len()
    }

    fn busy(&self) -> MutexGuard<'_, HashMap<Hash, Busy>> {
        self.busy.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
