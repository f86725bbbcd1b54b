//! What came out of a fit, and the figures that explain it.

use std::sync::Arc;

use bytes::Bytes;

use crate::base::{EpisodeId, FactId};
use crate::memory::knowledge::PassageRef;
use crate::wire::Role;

use super::budget::Allowance;
use super::digest::DigestBy;
use super::trail::Trail;

/// A request that fits.
#[derive(Clone, Debug)]
pub struct Fitted {
    /// What is sent; the client's own bytes when there was nothing to do.
    pub body: Bytes,
    /// The figures.
    pub report: Report,
    /// The profile block that is shown, fence included; empty = none.
    pub profile: Arc<str>,
    /// The recollection block that is shown.
    pub recollection: Arc<str>,
    /// The facts that are shown. With pinned blocks none are named: whoever pinned them knows.
    pub facts_shown: Vec<FactId>,
    /// The episodes that are shown; as above.
    pub episodes_shown: Vec<EpisodeId>,
    /// The passages of documents that are shown; as above.
    pub passages_shown: Vec<PassageRef>,
    /// Recollections of earlier, long user turns that stand where they were shown.
    pub earlier: Vec<Arc<str>>,
    /// The offset of the first changed byte of the client's body.
    pub first_change: Option<usize>,
    /// What tells how much of it the next request repeats; `None` when nothing was counted, or nobody asks.
    pub trail: Option<Arc<Trail>>,
}

impl Fitted {
    /// Whether anything of memory is shown.
    #[must_use]
    pub fn shows_memory(&self) -> bool {
        !(self.profile.is_empty() && self.recollection.is_empty() && self.earlier.is_empty())
    }
}

/// The figures of a fit, in tokens of the target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Of the client's request; `None` when nothing was counted.
    pub counted: Option<usize>,
    /// Of what is sent, memory and digest included.
    pub sent: Option<usize>,
    /// Of what is sent as we count it, before what was learned about the target is applied.
    pub sent_uncorrected: Option<usize>,
    /// Messages that were dropped.
    pub cut: usize,
    /// What the request may have; `None` when nothing limits it.
    pub budget: Option<usize>,
    /// How that came about.
    pub allowance: Allowance,
    /// Down to what a cut goes; 0 when nothing limits the request.
    pub low_water: usize,
    /// Of the blocks of memory, all of them.
    pub memory_tokens: usize,
    /// Of the profile block.
    pub profile_tokens: usize,
    /// Of earlier recollections that stay in place.
    pub earlier_tokens: usize,
    /// Of the digest.
    pub digest_tokens: usize,
    /// Facts shown.
    pub n_facts: usize,
    /// Episodes shown.
    pub n_episodes: usize,
    /// Passages of documents shown.
    pub n_passages: usize,
    /// Texts that were shortened.
    pub shortened: usize,
    /// The digest that stands for what was cut; empty = none.
    pub digest: Arc<str>,
    /// What it rests on.
    pub digest_by: DigestBy,
    /// Messages before this one were dropped, unless they are pinned.
    pub first_kept: usize,
    /// Where the next cut will get to at least, once use has passed the policy's soft mark: a summary of what is before it is
    /// of use then.
    pub next_first_kept: Option<usize>,
    /// Of tool schemas, `response_format` and what every request costs.
    pub fixed: usize,
    /// One row for each of the client's messages; none when nothing was counted.
    pub messages: Vec<MessageRow>,
    /// The member that brings in what the request does not hold, so that it was not counted; `None` = it holds all.
    pub partial: Option<&'static str>,
}

/// What became of one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageRow {
    /// Who speaks.
    pub role: Role,
    /// What it costs as the client sent it.
    pub tokens: usize,
    /// What it costs as it is sent, without what we put into it: 0 when it was cut.
    pub sent: usize,
    /// What became of it.
    pub fate: Fate,
    /// Why, in a few words.
    pub why: &'static str,
}

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fate {
    /// It must stay: an instruction, or part of the newest turn.
    Pinned,
    /// It stays.
    Kept,
    /// It was dropped.
    Cut,
}

/// Why a request cannot be sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FitError {
    /// It is over its budget, even when all was cut that may be.
    #[error("{message}")]
    ContextLength {
        /// Tokens of the client's request.
        counted: usize,
        /// What it may have.
        budget: usize,
        /// Its largest parts with their tokens, as in `messages[3]` or `tools`.
        largest: Vec<(String, usize)>,
        /// A sentence for the client.
        message: String,
    },
}
