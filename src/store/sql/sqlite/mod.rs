//! What only SQLite has: opening a file, scripts, and leaving no trace in it.
//!
//! It never decides what is stored: that is written once, for both databases, in the modules above.
//!
//! Start with [`open()`], then `script.rs`, through which every exchange goes.

mod fold;
mod open;
mod presence;
mod script;
mod trace;
mod write;

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sqlx::sqlite::SqlitePool;
use tokio_util::task::AbortOnDropHandle;

use super::error::driver;
use crate::store::StoreError;

pub(super) use open::open;
pub(super) use script::{Bound, Open, begin_script, bind_value};
use script::{Table, run, script};
pub(super) use write::write;

/// What an acknowledged write outlives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// The death of the process (`synchronous = NORMAL`: the write-ahead log is written, not flushed).
    #[default]
    Process,
    /// The loss of power (`synchronous = FULL`: the write-ahead log is flushed at every commit).
    Power,
}

/// How a database is opened.
#[derive(Clone, Debug)]
pub struct SqliteOptions {
    /// The database file, made when it is missing (its folder is not); `None` = a private one in memory, for tests.
    pub path: Option<PathBuf>,
    /// What an acknowledged write outlives.
    pub durability: Durability,
    /// How long a statement waits for another process's lock.
    pub busy_timeout: Duration,
    /// How many connections read beside the one that writes; at least 1.
    pub readers: u32,
    /// An erasure rewrites a database up to this size; in a larger one it overwrites what it deletes, and says that it
    /// is not complete.
    pub rewrite_below_bytes: u64,
    /// At most so many pages of 4 KiB, for tests of a full disk; `None` = as many as the disk holds.
    pub max_pages: Option<u32>,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self {
            path: None,
            durability: Durability::Process,
            busy_timeout: Duration::from_secs(5),
            readers: 4,
            rewrite_below_bytes: 2 << 30,
            max_pages: None,
        }
    }
}

impl SqliteOptions {
    /// Options for a file, all else by default.
    #[must_use]
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self { path: Some(path.into()), ..Self::default() }
    }
}

/// What there is to a file beside its pools.
#[derive(Clone, Debug)]
pub(super) struct File {
    /// Empties the write-ahead log; waits only briefly, as it keeps writers out meanwhile.
    pub(super) maintenance: SqlitePool,
    /// How long an erasure waits for readers before it says that it is not complete.
    pub(super) checkpoint_wait: Duration,
    pub(super) rewrite_below_bytes: u64,
    pub(super) in_memory: bool,
    /// Says to other processes that this one is there.
    _presence: Option<Arc<fs::File>>,
    /// Folds the write-ahead log in, as long as someone has the store.
    _folding: Option<Arc<AbortOnDropHandle<()>>>,
}

/// Looks for damage in the whole file; returns what was found, at most ten lines.
pub(super) async fn check(pool: &SqlitePool) -> Result<Vec<String>, StoreError> {
    let lines: Vec<String> =
        sqlx::query_scalar("PRAGMA quick_check(10)").fetch_all(pool).await.map_err(driver("check the file"))?;
    Ok(lines.into_iter().filter(|line| line != "ok").collect())
}
