//! The records in an SQL database: an embedded SQLite file in WAL mode, or PostgreSQL, which many processes share.
//!
//! What is done is written once, for both (`text`, `query`); what differs stands in `sqlite/` and `postgres/`. A group of rows travels as one
//! JSON array, bound once and taken apart by the database. What every exchange leaves is written by each in its own way: as scripts with room
//! for so many rows in SQLite, where each statement costs, and as arrays in PostgreSQL.
//!
//! **SQLite**: one connection writes, a few read. A write is one `BEGIN IMMEDIATE` transaction. Several processes may use one file; each waits for
//! the other's lock up to the busy timeout. The files are never touched but through SQLite: opening and closing one of them beside it would
//! drop the locks that SQLite holds on it (MemPalace/mempalace#2471).
//!
//! **PostgreSQL**: a write locks the row of its scope first, so that writes of one scope come one after the other, as in SQLite; those of
//! different scopes do not wait for each other.
//!
//! Start with [`SqlStore`], then `outbox.rs` and `learn.rs`, which carry the load.

mod begin;
mod budgets;
mod changes;
mod copy;
mod episodes;
mod erase;
mod error;
mod exchanges;
mod facts;
mod insert;
mod keys;
mod knowledge;
mod learn;
mod outbox;
mod postgres;
mod query;
mod row;
mod scope;
mod session;
mod sqlite;
mod states;
mod sweep;
mod targets;
#[cfg(test)]
mod tests;
mod text;
mod tombstone;
mod upkeep;
mod usage;
mod vectors;
mod windows;
mod write;

use std::time::Duration;

use crate::store::StoreError;
pub(in crate::store) use error::driver;
use session::{Pool, Tx};
use text::Dialect;

pub use copy::{Copied, Copying};
pub use postgres::{PostgresOptions, PostgresServer};
pub use sqlite::{Durability, SqliteOptions};

/// Pauses before a write is tried again.
const PAUSES: [Duration; 2] = [Duration::from_millis(20), Duration::from_millis(200)];

/// A try that took longer has waited for a server that is away: the next one would wait as long, and nobody would be told meanwhile.
const LONG: Duration = Duration::from_secs(3);

/// A [`Store`](crate::store::Store) over one database. Cheap to clone.
#[derive(Clone, Debug)]
pub struct SqlStore {
    write: Pool,
    read: Pool,
    /// Key of the tombstone hashes; each namespace has its own, derived from it.
    salt: [u8; 32],
    backend: Backend,
}

/// What only one of the databases has.
#[derive(Clone, Debug)]
enum Backend {
    Sqlite(sqlite::File),
    Postgres(postgres::Together),
}

impl SqlStore {
    /// Opens an SQLite database, and brings its schema up to date.
    ///
    /// # Errors
    /// [`StoreError::Unusable`] for a damaged file, a file that is no database, and one of a newer version;
    /// [`StoreError::Unavailable`] for one that is locked, read-only or cannot be opened.
    pub async fn sqlite(options: SqliteOptions) -> Result<Self, StoreError> {
        sqlite::open(options).await
    }

    /// Connects to a PostgreSQL database, and brings its schema up to date; one of several processes does so.
    ///
    /// # Errors
    /// [`StoreError::Unusable`] for an address that cannot be right, wrong credentials, a server that is too old, or only reads, and a database of a newer
    /// version; [`StoreError::Unavailable`] for a server that cannot be reached.
    pub async fn postgres(options: PostgresOptions) -> Result<Self, StoreError> {
        postgres::open(options).await
    }

    /// The database's name by OpenTelemetry's conventions.
    /// <https://opentelemetry.io/docs/specs/semconv/registry/attributes/db/#db-system-name>
    fn system(&self) -> &'static str {
        match self.write.dialect() {
            Dialect::Sqlite => "sqlite",
            Dialect::Postgres => "postgresql",
        }
    }

    /// Starts a write.
    async fn begin(&self) -> Result<Tx, StoreError> {
        self.write.begin_writing().await.map_err(driver("begin a write"))
    }

    /// Tries a write again that another process was in the way of, or whose connection broke, as when a server fails over. Only for writes that do
    /// no harm when they are made twice: whether the first one was committed is not known.
    async fn patiently<T, F: Future<Output = Result<T, StoreError>>>(
        &self,
        write: impl Fn() -> F,
    ) -> Result<T, StoreError> {
        let again = |error: &StoreError| matches!(error, StoreError::Unavailable(_) | StoreError::Crossed(_));
        self.retried(again, write).await
    }

    /// Tries a write again that another transaction was in the way of. It was undone, so this is for every write that is one transaction.
    async fn again<T, F: Future<Output = Result<T, StoreError>>>(
        &self,
        write: impl Fn() -> F,
    ) -> Result<T, StoreError> {
        self.retried(|error| matches!(error, StoreError::Crossed(_)), write).await
    }

    /// Each try is boxed: as a part of the futures around it, all that a write may wait for would be copied with every one of them.
    async fn retried<T, F: Future<Output = Result<T, StoreError>>>(
        &self,
        again: impl Fn(&StoreError) -> bool,
        write: impl Fn() -> F,
    ) -> Result<T, StoreError> {
        for pause in PAUSES {
            let begun = tokio::time::Instant::now();
            match Box::pin(write()).await {
                Err(error) if self.write.dialect() == Dialect::Postgres && again(&error) && begun.elapsed() < LONG => {
                    tracing::debug!(%error, "a write is tried again");
                    tokio::time::sleep(pause).await;
                }
                done => return done,
            }
        }
        Box::pin(write()).await
    }

    /// Looks for damage; returns what was found, at most ten lines; `None` for a server, which sees to its own files.
    ///
    /// # Errors
    /// The database cannot be read at all.
    pub async fn check(&self) -> Result<Option<Vec<String>>, StoreError> {
        match &self.read {
            Pool::Sqlite(pool) => sqlite::check(pool).await.map(Some),
            Pool::Postgres(_) => Ok(None),
        }
    }

    /// What the server says of itself; `None` for a file.
    ///
    /// # Errors
    /// It cannot be asked.
    pub async fn server(&self) -> Result<Option<PostgresServer>, StoreError> {
        match &self.read {
            Pool::Sqlite(_) => Ok(None),
            Pool::Postgres(pool) => postgres::about(pool).await.map(Some),
        }
    }

    /// Closes all connections; the last one to leave an SQLite file folds the write-ahead log into it.
    pub async fn close(&self) {
        if let Backend::Sqlite(file) = &self.backend {
            file.maintenance.close().await;
        }
        self.read.close().await;
        self.write.close().await;
    }
}

async fn commit(tx: Tx) -> Result<(), StoreError> {
    tx.commit().await.map_err(driver("commit"))
}
