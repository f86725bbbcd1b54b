//! Vectors of episodes, and the generations they belong to.

use std::time::Duration;

use async_trait::async_trait;
use tracing::instrument;

use super::error::driver;
use super::query::{query, query_as, query_scalar};
use super::row::{parse, rows};
use super::scope::key;
use super::text::{Dialect, Sql};
use super::{SqlStore, commit};
use crate::base::{EpisodeId, Time, hex, millis};
use crate::embed::Generation;
use crate::memory::{Episode, Scope};
use crate::store::{Due, DueEpisode, GenerationRecord, GenerationState, NewVector, ScopeKey, StoreError, VectorStore};

static USE: Sql = Sql::new(
    "
    INSERT INTO generations (id, model, query_prefix, document_prefix, state, started_at, used_at)
    VALUES (?1, ?2, ?3, ?4, 'filling', ?5, ?5)
    ON CONFLICT (id) DO UPDATE SET used_at = greatest(generations.used_at, excluded.used_at),
        -- Half dropped: what is left of it is still good.
        cursor = CASE generations.state WHEN 'dropping' THEN 0 ELSE generations.cursor END,
        state = CASE generations.state WHEN 'dropping' THEN 'filling' ELSE generations.state END
    RETURNING id, model, dimension, state, cursor, background, started_at, ready_at, used_at",
);

/// Without the background, which is large.
static LIST: Sql = Sql::pair(
    "SELECT id, model, dimension, state, cursor, NULL, started_at, ready_at, used_at FROM generations ORDER BY number",
    "SELECT id, model, dimension, state, cursor, NULL::bytea, started_at, ready_at, used_at
     FROM generations ORDER BY number",
);

static LEASE: Sql = Sql::new(
    "
    UPDATE generations SET owner = ?2, lease_until = ?4
    WHERE id = ?1 AND (owner IS NULL OR owner = ?2 OR lease_until <= ?3)",
);

static RELEASE: Sql = Sql::new("UPDATE generations SET owner = NULL, lease_until = NULL WHERE id = ?1 AND owner = ?2");

static SET_BACKGROUND: Sql = Sql::new("UPDATE generations SET dimension = ?2, background = ?3 WHERE id = ?1");

static LAST_CHANGE: Sql = Sql::new("SELECT coalesce(max(seq), 0) FROM changes");

/// In the order of the changes, whatever else the planner may think of. Of an episode that is gone, and of an erased subject, only that is told.
static DUE: Sql = Sql::new(
    "
    SELECT c.seq, s.tenant, s.namespace, s.subject, s.key, c.kind, c.object,
        CASE WHEN e.status = 'active' THEN e.body END, v.body
    FROM changes c
    CROSS JOIN scopes s ON s.id = c.scope
    LEFT JOIN episodes e ON c.kind = 'episode' AND e.id = c.object AND e.scope = c.scope
    LEFT JOIN vectors v ON v.scope = e.scope AND v.episode = e.id
        AND v.generation = (SELECT number FROM generations WHERE id = ?1)
    WHERE c.seq > ?2 AND c.seq <= ?3
      AND (c.kind = 'subject' OR c.kind = 'episode' AND s.subject IS NOT NULL
        AND CASE WHEN e.id IS NULL THEN c.gone ELSE NOT c.gone AND (e.changed IS NULL OR e.changed = c.seq) END)
    ORDER BY c.seq LIMIT ?4",
);

static COUNT_DUE: Sql = Sql::new(
    "
    SELECT count(*) FROM (SELECT 1 FROM changes WHERE seq > ?1 AND kind = 'episode' AND NOT gone LIMIT ?2) due",
);

/// In PostgreSQL the lease stays as it is until what it is needed for is done.
static HOLDS: Sql = Sql::pair(
    "SELECT number FROM generations WHERE id = ?1 AND owner = ?2",
    "SELECT number FROM generations WHERE id = ?1 AND owner = ?2 FOR UPDATE",
);

static PUT: Sql = Sql::new(
    "
    INSERT INTO vectors (scope, episode, generation, body)
    SELECT e.scope, e.id, ?2, unhex(j.value ->> 2) FROM each_row(?1) j
    CROSS JOIN scopes s ON s.key = unhex(j.value ->> 0)
    CROSS JOIN episodes e ON e.id = j.value ->> 1 AND e.scope = s.id
    WHERE true
    ON CONFLICT (scope, episode, generation) DO UPDATE SET body = excluded.body",
);

static MOVE: Sql = Sql::new("UPDATE generations SET cursor = greatest(cursor, ?2) WHERE number = ?1");

static REWIND: Sql = Sql::new(
    "
    UPDATE generations SET cursor = 0, owner = NULL, lease_until = NULL WHERE id = ?1 AND state <> 'dropping'",
);

static VECTORS: Sql = Sql::new(
    "
    SELECT v.episode, v.body FROM scopes s CROSS JOIN vectors v ON v.scope = s.id
    WHERE s.key = ?1 AND v.episode > ?2 AND v.generation = (SELECT number FROM generations WHERE id = ?3)
    ORDER BY v.episode LIMIT ?4",
);

static VECTORS_OF: Sql = Sql::new(
    "
    SELECT e.id, e.body, v.body FROM scopes s
    CROSS JOIN each_text(?2) j ON true
    CROSS JOIN episodes e ON e.id = j.value AND e.scope = s.id AND e.status = 'active'
    LEFT JOIN vectors v ON v.scope = e.scope AND v.episode = e.id
        AND v.generation = (SELECT number FROM generations WHERE id = ?3)
    WHERE s.key = ?1",
);

static COMPLETE: Sql =
    Sql::new("UPDATE generations SET state = 'ready', ready_at = ?2 WHERE id = ?1 AND state <> 'ready'");

static UNUSED: Sql = Sql::new("SELECT number, cursor FROM generations WHERE id = ?1 AND used_at < ?2");

/// The cursor of a generation that is being dropped counts scopes.
static DROP_FROM: Sql =
    Sql::new("UPDATE generations SET state = 'dropping', cursor = 0 WHERE number = ?1 AND state <> 'dropping'");
static NEXT_SCOPE: Sql =
    Sql::new("SELECT max(id) FROM (SELECT id FROM scopes WHERE id > ?1 ORDER BY id LIMIT ?2) next");
static DROP: Sql = Sql::new("DELETE FROM vectors WHERE scope > ?1 AND scope <= ?2 AND generation = ?3");
static DROPPED_TO: Sql = Sql::new("UPDATE generations SET cursor = ?2 WHERE number = ?1");
static FORGET: Sql = Sql::new("DELETE FROM generations WHERE number = ?1");

type Row = (String, String, u32, String, i64, Option<Vec<u8>>, i64, Option<i64>, i64);

/// Number of the change, tenant, namespace, subject, the scope's key, what kind of thing changed and which, the body of the episode, its vector.
type DueRow = (i64, String, String, Option<String>, Vec<u8>, String, String, Option<String>, Option<Vec<u8>>);

fn record((id, model, dimension, state, cursor, background, started_at, ready_at, used_at): Row) -> GenerationRecord {
    GenerationRecord {
        id,
        model,
        dimension,
        state: match state.as_str() {
            "ready" => GenerationState::Ready,
            "dropping" => GenerationState::Dropping,
            _ => GenerationState::Filling,
        },
        cursor,
        background,
        started_at: Time(started_at),
        ready_at: ready_at.map(Time),
        used_at: Time(used_at),
    }
}

fn episode_id(id: &str) -> Result<EpisodeId, StoreError> {
    id.parse().map_err(|_| StoreError::Inconsistent {
        table: "vectors",
        column: "episode",
        id: id.to_owned(),
        problem: "not the id of an episode".to_owned(),
    })
}

/// `None` when it cannot be read.
fn due(scope: Scope, id: &str, body: &str, vector: Option<Vec<u8>>) -> Option<DueEpisode> {
    match parse::<Episode>("episodes", id, body) {
        Ok(episode) => Some(DueEpisode { scope, episode, vector }),
        Err(error) => {
            tracing::warn!(%error, "an episode cannot be read, and has no vector");
            None
        }
    }
}

#[async_trait]
impl VectorStore for SqlStore {
    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "use_generation"))]
    async fn use_generation(&self, generation: &Generation, now: Time) -> Result<GenerationRecord, StoreError> {
        let mut tx = self.begin().await?;
        let row: Row = query_as(&USE)
            .bind(generation.id())
            .bind(&generation.model)
            .bind(&generation.query_prefix)
            .bind(&generation.document_prefix)
            .bind(now.0)
            .fetch_one(&mut tx)
            .await
            .map_err(driver("use a generation of vectors"))?;
        commit(tx).await?;
        Ok(record(row))
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "generations"))]
    async fn generations(&self) -> Result<Vec<GenerationRecord>, StoreError> {
        let found: Vec<Row> =
            query_as(&LIST).fetch_all(&self.read).await.map_err(driver("list generations of vectors"))?;
        Ok(found.into_iter().map(record).collect())
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "lease_generation"))]
    async fn lease_generation(&self, id: &str, owner: &str, now: Time, lease: Duration) -> Result<bool, StoreError> {
        let done = query(&LEASE)
            .bind(id)
            .bind(owner)
            .bind(now.0)
            .bind(now.0.saturating_add(millis(lease)))
            .execute(&self.write)
            .await
            .map_err(driver("lease a generation of vectors"))?;
        Ok(done.rows_affected() > 0)
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "release_generation"))]
    async fn release_generation(&self, id: &str, owner: &str) -> Result<(), StoreError> {
        query(&RELEASE)
            .bind(id)
            .bind(owner)
            .execute(&self.write)
            .await
            .map_err(driver("release a generation of vectors"))?;
        Ok(())
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "set_background"))]
    async fn set_background(&self, id: &str, dimension: u32, background: &[u8]) -> Result<(), StoreError> {
        query(&SET_BACKGROUND)
            .bind(id)
            .bind(dimension)
            .bind(background)
            .execute(&self.write)
            .await
            .map_err(driver("keep the background of a generation"))?;
        Ok(())
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "due_episodes"))]
    async fn due_episodes(&self, id: &str, cursor: i64, limit: u32) -> Result<Due, StoreError> {
        // What is committed between the two reads has a higher number: it comes next time.
        let last = self.last_change().await?;
        let found: Vec<DueRow> = query_as(&DUE)
            .bind(id)
            .bind(cursor)
            .bind(last)
            .bind(limit)
            .fetch_all(&self.read)
            .await
            .map_err(driver("read what is to be embedded"))?;
        let is_last = found.len() < limit as usize;
        let cursor = if is_last { last.max(cursor) } else { found.last().map_or(cursor, |row| row.0) };
        let mut all = Due { cursor, is_last, ..Due::default() };
        for (_, tenant, namespace, subject, key, kind, object, body, vector) in found {
            let scope = subject.map(|subject| Scope::new(tenant.as_str(), namespace, subject));
            match (kind.as_str(), scope, body) {
                ("episode", Some(scope), Some(body)) => match due(scope, &object, &body, vector) {
                    Some(episode) => all.episodes.push(episode),
                    None => all.unreadable += 1,
                },
                ("episode", Some(scope), None) => all.gone.push((scope, episode_id(&object)?)),
                _ => all.erased.extend(key.try_into().ok().map(|key| (tenant, ScopeKey(key)))),
            }
        }
        Ok(all)
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "count_due"))]
    async fn count_due(&self, cursor: i64, limit: u32) -> Result<u64, StoreError> {
        query_scalar(&COUNT_DUE)
            .bind(cursor)
            .bind(limit)
            .fetch_one(&self.read)
            .await
            .map_err(driver("count what is to be embedded"))
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "put_vectors"))]
    async fn put_vectors(
        &self,
        id: &str,
        owner: &str,
        vectors: &[NewVector],
        cursor: Option<i64>,
    ) -> Result<bool, StoreError> {
        let mut tx = self.begin().await?;
        let store = driver("store vectors");
        let held: Option<i64> =
            query_scalar(&HOLDS).bind(id).bind(owner).fetch_optional(&mut tx).await.map_err(&store)?;
        let Some(number) = held else { return Ok(false) };
        if !vectors.is_empty() {
            let found: Vec<_> = vectors.iter().map(|v| (hex(&key(&v.scope)), v.episode, hex(&v.body))).collect();
            query(&PUT).bind(rows(&found)).bind(number).execute(&mut tx).await.map_err(&store)?;
        }
        if let Some(cursor) = cursor {
            query(&MOVE).bind(number).bind(cursor).execute(&mut tx).await.map_err(&store)?;
        }
        commit(tx).await?;
        Ok(true)
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "rewind_generation"))]
    async fn rewind_generation(&self, id: &str) -> Result<bool, StoreError> {
        let done =
            query(&REWIND).bind(id).execute(&self.write).await.map_err(driver("make a generation of vectors anew"))?;
        Ok(done.rows_affected() > 0)
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "vectors"))]
    async fn vectors(
        &self,
        scope: &Scope,
        id: &str,
        after: Option<EpisodeId>,
        limit: u32,
    ) -> Result<Vec<(EpisodeId, Vec<u8>)>, StoreError> {
        let found: Vec<(String, Vec<u8>)> = query_as(&VECTORS)
            .bind(&key(scope)[..])
            .bind(after.map(|id| id.to_string()).unwrap_or_default())
            .bind(id)
            .bind(limit)
            .fetch_all(&self.read)
            .await
            .map_err(driver("read vectors"))?;
        found.into_iter().map(|(id, body)| Ok((episode_id(&id)?, body))).collect()
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "vectors_of"))]
    async fn vectors_of(&self, scope: &Scope, id: &str, episodes: &[EpisodeId]) -> Result<Vec<DueEpisode>, StoreError> {
        let found: Vec<(String, String, Option<Vec<u8>>)> = query_as(&VECTORS_OF)
            .bind(&key(scope)[..])
            .bind(rows(episodes))
            .bind(id)
            .fetch_all(&self.read)
            .await
            .map_err(driver("read vectors"))?;
        Ok(found.into_iter().filter_map(|(id, body, vector)| due(scope.clone(), &id, &body, vector)).collect())
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "complete_generation"))]
    async fn complete_generation(&self, id: &str, now: Time) -> Result<(), StoreError> {
        query(&COMPLETE)
            .bind(id)
            .bind(now.0)
            .execute(&self.write)
            .await
            .map_err(driver("complete a generation of vectors"))?;
        Ok(())
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "drop_generation"))]
    async fn drop_generation(&self, id: &str, unused_since: Time, max_scopes: u32) -> Result<(u64, bool), StoreError> {
        let mut tx = self.begin().await?;
        let drop = driver("drop a generation of vectors");
        let found: Option<(i64, i64)> =
            query_as(&UNUSED).bind(id).bind(unused_since.0).fetch_optional(&mut tx).await.map_err(&drop)?;
        let Some((number, cursor)) = found else { return Ok((0, false)) };
        let begun = query(&DROP_FROM).bind(number).execute(&mut tx).await.map_err(&drop)?;
        let from = if begun.rows_affected() > 0 { 0 } else { cursor };
        let next: Option<i64> =
            query_scalar(&NEXT_SCOPE).bind(from).bind(max_scopes).fetch_one(&mut tx).await.map_err(&drop)?;
        let Some(next) = next else {
            query(&FORGET).bind(number).execute(&mut tx).await.map_err(&drop)?;
            commit(tx).await?;
            return Ok((0, true));
        };
        let gone = query(&DROP).bind(from).bind(next).bind(number).execute(&mut tx).await.map_err(&drop)?;
        query(&DROPPED_TO).bind(number).bind(next).execute(&mut tx).await.map_err(&drop)?;
        commit(tx).await?;
        Ok((gone.rows_affected(), false))
    }
}

/// In PostgreSQL a write has its numbers before it is committed, so that a higher one may be seen before a lower one. Whoever writes holds this
/// lock together with all others who write; whoever has it alone knows that none is on its way.
static NO_CHANGE_ON_ITS_WAY: Sql =
    Sql::new("SELECT 1::bigint FROM (SELECT pg_advisory_xact_lock(change_lock())) alone");

impl SqlStore {
    /// The number of the last change, such that every lower one can be seen.
    async fn last_change(&self) -> Result<i64, StoreError> {
        let failed = driver("read what is to be embedded");
        if self.read.dialect() == Dialect::Sqlite {
            return query_scalar(&LAST_CHANGE).fetch_one(&self.read).await.map_err(failed);
        }
        let mut tx = self.begin().await?;
        query_scalar::<i64>(&NO_CHANGE_ON_ITS_WAY).fetch_one(&mut tx).await.map_err(&failed)?;
        let last = query_scalar(&LAST_CHANGE).fetch_one(&mut tx).await.map_err(&failed)?;
        commit(tx).await?;
        Ok(last)
    }
}
