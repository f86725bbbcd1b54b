//! Recall: the right memory for a question, in a millisecond, or none.
//!
//! A scope is read from the store once and held in memory as an index ([`scoped`]); what the write path learns is taken in at once.
//! A question is cut into terms, scored over turns, their neighbours and their sessions (`score`), boosted within bounds
//! (`rank`), and held against a floor: "nothing known" is a normal result. Facts are found by key (`facts`).
//!
//! Where a question comes with its vector, what is meant is found beside what is written (`dense`).
//!
//! It calls no model but to embed a question in time ([`Questions`]) and to order what was found ([`Reranker`]), where these are configured,
//! and it writes nothing: what is shown is decided here, how it reads is decided in `context`.
//!
//! Start with [`Recall::recall`].

mod cache;
mod dense;
mod echo;
mod exclude;
mod facts;
mod index;
mod knowledge;
mod labels;
mod lists;
mod outer;
mod pack;
mod patience;
mod prune;
mod query;
mod question;
mod rank;
mod rerank;
mod scoped;
mod score;
mod sketch;
mod source;
mod sparse;
mod speakers;
mod terms;
#[cfg(test)]
mod tests;
mod vectors;
mod when;

pub use cache::{Listed, Recall};
pub use dense::{Space, SpaceError, Texts};
pub use echo::Said;
pub use exclude::Exclude;
pub use knowledge::{Knowledge, Passages};
pub use outer::Outer;
pub use query::{Query, RecallConfig, Weights};
pub use question::Questions;
pub use rerank::Reranker;
pub use source::{ScopeData, Since, Source};
pub use sparse::terms_of;
pub(crate) use speakers::Speakers;
