//! The durable queue: append, claim, give back. Learning is in `learn.rs`.

use async_trait::async_trait;
use sqlx::SqliteConnection;
use tracing::instrument;

use super::error::driver;
use super::row::{Bodies, Place, hex, parse, rows};
use super::scope::{ensure, key};
use super::{SqliteStore, commit};
use crate::base::{ExchangeId, Time};
use crate::memory::{Scope, Turn};
use crate::store::{Claim, Claimed, Depth, Finished, JobFailure, LearnOutcome, Learned, OutboxStore, StoreError};

/// Longest error text that is kept with a dead letter, in bytes.
pub(super) const MAX_ERROR_BYTES: usize = 500;

/// An exchange that began before an erasure leaves nothing. One that is there already (the writer tried again after a
/// commit whose answer was lost) stays as it is. A new row is due whatever the clock says: it may jump back.
const APPEND: &str = "
    INSERT INTO outbox (exchange, scope, turn, appended_at, due_at)
    SELECT j.value ->> 0, s.id, CAST(substr(?2, j.value ->> '$[2][0]', j.value ->> '$[2][1]') AS TEXT), j.value ->> 3, 0
    FROM json_each(?1) j CROSS JOIN scopes s ON s.key = unhex(j.value ->> 1)
    WHERE j.value ->> 4 >= s.epoch
    ON CONFLICT (exchange) DO NOTHING";

const KEEP_SHOWN: &str = "
    INSERT INTO exchanges (id, scope, at, body)
    SELECT j.value ->> 0, s.id, j.value ->> 2, CAST(substr(?2, j.value ->> '$[3][0]', j.value ->> '$[3][1]') AS TEXT)
    FROM json_each(?1) j CROSS JOIN scopes s ON s.key = unhex(j.value ->> 1)
    WHERE s.erased_at IS NULL OR j.value ->> 2 > s.erased_at
    ON CONFLICT (id) DO NOTHING";

/// The newer revision wins: a block that was made anew after a change stays.
const KEEP_STATES: &str = "
    INSERT INTO turn_states (scope, prefix, revision, expires_at, body)
    SELECT s.id, unhex(j.value ->> 1), j.value ->> 2, j.value ->> 3,
           CAST(substr(?2, j.value ->> '$[4][0]', j.value ->> '$[4][1]') AS TEXT)
    FROM json_each(?1) j CROSS JOIN scopes s ON s.key = unhex(j.value ->> 0)
    WHERE j.value ->> 2 >= s.erased_revision
    ON CONFLICT (scope, prefix) DO UPDATE
    SET revision = excluded.revision, expires_at = excluded.expires_at, body = excluded.body
    WHERE excluded.revision >= turn_states.revision";

/// Oldest first; not the rows of a scope that someone works on. A row that waits for its next try does not hold up
/// later ones of its scope: arbitration gives the same result in any order.
const CLAIM: &str = "
    UPDATE outbox SET owner = ?1, lease_until = ?2, attempts = attempts + 1
    WHERE seq IN (
        SELECT o.seq FROM outbox o
        WHERE o.due_at <= ?3 AND (o.lease_until IS NULL OR o.lease_until <= ?3)
          AND NOT EXISTS (SELECT 1 FROM outbox l WHERE l.scope = o.scope AND l.lease_until > ?3)
        ORDER BY o.seq LIMIT ?4)
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
        let rows = AppendRows::of(group);
        if rows.scopes.is_empty() {
            return Ok(());
        }
        let mut tx = self.begin().await?;
        rows.write(&mut tx).await?;
        commit(tx).await
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

/// A group as the rows that it becomes, one list a table.
#[derive(Default)]
struct AppendRows<'a> {
    scopes: Vec<&'a Scope>,
    turns: Vec<(String, String, Place, i64, i64)>,
    shown: Vec<(String, String, i64, Place)>,
    states: Vec<(String, String, i64, i64, Place)>,
    bodies: Bodies,
}

impl<'a> AppendRows<'a> {
    fn of(group: &'a [Finished]) -> Self {
        let mut rows = Self::default();
        let mut known = std::collections::HashSet::new();
        for finished in group {
            let scope_key = hex(&key(&finished.scope));
            if let Some(turn) = &finished.turn {
                let body = rows.bodies.add(turn);
                rows.turns.push((turn.exchange.to_string(), scope_key.clone(), body, finished.at.0, turn.epoch));
            }
            if let Some(shown) = &finished.shown {
                let body = rows.bodies.add(shown);
                rows.shown.push((shown.exchange.to_string(), scope_key.clone(), shown.at.0, body));
            }
            if let Some((state_key, state)) = &finished.state {
                let body = rows.bodies.add(state);
                let prefix = hex(&state_key.prefix);
                let scope_key = hex(&key(&state_key.scope));
                rows.states.push((scope_key, prefix, state.revision, state.expires_at.0, body));
            }
            let scopes = [Some(&finished.scope), finished.state.as_ref().map(|(k, _)| &k.scope)];
            for scope in scopes.into_iter().flatten() {
                if known.insert(scope) {
                    rows.scopes.push(scope);
                }
            }
        }
        rows
    }

    async fn write(&self, conn: &mut SqliteConnection) -> Result<(), StoreError> {
        ensure(&mut *conn, &self.scopes).await?;
        let tables = [
            (APPEND, "append exchanges", self.turns.is_empty(), rows(&self.turns)),
            (KEEP_SHOWN, "keep what was shown", self.shown.is_empty(), rows(&self.shown)),
            (KEEP_STATES, "keep conversation states", self.states.is_empty(), rows(&self.states)),
        ];
        for (sql, doing, empty, rows) in tables {
            if !empty {
                sqlx::query(sql)
                    .bind(rows)
                    .bind(&self.bodies.0[..])
                    .execute(&mut *conn)
                    .await
                    .map_err(driver(doing))?;
            }
        }
        Ok(())
    }
}
