//! From one exchange to what it taught: the pure pipeline behind the extraction worker.
//!
//! [`decide()`] goes propose → gate → arbitrate for the user's side and makes episodes of both sides. It reads no clock and
//! does no IO; the worker that claims exchanges, calls it and stores the result is in `jobs`. Nothing here ever learns a
//! fact from the assistant, a tool or a document. What a model proposes takes the same way ([`model`]).

mod boilerplate;
mod decide;
mod episodes;
pub mod model;

#[cfg(test)]
mod tests;

pub use boilerplate::Boilerplate;
pub use decide::{DecideInput, decide, decide_episodes, decide_proposed};
