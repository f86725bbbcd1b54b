//! Changes of facts and episodes as rows: collected first, then written in one statement a table.

use std::collections::HashMap;

use serde_json::Value;
use sqlx::SqliteConnection;

use super::error::driver;
use super::row::{Bodies, Place, json, name, parse, rows};
use crate::base::{EpisodeId, FactId, ProposalId, Time};
use crate::memory::{Episode, FactChange, HistoryEntry};
use crate::store::{Proposal, StoreError};

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

const VERSIONS: &str = "
    SELECT f.id, f.scope, f.version, f.body -> '$.value' FROM json_each(?1) j CROSS JOIN facts f ON f.id = j.value";

impl StoredFacts {
    /// Reads the facts that the changes are about.
    pub(super) async fn load(
        conn: &mut SqliteConnection,
        changes: impl Iterator<Item = &FactChange>,
    ) -> Result<Self, StoreError> {
        let ids: Vec<FactId> = changes.map(|c| c.fact.id).collect();
        if ids.is_empty() {
            return Ok(Self::default());
        }
        let found: Vec<(String, i64, i64, String)> =
            sqlx::query_as(VERSIONS).bind(rows(&ids)).fetch_all(conn).await.map_err(driver("read versions"))?;
        let mut facts = HashMap::with_capacity(found.len());
        for (id, scope, version, value) in found {
            let value = parse("facts", &id, &value)?;
            facts.insert(fact_id("facts", &id)?, Stored { scope, version, value });
        }
        Ok(Self(facts))
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
/// Id, scope, session, status, body, uses, last used at, retired facts.
type EpisodeRow = (EpisodeId, i64, String, String, Place, u32, Option<Time>, String);
/// Id, scope, status, fact, at, body.
type ProposalRow = (ProposalId, i64, String, Option<FactId>, Time, Place);

/// Rows to write, one list a table.
#[derive(Debug, Default)]
pub(super) struct Writes {
    facts: Vec<FactRow>,
    history: Vec<HistoryRow>,
    episodes: Vec<EpisodeRow>,
    marks: HashMap<(i64, EpisodeId), Vec<FactId>>,
    proposals: Vec<ProposalRow>,
    bodies: Bodies,
}

const PUT_FACTS: &str = "
    INSERT INTO facts (id, scope, key, status, version, body)
    SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4,
           CAST(substr(?2, value ->> '$[5][0]', value ->> '$[5][1]') AS TEXT)
    FROM json_each(?1) WHERE true
    ON CONFLICT (id) DO UPDATE
    SET key = excluded.key, status = excluded.status, version = excluded.version, body = excluded.body
    WHERE facts.scope = excluded.scope";

const PUT_HISTORY: &str = "
    INSERT INTO history (fact, version, scope, body)
    SELECT value ->> 0, value ->> 1, value ->> 2, CAST(substr(?2, value ->> '$[3][0]', value ->> '$[3][1]') AS TEXT)
    FROM json_each(?1)";

const PUT_EPISODES: &str = "
    INSERT INTO episodes (id, scope, session, status, body, uses, last_used_at, retired_facts)
    SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3,
           CAST(substr(?2, value ->> '$[4][0]', value ->> '$[4][1]') AS TEXT), value ->> 5, value ->> 6, value ->> 7
    FROM json_each(?1) WHERE true
    ON CONFLICT (id) DO UPDATE
    SET session = excluded.session, status = excluded.status, body = excluded.body, uses = excluded.uses,
        last_used_at = excluded.last_used_at, retired_facts = excluded.retired_facts
    WHERE episodes.scope = excluded.scope";

/// One row per episode in the array: `UPDATE FROM` takes only one of several that match.
const MARK_EPISODES: &str = "
    UPDATE episodes SET retired_facts = (
        SELECT json_group_array(fact) FROM (
            SELECT value AS fact FROM json_each(episodes.retired_facts)
            UNION SELECT value FROM json_each(j.value -> 2)))
    FROM json_each(?1) j WHERE episodes.id = j.value ->> 1 AND episodes.scope = j.value ->> 0";

const PUT_PROPOSALS: &str = "
    INSERT INTO proposals (id, scope, status, fact, at, body)
    SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4,
           CAST(substr(?2, value ->> '$[5][0]', value ->> '$[5][1]') AS TEXT)
    FROM json_each(?1) WHERE true
    ON CONFLICT (id) DO NOTHING";

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
        let body = self.bodies.add(episode);
        self.episodes.push((
            episode.id,
            scope,
            episode.session.clone(),
            name(&episode.status),
            body,
            episode.uses,
            episode.last_used_at,
            json(&episode.retired_facts),
        ));
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
    pub(super) async fn run(self, conn: &mut SqliteConnection) -> Result<(), StoreError> {
        let stored = put(conn, PUT_FACTS, "store facts", &self.facts, &self.bodies).await?;
        expect_all("a fact of another scope", stored, self.facts.len())?;
        put(conn, PUT_HISTORY, "store history", &self.history, &self.bodies).await?;
        let stored = put(conn, PUT_EPISODES, "store episodes", &self.episodes, &self.bodies).await?;
        expect_all("an episode of another scope", stored, self.episodes.len())?;
        let marks: Vec<_> = self.marks.into_iter().map(|((scope, episode), facts)| (scope, episode, facts)).collect();
        execute(conn, MARK_EPISODES, "mark episodes", &marks).await?;
        put(conn, PUT_PROPOSALS, "store proposals", &self.proposals, &self.bodies).await?;
        Ok(())
    }
}

/// Runs a statement over rows whose bodies stand among `bodies`; returns how many it changed.
async fn put<T: serde::Serialize>(
    conn: &mut SqliteConnection,
    sql: &'static str,
    doing: &'static str,
    data: &[T],
    bodies: &Bodies,
) -> Result<u64, StoreError> {
    if data.is_empty() {
        return Ok(0);
    }
    let query = sqlx::query(sql).bind(rows(data)).bind(&bodies.0[..]);
    Ok(query.execute(conn).await.map_err(driver(doing))?.rows_affected())
}

/// Runs a statement over rows; returns how many it changed.
pub(super) async fn execute<T: serde::Serialize>(
    conn: &mut SqliteConnection,
    sql: &'static str,
    doing: &'static str,
    data: &[T],
) -> Result<u64, StoreError> {
    if data.is_empty() {
        return Ok(0);
    }
    let done = sqlx::query(sql).bind(rows(data)).execute(conn).await.map_err(driver(doing))?;
    Ok(done.rows_affected())
}

fn expect_all(what: &str, changed: u64, rows: usize) -> Result<(), StoreError> {
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
