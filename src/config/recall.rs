//! `[recall]`, `[embeddings]` and `[rerank]`: how memories are found.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use super::provider::http_url;
use super::reader::Section;
use crate::base::Secret;

/// What a weight may be.
const WEIGHTS: RangeInclusive<f64> = 0.0..=10.0;

/// `[recall]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Recall {
    /// `deadline_ms`: what is ready then is shown.
    pub deadline: Duration,
    /// `max_episodes` shown at once.
    pub max_episodes: u32,
    /// `max_passages` of documents shown at once; 0 = documents are not looked at.
    pub max_passages: u32,
    /// `knowledge_share`: of the tokens of memory, what passages of documents may take at most.
    pub knowledge_share: f64,
    /// `floor`: share of the question's information that an episode must cover to be shown, 0 to 1.
    pub floor: f64,
    /// `cache_bytes`: bound of the scopes that are held in memory.
    pub cache_bytes: u64,
    /// `held_episodes`: of one person, the newest so many are held in memory where an index outside of the process finds the others.
    pub held_episodes: u32,
    /// `weights`.
    pub weights: RecallWeights,
}

/// `[recall.weights]`: of the channels, each divided by its best score before it is weighed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RecallWeights {
    /// `turn`: words of the turn itself.
    pub turn: f64,
    /// `neighbours`: words of the turn with its neighbours, where turns are short.
    pub neighbours: f64,
    /// `session`: words of its session, where turns are short.
    pub session: f64,
    /// `neighbours_long`: the same where turns are long, and say enough by themselves.
    pub neighbours_long: f64,
    /// `session_long`: the same where turns are long.
    pub session_long: f64,
    /// `dense_turn`: how near the turn's vector is, where there are vectors.
    pub dense_turn: f64,
    /// `dense_neighbours`: the same of the turn and its neighbours together.
    pub dense_neighbours: f64,
    /// `assistant`: what a turn of the assistant weighs beside the same words of the user.
    pub assistant: f64,
    /// `boost`: share that all boosts together may add or take.
    pub boost: f64,
    /// `speaker`: share that a turn gains when the question names its speaker; part of `boost`.
    pub speaker: f64,
}

impl Default for Recall {
    fn default() -> Self {
        Self {
            deadline: Duration::from_millis(50),
            max_episodes: 5,
            max_passages: 3,
            knowledge_share: 0.5,
            floor: 0.4,
            cache_bytes: 256 << 20,
            held_episodes: 5_000,
            weights: RecallWeights::default(),
        }
    }
}

impl Default for RecallWeights {
    fn default() -> Self {
        Self {
            turn: 1.0,
            neighbours: 1.4,
            session: 1.2,
            neighbours_long: 0.5,
            session_long: 0.3,
            dense_turn: 2.5,
            dense_neighbours: 5.0,
            assistant: 0.4,
            boost: 0.1,
            speaker: 0.1,
        }
    }
}

impl Recall {
    pub(super) fn read(s: &mut Section<'_>) -> Self {
        let default = Self::default();
        let recall = Self {
            deadline: s.millis("deadline_ms", 1).unwrap_or(default.deadline),
            max_episodes: s.count("max_episodes", 0..=100).unwrap_or(default.max_episodes),
            max_passages: s.count("max_passages", 0..=100).unwrap_or(default.max_passages),
            knowledge_share: s.number("knowledge_share", default.knowledge_share, 0.0..=1.0),
            floor: s.number("floor", default.floor, 0.0..=1.0),
            cache_bytes: s.whole("cache_bytes", 1 << 20..=1 << 40).unwrap_or(default.cache_bytes),
            held_episodes: s.count("held_episodes", 1..=1_000_000).unwrap_or(default.held_episodes),
            weights: s.table("weights", |s| RecallWeights::read(s, default.weights)),
        };
        let weights = recall.weights;
        for (form, parts) in [
            ("neighbours, session", [weights.neighbours, weights.session]),
            ("neighbours_long, session_long", [weights.neighbours_long, weights.session_long]),
        ] {
            if weights.turn + parts[0] + parts[1] == 0.0 {
                s.wrong_secret("weights", format!("turn, {form} are all 0: at least one must be larger"));
            }
        }
        recall
    }
}

impl RecallWeights {
    fn read(s: &mut Section<'_>, default: Self) -> Self {
        Self {
            turn: s.number("turn", default.turn, WEIGHTS),
            neighbours: s.number("neighbours", default.neighbours, WEIGHTS),
            session: s.number("session", default.session, WEIGHTS),
            neighbours_long: s.number("neighbours_long", default.neighbours_long, WEIGHTS),
            session_long: s.number("session_long", default.session_long, WEIGHTS),
            dense_turn: s.number("dense_turn", default.dense_turn, WEIGHTS),
            dense_neighbours: s.number("dense_neighbours", default.dense_neighbours, WEIGHTS),
            assistant: s.number("assistant", default.assistant, WEIGHTS),
            boost: s.number("boost", default.boost, 0.0..=0.5),
            speaker: s.number("speaker", default.speaker, 0.0..=0.5),
        }
    }
}

/// `[embeddings]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Embeddings {
    /// `engine`.
    pub engine: EmbeddingsEngine,
    /// `provider`: by name; for the engine `openai`.
    pub provider: Option<String>,
    /// `model`.
    pub model: Option<String>,
    /// `dimension`; none = what the model gives.
    pub dimension: Option<u32>,
    /// `query_prefix`: put before every query.
    pub query_prefix: String,
    /// `document_prefix`: put before every stored text.
    pub document_prefix: String,
    /// `path`: folder of the model; for the engine `local`.
    pub path: Option<PathBuf>,
}

/// Who makes embeddings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EmbeddingsEngine {
    /// Nobody: words alone find.
    #[default]
    Off,
    /// A provider's `/embeddings`.
    OpenAi,
    /// A model in the process.
    Local,
}

impl Embeddings {
    pub(super) fn read(s: &mut Section<'_>) -> Self {
        let engines =
            [("off", EmbeddingsEngine::Off), ("openai", EmbeddingsEngine::OpenAi), ("local", EmbeddingsEngine::Local)];
        let engine = s.choice("engine", EmbeddingsEngine::Off, &engines);
        let needed: &[&str] = match engine {
            EmbeddingsEngine::Off => &[],
            EmbeddingsEngine::OpenAi => &["provider", "model"],
            EmbeddingsEngine::Local => &["path"],
        };
        for key in needed.iter().filter(|key| !s.has(key)) {
            s.wrong("engine", format!("needs `{key}` beside it"));
        }
        Self {
            engine,
            provider: s.name("provider"),
            model: s.name("model"),
            dimension: s.count("dimension", 1..=65_536),
            query_prefix: s.text("query_prefix").unwrap_or_default(),
            document_prefix: s.text("document_prefix").unwrap_or_default(),
            path: s.path("path"),
        }
    }
}

/// `[rerank]`: an endpoint that orders what was found.
#[derive(Clone, Debug, Default)]
pub struct Rerank {
    /// `url`; none = rules only.
    pub url: Option<String>,
    /// `kind`: the form of its questions; none = as the model tells: with one `cohere`, without one `tei`.
    pub kind: Option<RerankKind>,
    /// `model`.
    pub model: Option<String>,
    /// `api_key`.
    pub api_key: Option<Secret>,
}

/// How a rerank endpoint is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RerankKind {
    /// As Cohere, and what speaks like it.
    Cohere,
    /// As Jina.
    Jina,
    /// As text-embeddings-inference.
    Tei,
}

impl Rerank {
    pub(super) fn read(s: &mut Section<'_>) -> Self {
        for key in ["kind", "model", "api_key"].into_iter().filter(|key| s.has(key) && !s.has("url")) {
            s.wrong_secret(key, "needs `url` beside it");
        }
        let kinds = [("cohere", RerankKind::Cohere), ("jina", RerankKind::Jina), ("tei", RerankKind::Tei)];
        let kind = s.has("kind").then(|| s.choice("kind", RerankKind::Cohere, &kinds));
        Self { url: http_url(s, "url"), kind, model: s.name("model"), api_key: s.secret("api_key") }
    }
}
