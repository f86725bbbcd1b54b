//! What every floor may use: time, randomness, typed ids, secrets and the one error type.
//!
//! [`fence`] is the reserved span around
//! all that we add to a request. Nothing here does IO or knows about HTTP, OpenAI or memory. Time and randomness are traits, so
//! that every test is deterministic; the real ones are made once, in `app`. A [`Bell`] is what connections wake in place of their tasks.

mod bell;
mod clock;
mod error;
pub mod fence;
mod figure;
mod hex;
mod id;
mod near;
mod random;
mod secret;
#[cfg(test)]
pub(crate) mod testing;
mod trace_parent;

pub use bell::Bell;
pub use clock::{Clock, ManualClock, SystemClock, Time, millis};
pub use error::{ErrorKind, GatewayError};
pub use figure::{MAX_FIGURE, MAX_SUM};
pub use hex::{hex, unhex};
pub use id::{EpisodeId, ExchangeId, FactId, KeyId, ParseIdError, ProposalId, RequestId};
pub use near::near;
pub use random::{Random, SeededRandom, SystemRandom};
pub use secret::{Secret, constant_time_eq};
pub use trace_parent::{ParseTraceParentError, TraceParent};
