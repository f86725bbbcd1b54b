//! Requests that run, as the other replicas see them: each holds a slot for a while, and says now and then that it still runs.
//!
//! Nobody says so for a replica that was killed, so that its slots come back. What runs while Redis is away, or has lost its memory, has
//! its slot there as soon as it is said again.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use redis::aio::MultiplexedConnection;
use tokio_util::sync::CancellationToken;

use super::Shared;
use super::later::Later;
use super::minutes::Account;
use crate::telemetry::RedisCommand;

/// So many slots are held on by one command.
const AT_ONCE: usize = 500;
/// A slot is held for so many times as long as it takes until it is said again that it is.
const BEATS: u32 = 3;

/// The slots of the requests that run in this process.
#[derive(Debug)]
pub(super) struct Slots {
    replica: u64,
    next: AtomicU64,
    /// As many as requests run; by number, the keys that each stands under.
    running: Mutex<HashMap<u64, Arc<[String]>>>,
}

/// The slot of a request that runs. Dropping it gives it back.
#[derive(Debug)]
pub struct Slot {
    number: u64,
    name: String,
    slots: Arc<Slots>,
    later: Later,
}

impl Slots {
    pub(super) fn new(replica: u64) -> Self {
        Self { replica, next: AtomicU64::new(0), running: Mutex::default() }
    }

    fn name(&self, number: u64) -> String {
        format!("{:016x}:{number}", self.replica)
    }
}

impl Slot {
    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let keys = self.slots.running.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.number);
        if let Some(keys) = keys {
            self.later.release(std::mem::take(&mut self.name), keys);
        }
    }
}

impl Shared {
    /// A slot for a request of these accounts; `None` where none of them limits how many run at a time.
    #[must_use]
    pub fn slot(&self, accounts: &[Account<'_>]) -> Option<Slot> {
        let limited = accounts.iter().filter(|account| account.slots.is_some());
        let keys: Arc<[String]> = limited.map(|account| self.slots_key(account.name)).collect();
        if keys.is_empty() {
            return None;
        }
        let number = self.slots.next.fetch_add(1, Ordering::Relaxed);
        self.slots.running.lock().unwrap_or_else(PoisonError::into_inner).insert(number, keys);
        let (slots, later) = (Arc::clone(&self.slots), self.later.clone());
        Some(Slot { number, name: self.slots.name(number), slots, later })
    }

    /// Says of all requests that run that they do, at once when Redis is there again, and then as often as it takes.
    pub(super) async fn hold_slots(self: Arc<Self>, halt: CancellationToken) {
        let keep = async {
            loop {
                self.link.until(true).await;
                self.hold_on().await;
                tokio::select! {
                    () = tokio::time::sleep(self.hold / BEATS) => {}
                    () = self.link.until(false) => {}
                }
            }
        };
        tokio::select! {
            () = keep => {}
            () = halt.cancelled() => {}
        }
    }

    async fn hold_on(&self) {
        let held: Vec<(String, String)> = {
            let running = self.slots.running.lock().unwrap_or_else(PoisonError::into_inner);
            let one = |(number, keys): (&u64, &Arc<[String]>)| {
                let name = self.slots.name(*number);
                keys.iter().map(|key| (key.clone(), name.clone())).collect::<Vec<_>>()
            };
            running.iter().flat_map(one).collect()
        };
        for some in held.chunks(AT_ONCE) {
            let mut call = self.scripts.hold.prepare_invoke();
            call.arg(self.hold_millis());
            for (key, name) in some {
                call.key(key).arg(name);
            }
            let ask = async |connection: &mut MultiplexedConnection| call.invoke_async::<u64>(connection).await;
            if self.link.ask(RedisCommand::Slots, ask).await.is_err() {
                return;
            }
        }
        self.release_ended(held);
    }

    /// What has ended while it was said that it runs was given back before that.
    fn release_ended(&self, held: Vec<(String, String)>) {
        let running: HashSet<String> = {
            let running = self.slots.running.lock().unwrap_or_else(PoisonError::into_inner);
            running.keys().map(|number| self.slots.name(*number)).collect()
        };
        for (key, name) in held.into_iter().filter(|(_, name)| !running.contains(name)) {
            self.later.release(name, Arc::new([key]));
        }
    }
}
