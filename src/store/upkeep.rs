//! What goes into and out of [`ChangeStore`](super::ChangeStore) and [`UpkeepStore`](super::UpkeepStore).

use serde::{Deserialize, Serialize};

use crate::base::{EpisodeId, FactId, Time};
use crate::memory::{Episode, FactChange, HistoryEntry};

/// One change in a scope.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Its number; numbers grow in the order of commits, with gaps.
    pub seq: i64,
    /// When it was stored.
    pub at: Time,
    /// What changed.
    pub what: Changed,
}

/// What changed.
#[derive(Clone, Debug, PartialEq)]
pub enum Changed {
    /// A fact came to be as this entry of its history says.
    Fact(Box<HistoryEntry>),
    /// A fact was deleted.
    FactGone(FactId),
    /// An episode is new, or was changed: as it is now.
    Episode(Box<Episode>),
    /// An episode was deleted.
    EpisodeGone(EpisodeId),
    /// All of the subject was erased: whatever was read before is to be dropped.
    Erased,
}

/// What the sweep does to a scope.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Forgetting {
    /// The revision of the scope that it was decided on.
    pub revision: i64,
    /// When.
    pub now: Time,
    /// Facts that run out.
    pub changes: Vec<FactChange>,
    /// Facts that go, with their history.
    pub drop_facts: Vec<FactId>,
    /// Episodes that are put aside: kept, not recalled.
    pub archive: Vec<EpisodeId>,
    /// Episodes that go.
    pub drop_episodes: Vec<EpisodeId>,
    /// Episodes that were put aside before this go, too; at most `max_rows` of them.
    pub drop_archived_before: Time,
    /// The bound of that.
    pub max_rows: u32,
}

impl Forgetting {
    /// Whether there is nothing to do but to look for old archived episodes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
            && self.drop_facts.is_empty()
            && self.archive.is_empty()
            && self.drop_episodes.is_empty()
    }
}

/// What a [`Forgetting`] did, in rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Forgotten {
    /// The scope's revision now.
    pub revision: i64,
    /// Facts that ran out.
    pub expired: u64,
    /// Facts that are gone.
    pub dropped_facts: u64,
    /// Episodes that were put aside.
    pub archived: u64,
    /// Episodes that are gone.
    pub dropped_episodes: u64,
}

impl Forgotten {
    /// Whether anything changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.expired + self.dropped_facts + self.archived + self.dropped_episodes == 0
    }
}

/// Something that was done to a whole scope. It names no subject: the rows of a scope outlive others' erasures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Audit {
    /// When.
    pub at: Time,
    /// What was done, as in `copied_in`.
    pub action: String,
    /// Who did it: `api` or `operator`.
    pub actor: String,
    /// Numbers and hashes; a JSON object without any name or memory.
    pub detail: serde_json::Value,
}

/// An [`Audit`] as it is kept.
#[derive(Clone, Debug, PartialEq)]
pub struct Audited {
    /// Its number, to go on behind.
    pub seq: i64,
    /// What was written down.
    pub audit: Audit,
}

/// How many conversations were begun for one subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubjectUse {
    /// The tenant of the key.
    pub tenant: String,
    /// Its namespace.
    pub namespace: String,
    /// The place that named the subject, as in `user`.
    pub source: String,
    /// The subject; its hash in hex when it comes out of a store. Empty = all that are not counted apart.
    pub subject: String,
    /// Conversations.
    pub begun: u64,
}

/// What every exchange leaves, and is kept for some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aging {
    /// What was shown for it.
    Shown,
    /// What it used.
    Usage,
    /// What was said in it.
    Raw,
}

/// What of a table went as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Divided {
    /// Parts.
    pub parts: u64,
    /// Their rows, as the server estimates them.
    pub rows: u64,
}
