//! Who may use how much, as configured.

use std::sync::Arc;

use crate::access::LimitTable;
use crate::config::Config;
use crate::shared::Shared;
use crate::store::Store;
use crate::telemetry::Metrics;

/// The table of accounts; those of keys come with the keys.
pub(super) fn limits(
    config: &Config,
    salt: [u8; 32],
    store: &Arc<dyn Store>,
    shared: Option<&Arc<Shared>>,
    metrics: &Arc<Metrics>,
) -> Arc<LimitTable> {
    let budgets = Arc::clone(store) as Arc<_>;
    let table = LimitTable::new(config.limit_rules(), salt, Some(budgets), Arc::clone(metrics));
    Arc::new(table.shared_by(shared.cloned()))
}
