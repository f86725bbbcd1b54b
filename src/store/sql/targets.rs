//! What was learned about upstream targets.

use async_trait::async_trait;
use tracing::instrument;

use super::error::driver;
use super::query::{query, query_as};
use super::text::Sql;
use super::{SqlStore, commit};
use crate::base::Time;
use crate::store::{MAX_TARGETS, StoreError, TargetRecord, TargetStore};

static LIST: Sql = Sql::new(
    "
    SELECT target, revision, at, body FROM targets WHERE at >= ?1 ORDER BY at DESC, target LIMIT ?2",
);

/// A row that is not there has revision 0.
static PUT: Sql = Sql::new(
    "
    INSERT INTO targets (target, revision, at, body)
    SELECT ?1, ?2 + 1, ?3, ?4 WHERE ?2 = 0 OR EXISTS (SELECT 1 FROM targets WHERE target = ?1)
    ON CONFLICT (target) DO UPDATE SET revision = excluded.revision, at = excluded.at, body = excluded.body
    WHERE targets.revision = ?2",
);

static FORGET_OLDEST: Sql = Sql::new(
    "
    DELETE FROM targets WHERE target IN (SELECT target FROM targets ORDER BY at DESC, target LIMIT 1000000 OFFSET ?1)",
);

#[async_trait]
impl TargetStore for SqlStore {
    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "targets"))]
    async fn targets(&self, since: Time) -> Result<Vec<TargetRecord>, StoreError> {
        let rows: Vec<(String, i64, i64, String)> = query_as(&LIST)
            .bind(since.0)
            .bind(MAX_TARGETS)
            .fetch_all(&self.read)
            .await
            .map_err(driver("read what is known of targets"))?;
        let record = |(target, revision, at, body)| TargetRecord { target, revision, at: Time(at), body };
        Ok(rows.into_iter().map(record).collect())
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "put_target"))]
    async fn put_target(&self, record: &TargetRecord) -> Result<bool, StoreError> {
        let mut tx = self.begin().await?;
        let done = query(&PUT)
            .bind(&record.target)
            .bind(record.revision)
            .bind(record.at.0)
            .bind(&record.body)
            .execute(&mut tx)
            .await
            .map_err(driver("keep what is known of a target"))?;
        query(&FORGET_OLDEST).bind(MAX_TARGETS).execute(&mut tx).await.map_err(driver("forget the oldest targets"))?;
        commit(tx).await?;
        Ok(done.rows_affected() > 0)
    }
}
