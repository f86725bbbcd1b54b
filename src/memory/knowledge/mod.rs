//! Knowledge: documents that an operator gives, cut in passages. It belongs to a namespace, not to a person.
//!
//! Pure: what a document is ([`Document`]), and how it is cut ([`cut()`]). It is never learned from and never changes by what users say;
//! keeping it is for the store, finding it for recall.
//!
//! Start with [`cut()`].

mod blocks;
mod cut;
mod document;
mod size;

pub use cut::{MAX_PASSAGE, cut};
pub use document::{Document, DocumentId, Format, Passage, PassageRef};
pub use size::size;
