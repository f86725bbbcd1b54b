//! Responses that upstream keeps and that we handed out: to whom, and what was shown with them.
//!
//! A client goes on from a response by its name alone. Behind the operator's own key upstream would let anybody go on from it, so what was
//! not handed out to this scope is not there for it. What was shown with it is kept along: it is the profile of that conversation.

use std::sync::Arc;
use std::time::Duration;

use moka::sync::Cache;
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

use super::States;
use crate::base::Time;
use crate::store::{HandedOut, StateKey, StoreError, TurnState};

/// Names that are kept in the process; what is not here is looked for in the store.
const MAX_NAMES: u64 = 100_000;
/// How long they are kept here.
const TTL: Duration = Duration::from_secs(24 * 3600);
/// So many are being written at a time; of what comes beyond only this process knows.
const WRITING: usize = 1_024;

/// What was shown with a response, for each name that was handed out.
pub(super) struct Names {
    known: Cache<StateKey, Option<Arc<TurnState>>>,
    writing: Arc<Semaphore>,
}

impl Names {
    pub(super) fn new() -> Self {
        let known = Cache::builder().max_capacity(MAX_NAMES).time_to_live(TTL).support_invalidation_closures().build();
        Self { known, writing: Arc::new(Semaphore::new(WRITING)) }
    }

    /// Forgets what was handed out in a scope.
    pub(super) fn forget(&self, key: impl Fn(&StateKey) -> bool + Send + Sync + 'static) {
        // Fails only without `support_invalidation_closures`, which `new` sets.
        if self.known.invalidate_entries_if(move |name, _| key(name)).is_err() {
            self.known.invalidate_all();
        }
    }
}

impl States {
    /// Notes that a response was handed out: at once in this process, and by one of `tasks` in the store.
    pub fn hand_out(&self, handed: HandedOut, tasks: &TaskTracker) {
        let is_of_now = |epoch| self.epochs.get(&handed.scope).is_none_or(|current| current == epoch);
        if !handed.epoch.is_none_or(is_of_now) {
            return;
        }
        let shown = handed.shown.clone().map(Arc::new);
        for (at, prefix) in handed.names.iter().enumerate() {
            let key = StateKey { scope: handed.scope.clone(), prefix: *prefix };
            self.names.known.insert(key, shown.clone().filter(|_| at == 0));
        }
        self.share(&handed);
        let Ok(turn) = Arc::clone(&self.names.writing).try_acquire_owned() else {
            tracing::warn!("the store is behind: a response may be gone on from in this process only");
            return;
        };
        let store = Arc::clone(&self.store);
        tasks.spawn(async move {
            let _turn = turn;
            if let Err(error) = store.hand_out(&handed).await {
                tracing::warn!(%error, "a response may be gone on from in this process only");
            }
        });
    }

    /// Returns what was shown with a response, or an item of one, that was handed out in this scope; `None` when none of that name was.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn handed_out(&self, key: &StateKey, now: Time) -> Result<Option<Option<Arc<TurnState>>>, StoreError> {
        if let Some(known) = self.names.known.get(key) {
            return Ok(Some(known));
        }
        let stored = self.store.handed_out(key, now).await?.map(|shown| shown.map(Arc::new));
        let found = if stored.is_some() { stored } else { self.handed_out_elsewhere(key).await? };
        if let Some(shown) = &found {
            self.names.known.insert(key.clone(), shown.clone());
        }
        Ok(found)
    }

    /// Notes it for the other replicas: the client may be there before the store has it.
    fn share(&self, handed: &HandedOut) {
        let Some(shared) = &self.shared else { return };
        let Some(epoch) = handed.epoch.or_else(|| self.epochs.get(&handed.scope)) else { return };
        for (at, name) in handed.names.iter().enumerate() {
            let shown = handed.shown.as_ref().filter(|_| at == 0);
            if let Ok(text) = serde_json::to_vec(&shown) {
                shared.keep_state(&handed.scope, epoch, *name, text);
            }
        }
    }

    /// What another replica noted a moment ago.
    async fn handed_out_elsewhere(&self, key: &StateKey) -> Result<Option<Option<Arc<TurnState>>>, StoreError> {
        let Some(shared) = &self.shared else { return Ok(None) };
        let epoch = self.epoch(&key.scope).await?;
        let Some(text) = shared.state(&key.scope, epoch, &key.prefix).await else { return Ok(None) };
        Ok(serde_json::from_slice::<Option<TurnState>>(&text).ok().map(|shown| shown.map(Arc::new)))
    }
}
