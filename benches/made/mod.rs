//! Made-up conversations, and questions about them.

use std::sync::Arc;

use backstory::base::{EpisodeId, Time};
use backstory::memory::{Episode, Scope, Sensitivity, Speaker};
use backstory::recall::{Exclude, Query};

/// When a turn was said: one a minute.
pub(crate) fn said_at(number: i64) -> Time {
    Time(1_700_000_000_000 + number * 60_000)
}

/// A turn of a conversation of two, 20 turns a session.
pub(crate) fn episode(id: EpisodeId, number: i64, text: String) -> Episode {
    let role = if number % 2 == 0 { Speaker::User } else { Speaker::Assistant };
    Episode {
        session: format!("session {}", number / 20),
        position: number % 20,
        message_hash: format!("{number:064x}"),
        ..Episode::said(id, text, role, said_at(number))
    }
}

/// A question, asked long after all turns.
pub(crate) fn question(scope: Scope, text: String) -> Query {
    Query {
        scopes: vec![scope],
        text,
        before: None,
        now: Time(1_800_000_000_000),
        max_sensitivity: Sensitivity::Sensitive,
        exclude: Exclude::default(),
        said: Arc::default(),
        max_episodes: 5,
        vector: None,
    }
}
