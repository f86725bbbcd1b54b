//! Erasure of one subject in one scope (design, promise 10).

use std::collections::{BTreeMap, HashSet};

use futures_util::TryStreamExt;
use serde_json::Value;

use super::error::driver;
use super::query::{query, query_as};
use super::scope::{ScopeRow, ensure_one};
use super::session::{Pool, Tx};
use super::text::Sql;
use super::{Backend, SqlStore, commit, tombstone};
use crate::base::Time;
use crate::memory::Scope;
use crate::store::{Erased, StoreError};

/// All from which something was or could be learned: not replies, which say "sure" to everybody.
static WORDS: Sql = Sql::new(
    "
    SELECT 'fact', body FROM facts WHERE scope = ?1
    UNION ALL SELECT 'history', body FROM history WHERE scope = ?1
    UNION ALL SELECT 'proposal', body FROM proposals WHERE scope = ?1
    UNION ALL SELECT 'episode', body FROM episodes WHERE scope = ?1
    UNION ALL SELECT 'turn', turn FROM outbox WHERE scope = ?1
    UNION ALL SELECT 'turn', turn FROM dead_letters WHERE scope = ?1
    UNION ALL SELECT 'turn', turn FROM window_turns WHERE scope = ?1
    UNION ALL SELECT 'turn', turn FROM raw_exchanges WHERE scope = ?1",
);

/// The wordings in a record's body that were or could be learned from.
pub(super) fn words(kind: &str, body: &str) -> Vec<String> {
    // What cannot be read has no words that could be known again.
    let body: Value = serde_json::from_str(body).unwrap_or_default();
    let texts = |list: &Value, member: &str| -> Vec<String> {
        let members = list.as_array().into_iter().flatten().filter_map(|item| item[member].as_str());
        members.map(str::to_owned).collect()
    };
    match kind {
        "fact" => texts(&body["evidence"], "quote"),
        "history" => texts(&body["fact"]["evidence"], "quote"),
        "proposal" => body["candidate"]["evidence"]["quote"].as_str().map(str::to_owned).into_iter().collect(),
        "episode" if body["role"] == "assistant" => Vec::new(),
        "episode" => body["text"].as_str().map(str::to_owned).into_iter().collect(),
        _ => texts(&body["user"], "text"),
    }
}

/// What is counted in the receipt.
static DELETES: [(&str, Sql); 13] = [
    ("facts", Sql::new("DELETE FROM facts WHERE scope = ?1")),
    ("history", Sql::new("DELETE FROM history WHERE scope = ?1")),
    // Before the episodes, which would take them along uncounted.
    ("vectors", Sql::new("DELETE FROM vectors WHERE scope = ?1")),
    ("episodes", Sql::new("DELETE FROM episodes WHERE scope = ?1")),
    ("outbox", Sql::new("DELETE FROM outbox WHERE scope = ?1")),
    ("dead_letters", Sql::new("DELETE FROM dead_letters WHERE scope = ?1")),
    ("proposals", Sql::new("DELETE FROM proposals WHERE scope = ?1")),
    ("states", Sql::new("DELETE FROM turn_states WHERE scope = ?1 AND body <> ''")),
    ("digests", Sql::new("DELETE FROM digests WHERE scope = ?1")),
    ("exchanges", Sql::new("DELETE FROM exchanges WHERE scope = ?1")),
    ("raw_exchanges", Sql::new("DELETE FROM raw_exchanges WHERE scope = ?1")),
    ("window_turns", Sql::new("DELETE FROM window_turns WHERE scope = ?1")),
    ("windows", Sql::new("DELETE FROM windows WHERE scope = ?1")),
];

/// What holds no words and is not counted; what is left of the states only says when a turn was learned from.
static QUIET_DELETES: [Sql; 2] =
    [Sql::new("DELETE FROM turn_states WHERE scope = ?1"), Sql::new("DELETE FROM audit WHERE scope = ?1")];

/// Whoever follows the changes learns that all is gone; no other change stays, those of the deletions included.
static SAY_ERASED: Sql =
    Sql::new("INSERT INTO changes (scope, at, kind, object, gone) VALUES (?1, ?2, 'subject', '', true)");
static FORGET_CHANGES: Sql = Sql::new(
    "
    DELETE FROM changes WHERE scope = ?1 AND seq < (SELECT max(seq) FROM changes WHERE scope = ?1)",
);

static FORGET_USE: Sql = Sql::new("DELETE FROM subject_use WHERE subject = ?1");

/// What rests on an earlier revision, or was shown before, is not stored any more; nor is the subject's name kept.
static RAISE_EPOCH: Sql = Sql::new(
    "
    UPDATE scopes SET epoch = epoch + 1, revision = revision + 1, erased_revision = revision + 1,
        erased_at = ?2, subject = NULL
    WHERE id = ?1",
);

/// What was used stays in the books; for whom does not.
static FORGET_WHO: Sql = Sql::new(
    "
    UPDATE usage SET subject = NULL, conversation = NULL WHERE tenant = ?1 AND namespace = ?2 AND subject = ?3",
);

const ON_THE_SERVER: &str = "postgresql: dead rows until the server vacuums them (autovacuum, or VACUUM FULL at once), \
    the write-ahead log until it is recycled, and backups for as long as they are kept";

impl SqlStore {
    pub(super) async fn erase_scope(&self, scope: &Scope, now: Time) -> Result<Erased, StoreError> {
        self.again(|| async move {
            let mut tx = self.begin().await?;
            let row = ensure_one(&mut tx, scope).await?;
            let hashes = self.words(&mut tx, scope, row.id).await?;
            tombstone::leave(&mut tx, row.id, &hashes, now).await?;
            let mut counts = delete_all(&mut tx, row, now).await?;
            counts.insert("usage", forget_who(&mut tx, scope).await?);
            let subject = tombstone::subject_hash(&self.salt, &scope.tenant, &scope.subject);
            query(&FORGET_USE).bind(&subject[..]).execute(&mut tx).await.map_err(driver("erase"))?;
            commit(tx).await?;
            let complete = match (&self.backend, &self.write) {
                (Backend::Sqlite(file), Pool::Sqlite(write)) => file.leave_no_trace(write).await,
                // Its files are the server's.
                _ => true,
            };
            let remains = match self.backend {
                Backend::Sqlite(_) => Vec::new(),
                Backend::Postgres(_) => vec![ON_THE_SERVER],
            };
            Ok(Erased { counts, complete, remains, epoch: row.epoch + 1 })
        })
        .await
    }

    async fn words(&self, conn: &mut Tx, scope: &Scope, id: i64) -> Result<Vec<[u8; 32]>, StoreError> {
        let mut bodies = query_as::<(String, String)>(&WORDS).bind(id).fetch(conn);
        // Hashed as they come: the words of a large scope need not be in memory at once.
        let mut hashes = HashSet::new();
        while let Some((kind, body)) = bodies.try_next().await.map_err(driver("read what is to be erased"))? {
            hashes.extend(words(&kind, &body).iter().map(|text| tombstone::hash(&self.salt, scope, text)));
        }
        Ok(hashes.into_iter().collect())
    }
}

async fn forget_who(conn: &mut Tx, scope: &Scope) -> Result<u64, StoreError> {
    let done = query(&FORGET_WHO)
        .bind(scope.tenant.to_string())
        .bind(scope.namespace.to_string())
        .bind(scope.subject.to_string())
        .execute(conn)
        .await
        .map_err(driver("erase"))?;
    Ok(done.rows_affected())
}

async fn delete_all(conn: &mut Tx, row: ScopeRow, now: Time) -> Result<BTreeMap<&'static str, u64>, StoreError> {
    let mut counts = BTreeMap::new();
    for (kind, sql) in &DELETES {
        let done = query(sql).bind(row.id).execute(&mut *conn).await.map_err(driver("erase"))?;
        counts.insert(*kind, done.rows_affected());
    }
    for sql in &QUIET_DELETES {
        query(sql).bind(row.id).execute(&mut *conn).await.map_err(driver("erase"))?;
    }
    let raised = query(&RAISE_EPOCH).bind(row.id).bind(now.0).execute(&mut *conn).await.map_err(driver("erase"))?;
    if raised.rows_affected() != 1 {
        return Err(StoreError::Conflict { what: "a scope's row".to_owned() });
    }
    query(&SAY_ERASED).bind(row.id).bind(now.0).execute(&mut *conn).await.map_err(driver("erase"))?;
    query(&FORGET_CHANGES).bind(row.id).execute(&mut *conn).await.map_err(driver("erase"))?;
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::sql::SqliteOptions;
    use crate::store::sql::query::query_scalar;
    use crate::store::sql::text::Dialect;

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
        let store = SqlStore::sqlite(SqliteOptions::default()).await.unwrap();
        static TABLES: Sql = Sql::new(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite!_%' ESCAPE '!' ORDER BY name",
        );
        let tables: Vec<String> = query_scalar(&TABLES).fetch_all(&store.read).await.unwrap();
        assert!(tables.len() > 10, "{tables:?}");
        let statements = || DELETES.iter().map(|(_, sql)| sql).chain(&QUIET_DELETES).map(|sql| sql.of(Dialect::Sqlite));
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
