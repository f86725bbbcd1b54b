//! What was shown for an answer, and what was proposed from it.

use std::collections::HashMap;

use async_trait::async_trait;
use tracing::instrument;

use super::error::driver;
use super::row::{json, name, parse};
use super::scope::{ensure_one, key, set_revisions};
use super::{SqliteStore, commit};
use crate::base::ExchangeId;
use crate::memory::Scope;
use crate::store::{ExchangeStore, Page, Proposal, ProposalStatus, Shown, Signal, StoreError};

const SHOWN: &str = "
    SELECT x.body FROM exchanges x JOIN scopes s ON s.id = x.scope WHERE x.id = ?1 AND s.key = ?2";

/// By how much an earlier signal moved each episode, of an exchange of this scope.
const MOVED: &str = "
    SELECT coalesce(body -> '$.detail.moved', '{}') FROM exchanges WHERE id = ?1 AND scope = ?2";

/// The episodes that were shown, of an exchange of this scope.
const SHOWN_SCORES: &str = "
    SELECT e.id, e.body ->> '$.score' FROM exchanges x, json_each(x.body, '$.detail.episodes') shown
    JOIN episodes e ON e.scope = x.scope AND e.id = shown.value
    WHERE x.id = ?1 AND x.scope = ?2";

const NOTE: &str = "
    UPDATE exchanges SET body = json_set(body, '$.detail.feedback', ?3, '$.detail.moved', json(?4))
    WHERE id = ?1 AND scope = ?2";

const MOVE: &str = "UPDATE episodes SET body = json_set(body, '$.score', ?3) WHERE scope = ?1 AND id = ?2";

/// Never to nothing, and never above what a memory starts with at most.
const BOUNDS: (f64, f64) = (0.1, 1.0);

const PROPOSALS: &str = "
    SELECT p.id, p.body FROM scopes s JOIN proposals p ON p.scope = s.id
    WHERE s.key = ?1 AND p.id > ?2 AND (?3 IS NULL OR p.status = ?3)
    ORDER BY p.id LIMIT ?4";

#[async_trait]
impl ExchangeStore for SqliteStore {
    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = "sqlite", db.operation.name = "shown"))]
    async fn shown(&self, scope: &Scope, exchange: ExchangeId) -> Result<Option<Shown>, StoreError> {
        let id = exchange.to_string();
        let body: Option<String> = sqlx::query_scalar(SHOWN)
            .bind(&id)
            .bind(&key(scope)[..])
            .fetch_optional(&self.read)
            .await
            .map_err(driver("read what was shown"))?;
        body.map(|body| parse("exchanges", &id, &body)).transpose()
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = "sqlite", db.operation.name = "rate"))]
    async fn rate(&self, scope: &Scope, exchange: ExchangeId, signal: Signal) -> Result<Option<u64>, StoreError> {
        let id = exchange.to_string();
        let mut tx = self.begin().await?;
        let row = ensure_one(&mut tx, scope).await?;
        let before: Option<String> = sqlx::query_scalar(MOVED)
            .bind(&id)
            .bind(row.id)
            .fetch_optional(&mut *tx)
            .await
            .map_err(driver("read an earlier signal"))?;
        let Some(before) = before else { return Ok(None) };
        let before: HashMap<String, f64> = parse("exchanges", &id, &before)?;
        let shown: Vec<(String, f64)> = sqlx::query_as(SHOWN_SCORES)
            .bind(&id)
            .bind(row.id)
            .fetch_all(&mut *tx)
            .await
            .map_err(driver("read what was shown"))?;
        let mut moved = HashMap::new();
        for (episode, score) in &shown {
            // At a bound less was moved than the signal says: only that is taken back.
            let start = score - before.get(episode).copied().unwrap_or(0.0);
            let score = (start + signal.moves()).clamp(BOUNDS.0, BOUNDS.1);
            moved.insert(episode.as_str(), score - start);
            sqlx::query(MOVE)
                .bind(row.id)
                .bind(episode)
                .bind(score)
                .execute(&mut *tx)
                .await
                .map_err(driver("move the score of an episode"))?;
        }
        sqlx::query(NOTE)
            .bind(&id)
            .bind(row.id)
            .bind(name(&signal))
            .bind(json(&moved))
            .execute(&mut *tx)
            .await
            .map_err(driver("note a signal"))?;
        set_revisions(&mut tx, &[(row.id, row.revision + 1)]).await?;
        commit(tx).await?;
        Ok(Some(shown.len() as u64))
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = "sqlite", db.operation.name = "proposals"))]
    async fn proposals(
        &self,
        scope: &Scope,
        status: Option<ProposalStatus>,
        page: &Page,
    ) -> Result<Vec<Proposal>, StoreError> {
        let found: Vec<(String, String)> = sqlx::query_as(PROPOSALS)
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
