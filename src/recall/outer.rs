//! Recall through an index outside of the process: for scopes too large to be held, and memories that another process stored.
//!
//! At a question the index is asked for what is nearest and what has the question's words, of each scope, while the scopes are read. What it
//! finds among the episodes in memory is how near these are; the rest is looked up in the records, and ranked along. So nothing is shown that
//! the records do not hold, whatever the index says.
//!
//! An index that fails or is late costs what only it would have found: words find what is in memory. After some failures in a row it is left
//! alone for a while.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use tracing::Instrument;

use super::cache::{Entry, Recall, read};
use super::dense::{Channel, Near, Nearest};
use super::index::Index;
use super::patience::Patience;
use super::query::Query;
use super::rank::Asked;
use super::sparse;
use crate::base::{Clock, EpisodeId};
use crate::memory::{EpisodeStatus, Scope};
use crate::store::{IndexHits, IndexQuery, StoreError, VectorIndex, WeightedTerm};
use crate::telemetry::{IndexOutcome, Metrics, names};

/// So many of a scope are asked for, by the vector and by words.
const ASKED_FOR: u32 = 256;
/// Of these, so many are looked up in the records at most, where memory does not hold them: reading and analysing one takes some 50 microseconds.
const LOOKED_UP: usize = 96;
/// Of the deadline, the share after which the index is not waited for: what is in memory must still be shown in time.
const LATEST: f64 = 0.9;
/// What a reply names when the index did not answer in time.
const CHANNEL: &str = "index";

/// An index outside of the process, and how it has been answering.
pub struct Outer {
    index: Arc<dyn VectorIndex>,
    /// The generation that is asked; none while it is being filled.
    serves: RwLock<Option<Arc<str>>>,
    deadline: Duration,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
    patience: Mutex<Patience>,
    /// What came of the last question, if it was nothing.
    trouble: Mutex<Option<String>>,
}

impl fmt::Debug for Outer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outer").field("engine", &self.index.engine()).field("serves", &self.serves()).finish()
    }
}

/// What the index found, by scope in the order of the query's.
#[derive(Debug, Default)]
pub(super) struct Outside {
    pub(super) scopes: Vec<Beyond>,
    pub(super) degraded: Option<&'static str>,
}

/// What the index knows of one scope beyond what is in memory.
#[derive(Debug, Default)]
pub(super) struct Beyond {
    pub(super) nearest: Nearest,
    /// Episodes that are not in memory, as the records hold them.
    pub(super) older: Index,
}

impl Outside {
    /// How near the episodes in memory are, by scope.
    pub(super) fn channels(&self, indexes: &[&Index]) -> Vec<Option<Channel>> {
        let of = |(at, index): (usize, &&Index)| {
            self.scopes.get(at).and_then(|beyond| Near::channel_of(index, &beyond.nearest))
        };
        indexes.iter().enumerate().map(of).collect()
    }
}

/// What the index answered.
pub(super) type Answer = Result<Vec<IndexHits>, IndexOutcome>;

impl Outer {
    /// Asks `index`; `deadline` is what a recall has altogether.
    #[must_use]
    pub fn new(index: Arc<dyn VectorIndex>, deadline: Duration, clock: Arc<dyn Clock>, metrics: Arc<Metrics>) -> Self {
        Self {
            index,
            serves: RwLock::default(),
            deadline,
            clock,
            metrics,
            patience: Mutex::default(),
            trouble: Mutex::default(),
        }
    }

    /// Asks this generation from now on.
    pub fn serve(&self, generation: &str) {
        *self.serves.write().unwrap_or_else(PoisonError::into_inner) = Some(generation.into());
    }

    fn serves(&self) -> Option<Arc<str>> {
        self.serves.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How long it may take from now on, when so much of the deadline has passed.
    fn within(&self, begun: Instant) -> Duration {
        self.deadline.mul_f64(LATEST).saturating_sub(begun.elapsed())
    }

    fn patience(&self) -> std::sync::MutexGuard<'_, Patience> {
        // Plain numbers: a panic leaves them as good as they were.
        self.patience.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why the last question was not answered; `None` when it was.
    pub(super) fn trouble(&self) -> Option<String> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_trouble(&self, trouble: Option<String>) {
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = trouble;
    }

    async fn ask(&self, generation: &str, asking: &Asking<'_>, within: Duration) -> Answer {
        if self.patience().is_out(self.clock.now()) {
            self.metrics.index_searches.inc(IndexOutcome::Skipped);
            return Err(IndexOutcome::Skipped);
        }
        let begun = Instant::now();
        let searches = asking
            .query
            .scopes
            .iter()
            .map(|scope| async move { self.index.search(generation, &asking.of(scope)).await });
        let span = tracing::debug_span!(names::INDEX_SEARCH, db.system.name = self.index.engine());
        let found = tokio::time::timeout(within, try_join_all(searches)).instrument(span).await;
        self.metrics.index_search_seconds.observe(begun.elapsed().as_secs_f64());
        let answer = match found {
            Ok(Ok(hits)) => {
                self.set_trouble(None);
                Ok(hits)
            }
            Ok(Err(error)) => {
                tracing::debug!(%error, "the index cannot be asked; what is in memory is found by words");
                self.set_trouble(Some(error.to_string()));
                Err(IndexOutcome::Failed)
            }
            Err(_) => {
                self.set_trouble(Some(format!("the index did not answer within {} ms", within.as_millis())));
                Err(IndexOutcome::Late)
            }
        };
        self.metrics.index_searches.inc(answer.as_ref().map_or_else(|outcome| *outcome, |_| IndexOutcome::Ok));
        self.patience().learn(answer.is_ok(), None, self.clock.now());
        answer
    }
}

/// A question as the index understands it.
struct Asking<'a> {
    query: &'a Query,
    vector: Option<Vec<f32>>,
    terms: Vec<WeightedTerm>,
}

impl<'a> Asking<'a> {
    fn of(&'a self, scope: &'a Scope) -> IndexQuery<'a> {
        IndexQuery {
            scope,
            vector: self.vector.as_deref(),
            terms: &self.terms,
            max_sensitivity: self.query.max_sensitivity,
            role: None,
            from: None,
            to: None,
            limit: ASKED_FOR,
        }
    }
}

impl Recall {
    /// The same, with an index outside of the process: it holds no vectors of its own then.
    #[must_use]
    pub fn through(mut self, outer: Option<Arc<Outer>>) -> Self {
        self.vectors.are_elsewhere = outer.is_some();
        self.outer = outer;
        self
    }

    /// Why the index did not answer the last question; `None` when it did, and where there is none.
    #[must_use]
    pub fn index_trouble(&self) -> Option<String> {
        self.outer.as_ref()?.trouble()
    }

    /// Asks the index what bears on a question; `None` where there is none, or nothing to ask.
    pub(super) async fn ask_index(&self, query: &Query, begun: Instant) -> Option<Answer> {
        let outer = self.outer.as_ref()?;
        let generation = outer.serves()?;
        let space = self.space();
        let vector = space.as_ref().zip(query.vector.as_deref()).and_then(|(space, v)| Near::placed(space, v));
        let terms = sparse::asked_for(&Asked::new(query));
        if vector.is_none() && terms.is_empty() {
            return None;
        }
        Some(outer.ask(&generation, &Asking { query, vector, terms }, outer.within(begun)).await)
    }

    /// Looks up in the records what the index found and memory does not hold.
    pub(super) async fn look_outside(
        &self,
        entries: &[Arc<Entry>],
        query: &Query,
        answer: Option<Answer>,
        begun: Instant,
    ) -> Outside {
        let (Some(outer), Some(answer)) = (&self.outer, answer) else { return Outside::default() };
        let Ok(hits) = answer else { return Outside { degraded: Some(CHANNEL), ..Outside::default() } };
        let looks =
            query.scopes.iter().zip(entries).zip(hits).map(|((scope, entry), hits)| self.beyond(scope, entry, hits));
        match tokio::time::timeout(outer.within(begun), try_join_all(looks)).await {
            Ok(Ok(scopes)) => {
                let older = scopes.iter().map(|beyond| beyond.older.len() as u64).sum();
                outer.metrics.index_older.inc_by(older);
                Outside { scopes, degraded: None }
            }
            Ok(Err(error)) => {
                tracing::warn!(%error, "what an index found cannot be read; what is in memory is shown");
                Outside { degraded: Some(CHANNEL), ..Outside::default() }
            }
            Err(_) => Outside { degraded: Some(CHANNEL), ..Outside::default() },
        }
    }

    async fn beyond(&self, scope: &Scope, entry: &Entry, hits: IndexHits) -> Result<Beyond, StoreError> {
        let missing = {
            let scoped = read(entry);
            let mut seen = HashSet::new();
            // The nearest and the best by words in turn, so that neither crowds out the other.
            let both = interleaved(&hits.near, &hits.words);
            let unknown = both.filter(|id| scoped.index.number(*id).is_none() && seen.insert(*id));
            unknown.take(LOOKED_UP).collect::<Vec<EpisodeId>>()
        };
        let is_cut = hits.near.len() >= ASKED_FOR as usize;
        let nearest = Nearest { cosines: hits.near.into_iter().collect::<HashMap<_, _>>(), is_cut };
        let mut older = Index::default();
        if !missing.is_empty() {
            let found = self.source.episodes_of(scope, &missing).await?;
            found.into_iter().for_each(|episode| older.insert(Arc::new(episode)));
        }
        Ok(Beyond { nearest, older })
    }

    /// Of these episodes, those that may not be shown any more by what memory and the records hold.
    pub(super) async fn gone_from_records(
        &self,
        scope: &Scope,
        entry: &Entry,
        episodes: Vec<EpisodeId>,
    ) -> Result<Vec<EpisodeId>, StoreError> {
        // What is in memory was looked at there.
        let (mut gone, unknown): (Vec<_>, Vec<_>) = {
            let scoped = read(entry);
            episodes.into_iter().partition(|id| scoped.index.number(*id).is_some())
        };
        if unknown.is_empty() {
            return Ok(gone);
        }
        let found = self.source.episodes_of(scope, &unknown).await?;
        let holds = |id: EpisodeId| {
            found.iter().any(|e| e.id == id && e.status == EpisodeStatus::Active && e.retired_facts.is_empty())
        };
        gone.extend(unknown.into_iter().filter(|id| !holds(*id)));
        Ok(gone)
    }
}

fn interleaved<'a>(
    near: &'a [(EpisodeId, f32)],
    words: &'a [(EpisodeId, f32)],
) -> impl Iterator<Item = EpisodeId> + 'a {
    let n = near.len().max(words.len());
    (0..n).flat_map(|at| [near.get(at), words.get(at)]).flatten().map(|(id, _)| *id)
}

#[cfg(test)]
mod tests;
