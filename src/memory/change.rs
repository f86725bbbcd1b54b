//! What arbitration decided, and the history that explains it.

use serde::{Deserialize, Serialize};

use super::fact::Fact;
use crate::base::{ExchangeId, FactId, Time};

/// What happened to a fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// A new fact.
    Insert,
    /// The same value, said again.
    Reinforce,
    /// It took the place of another (on the new fact), or lost it (on the old one).
    Supersede,
    /// It disagrees with another and waits for a person.
    Contest,
    /// Taken back, or forgotten on request.
    Retire,
    /// Changed by a person or an app.
    Edit,
    /// Confirmed by a person.
    Confirm,
    /// Locked by a person.
    Lock,
    /// Unlocked by a person.
    Unlock,
    /// Held back.
    Quarantine,
    /// Ran out.
    Expire,
    /// An earlier value was brought back.
    Restore,
    /// Two facts that were one became one.
    Merge,
}

/// Who made a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Actor {
    /// The rules, from what the user said.
    Rules,
    /// The extraction model's proposal, accepted by the rules.
    Model,
    /// An app through the memory API.
    Api,
    /// An operator.
    Operator,
    /// The sweep that expires and merges.
    Sweep,
}

/// One change of one fact: its new state and why.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FactChange {
    /// What happened.
    pub action: Action,
    /// The fact as it is after the change; `version` is already the new one.
    pub fact: Fact,
    /// The fact's version before the change; `None` for an insert. A store refuses the change when it differs.
    pub expected_version: Option<i64>,
    /// Who made it.
    pub actor: Actor,
    /// Why, in a short sentence for people.
    pub reason: String,
    /// The exchange that led to it.
    pub exchange: Option<ExchangeId>,
    /// When.
    pub at: Time,
}

/// One row of a fact's append-only history.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HistoryEntry {
    /// The fact.
    pub fact_id: FactId,
    /// Its version after the change.
    pub version: i64,
    /// What happened.
    pub action: Action,
    /// Who made it.
    pub actor: Actor,
    /// Why.
    pub reason: String,
    /// From which exchange.
    pub exchange: Option<ExchangeId>,
    /// When.
    pub at: Time,
    /// The fact as it was after the change.
    pub fact: Fact,
    /// The value it had before, if it had one.
    pub previous_value: Option<serde_json::Value>,
}
