//! Fits a request to its target: counts, cuts, digests, and splices in what is known of the user.
//!
//! [`fit()`] is a pure function of the request, the notes, the target and the policy: the same input gives the same bytes, on
//! every replica and after a restart. On a fallback it runs again from the original request, for the next target.
//! What nobody asked to be changed leaves byte for byte; with nothing to add and nothing to cut, the body is the client's own.
//!
//! [`Rehearsal`] replays a whole conversation that way, to choose a policy; [`Trails`] tells how much of a prompt the one before had.
//!
//! Start with `fit.rs`. [`lines()`] turns a recollection into [`Notes`] (what is said of each memory, and how), `render` makes
//! blocks of them, `cut` decides what goes, `sticky` what stays where it was, `digest` says what stands for what was cut (with a
//! [`summary`] where one was made ahead of need), `place` knows where things go.
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
mod rehearse;
mod render;
mod report;
mod sentence;
mod shorten;
mod sticky;
mod strip;
pub mod summary;
#[cfg(test)]
mod tests;
mod trail;
mod when;

pub use budget::{Allowance, room};
pub use digest::{Chosen, DigestBy, Digests};
pub use fit::{FitInput, fit, is_proven_small, is_soon_done};
pub use lines::lines;
pub use notes::{Earlier, NoteLine, Notes, Pinned};
pub use policies::{Policies, PolicyChanges};
pub use policy::{Overflow, Policy, Profile, SystemRole, Target};
pub use rehearse::{Rehearsal, Share, Shares, Step, Totals, requests};
pub use report::{Fate, FitError, Fitted, MessageRow, Report};
pub use trail::{Common, Trail, Trails};
