//! Measures offline what is remembered and what is recalled.
//!
//! [`retrieval`] reads data sets from files given by the caller, feeds them through the very index that live traffic uses, asks every
//! question, and reports what was found, how early, within how many tokens, and how often something was shown that should not have been.
//! [`extraction`] plays conversations and compares what was learned with what should have been. Neither touches a store; the network only
//! where an embedder is named.
//!
//! Start with [`retrieval::run`] or [`extraction::run`].

mod dataset;
pub mod extraction;
mod jsonl;
mod locomo;
mod picture;
mod report;
pub mod retrieval;
mod vectors;

/// Why a measurement could not be made.
#[derive(Debug, thiserror::Error)]
pub enum EvalError {
    /// The file cannot be read.
    #[error("could not read {path}: {source}")]
    Read {
        /// The file.
        path: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The file cannot be written.
    #[error("could not write {path}: {source}")]
    Write {
        /// The file.
        path: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// There are no vectors.
    #[error("{0}")]
    Embed(String),
    /// The file is not what it should be.
    #[error("{path}, {place}: {problem}")]
    Format {
        /// The file.
        path: String,
        /// Where in it.
        place: String,
        /// What is wrong.
        problem: String,
    },
}
