//! What is meant, beside what is written: vectors of episodes, and how near a question is to them.
//!
//! Raw cosines of models lie in ranges of their own (0.75 to 0.91 for one), lean towards texts of the question's language, and are never
//! zero. So a [`Space`] measures each generation by texts of our own ([`background`]): their mean, by language, is taken out of
//! every vector, and what is left of two texts that have nothing to do with each other is what a match must stand out from. `rows` holds
//! the vectors of one scope, one byte a number, `dot` compares them, `channel` makes scores of that and says what stands out, and
//! `blend` ranks with both, words and vectors.
//!
//! It never makes a vector: what comes here was made elsewhere, is of the generation in use, or is passed over.

mod background;
mod blend;
mod channel;
mod dot;
mod rows;
mod space;
#[cfg(test)]
pub(super) mod testing;
#[cfg(test)]
mod tests;

pub(super) use blend::ranked;
pub(super) use channel::{Channel, Near, Nearest};
pub(super) use rows::Rows;
pub use space::{Space, SpaceError, Texts};
