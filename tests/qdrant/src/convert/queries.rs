//! Queries, with what is fetched before them.

use qdrant_client::qdrant::query::Variant;
use qdrant_client::qdrant::vector_input::Variant as Input;
use qdrant_client::qdrant::{self, PrefetchQuery, QueryPoints};
use qdrant_edge::external::ordered_float::OrderedFloat;
use qdrant_edge::{
    Fusion, NamedQuery, Prefetch, QuantizationSearchParams, QueryEnum, QueryRequest, ScoringQuery, SearchParams,
    VectorInternal, WithVector,
};

use super::{filter, sparse_vector, with_payload};
use crate::refuse::{Refused, unsupported, wrong};

/// What Qdrant's server returns where nothing is said.
const LIMIT: usize = 10;
/// The constant of reciprocal rank fusion where none is said: as Qdrant's server has it.
const RRF_K: usize = 2;

pub(crate) fn query(points: QueryPoints) -> Result<QueryRequest, Refused> {
    if points.with_vectors.is_some() || points.lookup_from.is_some() || points.shard_key_selector.is_some() {
        return Err(unsupported("vectors in the answer, look-ups in other collections, shard keys"));
    }
    Ok(QueryRequest {
        prefetches: points.prefetch.into_iter().map(prefetch).collect::<Result<_, _>>()?,
        query: scoring(points.query, points.using)?,
        filter: points.filter.map(filter).transpose()?,
        score_threshold: points.score_threshold.map(OrderedFloat),
        limit: size(points.limit)?.unwrap_or(LIMIT),
        offset: size(points.offset)?.unwrap_or(0),
        params: points.params.map(params).transpose()?,
        with_vector: WithVector::Bool(false),
        with_payload: with_payload(points.with_payload)?,
    })
}

fn prefetch(one: PrefetchQuery) -> Result<Prefetch, Refused> {
    Ok(Prefetch {
        prefetches: one.prefetch.into_iter().map(prefetch).collect::<Result<_, _>>()?,
        query: scoring(one.query, one.using)?,
        limit: size(one.limit)?.unwrap_or(LIMIT),
        params: one.params.map(params).transpose()?,
        filter: one.filter.map(filter).transpose()?,
        score_threshold: one.score_threshold.map(OrderedFloat),
    })
}

fn scoring(query: Option<qdrant::Query>, using: Option<String>) -> Result<Option<ScoringQuery>, Refused> {
    let Some(variant) = query.and_then(|query| query.variant) else { return Ok(None) };
    Ok(Some(match variant {
        Variant::Nearest(input) => {
            let query = match input.variant {
                Some(Input::Dense(dense)) => VectorInternal::Dense(dense.data),
                Some(Input::Sparse(sparse)) => VectorInternal::Sparse(sparse_vector(sparse)?),
                _ => return Err(unsupported("that kind of vector")),
            };
            ScoringQuery::Vector(QueryEnum::Nearest(NamedQuery { query, using }))
        }
        Variant::Fusion(kind) => match qdrant::Fusion::try_from(kind) {
            Ok(qdrant::Fusion::Rrf) => ScoringQuery::Fusion(Fusion::Rrf { k: RRF_K, weights: None }),
            Ok(qdrant::Fusion::Dbsf) => ScoringQuery::Fusion(Fusion::Dbsf),
            Err(error) => return Err(wrong(error)),
        },
        Variant::Rrf(rrf) => {
            let weights = (!rrf.weights.is_empty()).then(|| rrf.weights.into_iter().map(OrderedFloat).collect());
            ScoringQuery::Fusion(Fusion::Rrf { k: rrf.k.map_or(RRF_K, |k| k as usize), weights })
        }
        _ => return Err(unsupported("that query")),
    }))
}

fn params(params: qdrant::SearchParams) -> Result<SearchParams, Refused> {
    if params.acorn.is_some() || params.idf.is_some() {
        return Err(unsupported("those search parameters"));
    }
    Ok(SearchParams {
        hnsw_ef: size(params.hnsw_ef)?,
        exact: params.exact.unwrap_or(false),
        quantization: params.quantization.map(|quantization| QuantizationSearchParams {
            ignore: quantization.ignore.unwrap_or(false),
            rescore: quantization.rescore,
            oversampling: quantization.oversampling,
        }),
        indexed_only: params.indexed_only.unwrap_or(false),
        acorn: None,
    })
}

fn size(number: Option<u64>) -> Result<Option<usize>, Refused> {
    number.map(usize::try_from).transpose().map_err(wrong)
}

#[cfg(test)]
mod tests {
    use qdrant_client::qdrant::{PrefetchQueryBuilder, Query, QueryPointsBuilder, RrfBuilder, VectorInput};

    use super::*;

    #[test]
    fn a_hybrid_query_is_taken_whole() {
        let dense =
            PrefetchQueryBuilder::default().query(Query::new_nearest(vec![1.0, 0.0])).using("dense").limit(20_u64);
        let sparse = VectorInput::new_sparse(vec![3_u32], vec![1.0_f32]);
        let words = PrefetchQueryBuilder::default().query(Query::new_nearest(sparse)).using("words").limit(30_u64);
        let fused = Query::new_rrf(RrfBuilder::with_k(60).weights(vec![1.0, 0.5]));
        let points = QueryPointsBuilder::new("c").add_prefetch(dense).add_prefetch(words).query(fused).limit(5);
        let taken = query(points.into()).expect("all of it is known");
        assert_eq!(taken.prefetches.iter().map(|one| one.limit).collect::<Vec<_>>(), [20, 30]);
        assert!(matches!(taken.query, Some(ScoringQuery::Fusion(Fusion::Rrf { k: 60, weights: Some(_) }))));
    }

    #[test]
    fn what_is_not_known_is_refused() {
        let text = Query { variant: Some(Variant::Sample(0)) };
        assert!(scoring(Some(text), None).is_err());
        assert!(params(qdrant::SearchParams { acorn: Some(Default::default()), ..Default::default() }).is_err());
    }
}
