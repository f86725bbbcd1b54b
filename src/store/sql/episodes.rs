//! Episodes.

use async_trait::async_trait;
use tracing::instrument;

use super::error::driver;
use super::row::{name, parse, rows};
use super::scope::{ensure_one, key, set_revisions};
use super::write::Writes;
use super::{SqliteStore, commit, tombstone, windows};
use crate::base::{EpisodeId, FactId, Time};
use crate::memory::{Episode, Scope};
use crate::store::{EpisodeFilter, EpisodeStore, Page, StoreError};

const LIST: &str = "
    SELECT e.id, e.body, e.uses, e.last_used_at, e.retired_facts FROM scopes s JOIN episodes e ON e.scope = s.id
    WHERE s.key = ?1 AND e.id > ?2
      AND (?3 IS NULL OR e.status = ?3)
      AND (?4 IS NULL OR e.session = ?4)
    ORDER BY e.id LIMIT ?5";

const READ: &str = "
    SELECT e.id, e.body, e.uses, e.last_used_at, e.retired_facts FROM episodes e JOIN scopes s ON s.id = e.scope
    WHERE e.id = ?1 AND s.key = ?2";

const DELETE: &str = "DELETE FROM episodes WHERE id = ?1 AND scope = ?2";

/// Each fact once; only episodes that change.
const MARK: &str = "
    UPDATE episodes SET retired_facts = (
        SELECT json_group_array(fact) FROM (
            SELECT value AS fact FROM json_each(episodes.retired_facts) WHERE value <> ?3
            UNION ALL SELECT ?3 WHERE ?4))
    WHERE scope = ?1 AND id IN (SELECT value FROM json_each(?2))
      AND ?4 <> EXISTS (SELECT 1 FROM json_each(episodes.retired_facts) WHERE value = ?3)";

const TOUCH: &str = "
    UPDATE episodes SET uses = uses + 1, last_used_at = max(coalesce(last_used_at, ?3), ?3)
    WHERE scope = (SELECT id FROM scopes WHERE key = ?1) AND id IN (SELECT value FROM json_each(?2))";

/// Id, body, uses, last used at, retired facts.
pub(super) type Row = (String, String, u32, Option<i64>, String);

/// The body, with what changed since it was written.
pub(super) fn episode((id, body, uses, last_used_at, retired_facts): Row) -> Result<Episode, StoreError> {
    let mut episode: Episode = parse("episodes", &id, &body)?;
    episode.uses = uses;
    episode.last_used_at = last_used_at.map(Time);
    if retired_facts != "[]" {
        episode.retired_facts = parse("episodes", &id, &retired_facts)?;
    }
    Ok(episode)
}

#[async_trait]
impl EpisodeStore for SqliteStore {
    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = "sqlite", db.operation.name = "list_episodes"))]
    async fn list_episodes(
        &self,
        scope: &Scope,
        filter: &EpisodeFilter,
        page: &Page,
    ) -> Result<Vec<Episode>, StoreError> {
        let found: Vec<Row> = sqlx::query_as(LIST)
            .bind(&key(scope)[..])
            .bind(page.after.as_deref().unwrap_or_default())
            .bind(filter.status.as_ref().map(name))
            .bind(filter.session.as_deref())
            .bind(page.limit)
            .fetch_all(&self.read)
            .await
            .map_err(driver("list episodes"))?;
        found.into_iter().map(episode).collect()
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = "sqlite", db.operation.name = "episode"))]
    async fn episode(&self, scope: &Scope, id: EpisodeId) -> Result<Option<Episode>, StoreError> {
        let row: Option<Row> = sqlx::query_as(READ)
            .bind(id.to_string())
            .bind(&key(scope)[..])
            .fetch_optional(&self.read)
            .await
            .map_err(driver("read an episode"))?;
        row.map(episode).transpose()
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = "sqlite", db.operation.name = "put_episodes"))]
    async fn put_episodes(&self, scope: &Scope, episodes: &[Episode]) -> Result<i64, StoreError> {
        let mut tx = self.begin().await?;
        let row = ensure_one(&mut tx, scope).await?;
        let mut writes = Writes::default();
        for episode in episodes {
            writes.episode(row.id, episode);
        }
        writes.run(&mut tx).await?;
        let revision = row.revision + i64::from(!episodes.is_empty());
        set_revisions(&mut tx, &[(row.id, revision)]).await?;
        commit(tx).await?;
        Ok(revision)
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = "sqlite", db.operation.name = "update_episode"))]
    async fn update_episode(&self, scope: &Scope, episode: &Episode) -> Result<bool, StoreError> {
        let mut tx = self.begin().await?;
        let row = ensure_one(&mut tx, scope).await?;
        let found: Option<Row> = sqlx::query_as(READ)
            .bind(episode.id.to_string())
            .bind(&key(scope)[..])
            .fetch_optional(&mut *tx)
            .await
            .map_err(driver("read an episode"))?;
        if found.is_none() {
            return Ok(false);
        }
        let mut writes = Writes::default();
        writes.episode(row.id, episode);
        writes.run(&mut tx).await?;
        set_revisions(&mut tx, &[(row.id, row.revision + 1)]).await?;
        commit(tx).await?;
        Ok(true)
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = "sqlite", db.operation.name = "mark_episodes"))]
    async fn mark_episodes(
        &self,
        scope: &Scope,
        ids: &[EpisodeId],
        fact: FactId,
        retired: bool,
    ) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        let row = ensure_one(&mut tx, scope).await?;
        let marked = sqlx::query(MARK)
            .bind(row.id)
            .bind(rows(ids))
            .bind(fact.to_string())
            .bind(retired)
            .execute(&mut *tx)
            .await
            .map_err(driver("mark episodes"))?;
        if marked.rows_affected() > 0 {
            set_revisions(&mut tx, &[(row.id, row.revision + 1)]).await?;
        }
        commit(tx).await
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = "sqlite", db.operation.name = "delete_episode"))]
    async fn delete_episode(&self, scope: &Scope, id: EpisodeId, now: Time) -> Result<bool, StoreError> {
        let mut tx = self.begin().await?;
        let row = ensure_one(&mut tx, scope).await?;
        let found: Option<Row> = sqlx::query_as(READ)
            .bind(id.to_string())
            .bind(&key(scope)[..])
            .fetch_optional(&mut *tx)
            .await
            .map_err(driver("read an episode"))?;
        let Some(found) = found.map(episode).transpose()? else {
            return Ok(false);
        };
        tombstone::leave(&mut tx, row.id, &[tombstone::hash(&self.salt, scope, &found.text)], now).await?;
        windows::forget_basis(&mut tx, row.id, &id.to_string()).await?;
        sqlx::query(DELETE)
            .bind(id.to_string())
            .bind(row.id)
            .execute(&mut *tx)
            .await
            .map_err(driver("delete an episode"))?;
        set_revisions(&mut tx, &[(row.id, row.revision + 1)]).await?;
        commit(tx).await?;
        Ok(true)
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = "sqlite", db.operation.name = "touch_episodes"))]
    async fn touch_episodes(&self, scope: &Scope, ids: &[EpisodeId], now: Time) -> Result<(), StoreError> {
        if ids.is_empty() {
            return Ok(());
        }
        sqlx::query(TOUCH)
            .bind(&key(scope)[..])
            .bind(rows(ids))
            .bind(now.0)
            .execute(&self.write)
            .await
            .map_err(driver("count a use"))?;
        Ok(())
    }
}
