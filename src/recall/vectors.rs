//! The vectors of hot scopes: which space they are in, how they come in, and which are still to come.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};

use super::cache::{Entry, Recall, lock, read, write};
use super::dense::{Near, Space};
use super::query::Query;
use super::scoped::Scoped;
use crate::base::EpisodeId;
use crate::embed::Packed;
use crate::memory::Scope;

/// So many episodes without a vector are remembered; beyond, those that have been for longest are forgotten until their scope is read again.
const MAX_LACKING: usize = 20_000;
/// Vectors that are put into a scope in memory at once: some tenths of a millisecond.
const PIECE: usize = 256;

/// What is known of vectors, for all scopes.
#[derive(Debug, Default)]
pub(super) struct Vectors {
    /// The space in use; none while words alone find.
    space: RwLock<Option<Arc<Space>>>,
    /// Episodes in memory that have no vector there.
    lacking: Mutex<VecDeque<(Scope, EpisodeId)>>,
    /// Stored vectors that could not be read.
    damaged: AtomicU64,
    /// Whether an index outside of the process holds them: then none is held here, and none is lacking.
    pub(super) are_elsewhere: bool,
}

/// What came of putting the vectors of a scope into its index.
#[derive(Debug, Default)]
pub(super) struct Placed {
    /// Episodes that have none, or one that could not be read.
    pub(super) lacking: Vec<EpisodeId>,
    /// How many could not be read.
    pub(super) damaged: u64,
}

impl Vectors {
    pub(super) fn space(&self) -> Option<Arc<Space>> {
        self.space.read().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }

    /// Remembers that these have no vector yet.
    pub(super) fn lack(&self, scope: &Scope, ids: impl IntoIterator<Item = EpisodeId>) {
        if self.are_elsewhere || self.space().is_none() {
            return;
        }
        let mut lacking = lock(&self.lacking);
        lacking.extend(ids.into_iter().map(|id| (scope.clone(), id)));
        let surplus = lacking.len().saturating_sub(MAX_LACKING);
        lacking.drain(..surplus);
    }

    pub(super) fn note(&self, scope: &Scope, placed: Placed) {
        self.damaged.fetch_add(placed.damaged, Ordering::Relaxed);
        self.lack(scope, placed.lacking);
    }
}

impl Scoped {
    /// Puts stored vectors to their episodes. One that was damaged, or is of another generation or text, is passed over.
    pub(super) fn place(&mut self, space: &Space, rows: &[(EpisodeId, Vec<u8>)]) -> Placed {
        let damaged = self.put(space, rows);
        Placed { lacking: self.lacking(space), damaged }
    }

    /// Returns how many of them were passed over.
    fn put(&mut self, space: &Space, rows: &[(EpisodeId, Vec<u8>)]) -> u64 {
        let mut damaged = 0;
        for (id, body) in rows {
            let Some(number) = self.index.number(*id) else { continue };
            let text = self.index.doc(number).map(|doc| doc.episode.text.as_str()).unwrap_or_default();
            let packed = Packed::open(body, space.generation(), text);
            damaged += u64::from(!packed.is_some_and(|packed| self.index.put_vector(number, space, &packed)));
        }
        damaged
    }

    fn lacking(&self, space: &Space) -> Vec<EpisodeId> {
        let has = |id| self.index.number(id).is_some_and(|number| self.index.dense.has(number, space));
        self.index.episodes().map(|episode| episode.id).filter(|&id| !has(id)).collect()
    }
}

/// The same for a scope in memory, a piece at a time: whoever recalls meanwhile waits for one of them, and blocks its thread for as long.
fn place_in_pieces(entry: &Entry, space: &Space, rows: &[(EpisodeId, Vec<u8>)]) -> Placed {
    let damaged = rows.chunks(PIECE).map(|rows| write(entry).put(space, rows)).sum();
    Placed { lacking: read(entry).lacking(space), damaged }
}

impl Recall {
    /// Uses the vectors of this space from now on, or none. Scopes that are in memory get theirs by [`Recall::warm`].
    pub fn set_space(&self, space: Option<Arc<Space>>) {
        let loading = lock(&self.loading);
        *self.vectors.space.write().unwrap_or_else(std::sync::PoisonError::into_inner) = space;
        lock(&self.vectors.lacking).clear();
        for loading in loading.values() {
            loading.overtake();
        }
    }

    /// The space in use.
    #[must_use]
    pub fn space(&self) -> Option<Arc<Space>> {
        self.vectors.space()
    }

    /// How many stored vectors could not be read so far. They are made again.
    #[must_use]
    pub fn damaged_vectors(&self) -> u64 {
        self.vectors.damaged.load(Ordering::Relaxed)
    }

    /// Gives the scopes in memory the vectors that are stored for them, one after the other.
    pub async fn warm(&self) {
        let scopes: Vec<Scope> = self.hot.iter().map(|(scope, _)| scope.as_ref().clone()).collect();
        for scope in scopes {
            let Some((space, rows)) = self.stored_vectors(&scope).await else { return };
            let Some(entry) = self.hot.get(&scope) else { continue };
            let filled = tokio::task::spawn_blocking(move || {
                let placed = place_in_pieces(&entry, &space, &rows);
                (entry, placed)
            });
            let Ok((entry, placed)) = filled.await else { return };
            self.vectors.note(&scope, placed);
            self.say_size(scope, entry);
        }
    }

    /// Takes in vectors that were just made for episodes of a scope. Those of another generation than the one in use are passed over.
    pub fn embedded(&self, scope: &Scope, generation: &str, vectors: &[(EpisodeId, Packed)]) {
        let Some(space) = self.space().filter(|space| &**space.generation() == generation) else { return };
        let Some(entry) = self.hot.get(scope) else { return };
        let grown = {
            let mut scoped = write(&entry);
            for (id, packed) in vectors {
                if let Some(number) = scoped.index.number(*id) {
                    scoped.index.put_vector(number, &space, packed);
                }
            }
            scoped.has_grown()
        };
        if grown {
            self.say_size(scope.clone(), entry);
        }
    }

    /// Has the size of a scope counted anew, by putting it again where it is. Not where it was dropped meanwhile: it may have been erased.
    pub(super) fn say_size(&self, scope: Scope, entry: Arc<Entry>) {
        let _loading = lock(&self.loading);
        if self.hot.get(&scope).is_some_and(|hot| Arc::ptr_eq(&hot, &entry)) {
            self.hot.insert(scope, entry);
        }
    }

    /// Takes the episodes in memory that have no vector there, at most `max`, by scope. Whoever takes them sees to it that they get one.
    #[must_use]
    pub fn take_lacking(&self, max: usize) -> HashMap<Scope, Vec<EpisodeId>> {
        let taken: Vec<(Scope, EpisodeId)> = {
            let mut lacking = lock(&self.vectors.lacking);
            let n = lacking.len().min(max);
            lacking.drain(..n).collect()
        };
        let Some(space) = self.space() else { return HashMap::new() };
        let mut by_scope: HashMap<Scope, Vec<EpisodeId>> = HashMap::new();
        for (scope, id) in taken {
            by_scope.entry(scope).or_default().push(id);
        }
        by_scope.retain(|scope, ids| {
            let Some(entry) = self.hot.get(scope) else { return false };
            let scoped = read(&entry);
            ids.retain(|&id| scoped.index.number(id).is_some_and(|number| !scoped.index.dense.has(number, &space)));
            !ids.is_empty()
        });
        by_scope
    }

    /// Gives back what [`Recall::take_lacking`] took: it has no vector yet.
    pub fn still_lacking(&self, scope: &Scope, ids: &[EpisodeId]) {
        self.vectors.lack(scope, ids.iter().copied());
    }

    /// The vectors stored for a scope in the space in use; `None` while there is no such space. Vectors that cannot be read are no reason not to
    /// recall by words.
    pub(super) async fn stored_vectors(&self, scope: &Scope) -> Option<(Arc<Space>, Vec<(EpisodeId, Vec<u8>)>)> {
        let space = self.space().filter(|_| !self.vectors.are_elsewhere)?;
        let rows = self.source.load_vectors(scope, space.generation()).await.unwrap_or_else(|error| {
            tracing::warn!(%error, "the vectors of a scope cannot be read; words find without them");
            Vec::new()
        });
        Some((space, rows))
    }

    /// What is embedded of a question: all but the names of those who speak in its scopes, as far as these are in memory. Vectors are of what
    /// was said, and who said it is found by other means.
    #[must_use]
    pub fn to_embed<'a>(&self, query: &'a Query) -> Cow<'a, str> {
        let mut text = Cow::Borrowed(query.text.as_str());
        for entry in query.scopes.iter().filter_map(|scope| self.hot.get(scope)) {
            if let Cow::Owned(left) = read(&entry).index.speakers.leave_out(&text) {
                text = left.into();
            }
        }
        text
    }

    /// A question's vector in the space in use, where it has one.
    pub(super) fn near<'a>(&self, space: Option<&'a Arc<Space>>, query: &Query) -> Option<Near<'a>> {
        Near::of(space?, query.vector.as_deref()?)
    }
}
