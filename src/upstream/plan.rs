//! A model name to the targets behind it, in the order in which they are tried.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use moka::sync::Cache;

use super::provider::Provider;
use crate::base::{ErrorKind, GatewayError};
use crate::context;
use crate::exchange::Principal;
use crate::tokens::ModelTable;

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
    /// It refused `stream_options`: it is not asked for usage again.
    pub refuses_usage: AtomicBool,
}

/// What stands in the config about one target.
#[derive(Clone, Debug)]
pub struct TargetConfig {
    /// Index into the providers.
    pub provider: Arc<Provider>,
    /// The upstream model.
    pub model: String,
    /// Its window; `None` = as the model table says.
    pub window: Option<usize>,
    /// Its output limit; `None` = as the model table says.
    pub max_output: Option<usize>,
}

/// All names and where they lead.
#[derive(Debug)]
pub struct Routes {
    models: HashMap<String, Vec<Arc<Target>>>,
    names: Vec<String>,
    default: Option<Arc<Provider>>,
    table: &'static ModelTable,
    unconfigured: Cache<String, Arc<Target>>,
}

impl Routes {
    /// Makes the routes of configured models, each with its targets in the order in which they are tried; names that are not configured go to `default`, if there is one.
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
                let targets = targets.into_iter().map(|t| Arc::new(Target::configured(&name, t, table))).collect();
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

    /// Returns the targets of a model, first choice first; never empty.
    ///
    /// # Errors
    /// 404 `model_not_found` when the name leads nowhere or this key may not use it; both read alike.
    pub fn plan(&self, principal: &Principal, model: &str) -> Result<Vec<Arc<Target>>, GatewayError> {
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
            return Ok(targets.clone());
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
    fn configured(alias: &str, config: TargetConfig, table: &ModelTable) -> Self {
        let known = context::Target::for_model(table, &config.model);
        Self {
            label: format!("{}/{}", config.provider.name, config.model),
            fit: context::Target {
                window: config.window.or(known.window),
                max_output: config.max_output.or(known.max_output),
                model: (config.model != alias).then_some(config.model),
                ..known
            },
            provider: config.provider,
            refuses_usage: AtomicBool::new(false),
        }
    }

    fn passing(provider: Arc<Provider>, model: &str, table: &ModelTable) -> Self {
        Self {
            label: format!("{}/{}", provider.name, clipped(model)),
            fit: context::Target::for_model(table, model),
            provider,
            refuses_usage: AtomicBool::new(false),
        }
    }
}

/// A model name short and plain enough for a header and an error text.
fn clipped(model: &str) -> String {
    model.chars().filter(|c| c.is_ascii_graphic()).take(120).collect()
}
