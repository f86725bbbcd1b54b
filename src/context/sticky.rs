//! Which recollections of earlier user turns stay where they were shown.
//!
//! The recollection stands at the head of the newest user message, and is gone from there in the next turn: everything behind it must be
//! read anew by upstream's prompt cache. For a chat that is one short turn; for an agent it is a message and a hundred tool calls. So the
//! block of a turn longer than `sticky_tokens` stays, byte for byte, until something is cut: then the prefix is lost anyway.
//!
//! A function of the messages and of what was shown, so every replica decides alike; what was shown is kept under the turn's prefix hash.

use std::sync::Arc;

use crate::memory::Sensitivity;
use crate::tokens::{Counter, RequestCount, Rules};
use crate::wire::Role;

use super::cut::Cut;
use super::fit::FitInput;
use super::place::{self, Place};
use super::render;

/// A block that stays.
#[derive(Clone, Debug)]
pub(super) struct Stays {
    /// Where.
    pub(super) place: Place,
    /// The block.
    pub(super) block: Arc<str>,
    /// What it costs.
    pub(super) tokens: usize,
}

/// Returns the blocks that stay, in `room` tokens at most, beside what memory may take for the newest turn. The older ones come first:
/// what was decided for one turn is not changed by a later one.
pub(super) fn stays(input: &FitInput<'_>, count: &RequestCount, cut: &Cut, room: usize) -> Vec<Stays> {
    let FitInput { request, notes, policy, target, counter, .. } = *input;
    // What is in a block that was made earlier cannot be told.
    if target.max_sensitivity < Sensitivity::Sensitive {
        return Vec::new();
    }
    let rules = target.rules();
    let mut left = room;
    let mut out = Vec::new();
    for earlier in notes.earlier.iter().filter(|earlier| !earlier.block.is_empty() && earlier.message >= cut.first_kept)
    {
        let Some(end) = next_user(input, earlier.message) else { continue };
        let length: usize = count.messages[earlier.message..end].iter().map(|&n| n as usize).sum();
        let cut_since = cut.last.is_some_and(|last| last >= end);
        let Some(place) = place::head(request, earlier.message) else { continue };
        let tokens = tokens_of(&earlier.block, counter, rules);
        if length > policy.sticky_tokens && !cut_since && tokens <= left {
            left -= tokens;
            out.push(Stays { place, block: Arc::clone(&earlier.block), tokens });
        }
    }
    out
}

/// Where the turn of the user message at `at` ends; `None` when it is the newest.
fn next_user(input: &FitInput<'_>, at: usize) -> Option<usize> {
    let messages = input.request.messages().get(at + 1..)?;
    messages.iter().position(|message| message.role == Role::User).map(|behind| at + 1 + behind)
}

fn tokens_of(block: &str, counter: &Counter, rules: Rules) -> usize {
    render::block_tokens(block, counter, rules)
}
