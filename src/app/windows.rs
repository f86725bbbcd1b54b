//! Ties the model's path together: what is queued for it, whom it asks, who is told.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use super::learn::Cached;
use crate::ask::Ask;
use crate::base::{Clock, Random};
use crate::config::Extract;
use crate::extract::model::ModelReader;
use crate::jobs::{Learner, QueueForModel, WindowParts, Windows, WindowsConfig, day_of};
use crate::memory::{Schemas, Sensitivity};
use crate::store::{Store, WindowRules};
use crate::telemetry::Metrics;

/// A window is full with so many exchanges, or so many tokens of them: one question stays small.
const MAX_TURNS: u32 = 10;
const MAX_TOKENS: u64 = 4_000;
/// So many exchanges wait for the model at most.
const MAX_WAITING: u64 = 100_000;

/// What the model's path is made of.
pub(super) struct Model {
    pub(super) ask: Arc<dyn Ask>,
    /// The most sensitive facts that its provider may see.
    pub(super) ceiling: Sensitivity,
    pub(super) store: Arc<dyn Store>,
    pub(super) cached: Arc<Cached>,
    pub(super) schemas: Arc<Schemas>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) random: Arc<dyn Random>,
    pub(super) metrics: Arc<Metrics>,
}

impl Model {
    /// The learner that queues for the model before it learns by `rules`, and the worker that asks.
    pub(super) fn wire(self, extract: &Extract, rules: Arc<dyn Learner>, owner: &str) -> (Arc<dyn Learner>, Windows) {
        let Self { ask, ceiling, store, cached, schemas, clock, random, metrics } = self;
        let reader = Arc::new(ModelReader::new(schemas, ceiling, Arc::clone(&random)));
        let wake = Arc::new(Notify::new());
        let window_rules = WindowRules {
            idle: extract.window,
            max_turns: MAX_TURNS,
            max_tokens: MAX_TOKENS,
            max_waiting: MAX_WAITING,
        };
        let queueing = QueueForModel::new(
            rules,
            Arc::clone(&store) as Arc<_>,
            Arc::clone(&reader) as Arc<_>,
            window_rules,
            Arc::clone(&clock),
            Arc::clone(&metrics),
            Arc::clone(&wake),
        );
        let parts = WindowParts {
            store,
            ask,
            reader,
            facts: Arc::clone(&cached) as Arc<_>,
            observer: cached,
            clock,
            random,
            metrics,
            wake,
        };
        (Arc::new(queueing), Windows::new(parts, WindowsConfig::named(owner, extract.max_tokens_per_day)))
    }
}

/// Looks how much waits for the model, for the metrics.
pub(super) async fn observe(store: &dyn Store, cap: Option<u64>, clock: &dyn Clock, metrics: &Metrics) {
    let now = clock.now();
    // A store that is down is told by the outbox.
    if let Ok(depth) = store.window_depth(day_of(now), cap).await {
        let age = depth.oldest.map(|oldest| Duration::from_millis(now.since(oldest).unsigned_abs()));
        metrics.set_windows(depth.windows, depth.turns, depth.capped, age);
    }
}
