//! One episode, as the memory API adds it: in one statement, where a transaction would go to the server and back five times.

use crate::memory::{Episode, Scope};
use crate::store::StoreError;
use crate::store::sql::error::driver;
use crate::store::sql::query::query_as;
use crate::store::sql::row::{json, name};
use crate::store::sql::scope::key;
use crate::store::sql::session::Pool;
use crate::store::sql::text::Sql;
use crate::store::sql::write::expect_all;

/// Raising the revision locks the scope's row, so that the episode's place among the changes is taken behind those of other writers.
static PUT: Sql = Sql::new(
    "
    WITH scope AS (
        UPDATE scopes SET revision = revision + 1 WHERE key = ?1 AND subject IS NOT NULL RETURNING id, revision
    ), stored AS (
        INSERT INTO episodes AS e (id, scope, session, status, body, uses, last_used_at, retired_facts)
        SELECT ?2, scope.id, ?3, ?4, ?5, ?6, ?7, ?8 FROM scope
        ON CONFLICT (id) DO UPDATE
        SET session = excluded.session, status = excluded.status, body = excluded.body, uses = excluded.uses,
            last_used_at = excluded.last_used_at, retired_facts = excluded.retired_facts
        WHERE e.scope = excluded.scope
        RETURNING 1
    )
    SELECT scope.revision, (SELECT count(*) FROM stored) FROM scope",
);

/// Stores an episode; returns the scope's new revision, or `None` when the scope has no row yet.
pub(in crate::store::sql) async fn put_one(
    pool: &Pool,
    scope: &Scope,
    episode: &Episode,
) -> Result<Option<i64>, StoreError> {
    let done: Option<(i64, i64)> = query_as(&PUT)
        .bind(&key(scope)[..])
        .bind(episode.id.to_string())
        .bind(episode.session.as_str())
        .bind(name(&episode.status))
        .bind(json(episode))
        .bind(episode.uses)
        .bind(episode.last_used_at.map(|at| at.0))
        .bind(json(&episode.retired_facts))
        .fetch_optional(pool)
        .await
        .map_err(driver("store an episode"))?;
    let Some((revision, stored)) = done else { return Ok(None) };
    expect_all("an episode of another scope", stored.unsigned_abs(), 1)?;
    Ok(Some(revision))
}
