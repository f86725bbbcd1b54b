//! Conversations are known by their content: a hash chain over the messages names each state.
//!
//! Clients resend the whole history and rarely name a session, so [`chain()`] hashes the messages one onto the other; equal
//! prefixes have equal hashes, and what is kept for one state is found again by them. [`fence`] is the reserved span in
//! which everything stands that we add, so that it can be told from the client's own words when it comes back.
//!
//! Pure; knows nothing of stores or of what is kept under a hash.

mod chain;

pub use crate::base::fence;
pub use chain::{Chain, Hash, after_response, chain, message_hash, start};
