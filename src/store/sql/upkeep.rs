//! The sweep's part of the store, audit rows, and marks of jobs.

use async_trait::async_trait;
use tracing::instrument;

use super::error::driver;
use super::postgres::divide;
use super::query::{query, query_as, query_scalar};
use super::row::{json, parse, rows};
use super::scope::{ensure_one, key, set_revisions};
use super::session::{Pool, Tx};
use super::text::Sql;
use super::write::{StoredFacts, Writes, execute};
use super::{Backend, SqlStore, commit, tombstone};
use crate::base::{Time, hex};
use crate::memory::Scope;
use crate::store::{Aging, Audit, Audited, Divided, Forgetting, Forgotten, StoreError, SubjectUse, UpkeepStore};

static COUNT_EPISODES: Sql = Sql::new("SELECT count(*) FROM episodes WHERE status = 'active'");

static SCOPES: Sql = Sql::new(
    "
    SELECT id, tenant, namespace, subject FROM scopes WHERE id > ?1 AND subject IS NOT NULL ORDER BY id LIMIT ?2",
);

static DROP_FACTS: Sql = Sql::new("DELETE FROM facts WHERE scope = ?1 AND id IN (SELECT value FROM each_text(?2))");
static DROP_HISTORY: Sql =
    Sql::new("DELETE FROM history WHERE scope = ?1 AND fact IN (SELECT value FROM each_text(?2))");
static DROP_PROPOSALS: Sql =
    Sql::new("DELETE FROM proposals WHERE scope = ?1 AND fact IN (SELECT value FROM each_text(?2))");
static DROP_EPISODES: Sql =
    Sql::new("DELETE FROM episodes WHERE scope = ?1 AND id IN (SELECT value FROM each_text(?2))");

/// The body says the same as the column. It is compact JSON, where quotes stand unescaped at a member of its own alone.
static ARCHIVE: Sql = Sql::new(
    "
    UPDATE episodes SET status = 'archived', archived_at = ?3,
        body = replace(body, '\"status\":\"active\"', '\"status\":\"archived\"')
    WHERE scope = ?1 AND status = 'active' AND id IN (SELECT value FROM each_text(?2))",
);

static DROP_ARCHIVED: Sql = Sql::new(
    "
    DELETE FROM episodes WHERE rowid IN (
        SELECT rowid FROM episodes WHERE scope = ?1 AND status = 'archived' AND archived_at < ?2 LIMIT ?3)",
);

static MARK: Sql = Sql::new("SELECT value FROM marks WHERE name = ?1");
static SET_MARK: Sql = Sql::new(
    "
    INSERT INTO marks (name, value) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
);

static AUDIT: Sql = Sql::new("INSERT INTO audit (scope, at, body) VALUES (?1, ?2, ?3)");
static AUDITED: Sql = Sql::new(
    "
    SELECT a.seq, a.body FROM audit a JOIN scopes s ON s.id = a.scope
    WHERE s.key = ?1 AND a.seq > ?2 ORDER BY a.seq LIMIT ?3",
);

static ADD_USE: Sql = Sql::new("
    INSERT INTO subject_use (tenant, namespace, source, subject, begun, at)
    SELECT value ->> 0, value ->> 1, value ->> 2, unhex(value ->> 3), CAST(value ->> 4 AS BIGINT), CAST(value ->> 5 AS BIGINT)
    FROM each_row(?1) WHERE true
    ON CONFLICT (tenant, namespace, source, subject) DO UPDATE SET begun = subject_use.begun + excluded.begun, at = excluded.at");

/// Of each place so many subjects are kept apart; those with the fewest are summed up as "others", which has no bytes.
static SUM_UP: Sql = Sql::new("
    INSERT INTO subject_use (tenant, namespace, source, subject, begun, at)
    SELECT tenant, namespace, source, unhex(''), CAST(sum(begun) AS BIGINT), max(at) FROM (
        SELECT *, row_number() OVER (PARTITION BY tenant, namespace, source ORDER BY begun DESC, subject) AS place
        FROM subject_use WHERE subject <> unhex('')) ranked
    WHERE place > ?1 GROUP BY tenant, namespace, source
    ON CONFLICT (tenant, namespace, source, subject) DO UPDATE SET begun = subject_use.begun + excluded.begun, at = excluded.at");
static DROP_RARE: Sql = Sql::new(
    "
    DELETE FROM subject_use WHERE (tenant, namespace, source, subject) IN (
        SELECT tenant, namespace, source, subject FROM (
            SELECT *, row_number() OVER (PARTITION BY tenant, namespace, source ORDER BY begun DESC, subject) AS place
            FROM subject_use WHERE subject <> unhex('')) ranked
        WHERE place > ?1)",
);
const KEPT_APART: i64 = 64;

static USE: Sql = Sql::new(
    "
    SELECT tenant, namespace, source, lower(hex(subject)), begun FROM subject_use
    WHERE at >= ?1 ORDER BY begun DESC, tenant, namespace, source, subject LIMIT ?2",
);

#[async_trait]
impl UpkeepStore for SqlStore {
    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "scopes_after"))]
    async fn scopes_after(&self, after: i64, limit: u32) -> Result<Vec<(i64, Scope)>, StoreError> {
        let found: Vec<(i64, String, String, String)> =
            query_as(&SCOPES).bind(after).bind(limit).fetch_all(&self.read).await.map_err(driver("list scopes"))?;
        Ok(found
            .into_iter()
            .map(|(id, tenant, namespace, subject)| (id, Scope::new(tenant, namespace, subject)))
            .collect())
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "count_episodes"))]
    async fn count_episodes(&self) -> Result<u64, StoreError> {
        query_scalar(&COUNT_EPISODES).fetch_one(&self.read).await.map_err(driver("count episodes"))
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "forget"))]
    async fn forget(&self, scope: &Scope, forgetting: &Forgetting) -> Result<Forgotten, StoreError> {
        self.again(|| async move {
            let mut tx = self.begin().await?;
            let row = ensure_one(&mut tx, scope).await?;
            if row.revision != forgetting.revision {
                return Err(StoreError::Conflict { what: "the scope".to_owned() });
            }
            let mut stored = StoredFacts::load(&mut tx, forgetting.changes.iter()).await?;
            if let Some(id) = stored.culprit(row.id, &forgetting.changes) {
                return Err(StoreError::Conflict { what: format!("fact {id}") });
            }
            let mut writes = Writes::default();
            for change in &forgetting.changes {
                writes.change(row.id, change, &mut stored);
            }
            writes.run(&mut tx).await?;
            let mut done = drop_rows(&mut tx, row.id, forgetting).await?;
            done.expired = forgetting.changes.len() as u64;
            done.revision = row.revision + i64::from(!done.is_empty());
            set_revisions(&mut tx, &[(row.id, done.revision)]).await?;
            commit(tx).await?;
            Ok(done)
        })
        .await
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "divide"))]
    async fn divide(&self, what: Aging, days: u32) -> Result<Divided, StoreError> {
        match &self.write {
            Pool::Sqlite(_) => Ok(Divided::default()),
            Pool::Postgres(pool) => divide(pool, what, days).await,
        }
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "mark"))]
    async fn mark(&self, name: &str) -> Result<Option<String>, StoreError> {
        query_scalar(&MARK).bind(name).fetch_optional(&self.read).await.map_err(driver("read a mark"))
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "set_mark"))]
    async fn set_mark(&self, name: &str, value: &str) -> Result<(), StoreError> {
        query(&SET_MARK).bind(name).bind(value).execute(&self.write).await.map_err(driver("set a mark"))?;
        Ok(())
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "audit"))]
    async fn audit(&self, scope: &Scope, audit: &Audit) -> Result<(), StoreError> {
        self.again(|| async move {
            let mut tx = self.begin().await?;
            let row = ensure_one(&mut tx, scope).await?;
            query(&AUDIT)
                .bind(row.id)
                .bind(audit.at.0)
                .bind(json(audit))
                .execute(&mut tx)
                .await
                .map_err(driver("write an audit row"))?;
            commit(tx).await
        })
        .await
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "audited"))]
    async fn audited(&self, scope: &Scope, after: i64, limit: u32) -> Result<Vec<Audited>, StoreError> {
        let found: Vec<(i64, String)> = query_as(&AUDITED)
            .bind(&key(scope)[..])
            .bind(after)
            .bind(limit)
            .fetch_all(&self.read)
            .await
            .map_err(driver("list audit rows"))?;
        let audited = |(seq, body): (i64, String)| Ok(Audited { seq, audit: parse("audit", &seq.to_string(), &body)? });
        found.into_iter().map(audited).collect()
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "add_subject_use"))]
    async fn add_subject_use(&self, uses: &[SubjectUse], now: Time) -> Result<(), StoreError> {
        let hashed = |u: &SubjectUse| {
            let subject = match u.subject.as_str() {
                "" => String::new(),
                name => hex(&tombstone::subject_hash(&self.salt, &u.tenant, name)),
            };
            (u.tenant.clone(), u.namespace.clone(), u.source.clone(), subject, u.begun, now)
        };
        let data: Vec<_> = uses.iter().map(hashed).collect();
        let mut tx = self.begin().await?;
        execute(&mut tx, &ADD_USE, "count subjects", &data).await?;
        for sql in [&SUM_UP, &DROP_RARE] {
            query(sql).bind(KEPT_APART).execute(&mut tx).await.map_err(driver("count subjects"))?;
        }
        commit(tx).await
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "subject_use"))]
    async fn subject_use(&self, since: Time, limit: u32) -> Result<Vec<SubjectUse>, StoreError> {
        let found: Vec<(String, String, String, String, i64)> =
            query_as(&USE).bind(since.0).bind(limit).fetch_all(&self.read).await.map_err(driver("list subjects"))?;
        let counted = |(tenant, namespace, source, subject, begun): (String, String, String, String, i64)| SubjectUse {
            tenant,
            namespace,
            source,
            subject,
            begun: begun.unsigned_abs(),
        };
        Ok(found.into_iter().map(counted).collect())
    }

    async fn end_writing(&self) {
        // A thread of its own writes to a file, and may still hold the span when the answer is there already. What writes to a server is here.
        if let (Pool::Sqlite(pool), Backend::Sqlite(file)) = (&self.write, &self.backend)
            && !file.in_memory
        {
            pool.close().await;
        }
    }
}

async fn drop_rows(conn: &mut Tx, scope: i64, all: &Forgetting) -> Result<Forgotten, StoreError> {
    let mut done = Forgotten::default();
    if !all.drop_facts.is_empty() {
        let ids = rows(&all.drop_facts);
        for sql in [&DROP_HISTORY, &DROP_PROPOSALS, &DROP_FACTS] {
            let gone =
                query(sql).bind(scope).bind(ids.clone()).execute(&mut *conn).await.map_err(driver("drop facts"))?;
            // The facts come last: theirs is the number that stays.
            done.dropped_facts = gone.rows_affected();
        }
    }
    let archived = query(&ARCHIVE).bind(scope).bind(rows(&all.archive)).bind(all.now.0).execute(&mut *conn);
    done.archived = archived.await.map_err(driver("archive episodes"))?.rows_affected();
    let gone = query(&DROP_EPISODES).bind(scope).bind(rows(&all.drop_episodes)).execute(&mut *conn);
    done.dropped_episodes = gone.await.map_err(driver("drop episodes"))?.rows_affected();
    let old = query(&DROP_ARCHIVED).bind(scope).bind(all.drop_archived_before.0).bind(all.max_rows);
    done.dropped_episodes += old.execute(&mut *conn).await.map_err(driver("drop episodes"))?.rows_affected();
    Ok(done)
}
