//! `Reserve`: one accepted request = one reservation = one outcome.

use std::sync::Arc;

use super::stage::Stage;
use crate::access::{LimitTable, Taken};
use crate::base::GatewayError;
use crate::exchange::{Call, Funded};
use crate::jobs::{Journal, Line, Outbox, Slot};

/// Tokens that a reply is taken to have when the client does not limit it.
const DEFAULT_REPLY: u64 = 1_024;

/// A place in the outbox, where the request needs one. Dropping it gives the place back.
#[derive(Debug)]
pub struct Reservation {
    /// The place.
    pub slot: Option<Slot>,
    /// There was no place: the exchange passes unremembered.
    pub full: bool,
    /// What it took of its key's limits.
    pub taken: Taken,
    /// A line of the journal, for what leaves nothing in the outbox; `None` = no books are kept, or there was no line.
    pub line: Option<Line>,
}

/// Takes what the request needs of its key's limits, and a place in the outbox, before any work is done: so the end of the
/// reply can be recorded without waiting. Refuses with 429.
#[derive(Debug)]
pub struct Reserve {
    outbox: Option<Outbox>,
    limits: Arc<LimitTable>,
    journal: Option<Journal>,
}

impl Reserve {
    /// Reserves in `outbox` (nothing is recorded where there is none) and of what `limits` leave to the key, and a line of `journal`.
    #[must_use]
    pub fn new(outbox: Option<Outbox>, limits: Arc<LimitTable>, journal: Option<Journal>) -> Self {
        Self { outbox, limits, journal }
    }
}

/// A first guess at what a request will use, in tokens: a quarter of its bytes, and the reply that it asks for.
fn estimate(call: &Call) -> u64 {
    let Some(chat) = call.payload.chat() else {
        return 0;
    };
    let reply = chat.get_u64("max_completion_tokens").or_else(|| chat.get_u64("max_tokens")).unwrap_or(DEFAULT_REPLY);
    (chat.body().len() as u64 / 4).saturating_add(reply)
}

impl Stage<Call> for Reserve {
    type Out = Funded<Reservation>;

    async fn run(&self, call: Call) -> Result<Self::Out, GatewayError> {
        let taken = match self.limits.of(&call.principal) {
            Some(limits) => {
                limits.take(if limits.counts_tokens() { estimate(&call) } else { 0 }, call.stamp.started)?
            }
            None => Taken::default(),
        };
        let memory = call.identity.memory;
        let wanted = call.identity.scope.is_some() && (memory.read || memory.write);
        let outbox = self.outbox.as_ref().filter(|_| wanted);
        let slot = outbox.and_then(Outbox::reserve);
        let full = outbox.is_some() && slot.is_none();
        let line = self.journal.as_ref().and_then(Journal::reserve);
        Ok(Funded { call: Arc::new(call), reservation: Reservation { slot, full, taken, line } })
    }
}
