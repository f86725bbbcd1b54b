//! Collections, each with an engine of its own, and the aliases that stand for them.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use prost::Message;
use qdrant_client::qdrant::{AliasDescription, CreateCollection, ListAliasesResponse};
use qdrant_edge::EdgeShard;
use tonic::Status;

use crate::config;
use crate::refuse::{Refused, broken, engine, missing, wrong};

/// Beside the engine's files: how the collection was made.
const CREATED: &str = "created";
/// Beside the collections.
const ALIASES: &str = "aliases";

/// A collection.
pub(crate) struct Collection {
    /// Dropped before the folder that it writes to.
    pub(crate) shard: EdgeShard,
    /// How it was made.
    pub(crate) created: CreateCollection,
    /// Points written since segments were optimised last.
    written: AtomicUsize,
    optimizing: AtomicBool,
    folder: Folder,
}

/// So many points are written before segments are optimised.
const OPTIMIZE_AFTER: usize = 20_000;

impl Collection {
    fn new(shard: EdgeShard, created: CreateCollection, path: PathBuf) -> Self {
        Self {
            shard,
            created,
            written: AtomicUsize::new(0),
            optimizing: AtomicBool::new(false),
            folder: Folder { path, doomed: AtomicBool::new(false) },
        }
    }

    /// Says that points were written; returns whether someone should optimise segments now.
    pub(crate) fn wrote(&self, points: usize) -> bool {
        let written = self.written.fetch_add(points, Ordering::Relaxed) + points;
        written >= OPTIMIZE_AFTER && !self.optimizing.swap(true, Ordering::Relaxed)
    }

    /// Builds graphs, and clears away what was deleted, as Qdrant's server does in the background.
    pub(crate) fn optimize(&self) -> Result<bool, Refused> {
        self.written.store(0, Ordering::Relaxed);
        let result = self.shard.optimize().map_err(engine);
        self.optimizing.store(false, Ordering::Relaxed);
        result
    }
}

/// A folder, which goes with the last one who uses the collection when that was dropped.
struct Folder {
    path: PathBuf,
    doomed: AtomicBool,
}

impl Drop for Folder {
    fn drop(&mut self) {
        if *self.doomed.get_mut() {
            // A test server: what stays behind does no harm.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// All collections.
pub(crate) struct Shelf {
    root: PathBuf,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    collections: BTreeMap<String, Arc<Collection>>,
    aliases: BTreeMap<String, String>,
    made: u64,
}

impl Shelf {
    /// Opens what is in a folder.
    pub(crate) fn open(root: &Path) -> Result<Self, Box<dyn std::error::Error>> {
        fs::create_dir_all(root)?;
        let mut state = State::default();
        for entry in fs::read_dir(root)? {
            let path = entry?.path();
            if !path.is_dir() {
                continue;
            }
            let created = CreateCollection::decode(&*fs::read(path.join(CREATED))?)?;
            let shard = EdgeShard::load(&path, None)?;
            state.made += 1;
            let name = created.collection_name.clone();
            state.collections.insert(name, Arc::new(Collection::new(shard, created, path)));
        }
        let aliases = match fs::read(root.join(ALIASES)) {
            Ok(bytes) => ListAliasesResponse::decode(&*bytes)?.aliases,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error.into()),
        };
        state.aliases = aliases.into_iter().map(|alias| (alias.alias_name, alias.collection_name)).collect();
        Ok(Self { root: root.to_owned(), state: Mutex::new(state) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The collection of a name or an alias.
    pub(crate) fn get(&self, name: &str) -> Result<Arc<Collection>, Refused> {
        let state = self.state();
        let name = state.aliases.get(name).map_or(name, String::as_str);
        state.collections.get(name).cloned().ok_or_else(|| missing(name))
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.state().collections.keys().cloned().collect()
    }

    /// Makes a collection.
    pub(crate) fn create(&self, created: CreateCollection) -> Result<(), Refused> {
        let config = config::read(&created)?;
        let mut state = self.state();
        let name = created.collection_name.clone();
        if state.collections.contains_key(&name) || state.aliases.contains_key(&name) {
            let text = format!("Wrong input: Collection `{name}` already exists!");
            return Err(Box::new(Status::already_exists(text)));
        }
        state.made += 1;
        // Names of its own, since a dropped collection's folder may still be there.
        let mut path = self.root.join(state.made.to_string());
        while path.exists() {
            state.made += 1;
            path = self.root.join(state.made.to_string());
        }
        fs::create_dir(&path).map_err(broken)?;
        fs::write(path.join(CREATED), created.encode_to_vec()).map_err(broken)?;
        let shard = EdgeShard::new(&path, config).map_err(engine)?;
        state.collections.insert(name, Arc::new(Collection::new(shard, created, path)));
        Ok(())
    }

    /// Drops a collection and its aliases; returns whether there was one.
    pub(crate) fn delete(&self, name: &str) -> Result<bool, Refused> {
        let mut state = self.state();
        let Some(collection) = state.collections.remove(name) else { return Ok(false) };
        collection.folder.doomed.store(true, Ordering::Relaxed);
        state.aliases.retain(|_, stands_for| stands_for != name);
        self.write_aliases(&state)?;
        Ok(true)
    }

    /// All aliases, or those of a collection.
    pub(crate) fn aliases(&self, of: Option<&str>) -> Vec<AliasDescription> {
        describe(self.state().aliases.iter().filter(|(_, collection)| of.is_none_or(|of| of == *collection)))
    }

    /// Does several things to aliases, all or none. An alias that is there is moved.
    pub(crate) fn change_aliases(&self, changes: Vec<Change>) -> Result<(), Refused> {
        let mut state = self.state();
        let mut aliases = state.aliases.clone();
        for change in changes {
            match change {
                Change::Create { alias, collection } => {
                    if !state.collections.contains_key(&collection) {
                        return Err(missing(&collection));
                    }
                    if state.collections.contains_key(&alias) {
                        return Err(wrong(format_args!("Collection `{alias}` already exists!")));
                    }
                    aliases.insert(alias, collection);
                }
                Change::Rename { from, to } => {
                    let collection = aliases.remove(&from).ok_or_else(|| missing(&from))?;
                    aliases.insert(to, collection);
                }
                Change::Delete { alias } => {
                    aliases.remove(&alias);
                }
            }
        }
        state.aliases = aliases;
        self.write_aliases(&state)
    }

    fn write_aliases(&self, state: &State) -> Result<(), Refused> {
        let list = ListAliasesResponse { aliases: describe(state.aliases.iter()), ..ListAliasesResponse::default() };
        fs::write(self.root.join(ALIASES), list.encode_to_vec()).map_err(broken)
    }
}

/// What is done to an alias.
pub(crate) enum Change {
    Create { alias: String, collection: String },
    Rename { from: String, to: String },
    Delete { alias: String },
}

fn describe<'a>(aliases: impl Iterator<Item = (&'a String, &'a String)>) -> Vec<AliasDescription> {
    let description = |(alias, collection): (&String, &String)| AliasDescription {
        alias_name: alias.clone(),
        collection_name: collection.clone(),
    };
    aliases.map(description).collect()
}
