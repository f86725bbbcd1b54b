//! What was shown for an answer, what was said, and what was proposed from it.

use std::slice;

use async_trait::async_trait;
use serde_json::{Map, Value};
use tracing::instrument;

use super::error::driver;
use super::query::{query, query_as, query_scalar};
use super::row::{name, parse, rows};
use super::scope::{ensure_one, key, set_revisions};
use super::sweep::older;
use super::text::{Dialect, Sql};
use super::{SqlStore, commit};
use crate::base::{ExchangeId, Time};
use crate::memory::{Scope, Turn};
use crate::store::{ExchangeStore, Page, Proposal, ProposalStatus, Shown, Signal, StoreError};

static SHOWN: Sql = Sql::new(
    "
    SELECT x.body FROM exchanges x JOIN scopes s ON s.id = x.scope WHERE x.id = ?1 AND s.key = ?2",
);

static RAW: Sql = Sql::new(
    "
    SELECT x.turn FROM raw_exchanges x JOIN scopes s ON s.id = x.scope WHERE x.id = ?1 AND s.key = ?2",
);

static SWEEP_RAW: Sql = older!("raw_exchanges");

/// What is in parts goes with them; these are before and beyond all parts.
static SWEEP_OUTER_RAW: [Sql; 2] = [older!("raw_exchanges_before"), older!("raw_exchanges_beyond")];

/// What was shown, of an exchange of this scope.
static READ: Sql = Sql::new("SELECT body FROM exchanges WHERE id = ?1 AND scope = ?2");

static EPISODES: Sql = Sql::new(
    "
    SELECT id, body FROM episodes WHERE scope = ?1 AND id IN (SELECT value FROM each_text(?2))",
);

static WRITE: Sql = Sql::new("UPDATE exchanges SET body = ?3 WHERE id = ?1 AND scope = ?2");

static MOVE: Sql = Sql::new(
    "
    UPDATE episodes SET body = j.value ->> 1 FROM each_row(?2) j
    WHERE episodes.scope = ?1 AND episodes.id = j.value ->> 0",
);

/// Never to nothing, and never above what a memory starts with at most.
const BOUNDS: (f64, f64) = (0.1, 1.0);

static PROPOSALS: Sql = Sql::new(
    "
    SELECT p.id, p.body FROM scopes s JOIN proposals p ON p.scope = s.id
    WHERE s.key = ?1 AND p.id > ?2 AND (?3 IS NULL OR p.status = ?3)
    ORDER BY p.id LIMIT ?4",
);

#[async_trait]
impl ExchangeStore for SqlStore {
    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "shown"))]
    async fn shown(&self, scope: &Scope, exchange: ExchangeId) -> Result<Option<Shown>, StoreError> {
        let id = exchange.to_string();
        let body: Option<String> = query_scalar(&SHOWN)
            .bind(&id)
            .bind(&key(scope)[..])
            .fetch_optional(&self.read)
            .await
            .map_err(driver("read what was shown"))?;
        body.map(|body| parse("exchanges", &id, &body)).transpose()
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "raw"))]
    async fn raw(&self, scope: &Scope, exchange: ExchangeId) -> Result<Option<Turn>, StoreError> {
        let id = exchange.to_string();
        let turn: Option<String> = query_scalar(&RAW)
            .bind(&id)
            .bind(&key(scope)[..])
            .fetch_optional(&self.read)
            .await
            .map_err(driver("read a raw exchange"))?;
        turn.map(|turn| parse("raw_exchanges", &id, &turn)).transpose()
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "sweep_raw"))]
    async fn sweep_raw(&self, before: Time, max_rows: u32) -> Result<u64, StoreError> {
        let steps = match self.write.dialect() {
            Dialect::Sqlite => slice::from_ref(&SWEEP_RAW),
            Dialect::Postgres => &SWEEP_OUTER_RAW[..],
        };
        self.sweep_pieces(steps.iter().map(|sql| (sql, before.0.into())), max_rows).await
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "rate"))]
    async fn rate(&self, scope: &Scope, exchange: ExchangeId, signal: Signal) -> Result<Option<u64>, StoreError> {
        self.again(|| async move {
            let id = exchange.to_string();
            let mut tx = self.begin().await?;
            let row = ensure_one(&mut tx, scope).await?;
            let body: Option<String> = query_scalar(&READ)
                .bind(&id)
                .bind(row.id)
                .fetch_optional(&mut tx)
                .await
                .map_err(driver("read what was shown"))?;
            let Some(body) = body else { return Ok(None) };
            // As it stands, since an older version of the program may have written more.
            let mut exchange: Value = parse("exchanges", &id, &body)?;
            let found: Vec<(String, String)> = query_as(&EPISODES)
                .bind(row.id)
                .bind(rows(exchange["detail"]["episodes"].as_array().map_or(&[], Vec::as_slice)))
                .fetch_all(&mut tx)
                .await
                .map_err(driver("read what was shown"))?;
            let mut moved = Map::new();
            let mut episodes = Vec::with_capacity(found.len());
            for (episode, body) in found {
                let mut body: Value = parse("episodes", &episode, &body)?;
                // At a bound less was moved than the signal says: only that is taken back.
                let start = body["score"].as_f64().unwrap_or(BOUNDS.1)
                    - exchange["detail"]["moved"][&episode].as_f64().unwrap_or(0.0);
                let score = (start + signal.moves()).clamp(BOUNDS.0, BOUNDS.1);
                body["score"] = score.into();
                moved.insert(episode.clone(), (score - start).into());
                episodes.push((episode, body.to_string()));
            }
            if !episodes.is_empty() {
                let moves = query(&MOVE).bind(row.id).bind(rows(&episodes)).execute(&mut tx).await;
                moves.map_err(driver("move the scores of episodes"))?;
            }
            exchange["detail"]["feedback"] = name(&signal).into();
            exchange["detail"]["moved"] = moved.into();
            query(&WRITE)
                .bind(&id)
                .bind(row.id)
                .bind(exchange.to_string())
                .execute(&mut tx)
                .await
                .map_err(driver("note a signal"))?;
            set_revisions(&mut tx, &[(row.id, row.revision + 1)]).await?;
            commit(tx).await?;
            Ok(Some(episodes.len() as u64))
        })
        .await
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "proposals"))]
    async fn proposals(
        &self,
        scope: &Scope,
        status: Option<ProposalStatus>,
        page: &Page,
    ) -> Result<Vec<Proposal>, StoreError> {
        let found: Vec<(String, String)> = query_as(&PROPOSALS)
            .bind(&key(scope)[..])
            .bind(page.after.as_deref().unwrap_or_default())
            .bind(status.as_ref().map(name))
            .bind(page.limit)
            .fetch_all(&self.read)
            .await
            .map_err(driver("list proposals"))?;
        found.iter().map(|(id, body)| parse("proposals", id, body)).collect()
    }
}
