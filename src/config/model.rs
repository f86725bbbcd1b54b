//! `[[models]]` and `[routing]`: the names that clients ask for, and what is behind them.

use std::sync::Arc;

use super::limit_rules::read_limits;
use super::limits::BudgetChanges;
use super::params;
use super::reader::Section;
use crate::exchange::Limits;
use crate::tokens::{ModelTable, Price, PriceChanges, Rate};
use crate::upstream::{Pick, When};
use crate::wire::ParamRules;

/// One `[[models]]`: a name that clients ask for, and what is behind it.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// `name`.
    pub name: String,
    /// `alias`: it is another name for this model; then it has no targets of its own.
    pub alias: Option<String>,
    /// `pick`: which target of one order goes first.
    pub pick: Pick,
    /// `[[models.targets]]`; never empty without an alias.
    pub targets: Vec<Target>,
    /// `[models.budget]`: what it changes of `[budget]`.
    pub budget: BudgetChanges,
    /// `[models.limits]`: of all who ask for it together.
    pub limits: Limits,
}

/// One `[[models.targets]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// `provider`: by name.
    pub provider: String,
    /// `model`: upstream's name for it.
    pub model: String,
    /// `weight`: its share among targets of the same order; 0 = only as a fallback.
    pub weight: u32,
    /// `order`: lower ones are tried first.
    pub order: u32,
    /// `window`: tokens that input and output may take together; none = from the table of known models.
    pub window: Option<u32>,
    /// `max_output`: the most output tokens; none = from the table of known models.
    pub max_output: Option<u32>,
    /// `price_…_per_million`: what tokens cost, in US dollars; none = from the table of known models.
    pub price: PriceChanges,
    /// `price_date`: when the prices were read, for people.
    pub price_date: Option<String>,
    /// `[models.targets.when]`: which requests it takes.
    pub when: When,
    /// `[models.targets.params]`: what is changed of a request's parameters; none = nothing.
    pub params: Option<Arc<ParamRules>>,
}

/// `[routing]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Routing {
    /// `unknown_models`: what happens to names that no `[[models]]` has.
    pub unknown_models: UnknownModels,
}

/// What happens to names that are not configured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnknownModels {
    /// `"pass"`: they go to the default provider, where there is one.
    #[default]
    Pass,
    /// `"reject"`: 404.
    Reject,
}

impl Model {
    pub(super) fn read(s: &mut Section<'_>) -> Self {
        let name = s.required("name");
        let alias = s.name("alias");
        let targets = s.tables("targets", Target::read);
        let picks = [("weighted", Pick::Weighted), ("least-latency", Pick::LeastLatency)];
        let pick = s.choice("pick", Pick::default(), &picks);
        if s.has("alias") {
            for key in ["targets", "pick", "limits"].into_iter().filter(|key| s.has(key)) {
                s.wrong_secret(key, "stands beside `alias`: an alias has what the model has that it names");
            }
        } else if targets.is_empty() {
            s.wrong_secret("targets", "at least one [[models.targets]] is needed, or `alias`");
        } else if targets.iter().all(|target| target.weight == 0) {
            s.wrong_secret("targets", "all weights are 0: at least one must be larger");
        }
        let limits = s.table("limits", read_limits);
        Self { name, alias, pick, targets, budget: s.table("budget", BudgetChanges::read), limits }
    }
}

impl Target {
    /// What it costs, with what the table of known models says; `None` = not known.
    #[must_use]
    pub fn price(&self) -> Option<Price> {
        self.price.over(ModelTable::built_in().price(&self.model))
    }

    fn read(s: &mut Section<'_>) -> Self {
        let params = s.table("params", params::read);
        Self {
            provider: s.required("provider"),
            model: s.required("model"),
            weight: s.count("weight", 0..=1_000_000).unwrap_or(1),
            order: s.count("order", 0..=1_000).unwrap_or(0),
            window: s.count("window", 1..=100_000_000),
            max_output: s.count("max_output", 1..=100_000_000),
            price: PriceChanges {
                input: rate(s, "price_input_per_million"),
                cached: rate(s, "price_cached_per_million"),
                cache_write: rate(s, "price_cache_write_per_million"),
                output: rate(s, "price_output_per_million"),
                reasoning: rate(s, "price_reasoning_per_million"),
            },
            price_date: s.name("price_date"),
            when: s.table("when", read_when),
            params: (!params.is_empty()).then(|| Arc::new(params)),
        }
    }
}

/// A price; what is absent or wrong (which was reported) is none.
fn rate(s: &mut Section<'_>, key: &'static str) -> Option<Rate> {
    Rate::per_million(s.number(key, f64::NAN, 0.0..=Rate::MAX_DOLLARS)).ok()
}

fn read_when(s: &mut Section<'_>) -> When {
    let when = When {
        tools: s.maybe("tools"),
        images: s.maybe("images"),
        stream: s.maybe("stream"),
        min_input_tokens: s.count("min_input_tokens", 0..=100_000_000).map(|n| n as usize),
        max_input_tokens: s.count("max_input_tokens", 0..=100_000_000).map(|n| n as usize),
    };
    if when.min_input_tokens.zip(when.max_input_tokens).is_some_and(|(min, max)| min > max) {
        s.wrong("min_input_tokens", "is larger than max_input_tokens: no request could ever be taken");
    }
    when
}

impl Routing {
    pub(super) fn read(s: &mut Section<'_>) -> Self {
        let words = [("pass", UnknownModels::Pass), ("reject", UnknownModels::Reject)];
        Self { unknown_models: s.choice("unknown_models", UnknownModels::default(), &words) }
    }
}
