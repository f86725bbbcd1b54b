//! Ties the write path together: what the learner reads, how it decides, who is told.

use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;

use crate::base::{EpisodeId, Random};
use crate::config;
use crate::extract::{self, Boilerplate, DecideInput};
use crate::jobs::{Decide, DecideArgs, FactSource, LearnObserver};
use crate::memory::{Action, Fact, Schemas, Scope};
use crate::recall::Recall;
use crate::store::{Learned, ProposalStatus, StoreError};
use crate::telemetry::{ExtractOutcome, ExtractReason, FactAction, Metrics, names, trace_context};

/// The recall cache, as the write path sees it.
pub(super) struct Cached {
    pub(super) recall: Arc<Recall>,
    pub(super) metrics: Arc<Metrics>,
}

#[async_trait]
impl FactSource for Cached {
    async fn facts(&self, scope: &Scope) -> Result<(i64, Vec<Arc<Fact>>), StoreError> {
        self.recall.facts(scope).await
    }

    fn facts_now(&self, scope: &Scope) -> Option<(i64, Vec<Arc<Fact>>)> {
        self.recall.facts_now(scope)
    }

    fn mentioning(&self, scope: &Scope, value: &str) -> Vec<EpisodeId> {
        self.recall.mentioning(scope, value)
    }
}

impl LearnObserver for Cached {
    fn learned(&self, scope: &Scope, revision: i64, learned: &Learned) {
        self.recall.learned(scope, revision, learned);
        for proposal in &learned.proposals {
            let outcome = match proposal.status {
                ProposalStatus::Accepted => ExtractOutcome::Accepted,
                ProposalStatus::Refused => ExtractOutcome::Refused,
                ProposalStatus::Quarantined => ExtractOutcome::Quarantined,
            };
            self.metrics.extracted.inc(outcome, ExtractReason::named(&proposal.reason));
        }
        for change in &learned.changes {
            self.metrics.fact_changes.inc(fact_action(change.action));
        }
        self.metrics.episodes.inc_by(learned.episodes.len() as u64);
    }
}

/// The metric label of what happened to a fact; what people do through the API is one label.
fn fact_action(action: Action) -> FactAction {
    match action {
        Action::Insert => FactAction::Insert,
        Action::Reinforce => FactAction::Reinforce,
        Action::Supersede => FactAction::Supersede,
        Action::Contest => FactAction::Contest,
        Action::Retire => FactAction::Retire,
        Action::Quarantine => FactAction::Quarantine,
        Action::Expire => FactAction::Expire,
        Action::Edit | Action::Confirm | Action::Lock | Action::Unlock | Action::Restore | Action::Merge => {
            FactAction::Edit
        }
    }
}

/// The rules path as the learner calls it. Without `rules` it makes episodes, and leaves proposals to the model.
pub(super) fn decide(
    schemas: Arc<Schemas>,
    random: Arc<dyn Random>,
    metrics: Arc<Metrics>,
    config: &config::Extract,
) -> Arc<Decide> {
    let (rules, keep) = (config.rules, config.keep_exchanges_days > 0);
    let boilerplate = Boilerplate::new(&*random);
    Arc::new(move |args: DecideArgs<'_>| {
        let begun = Instant::now();
        let span = tracing::debug_span!(names::EXTRACT, backstory.exchange.id = %args.turn.exchange);
        trace_context::link(&span, args.turn.trace);
        let mut learned = span.in_scope(|| {
            let decide = if rules { extract::decide } else { extract::decide_episodes };
            decide(&DecideInput {
                turn: args.turn,
                facts: args.facts,
                schema: schemas.of(&args.turn.scope.namespace),
                revision: args.revision,
                now: args.now,
                ids: &*random,
                tombstoned: args.barred,
                mentioning: args.mentioning,
                boilerplate: Some(&boilerplate),
            })
        });
        let namespace = &args.turn.scope.namespace;
        learned.episodes.iter_mut().for_each(|episode| schemas.tune_episode(namespace, episode));
        learned.keep = keep;
        metrics.extract_seconds.observe(begun.elapsed().as_secs_f64());
        learned
    })
}
