//! Who may use how much, as configured.

use std::sync::Arc;

use crate::access::LimitTable;
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
    let budgets = Arc::clone(store) as Arc<_>;
    Arc::new(LimitTable::new(config.limit_rules(), salt, Some(budgets), Arc::clone(metrics)))
}
