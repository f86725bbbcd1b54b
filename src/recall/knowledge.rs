//! Passages of documents, found as episodes are: a passage is a turn, its document is the session. It has no neighbours: of the passage
//! before it, it repeats what it needs, and one that only stands beside the answer is none.
//!
//! The documents of a namespace are read once and held as an index, bounded by bytes. A change by this process is seen by the next request,
//! one by another process within [`TRUST`] (where there were none at all, by the request after that). Like the rest of recall it writes nothing.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Instant;

use moka::sync::Cache;
use tokio::sync::Mutex;
use tokio_util::task::TaskTracker;

use super::cache::lock;
use super::echo::Runs;
use super::index::Index;
use super::pack::pack;
use super::query::{Query, RecallConfig, Weights};
use super::rank::{Asked, Found, Purpose, rank};
use super::rerank::Reranker;
use crate::base::{Clock, EpisodeId, Time};
use crate::memory::knowledge::{Document, DocumentId, Passage, PassageRef};
use crate::memory::{Episode, EpisodeKind, Namespace, RecalledEpisode, RecalledPassage, Speaker};
use crate::store::{Shelf, Store, StoreError};

/// For so long, in milliseconds, it is taken for granted that no other process changed a namespace's documents.
const TRUST: i64 = 2_000;
/// Share of the bound of all that recall holds in memory.
const CACHE_SHARE: u64 = 4;
/// Namespaces with more passages than this are indexed off the async threads.
const BUILD_INLINE: usize = 200;
/// Between the places of two passages, so that they are no neighbours.
const APART: i64 = 1_000;
/// What the document counts beside the passage: the best passage of another one must stay ahead of a weak one of this.
const DOCUMENT_SHARE: f64 = 0.3;
/// So many namespaces are read at a time.
const READERS: usize = 8;
/// Candidates looked at for each passage shown: near-duplicates fall out.
const CANDIDATES: usize = 4;

/// The documents of all namespaces, as far as they are hot.
pub struct Knowledge {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    config: RwLock<Arc<RecallConfig>>,
    reranker: Option<Reranker>,
    hot: Cache<Namespace, Arc<Shelved>>,
    /// One reads a namespace, the others wait for it.
    readers: [Mutex<()>; READERS],
    /// Namespaces that are being read on a task of their own.
    behind: std::sync::Mutex<HashSet<Namespace>>,
    /// Grows with every change that this process makes: what was read meanwhile may be older.
    changes: AtomicU64,
}

/// Takes a namespace off the list of those that are being read, however the reading ends.
struct Done(Arc<Knowledge>, Namespace);

impl Drop for Done {
    fn drop(&mut self) {
        lock(&self.0.behind).remove(&self.1);
    }
}

/// What was found for a question.
#[derive(Clone, Debug, Default)]
pub struct Passages {
    /// To be shown, strongest first.
    pub shown: Vec<RecalledPassage>,
    /// A channel that did not answer in time.
    pub degraded: Option<&'static str>,
}

/// The documents of one namespace in memory.
#[derive(Debug, Default)]
struct Shelved {
    revision: i64,
    /// When it was last known to be what the store has.
    checked: AtomicI64,
    /// Tells this shelf's passages from those of another one.
    mark: u64,
    index: Index,
    /// By the number in the id that each has in the index.
    passages: Vec<(Arc<Document>, Arc<Passage>)>,
    versions: HashMap<DocumentId, i64>,
    bytes: usize,
}

/// How documents are searched: they have sessions, and no neighbours of the kind that turns have.
fn of_documents(config: RecallConfig) -> Arc<RecallConfig> {
    let weights = Weights {
        neighbours: 0.0,
        neighbours_long: 0.0,
        session: DOCUMENT_SHARE,
        session_long: DOCUMENT_SHARE,
        ..config.weights
    };
    Arc::new(RecallConfig { weights, ..config })
}

impl Knowledge {
    /// Recalls from a store.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, config: RecallConfig, clock: Arc<dyn Clock>) -> Self {
        let hot = Cache::builder()
            .weigher(|_, shelved: &Arc<Shelved>| u32::try_from(shelved.bytes).unwrap_or(u32::MAX))
            .max_capacity(config.cache_bytes / CACHE_SHARE)
            .build();
        Self {
            store,
            clock,
            config: RwLock::new(of_documents(config)),
            reranker: None,
            hot,
            readers: Default::default(),
            behind: Default::default(),
            changes: AtomicU64::new(0),
        }
    }

    /// Bytes that are held, by their own count.
    #[must_use]
    pub fn held_bytes(&self) -> u64 {
        self.hot.weighted_size()
    }

    /// Finds by other numbers from now on; the bound of what is held stays as it was.
    pub fn set_config(&self, config: RecallConfig) {
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = of_documents(config);
    }

    fn config(&self) -> Arc<RecallConfig> {
        Arc::clone(&self.config.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The same, with an endpoint that orders what is found.
    #[must_use]
    pub fn reranked_by(self, reranker: Option<Reranker>) -> Self {
        Self { reranker, ..self }
    }

    /// The passages to show for a question, strongest first: few, above the floor, no two alike, and none that the request holds itself.
    ///
    /// # Errors
    /// When the documents cannot be read.
    pub async fn find(&self, namespaces: &[Namespace], query: &Query) -> Result<Passages, StoreError> {
        if self.config().max_passages == 0 {
            return Ok(Passages::default());
        }
        let begun = Instant::now();
        let shelves = self.shelves(namespaces).await?;
        Ok(self.find_on(&shelves, query, begun).await)
    }

    async fn find_on(&self, shelves: &[Arc<Shelved>], query: &Query, begun: Instant) -> Passages {
        let max = self.config().max_passages;
        let mut found = self.ranked(shelves, query, Purpose::Show, max * CANDIDATES);
        let is_said = |found: &Found| query.said.has(|| Runs::of(passage_text(shelves, found)));
        let degraded = match &self.reranker {
            None => None,
            Some(reranker) => {
                found.retain(|found| !is_said(found));
                let text = |found: &Found| found.hit.episode.text.clone();
                reranker.order(&query.text, &mut found, reranker.for_passages(begun.elapsed()), text).await
            }
        };
        let shown = pack(found, max, is_said);
        Passages { shown: shown.iter().filter_map(|hit| recalled(shelves, hit)).collect(), degraded }
    }

    /// The same, but what has to be read is read on `tasks`, once for all that want it: it goes on when this is dropped at a deadline. A
    /// namespace that had no documents is taken to have none yet, and looked at behind.
    ///
    /// # Errors
    /// When the documents cannot be read.
    pub async fn find_behind(
        self: &Arc<Self>,
        namespaces: &[Namespace],
        query: &Query,
        tasks: &TaskTracker,
    ) -> Result<Passages, StoreError> {
        if self.config().max_passages == 0 {
            return Ok(Passages::default());
        }
        let (begun, now) = (Instant::now(), self.clock.now());
        let mut shelves = Vec::with_capacity(namespaces.len());
        for namespace in namespaces {
            let known = self.hot.get(namespace);
            if !known.as_ref().is_some_and(|shelved| shelved.is_trusted(now)) {
                self.read_behind(namespace, tasks);
            }
            match known.filter(|shelved| shelved.is_trusted(now) || shelved.passages.is_empty()) {
                Some(shelved) => shelves.push(shelved),
                None => shelves.push(self.shelf(namespace).await?),
            }
        }
        Ok(self.find_on(&shelves, query, begun).await)
    }

    /// Reads a namespace on `tasks`, unless that is being done.
    fn read_behind(self: &Arc<Self>, namespace: &Namespace, tasks: &TaskTracker) {
        if !lock(&self.behind).insert(namespace.clone()) {
            return;
        }
        let done = Done(Arc::clone(self), namespace.clone());
        // Whoever asks reads again, and is told then what is wrong.
        tasks.spawn(async move { drop(done.0.shelf(&done.1).await) });
    }

    /// Every passage that clears the floor, with its raw scores, before anything is chosen for show; at most `limit`.
    ///
    /// # Errors
    /// When the documents cannot be read.
    pub async fn search(
        &self,
        namespaces: &[Namespace],
        query: &Query,
        limit: usize,
    ) -> Result<Vec<RecalledPassage>, StoreError> {
        let shelves = self.shelves(namespaces).await?;
        let found = self.ranked(&shelves, query, Purpose::List, limit);
        Ok(found.iter().filter_map(|found| recalled(&shelves, &found.hit)).collect())
    }

    /// Whether all of these passages are still there as they were.
    ///
    /// # Errors
    /// When the documents cannot be read.
    pub async fn still_hold(&self, namespaces: &[Namespace], shown: &[PassageRef]) -> Result<bool, StoreError> {
        if shown.is_empty() {
            return Ok(true);
        }
        let shelves = self.shelves(namespaces).await?;
        let holds =
            |shown: &PassageRef| shelves.iter().any(|s| s.versions.get(&shown.document) == Some(&shown.version));
        Ok(shown.iter().all(holds))
    }

    /// Drops the documents of a namespace: they were changed.
    pub fn invalidate(&self, namespace: &Namespace) {
        self.changes.fetch_add(1, Ordering::SeqCst);
        self.hot.invalidate(namespace);
    }

    /// Drops the documents of all namespaces: any may have been changed by another process.
    pub fn invalidate_all(&self) {
        self.changes.fetch_add(1, Ordering::SeqCst);
        self.hot.invalidate_all();
    }

    fn ranked(&self, shelves: &[Arc<Shelved>], query: &Query, purpose: Purpose, limit: usize) -> Vec<Found> {
        let indexes: Vec<&Index> = shelves.iter().map(|shelved| &shelved.index).filter(|i| i.len() > 0).collect();
        if indexes.is_empty() {
            return Vec::new();
        }
        rank(&indexes, &Asked::new(query).of_documents(), &self.config(), purpose, limit)
    }

    async fn shelves(&self, namespaces: &[Namespace]) -> Result<Vec<Arc<Shelved>>, StoreError> {
        let mut shelves = Vec::with_capacity(namespaces.len());
        for namespace in namespaces {
            shelves.push(self.shelf(namespace).await?);
        }
        Ok(shelves)
    }

    /// The documents of a namespace, from memory where that is known to be right.
    async fn shelf(&self, namespace: &Namespace) -> Result<Arc<Shelved>, StoreError> {
        let known = |now| self.hot.get(namespace).filter(|shelved| shelved.is_trusted(now));
        if let Some(shelved) = known(self.clock.now()) {
            return Ok(shelved);
        }
        let slot = namespace.name.bytes().fold(0_u8, u8::wrapping_add);
        let _reading = self.readers[usize::from(slot) % READERS].lock().await;
        let (now, changes) = (self.clock.now(), self.changes.load(Ordering::SeqCst));
        if let Some(shelved) = known(now) {
            return Ok(shelved);
        }
        if let Some(shelved) = self.hot.get(namespace)
            && self.store.shelf_revision(namespace).await? == shelved.revision
        {
            shelved.checked.store(now.0, Ordering::Relaxed);
            return Ok(shelved);
        }
        let shelved = Arc::new(build(namespace, self.store.shelf(namespace).await?).await?);
        if self.changes.load(Ordering::SeqCst) == changes {
            shelved.checked.store(now.0, Ordering::Relaxed);
        }
        self.hot.insert(namespace.clone(), Arc::clone(&shelved));
        Ok(shelved)
    }
}

impl Shelved {
    fn is_trusted(&self, now: Time) -> bool {
        (0..TRUST).contains(&now.since(Time(self.checked.load(Ordering::Relaxed))))
    }

    fn of(namespace: &Namespace, shelf: Shelf) -> Self {
        let hash = blake3::hash(format!("{}\0{}", namespace.tenant, namespace.name).as_bytes());
        let mark = hash.as_bytes().first_chunk().map_or(0, |head| u64::from_be_bytes(*head));
        let mut shelved = Self { revision: shelf.revision, mark, bytes: 1_000, ..Self::default() };
        for (document, passages) in shelf.documents {
            let document = Arc::new(document);
            shelved.versions.insert(document.id.clone(), document.version);
            for passage in passages {
                let id = EpisodeId(u128::from(mark) << 64 | shelved.passages.len() as u128);
                shelved.bytes += passage.text.len() + 200;
                shelved.index.insert(Arc::new(as_episode(id, &document, &passage)));
                shelved.passages.push((Arc::clone(&document), Arc::new(passage)));
            }
        }
        shelved.bytes += shelved.index.bytes();
        shelved
    }

    fn passage(&self, id: EpisodeId) -> Option<&(Arc<Document>, Arc<Passage>)> {
        let (mark, number) = ((id.0 >> 64) as u64, id.0 as u64);
        self.passages.get(usize::try_from(number).ok()?).filter(|_| mark == self.mark)
    }
}

async fn build(namespace: &Namespace, shelf: Shelf) -> Result<Shelved, StoreError> {
    let passages: usize = shelf.documents.iter().map(|(_, passages)| passages.len()).sum();
    if passages <= BUILD_INLINE {
        return Ok(Shelved::of(namespace, shelf));
    }
    let namespace = namespace.clone();
    tokio::task::spawn_blocking(move || Shelved::of(&namespace, shelf))
        .await
        .map_err(|error| StoreError::Driver { doing: "index documents", source: Box::new(error) })
}

/// What the index is given. Title and headings belong to what a passage says; when a document was written says nothing of what it is about.
fn as_episode(id: EpisodeId, document: &Document, passage: &Passage) -> Episode {
    let mut text = document.title.clone();
    for part in passage.headings.iter().map(String::as_str).chain([passage.text.as_str()]) {
        text.push('\n');
        text.push_str(part);
    }
    Episode {
        kind: EpisodeKind::Event,
        session: document.id.to_string(),
        position: i64::from(passage.number) * APART,
        recorded_at: document.updated_at,
        ..Episode::said(id, text, Speaker::Other, Time(0))
    }
}

fn passage_text<'a>(shelves: &'a [Arc<Shelved>], found: &Found) -> &'a str {
    let known = shelves.iter().find_map(|shelved| shelved.passage(found.hit.episode.id));
    known.map_or("", |(_, passage)| passage.text.as_str())
}

fn recalled(shelves: &[Arc<Shelved>], hit: &RecalledEpisode) -> Option<RecalledPassage> {
    let (document, passage) = shelves.iter().find_map(|shelved| shelved.passage(hit.episode.id))?;
    Some(RecalledPassage { document: Arc::clone(document), passage: Arc::clone(passage), scores: hit.scores })
}

impl fmt::Debug for Knowledge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Knowledge").field("hot", &self.hot.entry_count()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
