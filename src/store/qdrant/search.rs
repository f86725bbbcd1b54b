//! Reading: searches, lists and counts.

use qdrant_client::qdrant::{
    CountPoints, Filter, QuantizationSearchParams, Query, QueryBatchPoints, QueryPoints, ScoredPoint, ScrollPoints,
    SearchParams, VectorInput,
};

use super::collections::missing;
use super::error::Refusal;
use super::filter::Points;
use super::point::{DENSE, WORDS, episode_id, point_id};
use super::{Isolation, Qdrant, Quantization};
use crate::base::EpisodeId;
use crate::memory::Scope;
use crate::store::{IndexHits, IndexQuery, StoreError};

/// How many times the asked for number are taken by a bit for each number, before they are compared as they are.
const BINARY_OVERSAMPLING: f64 = 3.0;

impl Qdrant {
    /// Both searches in one round trip. No more than ids come back: what is shown of an episode is read from the records.
    pub(super) async fn search_points(
        &self,
        generation: &str,
        query: &IndexQuery<'_>,
    ) -> Result<IndexHits, StoreError> {
        let name = self.home(generation, &query.scope.tenant);
        let filter =
            Points::of(query.scope).at_most(query.max_sensitivity).said_by(query.role).between(query.from, query.to);
        let near = query.vector.map(|vector| {
            let nearest = Query::new_nearest(VectorInput::new_dense(vector.to_vec()));
            QueryPoints { using: Some(DENSE.to_owned()), params: Some(self.params()), ..nearest_to(nearest) }
        });
        let words = (!query.terms.is_empty()).then(|| {
            let (indices, values): (Vec<u32>, Vec<f32>) = query.terms.iter().copied().unzip();
            let nearest = Query::new_nearest(VectorInput::new_sparse(indices, values));
            QueryPoints { using: Some(WORDS.to_owned()), ..nearest_to(nearest) }
        });
        let asked = (near.is_some(), words.is_some());
        let query_points: Vec<_> = near
            .into_iter()
            .chain(words)
            .map(|one| QueryPoints {
                collection_name: name.clone(),
                filter: Some(filter.clone().into()),
                limit: Some(u64::from(query.limit)),
                ..one
            })
            .collect();
        if query_points.is_empty() {
            return Ok(IndexHits::default());
        }
        let batch = QueryBatchPoints { collection_name: name, query_points, ..QueryBatchPoints::default() };
        let doing = "search";
        let response = self.try_call(doing, self.client.query_batch(batch)).await;
        let Some(response) = self.found(generation, doing, response).await? else {
            self.check(generation, query.vector.into_iter()).await?;
            return Ok(IndexHits::default());
        };
        let mut results = response.result.into_iter().map(|batch| batch.result);
        let mut next = |asked: bool| asked.then(|| hits(results.next().unwrap_or_default())).transpose();
        Ok(IndexHits { near: next(asked.0)?.unwrap_or_default(), words: next(asked.1)?.unwrap_or_default() })
    }

    fn params(&self) -> SearchParams {
        let oversampling = match self.options.quantization {
            Quantization::Binary => Some(BINARY_OVERSAMPLING),
            Quantization::Off | Quantization::Scalar => None,
        };
        let rescored =
            QuantizationSearchParams { rescore: Some(true), oversampling, ..QuantizationSearchParams::default() };
        SearchParams {
            hnsw_ef: self.options.hnsw_ef.map(u64::from),
            quantization: (self.options.quantization != Quantization::Off).then_some(rescored),
            ..SearchParams::default()
        }
    }

    pub(super) async fn list_points(
        &self,
        generation: &str,
        scope: &Scope,
        after: Option<EpisodeId>,
        limit: u32,
    ) -> Result<Vec<EpisodeId>, StoreError> {
        // A page begins with its offset.
        let Some(first) = after.map_or(Some(0), |id| id.0.checked_add(1)) else { return Ok(Vec::new()) };
        let request = ScrollPoints {
            collection_name: self.home(generation, &scope.tenant),
            filter: Some(Points::of(scope).into()),
            offset: Some(point_id(EpisodeId(first))),
            limit: Some(limit),
            with_payload: Some(false.into()),
            ..ScrollPoints::default()
        };
        let doing = "list points";
        let response = self.try_call(doing, self.client.scroll(request)).await;
        let Some(response) = self.found(generation, doing, response).await? else { return Ok(Vec::new()) };
        response.result.into_iter().map(|point| episode_id(point.id)).collect()
    }

    pub(super) async fn count_points(&self, generation: &str) -> Result<u64, StoreError> {
        let mut count =
            self.count_in(self.names.generation(generation), None).await?.ok_or_else(|| missing(generation))?;
        if self.options.isolation == Isolation::Collection {
            for name in self.of_generation(generation).await? {
                count += self.count_in(name, None).await?.unwrap_or(0);
            }
        }
        Ok(count)
    }

    /// How many points of a filter a collection has; none where there is no such collection.
    pub(super) async fn count_in(&self, name: String, filter: Option<Filter>) -> Result<Option<u64>, StoreError> {
        let request = CountPoints { collection_name: name, filter, exact: Some(true), ..CountPoints::default() };
        let doing = "count points";
        match self.try_call(doing, self.client.count(request)).await {
            Ok(response) => Ok(Some(response.result.map_or(0, |result| result.count))),
            Err(Refusal::Missing) => Ok(None),
            Err(refusal) => Err(refusal.into_error(doing, &self.options.url)),
        }
    }

    /// What was read of a tenant's points. None: it has no collection of its own yet, and so nothing is found.
    async fn found<T>(
        &self,
        generation: &str,
        doing: &'static str,
        response: Result<T, Refusal>,
    ) -> Result<Option<T>, StoreError> {
        match response {
            Ok(response) => Ok(Some(response)),
            Err(Refusal::Missing) => {
                self.forget(generation);
                match self.options.isolation {
                    Isolation::Payload => Err(missing(generation)),
                    Isolation::Collection => self.dimension(generation).await.map(|_| None),
                }
            }
            Err(refusal) => Err(refusal.into_error(doing, &self.options.url)),
        }
    }
}

fn nearest_to(query: Query) -> QueryPoints {
    QueryPoints { query: Some(query), with_payload: Some(false.into()), ..QueryPoints::default() }
}

fn hits(points: Vec<ScoredPoint>) -> Result<Vec<(EpisodeId, f32)>, StoreError> {
    points.into_iter().map(|point| Ok((episode_id(point.id)?, point.score))).collect()
}
