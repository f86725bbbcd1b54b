//! An index of episodes outside of the process: by what is meant and by what is written.
//!
//! All in it is derived from the records and may lag behind them: what it finds is looked up in the records before anything of it is shown. So
//! what was erased is never shown, whatever the index still holds.

#[cfg(test)]
pub(crate) mod faulty;
#[cfg(test)]
pub(crate) mod memory;

use async_trait::async_trait;

use super::{ScopeKey, StoreError};
use crate::base::{EpisodeId, Time};
use crate::memory::{Scope, Sensitivity, Speaker};

/// A weighted term: a number that stands for it in every process and version, and its weight.
pub type WeightedTerm = (u32, f32);

/// Points of episodes, one for each episode and generation.
///
/// A point is put whole, in place of an older one. What was put or removed is found, or not found any more, by the next search of every process.
/// What names a generation that is not there is [`StoreError::Unusable`], except where said otherwise: it was not prepared, or someone dropped it.
/// The contract suite (`store/contract/index.rs`) runs on every implementation.
#[async_trait]
pub trait VectorIndex: Send + Sync {
    /// What it is called in logs, metrics and receipts: `qdrant`, `pgvector`.
    fn engine(&self) -> &'static str;

    /// Makes what a generation needs where it is missing; processes may do so at once. Of dimension 0: its points have words alone.
    ///
    /// # Errors
    /// [`StoreError::Unusable`] where there is one of another dimension, or the server lacks what is needed.
    async fn prepare(&self, generation: &str, dimension: u32) -> Result<(), StoreError>;

    /// Says that a generation is complete, and is the one that questions are asked of.
    async fn serve(&self, generation: &str) -> Result<(), StoreError>;

    /// Puts points. A vector of another dimension is [`StoreError::Unusable`], and then none is put.
    async fn put(&self, generation: &str, points: &[IndexPoint]) -> Result<(), StoreError>;

    /// Removes the points of episodes, in every generation.
    async fn remove(&self, scope: &Scope, episodes: &[EpisodeId]) -> Result<(), StoreError>;

    /// Removes all points of a scope of a tenant, in every generation; returns how many there were. By the key alone: of a subject that was
    /// erased no name is kept by which it could be asked for again.
    async fn erase(&self, tenant: &str, scope: ScopeKey) -> Result<u64, StoreError>;

    /// Finds points of a scope: the nearest ones, and those with the heaviest terms in common.
    async fn search(&self, generation: &str, query: &IndexQuery<'_>) -> Result<IndexHits, StoreError>;

    /// Lists the episodes of a scope that have a point, in order of id, behind `after`, at most `limit`.
    async fn list(
        &self,
        generation: &str,
        scope: &Scope,
        after: Option<EpisodeId>,
        limit: u32,
    ) -> Result<Vec<EpisodeId>, StoreError>;

    /// How many points a generation has, of all scopes.
    async fn count(&self, generation: &str) -> Result<u64, StoreError>;

    /// Drops a generation with all its points. Nothing happens when there is none.
    async fn drop_generation(&self, generation: &str) -> Result<(), StoreError>;

    /// Asks the server for a sign of life; returns its version.
    async fn ping(&self) -> Result<String, StoreError>;
}

/// What is known of an episode in the index.
#[derive(Clone, Debug, PartialEq)]
pub struct IndexPoint {
    /// Whose it is.
    pub scope: Scope,
    /// The episode.
    pub episode: EpisodeId,
    /// The conversation that it is from.
    pub session: String,
    /// Who said it.
    pub role: Speaker,
    /// When it was said.
    pub at: Time,
    /// How private it is.
    pub sensitivity: Sensitivity,
    /// Its vector, as it is compared (what all texts have in common is taken out); of any length but zero. Empty: it has none, and is found by
    /// its terms alone.
    pub vector: Vec<f32>,
    /// Its terms with their weights by BM25, without how rare they are; each once.
    pub terms: Vec<WeightedTerm>,
}

/// What is looked for.
#[derive(Clone, Copy, Debug)]
pub struct IndexQuery<'a> {
    /// Whose memories.
    pub scope: &'a Scope,
    /// The question's vector; none: words alone.
    pub vector: Option<&'a [f32]>,
    /// The question's terms; none: the vector alone.
    pub terms: &'a [WeightedTerm],
    /// Nothing more private.
    pub max_sensitivity: Sensitivity,
    /// Of one speaker only.
    pub role: Option<Speaker>,
    /// Said at that time or later.
    pub from: Option<Time>,
    /// Said before that time.
    pub to: Option<Time>,
    /// At most so many by the vector, and so many by terms.
    pub limit: u32,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IndexHits {
    /// By the vector, nearest first, with the cosine.
    pub near: Vec<(EpisodeId, f32)>,
    /// By terms, best first, with the sum of their weights, rare ones counting more.
    pub words: Vec<(EpisodeId, f32)>,
}

#[cfg(test)]
mod tests {
    use crate::store::contract::index::index_suite;
    use crate::store::{MemoryIndex, VectorIndex};

    async fn in_memory() -> Option<Box<dyn VectorIndex>> {
        Some(Box::new(MemoryIndex::default()))
    }

    index_suite!(memory, crate::store::index::tests::in_memory);
}
