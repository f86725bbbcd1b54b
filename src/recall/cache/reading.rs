//! Reads scopes into memory: one reading for all that wait, brought up to date with what was learned meanwhile.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, RwLock};

use tokio::sync::OnceCell;
use tokio_util::task::TaskTracker;

use super::{Entry, Recall, lock, read, write};
use crate::base::EpisodeId;
use crate::memory::Scope;
use crate::recall::dense;
use crate::recall::scoped::{Scoped, study};
use crate::recall::source::ScopeData;
use crate::recall::vectors::Placed;
use crate::store::{Learned, StoreError};

/// Scopes with more episodes than this are indexed off the async threads.
const BUILD_INLINE: usize = 500;
/// What is learned while a scope is being read waits for it; beyond so many the scope is read again instead.
const MAX_LATE: usize = 256;
/// With so many changes since it was read, a scope is read again.
const MAX_CHANGES: u32 = 500;
/// How often a scope that keeps changing is read again before the last reading is used once, uncached.
const MAX_READS: usize = 3;
/// One scope on its way into memory. All that ask for it wait for the same reading.
#[derive(Default)]
pub(in crate::recall) struct Loading {
    entry: OnceCell<Arc<Entry>>,
    late: Mutex<Late>,
}

/// What happened to a scope while it was being read.
#[derive(Default)]
struct Late {
    learned: Vec<(i64, Learned)>,
    /// What was read cannot be brought up to date: read again.
    overtaken: bool,
}

impl Loading {
    /// Says that what is being read is outdated.
    pub(in crate::recall) fn overtake(&self) {
        lock(&self.late).overtaken = true;
    }

    /// Keeps what was learned meanwhile for the scope that is on its way.
    pub(super) fn learned(&self, revision: i64, learned: &Learned) {
        let mut late = lock(&self.late);
        if late.learned.len() < MAX_LATE {
            late.learned.push((revision, learned.clone()));
        } else {
            late.overtaken = true;
        }
    }
}

impl Recall {
    pub(super) async fn entries(&self, scopes: &[Scope]) -> Result<Vec<Arc<Entry>>, StoreError> {
        let mut entries = Vec::with_capacity(scopes.len());
        for scope in scopes {
            entries.push(self.entry(scope).await?);
        }
        Ok(entries)
    }

    /// Returns a scope from memory, or reads it. Cancel safe: of all that wait for a reading, another goes on with it.
    pub(super) async fn entry(&self, scope: &Scope) -> Result<Arc<Entry>, StoreError> {
        if let Some(entry) = self.held(scope).await? {
            return Ok(entry);
        }
        let loading = Arc::clone(lock(&self.loading).entry(scope.clone()).or_default());
        let _waiting = Waiting { recall: self, scope, loading: &loading };
        loading.entry.get_or_try_init(|| self.load(scope, &loading)).await.cloned()
    }

    /// A scope from memory, brought up to the store's revision: another process may have changed or erased it.
    async fn held(&self, scope: &Scope) -> Result<Option<Arc<Entry>>, StoreError> {
        let Some(entry) = self.hot.get(scope) else { return Ok(None) };
        let before = read(&entry).revision;
        let revision = self.source.revision(scope).await?;
        let is_current = {
            let scoped = read(&entry);
            !scoped.is_outdated() && revision.is_none_or(|revision| revision == scoped.revision)
        };
        // A store that is behind what it said before was restored, or has lost what its changes were counted by.
        let is_behind = revision.is_some_and(|revision| revision < before);
        if is_current || !is_behind && self.catch_up(scope, &entry, revision).await? {
            return Ok(Some(entry));
        }
        self.invalidate(scope);
        Ok(None)
    }

    /// Takes in what changed since a scope was read. `false`: it has to be read again.
    async fn catch_up(&self, scope: &Scope, entry: &Arc<Entry>, revision: Option<i64>) -> Result<bool, StoreError> {
        let (told, change) = {
            let scoped = read(entry);
            (scoped.told(), scoped.change)
        };
        let Some(change) = change else { return Ok(false) };
        let Some(since) = self.source.since(scope, change, revision, MAX_CHANGES).await? else { return Ok(false) };
        // The next ones would have to be asked for, too.
        if since.changes.len() >= MAX_CHANGES as usize {
            return Ok(false);
        }
        let (new, has_grown) = {
            let mut scoped = write(entry);
            let Some(new) = scoped.catch_up(since, told) else { return Ok(false) };
            (new, scoped.has_grown())
        };
        self.vectors.lack(scope, new);
        if has_grown {
            self.say_size(scope.clone(), Arc::clone(entry));
        }
        Ok(true)
    }

    /// Scopes from memory; what has to be read is read on `tasks`, and goes on being read when this is dropped.
    pub(super) async fn entries_behind(
        self: &Arc<Self>,
        scopes: &[Scope],
        tasks: &TaskTracker,
    ) -> Result<Vec<Arc<Entry>>, StoreError> {
        let mut hot = Vec::with_capacity(scopes.len());
        for scope in scopes {
            hot.extend(self.held(scope).await?);
        }
        if hot.len() == scopes.len() {
            return Ok(hot);
        }
        // Whoever comes later waits with those that are reading, so that no request adds a task to a store that is slow already.
        if scopes.iter().all(|scope| self.hot.contains_key(scope) || lock(&self.loading).contains_key(scope)) {
            return self.entries(scopes).await;
        }
        let (recall, wanted) = (Arc::clone(self), scopes.to_vec());
        let reading = tasks.spawn(async move { recall.entries(&wanted).await });
        reading.await.map_err(|error| StoreError::Driver { doing: "read a scope", source: Box::new(error) })?
    }

    /// Reads the scopes that are not in memory, on `tasks`; returns when they are there. What goes wrong is told to whoever recalls then.
    pub async fn read_behind(self: &Arc<Self>, scopes: &[Scope], tasks: &TaskTracker) {
        let wanted: Vec<Scope> = scopes.iter().filter(|scope| !self.hot.contains_key(*scope)).cloned().collect();
        if wanted.is_empty() {
            return;
        }
        // Whoever comes later waits with those that are reading, and adds no task.
        let is_being_read = |scope: &Scope| lock(&self.loading).contains_key(scope);
        let later = wanted.iter().all(is_being_read);
        let recall = Arc::clone(self);
        let read = async move {
            for scope in &wanted {
                // Whoever recalls asks again, and is told then what is wrong.
                drop(recall.entry(scope).await);
            }
        };
        if later {
            read.await;
        } else {
            drop(tasks.spawn(read).await);
        }
    }

    async fn load(&self, scope: &Scope, loading: &Arc<Loading>) -> Result<Arc<Entry>, StoreError> {
        let mut reads = 0;
        loop {
            *lock(&loading.late) = Late::default();
            let data = self.source.load(scope, self.config().max_episodes_per_scope).await?;
            let vectors = self.stored_vectors(scope).await;
            let (scoped, placed) = build(data, self.config().max_episodes_per_scope, vectors).await?;
            self.vectors.note(scope, placed);
            reads += 1;
            if let Some(entry) = self.admit(scope, loading, scoped, reads >= MAX_READS) {
                return Ok(entry);
            }
        }
    }

    /// Brings a scope that was read up to date and puts it into memory; `None` when it has to be read again.
    fn admit(&self, scope: &Scope, loading: &Arc<Loading>, mut scoped: Scoped, last: bool) -> Option<Arc<Entry>> {
        let mut all = lock(&self.loading);
        let late = std::mem::take(&mut *lock(&loading.late));
        let mut follow =
            |revision, learned: &Learned| scoped.follow(revision, learned, study(learned.episodes.clone()));
        let current = !late.overtaken && late.learned.iter().all(|(revision, learned)| follow(*revision, learned));
        if !current && !last {
            return None;
        }
        for (_, learned) in &late.learned {
            self.vectors.lack(scope, learned.episodes.iter().map(|episode| episode.id));
        }
        let entry = Arc::new(RwLock::new(scoped));
        if current {
            self.hot.insert(scope.clone(), Arc::clone(&entry));
        }
        remove_same(&mut all, scope, loading);
        Some(entry)
    }
}

/// Takes a reading off the list when the last that waits for it goes, be it for an error or because it was cancelled.
struct Waiting<'a> {
    recall: &'a Recall,
    scope: &'a Scope,
    loading: &'a Arc<Loading>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut all = lock(&self.recall.loading);
        // The list holds one, this one another: nobody else waits.
        if Arc::strong_count(self.loading) <= 2 {
            remove_same(&mut all, self.scope, self.loading);
        }
    }
}

/// The vectors stored for a scope, and the space they are in.
type Stored = (Arc<dense::Space>, Vec<(EpisodeId, Vec<u8>)>);

async fn build(data: ScopeData, max_episodes: usize, vectors: Option<Stored>) -> Result<(Scoped, Placed), StoreError> {
    let inline = data.episodes.len() <= BUILD_INLINE;
    let build = move || {
        let mut scoped = Scoped::build(data, max_episodes);
        let placed = vectors.map(|(space, rows)| scoped.place(&space, &rows)).unwrap_or_default();
        (scoped, placed)
    };
    if inline {
        return Ok(build());
    }
    tokio::task::spawn_blocking(build)
        .await
        .map_err(|error| StoreError::Driver { doing: "index a scope", source: Box::new(error) })
}

fn remove_same(all: &mut HashMap<Scope, Arc<Loading>>, scope: &Scope, loading: &Arc<Loading>) {
    if all.get(scope).is_some_and(|known| Arc::ptr_eq(known, loading)) {
        all.remove(scope);
    }
}
