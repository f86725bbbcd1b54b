//! Facts, episodes and the rules that decide about them: pure functions over values.
//!
//! Knows nothing of OpenAI, HTTP or stores, reads no clock and does no IO: time and ids are
//! arguments. The write path goes `propose` → `gate` → `arbitrate`; only `arbitrate` changes facts.

pub mod amount;
pub mod arbitrate;
mod candidate;
mod change;
pub mod dates;
mod duplicates;
pub mod edit;
mod episode;
pub mod export;
mod fact;
mod fading;
pub mod forget;
pub mod gate;
pub mod history;
pub mod import;
pub mod knowledge;
pub mod language;
pub mod merge;
pub mod normalise;
pub mod propose;
mod recollection;
pub mod redact;
mod schema;
mod scope;
pub mod segment;
pub mod text;
mod turn;

pub use candidate::{Candidate, Intent, ProposedBy};
pub use change::{Action, Actor, FactChange, HistoryEntry};
pub use episode::{Episode, EpisodeKind, EpisodeStatus, first_score};
pub use fact::{Cardinality, Evidence, Fact, FactKind, FactStatus, Sensitivity, SourceType};
pub use fading::{FLEETING, Fading, Schemas};
pub use recollection::{EpisodeScores, RecalledEpisode, RecalledFact, RecalledPassage, Recollection};
pub use schema::{KeyRule, KeySchema, ValueType};
pub use scope::{Namespace, Scope};
pub use turn::{Said, Speaker, Turn};
