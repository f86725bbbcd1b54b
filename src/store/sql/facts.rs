//! Facts and their history.

use std::collections::HashMap;

use async_trait::async_trait;
use sqlx::SqliteConnection;
use tracing::instrument;

use super::error::driver;
use super::row::{name, parse, rows};
use super::scope::{ensure_one, key, set_revisions};
use super::tombstone;
use super::write::{StoredFacts, Writes};
use super::{SqliteStore, commit, windows};
use crate::base::{FactId, Time};
use crate::memory::{Cardinality, Fact, FactChange, FactStatus, HistoryEntry, Scope};
use crate::store::{FactFilter, FactStore, Page, StoreError};

const LIST: &str = "
    SELECT f.id, f.body FROM scopes s JOIN facts f ON f.scope = s.id
    WHERE s.key = ?1 AND f.id > ?2
      AND (?3 IS NULL OR f.key = ?3)
      AND (?4 IS NULL OR substr(f.key, 1, length(?4)) = ?4)
      AND (?5 IS NULL OR f.status = ?5)
      AND (NOT ?6 OR f.status IN ('active', 'contested'))
    ORDER BY f.id LIMIT ?7";

const READ: &str = "
    SELECT f.body FROM facts f JOIN scopes s ON s.id = f.scope WHERE f.id = ?1 AND s.key = ?2";

const HISTORY: &str = "
    SELECT h.body FROM history h JOIN scopes s ON s.id = h.scope WHERE h.fact = ?1 AND s.key = ?2 ORDER BY h.version";

/// Every wording that the fact ever rested on.
const QUOTES: &str = "
    SELECT e.value ->> 'quote' FROM facts f, json_each(f.body, '$.evidence') e WHERE f.id = ?1
    UNION SELECT e.value ->> 'quote' FROM history h, json_each(h.body, '$.fact.evidence') e WHERE h.fact = ?1
    UNION SELECT p.body ->> '$.candidate.evidence.quote' FROM proposals p WHERE p.fact = ?1";

/// The value that a key of one value has already, besides those that are changed now.
const TAKEN: &str = "
    SELECT f.key FROM json_each(?1) j CROSS JOIN facts f ON f.scope = ?2 AND f.key = j.value ->> 0
    WHERE f.status = 'active' AND f.body ->> 'about' IS j.value ->> 1 AND f.id NOT IN (SELECT value FROM json_each(?3))
    LIMIT 1";

const DELETE: &str = "DELETE FROM facts WHERE id = ?1 AND scope = ?2";
const DELETE_HISTORY: &str = "DELETE FROM history WHERE fact = ?1 AND scope = ?2";
const DELETE_PROPOSALS: &str = "DELETE FROM proposals WHERE fact = ?1 AND scope = ?2";

#[async_trait]
impl FactStore for SqliteStore {
    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = "sqlite", db.operation.name = "list_facts"))]
    async fn list_facts(&self, scope: &Scope, filter: &FactFilter, page: &Page) -> Result<Vec<Fact>, StoreError> {
        let (exact, below) = match filter.key.as_deref().map(|k| (k, k.strip_suffix('*'))) {
            Some((_, Some(prefix))) if prefix.ends_with('.') => (None, Some(prefix)),
            Some((key, _)) => (Some(key), None),
            None => (None, None),
        };
        let found: Vec<(String, String)> = sqlx::query_as(LIST)
            .bind(&key(scope)[..])
            .bind(page.after.as_deref().unwrap_or_default())
            .bind(exact)
            .bind(below)
            .bind(filter.status.as_ref().map(name))
            .bind(filter.current)
            .bind(page.limit)
            .fetch_all(&self.read)
            .await
            .map_err(driver("list facts"))?;
        found.iter().map(|(id, body)| parse("facts", id, body)).collect()
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = "sqlite", db.operation.name = "fact"))]
    async fn fact(&self, scope: &Scope, id: FactId) -> Result<Option<Fact>, StoreError> {
        let id = id.to_string();
        let body: Option<String> = sqlx::query_scalar(READ)
            .bind(&id)
            .bind(&key(scope)[..])
            .fetch_optional(&self.read)
            .await
            .map_err(driver("read a fact"))?;
        body.map(|body| parse("facts", &id, &body)).transpose()
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = "sqlite", db.operation.name = "history"))]
    async fn history(&self, scope: &Scope, id: FactId) -> Result<Vec<HistoryEntry>, StoreError> {
        let id = id.to_string();
        let found: Vec<String> = sqlx::query_scalar(HISTORY)
            .bind(&id)
            .bind(&key(scope)[..])
            .fetch_all(&self.read)
            .await
            .map_err(driver("read a history"))?;
        found.iter().map(|body| parse("history", &id, body)).collect()
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = "sqlite", db.operation.name = "apply"))]
    async fn apply(&self, scope: &Scope, changes: &[FactChange]) -> Result<i64, StoreError> {
        let mut tx = self.begin().await?;
        let row = ensure_one(&mut tx, scope).await?;
        let mut stored = StoredFacts::load(&mut tx, changes.iter()).await?;
        if let Some(id) = stored.culprit(row.id, changes) {
            return Err(StoreError::Conflict { what: format!("fact {id}") });
        }
        if let Some(key) = taken_key(&mut tx, row.id, changes).await? {
            return Err(StoreError::Conflict { what: format!("another value of {key}") });
        }
        let mut writes = Writes::default();
        for change in changes {
            writes.change(row.id, change, &mut stored);
        }
        writes.run(&mut tx).await?;
        let revision = row.revision + i64::from(!changes.is_empty());
        set_revisions(&mut tx, &[(row.id, revision)]).await?;
        commit(tx).await?;
        Ok(revision)
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = "sqlite", db.operation.name = "delete_fact"))]
    async fn delete_fact(&self, scope: &Scope, id: FactId, now: Time) -> Result<bool, StoreError> {
        let id = id.to_string();
        let mut tx = self.begin().await?;
        let row = ensure_one(&mut tx, scope).await?;
        let mine: Option<String> = sqlx::query_scalar(READ)
            .bind(&id)
            .bind(&key(scope)[..])
            .fetch_optional(&mut *tx)
            .await
            .map_err(driver("read a fact"))?;
        if mine.is_none() {
            return Ok(false);
        }
        let quotes: Vec<Option<String>> =
            sqlx::query_scalar(QUOTES).bind(&id).fetch_all(&mut *tx).await.map_err(driver("read evidence"))?;
        let hashes: Vec<_> = quotes.iter().flatten().map(|quote| tombstone::hash(&self.salt, scope, quote)).collect();
        tombstone::leave(&mut tx, row.id, &hashes, now).await?;
        windows::forget_basis(&mut tx, row.id, &id).await?;
        for sql in [DELETE_HISTORY, DELETE_PROPOSALS, DELETE] {
            sqlx::query(sql).bind(&id).bind(row.id).execute(&mut *tx).await.map_err(driver("delete a fact"))?;
        }
        set_revisions(&mut tx, &[(row.id, row.revision + 1)]).await?;
        commit(tx).await?;
        Ok(true)
    }
}

/// A key of one value that would get a second one by these changes: someone else was faster, and they were decided on an older state.
async fn taken_key(
    conn: &mut SqliteConnection,
    scope: i64,
    changes: &[FactChange],
) -> Result<Option<String>, StoreError> {
    // What counts is how each fact ends: an import replays what it was before it gives way.
    let ends: HashMap<FactId, &Fact> = changes.iter().map(|change| (change.fact.id, &change.fact)).collect();
    let holds = |fact: &&Fact| fact.status == FactStatus::Active && fact.cardinality == Cardinality::One;
    let keys: Vec<_> = ends.values().copied().filter(holds).map(|fact| (&fact.key, &fact.about)).collect();
    if keys.is_empty() {
        return Ok(None);
    }
    let changed: Vec<_> = ends.keys().collect();
    sqlx::query_scalar(TAKEN)
        .bind(rows(&keys))
        .bind(scope)
        .bind(rows(&changed))
        .fetch_optional(conn)
        .await
        .map_err(driver("look for other values"))
}
