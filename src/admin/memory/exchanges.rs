//! What was shown for an answer, and what was proposed from exchanges.

use axum::extract::State;
use serde::Deserialize;
use serde_json::{Value, json};

use super::call::{Filter, Id, Read};
use super::error::{Answer, ApiError};
use super::listing::Listing;
use super::{Shared, render};
use crate::base::{ExchangeId, ProposalId};
use crate::memory::Turn;
use crate::store::{DeadLetter, ProposalStatus};

/// `GET /exchanges/{id}`: what was shown for that answer, and why; and what was said, where `keep_exchanges_days` keeps it.
pub(super) async fn read(State(api): State<Shared>, call: Read, Id(id): Id<ExchangeId>) -> Answer {
    let (shown, raw) = tokio::try_join!(api.store.shown(&call.scope, id), api.store.raw(&call.scope, id))?;
    let mut body = match (&shown, &raw) {
        (Some(shown), _) => render::object(shown),
        (None, Some(raw)) => json!({ "exchange": id, "at": raw.said_at.to_rfc3339() }),
        (None, None) => return Err(ApiError::not_found("exchange")),
    };
    if let Some(raw) = &raw {
        body["said"] = said(raw);
    }
    Ok(render::ok(&body))
}

/// What was said in an exchange: the message before, the newest user turn, the reply.
fn said(raw: &Turn) -> Value {
    let all = raw.before.iter().chain(&raw.user).chain(&raw.reply);
    all.map(|said| json!({ "role": said.role, "text": said.text })).collect()
}

/// What became of what was proposed; or of exchanges from which nothing could be learned at all.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Wanted {
    Accepted,
    Refused,
    Quarantined,
    Failed,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ProposalQuery {
    status: Option<Wanted>,
    limit: Option<u32>,
    cursor: Option<String>,
}

/// `GET /proposals`: what was proposed and what became of it. `status=failed` lists the exchanges that were given up, by rule or by model.
pub(super) async fn proposals(State(api): State<Shared>, call: Read, Filter(query): Filter<ProposalQuery>) -> Answer {
    let status = match query.status {
        None => None,
        Some(Wanted::Accepted) => Some(ProposalStatus::Accepted),
        Some(Wanted::Refused) => Some(ProposalStatus::Refused),
        Some(Wanted::Quarantined) => Some(ProposalStatus::Quarantined),
        Some(Wanted::Failed) => return failed(&api, &call, &query).await,
    };
    let listing = Listing::new::<ProposalId>(query.limit, query.cursor.as_deref())?;
    let rows = api.store.proposals(&call.scope, status, &listing.page()).await?;
    Ok(listing.answer(rows, |proposal| proposal.id.to_string(), |proposal| Some(render::object(proposal))))
}

async fn failed(api: &Shared, call: &Read, query: &ProposalQuery) -> Answer {
    let listing = Listing::new::<ExchangeId>(query.limit, query.cursor.as_deref())?;
    let rows = api.store.dead_letters(&call.scope, &listing.page()).await?;
    let show = |letter: &DeadLetter| {
        Some(json!({
            "exchange": letter.exchange.to_string(),
            "status": "failed",
            "reason": letter.error,
            "attempts": letter.attempts,
            "at": letter.at.to_rfc3339(),
        }))
    };
    Ok(listing.answer(rows, |letter| letter.exchange.to_string(), show))
}
