//! From one exchange to what it taught: the pure pipeline behind the extraction worker.
//!
//! [`decide()`] goes propose → gate → arbitrate for the user's side and makes episodes of both sides. It reads no clock and
//! does no IO; the worker that claims exchanges, calls it and stores the result is in `jobs`. Nothing here ever learns a
//! fact from the assistant, a tool or a document.

mod decide;
mod episodes;

#[cfg(test)]
mod cases;
#[cfg(test)]
mod tests;

pub use decide::{DecideInput, decide};
