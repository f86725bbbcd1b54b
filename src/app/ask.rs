//! Whom we ask for something of ours.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::Arc;

use super::App;
use super::embed::asked;
use super::routing::Providers;
use super::seat::Seat;
use crate::ask::Ask;
use crate::base::Clock;
use crate::config::{Config, ModelRef};
use crate::embed::Embed;
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

/// The models that work for us in the background, each in a seat of its own: when its provider becomes another one (a new key, a new
/// address), the next question goes there.
#[derive(Debug, Default)]
pub(super) struct OwnModels {
    pub(super) extract: Option<Arc<Seat<dyn Ask>>>,
    pub(super) summary: Option<Arc<Seat<dyn Ask>>>,
    pub(super) embed: Option<Arc<Seat<dyn Embed>>>,
}

impl App {
    /// Has the models of our own go to `providers` from now on, as far as these are others. Who they are does not change, and one whose
    /// provider is gone stays with it until the restart that it waits for.
    pub(super) fn reseat(&self, config: &Config, providers: &Providers) {
        let is_new = |name: &str| match (self.providers.get(name), providers.get(name)) {
            (Some(old), Some(new)) => !Arc::ptr_eq(old, new),
            (_, new) => new.is_some(),
        };
        let own = &self.own_models;
        for (seat, model, purpose) in [
            (&own.extract, &config.extract.model, AskPurpose::Extract),
            (&own.summary, &config.summary.model, AskPurpose::Summary),
        ] {
            if let (Some(seat), Some(model)) = (seat, model)
                && is_new(&model.provider)
                && let Some(ask) = asker(model, providers, purpose, &self.clock, &self.metrics)
            {
                seat.put(ask);
            }
        }
        let embeddings = &config.embeddings;
        if let Some(seat) = &own.embed
            && embeddings.provider.as_deref().is_some_and(is_new)
            && let Some(embed) = asked(embeddings, providers, &self.clock, &self.random)
        {
            seat.put(embed);
        }
    }
}
