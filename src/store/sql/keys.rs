//! Virtual keys.

use async_trait::async_trait;
use tracing::instrument;

use super::error::driver;
use super::query::{query, query_as, query_scalar};
use super::row::rows;
use super::text::Sql;
use super::{SqlStore, commit};
use crate::base::{KeyId, Time};
use crate::store::{KeyHash, KeyStore, Page, StoreError, StoredKey};

static INSERT: Sql = Sql::new(
    "
    INSERT INTO keys (id, name, tenant, settings, created_at, expires_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
);

static INSERT_SECRET: Sql = Sql::new("INSERT INTO key_secrets (sha256, key) VALUES (?1, ?2)");

/// A secret that ends before the overlap does keeps its end.
static END_SECRETS: Sql = Sql::new(
    "
    UPDATE key_secrets SET expires_at = least(coalesce(expires_at, ?2), ?2) WHERE key = ?1",
);

static DROP_ENDED_SECRETS: Sql = Sql::new("DELETE FROM key_secrets WHERE key = ?1 AND expires_at <= ?2");

static IS_ALIVE: Sql = Sql::pair(
    "SELECT id FROM keys WHERE id = ?1 AND revoked_at IS NULL",
    "SELECT id FROM keys WHERE id = ?1 AND revoked_at IS NULL FOR UPDATE",
);

/// Whichever ends first, the key or the secret.
static BY_HASH: Sql = Sql::new(
    "
    SELECT k.id, k.name, k.tenant, k.settings, k.created_at, k.revoked_at, k.last_used_at,
           CASE WHEN k.expires_at IS NULL OR s.expires_at < k.expires_at THEN coalesce(s.expires_at, k.expires_at)
                ELSE k.expires_at END AS expires_at
    FROM key_secrets s JOIN keys k ON k.id = s.key WHERE s.sha256 = ?1",
);

static LIST: Sql = Sql::new(
    "
    SELECT id, name, tenant, settings, created_at, revoked_at, last_used_at, expires_at
    FROM keys WHERE id > ?1 ORDER BY id LIMIT ?2",
);

static REVOKE: Sql = Sql::new("UPDATE keys SET revoked_at = ?2 WHERE id = ?1 AND revoked_at IS NULL");

static REVISION: Sql = Sql::new("SELECT coalesce((SELECT CAST(value AS BIGINT) FROM marks WHERE name = 'keys'), 0)");

static NEW_REVISION: Sql = Sql::new(
    "
    INSERT INTO marks (name, value) VALUES ('keys', '1')
    ON CONFLICT (name) DO UPDATE SET value = CAST(CAST(marks.value AS BIGINT) + 1 AS TEXT)",
);

static USED: Sql = Sql::new(
    "
    UPDATE keys SET last_used_at = greatest(coalesce(last_used_at, 0), CAST(j.value ->> 1 AS BIGINT))
    FROM each_row(?1) j WHERE keys.id = j.value ->> 0",
);

/// The columns of the two queries above, in their order.
type Row = (String, String, String, String, i64, Option<i64>, Option<i64>, Option<i64>);

fn read(
    (id, name, tenant, settings, created_at, revoked_at, last_used_at, expires_at): Row,
) -> Result<StoredKey, StoreError> {
    let Ok(parsed) = id.parse() else {
        let problem = "is not the id of a key".to_owned();
        return Err(StoreError::Inconsistent { table: "keys", column: "id", id, problem });
    };
    Ok(StoredKey {
        id: parsed,
        name,
        tenant,
        settings,
        created_at: Time(created_at),
        expires_at: expires_at.map(Time),
        revoked_at: revoked_at.map(Time),
        last_used_at: last_used_at.map(Time),
    })
}

#[async_trait]
impl KeyStore for SqlStore {
    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "create_key"))]
    async fn create_key(&self, key: &StoredKey, secret: &KeyHash) -> Result<(), StoreError> {
        self.again(|| async move {
            let id = key.id.to_string();
            let mut tx = self.begin().await?;
            query(&INSERT)
                .bind(&id)
                .bind(&key.name)
                .bind(&key.tenant)
                .bind(&key.settings)
                .bind(key.created_at.0)
                .bind(key.expires_at.map(|t| t.0))
                .execute(&mut tx)
                .await
                .map_err(driver("create a key"))?;
            query(&INSERT_SECRET).bind(&secret[..]).bind(&id).execute(&mut tx).await.map_err(driver("create a key"))?;
            commit(tx).await
        })
        .await
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "key_by_hash"))]
    async fn key_by_hash(&self, secret: &KeyHash) -> Result<Option<StoredKey>, StoreError> {
        let row: Option<Row> =
            query_as(&BY_HASH).bind(&secret[..]).fetch_optional(&self.read).await.map_err(driver("look up a key"))?;
        row.map(read).transpose()
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "list_keys"))]
    async fn list_keys(&self, page: &Page) -> Result<Vec<StoredKey>, StoreError> {
        let rows: Vec<Row> = query_as(&LIST)
            .bind(page.after.as_deref().unwrap_or_default())
            .bind(page.limit)
            .fetch_all(&self.read)
            .await
            .map_err(driver("list keys"))?;
        rows.into_iter().map(read).collect()
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "rotate_key"))]
    async fn rotate_key(&self, id: KeyId, secret: &KeyHash, now: Time, old_until: Time) -> Result<bool, StoreError> {
        self.again(|| async move {
            let id = id.to_string();
            let mut tx = self.begin().await?;
            let alive: Option<String> =
                query_scalar(&IS_ALIVE).bind(&id).fetch_optional(&mut tx).await.map_err(driver("rotate a key"))?;
            if alive.is_none() {
                return Ok(false);
            }
            for (sql, at) in [(&END_SECRETS, old_until), (&DROP_ENDED_SECRETS, now)] {
                query(sql).bind(&id).bind(at.0).execute(&mut tx).await.map_err(driver("rotate a key"))?;
            }
            query(&INSERT_SECRET).bind(&secret[..]).bind(&id).execute(&mut tx).await.map_err(driver("rotate a key"))?;
            query(&NEW_REVISION).execute(&mut tx).await.map_err(driver("rotate a key"))?;
            commit(tx).await?;
            Ok(true)
        })
        .await
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "revoke_key"))]
    async fn revoke_key(&self, id: KeyId, now: Time) -> Result<bool, StoreError> {
        self.again(|| async move {
            let mut tx = self.begin().await?;
            let done = query(&REVOKE)
                .bind(id.to_string())
                .bind(now.0)
                .execute(&mut tx)
                .await
                .map_err(driver("revoke a key"))?;
            query(&NEW_REVISION).execute(&mut tx).await.map_err(driver("revoke a key"))?;
            commit(tx).await?;
            Ok(done.rows_affected() > 0)
        })
        .await
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "keys_revision"))]
    async fn keys_revision(&self) -> Result<i64, StoreError> {
        query_scalar(&REVISION).fetch_one(&self.read).await.map_err(driver("look whether keys have changed"))
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "keys_used"))]
    async fn keys_used(&self, used: &[(KeyId, Time)]) -> Result<(), StoreError> {
        let used: Vec<(String, i64)> = used.iter().map(|(id, at)| (id.to_string(), at.0)).collect();
        query(&USED).bind(rows(&used)).execute(&self.write).await.map_err(driver("note which keys were used"))?;
        Ok(())
    }
}
