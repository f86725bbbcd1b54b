//! What changed, for devices that keep a copy.

use axum::extract::State;
use serde::Deserialize;
use serde_json::{Value, json};

use super::call::{Filter, Read};
use super::error::{Answer, ApiError};
use super::listing::checked_limit;
use super::{Shared, render};
use crate::base::Time;
use crate::store::{Change, Changed};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ChangeQuery {
    limit: Option<u32>,
    cursor: Option<String>,
}

/// `GET /changes`: all changes of the scope behind the cursor, oldest first. `next` goes on behind the last one; at the end it
/// is `null`, and the cursor of before is the one to come back with.
pub(super) async fn list(State(api): State<Shared>, call: Read, Filter(query): Filter<ChangeQuery>) -> Answer {
    let limit = checked_limit(query.limit)?;
    let mut after = match query.cursor.as_deref() {
        None => 0,
        Some(text) => {
            Cursor::parse(text).ok_or_else(|| ApiError::bad("cursor", "is not the `next` of an earlier list"))?.seq
        }
    };
    loop {
        let rows = api.store.changes(&call.scope, after, limit).await?;
        let full = rows.len() >= limit as usize;
        let next = rows.last().map(|last| Cursor { at: last.at, seq: last.seq });
        let data: Vec<Value> = rows.iter().filter(|change| sees(&call, change)).map(render_change).collect();
        match next {
            // A piece of which this caller may see nothing is not the end.
            Some(cursor) if data.is_empty() && full => after = cursor.seq,
            next => return Ok(render::ok(&json!({ "data": data, "next": next.map(|cursor| cursor.to_string()) }))),
        }
    }
}

fn sees(call: &Read, change: &Change) -> bool {
    match &change.what {
        Changed::Fact(entry) => call.caller.sees(entry.fact.sensitivity),
        Changed::Episode(episode) => call.caller.sees(episode.sensitivity),
        Changed::FactGone(_) | Changed::EpisodeGone(_) | Changed::Erased => true,
    }
}

fn render_change(change: &Change) -> Value {
    let mut shown = match &change.what {
        Changed::Fact(entry) => json!({
            "type": "fact",
            "id": entry.fact_id,
            "action": entry.action,
            "version": entry.version,
            "actor": entry.actor,
            "reason": entry.reason,
            "previous_value": entry.previous_value,
            "fact": render::object(&entry.fact),
        }),
        Changed::FactGone(id) => json!({ "type": "fact", "id": id, "action": "delete" }),
        Changed::Episode(episode) => {
            json!({ "type": "episode", "id": episode.id, "action": "put", "episode": render::object(episode) })
        }
        Changed::EpisodeGone(id) => json!({ "type": "episode", "id": id, "action": "delete" }),
        Changed::Erased => json!({ "type": "subject", "id": null, "action": "erase" }),
    };
    shown["at"] = change.at.to_rfc3339().into();
    shown["cursor"] = Cursor { at: change.at, seq: change.seq }.to_string().into();
    shown
}

/// A place among the changes: a time, for people who read it, and the number that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cursor {
    at: Time,
    seq: i64,
}

impl Cursor {
    fn parse(text: &str) -> Option<Self> {
        let (at, seq) = text.split_once('-')?;
        let number = |text: &str| i64::from_str_radix(text, 16).ok().filter(|n| *n >= 0);
        Some(Self { at: Time(number(at)?), seq: number(seq)? })
    }
}

impl std::fmt::Display for Cursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:x}-{:x}", self.at.0.max(0), self.seq)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_reads_back_and_nonsense_is_none() {
        let cursor = Cursor { at: Time(1_760_000_000_000), seq: 4711 };
        assert_eq!(Cursor::parse(&cursor.to_string()), Some(cursor));
        for bad in ["", "-", "1", "x-1", "1-x", "1--1", "1-ffffffffffffffff", "fact_1"] {
            assert_eq!(Cursor::parse(bad), None, "{bad}");
        }
    }
}
