//! An episode: something that happened, as text, found by similarity.

use serde::{Deserialize, Serialize};

use super::fact::Sensitivity;
use super::turn::Speaker;
use crate::base::{EpisodeId, ExchangeId, FactId, Time};

/// What a memory of these words starts with, before anybody thought well or ill of it: a reply is not the user's own word.
#[must_use]
pub fn first_score(role: Speaker) -> f64 {
    match role {
        Speaker::Assistant => 0.6,
        Speaker::User | Speaker::Tool | Speaker::Other => 1.0,
    }
}

/// One side of one event. User turns and assistant turns are episodes of their own, joined by `session` and `position`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Episode {
    /// Names this episode.
    pub id: EpisodeId,
    /// What was said, at most 500 tokens: key data kept, no code blocks, no pasted documents, secrets redacted.
    pub text: String,
    /// What it is.
    pub kind: EpisodeKind,
    /// Whose words it is made of.
    pub role: Speaker,
    /// The speaker's name, where one is known (chats between named people).
    pub speaker: Option<String>,
    /// The conversation it belongs to: neighbours and sessions are found by it.
    pub session: String,
    /// Place in the session; the user's side of turn `n` is `2n`, the reply `2n + 1`.
    pub position: i64,
    /// When it was said.
    pub said_at: Time,
    /// When we stored it.
    pub recorded_at: Time,
    /// Free labels.
    pub tags: Vec<String>,
    /// Names of people, places and products in it.
    pub entities: Vec<String>,
    /// The exchange it came from; none for what came by API or import.
    pub exchange: Option<ExchangeId>,
    /// Content hash of the message it came from, in hex.
    pub message_hash: String,
    /// Its strength before fading, 0 to 1.
    pub score: f64,
    /// Seconds in which its weight halves; 0 = does not fade.
    pub half_life: i64,
    /// How often it was shown.
    pub uses: u32,
    /// When it was last shown.
    pub last_used_at: Option<Time>,
    /// Where it stands.
    pub status: EpisodeStatus,
    /// Who may see it.
    pub sensitivity: Sensitivity,
    /// Facts it mentions whose value is no longer true: it is not shown any more, or marked.
    pub retired_facts: Vec<FactId>,
}

impl Episode {
    /// Words, as they stand when nothing more is known of them: alone, of no message, to be recalled, and never fading.
    #[must_use]
    pub fn said(id: EpisodeId, text: impl Into<String>, role: Speaker, said_at: Time) -> Self {
        Self {
            id,
            text: text.into(),
            kind: EpisodeKind::Exchange,
            role,
            speaker: None,
            session: String::new(),
            position: 0,
            said_at,
            recorded_at: said_at,
            tags: Vec::new(),
            entities: Vec::new(),
            exchange: None,
            message_hash: String::new(),
            score: first_score(role),
            half_life: 0,
            uses: 0,
            last_used_at: None,
            status: EpisodeStatus::Active,
            sensitivity: Sensitivity::Normal,
            retired_facts: Vec::new(),
        }
    }
}

/// What an episode is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EpisodeKind {
    /// One side of an exchange, in its own words.
    Exchange,
    /// Something that happened, as told by an app through the memory API or by a model.
    Event,
    /// A summary of several.
    Summary,
}

/// Where an episode stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EpisodeStatus {
    /// Can be recalled.
    Active,
    /// Kept, not recalled.
    Archived,
    /// Held back: it gives orders to the assistant.
    Quarantined,
}
