//! The queue in front of the extraction model.

use async_trait::async_trait;
use tracing::instrument;

use super::begin::prefix;
use super::error::driver;
use super::learn::SEEN_MILLIS;
use super::query::{query, query_as, query_scalar};
use super::row::{parse, rows};
use super::scope::{key, set_revisions};
use super::session::Tx;
use super::text::{Dialect, Sql};
use super::write::{StoredFacts, Writes};
use super::{SqlStore, commit};
use crate::base::{ExchangeId, Time, millis};
use crate::memory::{Scope, Turn};
use crate::store::{
    DeadLetter, JobFailure, Learned, Page, Queued, QueuedTurn, StoreError, Window, WindowClaim, WindowDepth,
    WindowOutcome, WindowRules, WindowStore,
};

/// How long spending is kept, in days.
const SPENDING_DAYS: i64 = 7;

static WAITING: Sql = Sql::new("SELECT count(*) FROM window_turns");

static QUEUEABLE: Sql = Sql::new(
    "
    SELECT o.scope FROM outbox o
    WHERE o.exchange = ?1 AND o.owner = ?2
      AND NOT EXISTS (SELECT 1 FROM window_turns t WHERE t.exchange = o.exchange)
      AND NOT EXISTS (SELECT 1 FROM window_turns t WHERE t.scope = o.scope AND t.turn_key = ?3)
      AND NOT EXISTS (SELECT 1 FROM turn_states n WHERE n.scope = o.scope AND n.prefix = ?5 AND n.learned_at > ?4)",
);

/// In PostgreSQL two that queue turns of a scope come one after the other; in SQLite all do.
static LOCK_SCOPE_OF: Sql = Sql::new(
    "
    SELECT s.id FROM outbox o JOIN scopes s ON s.id = o.scope WHERE o.exchange = ?1 FOR UPDATE OF s",
);

/// The values of a statement name each of what it sets by its table, where PostgreSQL would not know whether the new row's is meant.
static OPEN: Sql = Sql::pair(
    "INSERT INTO windows (scope, session, opened_at, due_at, turns, tokens, closed)
     VALUES (?1, ?2, ?3, CASE WHEN ?6 <= 1 OR ?5 >= ?7 THEN ?3 ELSE ?4 END, 1, ?5, ?6 <= 1 OR ?5 >= ?7)
     ON CONFLICT (scope, session) WHERE closed = 0 DO UPDATE
     SET turns = turns + 1, tokens = tokens + ?5,
         closed = turns + 1 >= ?6 OR tokens + ?5 >= ?7,
         due_at = CASE WHEN turns + 1 >= ?6 OR tokens + ?5 >= ?7 THEN ?3 ELSE ?4 END
     RETURNING id",
    "INSERT INTO windows AS w (scope, session, opened_at, due_at, turns, tokens, closed)
     VALUES (?1, ?2, ?3, CASE WHEN ?6 <= 1 OR ?5 >= ?7 THEN ?3 ELSE ?4 END, 1, ?5, ?6 <= 1 OR ?5 >= ?7)
     ON CONFLICT (scope, session) WHERE NOT closed DO UPDATE
     SET turns = w.turns + 1, tokens = w.tokens + ?5,
         closed = w.turns + 1 >= ?6 OR w.tokens + ?5 >= ?7,
         due_at = CASE WHEN w.turns + 1 >= ?6 OR w.tokens + ?5 >= ?7 THEN ?3 ELSE ?4 END
     RETURNING id",
);

static COPY: Sql = Sql::new(
    "
    INSERT INTO window_turns (exchange, scope, window_id, turn_key, turn)
    SELECT exchange, scope, ?2, ?3, turn FROM outbox WHERE exchange = ?1",
);

/// Asked twice a second by everyone who waits, so it reads: the writer is not troubled for nothing.
static DUE: Sql = Sql::new(
    "
    SELECT w.id FROM windows w JOIN scopes s ON s.id = w.scope
    WHERE w.due_at <= ?1 AND (w.lease_until IS NULL OR w.lease_until <= ?1)
      AND NOT EXISTS (SELECT 1 FROM windows l WHERE l.scope = w.scope AND l.lease_until > ?1)
      AND NOT EXISTS (SELECT 1 FROM model_spending m WHERE m.tenant = s.tenant AND m.day = ?2 AND m.tokens >= ?3)
    ORDER BY w.due_at, w.id LIMIT 1",
);

/// Takes it, unless someone was faster.
static CLAIM: Sql = Sql::new(
    "
    UPDATE windows SET owner = ?2, lease_until = ?3, attempts = attempts + 1, closed = true
    WHERE id = ?1 AND due_at <= ?4
      AND NOT EXISTS (SELECT 1 FROM windows l WHERE l.scope = windows.scope AND l.lease_until > ?4)
    RETURNING attempts, opened_at",
);

static LOCK_SCOPE: Sql = Sql::new(
    "
    SELECT s.id FROM windows w JOIN scopes s ON s.id = w.scope WHERE w.id = ?1 FOR UPDATE OF s",
);

static TURNS: Sql = Sql::new("SELECT exchange, turn FROM window_turns WHERE window_id = ?1 ORDER BY seq");

static OWNED: Sql = Sql::pair(
    "SELECT s.id, s.revision, s.epoch FROM windows w JOIN scopes s ON s.id = w.scope WHERE w.id = ?1 AND w.owner = ?2",
    "SELECT s.id, s.revision, s.epoch FROM windows w JOIN scopes s ON s.id = w.scope WHERE w.id = ?1 AND w.owner = ?2
     FOR UPDATE OF s, w",
);

static GIVE_BACK: Sql = Sql::new(
    "
    UPDATE windows SET owner = NULL, lease_until = NULL, due_at = ?3 WHERE id = ?1 AND owner = ?2",
);

static RELEASE: Sql = Sql::new(
    "
    UPDATE windows SET owner = NULL, lease_until = NULL, attempts = greatest(attempts - 1, 0) WHERE owner = ?1",
);

static BURY: Sql = Sql::new("
    INSERT INTO dead_letters (exchange, scope, turn, attempts, error, dead_at)
    SELECT t.exchange, t.scope, t.turn, w.attempts, ?3, ?4
    FROM windows w JOIN window_turns t ON t.window_id = w.id WHERE w.id = ?1 AND w.owner = ?2
    ON CONFLICT (exchange) DO UPDATE SET attempts = excluded.attempts, error = excluded.error, dead_at = excluded.dead_at");

static DROP_TURNS: Sql = Sql::new(
    "
    DELETE FROM window_turns WHERE window_id IN (SELECT id FROM windows WHERE id = ?1 AND owner = ?2)",
);

static DROP: Sql = Sql::new("DELETE FROM windows WHERE id = ?1 AND owner = ?2");

/// The turns that a fact or an episode rests on. A tombstone bars its words as they were quoted, and a model may quote others.
static FORGET_BASIS: Sql = Sql::pair(
    "DELETE FROM window_turns WHERE scope = ?1 AND exchange IN (
        SELECT e.value ->> 'exchange' FROM facts f, json_each(f.body, '$.evidence') e WHERE f.id = ?2
        UNION SELECT e.body ->> 'exchange' FROM episodes e WHERE e.id = ?2)",
    "DELETE FROM window_turns WHERE scope = ?1 AND exchange IN (
        SELECT e.value ->> 'exchange' FROM facts f, json_array_elements(f.body::json -> 'evidence') e WHERE f.id = ?2
        UNION SELECT e.body::json ->> 'exchange' FROM episodes e WHERE e.id = ?2)",
);

static STILL_THERE: Sql = Sql::new(
    "
    SELECT count(*) FROM window_turns WHERE window_id = ?1 AND exchange IN (SELECT value FROM each_text(?2))",
);

static SPEND: Sql = Sql::new(
    "
    INSERT INTO model_spending (tenant, day, tokens) VALUES (?1, ?2, greatest(?3, 0))
    ON CONFLICT (tenant, day) DO UPDATE SET tokens = greatest(model_spending.tokens + ?3, 0) RETURNING tokens",
);

static FORGET_SPENDING: Sql = Sql::new("DELETE FROM model_spending WHERE tenant = ?1 AND day < ?2");

static DEPTH: Sql = Sql::new(
    "
    SELECT (SELECT count(*) FROM windows), (SELECT count(*) FROM window_turns), (SELECT min(opened_at) FROM windows),
           (SELECT count(*) FROM windows w JOIN scopes s ON s.id = w.scope
            JOIN model_spending m ON m.tenant = s.tenant AND m.day = ?1 AND m.tokens >= ?2)",
);

static DEAD: Sql = Sql::new(
    "
    SELECT d.exchange, d.attempts, d.error, d.dead_at FROM scopes s JOIN dead_letters d ON d.scope = s.id
    WHERE s.key = ?1 AND d.exchange > ?2 ORDER BY d.exchange LIMIT ?3",
);

#[async_trait]
impl WindowStore for SqlStore {
    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "queue_turns"))]
    async fn queue_turns(
        &self,
        owner: &str,
        turns: &[QueuedTurn],
        rules: &WindowRules,
        now: Time,
    ) -> Result<Queued, StoreError> {
        let mut queued = Queued::default();
        if turns.is_empty() {
            return Ok(queued);
        }
        let mut tx = self.begin().await?;
        let mut waiting: u64 =
            query_scalar(&WAITING).fetch_one(&mut tx).await.map_err(driver("measure the windows"))?;
        for turn in turns {
            let Some(scope) = queueable(&mut tx, owner, turn, now).await? else { continue };
            if waiting >= rules.max_waiting {
                queued.refused += 1;
                continue;
            }
            let window = open(&mut tx, scope, turn, rules, now).await?;
            query(&COPY)
                .bind(turn.exchange.to_string())
                .bind(window)
                .bind(&turn.turn_key)
                .execute(&mut tx)
                .await
                .map_err(driver("queue a turn"))?;
            waiting += 1;
            queued.queued += 1;
        }
        commit(tx).await?;
        Ok(queued)
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "claim_window"))]
    async fn claim_window(&self, claim: &WindowClaim) -> Result<Option<Window>, StoreError> {
        loop {
            let due: Option<i64> = query_scalar(&DUE)
                .bind(claim.now.0)
                .bind(day_of(claim.now))
                .bind(bound(claim.cap))
                .fetch_optional(&self.read)
                .await
                .map_err(driver("look for windows"))?;
            let Some(id) = due else { return Ok(None) };
            let mut tx = self.begin().await?;
            if tx.dialect() == Dialect::Postgres {
                // Another may lease another window of the scope at the same time; in SQLite nobody writes beside us.
                let locked = query_scalar::<i64>(&LOCK_SCOPE).bind(id).fetch_optional(&mut tx).await;
                locked.map_err(driver("claim a window"))?;
            }
            let found: Option<(u32, i64)> = query_as(&CLAIM)
                .bind(id)
                .bind(&claim.owner)
                .bind(claim.now.plus_millis(millis(claim.lease)).0)
                .bind(claim.now.0)
                .fetch_optional(&mut tx)
                .await
                .map_err(driver("claim a window"))?;
            let Some((attempts, opened_at)) = found else { continue };
            let rows: Vec<(String, String)> =
                query_as(&TURNS).bind(id).fetch_all(&mut tx).await.map_err(driver("read a window"))?;
            commit(tx).await?;
            // The outbox has read them before, so that they can be read.
            let turns = rows.iter().map(|(exchange, turn)| parse::<Turn>("window_turns", exchange, turn));
            let turns = turns.collect::<Result<_, _>>()?;
            return Ok(Some(Window { id, turns, attempts: attempts.saturating_sub(1), opened_at: Time(opened_at) }));
        }
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "finish_window"))]
    async fn finish_window(&self, owner: &str, window: i64, learned: &[Learned]) -> Result<WindowOutcome, StoreError> {
        let mut tx = self.begin().await?;
        let row: Option<(i64, i64, i64)> =
            query_as(&OWNED).bind(window).bind(owner).fetch_optional(&mut tx).await.map_err(driver("check a lease"))?;
        let Some((scope, revision, epoch)) = row else { return Ok(WindowOutcome::NotOurs) };
        if learned.iter().any(|l| l.epoch < epoch) {
            return Ok(WindowOutcome::NotOurs);
        }
        let exchanges: Vec<_> = learned.iter().map(|l| l.exchange).collect();
        let there: u64 = query_scalar(&STILL_THERE)
            .bind(window)
            .bind(rows(&exchanges))
            .fetch_one(&mut tx)
            .await
            .map_err(driver("read a window"))?;
        if there != exchanges.len() as u64 {
            return Ok(WindowOutcome::Stale);
        }
        let Some(revisions) = write(&mut tx, scope, revision, learned).await? else { return Ok(WindowOutcome::Stale) };
        drop_window(&mut tx, owner, window).await?;
        commit(tx).await?;
        Ok(WindowOutcome::Applied { revisions })
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "fail_window"))]
    async fn fail_window(&self, owner: &str, window: i64, failure: &JobFailure) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        match failure.retry_at {
            Some(at) => {
                let query = query(&GIVE_BACK).bind(window).bind(owner).bind(at.0);
                query.execute(&mut tx).await.map_err(driver("give a window back"))?;
            }
            None => {
                let error = &failure.error[..failure.error.floor_char_boundary(super::outbox::MAX_ERROR_BYTES)];
                let query = query(&BURY).bind(window).bind(owner).bind(error).bind(failure.now.0);
                query.execute(&mut tx).await.map_err(driver("give a window up"))?;
                drop_window(&mut tx, owner, window).await?;
            }
        }
        commit(tx).await
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "release_windows"))]
    async fn release_windows(&self, owner: &str) -> Result<(), StoreError> {
        query(&RELEASE).bind(owner).execute(&self.write).await.map_err(driver("give windows back"))?;
        Ok(())
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "spend"))]
    async fn spend(&self, tenant: &str, day: i64, tokens: i64) -> Result<u64, StoreError> {
        let mut tx = self.begin().await?;
        let sum: u64 = query_scalar(&SPEND)
            .bind(tenant)
            .bind(day)
            .bind(tokens)
            .fetch_one(&mut tx)
            .await
            .map_err(driver("count spending"))?;
        query(&FORGET_SPENDING)
            .bind(tenant)
            .bind(day - SPENDING_DAYS)
            .execute(&mut tx)
            .await
            .map_err(driver("forget old spending"))?;
        commit(tx).await?;
        Ok(sum)
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "window_depth"))]
    async fn window_depth(&self, day: i64, cap: Option<u64>) -> Result<WindowDepth, StoreError> {
        let (windows, turns, oldest, capped): (u64, u64, Option<i64>, u64) = query_as(&DEPTH)
            .bind(day)
            .bind(bound(cap))
            .fetch_one(&self.read)
            .await
            .map_err(driver("measure the windows"))?;
        Ok(WindowDepth { windows, turns, oldest: oldest.map(Time), capped })
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "dead_letters"))]
    async fn dead_letters(&self, scope: &Scope, page: &Page) -> Result<Vec<DeadLetter>, StoreError> {
        let found: Vec<(String, u32, String, i64)> = query_as(&DEAD)
            .bind(&key(scope)[..])
            .bind(page.after.as_deref().unwrap_or_default())
            .bind(page.limit)
            .fetch_all(&self.read)
            .await
            .map_err(driver("list dead letters"))?;
        found
            .into_iter()
            .map(|(exchange, attempts, error, at)| {
                Ok(DeadLetter { exchange: exchange_id(&exchange)?, attempts, error, at: Time(at) })
            })
            .collect()
    }
}

/// The scope of an exchange that may be queued.
async fn queueable(conn: &mut Tx, owner: &str, turn: &QueuedTurn, now: Time) -> Result<Option<i64>, StoreError> {
    if conn.dialect() == Dialect::Postgres {
        let locked = query_scalar::<i64>(&LOCK_SCOPE_OF).bind(turn.exchange.to_string()).fetch_optional(&mut *conn);
        locked.await.map_err(driver("queue a turn"))?;
    }
    query_scalar(&QUEUEABLE)
        .bind(turn.exchange.to_string())
        .bind(owner)
        .bind(&turn.turn_key)
        .bind(now.plus_millis(-SEEN_MILLIS).0)
        .bind(&prefix(&turn.turn_key)[..])
        .fetch_optional(conn)
        .await
        .map_err(driver("queue a turn"))
}

/// The window that a turn goes into.
async fn open(conn: &mut Tx, scope: i64, turn: &QueuedTurn, rules: &WindowRules, now: Time) -> Result<i64, StoreError> {
    query_scalar(&OPEN)
        .bind(scope)
        .bind(&turn.session)
        .bind(now.0)
        .bind(now.plus_millis(millis(rules.idle)).0)
        .bind(bound(Some(turn.tokens)))
        .bind(rules.max_turns)
        .bind(bound(Some(rules.max_tokens)))
        .fetch_one(conn)
        .await
        .map_err(driver("open a window"))
}

/// Writes what several turns of a scope taught; returns the revision after each, or `None` when it was decided on something else.
async fn write(
    conn: &mut Tx,
    scope: i64,
    mut revision: i64,
    learned: &[Learned],
) -> Result<Option<Vec<i64>>, StoreError> {
    let mut facts = StoredFacts::load(&mut *conn, learned.iter().flat_map(|l| &l.changes)).await?;
    let mut writes = Writes::default();
    let mut revisions = Vec::with_capacity(learned.len());
    let before = revision;
    for one in learned {
        if one.revision != revision || !facts.admits(scope, &one.changes) {
            return Ok(None);
        }
        for change in &one.changes {
            writes.change(scope, change, &mut facts);
        }
        for (episode, fact) in &one.marks {
            writes.mark(scope, *episode, *fact);
        }
        for proposal in &one.proposals {
            writes.proposal(scope, proposal);
        }
        revision += i64::from(!one.changes.is_empty() || !one.marks.is_empty());
        revisions.push(revision);
    }
    writes.run(&mut *conn).await?;
    if revision != before {
        set_revisions(conn, &[(scope, revision)]).await?;
    }
    Ok(Some(revisions))
}

/// Takes the turns that a fact or an episode rests on out of their windows, because it is deleted: no model is asked about them any more.
pub(super) async fn forget_basis(conn: &mut Tx, scope: i64, id: &str) -> Result<(), StoreError> {
    query(&FORGET_BASIS).bind(scope).bind(id).execute(conn).await.map_err(driver("forget waiting turns"))?;
    Ok(())
}

async fn drop_window(conn: &mut Tx, owner: &str, window: i64) -> Result<(), StoreError> {
    for sql in [&DROP_TURNS, &DROP] {
        query(sql).bind(window).bind(owner).execute(&mut *conn).await.map_err(driver("drop a window"))?;
    }
    Ok(())
}

/// Days since 1970, UTC.
fn day_of(now: Time) -> i64 {
    now.0.div_euclid(24 * 3600 * 1000)
}

/// A count as a column holds it; none = more than any.
fn bound(count: Option<u64>) -> i64 {
    count.map_or(i64::MAX, |count| i64::try_from(count).unwrap_or(i64::MAX))
}

fn exchange_id(text: &str) -> Result<ExchangeId, StoreError> {
    text.parse().map_err(|_| StoreError::Inconsistent {
        table: "dead_letters",
        column: "exchange",
        id: text.to_owned(),
        problem: "not the id of an exchange".to_owned(),
    })
}
