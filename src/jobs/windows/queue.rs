//! Copies exchanges into windows before they are learned from by rule.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::Notify;

use super::WindowReader;
use crate::base::Clock;
use crate::jobs::worker::{LearnError, Learner};
use crate::store::{Claimed, QueuedTurn, WindowRules, WindowStore};
use crate::telemetry::Metrics;

/// A [`Learner`] that queues for the model, then learns by `inner`. In this order: an exchange that is learned by rule is gone from the outbox,
/// and a crash in between queues it again, which changes nothing.
pub struct QueueForModel {
    inner: Arc<dyn Learner>,
    store: Arc<dyn WindowStore>,
    reader: Arc<dyn WindowReader>,
    rules: WindowRules,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
    wake: Arc<Notify>,
}

impl fmt::Debug for QueueForModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueueForModel").field("rules", &self.rules).finish_non_exhaustive()
    }
}

impl QueueForModel {
    /// Wakes `wake` when something was queued ([`Windows::new`](super::Windows::new)).
    #[must_use]
    pub fn new(
        inner: Arc<dyn Learner>,
        store: Arc<dyn WindowStore>,
        reader: Arc<dyn WindowReader>,
        rules: WindowRules,
        clock: Arc<dyn Clock>,
        metrics: Arc<Metrics>,
        wake: Arc<Notify>,
    ) -> Self {
        Self { inner, store, reader, rules, clock, metrics, wake }
    }

    fn wanted(&self, batch: &[Claimed]) -> Vec<QueuedTurn> {
        let wanted = batch.iter().map(|claimed| &claimed.turn).filter_map(|turn| {
            Some(QueuedTurn {
                exchange: turn.exchange,
                session: turn.session.clone(),
                turn_key: turn.turn_key.clone(),
                tokens: self.reader.tokens(turn)?,
            })
        });
        wanted.collect()
    }
}

#[async_trait]
impl Learner for QueueForModel {
    async fn learn(&self, batch: Vec<Claimed>, owner: &str) -> Result<(), LearnError> {
        let wanted = self.wanted(&batch);
        let queued = self.store.queue_turns(owner, &wanted, &self.rules, self.clock.now()).await?;
        self.metrics.window_turns_refused.inc_by(queued.refused);
        self.inner.learn(batch, owner).await?;
        // Only now: the question shows what the rules found.
        if queued.queued > 0 {
            self.wake.notify_waiters();
        }
        Ok(())
    }
}
