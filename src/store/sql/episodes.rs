//! Episodes.

use async_trait::async_trait;
use tracing::instrument;

use super::error::driver;
use super::query::{query, query_as};
use super::row::{json, name, parse, rows};
use super::scope::{ensure_one, key, set_revisions};
use super::session::{Pool, Tx};
use super::text::Sql;
use super::write::Writes;
use super::{SqlStore, commit, postgres, tombstone, windows};
use crate::base::{EpisodeId, FactId, Time};
use crate::memory::{Episode, Scope};
use crate::store::{EpisodeFilter, EpisodeStore, Page, StoreError};

static LIST: Sql = Sql::new(
    "
    SELECT e.id, e.body, e.uses, e.last_used_at, e.retired_facts FROM scopes s JOIN episodes e ON e.scope = s.id
    WHERE s.key = ?1 AND e.id > ?2
      AND (?3 IS NULL OR e.status = ?3)
      AND (?4 IS NULL OR e.session = ?4)
    ORDER BY e.id LIMIT ?5",
);

static NEWEST: Sql = Sql::new(
    "
    SELECT e.id, e.body, e.uses, e.last_used_at, e.retired_facts FROM scopes s JOIN episodes e ON e.scope = s.id
    WHERE s.key = ?1 AND e.id < ?2 AND e.status = 'active'
    ORDER BY e.id DESC LIMIT ?3",
);

static READ: Sql = Sql::new(
    "
    SELECT e.id, e.body, e.uses, e.last_used_at, e.retired_facts FROM episodes e JOIN scopes s ON s.id = e.scope
    WHERE e.id = ?1 AND s.key = ?2",
);

static READ_THESE: Sql = Sql::new(
    "
    SELECT e.id, e.body, e.uses, e.last_used_at, e.retired_facts FROM scopes s
    JOIN episodes e ON e.scope = s.id AND e.id IN (SELECT value FROM each_text(?2))
    WHERE s.key = ?1 ORDER BY e.id",
);

static DELETE: Sql = Sql::new("DELETE FROM episodes WHERE id = ?1 AND scope = ?2");

static TOUCH: Sql = Sql::new(
    "
    UPDATE episodes SET uses = uses + 1, last_used_at = greatest(coalesce(last_used_at, ?3), ?3)
    WHERE scope = (SELECT id FROM scopes WHERE key = ?1) AND id IN (SELECT value FROM each_text(?2))",
);

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
impl EpisodeStore for SqlStore {
    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "list_episodes"))]
    async fn list_episodes(
        &self,
        scope: &Scope,
        filter: &EpisodeFilter,
        page: &Page,
    ) -> Result<Vec<Episode>, StoreError> {
        let found: Vec<Row> = query_as(&LIST)
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

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "newest_episodes"))]
    async fn newest_episodes(
        &self,
        scope: &Scope,
        before: Option<EpisodeId>,
        limit: u32,
    ) -> Result<Vec<Episode>, StoreError> {
        let found: Vec<Row> = query_as(&NEWEST)
            .bind(&key(scope)[..])
            .bind(before.unwrap_or(EpisodeId(u128::MAX)).to_string())
            .bind(limit)
            .fetch_all(&self.read)
            .await
            .map_err(driver("list episodes"))?;
        found.into_iter().map(episode).collect()
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "episode"))]
    async fn episode(&self, scope: &Scope, id: EpisodeId) -> Result<Option<Episode>, StoreError> {
        let row: Option<Row> = query_as(&READ)
            .bind(id.to_string())
            .bind(&key(scope)[..])
            .fetch_optional(&self.read)
            .await
            .map_err(driver("read an episode"))?;
        row.map(episode).transpose()
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "episodes_of"))]
    async fn episodes_of(&self, scope: &Scope, ids: &[EpisodeId]) -> Result<Vec<Episode>, StoreError> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let found: Vec<Row> = query_as(&READ_THESE)
            .bind(&key(scope)[..])
            .bind(rows(ids))
            .fetch_all(&self.read)
            .await
            .map_err(driver("read episodes"))?;
        found.into_iter().map(episode).collect()
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "put_episodes"))]
    async fn put_episodes(&self, scope: &Scope, episodes: &[Episode]) -> Result<i64, StoreError> {
        self.again(|| async move {
            if let ([episode], Pool::Postgres(_)) = (episodes, &self.write)
                && let Some(revision) = postgres::put_one(&self.write, scope, episode).await?
            {
                return Ok(revision);
            }
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
        })
        .await
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "update_episode"))]
    async fn update_episode(&self, scope: &Scope, episode: &Episode) -> Result<bool, StoreError> {
        self.again(|| async move {
            let mut tx = self.begin().await?;
            let row = ensure_one(&mut tx, scope).await?;
            let found: Option<Row> = query_as(&READ)
                .bind(episode.id.to_string())
                .bind(&key(scope)[..])
                .fetch_optional(&mut tx)
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
        })
        .await
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "mark_episodes"))]
    async fn mark_episodes(
        &self,
        scope: &Scope,
        ids: &[EpisodeId],
        fact: FactId,
        retired: bool,
    ) -> Result<(), StoreError> {
        self.again(|| async move {
            let mut tx = self.begin().await?;
            let row = ensure_one(&mut tx, scope).await?;
            let marked = mark(&mut tx, row.id, ids, |facts| {
                if retired {
                    (!facts.contains(&fact)).then(|| facts.push(fact)).is_some()
                } else {
                    let before = facts.len();
                    facts.retain(|other| *other != fact);
                    facts.len() < before
                }
            });
            if marked.await? > 0 {
                set_revisions(&mut tx, &[(row.id, row.revision + 1)]).await?;
            }
            commit(tx).await
        })
        .await
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "delete_episode"))]
    async fn delete_episode(&self, scope: &Scope, id: EpisodeId, now: Time) -> Result<bool, StoreError> {
        self.again(|| async move {
            let mut tx = self.begin().await?;
            let row = ensure_one(&mut tx, scope).await?;
            let found: Option<Row> = query_as(&READ)
                .bind(id.to_string())
                .bind(&key(scope)[..])
                .fetch_optional(&mut tx)
                .await
                .map_err(driver("read an episode"))?;
            let Some(found) = found.map(episode).transpose()? else {
                return Ok(false);
            };
            tombstone::leave(&mut tx, row.id, &[tombstone::hash(&self.salt, scope, &found.text)], now).await?;
            windows::forget_basis(&mut tx, row.id, &id.to_string()).await?;
            query(&DELETE)
                .bind(id.to_string())
                .bind(row.id)
                .execute(&mut tx)
                .await
                .map_err(driver("delete an episode"))?;
            set_revisions(&mut tx, &[(row.id, row.revision + 1)]).await?;
            commit(tx).await?;
            Ok(true)
        })
        .await
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "touch_episodes"))]
    async fn touch_episodes(&self, scope: &Scope, ids: &[EpisodeId], now: Time) -> Result<(), StoreError> {
        if ids.is_empty() {
            return Ok(());
        }
        query(&TOUCH)
            .bind(&key(scope)[..])
            .bind(rows(ids))
            .bind(now.0)
            .execute(&self.write)
            .await
            .map_err(driver("count a use"))?;
        Ok(())
    }
}

static RETIRED: Sql = Sql::new(
    "
    SELECT id, retired_facts FROM episodes WHERE scope = ?1 AND id IN (SELECT value FROM each_text(?2))",
);

static SET_RETIRED: Sql = Sql::new(
    "
    UPDATE episodes SET retired_facts = j.value ->> 1 FROM each_row(?2) j
    WHERE episodes.scope = ?1 AND episodes.id = j.value ->> 0",
);

/// Changes which retired facts episodes mention; `change` says whether it did. Returns how many it changed.
pub(super) async fn mark(
    conn: &mut Tx,
    scope: i64,
    ids: &[EpisodeId],
    mut change: impl FnMut(&mut Vec<FactId>) -> bool,
) -> Result<u64, StoreError> {
    mark_each(conn, scope, ids, |_, facts| change(facts)).await
}

/// As [`mark`], by episode.
pub(super) async fn mark_each(
    conn: &mut Tx,
    scope: i64,
    ids: &[EpisodeId],
    mut change: impl FnMut(EpisodeId, &mut Vec<FactId>) -> bool,
) -> Result<u64, StoreError> {
    let found: Vec<(String, String)> =
        query_as(&RETIRED).bind(scope).bind(rows(ids)).fetch_all(&mut *conn).await.map_err(driver("read episodes"))?;
    let mut changed = Vec::new();
    for (id, facts) in found {
        let mut facts: Vec<FactId> = parse("episodes", &id, &facts)?;
        let Ok(episode) = id.parse() else { continue };
        if change(episode, &mut facts) {
            changed.push((id, json(&facts)));
        }
    }
    if changed.is_empty() {
        return Ok(0);
    }
    let done = query(&SET_RETIRED).bind(scope).bind(rows(&changed)).execute(conn).await;
    Ok(done.map_err(driver("mark episodes"))?.rows_affected())
}
