//! Conversation state. It is written by `append`, with the exchange that it came up with.

use async_trait::async_trait;
use tracing::instrument;

use super::SqliteStore;
use super::error::driver;
use super::row::{hex, parse};
use super::scope::key;
use crate::base::Time;
use crate::store::{StateKey, StateStore, StoreError, TurnState};

const READ: &str = "
    SELECT t.body FROM turn_states t JOIN scopes s ON s.id = t.scope
    WHERE s.key = ?1 AND t.prefix = ?2 AND t.expires_at > ?3";

#[async_trait]
impl StateStore for SqliteStore {
    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = "sqlite", db.operation.name = "turn_state"))]
    async fn turn_state(&self, state: &StateKey, now: Time) -> Result<Option<TurnState>, StoreError> {
        let body: Option<String> = sqlx::query_scalar(READ)
            .bind(&key(&state.scope)[..])
            .bind(&state.prefix[..])
            .bind(now.0)
            .fetch_optional(&self.read)
            .await
            .map_err(driver("read a conversation state"))?;
        body.map(|body| parse("turn_states", &hex(&state.prefix), &body)).transpose()
    }
}
