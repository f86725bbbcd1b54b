//! A model name to the targets behind it, in the order in which they are tried.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use moka::sync::Cache;

use super::health::Health;
use super::provider::Provider;
use crate::base::{ErrorKind, GatewayError};
use crate::context;
use crate::exchange::Principal;
use crate::tokens::{ModelTable, Price, PriceChanges};

/// Names of models that are not configured, and the targets made for them.
const MAX_UNCONFIGURED: u64 = 1_000;

/// One (provider, upstream model) behind a name.
#[derive(Debug)]
pub struct Target {
    /// Where it goes.
    pub provider: Arc<Provider>,
    /// `provider/model`, for headers, spans and metrics.
    pub label: String,
    /// What fitting a request to it depends on.
    pub fit: context::Target,
    /// Its tokenizer is public and ours: there is nothing to learn of how it counts.
    pub exact: bool,
    /// What it costs; `None` = not known.
    pub price: Option<Price>,
    /// Its window stands in the configuration: it goes before what its answers say.
    pub window_is_configured: bool,
    /// It refused `stream_options`: it is not asked for usage again.
    pub refuses_usage: AtomicBool,
    /// How it has been doing.
    pub(super) health: Health,
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
}

/// A target and its place.
#[derive(Debug)]
struct Placed {
    target: Arc<Target>,
    order: u32,
    weight: u32,
}

/// All names and where they lead.
#[derive(Debug)]
pub struct Routes {
    models: HashMap<String, Vec<Placed>>,
    names: Vec<String>,
    default: Option<Arc<Provider>>,
    table: &'static ModelTable,
    unconfigured: Cache<String, Arc<Target>>,
}

impl Routes {
    /// Makes the routes of configured models; names that are not configured go to `default`, if there is one.
    #[must_use]
    pub fn new(
        models: Vec<(String, Vec<TargetConfig>)>,
        default: Option<Arc<Provider>>,
        table: &'static ModelTable,
    ) -> Self {
        let names = models.iter().map(|(name, _)| name.clone()).collect();
        let models = models
            .into_iter()
            .map(|(name, targets)| {
                let place = |config: TargetConfig| Placed {
                    order: config.order,
                    weight: config.weight,
                    target: Arc::new(Target::configured(&name, config, table)),
                };
                let mut targets: Vec<Placed> = targets.into_iter().map(place).collect();
                targets.sort_by_key(|t| t.order);
                (name, targets)
            })
            .collect();
        Self { models, names, default, table, unconfigured: Cache::new(MAX_UNCONFIGURED) }
    }

    /// The configured names, in the order of the config.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The configured targets, of all names; one that stands behind several names comes as often.
    pub fn targets(&self) -> impl Iterator<Item = &Target> {
        self.models.values().flatten().map(|placed| &*placed.target)
    }

    /// The provider for names and paths that are not configured.
    #[must_use]
    pub fn default_provider(&self) -> Option<&Arc<Provider>> {
        self.default.as_ref()
    }

    /// Whether a key may ask for a configured name.
    #[must_use]
    pub fn may_use(principal: &Principal, model: &str) -> bool {
        principal.models.is_empty() || principal.models.iter().any(|m| m == model)
    }

    /// Returns the targets of a model, first choice first; never empty. Among targets of one order the weights decide, by
    /// `spread`, a number that differs between requests.
    ///
    /// # Errors
    /// 404 `model_not_found` when the name leads nowhere or this key may not use it; both read alike.
    pub fn plan(&self, principal: &Principal, model: &str, spread: u64) -> Result<Vec<Arc<Target>>, GatewayError> {
        let unknown = || {
            GatewayError::new(
                ErrorKind::ModelNotFound,
                format!("the model `{}` does not exist or this key may not use it", clipped(model)),
            )
            .with_param("model")
        };
        if !Self::may_use(principal, model) {
            return Err(unknown());
        }
        if let Some(targets) = self.models.get(model) {
            return Ok(arranged(targets, spread));
        }
        let provider = self.default.as_ref().ok_or_else(unknown)?;
        if let Some(target) = self.unconfigured.get(model) {
            return Ok(vec![target]);
        }
        let target = Arc::new(Target::passing(Arc::clone(provider), model, self.table));
        // Very long names are not worth a place in the cache.
        if model.len() <= 256 {
            self.unconfigured.insert(model.to_owned(), Arc::clone(&target));
        }
        Ok(vec![target])
    }
}

impl Target {
    /// The window in force: the configured one, else the smaller of the table's and the learned one; `None` = unknown.
    #[must_use]
    pub fn window(&self, learned: Option<usize>) -> Option<usize> {
        let learned = learned.filter(|_| !self.window_is_configured);
        [self.fit.window, learned].into_iter().flatten().min()
    }

    fn configured(alias: &str, config: TargetConfig, table: &ModelTable) -> Self {
        let known = context::Target::for_model(table, &config.model);
        Self {
            label: format!("{}/{}", config.provider.name, config.model),
            exact: is_exact(table, &config.model),
            price: config.price.over(list_price(table, &config.model)),
            window_is_configured: config.window.is_some(),
            fit: context::Target {
                window: config.window.or(known.window),
                max_output: config.max_output.or(known.max_output),
                max_sensitivity: config.provider.max_sensitivity,
                model: (config.model != alias).then_some(config.model),
                ..known
            },
            provider: config.provider,
            refuses_usage: AtomicBool::new(false),
            health: Health::default(),
        }
    }

    fn passing(provider: Arc<Provider>, model: &str, table: &ModelTable) -> Self {
        Self {
            label: format!("{}/{}", provider.name, clipped(model)),
            exact: is_exact(table, model),
            price: list_price(table, model),
            window_is_configured: false,
            fit: context::Target {
                max_sensitivity: provider.max_sensitivity,
                ..context::Target::for_model(table, model)
            },
            provider,
            refuses_usage: AtomicBool::new(false),
            health: Health::default(),
        }
    }
}

fn is_exact(table: &ModelTable, model: &str) -> bool {
    table.lookup(model).is_some_and(|known| known.exact)
}

fn list_price(table: &ModelTable, model: &str) -> Option<Price> {
    table.lookup(model).and_then(|known| known.prices)
}

/// Arranges targets: order by order, and within one order drawn by weight, without putting back.
fn arranged(targets: &[Placed], mut spread: u64) -> Vec<Arc<Target>> {
    let mut out = Vec::with_capacity(targets.len());
    for group in targets.chunk_by(|a, b| a.order == b.order) {
        let mut left: Vec<&Placed> = group.iter().collect();
        while !left.is_empty() {
            let sum: u64 = left.iter().map(|t| u64::from(t.weight)).sum();
            let drawn = spread.checked_rem(sum).unwrap_or(0);
            let mut passed = 0;
            let at = left.iter().position(|t| {
                passed += u64::from(t.weight);
                passed > drawn
            });
            out.push(Arc::clone(&left.remove(at.unwrap_or(0)).target));
            spread = spread.rotate_right(17);
        }
    }
    out
}

/// A model name short and plain enough for a header and an error text.
fn clipped(model: &str) -> String {
    model.chars().filter(|c| c.is_ascii_graphic()).take(120).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;
    use std::time::Duration;

    use crate::memory::Sensitivity;
    use crate::upstream::{Auth, ProviderConfig};

    fn placed(model: &str, order: u32, weight: u32) -> Placed {
        let provider = Provider::new(ProviderConfig {
            name: "p".to_owned(),
            base_url: "http://127.0.0.1:1/v1".to_owned(),
            auth: Auth::None,
            headers: http::HeaderMap::new(),
            max_sensitivity: Sensitivity::Sensitive,
            connect_timeout: Duration::from_secs(1),
        })
        .unwrap();
        Placed { target: Arc::new(Target::passing(Arc::new(provider), model, ModelTable::built_in())), order, weight }
    }

    #[test]
    fn weights_decide_within_an_order_and_no_target_is_left_out() {
        let targets = [placed("a", 0, 3), placed("b", 0, 1), placed("spare", 0, 0), placed("last", 1, 1)];
        let mut first: HashMap<String, u32> = HashMap::new();
        for spread in 0..400_u64 {
            let plan = arranged(&targets, spread.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let labels: Vec<&str> = plan.iter().map(|t| t.label.as_str()).collect();
            assert_eq!(labels.len(), 4);
            assert_eq!(labels[2..], ["p/spare", "p/last"]);
            *first.entry(labels[0].to_owned()).or_default() += 1;
        }
        assert!((260..340).contains(&first["p/a"]), "{first:?}");
    }
}
