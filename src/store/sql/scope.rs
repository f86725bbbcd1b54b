//! Scopes as such: their rows, revision and epoch.

use std::collections::HashMap;

use async_trait::async_trait;
use tracing::instrument;

use super::error::driver;
use super::query::{query, query_as, query_scalar};
use super::row::rows;
use super::session::{Pool, Tx};
use super::text::Sql;
use super::{Backend, SqlStore, tombstone};
use crate::base::{Time, hex};
use crate::memory::Scope;
use crate::store::{Erased, ScopeKey, ScopeState, ScopeStore, StoreError};

/// A row of `scopes`.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScopeRow {
    pub(super) id: i64,
    pub(super) revision: i64,
    pub(super) epoch: i64,
}

/// A scope's three names as one key.
pub(super) fn key(scope: &Scope) -> [u8; 32] {
    ScopeKey::of(scope).0
}

static ENSURE: Sql = Sql::new(
    "
    INSERT INTO scopes (key, tenant, namespace, subject)
    SELECT unhex(value ->> 0), value ->> 1, value ->> 2, value ->> 3 FROM each_row(?1) WHERE true ORDER BY value ->> 0
    ON CONFLICT (key) DO UPDATE SET subject = excluded.subject WHERE scopes.subject IS NULL",
);

/// Makes the rows of scopes that have none yet.
pub(super) async fn ensure(conn: &mut Tx, scopes: &[&Scope]) -> Result<(), StoreError> {
    let scopes: Vec<_> = scopes.iter().map(|s| (hex(&key(s)), &s.tenant, &s.namespace, &s.subject)).collect();
    query(&ENSURE).bind(rows(&scopes)).execute(conn).await.map_err(driver("make scopes"))?;
    Ok(())
}

/// In PostgreSQL they are locked, all writers in the same order.
static LOAD: Sql = Sql::pair(
    "SELECT j.key, s.id, s.revision, s.epoch FROM json_each(?1) j JOIN scopes s ON s.key = unhex(j.value)",
    "SELECT j.key, s.id, s.revision, s.epoch FROM each_text(?1) j JOIN scopes s ON s.key = unhex(j.value)
     ORDER BY s.id FOR UPDATE OF s",
);

/// Returns the rows of those scopes that have one, inside a write.
pub(super) async fn load(conn: &mut Tx, scopes: &[&Scope]) -> Result<HashMap<Scope, ScopeRow>, StoreError> {
    let keys: Vec<_> = scopes.iter().map(|s| hex(&key(s))).collect();
    let found: Vec<(i64, i64, i64, i64)> =
        query_as(&LOAD).bind(rows(&keys)).fetch_all(conn).await.map_err(driver("read scopes"))?;
    let at = |index: i64| usize::try_from(index).ok().and_then(|i| scopes.get(i));
    Ok(found
        .into_iter()
        .filter_map(|(index, id, revision, epoch)| Some(((*at(index)?).clone(), ScopeRow { id, revision, epoch })))
        .collect())
}

static LOAD_ONE: Sql = Sql::new("SELECT id, revision, epoch FROM scopes WHERE key = ?1");

/// Whoever writes in a scope waits here for those who were before it.
static LOCK_ONE: Sql = Sql::pair(
    "SELECT id, revision, epoch, subject IS NOT NULL FROM scopes WHERE key = ?1",
    "SELECT id, revision, epoch, subject IS NOT NULL FROM scopes WHERE key = ?1 FOR UPDATE",
);

/// Returns the row of one scope; `None` when it was never written.
pub(super) async fn load_one(pool: &Pool, scope: &Scope) -> Result<Option<ScopeRow>, StoreError> {
    let row: Option<(i64, i64, i64)> =
        query_as(&LOAD_ONE).bind(&key(scope)[..]).fetch_optional(pool).await.map_err(driver("read a scope"))?;
    Ok(row.map(|(id, revision, epoch)| ScopeRow { id, revision, epoch }))
}

/// Returns the row of one scope, inside a write; it is made when it is missing.
pub(super) async fn ensure_one(conn: &mut Tx, scope: &Scope) -> Result<ScopeRow, StoreError> {
    let key = key(scope);
    let mut found =
        query_as(&LOCK_ONE).bind(&key[..]).fetch_optional(&mut *conn).await.map_err(driver("read a scope"))?;
    // A scope that was erased has a row without a name.
    if found.is_none_or(|(.., is_named): (i64, i64, i64, bool)| !is_named) {
        ensure(&mut *conn, &[scope]).await?;
        found = Some(query_as(&LOCK_ONE).bind(&key[..]).fetch_one(conn).await.map_err(driver("read a scope"))?);
    }
    let (id, revision, epoch, _) = found.expect("it was just read");
    Ok(ScopeRow { id, revision, epoch })
}

static SET_REVISION: Sql = Sql::new("UPDATE scopes SET revision = ?2 WHERE id = ?1");

static SET_REVISIONS: Sql = Sql::new(
    "
    UPDATE scopes SET revision = CAST(j.value ->> 1 AS BIGINT) FROM each_row(?1) j
    WHERE scopes.id = CAST(j.value ->> 0 AS BIGINT)",
);

/// Sets the revisions of scopes, as pairs of row id and revision.
pub(super) async fn set_revisions(conn: &mut Tx, revisions: &[(i64, i64)]) -> Result<(), StoreError> {
    if revisions.is_empty() {
        return Ok(());
    }
    // A list is joined by reading the whole table while that is small.
    let set = match revisions {
        [(id, revision)] => query(&SET_REVISION).bind(*id).bind(*revision),
        many => query(&SET_REVISIONS).bind(rows(many)),
    };
    let done = set.execute(conn).await.map_err(driver("raise the revision"))?;
    if done.rows_affected() != revisions.len() as u64 {
        return Err(StoreError::Conflict { what: "a scope's row".to_owned() });
    }
    Ok(())
}

static PING: Sql = Sql::new("SELECT CAST(1 AS BIGINT)");

static NAMESPACES: Sql = Sql::new(
    "
    SELECT s.namespace, s.revision FROM scopes s
    WHERE s.tenant = ?1 AND s.subject = ?2
      AND (EXISTS (SELECT 1 FROM facts f WHERE f.scope = s.id)
        OR EXISTS (SELECT 1 FROM episodes e WHERE e.scope = s.id))
    ORDER BY s.namespace",
);

static TOMBSTONED: Sql = Sql::new(
    "
    SELECT j.key FROM each_text(?1) j
    JOIN scopes s ON s.key = ?2
    JOIN tombstones t ON t.scope = s.id AND t.hash = unhex(j.value)",
);

static KEEP_SECRET: Sql = Sql::new("INSERT INTO secrets (name, value) VALUES (?1, ?2) ON CONFLICT (name) DO NOTHING");
/// The salt of the tombstones.
pub(super) const TOMBSTONE_SALT: &str = "tombstones";

pub(super) static READ_SECRET: Sql = Sql::new("SELECT value FROM secrets WHERE name = ?1");

#[async_trait]
impl ScopeStore for SqlStore {
    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "scope_state"))]
    async fn scope_state(&self, scope: &Scope) -> Result<ScopeState, StoreError> {
        if let Backend::Postgres(together) = &self.backend
            && let Some(state) = together.ask(key(scope)).await
        {
            return Ok(state);
        }
        let row = load_one(&self.read, scope).await?;
        Ok(row.map(|r| ScopeState { revision: r.revision, epoch: r.epoch }).unwrap_or_default())
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "namespaces"))]
    async fn namespaces(&self, tenant: &str, subject: &str) -> Result<Vec<(String, i64)>, StoreError> {
        query_as(&NAMESPACES).bind(tenant).bind(subject).fetch_all(&self.read).await.map_err(driver("list namespaces"))
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "erase"))]
    async fn erase(&self, scope: &Scope, now: Time) -> Result<Erased, StoreError> {
        self.erase_scope(scope, now).await
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "tombstoned"))]
    async fn tombstoned(&self, scope: &Scope, texts: &[&str]) -> Result<Vec<bool>, StoreError> {
        let mut barred = vec![false; texts.len()];
        if texts.is_empty() {
            return Ok(barred);
        }
        let hashes: Vec<_> = texts.iter().map(|t| hex(&tombstone::hash(&self.salt, scope, t))).collect();
        let hits: Vec<i64> = query_scalar(&TOMBSTONED)
            .bind(rows(&hashes))
            .bind(&key(scope)[..])
            .fetch_all(&self.read)
            .await
            .map_err(driver("look up tombstones"))?;
        for hit in hits {
            if let Some(slot) = usize::try_from(hit).ok().and_then(|i| barred.get_mut(i)) {
                *slot = true;
            }
        }
        Ok(barred)
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "sweep"))]
    async fn sweep(&self, now: Time, trace_before: Time, max_rows: u32) -> Result<u64, StoreError> {
        self.sweep_rows(now, trace_before, max_rows).await
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "shared_secret"))]
    async fn shared_secret(&self, name: &str, fresh: &[u8; 32]) -> Result<[u8; 32], StoreError> {
        let mut tx = self.begin().await?;
        query(&KEEP_SECRET).bind(name).bind(&fresh[..]).execute(&mut tx).await.map_err(driver("keep a secret"))?;
        let value: Vec<u8> =
            query_scalar(&READ_SECRET).bind(name).fetch_one(&mut tx).await.map_err(driver("read a secret"))?;
        super::commit(tx).await?;
        secret(name, &value)
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "ping"))]
    async fn ping(&self) -> Result<(), StoreError> {
        query_scalar::<i64>(&PING).fetch_one(&self.read).await.map_err(driver("ping"))?;
        Ok(())
    }
}

/// Reads the 32 bytes of a secret.
pub(super) fn secret(name: &str, value: &[u8]) -> Result<[u8; 32], StoreError> {
    value.try_into().map_err(|_| StoreError::Inconsistent {
        table: "secrets",
        column: "value",
        id: name.to_owned(),
        problem: format!("{} bytes instead of 32", value.len()),
    })
}
