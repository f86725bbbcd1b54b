//! A store that could not be opened at the start: it is tried again for as long as it takes, and then the process goes over to it.
//!
//! In which order servers start does not matter. Until then requests pass without memory, since nobody should wait for what may never come; nothing of
//! them is recorded, not even in memory, since whose it would be (the tenants' salt) stands in the store.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::build::{BuildError, wire};
use super::records::{Opened, name_of_records, open};
use super::{App, Base, index_of};
use crate::config::{Config, Env, StoreUrl};
use crate::store::StoreError;

/// Pauses between two tries: the first, and the longest. A server that refuses connections is asked for some five seconds a try besides.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Why the store is not open.
#[derive(Debug)]
pub(super) struct Closed(Mutex<Why>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Why {
    reason: String,
    is_awaited: bool,
}

impl Why {
    /// A server that is not there yet is waited for; all else has to be repaired by someone.
    fn of(error: &StoreError, config: &Config) -> Self {
        let reason = match error {
            StoreError::Driver { doing, source } => format!("{doing}: {source}"),
            // Whoever fails for it says again that it is not available.
            StoreError::Unavailable(why) => why.clone(),
            other => other.to_string(),
        };
        let is_server = matches!(config.store.url, StoreUrl::Postgres(_));
        Self { reason, is_awaited: is_server && matches!(error, StoreError::Unavailable(_)) }
    }

    fn log(&self, config: &Config, env: &dyn Env) {
        let (database, reason) = (name_of_records(config, env), &self.reason);
        if self.is_awaited {
            tracing::warn!(
                database,
                reason,
                "the database is not there yet: this replica is not ready, and requests pass WITHOUT memory until it is"
            );
        } else {
            tracing::error!(
                database,
                reason,
                "the memory store cannot be opened: requests pass WITHOUT memory until it is repaired"
            );
        }
    }
}

impl Closed {
    /// Says in the log why it could not be opened.
    pub(super) fn by(error: &StoreError, config: &Config, env: &dyn Env) -> Self {
        let why = Why::of(error, config);
        why.log(config, env);
        Self(Mutex::new(why))
    }

    /// Why, for people.
    pub(super) fn reason(&self) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).reason.clone()
    }

    /// Whether it is expected to come by itself: until then others should be asked instead of this replica.
    pub(super) fn is_awaited(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_awaited
    }

    /// Notes why another try failed; `true` when that is news.
    fn note(&self, why: &Why) -> bool {
        let mut noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *noted, why.clone()) != *why
    }
}

impl App {
    /// Tries to open the store until that works. Each reason why it does not is logged once.
    ///
    /// Cancel safe.
    pub(super) async fn store_comes(&self, closed: &Closed, env: &(dyn Env + Send + Sync)) -> Opened {
        let mut pause = FIRST_PAUSE;
        loop {
            tokio::time::sleep(pause).await;
            match open(&self.config, env, &*self.random).await {
                Ok(opened) => return opened,
                Err(error) => {
                    let why = Why::of(&error, &self.config);
                    if closed.note(&why) {
                        why.log(&self.config, env);
                    }
                }
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// The same process over its store. What needs no store goes on; all that is kept by keys and tenants is made anew, since the salt that names them
    /// is known only now. So the limits of the minute begin anew, once.
    ///
    /// # Errors
    /// See [`BuildError`]; then nothing has changed.
    pub(super) async fn over(&self, opened: Opened) -> Result<Arc<Self>, BuildError> {
        wire(&self.config, Base::of(self), Ok(opened), index_of(&self.config)?).await
    }

    /// Notes that the store is there and something else hinders: what would have kept a process from starting.
    pub(super) fn cannot_go_over(&self, error: &BuildError) {
        let why = Why { reason: error.to_string(), is_awaited: false };
        if let Some(closed) = &self.closed {
            closed.note(&why);
        }
        tracing::error!(%error, "the memory store is there, but cannot be used: requests pass WITHOUT memory until that is corrected and the gateway restarted");
    }
}
