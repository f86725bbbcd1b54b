//! What was shown for an answer, and what was proposed from exchanges.

use axum::extract::State;
use serde::Deserialize;

use super::call::{Filter, Id, Read};
use super::error::{Answer, ApiError};
use super::listing::Listing;
use super::{Shared, render};
use crate::base::{ExchangeId, ProposalId};
use crate::store::ProposalStatus;

/// `GET /exchanges/{id}`: what was shown for that answer, and why.
pub(super) async fn read(State(api): State<Shared>, call: Read, Id(id): Id<ExchangeId>) -> Answer {
    let shown = api.store.shown(&call.scope, id).await?.ok_or_else(|| ApiError::not_found("exchange"))?;
    Ok(render::ok(&render::object(&shown)))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ProposalQuery {
    status: Option<ProposalStatus>,
    limit: Option<u32>,
    cursor: Option<String>,
}

/// `GET /proposals`: what was proposed and what became of it.
pub(super) async fn proposals(State(api): State<Shared>, call: Read, Filter(query): Filter<ProposalQuery>) -> Answer {
    let listing = Listing::new::<ProposalId>(query.limit, query.cursor.as_deref())?;
    let rows = api.store.proposals(&call.scope, query.status, &listing.page()).await?;
    Ok(listing.answer(rows, |proposal| proposal.id.to_string(), |proposal| Some(render::object(proposal))))
}
