//! `Reserve`: one accepted request = one reservation = one outcome.

use std::sync::Arc;

use super::stage::Stage;
use crate::base::GatewayError;
use crate::exchange::{Call, Funded};
use crate::jobs::{Outbox, Slot};

/// A place in the outbox, where the request needs one. Dropping it gives the place back.
#[derive(Debug)]
pub struct Reservation {
    /// The place.
    pub slot: Option<Slot>,
    /// There was no place: the exchange passes unremembered.
    pub full: bool,
}

/// Takes a place in the outbox before any work is done, so that the end of the reply can be recorded without waiting.
#[derive(Debug)]
pub struct Reserve {
    outbox: Outbox,
}

impl Reserve {
    /// Reserves in `outbox`.
    #[must_use]
    pub fn new(outbox: Outbox) -> Self {
        Self { outbox }
    }
}

impl Stage<Call> for Reserve {
    type Out = Funded<Reservation>;

    async fn run(&self, call: Call) -> Result<Self::Out, GatewayError> {
        let memory = call.identity.memory;
        let wanted = call.identity.scope.is_some() && (memory.read || memory.write);
        let slot = if wanted { self.outbox.reserve() } else { None };
        let full = wanted && slot.is_none();
        Ok(Funded { call: Arc::new(call), reservation: Reservation { slot, full } })
    }
}
