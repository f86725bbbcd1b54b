//! The lines of an export: one JSON object each, the same for export, import and copies.
//!
//! The first line is a [`Line::Header`], the last one a [`Line::End`] that counts what came before: an export without it was
//! cut short. Facts come with their whole history, times are milliseconds since 1970.

use serde::{Deserialize, Serialize};

use super::change::HistoryEntry;
use super::episode::Episode;
use super::fact::Fact;
use super::scope::Scope;
use super::turn::Speaker;
use crate::base::Time;

/// The version of the format. A reader refuses a higher one.
pub const VERSION: u32 = 1;

/// One line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Line {
    /// What this is.
    Header {
        /// Always `backstory`.
        format: String,
        /// [`VERSION`] of the program that wrote it.
        version: u32,
        /// Where it comes from, as [`origin`] says: what goes back there keeps its ids.
        origin: String,
        /// When.
        exported_at: Time,
    },
    /// A fact and how it came to be.
    Fact {
        /// As it is now: the same as in the last row of `history`.
        fact: Box<Fact>,
        /// Oldest first.
        history: Vec<HistoryEntry>,
    },
    /// An episode.
    Episode {
        /// As it is now.
        episode: Box<Episode>,
    },
    /// A memory of another product, in its own words.
    Note {
        /// The words.
        text: String,
        /// Since when.
        said_at: Option<Time>,
        /// Free labels.
        #[serde(default)]
        tags: Vec<String>,
    },
    /// One side of an exchange with another product.
    Said {
        /// Who said it.
        role: Speaker,
        /// What.
        text: String,
        /// When.
        said_at: Option<Time>,
        /// Names the conversation.
        session: String,
        /// Place in it.
        position: i64,
    },
    /// Nothing is missing.
    End {
        /// Lines of facts before it.
        facts: u64,
        /// Lines of episodes before it.
        episodes: u64,
    },
}

impl Line {
    /// The first line of an export of `scope`.
    #[must_use]
    pub fn header(scope: &Scope, now: Time) -> Self {
        Self::Header { format: "backstory".to_owned(), version: VERSION, origin: origin(scope), exported_at: now }
    }

    /// The line as text, with its line break.
    #[must_use]
    pub fn encode(&self) -> String {
        let mut text = serde_json::to_string(self).expect("lines have string keys and no failing serialiser");
        text.push('\n');
        text
    }
}

/// Names a scope without telling its names: a hash of all three.
#[must_use]
pub fn origin(scope: &Scope) -> String {
    let mut hasher = blake3::Hasher::new();
    for name in [&scope.tenant, &scope.namespace, &scope.subject] {
        hasher.update(&(name.len() as u64).to_le_bytes());
        hasher.update(name.as_bytes());
    }
    hasher.finalize().to_hex()[..32].to_owned()
}
