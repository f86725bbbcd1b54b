//! What the command line changes, and the rules that span sections: dangling and doubled names, keys and addresses.

use std::collections::HashSet;

use super::error::ConfigError;
use super::key::NO_SUBJECT;
use super::model::Target;
use super::provider::{api, parse_http_url};
use super::spending;
use super::words::{nearest, quoted, without_credentials};
use super::{Config, Model, Overrides, Provider, StoreUrl, UnknownModels, VectorsEngine};
use crate::tokens::PriceChanges;
use crate::upstream::{ApiKind, Auth};

/// Puts the command line over the file.
pub(super) fn apply(config: &mut Config, overrides: &Overrides, errors: &mut Vec<ConfigError>) {
    config.allow_open = overrides.allow_open;
    if let Some(text) = &overrides.listen {
        match text.parse() {
            Ok(address) => config.server.listen = address,
            Err(_) => errors.push(ConfigError::new(
                "--listen",
                Some(quoted(text)),
                "must be an address and a port, as in \"127.0.0.1:8080\"",
            )),
        }
    }
    if let Some(folder) = &overrides.data {
        // Whichever won, someone would look for memories in the other one.
        if !matches!(config.store.url, StoreUrl::Embedded) {
            let problem = "is the folder of the embedded default, and the file's store.url names another database: leave one of the two out";
            errors.push(ConfigError::new("--data", Some(quoted(&folder.display().to_string())), problem));
        }
        config.store.data = Some(folder.clone());
    }
    if let Some(text) = &overrides.upstream {
        apply_upstream(config, text, errors);
    }
}

fn apply_upstream(config: &mut Config, text: &str, errors: &mut Vec<ConfigError>) {
    let shown = || Some(quoted(&without_credentials(text)));
    let Some(url) = parse_http_url(text) else {
        let problem =
            "must be an http or https URL without user, query and fragment, as in \"http://127.0.0.1:8000/v1\"";
        errors.push(ConfigError::new("--upstream", shown(), problem));
        return;
    };
    match config.providers.iter_mut().find(|provider| provider.default) {
        Some(provider) => {
            if let Some(api) = api::of_host(&url) {
                provider.api = api;
            }
            provider.base_url = url;
        }
        None => errors.push(ConfigError::new(
            "--upstream",
            shown(),
            "no provider is `default = true`: there is none whose base_url it could replace",
        )),
    }
}

/// Checks what no section can check alone.
pub(super) fn check(config: &Config, errors: &mut Vec<ConfigError>) {
    providers(config, errors);
    models(config, errors);
    keys(config, errors);
    spending::check(config, errors);
    own_calls(config, errors);
    critical_keys(config, errors);
    if config.vectors.engine == VectorsEngine::Pgvector && !matches!(config.store.url, StoreUrl::Postgres(_)) {
        let problem = "needs [store] url = \"postgres://…\"";
        errors.push(ConfigError::new("vectors.engine", Some(quoted("pgvector")), problem));
    }
    open_address(config, errors);
    admin_address(config, errors);
}

fn providers(config: &Config, errors: &mut Vec<ConfigError>) {
    if config.providers.is_empty() {
        errors.push(ConfigError::new("providers", None, "at least one is needed"));
        return;
    }
    doubles("providers", "provider", config.providers.iter().map(|provider| provider.name.as_str()), errors);
    // The client's own key must never reach a second host.
    only_one(config, "api_key", "\"client\"", "the client's own key goes to one provider only", errors, |provider| {
        matches!(provider.api_key, Auth::Client)
    });
    only_one(config, "default", "true", "one provider is the default at most", errors, |provider| provider.default);
    let passes = config.routing.unknown_models == UnknownModels::Pass;
    if config.models.is_empty() && !(passes && config.providers.iter().any(|provider| provider.default)) {
        let problem = "no request could be routed: there are no [[models]], and no provider that is `default = true` gets other names";
        errors.push(ConfigError::new("providers", None, problem));
    }
    for (index, provider) in config.providers.iter().enumerate() {
        if matches!(provider.api_key, Auth::None) && provider.base_url == Provider::default().base_url {
            let problem = "the OpenAI API needs a key: give this provider an `api_key` of its own";
            errors.push(ConfigError::new(format!("providers[{index}].api_key"), None, problem));
        }
        if matches!(provider.api_key, Auth::Client) && !config.is_client_mode() {
            let problem = "the client's own key is passed on only where neither [[keys]] nor [admin] key are configured: give this provider a key";
            errors.push(ConfigError::new(format!("providers[{index}].api_key"), Some(quoted("client")), problem));
        }
    }
}

fn only_one(
    config: &Config,
    key: &str,
    value: &str,
    rule: &str,
    errors: &mut Vec<ConfigError>,
    has: impl Fn(&Provider) -> bool,
) {
    let mut all = config.providers.iter().enumerate().filter(|(_, provider)| has(provider));
    let Some((first, _)) = all.next() else { return };
    for (index, _) in all {
        let problem = format!("{rule}, and providers[{first}] has it already");
        errors.push(ConfigError::new(format!("providers[{index}].{key}"), Some(value.to_owned()), problem));
    }
}

fn models(config: &Config, errors: &mut Vec<ConfigError>) {
    doubles("models", "model", config.models.iter().map(|model| model.name.as_str()), errors);
    for (index, model) in config.models.iter().enumerate() {
        for (at, target) in model.targets.iter().enumerate() {
            known_provider(config, &format!("models[{index}].targets[{at}].provider"), &target.provider, errors);
            whole_price(&format!("models[{index}].targets[{at}]"), target, errors);
        }
        if let Some(alias) = &model.alias {
            aliased(config, index, alias, errors);
        }
    }
}

/// An alias names a model, and following aliases ends somewhere.
fn aliased(config: &Config, index: usize, alias: &str, errors: &mut Vec<ConfigError>) {
    let path = format!("models[{index}].alias");
    let find = |name: &str| config.models.iter().find(|model| model.name == name);
    let mut way = vec![config.models[index].name.as_str()];
    let mut next = alias;
    loop {
        let round = way.contains(&next);
        way.push(next);
        if round {
            let problem = format!("the aliases go round in a circle: {}", way.join(" -> "));
            errors.push(ConfigError::new(path, Some(quoted(alias)), problem));
            return;
        }
        match find(next) {
            None if next == alias => {
                let names = config.models.iter().map(|model| model.name.as_str());
                errors.push(ConfigError::new(path, Some(quoted(alias)), dangling("[[models]]", alias, names)));
                return;
            }
            // The mistake is reported where it stands.
            None => return,
            Some(Model { alias: Some(further), .. }) => next = further,
            Some(_) => return,
        }
    }
}

/// Half a price would count the other half as free, or all of it as unknown: neither is what was meant.
fn whole_price(path: &str, target: &Target, errors: &mut Vec<ConfigError>) {
    let says_something = target.price != PriceChanges::default();
    if says_something && target.price().is_none() {
        let missing = if target.price.input.is_none() { "price_input_per_million" } else { "price_output_per_million" };
        let problem = "is missing: the table of known models has no price of this model, so that both are needed (0 where nothing is to pay)";
        errors.push(ConfigError::new(format!("{path}.{missing}"), None, problem));
    }
}

fn keys(config: &Config, errors: &mut Vec<ConfigError>) {
    // A default provider takes any name; without one only those of [[models]] lead anywhere.
    let passes = config.routing.unknown_models == UnknownModels::Pass;
    let open = passes && config.providers.iter().any(|provider| provider.default);
    let mut hashes = HashSet::new();
    for (index, key) in config.keys.iter().enumerate() {
        // Zeros stand for a key that could not be read.
        if key.sha256 != [0; 32] && !hashes.insert(key.sha256) {
            errors.push(ConfigError::new(format!("keys[{index}].key"), None, "the same key is configured twice"));
        }
        for (at, name) in key.models.iter().enumerate().filter(|_| !open) {
            let names = || config.models.iter().map(|model| model.name.as_str());
            if !names().any(|known| known == name) {
                let problem = dangling("[[models]]", name, names());
                errors.push(ConfigError::new(format!("keys[{index}].models[{at}]"), Some(quoted(name)), problem));
            }
        }
        if !key.may_name_subject && key.default_subject.is_none() && key.memory != super::MemorySwitch::Off {
            errors.push(ConfigError::new(format!("keys[{index}].default_subject"), None, NO_SUBJECT));
        }
    }
}

/// Our own calls (extraction, summaries, embeddings) need a provider with a key of ours.
fn own_calls(config: &Config, errors: &mut Vec<ConfigError>) {
    let calls = [
        ("extract.provider", config.extract.model.as_ref().map(|model| model.provider.as_str())),
        ("summary.provider", config.summary.model.as_ref().map(|model| model.provider.as_str())),
        ("embeddings.provider", config.embeddings.provider.as_deref()),
    ];
    for (path, name) in calls {
        let Some(name) = name else { continue };
        known_provider(config, path, name, errors);
        let provider = config.providers.iter().find(|provider| provider.name == name);
        if provider.is_some_and(|provider| matches!(provider.api_key, Auth::Client)) {
            let problem = "this provider is called with the client's own key, which is never kept: name one with a key of its own";
            errors.push(ConfigError::new(path, Some(quoted(name)), problem));
        }
        let is_anthropic = |provider: &Provider| matches!(provider.api.kind, ApiKind::Anthropic { .. });
        if path == "embeddings.provider" && provider.is_some_and(is_anthropic) {
            let problem = "Anthropic's API has no embeddings: name a provider of another kind, or engine = \"local\"";
            errors.push(ConfigError::new(path, Some(quoted(name)), problem));
        }
    }
}

/// Keys that are made critical must be keys.
fn critical_keys(config: &Config, errors: &mut Vec<ConfigError>) {
    let namespaces = config.memory.namespaces.iter();
    let named = namespaces.map(|(name, rules)| (format!("memory.namespaces.{name}.critical"), rules));
    for (path, rules) in named.chain([("memory.critical".to_owned(), &config.memory.rules)]) {
        let schema = rules.schema();
        for (at, key) in rules.critical.iter().enumerate() {
            if schema.rules().iter().any(|rule| rule.name == *key) {
                continue;
            }
            let near = schema.near(key);
            let mut problem = "no key of the schema has this name".to_owned();
            if !near.is_empty() {
                problem.push_str(&format!("; near it are {}", near.join(", ")));
            }
            errors.push(ConfigError::new(format!("{path}[{at}]"), Some(quoted(key)), problem));
        }
    }
}

/// Listening to the world without keys must be meant.
fn open_address(config: &Config, errors: &mut Vec<ConfigError>) {
    let listen = config.server.listen;
    if listen.ip().is_loopback() || !config.is_client_mode() || config.allow_open {
        return;
    }
    let problem = "this address can be reached by others and no [[keys]] are configured, so anyone could use this gateway and its memory; \
                   configure [[keys]] or [admin] key, listen on 127.0.0.1, or pass --allow-open if that is meant";
    errors.push(ConfigError::new("server.listen", Some(quoted(&listen.to_string())), problem));
}

/// An admin address is another one, and the world must not read what an operator may.
fn admin_address(config: &Config, errors: &mut Vec<ConfigError>) {
    let mut wrong = |key: &str, value, problem| errors.push(ConfigError::new(format!("server.{key}"), value, problem));
    let Some(address) = config.server.admin_listen else {
        if config.server.admin_tls.is_some() {
            wrong(
                "admin_tls_cert",
                None,
                "needs `admin_listen`: without it there is one address, which shows `tls_cert`",
            );
        }
        return;
    };
    let shown = || Some(quoted(&address.to_string()));
    if address == config.server.listen && address.port() != 0 {
        wrong("admin_listen", shown(), "is the same address as `listen`: choose another port, or leave it out");
    }
    if !address.ip().is_loopback() && config.admin.key.is_none() && !config.allow_open {
        let problem = "this address can be reached by others and there is no [admin] key; configure one, listen on 127.0.0.1, or pass --allow-open if that is meant";
        wrong("admin_listen", shown(), problem);
    }
}

fn known_provider(config: &Config, path: &str, name: &str, errors: &mut Vec<ConfigError>) {
    let names = || config.providers.iter().map(|provider| provider.name.as_str());
    // An empty name was reported where it stands.
    if !name.is_empty() && !names().any(|known| known == name) {
        errors.push(ConfigError::new(path, Some(quoted(name)), dangling("[[providers]]", name, names())));
    }
}

fn dangling<'w>(table: &str, name: &str, names: impl Iterator<Item = &'w str> + Clone) -> String {
    let known: Vec<String> = names.clone().filter(|name| !name.is_empty()).map(quoted).collect();
    let mut problem = format!("no {table} has this name");
    if let Some(near) = nearest(name, names) {
        problem.push_str(&format!("; did you mean {}?", quoted(near)));
    }
    match known.is_empty() {
        true => problem.push_str("; none are configured"),
        false => problem.push_str(&format!("; there are {}", known.join(", "))),
    }
    problem
}

fn doubles<'n>(table: &str, what: &str, names: impl Iterator<Item = &'n str>, errors: &mut Vec<ConfigError>) {
    let mut seen = HashSet::new();
    for (index, name) in names.enumerate().filter(|(_, name)| !name.is_empty()) {
        if !seen.insert(name) {
            let problem = format!("another {what} has this name already");
            errors.push(ConfigError::new(format!("{table}[{index}].name"), Some(quoted(name)), problem));
        }
    }
}
