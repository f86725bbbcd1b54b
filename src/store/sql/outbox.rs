//! The durable queue: claim, give back. Appending and learning are in `learn.rs`.

use async_trait::async_trait;
use tracing::instrument;

use super::error::driver;
use super::query::{query, query_as, query_scalar};
use super::row::{parse, rows};
use super::session::Pool;
use super::text::{Dialect, Sql};
use super::{SqlStore, commit};
use crate::base::{ExchangeId, Time};
use crate::memory::Turn;
use crate::store::{Claim, Claimed, Depth, Finished, JobFailure, LearnOutcome, Learned, OutboxStore, StoreError};

/// Longest error text that is kept with a dead letter, in bytes.
pub(super) const MAX_ERROR_BYTES: usize = 500;

/// Oldest first; not the rows of a scope that someone works on. A row that waits for its next try does not hold up
/// later ones of its scope: arbitration gives the same result in any order. (A bare `?` as limit has SQLite prepare the statement anew each time.)
static CLAIM: Sql = Sql::new(
    "
    UPDATE outbox SET owner = ?1, lease_until = ?2, attempts = attempts + 1
    WHERE seq IN (
        SELECT o.seq FROM outbox o
        WHERE o.due_at <= ?3 AND (o.lease_until IS NULL OR o.lease_until <= ?3)
          AND NOT EXISTS (SELECT 1 FROM outbox l WHERE l.scope = o.scope AND l.lease_until > ?3)
        ORDER BY o.seq LIMIT ?4 + 0)
    RETURNING seq, exchange, turn, attempts",
);

/// The same among many processes, in two steps. The first locks rows and their scopes, and passes over what others have locked. The second looks
/// again: what others leased was committed before they let go of the scope.
static LOCK_DUE: Sql = Sql::new(
    "
    SELECT o.seq FROM outbox o JOIN scopes s ON s.id = o.scope
    WHERE o.due_at <= ?1 AND (o.lease_until IS NULL OR o.lease_until <= ?1)
      AND NOT EXISTS (SELECT 1 FROM outbox l WHERE l.scope = o.scope AND l.lease_until > ?1)
    ORDER BY o.seq LIMIT ?2 FOR UPDATE OF o, s SKIP LOCKED",
);
static CLAIM_LOCKED: Sql = Sql::new(
    "
    UPDATE outbox SET owner = ?1, lease_until = ?2, attempts = attempts + 1
    WHERE seq IN (SELECT CAST(value AS BIGINT) FROM each_text(?4))
      AND due_at <= ?3 AND (lease_until IS NULL OR lease_until <= ?3)
      AND NOT EXISTS (SELECT 1 FROM outbox l WHERE l.scope = outbox.scope AND l.lease_until > ?3)
    RETURNING seq, exchange, turn, attempts",
);

static GIVE_BACK: Sql = Sql::new(
    "
    UPDATE outbox SET owner = NULL, lease_until = NULL, due_at = ?3 WHERE exchange = ?1 AND owner = ?2",
);

static BURY: Sql = Sql::new("
    INSERT INTO dead_letters (exchange, scope, turn, attempts, error, dead_at)
    SELECT exchange, scope, turn, attempts, ?3, ?4 FROM outbox WHERE exchange = ?1 AND owner = ?2
    ON CONFLICT (exchange) DO UPDATE SET attempts = excluded.attempts, error = excluded.error, dead_at = excluded.dead_at");

static DROP: Sql = Sql::new("DELETE FROM outbox WHERE exchange = ?1 AND owner = ?2");

/// The oldest row is the first one, near enough: rows are numbered as they come.
static DEPTH: Sql = Sql::new(
    "
    SELECT (SELECT count(*) FROM outbox), (SELECT appended_at FROM outbox ORDER BY seq LIMIT 1),
           (SELECT count(*) FROM dead_letters)",
);

#[async_trait]
impl OutboxStore for SqlStore {
    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "append"))]
    async fn append(&self, group: &[Finished]) -> Result<(), StoreError> {
        self.append_group(group, &[]).await?;
        Ok(())
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "append_learned"))]
    async fn append_learned(
        &self,
        group: &[Finished],
        learned: &[Option<Learned>],
    ) -> Result<Vec<Option<LearnOutcome>>, StoreError> {
        self.append_group(group, learned).await
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "claim"))]
    async fn claim(&self, claim: &Claim) -> Result<Vec<Claimed>, StoreError> {
        let lease_until = claim.now.plus_millis(i64::try_from(claim.lease.as_millis()).unwrap_or(i64::MAX));
        let mut found = match self.write.dialect() {
            Dialect::Sqlite => claim_at_once(&self.write, claim, lease_until).await,
            Dialect::Postgres => claim_locked(&self.write, claim, lease_until).await,
        }
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

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "learn"))]
    async fn learn(&self, owner: &str, learned: &[Learned]) -> Result<Vec<LearnOutcome>, StoreError> {
        self.learn_group(owner, learned).await
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "fail"))]
    async fn fail(&self, owner: &str, exchange: ExchangeId, failure: &JobFailure) -> Result<(), StoreError> {
        let exchange = exchange.to_string();
        let Some(retry_at) = failure.retry_at else {
            return self.give_up(owner, &exchange, failure).await;
        };
        // No row is no error: the lease was lost, and whoever has it now decides.
        query(&GIVE_BACK)
            .bind(exchange)
            .bind(owner)
            .bind(retry_at.0)
            .execute(&self.write)
            .await
            .map_err(driver("give an exchange back"))?;
        Ok(())
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "depth"))]
    async fn depth(&self) -> Result<Depth, StoreError> {
        let (waiting, oldest, dead): (u64, Option<i64>, u64) =
            query_as(&DEPTH).fetch_one(&self.read).await.map_err(driver("measure the outbox"))?;
        Ok(Depth { waiting, oldest: oldest.map(Time), dead })
    }
}

impl SqlStore {
    /// Moves a leased row to the dead letters.
    async fn give_up(&self, owner: &str, exchange: &str, failure: &JobFailure) -> Result<(), StoreError> {
        let error = &failure.error[..failure.error.floor_char_boundary(MAX_ERROR_BYTES)];
        let mut tx = self.begin().await?;
        query(&BURY)
            .bind(exchange)
            .bind(owner)
            .bind(error)
            .bind(failure.now.0)
            .execute(&mut tx)
            .await
            .map_err(driver("give an exchange up"))?;
        query(&DROP).bind(exchange).bind(owner).execute(&mut tx).await.map_err(driver("give an exchange up"))?;
        commit(tx).await
    }
}

/// Number, exchange, turn, attempts.
type ClaimedRow = (i64, String, String, u32);

async fn claim_at_once(pool: &Pool, claim: &Claim, lease_until: Time) -> Result<Vec<ClaimedRow>, sqlx::Error> {
    let query = query_as(&CLAIM).bind(&claim.owner).bind(lease_until.0).bind(claim.now.0).bind(claim.max);
    query.fetch_all(pool).await
}

async fn claim_locked(pool: &Pool, claim: &Claim, lease_until: Time) -> Result<Vec<ClaimedRow>, sqlx::Error> {
    let mut tx = pool.begin_writing().await?;
    let locked: Vec<i64> = query_scalar(&LOCK_DUE).bind(claim.now.0).bind(claim.max).fetch_all(&mut tx).await?;
    if locked.is_empty() {
        return Ok(Vec::new());
    }
    let query = query_as(&CLAIM_LOCKED).bind(&claim.owner).bind(lease_until.0).bind(claim.now.0).bind(rows(&locked));
    let found = query.fetch_all(&mut tx).await?;
    tx.commit().await?;
    Ok(found)
}
