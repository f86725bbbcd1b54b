//! Providers and routes, from what is configured.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};

use super::BuildError;
use crate::base::Secret;
use crate::config::{self, Config, UnknownModels};
use crate::tokens::ModelTable;
use crate::upstream::{Auth, ModelConfig, Provider, ProviderConfig, Reach, Routes, TargetConfig, Timeouts};

/// Providers by name.
pub(super) type Providers = HashMap<String, Arc<Provider>>;

/// The configured providers by name.
pub(super) fn providers(config: &Config) -> Result<Providers, BuildError> {
    providers_after(config, None)
}

/// The same after another configuration: a provider of which nothing has changed stays, with its connections and its health.
pub(super) fn providers_after(config: &Config, before: Option<(&Config, &Providers)>) -> Result<Providers, BuildError> {
    let connect_timeout = config.timeouts.connect.unwrap_or(Duration::from_secs(3600));
    let mut providers = HashMap::new();
    for entry in &config.providers {
        if let Some((old, opened)) = before
            && old.timeouts.connect == config.timeouts.connect
            && old.providers.contains(entry)
            && let Some(provider) = opened.get(&entry.name)
        {
            providers.insert(entry.name.clone(), Arc::clone(provider));
            continue;
        }
        let provider = provider(entry, entry.api_key.clone(), connect_timeout);
        let provider = provider.map_err(|reason| BuildError::Provider { name: entry.name.clone(), reason })?;
        providers.insert(entry.name.clone(), Arc::new(provider));
    }
    Ok(providers)
}

/// A configured provider, called with `auth`.
///
/// # Errors
/// Something that cannot be sent, or read; no key is in the sentence.
pub fn provider(entry: &config::Provider, auth: Auth, connect_timeout: Duration) -> Result<Provider, String> {
    let config = ProviderConfig {
        name: entry.name.clone(),
        api: entry.api.clone(),
        base_url: entry.base_url.clone(),
        auth,
        headers: headers(entry)?,
        max_sensitivity: entry.max_sensitivity,
        connect_timeout,
    };
    let reach = Reach { proxy: entry.proxy.clone(), ca: entry.ca.clone() };
    Provider::through(config, &reach).map_err(|error| error.causes().unwrap_or_else(|| error.to_string()))
}

/// The headers that are added to each request to a provider; of one that is none the value is not shown.
fn headers(provider: &config::Provider) -> Result<HeaderMap, String> {
    let header = |(name, value): &(String, Secret)| {
        let name: HeaderName = name.parse().map_err(|_| format!("`{name}` is no header name"))?;
        let mut value =
            HeaderValue::from_str(value.expose()).map_err(|_| format!("the value of `{name}` is no header value"))?;
        value.set_sensitive(true);
        Ok((name, value))
    };
    provider.headers.iter().map(header).collect()
}

/// Where the names of models lead. Of targets that were there before it stays known how they have been doing.
pub(super) fn routes(config: &Config, providers: &Providers, before: Option<&Routes>) -> Routes {
    let default = config.providers.iter().find(|entry| entry.default).and_then(|entry| providers.get(&entry.name));
    let own = config.models.iter().filter(|model| model.alias.is_none());
    let models = own.map(|model| model_config(config, model, providers, before)).collect();
    let names = config.models.iter().map(|model| model.name.clone()).collect();
    let passes_unknown = config.routing.unknown_models == UnknownModels::Pass;
    let routes = Routes::new(models, names, default.map(Arc::clone), passes_unknown, ModelTable::built_in());
    match before {
        Some(before) => routes.after(before),
        None => routes,
    }
}

fn model_config(config: &Config, model: &config::Model, providers: &Providers, before: Option<&Routes>) -> ModelConfig {
    let is_alias = |other: &&config::Model| {
        other.alias.is_some() && config.model(&other.name).is_some_and(|behind| behind.name == model.name)
    };
    let target = |target: &config::Target| {
        let provider = providers.get(target.provider.as_str())?;
        Some(TargetConfig {
            before: before.and_then(|routes| routes.target(&model.name, provider, &target.model)),
            provider: Arc::clone(provider),
            model: target.model.clone(),
            window: target.window.map(|n| n as usize),
            max_output: target.max_output.map(|n| n as usize),
            price: target.price,
            order: target.order,
            weight: target.weight,
            when: target.when,
            params: target.params.clone(),
        })
    };
    ModelConfig {
        name: model.name.clone(),
        aliases: config.models.iter().filter(is_alias).map(|other| other.name.clone()).collect(),
        targets: model.targets.iter().filter_map(target).collect(),
        pick: model.pick,
    }
}

pub(super) fn timeouts(config: &Config) -> Timeouts {
    Timeouts {
        header: config.timeouts.header.unwrap_or_default(),
        first_token: config.timeouts.first_token.unwrap_or_default(),
        idle: config.timeouts.idle.unwrap_or_default(),
        total: config.timeouts.total.unwrap_or_default(),
        keepalive_before_header: config.server.keepalive_before_header.unwrap_or_default(),
    }
}
