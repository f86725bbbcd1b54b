//! `[timeouts]` and `[budget]`.

use std::time::Duration;

use super::reader::Section;
use super::server::none_if_zero;

/// `[timeouts]`: of calls upstream. `None` (0 in the file) = none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// `connect_ms`: until the connection stands.
    pub connect: Option<Duration>,
    /// `header_ms`: from the request to upstream's header; a reply that is not streamed comes only when it is complete.
    pub header: Option<Duration>,
    /// `first_token_ms`: from the header to the first content of a stream.
    pub first_token: Option<Duration>,
    /// `idle_ms`: silence within a body.
    pub idle: Option<Duration>,
    /// `total_ms`: all of it; not applied to streams.
    pub total: Option<Duration>,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Some(Duration::from_secs(10)),
            header: Some(Duration::from_secs(300)),
            first_token: Some(Duration::from_secs(120)),
            idle: Some(Duration::from_secs(120)),
            total: Some(Duration::from_secs(600)),
        }
    }
}

impl Timeouts {
    pub(super) fn read(s: &mut Section<'_>) -> Self {
        let default = Self::default();
        let mut read = |key, default| s.millis(key, 0).map_or(default, none_if_zero);
        Self {
            connect: read("connect_ms", default.connect),
            header: read("header_ms", default.header),
            first_token: read("first_token_ms", default.first_token),
            idle: read("idle_ms", default.idle),
            total: read("total_ms", default.total),
        }
    }
}

/// `[budget]`: how many tokens a request may carry.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    /// `max_input_tokens`; none (0 in the file) = what the target's window leaves.
    pub max_input_tokens: Option<u32>,
    /// `memory_tokens`: how many of them the recollection may take.
    pub memory_tokens: u32,
    /// `output_reserve`: tokens kept for the reply when the request does not say; none (0 in the file) = an eighth of
    /// the window.
    pub output_reserve: Option<u32>,
    /// `low_water`: share of the budget that a cut goes down to, 0.1 to 1.
    pub low_water: f64,
    /// `overflow`: what happens above the budget.
    pub overflow: Overflow,
    /// `profile`: how conversations are treated.
    pub profile: Profile,
    /// `sticky_tokens`: after a user turn longer than this its block stays in place until the next cut; 0 = none does.
    pub sticky_tokens: u32,
}

/// What happens above the budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overflow {
    /// Cut whole units; 400 when the pinned rest is still too big.
    Trim,
    /// Never cut: 400.
    Reject,
    /// Cut, then shorten the largest text.
    Shorten,
}

/// How conversations are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// No long-term memory, the window only.
    Single,
    /// The whole job.
    Chat,
    /// Tool results are shortened first, then cut.
    Task,
}

/// `[keys.budget]` and `[models.budget]`: what a key or a model changes of `[budget]`; what is left out stays.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BudgetChanges {
    /// `max_input_tokens`: a cap beside all others; the tightest holds.
    pub max_input_tokens: Option<u32>,
    /// `memory_tokens`.
    pub memory_tokens: Option<u32>,
    /// `output_reserve`.
    pub output_reserve: Option<u32>,
    /// `low_water`.
    pub low_water: Option<f64>,
    /// `overflow`.
    pub overflow: Option<Overflow>,
    /// `profile`.
    pub profile: Option<Profile>,
    /// `sticky_tokens`.
    pub sticky_tokens: Option<u32>,
}

impl BudgetChanges {
    pub(super) fn read(s: &mut Section<'_>) -> Self {
        let has_low_water = s.has("low_water");
        let low_water = s.number("low_water", Budget::default().low_water, 0.1..=1.0);
        Self {
            max_input_tokens: s.count("max_input_tokens", 1..=100_000_000),
            memory_tokens: s.count("memory_tokens", 0..=1_000_000),
            output_reserve: s.count("output_reserve", 1..=100_000_000),
            low_water: has_low_water.then_some(low_water),
            overflow: s.choice("overflow", None, &OVERFLOWS.map(|(word, value)| (word, Some(value)))),
            profile: s.choice("profile", None, &PROFILES.map(|(word, value)| (word, Some(value)))),
            sticky_tokens: s.count("sticky_tokens", 0..=100_000_000),
        }
    }
}

impl BudgetChanges {
    /// These changes over those of `below`: what is left out is as there, and of two caps the tighter one holds.
    #[must_use]
    pub fn over(&self, below: &Self) -> Self {
        Self {
            max_input_tokens: [self.max_input_tokens, below.max_input_tokens].into_iter().flatten().min(),
            memory_tokens: self.memory_tokens.or(below.memory_tokens),
            output_reserve: self.output_reserve.or(below.output_reserve),
            low_water: self.low_water.or(below.low_water),
            overflow: self.overflow.or(below.overflow),
            profile: self.profile.or(below.profile),
            sticky_tokens: self.sticky_tokens.or(below.sticky_tokens),
        }
    }
}

const OVERFLOWS: [(&str, Overflow); 3] =
    [("trim", Overflow::Trim), ("reject", Overflow::Reject), ("shorten", Overflow::Shorten)];
const PROFILES: [(&str, Profile); 3] = [("single", Profile::Single), ("chat", Profile::Chat), ("task", Profile::Task)];

impl Default for Budget {
    fn default() -> Self {
        Self {
            max_input_tokens: None,
            memory_tokens: 1000,
            output_reserve: None,
            low_water: 0.7,
            overflow: Overflow::Trim,
            profile: Profile::Chat,
            sticky_tokens: 4000,
        }
    }
}

impl Budget {
    pub(super) fn read(s: &mut Section<'_>) -> Self {
        let default = Self::default();
        Self {
            max_input_tokens: s.count("max_input_tokens", 0..=100_000_000).filter(|&tokens| tokens > 0),
            memory_tokens: s.count("memory_tokens", 0..=1_000_000).unwrap_or(default.memory_tokens),
            output_reserve: s.count("output_reserve", 0..=100_000_000).filter(|&tokens| tokens > 0),
            low_water: s.number("low_water", default.low_water, 0.1..=1.0),
            overflow: s.choice("overflow", default.overflow, &OVERFLOWS),
            profile: s.choice("profile", default.profile, &PROFILES),
            sticky_tokens: s.count("sticky_tokens", 0..=100_000_000).unwrap_or(default.sticky_tokens),
        }
    }

    /// The section in the form that keys and models have.
    #[must_use]
    pub fn changes(&self) -> BudgetChanges {
        BudgetChanges {
            max_input_tokens: self.max_input_tokens,
            memory_tokens: Some(self.memory_tokens),
            output_reserve: self.output_reserve,
            low_water: Some(self.low_water),
            overflow: Some(self.overflow),
            profile: Some(self.profile),
            sticky_tokens: Some(self.sticky_tokens),
        }
    }
}
