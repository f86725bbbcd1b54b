//! What was shown for an answer, and what was proposed from it.

use async_trait::async_trait;
use tracing::instrument;

use super::SqliteStore;
use super::error::driver;
use super::row::{name, parse};
use super::scope::key;
use crate::base::ExchangeId;
use crate::memory::Scope;
use crate::store::{ExchangeStore, Page, Proposal, ProposalStatus, Shown, StoreError};

const SHOWN: &str = "
    SELECT x.body FROM exchanges x JOIN scopes s ON s.id = x.scope WHERE x.id = ?1 AND s.key = ?2";

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
