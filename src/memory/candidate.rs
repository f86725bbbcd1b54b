//! A candidate: what a proposer would like to be remembered. Nothing is stored before the gate and arbitration agree.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::fact::{Evidence, FactKind, SourceType};
use crate::base::Time;

/// Who proposed a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProposedBy {
    /// The built-in rules.
    Rules,
    /// The extraction model.
    Model,
    /// An app or a person, through the API.
    Api,
}

/// What a candidate wants to do to its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Intent {
    /// "I live in Oslo": the value holds.
    State,
    /// "I moved to Rome", "no, it's …", "改成": an explicit first-person change; counts as confirmed.
    Change,
    /// "I sold the car", "I am no longer allergic to …": this value holds no more.
    Retract,
    /// "forget my address": the key, or all values like this one, go.
    Forget,
}

/// A proposed fact.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// The key, as in `location.home`; unknown keys become `note.*` in the gate.
    pub key: String,
    /// The value.
    pub value: Value,
    /// What sort of thing it is.
    pub kind: FactKind,
    /// What it wants to do to its key.
    pub intent: Intent,
    /// Where it comes from.
    pub source_type: SourceType,
    /// How sure the proposer is, 0 to 1.
    pub confidence: f64,
    /// The words it rests on.
    pub evidence: Evidence,
    /// Whom it is about, when not the subject.
    pub about: Option<String>,
    /// Since when it is true, when the words say so.
    pub valid_from: Option<Time>,
    /// Until when it is true, when the words say so.
    pub valid_to: Option<Time>,
    /// Whether it is meant to last; fleeting things do not become facts.
    pub lasting: bool,
    /// Free labels.
    pub tags: Vec<String>,
    /// Names of people, places and products in it.
    pub entities: Vec<String>,
    /// BCP 47 language of the value.
    pub language: String,
    /// Who proposed it.
    pub by: ProposedBy,
}

impl Candidate {
    /// What the rules propose of a plain statement in English: this value holds, and is meant to last.
    #[must_use]
    pub fn stated(key: impl Into<String>, value: impl Into<Value>, evidence: Evidence) -> Self {
        Self {
            key: key.into(),
            value: value.into(),
            kind: FactKind::Other,
            intent: Intent::State,
            source_type: SourceType::UserStated,
            confidence: 0.7,
            evidence,
            about: None,
            valid_from: None,
            valid_to: None,
            lasting: true,
            tags: Vec::new(),
            entities: Vec::new(),
            language: "en".to_owned(),
            by: ProposedBy::Rules,
        }
    }
}
