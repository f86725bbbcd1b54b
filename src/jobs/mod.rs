//! Work that must happen after the client has its answer: the outbox, and the worker that learns from it.
//!
//! A request takes a [`Slot`] before any paid work and fills it when the reply ends, also from a destructor. One writer
//! ([`outbox()`]) makes groups of what was filled and commits each group at once, and with it what the rules learn from it at once
//! ([`AtOnce`]). What is left waits as rows: a [`Worker`] leases them and hands them to a [`Learner`]. Delivery is at least once; the store
//! sees to it that nothing is learned twice.
//!
//! What exchanges used is booked with them, or by the [`Journal`] where they leave nothing else.
//!
//! [`Summaries`] are made beside it: of what the next cut of a conversation will drop, ahead of need.
//!
//! [`Vectors`] of what is remembered are made there, too.
//!
//! Nothing here decides what is remembered: that is a function given to [`ExtractLearner`].

mod at_once;
mod journal;
mod learner;
mod outbox;
mod policy;
mod summaries;
mod sweep;
#[cfg(test)]
mod testing;
mod vectors;
mod windows;
mod worker;

pub use at_once::AtOnce;
pub use journal::{Journal, JournalConfig, JournalHealth, Line, journal};
pub use learner::{
    Decide, DecideArgs, ExtractLearner, FactSource, LearnCounters, LearnObserver, NoObserver, StoreFacts,
};
pub use outbox::{Committed, NotCommitted, Outbox, OutboxConfig, OutboxHealth, Redact, Slot, outbox};
pub use policy::Backoff;
pub use summaries::{Means, Owner, Summaries, SummariesConfig, Wish};
pub use sweep::{Sweep, SweepConfig, SweepCounters, SweepHost};
pub use vectors::{VectorHost, VectorPhase, VectorStatus, Vectors, VectorsConfig};
pub use windows::{QueueForModel, Read, Rung, WindowParts, WindowReader, Windows, WindowsConfig, day_of};
pub use worker::{LearnError, Learner, Worker, WorkerConfig, WorkerCounters};
