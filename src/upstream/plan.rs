//! A model name to the targets behind it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use moka::sync::Cache;

use super::choose::{Pick, Placed, arranged};
use super::endpoints::Deployment;
use super::health::State;
use super::lanes::Lanes;
use super::latency::Latency;
use super::mono::now_ms;
use super::provider::Provider;
use super::when::{Traits, When};
use crate::base::{ErrorKind, GatewayError, near};
use crate::context;
use crate::exchange::Principal;
use crate::tokens::{ModelTable, Price, PriceChanges};
use crate::wire::{ChatRequest, ParamRules};

/// Names of models that are not configured, and the targets made for them.
const MAX_UNCONFIGURED: u64 = 1_000;
/// So many near names are told to a client that asked for one that is not there.
const MAX_NEAR: usize = 3;

/// One (provider, upstream model) behind a name.
#[derive(Debug)]
pub struct Target {
    /// Where it goes.
    pub provider: Arc<Provider>,
    /// `provider/model`, for headers, spans and metrics.
    pub label: String,
    /// What fitting a request to it depends on.
    pub fit: context::Target,
    /// What is changed of a request's parameters; `None` = nothing.
    pub params: Option<Arc<ParamRules>>,
    /// Its tokenizer is public and ours: there is nothing to learn of how it counts.
    pub exact: bool,
    /// What it costs; `None` = not known.
    pub price: Option<Price>,
    /// Its window stands in the configuration: it goes before what its answers say.
    pub window_is_configured: bool,
    /// It refused `stream_options`: it is not asked for usage again.
    pub refuses_usage: AtomicBool,
    /// Where its requests go, where its model has a part in the address.
    pub(super) deployment: Option<Deployment>,
    /// How it has been doing, with each key.
    pub(super) lanes: Lanes,
    /// How fast it has been, where somebody goes by it.
    pub(super) latency: Option<Arc<Latency>>,
}

/// What stands in the config about one target.
#[derive(Clone, Debug)]
pub struct TargetConfig {
    /// Where it goes.
    pub provider: Arc<Provider>,
    /// The upstream model.
    pub model: String,
    /// Its window; `None` = as the model table says.
    pub window: Option<usize>,
    /// Its output limit; `None` = as the model table says.
    pub max_output: Option<usize>,
    /// What it costs, where the model table is not to decide.
    pub price: PriceChanges,
    /// Lower ones are tried first.
    pub order: u32,
    /// Share among targets of the same order; 0 = only when all others of it failed.
    pub weight: u32,
    /// Which requests it takes.
    pub when: When,
    /// What is changed of a request's parameters.
    pub params: Option<Arc<ParamRules>>,
    /// The same target under the configuration before: how it has been doing is known.
    pub before: Option<Arc<Target>>,
}

/// What stands in the config about one name.
#[derive(Clone, Debug)]
pub struct ModelConfig {
    /// The name.
    pub name: String,
    /// Further names that mean the same.
    pub aliases: Vec<String>,
    /// The targets; never empty.
    pub targets: Vec<TargetConfig>,
    /// Which of one order goes first.
    pub pick: Pick,
}

/// A name that clients ask for, and what is behind it.
#[derive(Debug)]
pub struct Model {
    targets: Vec<Placed>,
    pick: Pick,
    /// Some target takes some requests only; and whether tokens have to be counted to know.
    conditions: bool,
    counts: bool,
}

/// All names and where they lead.
#[derive(Debug)]
pub struct Routes {
    models: HashMap<String, Arc<Model>>,
    names: Vec<String>,
    default: Option<Arc<Provider>>,
    passes_unknown: bool,
    table: &'static ModelTable,
    unconfigured: Cache<String, Arc<Model>>,
}

impl Routes {
    /// Makes the routes of configured models. `default` gets the paths that are not ours, and, where `passes_unknown`, the names
    /// that are not configured. `names` is the order in which all names are listed.
    #[must_use]
    pub fn new(
        models: Vec<ModelConfig>,
        names: Vec<String>,
        default: Option<Arc<Provider>>,
        passes_unknown: bool,
        table: &'static ModelTable,
    ) -> Self {
        let mut by_name = HashMap::with_capacity(names.len());
        for config in models {
            let measured = config.pick == Pick::LeastLatency;
            let mut targets: Vec<Placed> = config
                .targets
                .into_iter()
                .map(|target| Placed {
                    order: target.order,
                    weight: target.weight,
                    when: target.when,
                    target: Arc::new(Target {
                        latency: measured
                            .then(|| target.before.as_ref().and_then(|t| t.latency.clone()).unwrap_or_default()),
                        ..Target::configured(target, table)
                    }),
                })
                .collect();
            targets.sort_by_key(|target| target.order);
            let model = Arc::new(Model::new(targets, config.pick));
            for alias in config.aliases {
                by_name.insert(alias, Arc::clone(&model));
            }
            by_name.insert(config.name, model);
        }
        let unconfigured = Cache::new(MAX_UNCONFIGURED);
        Self { models: by_name, names, default, passes_unknown, table, unconfigured }
    }

    /// Goes on from the routes of the configuration before with names that are not configured: what is known of their targets stays,
    /// where they lead to the same provider.
    #[must_use]
    pub fn after(self, before: &Self) -> Self {
        let same = match (&self.default, &before.default) {
            (Some(default), Some(old)) => Arc::ptr_eq(default, old),
            _ => false,
        };
        if same { Self { unconfigured: before.unconfigured.clone(), ..self } } else { self }
    }

    /// The target of a configured name that goes to this model of this very provider.
    #[must_use]
    pub fn target(&self, name: &str, provider: &Arc<Provider>, model: &str) -> Option<Arc<Target>> {
        let goes_there = |target: &&Arc<Target>| {
            Arc::ptr_eq(&target.provider, provider) && target.fit.model.as_deref() == Some(model)
        };
        self.models.get(name)?.targets().find(goes_there).cloned()
    }

    /// The configured names, in the order of the config.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The configured targets, of all names; one that stands behind several names comes as often.
    pub fn targets(&self) -> impl Iterator<Item = &Target> {
        self.models.values().flat_map(|model| &model.targets).map(|placed| &*placed.target)
    }

    /// The provider for paths that are not ours.
    #[must_use]
    pub fn default_provider(&self) -> Option<&Arc<Provider>> {
        self.default.as_ref()
    }

    /// Whether names that are not configured lead anywhere.
    #[must_use]
    pub fn passes_unknown(&self) -> bool {
        self.passes_unknown && self.default.is_some()
    }

    /// Whether a key may ask for a configured name.
    #[must_use]
    pub fn may_use(principal: &Principal, model: &str) -> bool {
        principal.models.is_empty() || principal.models.iter().any(|m| m == model)
    }

    /// The names that a key may ask for, as far as they are known: the configured ones, and those that its own list adds.
    pub fn listed<'a>(&'a self, principal: &'a Principal) -> impl Iterator<Item = &'a str> {
        let configured = self.names.iter().filter(|name| Self::may_use(principal, name));
        let added = principal.models.iter().filter(|name| self.passes_unknown() && !self.names.contains(name));
        configured.chain(added).map(String::as_str)
    }

    /// Returns what is behind a name.
    ///
    /// # Errors
    /// 404 `model_not_found` when the name leads nowhere or this key may not use it; both read alike.
    pub fn model(&self, principal: &Principal, name: &str) -> Result<Arc<Model>, GatewayError> {
        if !Self::may_use(principal, name) {
            return Err(self.not_found(principal, name));
        }
        if let Some(model) = self.models.get(name) {
            return Ok(Arc::clone(model));
        }
        let provider = self.default.as_ref().filter(|_| self.passes_unknown);
        let provider = provider.ok_or_else(|| self.not_found(principal, name))?;
        if let Some(model) = self.unconfigured.get(name) {
            return Ok(model);
        }
        let target = Arc::new(Target::passing(Arc::clone(provider), name, self.table));
        let model = Arc::new(Model::new(vec![Placed::only(target)], Pick::default()));
        // Very long names are not worth a place in the cache.
        if name.len() <= 256 {
            self.unconfigured.insert(name.to_owned(), Arc::clone(&model));
        }
        Ok(model)
    }

    /// What is said about a name that leads nowhere; it names only what this key may use.
    #[must_use]
    pub fn not_found(&self, principal: &Principal, name: &str) -> GatewayError {
        let mut public = format!("the model `{}` does not exist or this key may not use it", clipped(name));
        let near = near(name, self.listed(principal), MAX_NEAR);
        if !near.is_empty() {
            public.push_str(&format!("; near it are {}", near.join(", ")));
        }
        GatewayError::new(ErrorKind::ModelNotFound, public).with_param("model")
    }
}

impl Model {
    fn new(targets: Vec<Placed>, pick: Pick) -> Self {
        Self {
            conditions: targets.iter().any(|placed| !placed.when.is_always()),
            counts: targets.iter().any(|placed| placed.when.counts()),
            targets,
            pick,
        }
    }

    /// Whether its targets take some requests only.
    #[must_use]
    pub fn has_conditions(&self) -> bool {
        self.conditions
    }

    /// Whether it depends on a request's tokens which targets take it.
    #[must_use]
    pub fn counts(&self) -> bool {
        self.counts
    }

    /// All of its targets.
    pub fn targets(&self) -> impl Iterator<Item = &Arc<Target>> {
        self.targets.iter().map(|placed| &placed.target)
    }

    /// Any of its targets, to count with.
    #[must_use]
    pub fn first(&self) -> Option<&Arc<Target>> {
        self.targets.first().map(|placed| &placed.target)
    }

    /// Returns the targets that take a request, first choice first. `spread` is a number that differs between requests.
    ///
    /// # Errors
    /// 400 when no target takes such a request.
    pub fn plan(&self, traits: &Traits, spread: u64) -> Result<Vec<Arc<Target>>, GatewayError> {
        if let ([only], false) = (&*self.targets, self.conditions) {
            return Ok(vec![Arc::clone(&only.target)]);
        }
        let taking: Vec<&Placed> =
            self.targets.iter().filter(|placed| !self.conditions || placed.when.takes(traits)).collect();
        if taking.is_empty() {
            let public = "no target of this model takes such a request: its tools, its images, its size or its being a stream (or not) rule out all of them";
            return Err(GatewayError::new(ErrorKind::BadRequest, public).with_param("model"));
        }
        Ok(arranged(&taking, self.pick, traits.stream, spread, now_ms()))
    }
}

impl Target {
    /// The window in force: the configured one, else the smaller of the table's and the learned one; `None` = unknown.
    #[must_use]
    pub fn window(&self, learned: Option<usize>) -> Option<usize> {
        let learned = learned.filter(|_| !self.window_is_configured);
        [self.fit.window, learned].into_iter().flatten().min()
    }

    /// The most output tokens that a request asks of it, its parameter rules applied.
    #[must_use]
    pub fn max_output(&self, request: &ChatRequest) -> Option<u64> {
        self.params.as_ref().map_or_else(|| request.max_output(), |rules| rules.max_output(request))
    }

    /// Whether it is left alone since it failed, with every key.
    #[must_use]
    pub fn is_cooling(&self) -> bool {
        self.is_cooling_at(now_ms())
    }

    pub(super) fn is_cooling_at(&self, now_ms: u64) -> bool {
        matches!(self.lanes.state(self.provider.keys(), now_ms), State::Cooling { .. })
    }

    pub(super) fn configured(config: TargetConfig, table: &ModelTable) -> Self {
        let known = context::Target::for_model(table, &config.model);
        let before = config.before.as_deref();
        let fit = context::Target {
            window: config.window.or(known.window),
            max_output: config.max_output.or(known.max_output),
            max_sensitivity: config.provider.max_sensitivity,
            ..known
        };
        Self {
            label: format!("{}/{}", config.provider.name, config.model),
            exact: is_exact(table, &config.model),
            price: config.price.over(table.price(&config.model)),
            window_is_configured: config.window.is_some(),
            params: config.params,
            deployment: config.provider.deployment(&config.model),
            fit: context::Target { model: Some(config.model), ..fit },
            lanes: before.map_or_else(|| Lanes::new(config.provider.keys().len()), |target| target.lanes.clone()),
            refuses_usage: AtomicBool::new(before.is_some_and(|target| target.refuses_usage.load(Ordering::Relaxed))),
            provider: config.provider,
            latency: None,
        }
    }

    pub(super) fn passing(provider: Arc<Provider>, model: &str, table: &ModelTable) -> Self {
        let known = context::Target::for_model(table, model);
        Self {
            label: format!("{}/{}", provider.name, clipped(model)),
            exact: is_exact(table, model),
            price: table.price(model),
            window_is_configured: false,
            params: None,
            deployment: provider.deployment(model),
            fit: context::Target { max_sensitivity: provider.max_sensitivity, ..known },
            lanes: Lanes::new(provider.keys().len()),
            provider,
            refuses_usage: AtomicBool::new(false),
            latency: None,
        }
    }
}

fn is_exact(table: &ModelTable, model: &str) -> bool {
    table.lookup(model).is_some_and(|known| known.exact)
}

/// A model name short and plain enough for a header and an error text.
fn clipped(model: &str) -> String {
    model.chars().filter(|c| c.is_ascii_graphic()).take(120).collect()
}
