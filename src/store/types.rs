//! What goes into and out of a store.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::UsageRow;
use crate::base::{EpisodeId, ExchangeId, FactId, KeyId, ProposalId, Time};
use crate::context::summary::Summary;
use crate::conversation::Hash;
use crate::memory::knowledge::PassageRef;
use crate::memory::{Candidate, Episode, EpisodeStatus, FactChange, FactStatus, Scope, Turn};

/// One finished exchange on its way into the outbox.
#[derive(Clone, Debug)]
pub struct Finished {
    /// Names the exchange.
    pub exchange: ExchangeId,
    /// Whose it is.
    pub scope: Scope,
    /// When it ended.
    pub at: Time,
    /// What to learn from, secrets already redacted; `None` when memory may not be written, then only `shown` and `state` are kept.
    pub turn: Option<Turn>,
    /// What was shown for it.
    pub shown: Option<Shown>,
    /// The conversation state that came up with it.
    pub state: Option<(StateKey, TurnState)>,
    /// What it used; booked in the same transaction.
    pub usage: Option<Box<UsageRow>>,
}

/// Names a conversation state: equal prefixes share it, inside a scope.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StateKey {
    /// The scope.
    pub scope: Scope,
    /// Prefix hash up to and including a user message; 32 bytes.
    pub prefix: [u8; 32],
}

/// What was fixed when a user turn was first seen, so that all its requests show the same bytes. Kept 7 days.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnState {
    /// The profile block shown in this conversation; empty = none was shown.
    pub profile: Arc<str>,
    /// The facts that the profile block rests on.
    pub profile_facts: Vec<FactId>,
    /// The recollection block shown with this user message (the pin); empty = a miss, which is pinned as well.
    pub recollection: Arc<str>,
    /// The facts that the recollection rests on.
    pub facts: Vec<FactId>,
    /// The episodes that the recollection rests on.
    pub episodes: Vec<EpisodeId>,
    /// The passages of documents that the recollection rests on.
    #[serde(default)]
    pub passages: Vec<PassageRef>,
    /// Scope revision at which both were made.
    pub revision: i64,
    /// When it runs out.
    pub expires_at: Time,
}

/// A cut that is to be settled: which summary stands for what was left out.
#[derive(Clone, Debug)]
pub struct Cut<'a> {
    /// The state after the last message that was left out.
    pub key: StateKey,
    /// The scope's epoch when the exchange began.
    pub epoch: i64,
    /// The states whose summaries would do, the best first.
    pub candidates: &'a [Hash],
    /// Until when it holds.
    pub expires_at: Time,
}

/// A response that upstream keeps, and that a client may go on from by its name.
#[derive(Clone, Debug)]
pub struct HandedOut {
    /// To whom.
    pub scope: Scope,
    /// The scope's epoch when the exchange began, where what was shown is kept along.
    pub epoch: Option<i64>,
    /// The states that its name stands for, its own first, then those of the items in it.
    pub names: Vec<Hash>,
    /// What was shown with it.
    pub shown: Option<TurnState>,
    /// Until when it may be gone on from.
    pub expires_at: Time,
}

/// What was settled for a cut: the summary in its digest; none = the extract alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Settled(pub Option<Summary>);

/// What was shown for an answer, kept for `trace_days`, for `explain`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Shown {
    /// The answer's exchange.
    pub exchange: ExchangeId,
    /// When the request arrived.
    pub at: Time,
    /// The model that the client asked for.
    pub model: String,
    /// The target that answered, as `provider/model`.
    pub target: String,
    /// The memory outcome, as in the response header.
    pub memory: String,
    /// The context figures, as in the response header.
    pub context: String,
    /// Why each thing was shown, and the blocks themselves; a JSON object.
    pub detail: serde_json::Value,
    /// Whether the reply ended as it should.
    pub complete: bool,
}

/// What people think of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Signal {
    /// It was right, and so was what was shown for it.
    Good,
    /// It was not.
    Bad,
}

impl Signal {
    /// By how much it moves the score of an episode that was shown: doubt weighs more than praise, which most answers never get.
    #[must_use]
    pub fn moves(self) -> f64 {
        match self {
            Self::Good => 0.1,
            Self::Bad => -0.2,
        }
    }
}

/// Which exchanges a worker wants.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Names the worker; fences its lease.
    pub owner: String,
    /// Now.
    pub now: Time,
    /// How long the lease lasts.
    pub lease: Duration,
    /// At most so many.
    pub max: u32,
}

/// One leased exchange.
#[derive(Clone, Debug)]
pub struct Claimed {
    /// What was said.
    pub turn: Turn,
    /// How often it was tried before.
    pub attempts: u32,
}

/// What one exchange taught.
#[derive(Clone, Debug)]
pub struct Learned {
    /// The exchange; its outbox row is deleted.
    pub exchange: ExchangeId,
    /// Whether what was said in it stays, as a raw exchange.
    pub keep: bool,
    /// Whose it is.
    pub scope: Scope,
    /// The epoch in which the exchange began.
    pub epoch: i64,
    /// Names the user turn, in hex: retries and tool loops share it.
    pub turn_key: String,
    /// Whether this is the user's side (facts, and episodes of role `user`), to be learned once per `turn_key` in 10 minutes.
    pub user_side: bool,
    /// Scope revision on which it was decided.
    pub revision: i64,
    /// When.
    pub now: Time,
    /// Changes of facts.
    pub changes: Vec<FactChange>,
    /// New episodes.
    pub episodes: Vec<Episode>,
    /// Everything that was proposed and what became of it.
    pub proposals: Vec<Proposal>,
    /// Facts retired now whose values occur in these older episodes.
    pub marks: Vec<(EpisodeId, FactId)>,
}

/// What became of a [`Learned`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LearnOutcome {
    /// Stored; the scope now has this revision.
    Applied {
        /// The new revision.
        revision: i64,
    },
    /// The same user turn was learned within the last 10 minutes: only the outbox row was deleted, and the assistant's episodes stored.
    Seen {
        /// The new revision.
        revision: i64,
    },
    /// The scope was written in between: nothing was stored, decide again.
    Stale,
    /// The scope was erased since: nothing was stored, the outbox row is gone.
    Erased,
    /// The lease was lost, or the exchange was learned before: nothing was stored.
    NotOurs,
}

/// Why a leased exchange was not learned.
#[derive(Clone, Debug)]
pub struct JobFailure {
    /// When to try again; `None` = never, it goes to the dead letters.
    pub retry_at: Option<Time>,
    /// What went wrong; no user text in it.
    pub error: String,
    /// When it failed.
    pub now: Time,
}

/// How full the outbox is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Depth {
    /// Rows that wait or are being worked on.
    pub waiting: u64,
    /// When the oldest of them was appended.
    pub oldest: Option<Time>,
    /// Rows that were given up.
    pub dead: u64,
}

/// Revision and epoch of a scope.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScopeState {
    /// Grows by one with every change of facts or episodes.
    pub revision: i64,
    /// Grows by one with every erasure.
    pub epoch: i64,
}

/// Which facts.
#[derive(Clone, Debug, Default)]
pub struct FactFilter {
    /// Only this key, or with a trailing `.*` all below it.
    pub key: Option<String>,
    /// Only this status.
    pub status: Option<FactStatus>,
    /// Only current ones (active and contested).
    pub current: bool,
}

/// Which episodes.
#[derive(Clone, Debug, Default)]
pub struct EpisodeFilter {
    /// Only this status.
    pub status: Option<EpisodeStatus>,
    /// Only of this session.
    pub session: Option<String>,
}

/// A piece of a listing.
#[derive(Clone, Debug)]
pub struct Page {
    /// Only rows behind this id (its text form).
    pub after: Option<String>,
    /// At most so many rows.
    pub limit: u32,
}

impl Page {
    /// The first `limit` rows.
    #[must_use]
    pub fn first(limit: u32) -> Self {
        Self { after: None, limit }
    }
}

/// What became of a proposal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProposalStatus {
    /// It changed a fact.
    Accepted,
    /// The gate or arbitration refused it.
    Refused,
    /// Held back.
    Quarantined,
}

/// Something that was proposed, and what became of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Proposal {
    /// Names it.
    pub id: ProposalId,
    /// From which exchange.
    pub exchange: Option<ExchangeId>,
    /// When.
    pub at: Time,
    /// What was proposed.
    pub candidate: Candidate,
    /// What became of it.
    pub status: ProposalStatus,
    /// Why.
    pub reason: String,
    /// The fact that it changed.
    pub fact: Option<FactId>,
}

/// What an erasure took away.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Erased {
    /// Rows per kind: `facts`, `history`, `episodes`, `outbox`, `dead_letters`, `proposals`, `states`, `digests`,
    /// `exchanges`, `window_turns`, `windows`, `vectors` (of every generation); under `usage` the rows that no longer say for whom they
    /// were.
    pub counts: BTreeMap<&'static str, u64>,
    /// Whether nothing is left to do: nothing of it is found any more, and no file of an embedded store holds the erased bytes.
    pub complete: bool,
    /// What physically remains on servers, and until when; empty for the embedded store.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remains: Vec<&'static str>,
    /// The scope's new epoch.
    pub epoch: i64,
}

/// SHA-256 of a key's secret.
pub type KeyHash = [u8; 32];

/// A virtual key that was made at run time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredKey {
    /// Names it; not the key itself.
    pub id: KeyId,
    /// What people call it.
    pub name: String,
    /// Whose it is.
    pub tenant: String,
    /// What it may do: a JSON object of the settings of a `[[keys]]` table.
    pub settings: String,
    /// When it was made.
    pub created_at: Time,
    /// When it ends by itself.
    pub expires_at: Option<Time>,
    /// When it was revoked.
    pub revoked_at: Option<Time>,
    /// When it was last used, to within a minute.
    pub last_used_at: Option<Time>,
}

/// What was learned about one upstream target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetRecord {
    /// The target, as `provider/model`.
    pub target: String,
    /// Grows by one with every write; 0 = never written.
    pub revision: i64,
    /// When it was written.
    pub at: Time,
    /// What was learned, as JSON; its owner reads it.
    pub body: String,
}
