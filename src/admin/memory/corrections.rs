//! What people put right beyond one fact's own members: an earlier value brought back, two facts that are one.

use std::sync::Arc;

use axum::extract::State;
use serde::Deserialize;

use super::call::{Id, IfMatch, Json, Write};
use super::edits::{TRIES, apply, busy, check_version, edit, no_such, refused, schema, visible};
use super::error::{Answer, ApiError};
use super::{Shared, render};
use crate::base::FactId;
use crate::memory::Fact;
use crate::memory::edit::{self as edits, EditCx};
use crate::memory::merge::merge as merged;

/// Which version to bring back.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RestoreBody {
    /// A version of the fact's history.
    version: i64,
}

/// `POST /facts/{id}/restore`: the fact is again what it was in a version of its history. What took its place goes.
pub(super) async fn restore(
    State(api): State<Shared>,
    call: Write,
    Id(id): Id<FactId>,
    IfMatch(expected): IfMatch,
    Json(body): Json<RestoreBody>,
) -> Answer {
    visible(&api, &call.caller, &call.scope, id).await?;
    let history = api.store.history(&call.scope, id).await?;
    let Some(entry) = history.iter().find(|entry| entry.version == body.version) else {
        let last = history.last().map_or(0, |entry| entry.version);
        return Err(ApiError::bad("version", format!("the fact has no such version; it has 1 to {last}")));
    };
    if !call.caller.sees(entry.fact.sensitivity) {
        return Err(no_such());
    }
    let decide = |fact: &Fact, existing: &[Arc<Fact>], cx: &EditCx<'_>| {
        edits::restore(fact, existing, entry, schema(&api, &call.scope), cx).map_err(refused)
    };
    edit(&api, &call, id, expected, decide, Some(&entry.fact.key)).await
}

/// Which fact to merge into.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MergeBody {
    into: FactId,
    /// The version that this fact is expected to have.
    version: Option<i64>,
}

/// `POST /facts/{id}/merge`: the fact goes into another; answers with that one.
pub(super) async fn merge(
    State(api): State<Shared>,
    call: Write,
    Id(id): Id<FactId>,
    IfMatch(in_header): IfMatch,
    Json(body): Json<MergeBody>,
) -> Answer {
    let expected = in_header.or(body.version);
    let _turn = api.turns.take(&call.scope).await;
    for _ in 0..TRIES {
        let from = visible(&api, &call.caller, &call.scope, id).await?;
        let into = visible(&api, &call.caller, &call.scope, body.into).await?;
        check_version(&api, &call, &from, expected).await?;
        let cx = EditCx { now: api.clock.now(), ids: &*api.random, actor: call.caller.editor() };
        let changes = merged(&from, &into, &cx).map_err(refused)?;
        if apply(&api, &call.scope, &changes).await? {
            let fact = api.store.fact(&call.scope, body.into).await?.ok_or_else(no_such)?;
            return Ok(render::ok(&render::object(&fact)));
        }
    }
    Err(busy())
}
