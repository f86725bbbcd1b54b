//! The APIs beside the data plane: what people and apps do to memories.
//!
//! Handlers read a request, call a store or a pure function, and answer in JSON; every error is in OpenAI's envelope. No
//! policy and no SQL here.

pub mod memory;
