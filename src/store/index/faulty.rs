//! The index in memory, told to be away, or to say nothing.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use async_trait::async_trait;

use super::memory::MemoryIndex;
use super::{IndexHits, IndexPoint, IndexQuery, VectorIndex};
use crate::base::EpisodeId;
use crate::memory::Scope;
use crate::store::{ScopeKey, StoreError};

/// An index that can be told to fail.
#[derive(Debug, Default)]
pub(crate) struct Faulty {
    pub(crate) index: MemoryIndex,
    /// Every call fails.
    pub(crate) is_away: AtomicBool,
    /// No search ends.
    pub(crate) hangs: AtomicBool,
    /// How many searches were asked for.
    pub(crate) searches: AtomicU64,
    /// How many points were erased.
    pub(crate) erased: AtomicU64,
}

impl Faulty {
    fn there(&self) -> Result<&MemoryIndex, StoreError> {
        if self.is_away.load(Ordering::SeqCst) {
            return Err(StoreError::Unavailable("as told".to_owned()));
        }
        Ok(&self.index)
    }
}

#[async_trait]
impl VectorIndex for Faulty {
    fn engine(&self) -> &'static str {
        self.index.engine()
    }

    async fn prepare(&self, generation: &str, dimension: u32) -> Result<(), StoreError> {
        self.there()?.prepare(generation, dimension).await
    }

    async fn serve(&self, generation: &str) -> Result<(), StoreError> {
        self.there()?.serve(generation).await
    }

    async fn put(&self, generation: &str, points: &[IndexPoint]) -> Result<(), StoreError> {
        self.there()?.put(generation, points).await
    }

    async fn remove(&self, scope: &Scope, episodes: &[EpisodeId]) -> Result<(), StoreError> {
        self.there()?.remove(scope, episodes).await
    }

    async fn erase(&self, tenant: &str, scope: ScopeKey) -> Result<u64, StoreError> {
        let n = self.there()?.erase(tenant, scope).await?;
        self.erased.fetch_add(n, Ordering::SeqCst);
        Ok(n)
    }

    async fn search(&self, generation: &str, query: &IndexQuery<'_>) -> Result<IndexHits, StoreError> {
        self.searches.fetch_add(1, Ordering::SeqCst);
        if self.hangs.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        self.there()?.search(generation, query).await
    }

    async fn list(
        &self,
        generation: &str,
        scope: &Scope,
        after: Option<EpisodeId>,
        limit: u32,
    ) -> Result<Vec<EpisodeId>, StoreError> {
        self.there()?.list(generation, scope, after, limit).await
    }

    async fn count(&self, generation: &str) -> Result<u64, StoreError> {
        self.there()?.count(generation).await
    }

    async fn drop_generation(&self, generation: &str) -> Result<(), StoreError> {
        self.there()?.drop_generation(generation).await
    }

    async fn ping(&self) -> Result<String, StoreError> {
        self.there()?.ping().await
    }
}
