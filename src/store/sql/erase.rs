//! Erasure of one subject in one scope (design, promise 10).
//!
//! Deleted rows are overwritten (`secure_delete`), but that is not all of it: where SQLite balances pages it leaves
//! stale copies of moved rows in the unused part of a page, which nothing overwrites later. So the database is written
//! anew (`VACUUM`), and then the write-ahead log is folded in and cut to nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::TryStreamExt;
use sqlx::SqliteConnection;

use super::error::driver;
use super::scope::{ScopeRow, ensure_one};
use super::{SqliteStore, commit, tombstone};
use crate::base::Time;
use crate::memory::Scope;
use crate::store::{Erased, StoreError};

/// All wordings of a scope from which something was or could be learned: not replies, which say "sure" to everybody.
const WORDS: &str = "
    SELECT e.value ->> 'quote' FROM facts f, json_each(f.body, '$.evidence') e WHERE f.scope = ?1
    UNION SELECT e.value ->> 'quote' FROM history h, json_each(h.body, '$.fact.evidence') e WHERE h.scope = ?1
    UNION SELECT p.body ->> '$.candidate.evidence.quote' FROM proposals p WHERE p.scope = ?1
    UNION SELECT e.body ->> 'text' FROM episodes e WHERE e.scope = ?1 AND e.body ->> 'role' <> 'assistant'
    UNION SELECT u.value ->> 'text' FROM outbox o, json_each(o.turn, '$.user') u WHERE o.scope = ?1
    UNION SELECT u.value ->> 'text' FROM dead_letters d, json_each(d.turn, '$.user') u WHERE d.scope = ?1
    UNION SELECT u.value ->> 'text' FROM window_turns t, json_each(t.turn, '$.user') u WHERE t.scope = ?1";

/// What is counted in the receipt.
const DELETES: &[(&str, &str)] = &[
    ("facts", "DELETE FROM facts WHERE scope = ?1"),
    ("history", "DELETE FROM history WHERE scope = ?1"),
    // Before the episodes, which would take them along uncounted.
    ("vectors", "DELETE FROM vectors WHERE scope = ?1"),
    ("episodes", "DELETE FROM episodes WHERE scope = ?1"),
    ("outbox", "DELETE FROM outbox WHERE scope = ?1"),
    ("dead_letters", "DELETE FROM dead_letters WHERE scope = ?1"),
    ("proposals", "DELETE FROM proposals WHERE scope = ?1"),
    ("states", "DELETE FROM turn_states WHERE scope = ?1 AND body <> ''"),
    ("digests", "DELETE FROM digests WHERE scope = ?1"),
    ("exchanges", "DELETE FROM exchanges WHERE scope = ?1"),
    ("window_turns", "DELETE FROM window_turns WHERE scope = ?1"),
    ("windows", "DELETE FROM windows WHERE scope = ?1"),
];

/// What holds no words and is not counted; what is left of the states only says when a turn was learned from.
const QUIET_DELETES: &[&str] = &["DELETE FROM turn_states WHERE scope = ?1", "DELETE FROM audit WHERE scope = ?1"];

/// Whoever follows the changes learns that all is gone; no other change stays, those of the deletions included.
const SAY_ERASED: &str = "INSERT INTO changes (scope, at, kind, object, gone) VALUES (?1, ?2, 'subject', '', 1)";
const FORGET_CHANGES: &str = "
    DELETE FROM changes WHERE scope = ?1 AND seq < (SELECT max(seq) FROM changes WHERE scope = ?1)";

const FORGET_USE: &str = "DELETE FROM subject_use WHERE subject = ?1";

/// What rests on an earlier revision, or was shown before, is not stored any more; nor is the subject's name kept.
const RAISE_EPOCH: &str = "
    UPDATE scopes SET epoch = epoch + 1, revision = revision + 1, erased_revision = revision + 1,
        erased_at = ?2, subject = NULL
    WHERE id = ?1";

/// What was used stays in the books; for whom does not.
const FORGET_WHO: &str = "
    UPDATE usage SET subject = NULL, conversation = NULL WHERE tenant = ?1 AND namespace = ?2 AND subject = ?3";

const SIZE: &str = "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()";

const CHECKPOINT: &str = "PRAGMA wal_checkpoint(TRUNCATE)";

/// Pause between two tries to empty the write-ahead log.
const CHECKPOINT_PAUSE: Duration = Duration::from_millis(20);

impl SqliteStore {
    pub(super) async fn erase_scope(&self, scope: &Scope, now: Time) -> Result<Erased, StoreError> {
        let mut tx = self.begin().await?;
        let row = ensure_one(&mut tx, scope).await?;
        let hashes = self.words(&mut tx, scope, row.id).await?;
        tombstone::leave(&mut tx, row.id, &hashes, now).await?;
        let mut counts = delete_all(&mut tx, row, now).await?;
        counts.insert("usage", forget_who(&mut tx, scope).await?);
        let subject = tombstone::subject_hash(&self.salt, &scope.tenant, &scope.subject);
        sqlx::query(FORGET_USE).bind(&subject[..]).execute(&mut *tx).await.map_err(driver("erase"))?;
        commit(tx).await?;
        let complete = self.leave_no_trace().await;
        Ok(Erased { counts, complete, epoch: row.epoch + 1 })
    }

    async fn words(&self, conn: &mut SqliteConnection, scope: &Scope, id: i64) -> Result<Vec<[u8; 32]>, StoreError> {
        let words = sqlx::query_scalar::<_, Option<String>>(WORDS).bind(id).fetch(conn);
        // Hashed as they come: the words of a large scope need not be in memory at once.
        let hashes =
            words.try_filter_map(|text| async move { Ok(text.map(|t| tombstone::hash(&self.salt, scope, &t))) });
        hashes.try_collect().await.map_err(driver("read what is to be erased"))
    }

    /// Sees to it that no file holds deleted bytes; `false` when it could not.
    async fn leave_no_trace(&self) -> bool {
        if self.in_memory {
            return true;
        }
        // Both, whatever the first one says: less is left then.
        let rewritten = self.rewrite().await.unwrap_or_else(|error| {
            tracing::warn!(%error, "could not rewrite the database after an erasure");
            false
        });
        self.empty_log().await && rewritten
    }

    /// Writes the database anew. Other writers of this process wait meanwhile, for a second or so per 100 MB; `false`
    /// when it is so large that they would wait too long.
    async fn rewrite(&self) -> Result<bool, StoreError> {
        let mut conn = self.write.acquire().await.map_err(driver("rewrite the database"))?;
        let bytes: u64 =
            sqlx::query_scalar(SIZE).fetch_one(&mut *conn).await.map_err(driver("measure the database"))?;
        if bytes > self.rewrite_below_bytes {
            return Ok(false);
        }
        sqlx::query("VACUUM").execute(&mut *conn).await.map_err(driver("rewrite the database"))?;
        Ok(true)
    }

    /// Folds the write-ahead log into the database and empties it, so that no older page stays in a file. Readers of an
    /// older state hold it up; `false` when they did so for too long.
    async fn empty_log(&self) -> bool {
        let until = tokio::time::Instant::now() + self.checkpoint_wait;
        loop {
            match sqlx::query_as::<_, (i64, i64, i64)>(CHECKPOINT).fetch_one(&self.maintenance).await {
                Ok((0, ..)) => return true,
                Ok(_) => {}
                Err(error) => tracing::warn!(%error, "could not empty the write-ahead log after an erasure"),
            }
            if tokio::time::Instant::now() >= until {
                return false;
            }
            tokio::time::sleep(CHECKPOINT_PAUSE).await;
        }
    }
}

async fn forget_who(conn: &mut SqliteConnection, scope: &Scope) -> Result<u64, StoreError> {
    let done = sqlx::query(FORGET_WHO)
        .bind(scope.tenant.to_string())
        .bind(scope.namespace.to_string())
        .bind(scope.subject.to_string())
        .execute(conn)
        .await
        .map_err(driver("erase"))?;
    Ok(done.rows_affected())
}

async fn delete_all(
    conn: &mut SqliteConnection,
    row: ScopeRow,
    now: Time,
) -> Result<BTreeMap<&'static str, u64>, StoreError> {
    let mut counts = BTreeMap::new();
    for (kind, sql) in DELETES {
        let done = sqlx::query(*sql).bind(row.id).execute(&mut *conn).await.map_err(driver("erase"))?;
        counts.insert(*kind, done.rows_affected());
    }
    for sql in QUIET_DELETES {
        sqlx::query(*sql).bind(row.id).execute(&mut *conn).await.map_err(driver("erase"))?;
    }
    let raised =
        sqlx::query(RAISE_EPOCH).bind(row.id).bind(now.0).execute(&mut *conn).await.map_err(driver("erase"))?;
    if raised.rows_affected() != 1 {
        return Err(StoreError::Conflict { what: "a scope's row".to_owned() });
    }
    sqlx::query(SAY_ERASED).bind(row.id).bind(now.0).execute(&mut *conn).await.map_err(driver("erase"))?;
    sqlx::query(FORGET_CHANGES).bind(row.id).execute(&mut *conn).await.map_err(driver("erase"))?;
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::sqlite::SqliteOptions;

    /// Tables of which an erasure leaves rows, and why.
    const KEPT: &[(&str, &str)] = &[
        ("scopes", "the epoch stays; the subject's name is taken out"),
        ("tombstones", "erased words are not learned again"),
        ("secrets", "salts, nobody's data"),
        ("changes", "one row says that all was erased; FORGET_CHANGES takes all others"),
        ("marks", "where jobs stand, nobody's data"),
        ("targets", "numbers about upstream models"),
        ("generations", "which model made vectors, nobody's data"),
        ("keys", "of tenants, not of people"),
        ("key_secrets", "of tenants, not of people"),
        ("shelves", "documents belong to a namespace, not to a person"),
        ("documents", "documents belong to a namespace, not to a person"),
        ("passages", "documents belong to a namespace, not to a person"),
        ("model_spending", "tokens of a tenant's day"),
        ("usage", "what was used stays in the books; FORGET_WHO takes out for whom"),
        ("budgets", "sums under a salted hash, gone a week after their month; who erases does not get a new budget"),
        ("subject_use", "deleted by the subject's hash, for all scopes at once"),
    ];

    /// Design, promise 10: a table that is added must say here what an erasure does to it.
    #[tokio::test]
    async fn every_table_is_erased_or_kept_for_a_reason() {
        let store = SqliteStore::open(SqliteOptions::default()).await.unwrap();
        let tables: Vec<String> = sqlx::query_scalar(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite!_%' ESCAPE '!' ORDER BY name",
        )
        .fetch_all(&store.read)
        .await
        .unwrap();
        assert!(tables.len() > 10, "{tables:?}");
        let statements = || DELETES.iter().map(|(_, sql)| *sql).chain(QUIET_DELETES.iter().copied());
        let erased = |table: &str| statements().any(|sql| sql == format!("DELETE FROM {table} WHERE scope = ?1"));
        for table in &tables {
            let kept = KEPT.iter().any(|(name, _)| name == table);
            assert!(
                erased(table) != kept,
                "table {table}: add it to DELETES or QUIET_DELETES, or to KEPT with a reason"
            );
        }
        for (name, _) in KEPT {
            assert!(tables.iter().any(|table| table == name), "{name} is kept, and there is no such table");
        }
    }
}
