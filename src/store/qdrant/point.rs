//! Points: what of an episode is kept in a collection.

use std::collections::HashMap;

use qdrant_client::qdrant::point_id::PointIdOptions;
use qdrant_client::qdrant::vector::Vector as Kind;
use qdrant_client::qdrant::{DenseVector, NamedVectors, PointId, PointStruct, SparseVector, Value, Vector, Vectors};

use super::filter::scope_key;
use crate::base::{EpisodeId, Time};
use crate::memory::{Sensitivity, Speaker};
use crate::store::{IndexPoint, ScopeKey, StoreError};

/// The vector of what is meant.
pub(super) const DENSE: &str = "dense";
/// The vector of what is written.
pub(super) const WORDS: &str = "words";

/// The tenant's name.
pub(super) const TENANT: &str = "tenant";
/// The scope's key in hexadecimal: the person's name itself is not sent.
pub(super) const SCOPE: &str = "scope";
/// The episode's id as it is written elsewhere; for whoever looks at the collection.
const EPISODE: &str = "episode";
/// The conversation.
const SESSION: &str = "session";
/// Who said it.
pub(super) const ROLE: &str = "role";
/// When, in milliseconds since the Unix epoch.
pub(super) const AT: &str = "at";
/// How private it is, from 0.
pub(super) const SENSITIVITY: &str = "sensitivity";

/// Makes the point of an episode.
pub(super) fn point(point: &IndexPoint) -> PointStruct {
    let payload: HashMap<String, Value> = [
        (TENANT, point.scope.tenant.to_string().into()),
        (SCOPE, scope_key(ScopeKey::of(&point.scope)).into()),
        (EPISODE, point.episode.to_string().into()),
        (SESSION, point.session.clone().into()),
        (ROLE, role(point.role).into()),
        (AT, at(point.at).into()),
        (SENSITIVITY, i64::from(sensitivity(point.sensitivity)).into()),
    ]
    .map(|(key, value)| (key.to_owned(), value))
    .into();
    let mut vectors = HashMap::new();
    if !point.vector.is_empty() {
        vectors.insert(DENSE.to_owned(), vector(Kind::Dense(DenseVector { data: point.vector.clone() })));
    }
    if !point.terms.is_empty() {
        let (indices, values) = point.terms.iter().copied().unzip();
        vectors.insert(WORDS.to_owned(), vector(Kind::Sparse(SparseVector { indices, values })));
    }
    let vectors = Vectors::from(NamedVectors { vectors });
    PointStruct { id: Some(point_id(point.episode)), payload, vectors: Some(vectors) }
}

fn vector(kind: Kind) -> Vector {
    Vector { vector: Some(kind), ..Vector::default() }
}

/// An episode's id as a UUID of the same bits: both are in the same order.
pub(super) fn point_id(episode: EpisodeId) -> PointId {
    let hex = format!("{:032x}", episode.0);
    let uuid = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-");
    PointId { point_id_options: Some(PointIdOptions::Uuid(uuid)) }
}

/// Reads the id of a point back.
pub(super) fn episode_id(id: Option<PointId>) -> Result<EpisodeId, StoreError> {
    let uuid = match id.and_then(|id| id.point_id_options) {
        Some(PointIdOptions::Uuid(uuid)) => u128::from_str_radix(&uuid.replace('-', ""), 16).ok(),
        Some(PointIdOptions::Num(_)) | None => None,
    };
    uuid.map(EpisodeId)
        .ok_or_else(|| StoreError::Unusable("a collection in Qdrant holds points that are not ours".to_owned()))
}

/// A speaker as points have it.
pub(super) fn role(speaker: Speaker) -> &'static str {
    match speaker {
        Speaker::User => "user",
        Speaker::Assistant => "assistant",
        Speaker::Tool => "tool",
        Speaker::Other => "other",
    }
}

/// How private something is, as points have it: more is more.
pub(super) fn sensitivity(sensitivity: Sensitivity) -> u8 {
    match sensitivity {
        Sensitivity::Normal => 0,
        Sensitivity::Personal => 1,
        Sensitivity::Sensitive => 2,
    }
}

/// A moment as points have it: within what a range, which is of floating point numbers, says exactly (285,000 years).
pub(super) fn at(time: Time) -> i64 {
    const EXACT: i64 = 1 << 53;
    time.0.clamp(-EXACT, EXACT - 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn ids_come_back_and_keep_their_order(a: u128, b: u128) {
            let text = |n| match point_id(EpisodeId(n)).point_id_options {
                Some(PointIdOptions::Uuid(uuid)) => uuid,
                other => panic!("{other:?}"),
            };
            prop_assert_eq!(a.cmp(&b), text(a).cmp(&text(b)));
            prop_assert_eq!(episode_id(Some(point_id(EpisodeId(a)))).unwrap(), EpisodeId(a));
        }
    }

    #[test]
    fn a_point_of_another_program_is_not_taken_for_ours() {
        let number = PointId { point_id_options: Some(PointIdOptions::Num(7)) };
        let text = PointId { point_id_options: Some(PointIdOptions::Uuid("x".to_owned())) };
        for id in [None, Some(number), Some(text)] {
            assert!(matches!(episode_id(id), Err(StoreError::Unusable(_))));
        }
    }
}
