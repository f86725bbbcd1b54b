//! An index in memory, exact, for tests: what an index of a server is held against.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use super::{IndexHits, IndexPoint, IndexQuery, VectorIndex, WeightedTerm};
use crate::base::EpisodeId;
use crate::memory::Scope;
use crate::store::{ScopeKey, StoreError};

/// All generations in one map.
#[derive(Debug, Default)]
pub(crate) struct MemoryIndex {
    generations: Mutex<BTreeMap<String, Generation>>,
}

#[derive(Debug)]
struct Generation {
    dimension: u32,
    points: BTreeMap<EpisodeId, IndexPoint>,
}

impl MemoryIndex {
    fn generations(&self) -> MutexGuard<'_, BTreeMap<String, Generation>> {
        self.generations.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something with a generation that is there.
    fn with<T>(
        &self,
        generation: &str,
        f: impl FnOnce(&mut Generation) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut generations = self.generations();
        f(generations.get_mut(generation).ok_or_else(|| unknown(generation))?)
    }
}

fn unknown(generation: &str) -> StoreError {
    StoreError::Unusable(format!("there is no generation {generation} in memory"))
}

impl Generation {
    fn check(&self, vector: &[f32]) -> Result<(), StoreError> {
        if vector.len() == self.dimension as usize {
            return Ok(());
        }
        Err(StoreError::Unusable(format!("a vector of {} numbers, not {}", vector.len(), self.dimension)))
    }
}

#[async_trait]
impl VectorIndex for MemoryIndex {
    fn engine(&self) -> &'static str {
        "memory"
    }

    async fn prepare(&self, generation: &str, dimension: u32) -> Result<(), StoreError> {
        let mut generations = self.generations();
        let there = generations
            .entry(generation.to_owned())
            .or_insert_with(|| Generation { dimension, points: BTreeMap::new() });
        if there.dimension == dimension {
            return Ok(());
        }
        Err(StoreError::Unusable(format!("generation {generation} has dimension {}, not {dimension}", there.dimension)))
    }

    async fn serve(&self, generation: &str) -> Result<(), StoreError> {
        self.with(generation, |_| Ok(()))
    }

    async fn put(&self, generation: &str, points: &[IndexPoint]) -> Result<(), StoreError> {
        self.with(generation, |there| {
            let mut vectors = points.iter().map(|point| &point.vector).filter(|vector| !vector.is_empty());
            vectors.try_for_each(|vector| there.check(vector))?;
            there.points.extend(points.iter().map(|point| (point.episode, point.clone())));
            Ok(())
        })
    }

    async fn remove(&self, scope: &Scope, episodes: &[EpisodeId]) -> Result<(), StoreError> {
        let gone: BTreeSet<_> = episodes.iter().copied().collect();
        for there in self.generations().values_mut() {
            there.points.retain(|id, point| point.scope != *scope || !gone.contains(id));
        }
        Ok(())
    }

    async fn erase(&self, _: &str, scope: ScopeKey) -> Result<u64, StoreError> {
        let mut erased = 0;
        for there in self.generations().values_mut() {
            let before = there.points.len();
            there.points.retain(|_, point| ScopeKey::of(&point.scope) != scope);
            erased += (before - there.points.len()) as u64;
        }
        Ok(erased)
    }

    async fn search(&self, generation: &str, query: &IndexQuery<'_>) -> Result<IndexHits, StoreError> {
        self.with(generation, |there| {
            query.vector.map_or(Ok(()), |vector| there.check(vector))?;
            let of_scope: Vec<_> = there.points.values().filter(|point| point.scope == *query.scope).collect();
            let matching = || of_scope.iter().copied().filter(|point| matches(point, query));
            let near = query.vector.map(|vector| {
                let with_vector = matching().filter(|point| !point.vector.is_empty());
                with_vector.map(|p| (p.episode, cosine(vector, &p.vector))).collect()
            });
            let terms: Vec<_> =
                query.terms.iter().map(|(term, weight)| (*term, weight * idf(&of_scope, *term))).collect();
            let words = matching().filter_map(|p| Some((p.episode, in_common(&terms, &p.terms)?))).collect();
            Ok(IndexHits { near: best(near.unwrap_or_default(), query.limit), words: best(words, query.limit) })
        })
    }

    async fn list(
        &self,
        generation: &str,
        scope: &Scope,
        after: Option<EpisodeId>,
        limit: u32,
    ) -> Result<Vec<EpisodeId>, StoreError> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.with(generation, |there| {
            let behind = there.points.range((from, Bound::Unbounded)).filter(|(_, point)| point.scope == *scope);
            Ok(behind.map(|(id, _)| *id).take(limit as usize).collect())
        })
    }

    async fn count(&self, generation: &str) -> Result<u64, StoreError> {
        self.with(generation, |there| Ok(there.points.len() as u64))
    }

    async fn drop_generation(&self, generation: &str) -> Result<(), StoreError> {
        self.generations().remove(generation);
        Ok(())
    }

    async fn ping(&self) -> Result<String, StoreError> {
        Ok(env!("CARGO_PKG_VERSION").to_owned())
    }
}

fn matches(point: &IndexPoint, query: &IndexQuery<'_>) -> bool {
    point.sensitivity <= query.max_sensitivity
        && query.role.is_none_or(|role| role == point.role)
        && query.from.is_none_or(|from| from <= point.at)
        && query.to.is_none_or(|to| point.at < to)
}

fn cosine(a: &[f32], b: &[f32]) -> f32 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f32>();
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

/// How rare a term is, as Qdrant reckons it: `ln((N - n + 0.5) / (n + 0.5) + 1)`.
#[expect(clippy::cast_precision_loss, reason = "tests have few points")]
fn idf(points: &[&IndexPoint], term: u32) -> f32 {
    let with = points.iter().filter(|point| point.terms.iter().any(|(other, _)| *other == term)).count() as f32;
    ((points.len() as f32 - with + 0.5) / (with + 0.5)).ln_1p()
}

fn in_common(query: &[WeightedTerm], point: &[WeightedTerm]) -> Option<f32> {
    let weight = |term| point.iter().find(|(other, _)| *other == term).map(|(_, weight)| weight);
    query.iter().filter_map(|(term, weighs)| Some(weighs * weight(*term)?)).reduce(|sum, weight| sum + weight)
}

fn best(mut hits: Vec<(EpisodeId, f32)>, limit: u32) -> Vec<(EpisodeId, f32)> {
    hits.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    hits.truncate(limit as usize);
    hits
}
