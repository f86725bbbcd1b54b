//! Writing: points put and taken out. What a call returns from is seen by the next search.

use std::collections::BTreeMap;

use qdrant_client::qdrant::points_selector::PointsSelectorOneOf;
use qdrant_client::qdrant::{DeletePoints, PointsSelector, UpsertPoints};

use super::collections::missing;
use super::error::Refusal;
use super::filter::Points;
use super::point::point;
use super::{Isolation, Qdrant};
use crate::base::EpisodeId;
use crate::memory::Scope;
use crate::store::{IndexPoint, ScopeKey, StoreError};

/// Points of one request. As Qdrant's own client puts them in one; a larger one blocks others.
const BATCH_POINTS: usize = 256;

/// Bytes of one request, about: a fraction of what a server takes.
const BATCH_BYTES: usize = 4 << 20;

/// Ids of one request.
const BATCH_IDS: usize = 1000;

impl Qdrant {
    pub(super) async fn put_points(&self, generation: &str, points: &[IndexPoint]) -> Result<(), StoreError> {
        // One without a vector is found by its words alone.
        let vectors = points.iter().map(|point| &*point.vector).filter(|vector| !vector.is_empty());
        let dimension = self.check(generation, vectors).await?;
        let mut homes: BTreeMap<String, Vec<&IndexPoint>> = BTreeMap::new();
        for point in points {
            homes.entry(self.home(generation, &point.scope.tenant)).or_default().push(point);
        }
        for (home, points) in homes {
            if self.upsert(&home, &points).await? {
                continue;
            }
            // What was known of the generation may be old: it is asked for anew before anything is made.
            self.forget(generation);
            if self.options.isolation == Isolation::Payload || self.dimension(generation).await? != dimension {
                return Err(missing(generation));
            }
            // The first points of a tenant make its collection.
            self.ensure(&home, generation, dimension).await?;
            if !self.upsert(&home, &points).await? {
                return Err(missing(generation));
            }
        }
        Ok(())
    }

    /// Puts points into a collection; `false` where there is none.
    async fn upsert(&self, name: &str, points: &[&IndexPoint]) -> Result<bool, StoreError> {
        let doing = "put points";
        for batch in batches(points) {
            let request = UpsertPoints {
                collection_name: name.to_owned(),
                wait: Some(true),
                points: batch.iter().map(|one| point(one)).collect(),
                ..UpsertPoints::default()
            };
            match self.try_call(doing, self.client.upsert_points(request)).await {
                Ok(_) => {}
                Err(Refusal::Missing) => return Ok(false),
                Err(refusal) => return Err(refusal.into_error(doing, &self.options.url)),
            }
        }
        Ok(true)
    }

    pub(super) async fn remove_points(&self, scope: &Scope, episodes: &[EpisodeId]) -> Result<(), StoreError> {
        if episodes.is_empty() {
            return Ok(());
        }
        for name in self.of_tenant(&scope.tenant).await? {
            for ids in episodes.chunks(BATCH_IDS) {
                self.delete(&name, Points::of(scope).only(ids)).await?;
            }
        }
        Ok(())
    }

    /// Counts before it deletes: what others put in between goes too, and is not counted.
    pub(super) async fn erase_points(&self, tenant: &str, scope: ScopeKey) -> Result<u64, StoreError> {
        let mut erased = 0;
        for name in self.of_tenant(tenant).await? {
            let points = Points::of_key(tenant, scope);
            erased += self.count_in(name.clone(), Some(points.clone().into())).await?.unwrap_or(0);
            self.delete(&name, points).await?;
        }
        Ok(erased)
    }

    /// Deletes points; a collection that was dropped in between has none.
    async fn delete(&self, name: &str, points: Points) -> Result<(), StoreError> {
        let selector = PointsSelector { points_selector_one_of: Some(PointsSelectorOneOf::Filter(points.into())) };
        let request = DeletePoints {
            collection_name: name.to_owned(),
            wait: Some(true),
            points: Some(selector),
            ..DeletePoints::default()
        };
        let doing = "delete points";
        match self.try_call(doing, self.client.delete_points(request)).await {
            Ok(_) | Err(Refusal::Missing) => Ok(()),
            Err(refusal) => Err(refusal.into_error(doing, &self.options.url)),
        }
    }
}

/// Cuts points into requests: none is of more points or bytes than one may be, apart from a single point that is larger.
fn batches<'a>(points: &'a [&'a IndexPoint]) -> impl Iterator<Item = &'a [&'a IndexPoint]> {
    let mut rest = points;
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fits = rest.iter().take(BATCH_POINTS).take_while(|point| {
            bytes += size(point);
            bytes <= BATCH_BYTES
        });
        let n = fits.count().clamp(1, rest.len().max(1)).min(rest.len());
        let (batch, behind) = rest.split_at(n);
        rest = behind;
        (!batch.is_empty()).then_some(batch)
    })
}

/// About what a point takes in a request.
fn size(point: &IndexPoint) -> usize {
    const FIELDS: usize = 300;
    FIELDS + point.session.len() + point.scope.tenant.len() + 4 * point.vector.len() + 9 * point.terms.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::contract::fixtures::scope;
    use crate::store::contract::index::point;

    #[test]
    fn a_request_holds_no_more_than_it_may() {
        let large = IndexPoint { vector: vec![0.0; 600_000], ..point(&scope("ann"), 1, [0.0; 3]) };
        let huge = IndexPoint { vector: vec![0.0; 3_000_000], ..large.clone() };
        let small = point(&scope("ann"), 2, [0.0; 3]);
        let sizes = |points: &[&IndexPoint]| batches(points).map(<[_]>::len).collect::<Vec<_>>();
        assert_eq!(sizes(&[]), [0_usize; 0]);
        assert_eq!(sizes(&vec![&small; 600]), [256, 256, 88]);
        assert_eq!(sizes(&[&large, &large, &small]), [1, 2]);
        assert_eq!(sizes(&[&small, &huge, &small]), [1, 1, 1]);
    }
}
