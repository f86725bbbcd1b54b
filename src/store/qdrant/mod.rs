//! Episodes in a Qdrant server: what is meant and what is written, searched in one round trip.
//!
//! One collection for each embedding generation, named `{prefix}_{hash of the generation}`, with a dense vector (`dense`, cosine) and a sparse one
//! (`words`: our weights, and how rare a word is by the server). The alias `{prefix}` stands for the generation that serves. A point's id is its episode's id,
//! so that points are in order of their episodes. With [`Isolation::Collection`] the points of a tenant lie in a collection of its own, beside an
//! empty one that stands for the generation.
//!
//! It never searches, lists or deletes without a scope: the only filters there are begin with one (`filter.rs`). It holds no texts, and is never the
//! only place of anything. Start with [`Qdrant::connect`], then `schema.rs`.

mod calls;
mod collections;
mod error;
mod filter;
mod names;
mod point;
mod schema;
mod search;
#[cfg(test)]
mod tests;
mod version;
mod write;

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tracing::{instrument, warn};

pub use self::version::skew;

use self::names::Names;
use super::{IndexHits, IndexPoint, IndexQuery, ScopeKey, StoreError, VectorIndex};
use crate::base::{EpisodeId, Secret};
use crate::memory::Scope;

/// Where a server is and how it is used.
#[derive(Clone, Debug)]
pub struct Options {
    /// Of its gRPC port, as `http://127.0.0.1:6334`. With `https` its certificate is checked against the system's roots.
    pub url: String,
    /// What it asks for.
    pub api_key: Option<Secret>,
    /// What the names of our collections begin with, and the name of the alias.
    pub collection_prefix: String,
    /// How tenants are kept apart.
    pub isolation: Isolation,
    /// How vectors are made smaller in memory.
    pub quantization: Quantization,
    /// How long an answer may take.
    pub timeout: Duration,
    /// How many candidates a search through a graph looks at; none: as many as the server thinks.
    pub hnsw_ef: Option<u32>,
}

/// How tenants are kept apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// By what every search is filtered by.
    Payload,
    /// In collections of their own as well.
    Collection,
}

/// How vectors are made smaller in memory; the nearest ones are compared once more as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantization {
    /// Not at all.
    Off,
    /// To a quarter: a byte for each number.
    Scalar,
    /// To a thirty-second: a bit for each number. For vectors of about a thousand numbers and more.
    Binary,
}

/// A Qdrant server.
pub struct Qdrant {
    client: qdrant_client::Qdrant,
    options: Options,
    names: Names,
    /// The dimensions of the generations that were looked at.
    dimensions: Mutex<HashMap<String, u32>>,
    /// The version of the server that was warned of.
    warned: Mutex<String>,
}

impl std::fmt::Debug for Qdrant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Qdrant").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Qdrant {
    /// Makes a client. The server need not be there yet: a connection is made when the first question is asked, and again when it is lost.
    ///
    /// # Errors
    /// [`StoreError::Unusable`] where the URL or the key can be none.
    pub fn connect(options: &Options) -> Result<Self, StoreError> {
        Ok(Self {
            client: calls::client(options)?,
            names: Names::new(&options.collection_prefix),
            options: options.clone(),
            dimensions: Mutex::default(),
            warned: Mutex::default(),
        })
    }

    /// Warns of a version that the client was not made for, once.
    fn warn_of(&self, version: &str) {
        let Some(skew) = skew(version) else { return };
        let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
        if *warned != version {
            warn!(%version, "{skew}");
            version.clone_into(&mut warned);
        }
    }
}

#[async_trait]
impl VectorIndex for Qdrant {
    fn engine(&self) -> &'static str {
        "qdrant"
    }

    #[instrument(skip(self))]
    async fn prepare(&self, generation: &str, dimension: u32) -> Result<(), StoreError> {
        self.prepare_generation(generation, dimension).await
    }

    #[instrument(skip(self))]
    async fn serve(&self, generation: &str) -> Result<(), StoreError> {
        self.point_alias_at(generation).await
    }

    #[instrument(skip_all, fields(generation, points = points.len()))]
    async fn put(&self, generation: &str, points: &[IndexPoint]) -> Result<(), StoreError> {
        self.put_points(generation, points).await
    }

    #[instrument(skip_all, fields(episodes = episodes.len()))]
    async fn remove(&self, scope: &Scope, episodes: &[EpisodeId]) -> Result<(), StoreError> {
        self.remove_points(scope, episodes).await
    }

    #[instrument(skip_all)]
    async fn erase(&self, tenant: &str, scope: ScopeKey) -> Result<u64, StoreError> {
        self.erase_points(tenant, scope).await
    }

    #[instrument(skip_all, fields(generation))]
    async fn search(&self, generation: &str, query: &IndexQuery<'_>) -> Result<IndexHits, StoreError> {
        self.search_points(generation, query).await
    }

    #[instrument(skip_all, fields(generation))]
    async fn list(
        &self,
        generation: &str,
        scope: &Scope,
        after: Option<EpisodeId>,
        limit: u32,
    ) -> Result<Vec<EpisodeId>, StoreError> {
        self.list_points(generation, scope, after, limit).await
    }

    #[instrument(skip(self))]
    async fn count(&self, generation: &str) -> Result<u64, StoreError> {
        self.count_points(generation).await
    }

    #[instrument(skip(self))]
    async fn drop_generation(&self, generation: &str) -> Result<(), StoreError> {
        self.drop_collections(generation).await
    }

    async fn ping(&self) -> Result<String, StoreError> {
        let version = self.call("ask for a sign of life", self.client.health_check()).await?.version;
        self.warn_of(&version);
        Ok(version)
    }
}
