//! What stands between upstream's body and the client's: it passes bytes, and may hold back very few.
//!
//! Both relays are pure state machines. They never rewrite a byte; they withhold the usage event that only we
//! asked for, hold the very end until the exchange is recorded, and say in the end whether the reply was complete.

mod books;
mod first;
mod json;
mod stream;
#[cfg(test)]
mod tests;
mod watch;

pub use first::{FirstEvent, first_event};
pub use json::JsonRelay;
pub use stream::{RelayOptions, StreamRelay};

/// How upstream's body ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamEnd {
    /// Politely: the last chunk came, or the connection was closed where HTTP allows it.
    Clean,
    /// By a reset, a timeout or a protocol error.
    Failed,
}

/// Whether a reply is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It has not ended.
    Open,
    /// It is: `[DONE]` came, or every choice has a finish reason, or it was no chat and ended cleanly.
    Complete,
    /// Upstream stopped in the middle.
    Cut,
    /// Upstream sent an error inside the reply.
    Error,
}

impl Verdict {
    /// Whether our books may count the reply as complete.
    #[must_use]
    pub fn is_complete(self) -> bool {
        self == Self::Complete
    }
}
