//! Virtual keys that were made at run time: looked up in the store, held in the process.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use moka::sync::Cache;

use crate::base::{Clock, ErrorKind, GatewayError, KeyId, Time};
use crate::exchange::Principal;
use crate::store::{KeyHash, Store, StoreError, StoredKey};

/// How long another process's change of a key may go unnoticed. What this process changes it knows at once.
pub const KEY_STALENESS: Duration = Duration::from_secs(5);
/// How long a key that was good goes on being good while the store cannot be asked.
const OUTAGE: Duration = Duration::from_secs(3_600);
/// Keys held in the process.
const MAX_KNOWN: u64 = 100_000;
/// `revision` before the store has said what it is: nothing was read at it.
const NO_REVISION: i64 = i64::MIN;
/// Hashes that are no key, held so that guessing costs the store little.
const MAX_UNKNOWN: u64 = 10_000;
/// Keys whose last use waits to be written.
const MAX_USED: usize = 100_000;

/// Reads what a key may do from its settings; says why when it cannot.
pub type ReadKey = dyn Fn(&StoredKey) -> Result<Principal, String> + Send + Sync;

/// The stored keys.
pub struct StoredKeys {
    store: Arc<dyn Store>,
    read: Box<ReadKey>,
    clock: Arc<dyn Clock>,
    started: Instant,
    known: Cache<KeyHash, Arc<Known>>,
    unknown: Cache<KeyHash, ()>,
    used: Mutex<HashMap<KeyId, Time>>,
    /// Grows when all is forgotten: what was asked before that is not held.
    forgotten: AtomicU64,
    /// The store's revision of all keys: what was read of a key at this revision holds.
    revision: AtomicI64,
    /// When the store was last asked for it, and when it last answered; milliseconds since `started`.
    asked_at: AtomicU64,
    answered_at: AtomicU64,
    staleness: Duration,
}

impl fmt::Debug for StoredKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredKeys").field("known", &self.known.entry_count()).finish_non_exhaustive()
    }
}

/// A question to the store that nobody has waited for until its end is as if it had not been asked.
struct Unanswered<'a> {
    asked_at: &'a AtomicU64,
    before: Option<u64>,
}

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            self.asked_at.store(before, Ordering::Relaxed);
        }
    }
}

struct Known {
    key: StoredKey,
    /// `Err`: its settings cannot be read.
    principal: Result<Arc<Principal>, String>,
    /// The revision of all keys before this one was read.
    revision: i64,
}

impl StoredKeys {
    /// Looks keys up in `store`; `read` makes principals of them.
    pub fn new(store: Arc<dyn Store>, read: Box<ReadKey>, clock: Arc<dyn Clock>) -> Self {
        Self {
            store,
            read,
            clock,
            started: Instant::now(),
            known: Cache::builder().max_capacity(MAX_KNOWN).build(),
            unknown: Cache::builder().max_capacity(MAX_UNKNOWN).time_to_live(KEY_STALENESS).build(),
            used: Mutex::default(),
            forgotten: AtomicU64::new(0),
            revision: AtomicI64::new(NO_REVISION),
            asked_at: AtomicU64::new(0),
            answered_at: AtomicU64::new(0),
            staleness: KEY_STALENESS,
        }
    }

    /// Returns who a secret stands for; `None` when it is no key, or one that has ended.
    ///
    /// # Errors
    /// 503 when the store cannot be asked about a key that this process does not know; 403 when its settings cannot be read.
    pub(super) async fn find(&self, secret: &KeyHash) -> Result<Option<Arc<Principal>>, GatewayError> {
        let Some(known) = self.look_up(secret).await? else {
            return Ok(None);
        };
        let now = self.clock.now();
        if known.key.revoked_at.is_some() || known.key.expires_at.is_some_and(|end| end <= now) {
            return Ok(None);
        }
        let principal = known.principal.as_ref().map_err(|reason| {
            tracing::error!(key = %known.key.id, reason, "the settings of a stored key cannot be read; revoke it and make another");
            GatewayError::new(ErrorKind::Forbidden, "the settings of this key cannot be read; ask the operator")
        })?;
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        if used.len() < MAX_USED || used.contains_key(&known.key.id) {
            used.insert(known.key.id, now);
        }
        Ok(Some(Arc::clone(principal)))
    }

    async fn look_up(&self, secret: &KeyHash) -> Result<Option<Arc<Known>>, GatewayError> {
        let outage = self.look_again().await.err();
        if let Some(error) = &outage {
            tracing::warn!(%error, "keys cannot be checked in the store; those known go on being good for an hour");
        }
        let revision = self.revision.load(Ordering::SeqCst);
        if let Some(known) = self.known.get(secret) {
            if known.revision == revision && self.answered_within(OUTAGE) {
                return Ok(Some(known));
            }
        } else if self.unknown.contains_key(secret) {
            return Ok(None);
        }
        let forgotten = self.forgotten.load(Ordering::SeqCst);
        let found = match outage {
            Some(error) => Err(error),
            None => self.store.key_by_hash(secret).await,
        };
        let may_hold = self.forgotten.load(Ordering::SeqCst) == forgotten;
        match found {
            Ok(Some(key)) => {
                let principal = (self.read)(&key).map(Arc::new);
                let known = Arc::new(Known { key, principal, revision });
                if may_hold {
                    self.known.insert(*secret, Arc::clone(&known));
                }
                Ok(Some(known))
            }
            Ok(None) => {
                self.known.invalidate(secret);
                if may_hold {
                    self.unknown.insert(*secret, ());
                }
                Ok(None)
            }
            Err(error) => Err(GatewayError::new(ErrorKind::Overloaded, "the key cannot be checked right now")
                .with_retry_after(Duration::from_secs(1))
                .with_source(error)),
        }
    }

    /// Looks whether any key was changed by another process, when that was last done a while ago: one question for all keys,
    /// however many there are.
    async fn look_again(&self) -> Result<(), StoreError> {
        let (now, asked) = (self.millis(), self.asked_at.load(Ordering::Relaxed));
        let is_first = self.revision.load(Ordering::SeqCst) == NO_REVISION;
        let is_fresh = Duration::from_millis(now.saturating_sub(asked)) < self.staleness;
        if is_fresh && !is_first {
            return Ok(());
        }
        // Of all requests that find it stale, one asks; the others need not wait.
        let relaxed = Ordering::Relaxed;
        if self.asked_at.compare_exchange(asked, now, relaxed, relaxed).is_err() && !is_first {
            return Ok(());
        }
        // Where its client leaves meanwhile, the next request asks.
        let mut unanswered = Unanswered { asked_at: &self.asked_at, before: Some(asked) };
        let revision = self.store.keys_revision().await;
        unanswered.before = None;
        self.revision.fetch_max(revision?, Ordering::SeqCst);
        self.answered_at.store(self.millis(), Ordering::Relaxed);
        Ok(())
    }

    fn answered_within(&self, time: Duration) -> bool {
        let silent = self.millis().saturating_sub(self.answered_at.load(Ordering::Relaxed));
        Duration::from_millis(silent) < time
    }

    /// Drops everything held: a key was made, rotated or revoked by this process.
    pub fn forget(&self) {
        self.forgotten.fetch_add(1, Ordering::SeqCst);
        self.known.invalidate_all();
        self.unknown.invalidate_all();
    }

    /// Writes down which keys were used since the last call.
    ///
    /// # Errors
    /// The store cannot be written; what is lost is a time of last use.
    pub async fn write_used(&self) -> Result<(), StoreError> {
        let used: Vec<(KeyId, Time)> = self.used.lock().unwrap_or_else(PoisonError::into_inner).drain().collect();
        if used.is_empty() { Ok(()) } else { self.store.keys_used(&used).await }
    }

    fn millis(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::fingerprint;
    use crate::access::testing::principal;
    use crate::base::ManualClock;
    use crate::store::Unreachable;
    use crate::store::sql::{SqlStore, SqliteOptions};

    const NOW: Time = Time(1_760_000_000_000);

    fn stored(n: u128) -> StoredKey {
        StoredKey {
            id: KeyId(n),
            name: "app".to_owned(),
            tenant: "acme".to_owned(),
            settings: "{}".to_owned(),
            created_at: NOW,
            expires_at: Some(NOW.plus_seconds(60)),
            revoked_at: None,
            last_used_at: None,
        }
    }

    async fn with_one_key() -> (Arc<SqlStore>, Arc<ManualClock>, StoredKeys) {
        let store = Arc::new(SqlStore::sqlite(SqliteOptions::default()).await.unwrap());
        let clock = Arc::new(ManualClock::new(NOW));
        let held: Arc<dyn Store> = Arc::clone(&store) as Arc<_>;
        held.create_key(&stored(1), &fingerprint("bsk-one")).await.unwrap();
        let read = Box::new(|key: &StoredKey| Ok(principal(&key.tenant)));
        let keys = StoredKeys::new(held, read, Arc::clone(&clock) as Arc<_>);
        (store, clock, keys)
    }

    #[tokio::test]
    async fn a_key_is_good_until_it_expires_and_its_use_is_noted() {
        let (store, clock, keys) = with_one_key().await;
        let found = keys.find(&fingerprint("bsk-one")).await.unwrap().unwrap();
        assert_eq!(&*found.tenant, "acme");
        assert!(keys.find(&fingerprint("bsk-two")).await.unwrap().is_none());
        keys.write_used().await.unwrap();
        let held: &dyn Store = &*store;
        assert_eq!(held.key_by_hash(&fingerprint("bsk-one")).await.unwrap().unwrap().last_used_at, Some(NOW));
        clock.set(NOW.plus_seconds(60));
        assert!(keys.find(&fingerprint("bsk-one")).await.unwrap().is_none());
    }

    #[tokio::test]
    async fn what_this_process_revokes_is_refused_at_once() {
        let (store, _, keys) = with_one_key().await;
        assert!(keys.find(&fingerprint("bsk-one")).await.unwrap().is_some());
        let held: &dyn Store = &*store;
        held.revoke_key(KeyId(1), NOW).await.unwrap();
        keys.forget();
        assert!(keys.find(&fingerprint("bsk-one")).await.unwrap().is_none());
    }

    /// What another process does is noticed by one question for all keys; what did not change is not read again.
    #[tokio::test]
    async fn what_another_process_revokes_is_noticed_and_what_it_leaves_is_not_read_again() {
        let (store, _, mut keys) = with_one_key().await;
        keys.staleness = Duration::ZERO;
        let (first, again) = (keys.find(&fingerprint("bsk-one")).await, keys.find(&fingerprint("bsk-one")).await);
        assert!(Arc::ptr_eq(&first.unwrap().unwrap(), &again.unwrap().unwrap()));
        let other: &dyn Store = &*store;
        other.create_key(&stored(2), &fingerprint("bsk-two")).await.unwrap();
        assert!(keys.find(&fingerprint("bsk-two")).await.unwrap().is_some());
        other.revoke_key(KeyId(1), NOW).await.unwrap();
        assert!(keys.find(&fingerprint("bsk-one")).await.unwrap().is_none());
        assert!(keys.find(&fingerprint("bsk-two")).await.unwrap().is_some());
    }

    #[tokio::test]
    async fn a_known_key_outlives_a_store_that_fails_for_an_hour() {
        let (_, _, mut keys) = with_one_key().await;
        assert!(keys.find(&fingerprint("bsk-one")).await.unwrap().is_some());
        keys.staleness = Duration::ZERO;
        keys.store = Arc::new(Unreachable::new("down".to_owned()));
        assert!(keys.find(&fingerprint("bsk-one")).await.unwrap().is_some());
        assert_eq!(keys.find(&fingerprint("bsk-two")).await.unwrap_err().kind, ErrorKind::Overloaded);
        keys.started -= OUTAGE;
        assert_eq!(keys.find(&fingerprint("bsk-one")).await.unwrap_err().kind, ErrorKind::Overloaded);
    }

    #[tokio::test]
    async fn a_key_nobody_can_check_is_503_not_401() {
        let store: Arc<dyn Store> = Arc::new(Unreachable::new("down".to_owned()));
        let read = Box::new(|key: &StoredKey| Ok(principal(&key.tenant)));
        let keys = StoredKeys::new(store, read, Arc::new(ManualClock::new(NOW)));
        let error = keys.find(&fingerprint("bsk-one")).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Overloaded);
    }

    #[tokio::test]
    async fn settings_that_cannot_be_read_are_the_operators_fault() {
        let store = Arc::new(SqlStore::sqlite(SqliteOptions::default()).await.unwrap());
        let held: Arc<dyn Store> = store;
        held.create_key(&stored(1), &fingerprint("bsk-one")).await.unwrap();
        let keys = StoredKeys::new(held, Box::new(|_| Err("odd".to_owned())), Arc::new(ManualClock::new(NOW)));
        assert_eq!(keys.find(&fingerprint("bsk-one")).await.unwrap_err().kind, ErrorKind::Forbidden);
    }
}
