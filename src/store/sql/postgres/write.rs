//! What every exchange leaves, written as many rows a statement.

use sqlx::PgConnection;

use crate::store::StoreError;
use crate::store::sql::error::driver;
use crate::store::sql::insert::Rows;
use crate::store::sql::query::On;
use crate::store::sql::row::rows;
use crate::store::sql::text::Sql;
use crate::store::sql::usage;
use crate::store::sql::write::{Writes, expect_all};

/// One that is there already (the writer tried again after a commit whose answer was lost) stays as it is. A new row is due whatever the clock
/// says: it may jump back.
static WAITING: Rows = Rows::new(
    "INSERT INTO outbox (exchange, scope, appended_at, turn, due_at)",
    5,
    "ON CONFLICT (exchange) DO NOTHING",
);

static SHOWN: Rows = Rows::new("INSERT INTO exchanges (id, scope, at, body)", 4, "ON CONFLICT (id) DO NOTHING");

/// The newer revision wins: a block that was made anew after a change stays.
static TURNS: Rows = Rows::new(
    "INSERT INTO turn_states AS t (scope, prefix, revision, learned_at, expires_at, body)",
    6,
    "ON CONFLICT (scope, prefix) DO UPDATE
     SET learned_at = coalesce(excluded.learned_at, t.learned_at),
         body = CASE WHEN excluded.revision >= t.revision THEN excluded.body ELSE t.body END,
         expires_at = CASE WHEN excluded.revision >= t.revision THEN excluded.expires_at ELSE t.expires_at END,
         revision = greatest(excluded.revision, t.revision)",
);

static EPISODES: Rows = Rows::new(
    "INSERT INTO episodes AS e (id, scope, session, status, body, uses, last_used_at, retired_facts)",
    8,
    "ON CONFLICT (id) DO UPDATE
     SET session = excluded.session, status = excluded.status, body = excluded.body, uses = excluded.uses,
         last_used_at = excluded.last_used_at, retired_facts = excluded.retired_facts
     WHERE e.scope = excluded.scope",
);

static USAGE: Rows = Rows::new(usage::INTO, usage::N_COLUMNS, "ON CONFLICT (exchange) DO NOTHING");

static REVISIONS: Sql = Sql::new(
    "UPDATE scopes SET revision = (j.value ->> 1)::bigint FROM each_row(?1) j WHERE scopes.id = (j.value ->> 0)::bigint",
);

/// Writes the rows.
pub(in crate::store::sql) async fn write(conn: &mut PgConnection, writes: Writes) -> Result<(), StoreError> {
    let failed = driver("store a group");
    let mut on = On::Postgres(conn);
    let waiting = writes.waiting.into_iter().map(|(exchange, scope, at, turn)| {
        [exchange.to_string().into(), scope.into(), at.0.into(), turn.into(), 0_i64.into()]
    });
    WAITING.insert(&mut on, waiting).await.map_err(&failed)?;
    let shown = writes
        .shown
        .into_iter()
        .map(|(exchange, scope, at, body)| [exchange.to_string().into(), scope.into(), at.0.into(), body.into()]);
    SHOWN.insert(&mut on, shown).await.map_err(&failed)?;
    let turns = writes.turns.into_iter().map(|turn| {
        let (scope, prefix) = turn.place;
        [
            scope.into(),
            prefix.to_vec().into(),
            turn.revision.into(),
            turn.learned_at.map(|at| at.0).into(),
            turn.expires_at.0.into(),
            turn.body.into(),
        ]
    });
    TURNS.insert(&mut on, turns).await.map_err(&failed)?;
    let n_episodes = writes.episodes.len();
    let episodes = writes.episodes.into_iter().map(|(scope, row)| {
        [
            row.id.to_string().into(),
            scope.into(),
            row.session.into(),
            row.status.into(),
            row.body.into(),
            row.uses.into(),
            row.last_used_at.map(|at| at.0).into(),
            row.retired_facts.into(),
        ]
    });
    let stored = EPISODES.insert(&mut on, episodes).await.map_err(&failed)?;
    expect_all("an episode of another scope", stored, n_episodes)?;
    USAGE.insert(&mut on, writes.usage.iter().map(usage::values)).await.map_err(&failed)?;
    if writes.revisions.is_empty() {
        return Ok(());
    }
    let raised = crate::store::sql::query::query(&REVISIONS).bind(rows(&writes.revisions)).execute(on).await;
    expect_all("a scope's row", raised.map_err(&failed)?.rows_affected(), writes.revisions.len())
}
