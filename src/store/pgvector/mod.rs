//! Episodes in PostgreSQL with pgvector: what is meant and what is written, in one table for each embedding generation.
//!
//! A row is a point: its scope, what it is filtered by, its vector as 16-bit floats, and its words twice: as a sparse vector, which scores, and
//! as an array of numbers, which is indexed. A scope of ordinary size is searched exactly, by the table's primary key; a graph over all
//! scopes (HNSW, with iterative scans) and the index of words serve scopes that are too large for that (`near.rs`, `words.rs`).
//!
//! It holds no texts, and is never the only place of anything. It never searches without a scope. Start with [`Pgvector::connect`], then
//! `generations.rs`.

mod connect;
mod generations;
mod literal;
mod near;
#[cfg(test)]
pub(crate) mod tests;
mod words;
mod write;

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use sqlx::PgPool;
use tokio::sync::OnceCell;

use self::generations::Generation;
use super::{IndexHits, IndexPoint, IndexQuery, ScopeKey, StoreError, VectorIndex};
use crate::base::{EpisodeId, Secret};
use crate::memory::Scope;

/// Where the database is and how it is used.
#[derive(Clone, Debug)]
pub struct PgvectorOptions {
    /// `postgres://USER:PASSWORD@HOST:PORT/DATABASE`, as that of the records.
    pub url: Secret,
    /// Most connections of this process.
    pub connections: u32,
    /// How long a caller waits for a connection.
    pub acquire_timeout: Duration,
    /// After so long the server gives a statement up; making the index of a generation may take longer.
    pub statement_timeout: Duration,
}

impl PgvectorOptions {
    /// Options for an address, all else by default.
    #[must_use]
    pub fn url(url: impl Into<Secret>) -> Self {
        Self {
            url: url.into(),
            connections: 8,
            acquire_timeout: Duration::from_secs(5),
            statement_timeout: Duration::from_secs(30),
        }
    }
}

/// A [`VectorIndex`] in a PostgreSQL database.
#[derive(Debug)]
pub struct Pgvector {
    pool: PgPool,
    /// The server's version, once it was looked at and found to have what is needed.
    ready: OnceCell<String>,
    /// The tables of generations that were asked for; what others dropped is noticed when it is used.
    generations: Mutex<HashMap<String, Generation>>,
}

impl Pgvector {
    /// Prepares to connect; the server is asked for when it is first needed, so that it may start later.
    ///
    /// # Errors
    /// [`StoreError::Unusable`] for an address that cannot be right.
    pub fn connect(options: &PgvectorOptions) -> Result<Self, StoreError> {
        let pool = connect::pool(options)?;
        Ok(Self { pool, ready: OnceCell::new(), generations: Mutex::new(HashMap::new()) })
    }

    /// The table of a generation.
    async fn table(&self, generation: &str) -> Result<Generation, StoreError> {
        if let Some(known) = self.known(generation) {
            return Ok(known);
        }
        self.find(generation).await?.ok_or_else(|| generations::missing(generation))
    }

    /// What came of a statement on the table of a generation; where another process has dropped it, it is looked for anew the next time.
    fn told<T>(&self, generation: &str, done: Result<T, StoreError>) -> Result<T, StoreError> {
        match done {
            Err(StoreError::Unusable(text)) if text == generations::GONE => {
                self.forget(generation);
                Err(generations::missing(generation))
            }
            done => done,
        }
    }

    fn known(&self, generation: &str) -> Option<Generation> {
        self.generations.lock().unwrap_or_else(PoisonError::into_inner).get(generation).cloned()
    }

    fn remember(&self, generation: &str, found: Generation) {
        self.generations.lock().unwrap_or_else(PoisonError::into_inner).insert(generation.to_owned(), found);
    }

    fn forget(&self, generation: &str) {
        self.generations.lock().unwrap_or_else(PoisonError::into_inner).remove(generation);
    }
}

#[async_trait]
impl VectorIndex for Pgvector {
    fn engine(&self) -> &'static str {
        "pgvector"
    }

    async fn prepare(&self, generation: &str, dimension: u32) -> Result<(), StoreError> {
        self.make(generation, dimension).await
    }

    async fn serve(&self, generation: &str) -> Result<(), StoreError> {
        // A reader names the generation it asks of: nothing has to be switched.
        self.find(generation).await?.map(|_| ()).ok_or_else(|| generations::missing(generation))
    }

    async fn put(&self, generation: &str, points: &[IndexPoint]) -> Result<(), StoreError> {
        let table = self.table(generation).await?;
        self.told(generation, self.write(&table, points).await)
    }

    async fn remove(&self, scope: &Scope, episodes: &[EpisodeId]) -> Result<(), StoreError> {
        self.delete(ScopeKey::of(scope), Some(episodes)).await.map(|_| ())
    }

    async fn erase(&self, _tenant: &str, scope: ScopeKey) -> Result<u64, StoreError> {
        self.delete(scope, None).await
    }

    async fn search(&self, generation: &str, query: &IndexQuery<'_>) -> Result<IndexHits, StoreError> {
        let table = self.table(generation).await?;
        // Each on a connection of its own.
        let found = tokio::try_join!(self.near(&table, query), self.words(&table, query));
        let (near, words) = self.told(generation, found)?;
        Ok(IndexHits { near, words })
    }

    async fn list(
        &self,
        generation: &str,
        scope: &Scope,
        after: Option<EpisodeId>,
        limit: u32,
    ) -> Result<Vec<EpisodeId>, StoreError> {
        let table = self.table(generation).await?;
        self.told(generation, self.page(&table, ScopeKey::of(scope), after, limit).await)
    }

    async fn count(&self, generation: &str) -> Result<u64, StoreError> {
        let table = self.table(generation).await?;
        self.told(generation, self.size(&table).await)
    }

    async fn drop_generation(&self, generation: &str) -> Result<(), StoreError> {
        self.forget(generation);
        self.unmake(generation).await
    }

    async fn ping(&self) -> Result<String, StoreError> {
        self.ready().await?;
        self.version().await
    }
}
