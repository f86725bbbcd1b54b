//! A fact: a keyed, typed, current value, and where it came from.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::turn::Speaker;
use crate::base::{ExchangeId, FactId, Time};

/// A fact and its bookkeeping. Both times are kept: when it was true, when we knew.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fact {
    /// Names this fact; a superseding value is a new fact that points back by `supersedes`.
    pub id: FactId,
    /// The key, as in `diet.allergy`; from the key schema, or `note.*`.
    pub key: String,
    /// The value: a JSON scalar (string, number, boolean) in nearly all cases.
    pub value: Value,
    /// What sort of thing it is.
    pub kind: FactKind,
    /// Whether the key holds one value or a set.
    pub cardinality: Cardinality,
    /// Where it came from.
    pub source_type: SourceType,
    /// How far the source is trusted for it, 0 to 1.
    pub source_confidence: f64,
    /// Its strength before fading, 0 to 1.
    pub score: f64,
    /// Seconds in which its weight halves; 0 = does not fade.
    pub half_life: i64,
    /// Since when it is true.
    pub valid_from: Time,
    /// Until when it was true; `None` while it is.
    pub valid_to: Option<Time>,
    /// When it was said: what arbitration orders by.
    pub said_at: Time,
    /// When it was last stated or confirmed.
    pub confirmed_at: Time,
    /// How often it was stated.
    pub seen: u32,
    /// When we learned it.
    pub recorded_at: Time,
    /// When we stopped holding it.
    pub retired_at: Option<Time>,
    /// Where it stands.
    pub status: FactStatus,
    /// Locked by a person: no proposal moves it.
    pub locked: bool,
    /// Who may see it.
    pub sensitivity: Sensitivity,
    /// Retired only by an explicit retraction or a person; always shown.
    pub critical: bool,
    /// Free labels.
    pub tags: Vec<String>,
    /// The words it rests on.
    pub evidence: Vec<Evidence>,
    /// BCP 47 language of the value, as in `en` or `zh`.
    pub language: String,
    /// Whom it is about, when not the subject: such facts are never shown as the subject's own.
    pub about: Option<String>,
    /// The fact whose place it took.
    pub supersedes: Option<FactId>,
    /// Counts changes of this fact; the precondition of an edit.
    pub version: i64,
}

impl Fact {
    /// Its strength at `now`: `score × 2^(−age / half_life)`, with the age since it was last confirmed.
    #[must_use]
    pub fn weight(&self, now: Time) -> f64 {
        if self.half_life <= 0 {
            return self.score;
        }
        let age = now.since(self.confirmed_at) as f64 / 1000.0;
        self.score * (-age / self.half_life as f64).exp2()
    }

    /// The value as one line of text, as it is shown.
    #[must_use]
    pub fn value_text(&self) -> String {
        match &self.value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        }
    }

    /// Whether it is current: active or waiting for a person, and about the subject or someone they know.
    #[must_use]
    pub fn is_current(&self) -> bool {
        matches!(self.status, FactStatus::Active | FactStatus::Contested)
    }
}

/// What sort of thing a fact is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the names say it")]
pub enum FactKind {
    Preference,
    Identity,
    Constraint,
    Event,
    Other,
}

/// Whether a key holds one value or a set of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cardinality {
    /// A new value takes the place of the old one.
    One,
    /// A new value joins the others.
    Many,
}

/// Where a fact came from; in ascending order of trust where two disagree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceType {
    /// A built-in default.
    SystemDefault,
    /// Concluded, not said; expires in 7 days unless confirmed, never in the profile.
    Inferred,
    /// Read from a document.
    FileUpload,
    /// Said by the subject.
    UserStated,
    /// Written by an app through the memory API.
    ApiResponse,
    /// Said or confirmed explicitly by the subject.
    UserConfirmed,
    /// Written by an operator.
    Operator,
}

impl SourceType {
    /// The confidence that a source starts with.
    #[must_use]
    pub fn starting_confidence(self) -> f64 {
        match self {
            Self::SystemDefault => 0.3,
            Self::Inferred => 0.4,
            Self::FileUpload => 0.5,
            Self::UserStated => 0.7,
            Self::ApiResponse => 0.9,
            Self::UserConfirmed => 0.95,
            Self::Operator => 1.0,
        }
    }
}

/// Where a fact stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FactStatus {
    /// Current.
    Active,
    /// Replaced by a newer value, or retracted.
    Superseded,
    /// Disputed; waiting for a person.
    Contested,
    /// Held back: it gives orders to the assistant.
    Quarantined,
    /// Ran out.
    Expired,
}

/// Who may see a fact; ordered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sensitivity {
    /// Anyone who serves the subject.
    #[default]
    Normal,
    /// Identifies or locates the person.
    Personal,
    /// Health and the like.
    Sensitive,
}

/// The words a memory rests on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// The exchange in which they were said; none for what came by API.
    pub exchange: Option<ExchangeId>,
    /// Content hash of the message, in hex.
    pub message_hash: String,
    /// The words, verbatim (secrets redacted).
    pub quote: String,
    /// Who said them.
    pub role: Speaker,
    /// When.
    pub said_at: Time,
}
