//! The embedded store: one SQLite file in WAL mode.
//!
//! One connection writes, a few read. A write is one `BEGIN IMMEDIATE` transaction of few statements: a group of rows
//! travels as one JSON array, bound once and taken apart by `json_each`, or (what every exchange leaves) as values of a
//! script with room for so many, so that every statement is a constant and stays prepared. Several processes may use one file; each waits for the other's lock up to the busy timeout.
//!
//! The files of the database are never touched but through SQLite: opening and closing one of them beside it would
//! drop the locks that SQLite holds on it (MemPalace/mempalace#2471).
//!
//! Start with [`SqliteStore::open`], then `outbox.rs` and `learn.rs`, which carry the load.

mod budgets;
mod changes;
mod episodes;
mod erase;
mod error;
mod exchanges;
mod facts;
mod keys;
mod knowledge;
mod learn;
mod open;
mod outbox;
mod presence;
mod row;
mod scope;
mod script;
mod states;
mod sweep;
mod targets;
#[cfg(test)]
mod tests;
mod tombstone;
mod upkeep;
mod usage;
mod vectors;
mod windows;
mod write;

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sqlx::Transaction;
use sqlx::sqlite::{Sqlite, SqlitePool};

use crate::store::StoreError;
use error::driver;

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

/// A [`Store`](crate::store::Store) over one SQLite database. Cheap to clone.
#[derive(Clone, Debug)]
pub struct SqliteStore {
    write: SqlitePool,
    read: SqlitePool,
    /// Empties the write-ahead log; waits only briefly, as it keeps writers out meanwhile.
    maintenance: SqlitePool,
    /// Key of the tombstone hashes; each namespace has its own, derived from it.
    salt: [u8; 32],
    /// How long an erasure waits for readers before it says that it is not complete.
    checkpoint_wait: Duration,
    rewrite_below_bytes: u64,
    in_memory: bool,
    /// Says to other processes that this one is there.
    _presence: Option<Arc<File>>,
}

impl SqliteStore {
    /// Starts a write: immediate, so that what it reads cannot change before it writes.
    async fn begin(&self) -> Result<Transaction<'static, Sqlite>, StoreError> {
        self.write.begin_with("BEGIN IMMEDIATE").await.map_err(driver("begin a write"))
    }

    /// Looks for damage in the whole file; returns what was found, at most ten lines.
    ///
    /// # Errors
    /// The file cannot be read at all.
    pub async fn check(&self) -> Result<Vec<String>, StoreError> {
        let lines: Vec<String> = sqlx::query_scalar("PRAGMA quick_check(10)")
            .fetch_all(&self.read)
            .await
            .map_err(driver("check the file"))?;
        Ok(lines.into_iter().filter(|line| line != "ok").collect())
    }

    /// Closes all connections; the last one to leave the file folds the write-ahead log into it.
    pub async fn close(&self) {
        self.maintenance.close().await;
        self.read.close().await;
        self.write.close().await;
    }
}

async fn commit(tx: Transaction<'static, Sqlite>) -> Result<(), StoreError> {
    tx.commit().await.map_err(driver("commit"))
}
