//! Fits a request to its target: counts, cuts, digests, and splices in what is known of the user.
//!
//! [`fit()`] is a pure function of the request, the notes, the target and the policy: the same input gives the same bytes, on
//! every replica and after a restart. On a fallback it runs again from the original request, for the next target.
//! What nobody asked to be changed leaves byte for byte; with nothing to add and nothing to cut, the body is the client's own.
//!
//! Start with `fit.rs`. [`lines()`] turns a recollection into [`Notes`] (what is said of each memory, and how), `render` makes
//! blocks of them, `cut` decides what goes, `digest` says what stands for it, `place` knows where things go.
//! Nothing here reads a clock, a store or the network.

mod budget;
mod cut;
mod digest;
mod fit;
mod keydata;
mod label;
mod lines;
mod notes;
mod place;
mod policies;
mod policy;
mod render;
mod shorten;
mod strip;
#[cfg(test)]
mod tests;
mod when;

pub use digest::Digests;
pub use fit::{Fate, FitError, FitInput, Fitted, MessageRow, Report, fit};
pub use lines::lines;
pub use notes::{NoteLine, Notes, Pinned};
pub use policies::{Policies, PolicyChanges};
pub use policy::{Overflow, Policy, Profile, SystemRole, Target};
