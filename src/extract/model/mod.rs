//! What a model proposes: the question that is put to it, and the candidates in its answer. Pure.
//!
//! [`question()`] shows a window of exchanges, each inside a mark that cannot be closed from within; [`parse()`] reads
//! whatever comes back; [`candidates()`] ties each item to the exchange in which its evidence stands. Nothing is
//! decided here: the candidates go through the same gate and arbitration as those of the rules, in [`decide_model()`].
//! A model never sees another person's words, a reply, a tool's result or a pasted document.

mod candidates;
mod decide;
mod item;
mod parse;
mod prompt;
mod reader;
mod schema;
#[cfg(test)]
mod tests;

pub use candidates::candidates;
pub use decide::decide_model;
pub use item::Item;
pub use parse::{Parsed, parse};
pub use prompt::{own_text, question, worth_asking};
pub use reader::ModelReader;
