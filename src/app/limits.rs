//! Who may use how much, as configured.

use std::sync::Arc;

use crate::access::{LimitRules, LimitTable};
use crate::config::Config;
use crate::store::Store;
use crate::telemetry::Metrics;

/// The table of accounts; those of keys come with the keys.
pub(super) fn limits(
    config: &Config,
    salt: [u8; 32],
    store: &Arc<dyn Store>,
    metrics: &Arc<Metrics>,
) -> Arc<LimitTable> {
    let rules = LimitRules {
        tenants: config.limits.tenants.iter().cloned().collect(),
        each_tenant: config.limits.each_tenant,
        each_subject: config.limits.each_subject,
        models: config.models.iter().map(|model| (model.name.clone(), model.limits)).collect(),
        aliases: config
            .models
            .iter()
            .filter(|model| model.alias.is_some())
            .filter_map(|model| Some((model.name.clone(), config.model(&model.name)?.name.clone())))
            .collect(),
    };
    let budgets = Arc::clone(store) as Arc<_>;
    Arc::new(LimitTable::new(rules, salt, Some(budgets), Arc::clone(metrics)))
}
