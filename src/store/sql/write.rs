//! What is to be stored, as rows: collected first, then written in one statement a table.
//!
//! What every exchange leaves (its episodes, its turn, what was shown, itself while it waits) goes into one script with its values bound one by
//! one. What few leave (facts, history, proposals, marks) travels as one JSON array a table.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde_json::Value;
use sqlx::sqlite::SqliteRow;
use sqlx::{Row, SqliteConnection};

use super::error::driver;
use super::row::{Bodies, Place, json, name, parse, rows};
use super::script::{Bound, Table, run, script};
use super::usage;
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

    /// Takes in a row of id, scope, version and value, which stand behind the first column.
    pub(super) fn read(&mut self, row: &SqliteRow) -> Result<(), StoreError> {
        let failed = driver("read versions");
        let (id, value): (&str, &str) = (row.try_get(1).map_err(&failed)?, row.try_get(4).map_err(&failed)?);
        let (scope, version) = (row.try_get(2).map_err(&failed)?, row.try_get(3).map_err(&failed)?);
        let value = parse("facts", id, value)?;
        self.0.insert(fact_id("facts", id)?, Stored { scope, version, value });
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
    episodes: Vec<(i64, EpisodeRow)>,
    turns: Vec<TurnRow>,
    shown: Vec<(ExchangeId, i64, Time, String)>,
    waiting: Vec<(ExchangeId, i64, Time, String)>,
    usage: Vec<UsageRow>,
    revisions: Vec<(i64, i64)>,
}

/// An episode, but for its scope.
#[derive(Debug)]
struct EpisodeRow {
    id: EpisodeId,
    session: String,
    status: String,
    body: String,
    uses: u32,
    last_used_at: Option<Time>,
    retired_facts: String,
}

/// What every exchange leaves. The order is that of [`Writes::bind`]. `OR FAIL`: a statement that fails need not be undone by itself, so SQLite
/// keeps no journal for it; the transaction is undone as a whole.
const TABLES: [Table; 6] = [
    // One that is there already (the writer tried again after a commit whose answer was lost) stays as it is. A new row is due whatever the
    // clock says: it may jump back.
    Table {
        head: "INSERT OR FAIL INTO outbox (exchange, scope, appended_at, turn, due_at) SELECT *, 0",
        columns: 4,
        rows: 1,
        tail: "ON CONFLICT (exchange) DO NOTHING",
    },
    Table {
        head: "INSERT OR FAIL INTO exchanges (id, scope, at, body) SELECT *",
        columns: 4,
        rows: 1,
        tail: "ON CONFLICT (id) DO NOTHING",
    },
    // The newer revision wins: a block that was made anew after a change stays.
    Table {
        head: "INSERT OR FAIL INTO turn_states (scope, prefix, revision, learned_at, expires_at, body) SELECT *",
        columns: 6,
        rows: 1,
        tail: "ON CONFLICT (scope, prefix) DO UPDATE
               SET learned_at = coalesce(excluded.learned_at, learned_at),
                   body = iif(excluded.revision >= revision, excluded.body, body),
                   expires_at = iif(excluded.revision >= revision, excluded.expires_at, expires_at),
                   revision = max(excluded.revision, revision)",
    },
    Table {
        head: "INSERT OR FAIL INTO episodes (id, scope, session, status, body, uses, last_used_at, retired_facts) SELECT *",
        columns: 8,
        rows: 2,
        tail: "ON CONFLICT (id) DO UPDATE
               SET session = excluded.session, status = excluded.status, body = excluded.body, uses = excluded.uses,
                   last_used_at = excluded.last_used_at, retired_facts = excluded.retired_facts
               WHERE episodes.scope = excluded.scope",
    },
    Table { head: "UPDATE scopes SET revision = column2", columns: 2, rows: 1, tail: "AND scopes.id = column1" },
    Table { head: usage::HEAD, columns: usage::N_COLUMNS, rows: 1, tail: "ON CONFLICT (exchange) DO NOTHING" },
];
/// Where the episodes stand among them, and the revisions.
const EPISODES: usize = 3;
const REVISIONS: usize = 4;

/// How many exchanges a script has room for: few while little goes on, many under load.
const SIZES: [usize; 2] = [2, 16];

/// For each size, without and with the commit.
static SCRIPTS: LazyLock<[[String; 2]; 2]> =
    LazyLock::new(|| SIZES.map(|size| ["", "COMMIT"].map(|end| script(&TABLES, size, end))));

/// What happens after the rows are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    /// The transaction goes on.
    Stay,
    /// It is committed.
    Commit,
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
    pub(super) async fn run(self, conn: &mut SqliteConnection) -> Result<(), StoreError> {
        self.write(conn, Then::Stay).await
    }

    /// Writes all rows, and commits them when told to.
    pub(super) async fn write(mut self, conn: &mut SqliteConnection, then: Then) -> Result<(), StoreError> {
        let stored = put(conn, PUT_FACTS, "store facts", &self.facts, &self.bodies).await?;
        expect_all("a fact of another scope", stored, self.facts.len())?;
        put(conn, PUT_HISTORY, "store history", &self.history, &self.bodies).await?;
        put(conn, PUT_PROPOSALS, "store proposals", &self.proposals, &self.bodies).await?;
        // Last, since they may be of episodes that are new.
        let marks = std::mem::take(&mut self.marks);
        let last = if marks.is_empty() { then } else { Then::Stay };
        self.write_scripts(conn, last).await?;
        if !marks.is_empty() {
            let marks: Vec<_> = marks.into_iter().map(|((scope, episode), facts)| (scope, episode, facts)).collect();
            execute(conn, MARK_EPISODES, "mark episodes", &marks).await?;
            if then == Then::Commit {
                sqlx::raw_sql("COMMIT").execute(conn).await.map_err(driver("commit"))?;
            }
        }
        Ok(())
    }

    async fn write_scripts(mut self, conn: &mut SqliteConnection, then: Then) -> Result<(), StoreError> {
        loop {
            let left = self.exchanges();
            if left == 0 && then == Then::Stay {
                return Ok(());
            }
            let size = usize::from(left > SIZES[0]);
            let commit = then == Then::Commit && left <= SIZES[size];
            let episodes = self.episodes.len().min(SIZES[size] * TABLES[EPISODES].rows);
            let revisions = self.revisions.len().min(SIZES[size]);
            let bound = self.bind(&SCRIPTS[size][usize::from(commit)], SIZES[size]);
            let changed = run(conn, bound, "store a group").await?;
            // What is committed in the same script is a group's own: its ids were made for it, and its scopes were read in this transaction.
            if then == Then::Stay {
                expect_all("an episode of another scope", changed[EPISODES], episodes)?;
                expect_all("a scope's row", changed[REVISIONS], revisions)?;
            }
            if left <= SIZES[size] {
                return Ok(());
            }
        }
    }

    /// For how many exchanges a script would need room.
    fn exchanges(&self) -> usize {
        let episodes = self.episodes.len().div_ceil(TABLES[EPISODES].rows);
        let others = [self.turns.len(), self.shown.len(), self.waiting.len(), self.revisions.len(), self.usage.len()];
        others.into_iter().fold(episodes, usize::max)
    }

    /// Binds the next rows to a script for `size` exchanges.
    fn bind(&mut self, sql: &'static str, size: usize) -> Bound {
        let mut bound = sqlx::query(sql);
        for rows in [&mut self.waiting, &mut self.shown] {
            bound = fill(bound, rows, size, 4, |bound, (exchange, scope, at, body)| {
                bound.bind(exchange.to_string()).bind(scope).bind(at.0).bind(body)
            });
        }
        bound = fill(bound, &mut self.turns, size, 6, |bound, turn| {
            let (scope, prefix) = turn.place;
            bound
                .bind(scope)
                .bind(prefix.to_vec())
                .bind(turn.revision)
                .bind(turn.learned_at.map(|at| at.0))
                .bind(turn.expires_at.0)
                .bind(turn.body)
        });
        bound = fill(bound, &mut self.episodes, size * TABLES[EPISODES].rows, 8, |bound, (scope, row)| {
            bound
                .bind(row.id.to_string())
                .bind(scope)
                .bind(row.session)
                .bind(row.status)
                .bind(row.body)
                .bind(row.uses)
                .bind(row.last_used_at.map(|at| at.0))
                .bind(row.retired_facts)
        });
        bound = fill(bound, &mut self.revisions, size, 2, |bound, (scope, revision)| bound.bind(scope).bind(revision));
        fill(bound, &mut self.usage, size, usage::N_COLUMNS, |bound, row| usage::bind(bound, &row))
    }
}

/// Binds the first rows, and leaves the rest of `room` rows empty.
fn fill<T>(
    mut bound: Bound,
    rows: &mut Vec<T>,
    room: usize,
    columns: usize,
    bind: impl Fn(Bound, T) -> Bound,
) -> Bound {
    let taken = rows.len().min(room);
    for row in rows.drain(..taken) {
        bound = bind(bound, row);
    }
    for _ in 0..(room - taken) * columns {
        bound = bound.bind(None::<i64>);
    }
    bound
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
