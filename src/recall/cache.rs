//! Holds hot scopes in memory: loaded once (`reading`), changed in place, dropped by bytes.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
use std::time::Instant;

use moka::sync::Cache;
use tokio_util::task::TaskTracker;

use super::dense::{self, Near};
use super::echo::Runs;
use super::facts;
use super::index::Index;
use super::outer::{Outer, Outside};
use super::pack::pack;
use super::query::{Query, RecallConfig};
use super::rank::{Asked, Found, Purpose, rank};
use super::rerank::Reranker;
use super::scoped::{Scoped, study};
use super::source::{ScopeData, Source};
use super::vectors::Vectors;
use crate::base::{EpisodeId, FactId, Time};
use crate::memory::{Fact, RecalledEpisode, Recollection, Scope};
use crate::store::{Learned, Store, StoreError};

mod reading;

use reading::Loading;

/// Candidates looked at for the pack, for each episode shown: near-duplicates and excluded ones fall out.
const CANDIDATES: usize = 4;

pub(super) type Entry = RwLock<Scoped>;

/// The memory of all scopes, as far as it is hot.
pub struct Recall {
    pub(super) source: Arc<dyn Source>,
    config: RwLock<Arc<RecallConfig>>,
    reranker: Option<Reranker>,
    pub(super) outer: Option<Arc<Outer>>,
    pub(super) hot: Cache<Scope, Arc<Entry>>,
    /// Scopes that are being read. Taken before `hot` is written, so that no write is lost between the two.
    pub(super) loading: Mutex<HashMap<Scope, Arc<Loading>>>,
    pub(super) vectors: Vectors,
}

/// What a search lists.
#[derive(Clone, Debug, Default)]
pub struct Listed {
    /// Strongest first.
    pub episodes: Vec<RecalledEpisode>,
    /// A channel that did not answer in time.
    pub degraded: Option<&'static str>,
}

impl Recall {
    /// Recalls from a store.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, config: RecallConfig) -> Self {
        Self::from_source(Arc::new(store), config)
    }

    /// Recalls from anything that can read a scope.
    #[must_use]
    pub fn from_source(source: Arc<dyn Source>, config: RecallConfig) -> Self {
        let hot = Cache::builder()
            .weigher(|_, entry: &Arc<Entry>| u32::try_from(read(entry).bytes()).unwrap_or(u32::MAX))
            .max_capacity(config.cache_bytes)
            .build();
        let config = RwLock::new(Arc::new(config));
        Self {
            source,
            config,
            reranker: None,
            outer: None,
            hot,
            loading: Mutex::default(),
            vectors: Vectors::default(),
        }
    }

    /// The same, with an endpoint that orders what is found.
    #[must_use]
    pub fn reranked_by(self, reranker: Option<Reranker>) -> Self {
        Self { reranker, ..self }
    }

    /// Bytes that are held, by their own count.
    #[must_use]
    pub fn held_bytes(&self) -> u64 {
        self.hot.weighted_size()
    }

    /// How many episodes are shown at most.
    #[must_use]
    pub fn max_episodes(&self) -> usize {
        self.config().max_episodes
    }

    /// Finds by other numbers from now on. The bound of what is held stays as it was, and so does how much of a scope is held.
    pub fn set_config(&self, config: RecallConfig) {
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(config);
    }

    fn config(&self) -> Arc<RecallConfig> {
        Arc::clone(&self.config.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Recalls what bears on a question, reading scopes that are not in memory.
    ///
    /// # Errors
    /// When a scope cannot be read.
    pub async fn recall(&self, query: &Query) -> Result<Recollection, StoreError> {
        let begun = Instant::now();
        let (entries, answer) = tokio::join!(self.entries(&query.scopes), self.ask_index(query, begun));
        let entries = entries?;
        let outside = self.look_outside(&entries, query, answer, begun).await;
        Ok(self.recollect(&entries, &outside, query))
    }

    /// Recalls like [`Recall::recall`], but what has to be read is read on `tasks`: it goes on when this is dropped at a deadline, so that
    /// the next request finds the scopes in memory. `begun` is when the deadline began to run.
    ///
    /// # Errors
    /// When a scope cannot be read.
    pub async fn recall_behind(
        self: &Arc<Self>,
        query: &Query,
        begun: Instant,
        tasks: &TaskTracker,
    ) -> Result<Recollection, StoreError> {
        let (entries, answer) = tokio::join!(self.entries_behind(&query.scopes, tasks), self.ask_index(query, begun));
        let entries = entries?;
        let outside = self.look_outside(&entries, query, answer, begun).await;
        Ok(self.recollect_in_order(&entries, &outside, query, begun).await)
    }

    /// Recalls from memory alone, at once, without an index elsewhere; `None` when a scope has to be read first.
    #[must_use]
    pub fn recall_now(&self, query: &Query) -> Option<Recollection> {
        let entries: Option<Vec<_>> = query.scopes.iter().map(|scope| self.current(scope)).collect();
        Some(self.recollect(&entries?, &Outside::default(), query))
    }

    /// Every episode that clears the floor, with its raw scores, before anything is chosen for show.
    ///
    /// # Errors
    /// When a scope cannot be read.
    pub async fn search(&self, query: &Query) -> Result<Listed, StoreError> {
        let begun = Instant::now();
        let (entries, answer) = tokio::join!(self.entries(&query.scopes), self.ask_index(query, begun));
        let entries = entries?;
        let outside = self.look_outside(&entries, query, answer, begun).await;
        let mut found = self.rank(&entries, &outside, query);
        let reranked = match &self.reranker {
            // It is only an order: without it, it is ours.
            Some(reranker) => {
                reranker.order(&query.text, &mut found, reranker.for_memories(begun.elapsed()), text_of).await
            }
            None => None,
        };
        let degraded = outside.degraded.or(reranked);
        Ok(Listed { episodes: found.into_iter().map(|found| found.hit).collect(), degraded })
    }

    /// The same from memory alone, at once; `None` when a scope has to be read first.
    #[must_use]
    pub fn search_now(&self, query: &Query) -> Option<Vec<RecalledEpisode>> {
        let entries: Option<Vec<_>> = query.scopes.iter().map(|scope| self.current(scope)).collect();
        let found = self.rank(&entries?, &Outside::default(), query);
        Some(found.into_iter().map(|found| found.hit).collect())
    }

    fn rank(&self, entries: &[Arc<Entry>], outside: &Outside, query: &Query) -> Vec<Found> {
        let guards: Vec<_> = entries.iter().map(|entry| read(entry)).collect();
        let indexes: Vec<_> = guards.iter().map(|scoped| &scoped.index).collect();
        self.found(indexes, outside, &Asked::new(query), query, Purpose::List, query.max_episodes)
    }

    /// By words and vectors where the question has one, else by words; in memory and, where an index elsewhere was asked, what it found.
    fn found<'a>(
        &self,
        mut indexes: Vec<&'a Index>,
        outside: &'a Outside,
        asked: &Asked<'_>,
        query: &Query,
        purpose: Purpose,
        limit: usize,
    ) -> Vec<Found> {
        let (space, config) = (self.space(), self.config());
        let near = self.near(space.as_ref(), query);
        let Some(outer) = self.outer.as_ref().map(|_| outside) else {
            let ranked = near.and_then(|near| {
                let channels = indexes.iter().map(|index| near.channel(index)).collect();
                dense::ranked(&indexes, channels, asked, &near, &config, purpose, limit)
            });
            return ranked.unwrap_or_else(|| rank(&indexes, asked, &config, purpose, limit));
        };
        let mut channels = outer.channels(&indexes);
        for beyond in outer.scopes.iter().filter(|beyond| beyond.older.len() > 0) {
            channels.push(Near::channel_of(&beyond.older, &beyond.nearest));
            indexes.push(&beyond.older);
        }
        let ranked = near.and_then(|near| dense::ranked(&indexes, channels, asked, &near, &config, purpose, limit));
        let mut found = ranked.unwrap_or_else(|| rank(&indexes, asked, &config, purpose, limit));
        // What was read into memory since it was looked up is there twice.
        let mut seen = HashSet::new();
        found.retain(|found| seen.insert(found.hit.episode.id));
        found
    }

    /// Puts a scope into memory as it is given, without reading it from anywhere.
    pub fn fill(&self, scope: &Scope, data: ScopeData) {
        self.hot
            .insert(scope.clone(), Arc::new(RwLock::new(Scoped::build(data, self.config().max_episodes_per_scope))));
    }

    /// All facts of a scope, of any status and oldest first, with the revision they stand at.
    ///
    /// # Errors
    /// When the scope cannot be read.
    pub async fn facts(&self, scope: &Scope) -> Result<(i64, Vec<Arc<Fact>>), StoreError> {
        let entry = self.entry(scope).await?;
        let scoped = read(&entry);
        Ok((scoped.revision, scoped.facts()))
    }

    /// Whether all of these facts are current and all of these episodes are still there, in any of the scopes, so that what was made of
    /// them may be shown again.
    ///
    /// # Errors
    /// When a scope cannot be read.
    pub async fn still_hold(
        &self,
        scopes: &[Scope],
        facts: &[FactId],
        episodes: &[EpisodeId],
        now: Time,
    ) -> Result<bool, StoreError> {
        let (mut facts, mut episodes) = (facts.to_vec(), episodes.to_vec());
        for scope in scopes {
            if facts.is_empty() && episodes.is_empty() {
                break;
            }
            let entry = self.entry(scope).await?;
            {
                let scoped = read(&entry);
                facts.retain(|id| !scoped.is_current(*id, now));
                episodes.retain(|id| !scoped.index.holds(*id));
            }
            if self.outer.is_some() {
                episodes = self.gone_from_records(scope, &entry, episodes).await?;
            }
        }
        Ok(facts.is_empty() && episodes.is_empty())
    }

    /// The same from memory alone, at once; `None` when the scope has to be read first.
    #[must_use]
    pub fn facts_now(&self, scope: &Scope) -> Option<(i64, Vec<Arc<Fact>>)> {
        let entry = self.current(scope)?;
        let scoped = read(&entry);
        Some((scoped.revision, scoped.facts()))
    }

    /// Episodes of a scope in which a value occurs word for word; none when the scope is not in memory.
    #[must_use]
    pub fn mentioning(&self, scope: &Scope, value: &str) -> Vec<EpisodeId> {
        self.hot.get(scope).map(|entry| read(&entry).mentioning(value)).unwrap_or_default()
    }

    /// A scope in memory, unless it was said that it changed since.
    fn current(&self, scope: &Scope) -> Option<Arc<Entry>> {
        self.hot.get(scope).filter(|entry| !read(entry).is_outdated())
    }

    /// Takes in what was stored for a scope, in place. `learned` is what was really stored: for an exchange whose user side was seen
    /// before, without its facts and user episodes.
    pub fn learned(&self, scope: &Scope, revision: i64, learned: &Learned) {
        // Before anything is locked: it is most of the work.
        let studied = self.hot.contains_key(scope).then(|| study(learned.episodes.clone()));
        let loading = lock(&self.loading);
        if let Some(loading) = loading.get(scope) {
            loading.learned(revision, learned);
        }
        let Some(entry) = self.hot.get(scope) else { return };
        let studied = studied.unwrap_or_else(|| study(learned.episodes.clone()));
        let followed = {
            let mut scoped = write(&entry);
            scoped.follow(revision, learned, studied).then(|| scoped.has_grown())
        };
        if followed.is_some() {
            self.vectors.lack(scope, learned.episodes.iter().map(|episode| episode.id));
        }
        match followed {
            // Put again so that its new size is counted.
            Some(true) => self.hot.insert(scope.clone(), entry),
            Some(false) => {}
            None => write(&entry).tell(),
        }
    }

    /// Says that a scope was changed by other means: it is brought up to date before it is used again.
    pub fn changed(&self, scope: &Scope) {
        let loading = lock(&self.loading);
        if let Some(loading) = loading.get(scope) {
            loading.overtake();
        }
        if let Some(entry) = self.hot.get(scope) {
            write(&entry).tell();
        }
    }

    /// Drops a scope: it was erased.
    pub fn invalidate(&self, scope: &Scope) {
        let loading = lock(&self.loading);
        if let Some(loading) = loading.get(scope) {
            loading.overtake();
        }
        self.hot.invalidate(scope);
    }

    /// Drops all scopes: any may have been changed by another process.
    pub fn invalidate_all(&self) {
        lock(&self.loading).values().for_each(|loading| loading.overtake());
        self.hot.invalidate_all();
    }

    fn recollect(&self, entries: &[Arc<Entry>], outside: &Outside, query: &Query) -> Recollection {
        let (found, rest) = self.look_up(entries, outside, query);
        self.show(found, rest, query)
    }

    /// The same, in the order of an endpoint where one is configured, and where it says it in time.
    async fn recollect_in_order(
        &self,
        entries: &[Arc<Entry>],
        outside: &Outside,
        query: &Query,
        begun: Instant,
    ) -> Recollection {
        let (mut found, mut rest) = self.look_up(entries, outside, query);
        if let Some(reranker) = &self.reranker {
            found.retain(|found| !is_said(found, query));
            let late = reranker.order(&query.text, &mut found, reranker.for_memories(begun.elapsed()), text_of).await;
            rest.degraded = rest.degraded.or(late);
        }
        self.show(found, rest, query)
    }

    /// Chooses what is shown of the episodes that were found. What the request says may be long: nobody who writes waits for it to be read.
    fn show(&self, found: Vec<Found>, rest: Recollection, query: &Query) -> Recollection {
        let max = query.max_episodes.min(self.max_episodes());
        let episodes = pack(found, max, |found| is_said(found, query));
        Recollection { episodes, ..rest }
    }

    /// The episodes that may be shown, strongest first, and everything else.
    fn look_up(&self, entries: &[Arc<Entry>], outside: &Outside, query: &Query) -> (Vec<Found>, Recollection) {
        let asked = Asked::new(query);
        let guards: Vec<_> = entries.iter().map(|entry| read(entry)).collect();
        let indexes: Vec<_> = guards.iter().map(|scoped| &scoped.index).collect();
        let config = self.config();
        let max = query.max_episodes.min(config.max_episodes);
        let found = self.found(indexes, outside, &asked, query, Purpose::Show, max * CANDIDATES);
        let (profile, facts) = facts::facts(&guards, &asked, query, &config);
        let revision = guards.first().map_or(0, |scoped| scoped.revision);
        let degraded = outside.degraded;
        (found, Recollection { profile, facts, revision, degraded, ..Recollection::default() })
    }
}

/// Whether the request says an episode itself.
fn is_said(found: &Found, query: &Query) -> bool {
    query.said.has(|| Runs::of(&found.hit.episode.text))
}

fn text_of(found: &Found) -> String {
    found.hit.episode.text.clone()
}

// A panic while one of these is held leaves derived data at worst incomplete, never unsound; the scope stays usable.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn read(entry: &Entry) -> RwLockReadGuard<'_, Scoped> {
    entry.read().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn write(entry: &Entry) -> std::sync::RwLockWriteGuard<'_, Scoped> {
    entry.write().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for Recall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recall")
            .field("config", &self.config())
            .field("hot", &self.hot.entry_count())
            .finish_non_exhaustive()
    }
}
