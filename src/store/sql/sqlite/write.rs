//! What every exchange leaves, written by a script with room for so many.

use std::sync::LazyLock;

use sqlx::SqliteConnection;

use super::{Bound, Table, bind_value, run, script};
use crate::store::StoreError;
use crate::store::sql::usage;
use crate::store::sql::write::{Then, Writes, expect_all};

/// What every exchange leaves. The order is that of [`bind`]. `OR FAIL`: a statement that fails need not be undone by itself, so SQLite
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

/// How many exchanges a script has room for. What is left empty is bound all the same, so that one does not do for all.
const SIZES: [usize; 4] = [2, 4, 8, 16];

/// For each size, without and with the commit.
static SCRIPTS: LazyLock<[[String; 2]; SIZES.len()]> =
    LazyLock::new(|| SIZES.map(|size| ["", "COMMIT"].map(|end| script(&TABLES, size, end))));

/// Writes the rows, and commits them when told to; returns what was done.
pub(in crate::store::sql) async fn write(
    conn: &mut SqliteConnection,
    mut writes: Writes,
    then: Then,
) -> Result<Then, StoreError> {
    loop {
        let left = exchanges(&writes);
        if left == 0 && then == Then::Stay {
            return Ok(then);
        }
        let size = SIZES.iter().position(|&size| left <= size).unwrap_or(SIZES.len() - 1);
        let commit = then == Then::Commit && left <= SIZES[size];
        let episodes = writes.episodes.len().min(SIZES[size] * TABLES[EPISODES].rows);
        let revisions = writes.revisions.len().min(SIZES[size]);
        let bound = bind(&mut writes, &SCRIPTS[size][usize::from(commit)], SIZES[size]);
        let changed = run(conn, bound, "store a group").await?;
        // What is committed in the same script is a group's own: its ids were made for it, and its scopes were read in this transaction.
        if then == Then::Stay {
            expect_all("an episode of another scope", changed[EPISODES], episodes)?;
            expect_all("a scope's row", changed[REVISIONS], revisions)?;
        }
        if left <= SIZES[size] {
            return Ok(then);
        }
    }
}

/// For how many exchanges a script would need room.
fn exchanges(writes: &Writes) -> usize {
    let episodes = writes.episodes.len().div_ceil(TABLES[EPISODES].rows);
    let others =
        [writes.turns.len(), writes.shown.len(), writes.waiting.len(), writes.revisions.len(), writes.usage.len()];
    others.into_iter().fold(episodes, usize::max)
}

/// Binds the next rows to a script for `size` exchanges.
fn bind(writes: &mut Writes, sql: &'static str, size: usize) -> Bound {
    let mut bound = sqlx::query(sql);
    for rows in [&mut writes.waiting, &mut writes.shown] {
        bound = fill(bound, rows, size, 4, |bound, (exchange, scope, at, body)| {
            bound.bind(exchange.to_string()).bind(scope).bind(at.0).bind(body)
        });
    }
    bound = fill(bound, &mut writes.turns, size, 6, |bound, turn| {
        let (scope, prefix) = turn.place;
        bound
            .bind(scope)
            .bind(prefix.to_vec())
            .bind(turn.revision)
            .bind(turn.learned_at.map(|at| at.0))
            .bind(turn.expires_at.0)
            .bind(turn.body)
    });
    bound = fill(bound, &mut writes.episodes, size * TABLES[EPISODES].rows, 8, |bound, (scope, row)| {
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
    bound = fill(bound, &mut writes.revisions, size, 2, |bound, (scope, revision)| bound.bind(scope).bind(revision));
    fill(bound, &mut writes.usage, size, usage::N_COLUMNS, |bound, row| {
        usage::values(&row).into_iter().fold(bound, bind_value)
    })
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
