//! Facts without a cache.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;

use super::FactSource;
use crate::base::EpisodeId;
use crate::memory::{Fact, Scope};
use crate::store::{EpisodeFilter, FactFilter, Page, Store, StoreError};

/// Facts straight from the store, without a cache: for tools and tests. Knows of mentions what it read last.
pub struct StoreFacts {
    store: Arc<dyn Store>,
    episodes: Mutex<HashMap<Scope, Vec<(EpisodeId, String)>>>,
}

impl StoreFacts {
    /// Rows read at a time, and the newest-read episodes of a scope that are searched for mentions.
    const PAGE: u32 = 1000;
    /// Scopes whose episodes are remembered; when there are more, all are dropped and read anew.
    const MAX_SCOPES: usize = 64;

    /// Reads from `store`.
    #[must_use]
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store, episodes: Mutex::default() }
    }
}

impl fmt::Debug for StoreFacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreFacts").finish_non_exhaustive()
    }
}

#[async_trait]
impl FactSource for StoreFacts {
    async fn facts(&self, scope: &Scope) -> Result<(i64, Vec<Arc<Fact>>), StoreError> {
        // The revision first: facts that are newer than it make the result stale, older ones would go unnoticed.
        let revision = self.store.scope_state(scope).await?.revision;
        let filter = FactFilter { current: true, ..FactFilter::default() };
        let mut facts: Vec<Arc<Fact>> = Vec::new();
        loop {
            let after = facts.last().map(|f| f.id.to_string());
            let page = self.store.list_facts(scope, &filter, &Page { after, limit: Self::PAGE }).await?;
            let last = page.len() < Self::PAGE as usize;
            facts.extend(page.into_iter().map(Arc::new));
            if last {
                break;
            }
        }
        let page = Page::first(Self::PAGE);
        let episodes = self.store.list_episodes(scope, &EpisodeFilter::default(), &page).await?;
        let texts = episodes.into_iter().map(|e| (e.id, e.text.to_lowercase())).collect();
        let mut known = self.episodes.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= Self::MAX_SCOPES {
            known.clear();
        }
        known.insert(scope.clone(), texts);
        Ok((revision, facts))
    }

    fn mentioning(&self, scope: &Scope, value: &str) -> Vec<EpisodeId> {
        let value = value.to_lowercase();
        let known = self.episodes.lock().unwrap_or_else(PoisonError::into_inner);
        let episodes = known.get(scope).into_iter().flatten();
        episodes.filter(|(_, text)| text.contains(&value)).map(|(id, _)| *id).collect()
    }
}
