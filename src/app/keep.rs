//! Ties what is configured under `[memory]` to what is stored: half-lives when a scope is read, and the sweep's rules.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use crate::access::Subjects;
use crate::base::{Clock, EpisodeId};
use crate::config::Memory;
use crate::jobs::SweepHost;
use crate::memory::forget::ForgetRules;
use crate::memory::{Episode, Fact, Schemas, Scope};
use crate::recall::{Recall, ScopeData, Since, Source};
use crate::shared::{Change, Shared};
use crate::states::States;
use crate::store::{Changed, Forgotten, Store, StoreError};
use crate::telemetry::{Metrics, Swept};

/// Reads scopes with the half-lives that are configured now: they are stored with those that were configured then.
pub(super) struct Tuned {
    pub(super) store: Arc<dyn Store>,
    pub(super) schemas: Arc<Schemas>,
    /// Whether other processes use the store too.
    pub(super) has_replicas: bool,
}

#[async_trait]
impl Source for Tuned {
    async fn load(&self, scope: &Scope, max_episodes: usize) -> Result<ScopeData, StoreError> {
        let mut data = self.store.load(scope, max_episodes).await?;
        data.facts.iter_mut().for_each(|fact| self.schemas.tune_fact(&scope.namespace, fact));
        data.episodes.iter_mut().for_each(|episode| self.schemas.tune_episode(&scope.namespace, episode));
        Ok(data)
    }

    async fn episodes_of(&self, scope: &Scope, ids: &[EpisodeId]) -> Result<Vec<Episode>, StoreError> {
        let mut episodes = self.store.as_ref().episodes_of(scope, ids).await?;
        episodes.iter_mut().for_each(|episode| self.schemas.tune_episode(&scope.namespace, episode));
        Ok(episodes)
    }

    async fn revision(&self, scope: &Scope) -> Result<Option<i64>, StoreError> {
        if !self.has_replicas {
            return Ok(None);
        }
        Ok(Some(self.store.scope_state(scope).await?.revision))
    }

    async fn since(
        &self,
        scope: &Scope,
        change: i64,
        revision: Option<i64>,
        limit: u32,
    ) -> Result<Option<Since>, StoreError> {
        let mut since = self.store.since(scope, change, revision, limit).await?;
        for change in since.iter_mut().flat_map(|since| &mut since.changes) {
            match &mut change.what {
                Changed::Fact(entry) => self.schemas.tune_fact(&scope.namespace, &mut entry.fact),
                Changed::Episode(episode) => self.schemas.tune_episode(&scope.namespace, episode),
                Changed::FactGone(_) | Changed::EpisodeGone(_) | Changed::Erased => {}
            }
        }
        Ok(since)
    }

    async fn load_vectors(&self, scope: &Scope, generation: &str) -> Result<Vec<(EpisodeId, Vec<u8>)>, StoreError> {
        self.store.load_vectors(scope, generation).await
    }
}

/// How often the counts of subjects are stored.
const KEEP_SUBJECTS_EVERY: Duration = Duration::from_secs(600);

/// Stores for whom conversations began, now and then and at the end. What cannot be stored is lost: it only serves a warning.
pub(super) async fn keep_subjects(
    subjects: Arc<Subjects>,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    halt: CancellationToken,
) {
    loop {
        let halted = tokio::select! {
            () = tokio::time::sleep(KEEP_SUBJECTS_EVERY) => false,
            () = halt.cancelled() => true,
        };
        let uses = subjects.take();
        if !uses.is_empty()
            && let Err(error) = store.add_subject_use(&uses, clock.now()).await
        {
            tracing::warn!(%error, "could not count for whom conversations begin");
        }
        if halted {
            return;
        }
    }
}

/// What the sweep asks, and the caches that follow it.
pub(super) struct Forgets {
    pub(super) memory: Memory,
    pub(super) schemas: Arc<Schemas>,
    pub(super) recall: Arc<Recall>,
    pub(super) states: Arc<States>,
    pub(super) shared: Option<Arc<Shared>>,
    pub(super) metrics: Arc<Metrics>,
}

impl SweepHost for Forgets {
    fn rules(&self, namespace: &str) -> ForgetRules {
        self.memory.of(namespace).forget()
    }

    fn tune(&self, scope: &Scope, fact: &mut Fact) {
        self.schemas.tune_fact(&scope.namespace, fact);
    }

    fn forgotten(&self, scope: &Scope, what: &Forgotten) {
        self.recall.changed(scope);
        self.states.forget_everywhere(scope);
        if let Some(shared) = &self.shared {
            shared.tell_of(&Change::Scope(scope.clone()));
        }
        let counts = [
            (Swept::Expired, what.expired),
            (Swept::DroppedFact, what.dropped_facts),
            (Swept::Archived, what.archived),
            (Swept::DroppedEpisode, what.dropped_episodes),
        ];
        for (label, n) in counts {
            self.metrics.swept.add(label, n);
        }
    }
}
