//! Summaries of what was cut, made by a model ahead of need: the part of it that calls nobody.
//!
//! [`Material`] is what there is to sum up, [`question()`] asks for it, [`checked()`] keeps of an answer only what its material
//! bears out. A model's words are never trusted: a number, a name or a date that does not stand in the material takes its
//! sentence with it, and so does an order to the assistant. Who asks, when, and what is kept is `jobs::Summaries`.

mod check;
#[cfg(test)]
mod faithful;
mod grounded;
mod han;
mod material;
mod prompt;
mod words;

use serde::{Deserialize, Serialize};

use crate::conversation::Hash;

pub use check::{Unfit, checked};
pub use material::{Material, candidates};
pub use prompt::{MAX_OUTPUT_TOKENS, question};

/// What a model said of the beginning of a conversation, checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// The conversation state that it stands for: it tells of all messages up to there.
    pub covers: Hash,
    /// Plain prose of a few sentences, without our fence around it.
    pub text: String,
}
