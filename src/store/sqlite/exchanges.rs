//! What was shown for an answer, and what was proposed from it.

use async_trait::async_trait;
use tracing::instrument;

use super::error::driver;
use super::row::{name, parse};
use super::scope::{ensure_one, key, set_revisions};
use super::{SqliteStore, commit};
use crate::base::ExchangeId;
use crate::memory::Scope;
use crate::store::{ExchangeStore, Page, Proposal, ProposalStatus, Shown, Signal, StoreError};

const SHOWN: &str = "
    SELECT x.body FROM exchanges x JOIN scopes s ON s.id = x.scope WHERE x.id = ?1 AND s.key = ?2";

/// The signal, and the episodes that were shown, of an exchange of this scope.
const RATED: &str = "
    SELECT body ->> '$.detail.feedback', coalesce(body -> '$.detail.episodes', '[]') FROM exchanges
    WHERE id = ?1 AND scope = ?2";

const NOTE: &str = "UPDATE exchanges SET body = json_set(body, '$.detail.feedback', ?3) WHERE id = ?1 AND scope = ?2";

/// Never to nothing, and never above what a memory starts with at most.
const MOVE: &str = "
    UPDATE episodes SET body = json_set(body, '$.score', max(0.1, min(1.0, (body ->> '$.score') + ?3)))
    WHERE scope = ?1 AND id IN (SELECT value FROM json_each(?2))";

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
        let found: Option<(Option<String>, String)> = sqlx::query_as(RATED)
            .bind(&id)
            .bind(row.id)
            .fetch_optional(&mut *tx)
            .await
            .map_err(driver("read what was shown"))?;
        let Some((before, episodes)) = found else { return Ok(None) };
        let signals = [Signal::Good, Signal::Bad];
        let before = signals.into_iter().find(|signal| before.as_deref() == Some(&name(signal)));
        sqlx::query(NOTE)
            .bind(&id)
            .bind(row.id)
            .bind(name(&signal))
            .execute(&mut *tx)
            .await
            .map_err(driver("note a signal"))?;
        let moved = sqlx::query(MOVE)
            .bind(row.id)
            .bind(episodes)
            .bind(signal.moves() - before.map_or(0.0, Signal::moves))
            .execute(&mut *tx)
            .await
            .map_err(driver("move the scores of episodes"))?;
        set_revisions(&mut tx, &[(row.id, row.revision + 1)]).await?;
        commit(tx).await?;
        Ok(Some(moved.rows_affected()))
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
