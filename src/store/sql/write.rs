//! What is to be stored, as rows: collected first, then written in one statement a table.
//!
//! What every exchange leaves (its episodes, its turn, what was shown, itself while it waits) goes into one script with its values bound one by
//! one. What few leave (facts, history, proposals, marks) travels as one JSON array a table.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;

use serde_json::Value;

use super::episodes::mark_each;
use super::error::driver;
use super::query::{query, query_as};
use super::row::{Bodies, Place, json, name, parse, rows};
use super::session::Tx;
use super::text::Sql;
use super::{postgres, sqlite};
use crate::base::{EpisodeId, ExchangeId, FactId, ProposalId, Time};
use crate::memory::{Episode, FactChange, HistoryEntry};
use crate::store::{Proposal, Shown, StoreError, UsageRow};

/// What is stored of a fact that is about to be changed.
#[derive(Clone, Debug)]
pub(super) struct Stored {
    scope: i64,
    version: i64,
    value: Value,
}

/// The stored facts that a write is about, kept up to date while changes are added.
#[derive(Debug, Default)]
pub(super) struct StoredFacts(HashMap<FactId, Stored>);

/// Id, scope, version, value.
pub(super) static VERSIONS: Sql = Sql::pair(
    "SELECT f.id, f.scope, f.version, f.body -> '$.value' FROM json_each(?1) j CROSS JOIN facts f ON f.id = j.value",
    "SELECT f.id, f.scope, f.version, (f.body::json -> 'value')::text FROM each_text(?1) j JOIN facts f ON f.id = j.value",
);

/// Id, scope, version, value as JSON.
pub(super) type VersionRow = (String, i64, i64, String);

impl StoredFacts {
    /// Reads the facts that the changes are about.
    pub(super) async fn load(conn: &mut Tx, changes: impl Iterator<Item = &FactChange>) -> Result<Self, StoreError> {
        let ids: Vec<FactId> = changes.map(|c| c.fact.id).collect();
        if ids.is_empty() {
            return Ok(Self::default());
        }
        let found: Vec<VersionRow> =
            query_as(&VERSIONS).bind(rows(&ids)).fetch_all(conn).await.map_err(driver("read versions"))?;
        let mut facts = Self::default();
        for row in found {
            facts.read(row)?;
        }
        Ok(facts)
    }

    /// Takes in a row of id, scope, version and value.
    pub(super) fn read(&mut self, (id, scope, version, value): VersionRow) -> Result<(), StoreError> {
        let value = parse("facts", &id, &value)?;
        self.0.insert(fact_id("facts", &id)?, Stored { scope, version, value });
        Ok(())
    }

    /// Whether all changes, in order, meet the versions that they expect.
    pub(super) fn admits(&self, scope: i64, changes: &[FactChange]) -> bool {
        let mut ahead: HashMap<FactId, i64> = HashMap::new();
        changes.iter().all(|change| {
            let stored = self.0.get(&change.fact.id);
            let mine = stored.is_none_or(|s| s.scope == scope);
            let found = ahead.get(&change.fact.id).copied().or(stored.map(|s| s.version));
            ahead.insert(change.fact.id, change.fact.version);
            mine && found == change.expected_version
        })
    }

    /// The first fact whose change is not admitted, for the error's text.
    pub(super) fn culprit(&self, scope: i64, changes: &[FactChange]) -> Option<FactId> {
        (1..=changes.len()).find(|&n| !self.admits(scope, &changes[..n])).map(|n| changes[n - 1].fact.id)
    }
}

/// Id, scope, key, status, version, body.
type FactRow = (FactId, i64, String, String, i64, Place);
/// Fact, version, scope, body.
type HistoryRow = (FactId, i64, i64, Place);
/// Id, scope, status, fact, at, body.
type ProposalRow = (ProposalId, i64, String, Option<FactId>, Time, Place);

/// Where a turn is kept: the number of its scope, and its name there.
pub(super) type TurnPlace = (i64, [u8; 32]);

/// A user turn: what was fixed for it, and when it was learned from, as far as this write says so.
#[derive(Debug)]
pub(super) struct TurnRow {
    pub(super) place: TurnPlace,
    /// What the state rests on; below every real one when there is no state.
    pub(super) revision: i64,
    pub(super) learned_at: Option<Time>,
    pub(super) expires_at: Time,
    /// Empty when there is no state.
    pub(super) body: String,
}

/// Rows to write, one list a table.
#[derive(Debug, Default)]
pub(super) struct Writes {
    facts: Vec<FactRow>,
    history: Vec<HistoryRow>,
    marks: HashMap<(i64, EpisodeId), Vec<FactId>>,
    proposals: Vec<ProposalRow>,
    /// The bodies of those above.
    bodies: Bodies,
    /// With their scope.
    pub(super) episodes: Vec<(i64, EpisodeRow)>,
    pub(super) turns: Vec<TurnRow>,
    pub(super) shown: Vec<(ExchangeId, i64, Time, String)>,
    pub(super) waiting: Vec<(ExchangeId, i64, Time, String)>,
    pub(super) usage: Vec<UsageRow>,
    pub(super) revisions: Vec<(i64, i64)>,
}

/// An episode, but for its scope.
#[derive(Debug)]
pub(super) struct EpisodeRow {
    pub(super) id: EpisodeId,
    pub(super) session: String,
    pub(super) status: String,
    pub(super) body: String,
    pub(super) uses: u32,
    pub(super) last_used_at: Option<Time>,
    pub(super) retired_facts: String,
}

/// What happens after the rows are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    /// The transaction goes on.
    Stay,
    /// It is committed.
    Commit,
}

/// A body stands among those of the group, where its row says.
static PUT_FACTS: Sql = Sql::pair(
    "INSERT INTO facts (id, scope, key, status, version, body)
     SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4,
            CAST(substr(?2, value ->> '$[5][0]', value ->> '$[5][1]') AS TEXT)
     FROM json_each(?1) WHERE true
     ON CONFLICT (id) DO UPDATE
     SET key = excluded.key, status = excluded.status, version = excluded.version, body = excluded.body
     WHERE facts.scope = excluded.scope",
    "INSERT INTO facts (id, scope, key, status, version, body)
     SELECT value ->> 0, (value ->> 1)::bigint, value ->> 2, value ->> 3, (value ->> 4)::bigint, body_at(?2, value -> 5)
     FROM each_row(?1)
     ON CONFLICT (id) DO UPDATE
     SET key = excluded.key, status = excluded.status, version = excluded.version, body = excluded.body
     WHERE facts.scope = excluded.scope",
);

static PUT_HISTORY: Sql = Sql::pair(
    "INSERT INTO history (fact, version, scope, body)
     SELECT value ->> 0, value ->> 1, value ->> 2, CAST(substr(?2, value ->> '$[3][0]', value ->> '$[3][1]') AS TEXT)
     FROM json_each(?1)",
    "INSERT INTO history (fact, version, scope, body)
     SELECT value ->> 0, (value ->> 1)::bigint, (value ->> 2)::bigint, body_at(?2, value -> 3) FROM each_row(?1)",
);

static PUT_PROPOSALS: Sql = Sql::pair(
    "INSERT INTO proposals (id, scope, status, fact, at, body)
     SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4,
            CAST(substr(?2, value ->> '$[5][0]', value ->> '$[5][1]') AS TEXT)
     FROM json_each(?1) WHERE true
     ON CONFLICT (id) DO NOTHING",
    "INSERT INTO proposals (id, scope, status, fact, at, body)
     SELECT value ->> 0, (value ->> 1)::bigint, value ->> 2, value ->> 3, (value ->> 4)::bigint, body_at(?2, value -> 5)
     FROM each_row(?1)
     ON CONFLICT (id) DO NOTHING",
);

impl Writes {
    /// Adds a change of a fact with its history. The caller has asked [`StoredFacts::admits`].
    pub(super) fn change(&mut self, scope: i64, change: &FactChange, stored: &mut StoredFacts) {
        let fact = &change.fact;
        let new = Stored { scope, version: fact.version, value: fact.value.clone() };
        let previous_value = stored.0.insert(fact.id, new).map(|s| s.value);
        let entry = HistoryEntry {
            fact_id: fact.id,
            version: fact.version,
            action: change.action,
            actor: change.actor,
            reason: change.reason.clone(),
            exchange: change.exchange,
            at: change.at,
            fact: fact.clone(),
            previous_value,
        };
        let body = self.bodies.add(fact);
        self.facts.push((fact.id, scope, fact.key.clone(), name(&fact.status), fact.version, body));
        let body = self.bodies.add(&entry);
        self.history.push((fact.id, fact.version, scope, body));
    }

    /// Adds a new episode, or a new state of one.
    pub(super) fn episode(&mut self, scope: i64, episode: &Episode) {
        let row = EpisodeRow {
            id: episode.id,
            session: episode.session.clone(),
            status: name(&episode.status),
            body: json(episode),
            uses: episode.uses,
            last_used_at: episode.last_used_at,
            retired_facts: json(&episode.retired_facts),
        };
        self.episodes.push((scope, row));
    }

    /// Adds a turn.
    pub(super) fn turn(&mut self, turn: TurnRow) {
        self.turns.push(turn);
    }

    /// Adds what was shown for an exchange.
    pub(super) fn shown(&mut self, scope: i64, shown: &Shown) {
        self.shown.push((shown.exchange, scope, shown.at, json(shown)));
    }

    /// Adds an exchange that waits to be learned from; `turn` is its body.
    pub(super) fn waiting(&mut self, exchange: ExchangeId, scope: i64, at: Time, turn: String) {
        self.waiting.push((exchange, scope, at, turn));
    }

    /// Adds what an exchange used.
    pub(super) fn usage(&mut self, row: UsageRow) {
        self.usage.push(row);
    }

    /// Sets the revision of a scope.
    pub(super) fn revision(&mut self, scope: i64, revision: i64) {
        self.revisions.push((scope, revision));
    }

    /// Marks an episode as one that mentions a retired fact.
    pub(super) fn mark(&mut self, scope: i64, episode: EpisodeId, fact: FactId) {
        self.marks.entry((scope, episode)).or_default().push(fact);
    }

    /// Adds a proposal.
    pub(super) fn proposal(&mut self, scope: i64, proposal: &Proposal) {
        let body = self.bodies.add(proposal);
        self.proposals.push((proposal.id, scope, name(&proposal.status), proposal.fact, proposal.at, body));
    }

    /// Writes all rows.
    pub(super) async fn run(self, conn: &mut Tx) -> Result<(), StoreError> {
        self.write(conn, Then::Stay).await?;
        Ok(())
    }

    /// Writes all rows. When told so, and where that saves a statement, it commits them; the result says whether it did.
    pub(super) async fn write(mut self, conn: &mut Tx, then: Then) -> Result<Then, StoreError> {
        keep_last(&mut self.facts, |fact| fact.0);
        keep_last(&mut self.episodes, |(_, episode)| episode.id);
        let stored = put(conn, &PUT_FACTS, "store facts", &self.facts, &self.bodies).await?;
        expect_all("a fact of another scope", stored, self.facts.len())?;
        put(conn, &PUT_HISTORY, "store history", &self.history, &self.bodies).await?;
        put(conn, &PUT_PROPOSALS, "store proposals", &self.proposals, &self.bodies).await?;
        // Last, since they may be of episodes that are new.
        let marks = std::mem::take(&mut self.marks);
        let last = if marks.is_empty() { then } else { Then::Stay };
        let done = match conn {
            Tx::Postgres(tx) => {
                postgres::write(tx, self).await?;
                Then::Stay
            }
            Tx::Sqlite(tx) => sqlite::write(tx, self, last).await?,
            Tx::Script(open) => sqlite::write(open.conn(), self, last).await?,
        };
        mark(conn, marks).await?;
        Ok(done)
    }
}

/// Of rows of the same name only the last one stays: a statement sets each row once.
fn keep_last<T, K: Hash + Eq>(rows: &mut Vec<T>, name: impl Fn(&T) -> K) {
    let mut names = HashSet::with_capacity(rows.len());
    if rows.iter().all(|row| names.insert(name(row))) {
        return;
    }
    names.clear();
    rows.reverse();
    rows.retain(|row| names.insert(name(row)));
    rows.reverse();
}

/// Marks episodes with the retired facts that they mention.
async fn mark(conn: &mut Tx, marks: HashMap<(i64, EpisodeId), Vec<FactId>>) -> Result<(), StoreError> {
    let mut by_scope: HashMap<i64, HashMap<EpisodeId, Vec<FactId>>> = HashMap::new();
    for ((scope, episode), facts) in marks {
        by_scope.entry(scope).or_default().insert(episode, facts);
    }
    for (scope, marks) in by_scope {
        let ids: Vec<EpisodeId> = marks.keys().copied().collect();
        let add = |episode, known: &mut Vec<FactId>| {
            let before = known.len();
            for fact in marks.get(&episode).into_iter().flatten() {
                if !known.contains(fact) {
                    known.push(*fact);
                }
            }
            known.len() > before
        };
        mark_each(conn, scope, &ids, add).await?;
    }
    Ok(())
}

/// Runs a statement over rows whose bodies stand among `bodies`; returns how many it changed.
async fn put<T: serde::Serialize>(
    conn: &mut Tx,
    sql: &'static Sql,
    doing: &'static str,
    data: &[T],
    bodies: &Bodies,
) -> Result<u64, StoreError> {
    if data.is_empty() {
        return Ok(0);
    }
    let query = query(sql).bind(rows(data)).bind(&bodies.0[..]);
    Ok(query.execute(conn).await.map_err(driver(doing))?.rows_affected())
}

/// Runs a statement over rows; returns how many it changed.
pub(super) async fn execute<T: serde::Serialize>(
    conn: &mut Tx,
    sql: &'static Sql,
    doing: &'static str,
    data: &[T],
) -> Result<u64, StoreError> {
    if data.is_empty() {
        return Ok(0);
    }
    let done = query(sql).bind(rows(data)).execute(conn).await.map_err(driver(doing))?;
    Ok(done.rows_affected())
}

pub(super) fn expect_all(what: &str, changed: u64, rows: usize) -> Result<(), StoreError> {
    if changed == rows as u64 { Ok(()) } else { Err(StoreError::Conflict { what: what.to_owned() }) }
}

/// Reads a fact's id.
pub(super) fn fact_id(table: &'static str, text: &str) -> Result<FactId, StoreError> {
    text.parse().map_err(|_| StoreError::Inconsistent {
        table,
        column: "id",
        id: text.to_owned(),
        problem: "not the id of a fact".to_owned(),
    })
}
