//! Leaving no trace of what was deleted.
//!
//! Deleted rows are overwritten (`secure_delete`), but that is not all of it: where SQLite balances pages it leaves
//! stale copies of moved rows in the unused part of a page, which nothing overwrites later. So the database is written
//! anew (`VACUUM`), and then the write-ahead log is folded in and cut to nothing.

use std::time::Duration;

use sqlx::SqlitePool;

use super::File;
use crate::store::StoreError;
use crate::store::sql::error::driver;

const SIZE: &str = "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()";

const CHECKPOINT: &str = "PRAGMA wal_checkpoint(TRUNCATE)";

/// Pause between two tries to empty the write-ahead log.
const CHECKPOINT_PAUSE: Duration = Duration::from_millis(20);

impl File {
    /// Sees to it that no file holds deleted bytes; `false` when it could not.
    pub(in crate::store::sql) async fn leave_no_trace(&self, write: &SqlitePool) -> bool {
        if self.in_memory {
            return true;
        }
        // Both, whatever the first one says: less is left then.
        let rewritten = self.rewrite(write).await.unwrap_or_else(|error| {
            tracing::warn!(%error, "could not rewrite the database after an erasure");
            false
        });
        self.empty_log().await && rewritten
    }

    /// Writes the database anew. Other writers of this process wait meanwhile, for a second or so per 100 MB; `false`
    /// when it is so large that they would wait too long.
    async fn rewrite(&self, write: &SqlitePool) -> Result<bool, StoreError> {
        let mut conn = write.acquire().await.map_err(driver("rewrite the database"))?;
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
