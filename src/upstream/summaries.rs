//! Where summaries come from, as routing sees it.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use crate::context::Digests;
use crate::conversation::Chain;
use crate::exchange::{Call, Recall};

/// A place in a conversation, before which everything was cut or will be.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The request.
    pub call: &'a Call,
    /// What memory had to say.
    pub recall: &'a Recall,
    /// The conversation's hashes.
    pub chain: &'a Chain,
    /// The first message that stays.
    pub first_kept: usize,
}

/// Makes summaries in the background, and says which one a cut uses.
#[async_trait]
pub trait Summaries: fmt::Debug + Send + Sync {
    /// Returns the hashes of a conversation for which memory made none, since it has no subject or is not remembered.
    fn chain(&self, call: &Call) -> Option<Arc<Chain>>;

    /// Sees to it that `digests` know which summary the cut at this place uses. `true` when that is news, so that the request has to be
    /// fitted again. Waits for the store, but no longer than memory may; it cannot fail.
    ///
    /// What is settled holds for all later requests of this cut; with `look` nothing is settled, only foretold.
    async fn settle(&self, place: Place<'_>, digests: &Digests, look: bool) -> bool;

    /// Wishes for a summary of what is before this place. Returns at once.
    fn want(&self, place: Place<'_>);
}
