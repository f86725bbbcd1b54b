//! What is to be shown, before it is known how much of it fits.

use std::sync::Arc;

use crate::base::{EpisodeId, FactId, Time};
use crate::memory::Sensitivity;
use crate::memory::knowledge::PassageRef;

/// What is known that bears on a request.
#[derive(Clone, Debug, Default)]
pub struct Notes {
    /// Lines of the profile, critical ones first.
    pub profile: Vec<NoteLine>,
    /// Lines of the recollection, strongest first.
    pub recollection: Vec<NoteLine>,
    /// The exact blocks shown earlier in this user turn: they are shown again, and the lines above are not looked at.
    pub pinned: Option<Pinned>,
    /// The profile block shown earlier in this conversation (empty = none was): it stays as it is, and what is newer in
    /// `profile` goes to the recollection.
    pub keep_profile: Option<Arc<str>>,
    /// The recollections shown with earlier user turns, in their order. Those of long turns stay in place.
    pub earlier: Vec<Earlier>,
}

impl Notes {
    /// Whether there is nothing to show.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        if self.earlier.iter().any(|earlier| !earlier.block.is_empty()) {
            return false;
        }
        let pinned = self.pinned.as_ref().is_some_and(|p| !p.profile.is_empty() || !p.recollection.is_empty());
        let kept = self.keep_profile.as_ref().is_some_and(|block| !block.is_empty());
        match self.pinned {
            Some(_) => !pinned,
            None => !kept && self.profile.is_empty() && self.recollection.is_empty(),
        }
    }
}

/// Blocks as they were shown, fence included; empty = none was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pinned {
    /// The profile block.
    pub profile: Arc<str>,
    /// The recollection block.
    pub recollection: Arc<str>,
}

/// The recollection block of an earlier user turn, as it was shown there, fence included; empty = none was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Earlier {
    /// The turn's user message, by its place in the request.
    pub message: usize,
    /// The block.
    pub block: Arc<str>,
}

/// One memory, as one line of text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NoteLine {
    /// What is said of it; no clock, no id, and but for a passage, which may have several lines, no source in it.
    pub text: String,
    /// Whether it goes last when there is no room.
    pub critical: bool,
    /// The fact it rests on.
    pub fact: Option<FactId>,
    /// The episode it rests on.
    pub episode: Option<EpisodeId>,
    /// The passage that it is; its lines stand apart from what is known of the person, in a share of their own.
    pub passage: Option<PassageRef>,
    /// When it was said.
    pub at: Time,
    /// Who may see it: a target that may not does not.
    pub sensitivity: Sensitivity,
}
