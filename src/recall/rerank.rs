//! What an endpoint says of the order of what was found, if it says it in time.
//!
//! It only orders: what is below the floor is never asked about, so nonsense recalls nothing here as well. What it does not answer in time, or
//! not as it should, leaves our own order as it was.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::rank::Found;
use crate::rerank::{Rerank, RerankError};
use crate::telemetry::{Metrics, RerankOutcome};

/// The channel that is named when it did not answer.
const CHANNEL: &str = "rerank";
/// So many of the best are asked about.
const MAX_ASKED: usize = 20;
/// Share of recall's deadline within which the endpoint has to answer once it is asked.
const SHARE: f64 = 0.4;
/// Of the deadline, the share after which nobody is waited for: what is known must still be shown in time.
const LATEST: f64 = 0.9;

/// Who orders, and how long it may take.
#[derive(Clone)]
pub struct Reranker {
    by: Arc<dyn Rerank>,
    deadline: Duration,
    metrics: Arc<Metrics>,
}

impl Reranker {
    /// `deadline` is what a recall has altogether: the endpoint has a share of it, and leaves time to show what there is.
    #[must_use]
    pub fn new(by: Arc<dyn Rerank>, deadline: Duration, metrics: Arc<Metrics>) -> Self {
        Self { by, deadline, metrics }
    }

    /// How long the endpoint may take over memories when so much of the deadline has passed.
    pub(super) fn for_memories(&self, passed: Duration) -> Duration {
        self.deadline.mul_f64(SHARE).min(self.deadline.mul_f64(LATEST).saturating_sub(passed))
    }

    /// The same for passages, which have half of the deadline altogether.
    pub(super) fn for_passages(&self, passed: Duration) -> Duration {
        self.deadline.mul_f64(SHARE).saturating_sub(passed)
    }

    /// Brings what was found (strongest first) into the endpoint's order; returns the channel when it did not say.
    pub(super) async fn order(
        &self,
        question: &str,
        found: &mut [Found],
        within: Duration,
        text: impl Fn(&Found) -> String,
    ) -> Option<&'static str> {
        let texts: Vec<String> = found.iter().take(MAX_ASKED).map(text).collect();
        // One alone is in order.
        if texts.len() < 2 {
            return None;
        }
        let outcome = match tokio::time::timeout(within, self.by.rerank(question, &texts)).await {
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
fn sort(found: &mut [Found], scores: &[f64]) {
    for (found, &score) in found.iter_mut().zip(scores) {
        found.hit.scores.rerank = Some(score);
        found.strength = 1.0;
    }
    let score = |found: &Found| found.hit.scores.rerank.unwrap_or(f64::NEG_INFINITY);
    found.sort_by(|a, b| score(b).total_cmp(&score(a)));
}

impl fmt::Debug for Reranker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reranker").field("by", &self.by).field("deadline", &self.deadline).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;

    use super::*;

    #[derive(Debug)]
    struct Never;

    #[async_trait]
    impl Rerank for Never {
        async fn rerank(&self, _: &str, _: &[String]) -> Result<Vec<f64>, RerankError> {
            std::future::pending().await
        }
    }

    // A vector that was late has used three quarters of the deadline already.
    #[test]
    fn what_came_before_is_taken_from_the_endpoints_time() {
        let reranker = Reranker::new(Arc::new(Never), Duration::from_secs(10), Arc::default());
        let patience = |passed| reranker.for_memories(Duration::from_millis(passed)).as_millis();
        assert_eq!([0, 2_000, 7_500, 9_500].map(patience), [4_000, 4_000, 1_500, 0]);
    }
}
