//! What an endpoint says of the order of what was found, if it says it in time.
//!
//! It only orders: what is below the floor is never asked about, so nonsense recalls nothing here as well. What it does not answer in time, or
//! not as it should, leaves our own order as it was.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::rank::Found;
use crate::rerank::{Rerank, RerankError};
use crate::telemetry::{Metrics, RerankOutcome};

/// The channel that is named when it did not answer.
const CHANNEL: &str = "rerank";
/// So many of the best are asked about.
const MAX_ASKED: usize = 20;

/// Who orders, and how long it may take.
#[derive(Clone)]
pub struct Reranker {
    by: Arc<dyn Rerank>,
    within: Duration,
    metrics: Arc<Metrics>,
}

impl Reranker {
    /// `within` is counted from the beginning of a recall, and leaves time to show what there is.
    #[must_use]
    pub fn new(by: Arc<dyn Rerank>, within: Duration, metrics: Arc<Metrics>) -> Self {
        Self { by, within, metrics }
    }

    /// Brings what was found (strongest first) into the endpoint's order; returns the channel when it did not say.
    pub(super) async fn order(
        &self,
        question: &str,
        found: &mut Vec<Found>,
        begun: Instant,
        text: impl Fn(&Found) -> String,
    ) -> Option<&'static str> {
        let texts: Vec<String> = found.iter().take(MAX_ASKED).map(text).collect();
        // One alone is in order.
        if texts.len() < 2 {
            return None;
        }
        let left = self.within.saturating_sub(begun.elapsed());
        let outcome = match tokio::time::timeout(left, self.by.rerank(question, &texts)).await {
            Ok(Ok(scores)) => {
                sort(found, &scores);
                RerankOutcome::Ok
            }
            Ok(Err(error)) => {
                tracing::debug!(%error, "memories are shown in our own order");
                match error {
                    RerankError::Later(_) => RerankOutcome::Unavailable,
                    RerankError::Refused(_) => RerankOutcome::Refused,
                    RerankError::Unusable(_) => RerankOutcome::Unusable,
                }
            }
            Err(_) => RerankOutcome::Late,
        };
        self.metrics.reranks.inc(outcome);
        (outcome != RerankOutcome::Ok).then_some(CHANNEL)
    }
}

/// Those that were asked about come first, by score; of equals, the one that was stronger before. None gives way to another for its strength
/// any more: that was our own measure.
fn sort(found: &mut Vec<Found>, scores: &[f64]) {
    for (found, &score) in found.iter_mut().zip(scores) {
        found.hit.scores.rerank = Some(score);
        found.strength = 1.0;
    }
    found.truncate(scores.len());
    let score = |found: &Found| found.hit.scores.rerank.unwrap_or(f64::NEG_INFINITY);
    found.sort_by(|a, b| score(b).total_cmp(&score(a)));
}

impl fmt::Debug for Reranker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reranker").field("by", &self.by).field("within", &self.within).finish_non_exhaustive()
    }
}
