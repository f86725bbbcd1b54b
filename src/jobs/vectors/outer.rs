//! The same where an index outside of the process holds what is found by: vectors and words.
//!
//! Whoever leads follows the changes of all scopes and brings the index up to date: first the index, then the cursor, so that a crash repeats a
//! batch and loses nothing. What was deleted, put aside or erased goes in the same order; an erasure that the index missed when it was
//! asked for is made up for here, whenever the index is back.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::{StreamExt, TryStreamExt, stream};

use super::{Failure, Using, Vectors};
use crate::base::{EpisodeId, Time};
use crate::embed::{EmbedError, Packed, Side};
use crate::memory::Scope;
use crate::store::{Due, DueEpisode, GenerationRecord, IndexPoint, StoreError, VectorIndex};
use crate::telemetry::VectorOutcome;

/// Requests that the embedder works on at a time.
pub(super) const AT_ONCE: usize = 4;

impl Vectors {
    /// The same, but what is found by goes to `index`, and only how far it is to the records.
    #[must_use]
    pub fn through(self, index: Option<Arc<dyn VectorIndex>>) -> Self {
        Self { index, ..self }
    }

    /// Brings the index up to date with the next changes. Returns whether it still leads, and whether nothing is left.
    pub(super) async fn bring_up(&self, index: &dyn VectorIndex, using: &mut Using) -> Result<(bool, bool), Failure> {
        let id = using.record.id.clone();
        if !using.is_prepared {
            index.prepare(&id, using.generation.dimension.unwrap_or_default()).await?;
            if using.record.cursor > 0 && index.count(&id).await? == 0 {
                // Another server, or an emptied one.
                tracing::warn!(engine = index.engine(), "the index holds nothing of what it should: it is made anew");
                self.store.rewind_generation(&id).await?;
                using.is_prepared = true;
                // To be leased, and read, anew.
                using.said_at = Time::default();
                return Ok((false, false));
            }
            using.is_prepared = true;
        }
        let limit = self.config.batch.saturating_mul(AT_ONCE as u32);
        let due = self.store.due_episodes(&id, using.record.cursor, limit).await?;
        let (cursor, is_last) = (due.cursor, due.is_last);
        if cursor > using.record.cursor {
            self.put(index, using, due).await?;
            if !self.store.put_vectors(&id, &self.config.owner, &[], Some(cursor)).await? {
                return Ok((false, is_last));
            }
            using.record.cursor = cursor;
        }
        Ok((true, is_last))
    }

    async fn put(&self, index: &dyn VectorIndex, using: &mut Using, due: Due) -> Result<(), Failure> {
        self.metrics.vectors.add(VectorOutcome::Unreadable, due.unreadable);
        for (tenant, scope) in &due.erased {
            index.erase(tenant, *scope).await?;
        }
        let mut gone: HashMap<Scope, Vec<EpisodeId>> = HashMap::new();
        for (scope, id) in due.gone {
            gone.entry(scope).or_default().push(id);
        }
        for (scope, ids) in &gone {
            index.remove(scope, ids).await?;
            self.metrics.vectors.add(VectorOutcome::Removed, ids.len() as u64);
        }
        let points = self.points(using, due.episodes).await?;
        if !points.is_empty() {
            index.put(&using.record.id, &points).await?;
        }
        let made = points.iter().filter(|point| !point.vector.is_empty()).count() as u64;
        using.made += points.len() as u64;
        self.metrics.vectors.add(VectorOutcome::Made, made);
        Ok(())
    }

    /// A point for every episode; with a vector where the embedder may see it, and takes it.
    async fn points(&self, using: &Using, due: Vec<DueEpisode>) -> Result<Vec<IndexPoint>, Failure> {
        let mut vectors = self.embedded(using, &due).await?.into_iter().peekable();
        let mut points = Vec::with_capacity(due.len());
        for (at, DueEpisode { scope, episode, .. }) in due.into_iter().enumerate() {
            let vector = vectors.next_if(|(of, _)| *of == at).map(|(_, vector)| vector).unwrap_or_default();
            points.push(IndexPoint {
                scope,
                episode: episode.id,
                terms: self.host.terms(&episode),
                role: episode.role,
                at: episode.said_at,
                sensitivity: episode.sensitivity,
                session: episode.session,
                vector,
            });
        }
        Ok(points)
    }

    /// The placed vectors of those that have one, each with its place among `due`, in order.
    async fn embedded(&self, using: &Using, due: &[DueEpisode]) -> Result<Vec<(usize, Vec<f32>)>, Failure> {
        let Some(dimension) = using.generation.dimension else { return Ok(Vec::new()) };
        let background = using.record.background.as_deref().unwrap_or_default();
        let may_see = |due: &&DueEpisode| due.episode.sensitivity <= self.config.max_sensitivity;
        self.metrics.vectors.add(VectorOutcome::Private, due.iter().filter(|due| !may_see(due)).count() as u64);
        let wanted: Vec<(usize, &str)> = due
            .iter()
            .enumerate()
            .filter(|(_, due)| may_see(due) && !due.episode.text.trim().is_empty())
            .map(|(at, due)| (at, due.episode.text.as_str()))
            .collect();
        let requests = wanted.chunks((self.config.batch as usize).max(1)).map(|piece| async move {
            let texts: Vec<&str> = piece.iter().map(|&(_, text)| text).collect();
            let vectors = self.embedder.embed_each(Side::Document, &texts).await?;
            if vectors.len() != texts.len() {
                return Err(EmbedError::Unusable("not one vector for each text".to_owned()));
            }
            Ok(piece.iter().map(|&(at, _)| at).zip(vectors).collect::<Vec<_>>())
        });
        let requests: Vec<_> = requests.collect();
        let made: Vec<Vec<(usize, Option<Vec<f32>>)>> =
            self.renewing(using, stream::iter(requests).buffered(AT_ONCE).try_collect()).await?;
        let mut placed = Vec::with_capacity(wanted.len());
        for (at, vector) in made.into_iter().flatten() {
            let Some(vector) = vector else { continue };
            if u32::try_from(vector.len()).ok() != Some(dimension) {
                return Err(EmbedError::Unusable("a vector of another dimension".to_owned()).into());
            }
            let of = Packed::of(&vector).and_then(|packed| self.host.place(&using.record.id, background, &packed));
            placed.extend(of.map(|vector| (at, vector)));
        }
        self.metrics.vectors.add(VectorOutcome::Refused, (wanted.len() - placed.len()) as u64);
        Ok(placed)
    }

    /// Says that all of a generation is in the index.
    pub(super) async fn completed(&self, id: &str) -> Result<(), StoreError> {
        match &self.index {
            Some(index) => index.serve(id).await,
            None => Ok(()),
        }
    }

    /// Drops what the index holds of a generation that is being dropped.
    pub(super) async fn drop_outside(&self, record: &GenerationRecord) -> Result<(), StoreError> {
        match &self.index {
            Some(index) => index.drop_generation(&record.id).await,
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
