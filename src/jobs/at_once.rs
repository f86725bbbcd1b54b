//! Learning on the way into the store, so that what an exchange taught is stored instead of the exchange.
//!
//! Where the rules alone decide, on facts that are in memory, a decision takes some tens of microseconds; writing the exchange down, finding it again
//! and deleting it would cost several times that. What cannot be decided so (the scope is not in memory, the text is long, the facts changed
//! meanwhile, something of the scope was deleted once) goes the long way: it waits in the outbox for the [`Worker`](super::Worker).

use async_trait::async_trait;
use tokio::sync::OwnedMutexGuard;

use crate::store::{Finished, LearnOutcome, Learned};

/// Learns from exchanges before they are stored.
#[async_trait]
pub trait AtOnce: Send + Sync {
    /// Waits until no one else in this process decides and stores, and keeps others from it until what is returned is dropped. Two that
    /// decide on the same revision make the later decision stale, and what is stale is left to the other one: under load each would spoil
    /// the other's work for as long as the load lasts. `None` when that takes too long; then it is tried all the same.
    async fn in_turn(&self) -> Option<OwnedMutexGuard<()>>;

    /// Decides what exchanges teach, in their order; `None` for those that go the long way. Waits for nothing but its turn to compute.
    async fn decide(&self, group: &[Finished]) -> Vec<Option<Learned>>;

    /// Is told what became of a decision, in order.
    fn stored(&self, learned: &Learned, outcome: LearnOutcome);
}
