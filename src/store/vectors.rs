//! Vectors of episodes, by generation.

use std::time::Duration;

use async_trait::async_trait;

use super::{ScopeKey, StoreError};
use crate::base::{EpisodeId, Time};
use crate::embed::Generation;
use crate::memory::{Episode, Scope};

/// Vectors, and how far the making of them is.
///
/// A vector is bytes here: what they mean is known to those who made them ([`Packed`](crate::embed::Packed)).
#[async_trait]
pub trait VectorStore: Send + Sync {
    /// Says that a process uses a generation, which is begun when it is not known yet; returns how it stands.
    async fn use_generation(&self, generation: &Generation, now: Time) -> Result<GenerationRecord, StoreError>;

    /// All generations, oldest first.
    async fn generations(&self) -> Result<Vec<GenerationRecord>, StoreError>;

    /// Leases the making of a generation's vectors for `lease`, or goes on with a lease. `false` while another holds it.
    async fn lease_generation(&self, id: &str, owner: &str, now: Time, lease: Duration) -> Result<bool, StoreError>;

    /// Gives a lease back, at shutdown.
    async fn release_generation(&self, id: &str, owner: &str) -> Result<(), StoreError>;

    /// Keeps what the vectors of a generation are measured by, and their dimension.
    async fn set_background(&self, id: &str, dimension: u32, background: &[u8]) -> Result<(), StoreError>;

    /// Lists active episodes that were added or changed behind `cursor`, of all scopes, and what went there, at most `limit` of all, in the
    /// order in which that was committed. One that cannot be read is passed over, since all others would wait for it for good.
    async fn due_episodes(&self, id: &str, cursor: i64, limit: u32) -> Result<Due, StoreError>;

    /// How many episodes were added or changed behind `cursor`; counted up to `limit`.
    async fn count_due(&self, cursor: i64, limit: u32) -> Result<u64, StoreError>;

    /// Stores vectors of a generation and, with `cursor`, moves it there, in one transaction. Left out are those whose episode is no more.
    /// `false`, and nothing is stored, when the generation is gone, or `owner` lost the lease.
    async fn put_vectors(
        &self,
        id: &str,
        owner: &str,
        vectors: &[NewVector],
        cursor: Option<i64>,
    ) -> Result<bool, StoreError>;

    /// Has all of a generation made anew, from the first change on, by whoever leases it next; who leases it now stores nothing more. It goes on
    /// being used as it is. `false` when there is none such.
    async fn rewind_generation(&self, id: &str) -> Result<bool, StoreError>;

    /// Lists the vectors of a scope in the order of their episodes, behind `after`, at most `limit`.
    async fn vectors(
        &self,
        scope: &Scope,
        id: &str,
        after: Option<EpisodeId>,
        limit: u32,
    ) -> Result<Vec<(EpisodeId, Vec<u8>)>, StoreError>;

    /// Returns those of these active episodes of a scope that are there and can be read, with their vectors.
    async fn vectors_of(&self, scope: &Scope, id: &str, episodes: &[EpisodeId]) -> Result<Vec<DueEpisode>, StoreError>;

    /// Says that a generation is complete.
    async fn complete_generation(&self, id: &str, now: Time) -> Result<(), StoreError>;

    /// Drops vectors of a generation that no process has used since `unused_since`, at most those of `max_scopes` scopes, then the generation itself.
    /// Returns how many vectors went, and whether all of them did.
    async fn drop_generation(&self, id: &str, unused_since: Time, max_scopes: u32) -> Result<(u64, bool), StoreError>;
}

/// How a generation stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GenerationRecord {
    /// [`Generation::id`].
    pub id: String,
    /// Who makes its vectors.
    pub model: String,
    /// Of its vectors; 0 = not known yet.
    pub dimension: u32,
    /// How far it is.
    pub state: GenerationState,
    /// The number of the last change that was looked at.
    pub cursor: i64,
    /// What its vectors are measured by.
    pub background: Option<Vec<u8>>,
    /// When it was begun.
    pub started_at: Time,
    /// When it was complete for the first time.
    pub ready_at: Option<Time>,
    /// When a process last said that it uses it.
    pub used_at: Time,
}

impl GenerationRecord {
    /// Names the generation of a model in an index of this kind: what the records hold of the model is a generation of its own.
    #[must_use]
    pub fn model_in(model: &str, engine: &str, placed_by: &str) -> String {
        format!("{model} in {engine}, placed by {placed_by}")
    }

    /// Whether an index of this kind holds it.
    #[must_use]
    pub fn is_in(&self, engine: &str) -> bool {
        self.model.contains(&format!(" in {engine}, placed by "))
    }
}

/// How far a generation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GenerationState {
    /// Some episodes that were there when it was begun have no vector yet: words alone find.
    Filling,
    /// All had one; what is new follows within moments.
    Ready,
    /// No process uses it any more: its vectors go, piece by piece.
    Dropping,
}

/// What is to be embedded next.
#[derive(Clone, Debug, Default)]
pub struct Due {
    /// The episodes, with the vectors that some may have already.
    pub episodes: Vec<DueEpisode>,
    /// Episodes that were deleted or put aside. None of them is among `episodes`.
    pub gone: Vec<(Scope, EpisodeId)>,
    /// Scopes that were erased, by tenant and key. Of these, `episodes` are newer than that.
    pub erased: Vec<(String, ScopeKey)>,
    /// Where to go on behind.
    pub cursor: i64,
    /// How many cannot be read, and were passed over.
    pub unreadable: u64,
    /// Whether nothing is left behind that.
    pub is_last: bool,
}

/// An episode to be embedded.
#[derive(Clone, Debug, PartialEq)]
pub struct DueEpisode {
    /// Whose it is.
    pub scope: Scope,
    /// The episode.
    pub episode: Episode,
    /// The vector that is kept for it; of another text, or damaged, perhaps.
    pub vector: Option<Vec<u8>>,
}

/// A vector that was made.
#[derive(Clone, Debug)]
pub struct NewVector {
    /// Whose it is.
    pub scope: Scope,
    /// The episode that it was made of.
    pub episode: EpisodeId,
    /// The vector.
    pub body: Vec<u8>,
}
