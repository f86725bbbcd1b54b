//! Whom we ask for something of ours.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::Arc;

use crate::ask::Ask;
use crate::base::Clock;
use crate::config::ModelRef;
use crate::telemetry::{AskPurpose, Metrics};
use crate::upstream::{ModelAsker, Provider};

/// The model that a section names, ready to be asked. `None` where the provider is not there, which the check of the
/// configuration has refused.
pub(super) fn asker<S: BuildHasher>(
    model: &ModelRef,
    providers: &HashMap<String, Arc<Provider>, S>,
    purpose: AskPurpose,
    clock: &Arc<dyn Clock>,
    metrics: &Arc<Metrics>,
) -> Option<Arc<dyn Ask>> {
    let provider = Arc::clone(providers.get(&model.provider)?);
    Some(Arc::new(ModelAsker::new(provider, model.model.as_str(), purpose, Arc::clone(clock), Arc::clone(metrics))))
}
