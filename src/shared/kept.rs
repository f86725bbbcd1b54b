//! Conversation states in front of the store: small values under a scope and a hash, for an hour after the last one came.
//!
//! Each is of an epoch of its scope, so that one which an erasure has missed is not found any more. What does not fit, or is not there, is
//! in the store.

use redis::aio::MultiplexedConnection;
use redis::{Pipeline, cmd, pipe};

use super::Shared;
use crate::memory::Scope;
use crate::telemetry::RedisCommand;

/// For how long a scope's states are kept after the last one came, in seconds.
const SECONDS: i64 = 3_600;
/// So many of one scope are kept; with the next one they begin anew.
const OF_A_SCOPE: usize = 256;
/// A larger one is left to the store.
const MAX_BYTES: usize = 64 * 1024;

/// A change of the states of one scope.
#[derive(Debug)]
pub(super) enum StateChange {
    /// Keep one.
    Put { key: String, epoch: i64, name: [u8; 32], state: Vec<u8> },
    /// Drop all.
    Drop { key: String },
}

impl Shared {
    /// Reads a state that is of this epoch of its scope. `None` where there is none, or it cannot be told.
    pub async fn state(&self, scope: &Scope, epoch: i64, name: &[u8; 32]) -> Option<Vec<u8>> {
        let key = self.states_key(scope);
        let ask = async |connection: &mut MultiplexedConnection| {
            cmd("HMGET").arg(&key).arg("epoch").arg(&name[..]).query_async(connection).await
        };
        let (known, state): (Option<i64>, Option<Vec<u8>>) = self.link.ask(RedisCommand::Read, ask).await.ok()?;
        state.filter(|_| known == Some(epoch))
    }

    /// Has a state kept, behind whoever asks.
    pub fn keep_state(&self, scope: &Scope, epoch: i64, name: [u8; 32], state: Vec<u8>) {
        if state.len() <= MAX_BYTES {
            self.later.state(StateChange::Put { key: self.states_key(scope), epoch, name, state });
        }
    }

    /// Has all states of a scope dropped, behind whoever asks.
    pub fn drop_states(&self, scope: &Scope) {
        self.later.state(StateChange::Drop { key: self.states_key(scope) });
    }

    /// Carries changes out, in order.
    pub(super) async fn change_states(&self, changes: Vec<StateChange>) {
        let mut puts = self.scripts.keep.prepare_invoke();
        puts.arg(SECONDS).arg(OF_A_SCOPE);
        let (mut has_puts, mut drops): (bool, Pipeline) = (false, pipe());
        for change in changes {
            match change {
                StateChange::Put { key, epoch, name, state } => {
                    puts.key(key).arg(epoch).arg(&name[..]).arg(state);
                    has_puts = true;
                }
                StateChange::Drop { key } => _ = drops.cmd("DEL").arg(key).ignore(),
            }
        }
        // What comes in under an epoch that was erased meanwhile is never found.
        if has_puts {
            let ask = async |connection: &mut MultiplexedConnection| puts.invoke_async::<u64>(connection).await;
            let _kept = self.link.ask(RedisCommand::Write, ask).await;
        }
        self.send(RedisCommand::Write, &drops).await;
    }

    /// The key of a scope's states: no name of a person stands in it.
    fn states_key(&self, scope: &Scope) -> String {
        let mut hasher = blake3::Hasher::new_keyed(&self.salt);
        for name in [&scope.tenant, &scope.namespace, &scope.subject] {
            hasher.update(&(name.len() as u64).to_le_bytes());
            hasher.update(name.as_bytes());
        }
        format!("{}states:{}", self.prefix, &hasher.finalize().to_hex()[..32])
    }
}
