//! `[memory]`, `[recall]`, `[extract]`, `[summary]`, `[embeddings]` and `[rerank]`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use super::provider::http_url;
use super::reader::Section;
use crate::base::Secret;

/// `[memory]`: how memories fade and run out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// What holds for every namespace without rules of its own.
    pub rules: MemoryRules,
    /// `[memory.namespaces.NAME]`: complete rules; what a table leaves out is as in `[memory]`.
    pub namespaces: BTreeMap<String, MemoryRules>,
}

/// Half-lives, times to live and capacities. A half-life orders memories, it removes none. `None` (0 in the file) = never, or no limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryRules {
    /// `fleeting_half_life_hours`: of intents of the moment.
    pub fleeting_half_life: Option<Duration>,
    /// `preference_half_life_days`, since last confirmed.
    pub preference_half_life: Option<Duration>,
    /// `identity_half_life_days`.
    pub identity_half_life: Option<Duration>,
    /// `constraint_half_life_days`.
    pub constraint_half_life: Option<Duration>,
    /// `event_half_life_days`.
    pub event_half_life: Option<Duration>,
    /// `other_half_life_days`.
    pub other_half_life: Option<Duration>,
    /// `episode_half_life_days`.
    pub episode_half_life: Option<Duration>,
    /// `inferred_ttl_days`: of facts that were concluded, not said, unless confirmed.
    pub inferred_ttl: Option<Duration>,
    /// `episode_ttl_days`.
    pub episode_ttl: Option<Duration>,
    /// `max_facts` of a scope; above it the least useful go first.
    pub max_facts: u32,
    /// `max_episodes` of a scope; above it the least useful go first.
    pub max_episodes: u32,
    /// `critical`: keys that are critical beside those of the key schema.
    pub critical: Vec<String>,
}

const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;

impl Default for MemoryRules {
    fn default() -> Self {
        let days = |n| Some(Duration::from_secs(n * DAY));
        Self {
            fleeting_half_life: Some(Duration::from_secs(12 * HOUR)),
            preference_half_life: days(180),
            identity_half_life: None,
            constraint_half_life: None,
            event_half_life: days(90),
            other_half_life: days(180),
            episode_half_life: days(90),
            inferred_ttl: days(7),
            episode_ttl: None,
            max_facts: 10_000,
            max_episodes: 100_000,
            critical: Vec::new(),
        }
    }
}

impl Memory {
    pub(super) fn read(s: &mut Section<'_>) -> Self {
        let rules = MemoryRules::read(s, MemoryRules::default());
        let namespaces = s.named_tables("namespaces", |s| MemoryRules::read(s, rules.clone()));
        Self { rules, namespaces: namespaces.into_iter().collect() }
    }

    /// The rules of a namespace.
    #[must_use]
    pub fn of(&self, namespace: &str) -> &MemoryRules {
        self.namespaces.get(namespace).unwrap_or(&self.rules)
    }
}

impl MemoryRules {
    fn read(s: &mut Section<'_>, default: Self) -> Self {
        let mut time = |key, unit: u64, default| {
            s.whole(key, 0..=36_500).map_or(default, |n| (n > 0).then(|| Duration::from_secs(n * unit)))
        };
        Self {
            fleeting_half_life: time("fleeting_half_life_hours", HOUR, default.fleeting_half_life),
            preference_half_life: time("preference_half_life_days", DAY, default.preference_half_life),
            identity_half_life: time("identity_half_life_days", DAY, default.identity_half_life),
            constraint_half_life: time("constraint_half_life_days", DAY, default.constraint_half_life),
            event_half_life: time("event_half_life_days", DAY, default.event_half_life),
            other_half_life: time("other_half_life_days", DAY, default.other_half_life),
            episode_half_life: time("episode_half_life_days", DAY, default.episode_half_life),
            inferred_ttl: time("inferred_ttl_days", DAY, default.inferred_ttl),
            episode_ttl: time("episode_ttl_days", DAY, default.episode_ttl),
            max_facts: s.count("max_facts", 1..=1_000_000).unwrap_or(default.max_facts),
            max_episodes: s.count("max_episodes", 1..=10_000_000).unwrap_or(default.max_episodes),
            critical: s.names("critical").unwrap_or(default.critical),
        }
    }
}

/// `[recall]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Recall {
    /// `deadline_ms`: what is ready then is shown.
    pub deadline: Duration,
    /// `max_episodes` shown at once.
    pub max_episodes: u32,
    /// `floor`: share of the question's information that an episode must cover to be shown, 0 to 1.
    pub floor: f64,
    /// `cache_bytes`: bound of the scopes that are held in memory.
    pub cache_bytes: u64,
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
            floor: 0.35,
            cache_bytes: 256 << 20,
            weights: RecallWeights::default(),
        }
    }
}

impl Default for RecallWeights {
    fn default() -> Self {
        Self {
            turn: 1.0,
            neighbours: 1.2,
            session: 1.0,
            neighbours_long: 0.5,
            session_long: 0.3,
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
            floor: s.number("floor", default.floor, 0.0..=1.0),
            cache_bytes: s.whole("cache_bytes", 1 << 20..=1 << 40).unwrap_or(default.cache_bytes),
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
            assistant: s.number("assistant", default.assistant, WEIGHTS),
            boost: s.number("boost", default.boost, 0.0..=0.5),
            speaker: s.number("speaker", default.speaker, 0.0..=0.5),
        }
    }
}

/// What a weight may be.
const WEIGHTS: std::ops::RangeInclusive<f64> = 0.0..=10.0;

/// `[extract]`: how things are learned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extract {
    /// `rules`: whether the built-in rules propose facts.
    pub rules: bool,
    /// `provider` and `model` that propose beside the rules; none = rules only.
    pub model: Option<ModelRef>,
    /// `window_seconds`: idle time before a batch; zero = at once.
    pub window: Duration,
    /// `max_tokens_per_day` and tenant that the model may use; none (0 in the file) = no cap.
    pub max_tokens_per_day: Option<u64>,
    /// `keep_exchanges_days`: how long raw exchanges are kept once learned from, in days.
    pub keep_exchanges_days: u32,
}

/// A model of a provider, for our own calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelRef {
    /// `provider`: by name.
    pub provider: String,
    /// `model`: upstream's name for it.
    pub model: String,
}

impl ModelRef {
    /// Reads both keys: either both or none.
    fn read(s: &mut Section<'_>) -> Option<Self> {
        for (one, other) in [("provider", "model"), ("model", "provider")] {
            if s.has(one) && !s.has(other) {
                s.wrong(one, format!("needs `{other}` beside it"));
            }
        }
        let (provider, model) = (s.name("provider"), s.name("model"));
        Some(Self { provider: provider?, model: model? })
    }
}

impl Default for Extract {
    fn default() -> Self {
        Self {
            rules: true,
            model: None,
            window: Duration::ZERO,
            max_tokens_per_day: Some(1_000_000),
            keep_exchanges_days: 0,
        }
    }
}

impl Extract {
    pub(super) fn read(s: &mut Section<'_>) -> Self {
        let default = Self::default();
        Self {
            rules: s.flag("rules", default.rules),
            model: ModelRef::read(s),
            window: s.seconds("window_seconds", 0).unwrap_or(default.window),
            max_tokens_per_day: s
                .whole("max_tokens_per_day", 0..=1 << 53)
                .map_or(default.max_tokens_per_day, |tokens| (tokens > 0).then_some(tokens)),
            keep_exchanges_days: s.count("keep_exchanges_days", 0..=3650).unwrap_or(default.keep_exchanges_days),
        }
    }
}

/// `[summary]`: of the messages that were cut.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// `provider` and `model` that summarise; none = an extractive digest.
    pub model: Option<ModelRef>,
    /// `soft_mark`: share of the budget above which a summary is made ahead of need, 0.1 to 1.
    pub soft_mark: f64,
}

impl Default for Summary {
    fn default() -> Self {
        Self { model: None, soft_mark: 0.8 }
    }
}

impl Summary {
    pub(super) fn read(s: &mut Section<'_>) -> Self {
        Self { model: ModelRef::read(s), soft_mark: s.number("soft_mark", Self::default().soft_mark, 0.1..=1.0) }
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
    /// `model`.
    pub model: Option<String>,
    /// `api_key`.
    pub api_key: Option<Secret>,
}

impl Rerank {
    pub(super) fn read(s: &mut Section<'_>) -> Self {
        for key in ["model", "api_key"].into_iter().filter(|key| s.has(key) && !s.has("url")) {
            s.wrong_secret(key, "needs `url` beside it");
        }
        Self { url: http_url(s, "url"), model: s.name("model"), api_key: s.secret("api_key") }
    }
}
