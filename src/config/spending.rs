//! Limits of money need prices: who has such a limit, and which of the models that it may ask for have none.

use super::error::ConfigError;
use super::words::quoted;
use super::{Config, Model, UnknownModels};
use crate::access::LimitRules;
use crate::exchange::Limits;
use crate::tokens::ModelTable;

/// So many targets are named in a message.
const MAX_NAMED: usize = 5;

/// What a holder of a limit of money may reach that has no price.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unpriced {
    /// Configured targets, as `provider/model`.
    pub targets: Vec<String>,
    /// Whether any name may be asked for: then nobody knows.
    pub is_open: bool,
}

impl Config {
    /// What a key with these `models` (empty = all) may reach that has no price.
    #[must_use]
    pub fn unpriced(&self, models: &[String]) -> Unpriced {
        let has_default = self.providers.iter().any(|provider| provider.default);
        let mut targets: Vec<String> = Vec::new();
        let may_use = |model: &&Model| models.is_empty() || models.contains(&model.name);
        let used = self.models.iter().filter(may_use).filter_map(|model| self.model(&model.name));
        for target in used.flat_map(|model| &model.targets) {
            let label = format!("{}/{}", target.provider, target.model);
            if target.price().is_none() && !targets.contains(&label) {
                targets.push(label);
            }
        }
        let is_known = |name: &&String| {
            self.models.iter().any(|model| model.name == **name) || ModelTable::built_in().price(name).is_some()
        };
        let passes = has_default && self.routing.unknown_models == UnknownModels::Pass;
        let is_open = passes && (models.is_empty() || !models.iter().all(|name| is_known(&name)));
        Unpriced { targets, is_open }
    }

    /// The limits that stand beside those of keys.
    #[must_use]
    pub fn limit_rules(&self) -> LimitRules {
        let aliases = self.models.iter().filter(|model| model.alias.is_some());
        LimitRules {
            tenants: self.limits.tenants.iter().cloned().collect(),
            each_tenant: self.limits.each_tenant,
            each_subject: self.limits.each_subject,
            models: self.models.iter().map(|model| (model.name.clone(), model.limits)).collect(),
            aliases: aliases
                .filter_map(|model| Some((model.name.clone(), self.model(&model.name)?.name.clone())))
                .collect(),
        }
    }
}

/// A limit of money that cannot be kept is a mistake, where the configuration alone tells so.
pub(super) fn check(config: &Config, errors: &mut Vec<ConfigError>) {
    let mut refuse = |path: String, targets: &[String]| {
        if !targets.is_empty() {
            errors.push(ConfigError::new(path, None, problem(targets)));
        }
    };
    let rules = config.limit_rules();
    for (index, key) in config.keys.iter().enumerate() {
        if rules.limit_money(&key.tenant, &key.limits, &key.each_subject) {
            refuse(format!("keys[{index}]"), &config.unpriced(&key.models).targets);
        }
    }
    if config.keys.is_empty() && rules.limit_money("", &Limits::default(), &Limits::default()) {
        refuse("limits".to_owned(), &config.unpriced(&[]).targets);
    }
    for (index, model) in config.models.iter().enumerate().filter(|(_, model)| model.limits.count_money()) {
        let name = std::slice::from_ref(&model.name);
        refuse(format!("models[{index}].limits"), &config.unpriced(name).targets);
    }
}

fn problem(targets: &[String]) -> String {
    let named: Vec<String> = targets.iter().take(MAX_NAMED).map(|target| quoted(target)).collect();
    let more =
        if targets.len() > MAX_NAMED { format!(" and {} more", targets.len() - MAX_NAMED) } else { String::new() };
    format!(
        "a limit in US dollars cannot be kept for {}{more}: the table of known models has no price; give the target \
         price_input_per_million and price_output_per_million (0 where nothing is to pay)",
        named.join(", ")
    )
}
