//! Facts, episodes and the rules that decide about them: pure functions over values.
//!
//! Knows nothing of OpenAI, HTTP or stores, reads no clock and does no IO: time and ids are
//! arguments. The write path goes `propose` → `gate` → `arbitrate`; only `arbitrate` changes facts.

mod candidate;
mod change;
mod episode;
mod fact;
mod recollection;
mod scope;
pub mod text;
mod turn;

pub use candidate::{Candidate, Intent, ProposedBy};
pub use change::{Action, Actor, FactChange, HistoryEntry};
pub use episode::{Episode, EpisodeKind, EpisodeStatus};
pub use fact::{Cardinality, Evidence, Fact, FactKind, FactStatus, Sensitivity, SourceType};
pub use recollection::{EpisodeScores, RecalledEpisode, RecalledFact, Recollection};
pub use scope::Scope;
pub use turn::{Said, Speaker, Turn};
