//! Facts and their history.

use std::collections::{HashMap, HashSet};

use async_trait::async_trait;
use tracing::instrument;

use super::erase::words;
use super::error::driver;
use super::query::{query, query_as, query_scalar};
use super::row::{name, parse, rows};
use super::scope::{ensure_one, key, set_revisions};
use super::session::Tx;
use super::text::Sql;
use super::tombstone;
use super::write::{StoredFacts, Writes};
use super::{SqlStore, commit, windows};
use crate::base::{FactId, Time};
use crate::memory::{Cardinality, Fact, FactChange, FactStatus, HistoryEntry, Scope};
use crate::store::{FactFilter, FactStore, Page, StoreError};

static LIST: Sql = Sql::new(
    "
    SELECT f.id, f.body FROM scopes s JOIN facts f ON f.scope = s.id
    WHERE s.key = ?1 AND f.id > ?2
      AND (?3 IS NULL OR f.key = ?3)
      AND (?4 IS NULL OR substr(f.key, 1, length(?4)) = ?4)
      AND (?5 IS NULL OR f.status = ?5)
      AND (NOT ?6 OR f.status IN ('active', 'contested'))
    ORDER BY f.id LIMIT ?7",
);

static READ: Sql = Sql::new(
    "
    SELECT f.body FROM facts f JOIN scopes s ON s.id = f.scope WHERE f.id = ?1 AND s.key = ?2",
);

static HISTORY: Sql = Sql::new(
    "
    SELECT h.body FROM history h JOIN scopes s ON s.id = h.scope WHERE h.fact = ?1 AND s.key = ?2 ORDER BY h.version",
);

/// Whatever the fact ever rested on.
static BASIS: Sql = Sql::new(
    "
    SELECT 'fact', body FROM facts WHERE id = ?1
    UNION ALL SELECT 'history', body FROM history WHERE fact = ?1
    UNION ALL SELECT 'proposal', body FROM proposals WHERE fact = ?1",
);

/// The values that keys have already, besides those that are changed now.
static TAKEN: Sql = Sql::new(
    "
    SELECT f.key, f.id, f.body FROM each_text(?1) j CROSS JOIN facts f ON f.key = j.value
    WHERE f.scope = ?2 AND f.status = 'active' AND f.id NOT IN (SELECT value FROM each_text(?3))",
);

static DELETE: Sql = Sql::new("DELETE FROM facts WHERE id = ?1 AND scope = ?2");
static DELETE_HISTORY: Sql = Sql::new("DELETE FROM history WHERE fact = ?1 AND scope = ?2");
static DELETE_PROPOSALS: Sql = Sql::new("DELETE FROM proposals WHERE fact = ?1 AND scope = ?2");

#[async_trait]
impl FactStore for SqlStore {
    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "list_facts"))]
    async fn list_facts(&self, scope: &Scope, filter: &FactFilter, page: &Page) -> Result<Vec<Fact>, StoreError> {
        let (exact, below) = match filter.key.as_deref().map(|k| (k, k.strip_suffix('*'))) {
            Some((_, Some(prefix))) if prefix.ends_with('.') => (None, Some(prefix)),
            Some((key, _)) => (Some(key), None),
            None => (None, None),
        };
        let found: Vec<(String, String)> = query_as(&LIST)
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

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "fact"))]
    async fn fact(&self, scope: &Scope, id: FactId) -> Result<Option<Fact>, StoreError> {
        let id = id.to_string();
        let body: Option<String> = query_scalar(&READ)
            .bind(&id)
            .bind(&key(scope)[..])
            .fetch_optional(&self.read)
            .await
            .map_err(driver("read a fact"))?;
        body.map(|body| parse("facts", &id, &body)).transpose()
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "history"))]
    async fn history(&self, scope: &Scope, id: FactId) -> Result<Vec<HistoryEntry>, StoreError> {
        let id = id.to_string();
        let found: Vec<String> = query_scalar(&HISTORY)
            .bind(&id)
            .bind(&key(scope)[..])
            .fetch_all(&self.read)
            .await
            .map_err(driver("read a history"))?;
        found.iter().map(|body| parse("history", &id, body)).collect()
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "apply"))]
    async fn apply(&self, scope: &Scope, changes: &[FactChange]) -> Result<i64, StoreError> {
        self.again(|| async move {
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
        })
        .await
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "delete_fact"))]
    async fn delete_fact(&self, scope: &Scope, id: FactId, now: Time) -> Result<bool, StoreError> {
        self.again(|| async move {
            let id = id.to_string();
            let mut tx = self.begin().await?;
            let row = ensure_one(&mut tx, scope).await?;
            let mine: Option<String> = query_scalar(&READ)
                .bind(&id)
                .bind(&key(scope)[..])
                .fetch_optional(&mut tx)
                .await
                .map_err(driver("read a fact"))?;
            if mine.is_none() {
                return Ok(false);
            }
            let basis: Vec<(String, String)> =
                query_as(&BASIS).bind(&id).fetch_all(&mut tx).await.map_err(driver("read evidence"))?;
            let quotes = basis.iter().flat_map(|(kind, body)| words(kind, body));
            let hashes: Vec<_> = quotes.map(|quote| tombstone::hash(&self.salt, scope, &quote)).collect();
            tombstone::leave(&mut tx, row.id, &hashes, now).await?;
            windows::forget_basis(&mut tx, row.id, &id).await?;
            for sql in [&DELETE_HISTORY, &DELETE_PROPOSALS, &DELETE] {
                query(sql).bind(&id).bind(row.id).execute(&mut tx).await.map_err(driver("delete a fact"))?;
            }
            set_revisions(&mut tx, &[(row.id, row.revision + 1)]).await?;
            commit(tx).await?;
            Ok(true)
        })
        .await
    }
}

/// A key of one value that would get a second one by these changes: someone else was faster, and they were decided on an older state.
async fn taken_key(conn: &mut Tx, scope: i64, changes: &[FactChange]) -> Result<Option<String>, StoreError> {
    // What counts is how each fact ends: an import replays what it was before it gives way.
    let ends: HashMap<FactId, &Fact> = changes.iter().map(|change| (change.fact.id, &change.fact)).collect();
    let holds = |fact: &&Fact| fact.status == FactStatus::Active && fact.cardinality == Cardinality::One;
    let held: HashSet<_> = ends.values().copied().filter(holds).map(|fact| (&fact.key, &fact.about)).collect();
    if held.is_empty() {
        return Ok(None);
    }
    let keys: HashSet<_> = held.iter().map(|(key, _)| *key).collect();
    let found: Vec<(String, String, String)> = query_as(&TAKEN)
        .bind(rows(&keys.into_iter().collect::<Vec<_>>()))
        .bind(scope)
        .bind(rows(&ends.keys().collect::<Vec<_>>()))
        .fetch_all(conn)
        .await
        .map_err(driver("look for other values"))?;
    for (key, id, body) in found {
        let fact: Fact = parse("facts", &id, &body)?;
        if held.contains(&(&fact.key, &fact.about)) {
            return Ok(Some(key));
        }
    }
    Ok(None)
}
