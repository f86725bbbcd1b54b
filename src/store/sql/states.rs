//! Conversation state. That of a turn is written with the exchange that it came up with; summaries, and which of them a cut
//! uses, are written here.

use async_trait::async_trait;
use tracing::instrument;

use super::SqlStore;
use super::commit;
use super::error::driver;
use super::query::{On, query, query_as, query_scalar};
use super::row::{json, parse, rows};
use super::scope::{ensure_one, key};
use super::text::Sql;
use crate::base::{Time, hex};
use crate::context::summary::Summary;
use crate::conversation::Hash;
use crate::memory::Scope;
use crate::store::{Cut, HandedOut, Settled, StateKey, StateStore, StoreError, TurnState};

static READ: Sql = Sql::new(
    "
    SELECT t.body FROM turn_states t JOIN scopes s ON s.id = t.scope
    WHERE s.key = ?1 AND t.prefix = ?2 AND t.expires_at > ?3 AND t.body <> ''",
);

static SUMMARY: Sql = Sql::new(
    "
    SELECT d.prefix, d.body FROM each_text(?1) j
    JOIN scopes s ON s.key = ?2
    JOIN digests d ON d.scope = s.id AND d.kind = 'summary' AND d.prefix = unhex(j.value)
    WHERE d.expires_at > ?3 ORDER BY j.key LIMIT 1",
);

static KEEP_SUMMARY: Sql = Sql::new(
    "
    INSERT INTO digests (scope, kind, prefix, expires_at, body) VALUES (?1, 'summary', ?2, ?3, ?4)
    ON CONFLICT (scope, kind, prefix) DO UPDATE SET expires_at = excluded.expires_at, body = excluded.body",
);

static CUT: Sql = Sql::new(
    "
    SELECT d.body FROM digests d JOIN scopes s ON s.id = d.scope
    WHERE s.key = ?1 AND d.kind = 'cut' AND d.prefix = ?2 AND d.expires_at > ?3",
);

/// What was settled first stays, and lives on while it is asked for.
static SETTLE: Sql = Sql::new(
    "
    INSERT INTO digests (scope, kind, prefix, expires_at, body) VALUES (?1, 'cut', ?2, ?3, ?4)
    ON CONFLICT (scope, kind, prefix) DO UPDATE SET
        body = CASE WHEN digests.expires_at > ?5 THEN digests.body ELSE excluded.body END,
        expires_at = greatest(digests.expires_at, excluded.expires_at)
    RETURNING body",
);

/// The summary in use lives as long as the cut, since the next one builds on it.
static PROLONG: Sql = Sql::new(
    "
    UPDATE digests SET expires_at = greatest(expires_at, ?3) WHERE scope = ?1 AND kind = 'summary' AND prefix = ?2",
);

/// The first name has the body.
static HAND_OUT: Sql = Sql::new(
    "
    INSERT INTO digests (scope, kind, prefix, expires_at, body)
    SELECT ?1, 'response', unhex(j.value), ?3, CASE j.key WHEN 0 THEN ?4 ELSE 'null' END FROM each_text(?2) j WHERE true
    ON CONFLICT (scope, kind, prefix) DO UPDATE SET expires_at = excluded.expires_at, body = excluded.body",
);

static HANDED_OUT: Sql = Sql::new(
    "
    SELECT d.body FROM digests d JOIN scopes s ON s.id = d.scope
    WHERE s.key = ?1 AND d.kind = 'response' AND d.prefix = ?2 AND d.expires_at > ?3",
);

#[async_trait]
impl StateStore for SqlStore {
    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "turn_state"))]
    async fn turn_state(&self, state: &StateKey, now: Time) -> Result<Option<TurnState>, StoreError> {
        let body: Option<String> = query_scalar(&READ)
            .bind(&key(&state.scope)[..])
            .bind(&state.prefix[..])
            .bind(now.0)
            .fetch_optional(&self.read)
            .await
            .map_err(driver("read a conversation state"))?;
        body.map(|body| parse("turn_states", &hex(&state.prefix), &body)).transpose()
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "summary"))]
    async fn summary(&self, scope: &Scope, states: &[Hash], now: Time) -> Result<Option<Summary>, StoreError> {
        find(&self.read, scope, states, now).await
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "keep_summary"))]
    async fn keep_summary(
        &self,
        scope: &Scope,
        epoch: i64,
        summary: &Summary,
        expires_at: Time,
    ) -> Result<bool, StoreError> {
        let mut tx = self.begin().await?;
        let row = ensure_one(&mut tx, scope).await?;
        if row.epoch != epoch {
            return Ok(false);
        }
        query(&KEEP_SUMMARY)
            .bind(row.id)
            .bind(&summary.covers[..])
            .bind(expires_at.0)
            .bind(json(summary))
            .execute(&mut tx)
            .await
            .map_err(driver("keep a summary"))?;
        commit(tx).await?;
        Ok(true)
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "cut"))]
    async fn cut(&self, state: &StateKey, now: Time) -> Result<Option<Settled>, StoreError> {
        let body: Option<String> = query_scalar(&CUT)
            .bind(&key(&state.scope)[..])
            .bind(&state.prefix[..])
            .bind(now.0)
            .fetch_optional(&self.read)
            .await
            .map_err(driver("read a cut"))?;
        body.map(|body| parse("digests", &hex(&state.prefix), &body)).transpose()
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "settle_cut"))]
    async fn settle_cut(&self, cut: &Cut<'_>, now: Time) -> Result<Option<Settled>, StoreError> {
        let mut tx = self.begin().await?;
        let row = ensure_one(&mut tx, &cut.key.scope).await?;
        if row.epoch != cut.epoch {
            return Ok(None);
        }
        let found = find(&mut tx, &cut.key.scope, cut.candidates, now).await?;
        let body: String = query_scalar(&SETTLE)
            .bind(row.id)
            .bind(&cut.key.prefix[..])
            .bind(cut.expires_at.0)
            .bind(json(&Settled(found)))
            .bind(now.0)
            .fetch_one(&mut tx)
            .await
            .map_err(driver("settle a cut"))?;
        let settled: Settled = parse("digests", &hex(&cut.key.prefix), &body)?;
        if let Some(summary) = &settled.0 {
            query(&PROLONG)
                .bind(row.id)
                .bind(&summary.covers[..])
                .bind(cut.expires_at.0)
                .execute(&mut tx)
                .await
                .map_err(driver("settle a cut"))?;
        }
        commit(tx).await?;
        Ok(Some(settled))
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "hand_out"))]
    async fn hand_out(&self, handed: &HandedOut) -> Result<(), StoreError> {
        let names: Vec<_> = handed.names.iter().map(|name| hex(name)).collect();
        let mut tx = self.begin().await?;
        let row = ensure_one(&mut tx, &handed.scope).await?;
        if handed.epoch.is_some_and(|epoch| row.epoch != epoch) {
            return Ok(());
        }
        query(&HAND_OUT)
            .bind(row.id)
            .bind(rows(&names))
            .bind(handed.expires_at.0)
            .bind(json(&handed.shown))
            .execute(&mut tx)
            .await
            .map_err(driver("note a response"))?;
        commit(tx).await
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "handed_out"))]
    async fn handed_out(&self, name: &StateKey, now: Time) -> Result<Option<Option<TurnState>>, StoreError> {
        let body: Option<String> = query_scalar(&HANDED_OUT)
            .bind(&key(&name.scope)[..])
            .bind(&name.prefix[..])
            .bind(now.0)
            .fetch_optional(&self.read)
            .await
            .map_err(driver("look for a response"))?;
        body.map(|body| parse("digests", &hex(&name.prefix), &body)).transpose()
    }
}

async fn find(
    from: impl Into<On<'_>>,
    scope: &Scope,
    states: &[Hash],
    now: Time,
) -> Result<Option<Summary>, StoreError> {
    let states: Vec<_> = states.iter().map(|state| hex(state)).collect();
    let found: Option<(Vec<u8>, String)> = query_as(&SUMMARY)
        .bind(rows(&states))
        .bind(&key(scope)[..])
        .bind(now.0)
        .fetch_optional(from)
        .await
        .map_err(driver("look for a summary"))?;
    found.map(|(prefix, body)| parse("digests", &hex(&prefix), &body)).transpose()
}
