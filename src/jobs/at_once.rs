//! Learning on the way into the store, so that what an exchange taught is stored instead of the exchange.
//!
//! Where the rules alone decide, on facts that are in memory, a decision takes some tens of microseconds; writing the exchange down, finding it again
//! and deleting it would cost several times that. What cannot be decided so (the scope is not in memory, the text is long, the facts changed
//! meanwhile, something of the scope was deleted once) goes the long way: it waits in the outbox for the [`Worker`](super::Worker).

use async_trait::async_trait;

use crate::store::{Finished, LearnOutcome, Learned};

/// Learns from exchanges before they are stored.
#[async_trait]
pub trait AtOnce: Send + Sync {
    /// Decides what exchanges teach, in their order; `None` for those that go the long way. Waits for nothing but its turn to compute.
    async fn decide(&self, group: &[Finished]) -> Vec<Option<Learned>>;

    /// Is told what became of a decision, in order.
    fn stored(&self, learned: &Learned, outcome: LearnOutcome);
}
