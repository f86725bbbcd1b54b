//! Conversation states: what was fixed when a user turn was first seen, with a cache in front of the store.
//!
//! A state is a function of the message prefix, so every process finds the same one; this module only makes that cheap. States are
//! written to the store by the outbox, together with the exchange they came up with; here they go into the
//! cache at once, for the next request of a tool loop. Where there are several replicas, that request may come to another one: then they go
//! to Redis as well, and the epoch of a scope is asked of the store each time, so that nothing goes by one that another replica ended.

mod handed;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use moka::sync::Cache;

use crate::base::Time;
use crate::memory::Scope;
use crate::shared::Shared;
use crate::store::{StateKey, Store, StoreError, TurnState};

/// States kept in the process, in bytes.
const CACHE_BYTES: u64 = 32 * 1024 * 1024;
/// Scopes whose epoch is kept in the process.
const MAX_EPOCHS: u64 = 100_000;
/// How long another process's erasure may go unnoticed by the *write* side. What is shown never depends on it.
const EPOCH_TTL: Duration = Duration::from_secs(5);
/// Prefixes that the store is known to have no state of: a history that we have not seen, asked about by several requests.
const MAX_ABSENT: u64 = 10_000;
/// How long that is believed. A state that another process makes meanwhile is found later; until then the profile is shown as it is now.
const ABSENT_TTL: Duration = Duration::from_secs(5);

/// The conversation states.
pub struct States {
    store: Arc<dyn Store>,
    /// What the replicas share; `None` = no Redis.
    shared: Option<Arc<Shared>>,
    has_replicas: bool,
    cache: Cache<StateKey, Arc<TurnState>>,
    absent: Cache<StateKey, ()>,
    epochs: Cache<Scope, i64>,
    names: handed::Names,
}

impl fmt::Debug for States {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("States").field("cached", &self.cache.entry_count()).finish_non_exhaustive()
    }
}

impl States {
    /// Puts a cache in front of `store`.
    pub fn new(store: Arc<dyn Store>) -> Self {
        let weigh = |_: &StateKey, state: &Arc<TurnState>| {
            let ids = state.profile_facts.len() + state.facts.len() + state.episodes.len();
            u32::try_from(256 + state.profile.len() + state.recollection.len() + 16 * ids).unwrap_or(u32::MAX)
        };
        Self {
            store,
            shared: None,
            has_replicas: false,
            cache: Cache::builder().max_capacity(CACHE_BYTES).weigher(weigh).support_invalidation_closures().build(),
            absent: Cache::builder().max_capacity(MAX_ABSENT).time_to_live(ABSENT_TTL).build(),
            epochs: Cache::builder().max_capacity(MAX_EPOCHS).time_to_live(EPOCH_TTL).build(),
            names: handed::Names::new(),
        }
    }

    /// The same where other processes use the store too, and share states through `shared`.
    #[must_use]
    pub fn among_replicas(self, shared: Option<Arc<Shared>>) -> Self {
        Self { shared, has_replicas: true, ..self }
    }

    /// Bytes that are held, by their own count.
    #[must_use]
    pub fn held_bytes(&self) -> u64 {
        self.cache.weighted_size()
    }

    /// Returns the state under a prefix, if there is one that has not expired.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn get(&self, key: &StateKey, now: Time) -> Result<Option<Arc<TurnState>>, StoreError> {
        if let Some(state) = self.cache.get(key) {
            return Ok(Some(state).filter(|state| state.expires_at > now));
        }
        if let Some(state) = self.shared(key).await {
            self.cache.insert(key.clone(), Arc::clone(&state));
            return Ok(Some(state).filter(|state| state.expires_at > now));
        }
        if self.absent.contains_key(key) {
            return Ok(None);
        }
        let Some(state) = self.store.turn_state(key, now).await? else {
            self.absent.insert(key.clone(), ());
            return Ok(None);
        };
        let state = Arc::new(state);
        self.cache.insert(key.clone(), Arc::clone(&state));
        Ok(Some(state))
    }

    /// The state as another replica has it, of the scope's present epoch.
    async fn shared(&self, key: &StateKey) -> Option<Arc<TurnState>> {
        let shared = self.shared.as_ref()?;
        let epoch = self.epochs.get(&key.scope)?;
        let state = shared.state(&key.scope, epoch, &key.prefix).await?;
        serde_json::from_slice(&state).ok().map(Arc::new)
    }

    /// Keeps a state in this process, and for the other replicas, unless its scope was erased since the exchange began.
    pub fn put(&self, key: StateKey, epoch: i64, state: TurnState) {
        if self.epochs.get(&key.scope).is_none_or(|current| current == epoch) {
            self.absent.invalidate(&key);
            if let Some(shared) = &self.shared
                && let Ok(text) = serde_json::to_vec(&state)
            {
                shared.keep_state(&key.scope, epoch, key.prefix, text);
            }
            self.cache.insert(key, Arc::new(state));
        }
    }

    /// Returns the epoch of a scope.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn epoch(&self, scope: &Scope) -> Result<i64, StoreError> {
        let known = self.epochs.get(scope);
        if let Some(epoch) = known.filter(|_| !self.has_replicas) {
            return Ok(epoch);
        }
        let epoch = self.store.scope_state(scope).await?.epoch;
        if known.is_some_and(|known| known != epoch) {
            self.forget(scope);
        }
        self.epochs.insert(scope.clone(), epoch);
        Ok(epoch)
    }

    /// Forgets all states in this process: any may have been erased by another one.
    pub fn forget_all(&self) {
        self.epochs.invalidate_all();
        self.names.forget(|_| true);
        self.cache.invalidate_all();
    }

    /// The same as [`forget`](Self::forget), and in what replicas share: this process made the change.
    pub fn forget_everywhere(&self, scope: &Scope) {
        self.forget(scope);
        if let Some(shared) = &self.shared {
            shared.drop_states(scope);
        }
    }

    /// Forgets all states of a scope in this process: a fact or episode that they show was changed or deleted by hand, or all was erased.
    pub fn forget(&self, scope: &Scope) {
        self.epochs.invalidate(scope);
        let scope = scope.clone();
        let same = scope.clone();
        self.names.forget(move |name| name.scope == same);
        // Fails only without `support_invalidation_closures`, which `new` sets.
        if self.cache.invalidate_entries_if(move |key, _| key.scope == scope).is_err() {
            self.cache.invalidate_all();
        }
    }
}

#[cfg(test)]
mod tests;
