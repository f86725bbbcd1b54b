//! `[extract]` and `[summary]`: what models of our own do in the background.

use std::time::Duration;

use super::reader::Section;

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
    /// `keep_exchanges_days`: how long it is kept what was said in an exchange once it was learned from, in days; 0 = not at all.
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
    /// `max_tokens_per_day` that the model may use in this process; none (0 in the file) = no cap.
    pub max_tokens_per_day: Option<u64>,
}

impl Default for Summary {
    fn default() -> Self {
        Self { model: None, soft_mark: 0.8, max_tokens_per_day: Some(1_000_000) }
    }
}

impl Summary {
    pub(super) fn read(s: &mut Section<'_>) -> Self {
        let default = Self::default();
        Self {
            model: ModelRef::read(s),
            soft_mark: s.number("soft_mark", default.soft_mark, 0.1..=1.0),
            max_tokens_per_day: s
                .whole("max_tokens_per_day", 0..=1 << 53)
                .map_or(default.max_tokens_per_day, |tokens| (tokens > 0).then_some(tokens)),
        }
    }
}
