//! What people think of an answer, and so of the memories that were shown for it.

use axum::extract::State;
use serde::Deserialize;
use serde_json::json;

use super::call::{Json, Write};
use super::error::{Answer, ApiError};
use super::{Shared, render};
use crate::base::ExchangeId;
use crate::store::Signal;

/// Feedback as it is sent.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Feedback {
    exchange: String,
    signal: Signal,
}

/// `POST /feedback`: moves the scores of the episodes that were shown for an answer, within bounds. A later word on the same answer takes the
/// place of the earlier one.
pub(super) async fn give(State(api): State<Shared>, call: Write, Json(feedback): Json<Feedback>) -> Answer {
    let id: ExchangeId = feedback.exchange.parse().map_err(|_| {
        ApiError::bad("exchange", "is not the id of an exchange, as in the header x-backstory-exchange")
    })?;
    let Some(episodes) = api.store.rate(&call.scope, id, feedback.signal).await? else {
        return Err(ApiError::not_found("exchange, or what was shown for it is not kept any more"));
    };
    api.changed.changed(&call.scope);
    Ok(render::ok(&json!({ "exchange": id, "signal": feedback.signal, "episodes": episodes })))
}
