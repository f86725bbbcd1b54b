//! One edit at a time in a scope.
//!
//! Versions protect a fact that is there; they cannot keep two edits from both adding the first value of a key that holds
//! one. Learning does not need this: it is decided against the scope's revision.

use std::hash::{DefaultHasher, Hash, Hasher};

use tokio::sync::{Mutex, MutexGuard};

use crate::memory::Scope;

/// Edits in so many scopes go on side by side; two scopes in the same stripe wait for each other.
const STRIPES: usize = 64;

/// Gives out turns.
#[derive(Debug)]
pub(super) struct Turns(Vec<Mutex<()>>);

impl Turns {
    pub(super) fn new() -> Self {
        Self((0..STRIPES).map(|_| Mutex::new(())).collect())
    }

    /// Waits for the turn of a scope; it lasts until the guard is dropped. Held across a few store calls, which are bounded
    /// in time by the store's own waits.
    pub(super) async fn take(&self, scope: &Scope) -> MutexGuard<'_, ()> {
        let mut hasher = DefaultHasher::new();
        scope.hash(&mut hasher);
        let stripe = usize::try_from(hasher.finish() % STRIPES as u64).expect("less than 64");
        self.0[stripe].lock().await
    }
}
