//! A recollection: what recall found, with the reasons, before it is rendered.

use std::sync::Arc;

use super::episode::Episode;
use super::fact::Fact;
use super::knowledge::{Document, Passage, PassageRef};

/// The result of one recall. Empty is a normal result.
#[derive(Clone, Debug, Default)]
pub struct Recollection {
    /// Facts of the profile (name, language, time zone, critical constraints, standing instructions), critical first, then by key.
    pub profile: Vec<Arc<Fact>>,
    /// Other facts that bear on the question, strongest first.
    pub facts: Vec<RecalledFact>,
    /// Episodes that bear on the question, strongest first.
    pub episodes: Vec<RecalledEpisode>,
    /// Passages of the namespace's documents that bear on the question, strongest first.
    pub passages: Vec<RecalledPassage>,
    /// The revision of the scope that was read.
    pub revision: i64,
    /// A channel that did not answer in time, as in `vector`.
    pub degraded: Option<&'static str>,
}

/// A fact and why it was recalled.
#[derive(Clone, Debug)]
pub struct RecalledFact {
    /// The fact.
    pub fact: Arc<Fact>,
    /// Its relevance, 0 to 1.
    pub score: f64,
    /// Why, in a few words for people.
    pub why: String,
}

/// An episode and why it was recalled.
#[derive(Clone, Debug)]
pub struct RecalledEpisode {
    /// The episode.
    pub episode: Arc<Episode>,
    /// Its scores.
    pub scores: EpisodeScores,
}

/// A passage of a document and why it was recalled.
#[derive(Clone, Debug)]
pub struct RecalledPassage {
    /// The document that it is from.
    pub document: Arc<Document>,
    /// The passage.
    pub passage: Arc<Passage>,
    /// Its scores; it has no neighbours, and its session is the document.
    pub scores: EpisodeScores,
}

impl RecalledPassage {
    /// Names what was recalled, as it was.
    #[must_use]
    pub fn reference(&self) -> PassageRef {
        PassageRef { document: self.document.id.clone(), version: self.document.version, number: self.passage.number }
    }
}

/// The scores of an episode, raw per channel and fused.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EpisodeScores {
    /// BM25 of the turn itself.
    pub turn: f64,
    /// BM25 of the turn with its neighbours.
    pub neighbours: f64,
    /// BM25 of its session.
    pub session: f64,
    /// Share of the query's information that the turn and its neighbours cover, 0 to 1: what the floor is applied to.
    pub coverage: f64,
    /// How near its vector is to the question's: a cosine, without what all texts have in common (0 = has nothing to do with it). None where
    /// vectors had no part in it.
    pub dense_turn: Option<f64>,
    /// The same on average with its neighbours.
    pub dense_neighbours: Option<f64>,
    /// Fused and boosted; only good for ordering within one query.
    pub fused: f64,
    /// What a rerank endpoint said of it, where one was asked: on a scale of its own.
    pub rerank: Option<f64>,
}

impl Recollection {
    /// Whether nothing was found.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.profile.is_empty() && self.facts.is_empty() && self.episodes.is_empty() && self.passages.is_empty()
    }
}
