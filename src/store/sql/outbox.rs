//! The durable queue: claim, give back. Appending and learning are in `learn.rs`.

use async_trait::async_trait;
use tracing::instrument;

use super::error::driver;
use super::row::parse;
use super::{SqliteStore, commit};
use crate::base::{ExchangeId, Time};
use crate::memory::Turn;
use crate::store::{Claim, Claimed, Depth, Finished, JobFailure, LearnOutcome, Learned, OutboxStore, StoreError};

/// Longest error text that is kept with a dead letter, in bytes.
pub(super) const MAX_ERROR_BYTES: usize = 500;

/// Oldest first; not the rows of a scope that someone works on. A row that waits for its next try does not hold up
/// later ones of its scope: arbitration gives the same result in any order. (A bare `?` as limit has SQLite prepare the statement anew each time.)
const CLAIM: &str = "
    UPDATE outbox SET owner = ?1, lease_until = ?2, attempts = attempts + 1
    WHERE seq IN (
        SELECT o.seq FROM outbox o
        WHERE o.due_at <= ?3 AND (o.lease_until IS NULL OR o.lease_until <= ?3)
          AND NOT EXISTS (SELECT 1 FROM outbox l WHERE l.scope = o.scope AND l.lease_until > ?3)
        ORDER BY o.seq LIMIT ?4 + 0)
    RETURNING seq, exchange, turn, attempts";

const GIVE_BACK: &str = "
    UPDATE outbox SET owner = NULL, lease_until = NULL, due_at = ?3 WHERE exchange = ?1 AND owner = ?2";

const BURY: &str = "
    INSERT INTO dead_letters (exchange, scope, turn, attempts, error, dead_at)
    SELECT exchange, scope, turn, attempts, ?3, ?4 FROM outbox WHERE exchange = ?1 AND owner = ?2
    ON CONFLICT (exchange) DO UPDATE SET attempts = excluded.attempts, error = excluded.error, dead_at = excluded.dead_at";

const DROP: &str = "DELETE FROM outbox WHERE exchange = ?1 AND owner = ?2";

/// The oldest row is the first one, near enough: rows are numbered as they come.
const DEPTH: &str = "
    SELECT (SELECT count(*) FROM outbox), (SELECT appended_at FROM outbox ORDER BY seq LIMIT 1),
           (SELECT count(*) FROM dead_letters)";

#[async_trait]
impl OutboxStore for SqliteStore {
    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = "sqlite", db.operation.name = "append"))]
    async fn append(&self, group: &[Finished]) -> Result<(), StoreError> {
        self.append_group(group, &[]).await?;
        Ok(())
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = "sqlite", db.operation.name = "append_learned"))]
    async fn append_learned(
        &self,
        group: &[Finished],
        learned: &[Option<Learned>],
    ) -> Result<Vec<Option<LearnOutcome>>, StoreError> {
        self.append_group(group, learned).await
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = "sqlite", db.operation.name = "claim"))]
    async fn claim(&self, claim: &Claim) -> Result<Vec<Claimed>, StoreError> {
        let lease_until = claim.now.plus_millis(i64::try_from(claim.lease.as_millis()).unwrap_or(i64::MAX));
        let mut found: Vec<(i64, String, String, u32)> = sqlx::query_as(CLAIM)
            .bind(&claim.owner)
            .bind(lease_until.0)
            .bind(claim.now.0)
            .bind(claim.max)
            .fetch_all(&self.write)
            .await
            .map_err(driver("claim exchanges"))?;
        found.sort_unstable_by_key(|row| row.0);
        let mut claimed = Vec::with_capacity(found.len());
        for (_, exchange, turn, attempts) in found {
            match parse::<Turn>("outbox", &exchange, &turn) {
                Ok(turn) => claimed.push(Claimed { turn, attempts: attempts.saturating_sub(1) }),
                // A row that cannot be read never will be, and must not keep others from being claimed.
                Err(problem) => {
                    let failure = JobFailure { retry_at: None, error: problem.to_string(), now: claim.now };
                    self.give_up(&claim.owner, &exchange, &failure).await?;
                }
            }
        }
        Ok(claimed)
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = "sqlite", db.operation.name = "learn"))]
    async fn learn(&self, owner: &str, learned: &[Learned]) -> Result<Vec<LearnOutcome>, StoreError> {
        self.learn_group(owner, learned).await
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = "sqlite", db.operation.name = "fail"))]
    async fn fail(&self, owner: &str, exchange: ExchangeId, failure: &JobFailure) -> Result<(), StoreError> {
        let exchange = exchange.to_string();
        let Some(retry_at) = failure.retry_at else {
            return self.give_up(owner, &exchange, failure).await;
        };
        // No row is no error: the lease was lost, and whoever has it now decides.
        sqlx::query(GIVE_BACK)
            .bind(exchange)
            .bind(owner)
            .bind(retry_at.0)
            .execute(&self.write)
            .await
            .map_err(driver("give an exchange back"))?;
        Ok(())
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = "sqlite", db.operation.name = "depth"))]
    async fn depth(&self) -> Result<Depth, StoreError> {
        let (waiting, oldest, dead): (u64, Option<i64>, u64) =
            sqlx::query_as(DEPTH).fetch_one(&self.read).await.map_err(driver("measure the outbox"))?;
        Ok(Depth { waiting, oldest: oldest.map(Time), dead })
    }
}

impl SqliteStore {
    /// Moves a leased row to the dead letters.
    async fn give_up(&self, owner: &str, exchange: &str, failure: &JobFailure) -> Result<(), StoreError> {
        let error = &failure.error[..failure.error.floor_char_boundary(MAX_ERROR_BYTES)];
        let mut tx = self.begin().await?;
        sqlx::query(BURY)
            .bind(exchange)
            .bind(owner)
            .bind(error)
            .bind(failure.now.0)
            .execute(&mut *tx)
            .await
            .map_err(driver("give an exchange up"))?;
        sqlx::query(DROP).bind(exchange).bind(owner).execute(&mut *tx).await.map_err(driver("give an exchange up"))?;
        commit(tx).await
    }
}
