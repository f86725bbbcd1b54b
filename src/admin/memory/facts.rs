//! Facts: list, read, add, change, delete, confirm, lock, and their history. How they are changed is in `edits`.

use std::sync::Arc;

use axum::extract::State;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use super::call::{Filter, Id, IfMatch, Json, Read, Write};
use super::edits::{TRIES, apply, busy, check_value, check_version, edit, existing, no_such, refused, schema, visible};
use super::episodes::check_labels;
use super::error::{Answer, ApiError};
use super::listing::{self, Listing};
use super::mentions::{Gone, mark};
use super::past::When;
use super::{Shared, past, render};
use crate::base::{ErrorKind, FactId, Time};
use crate::memory::edit::{self as edits, EditCx, EditError, FactPatch, NewFact};
use crate::memory::{Actor, Fact, FactStatus, SourceType};
use crate::store::FactFilter;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FactQuery {
    key: Option<String>,
    status: Option<FactStatus>,
    #[serde(default)]
    current: bool,
    /// What was true then.
    as_of: Option<String>,
    /// What was known then.
    known_at: Option<String>,
    limit: Option<u32>,
    cursor: Option<String>,
}

/// `GET /facts`.
pub(super) async fn list(State(api): State<Shared>, call: Read, Filter(query): Filter<FactQuery>) -> Answer {
    if let Some(when) = When::new(query.as_of.as_deref(), query.known_at.as_deref(), api.clock.now())? {
        if query.status.is_some() || query.current {
            let public = "as_of and known_at list what held then; status and current are about now: leave them out";
            return Err(ApiError::bad(if query.current { "current" } else { "status" }, public));
        }
        let listing = past::listing(query.limit, query.cursor.as_deref())?;
        return past::list(&api, &call, when, query.key.as_deref(), &listing).await;
    }
    let listing = Listing::new::<FactId>(query.limit, query.cursor.as_deref())?;
    let filter = FactFilter { key: query.key, status: query.status, current: query.current };
    let rows = api.store.list_facts(&call.scope, &filter, &listing.page()).await?;
    let sees = |fact: &Fact| call.caller.sees(fact.sensitivity);
    Ok(listing.answer(rows, |fact| fact.id.to_string(), |fact| sees(fact).then(|| render::object(fact))))
}

/// `GET /facts/{id}`.
pub(super) async fn read(State(api): State<Shared>, call: Read, Id(id): Id<FactId>) -> Answer {
    let fact = visible(&api, &call.caller, &call.scope, id).await?;
    Ok(render::ok(&render::object(&fact)))
}

/// `GET /facts/{id}/history`, oldest first.
pub(super) async fn history(State(api): State<Shared>, call: Read, Id(id): Id<FactId>) -> Answer {
    visible(&api, &call.caller, &call.scope, id).await?;
    let entries = api.store.history(&call.scope, id).await?;
    Ok(listing::whole(entries.iter().map(render::object).collect()))
}

/// A fact as an app writes it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NewFactBody {
    key: String,
    value: Value,
    #[serde(default)]
    tags: Vec<String>,
    about: Option<String>,
    valid_from: Option<String>,
    language: Option<String>,
}

/// `POST /facts`. Answers with the fact that now holds the value, which may be contested, or an older one said again.
pub(super) async fn create(State(api): State<Shared>, call: Write, Json(body): Json<NewFactBody>) -> Answer {
    let input = NewFact {
        valid_from: optional_time("valid_from", body.valid_from.as_deref())?,
        key: body.key,
        value: body.value,
        tags: body.tags,
        about: body.about,
        language: body.language,
    };
    check_labels("tags", &input.tags)?;
    check_labels("about", input.about.as_slice())?;
    check_labels("language", input.language.as_slice())?;
    // An app that writes is no operator, even where its key may edit.
    let actor = if call.caller.admin { Actor::Operator } else { Actor::Api };
    check_value(&input.key, &input.value, actor)?;
    let _turn = api.turns.take(&call.scope).await;
    for _ in 0..TRIES {
        let existing = existing(&api, &call.scope, &input.key).await?;
        let cx = EditCx { now: api.clock.now(), ids: &*api.random, actor };
        let decided = edits::created_by_api(&existing, &input, schema(&api, &call.scope), &cx).map_err(refused)?;
        let Some(id) = decided.fact else { return Err(refused(EditError::Nothing)) };
        if !apply(&api, &call.scope, &decided.changes).await? {
            continue;
        }
        let fact = api.store.fact(&call.scope, id).await?.ok_or_else(no_such)?;
        let was_there = existing.iter().any(|fact| fact.id == id);
        let body = render::object(&fact);
        return Ok(if was_there { render::ok(&body) } else { render::created(&body) });
    }
    Err(busy())
}

/// A change of a fact; what is left out stays.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FactPatchBody {
    version: Option<i64>,
    key: Option<String>,
    value: Option<Value>,
    tags: Option<Vec<String>>,
    /// `null` = the subject.
    #[serde(default, deserialize_with = "given")]
    about: Option<Option<String>>,
    valid_from: Option<String>,
    valid_to: Option<String>,
}

/// Tells `null` from a member that is left out.
fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<String>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

/// `PATCH /facts/{id}`.
pub(super) async fn change(
    State(api): State<Shared>,
    call: Write,
    Id(id): Id<FactId>,
    IfMatch(in_header): IfMatch,
    Json(body): Json<FactPatchBody>,
) -> Answer {
    if let (Some(header), Some(body)) = (in_header, body.version)
        && header != body
    {
        return Err(ApiError::bad("version", "is another version than that of If-Match"));
    }
    let expected = in_header.or(body.version);
    let patch = FactPatch {
        valid_from: optional_time("valid_from", body.valid_from.as_deref())?,
        valid_to: optional_time("valid_to", body.valid_to.as_deref())?,
        key: body.key,
        value: body.value,
        tags: body.tags,
        about: body.about,
    };
    check_labels("tags", patch.tags.as_deref().unwrap_or_default())?;
    check_labels("about", patch.about.iter().flatten().cloned().collect::<Vec<_>>().as_slice())?;
    edit(
        &api,
        &call,
        id,
        expected,
        |fact, existing, cx| {
            if let Some(value) = &patch.value {
                check_value(patch.key.as_deref().unwrap_or(&fact.key), value, cx.actor)?;
            }
            edits::patch(fact, existing, &patch, schema(&api, &call.scope), cx).map_err(refused)
        },
        patch.key.as_deref(),
    )
    .await
}

/// `POST /facts/{id}/confirm`: a person says that it holds.
pub(super) async fn confirm(
    State(api): State<Shared>,
    call: Write,
    Id(id): Id<FactId>,
    IfMatch(expected): IfMatch,
) -> Answer {
    let decide = |fact: &Fact, existing: &[Arc<Fact>], cx: &EditCx<'_>| {
        edits::confirm(fact, existing, schema(&api, &call.scope), cx).map_err(refused)
    };
    edit(&api, &call, id, expected, decide, None).await
}

/// `POST /facts/{id}/lock`: no proposal moves it any more.
pub(super) async fn lock(
    State(api): State<Shared>,
    call: Write,
    Id(id): Id<FactId>,
    IfMatch(expected): IfMatch,
) -> Answer {
    set_lock(&api, &call, id, expected, true).await
}

/// `DELETE /facts/{id}/lock`.
pub(super) async fn unlock(
    State(api): State<Shared>,
    call: Write,
    Id(id): Id<FactId>,
    IfMatch(expected): IfMatch,
) -> Answer {
    set_lock(&api, &call, id, expected, false).await
}

async fn set_lock(api: &Shared, call: &Write, id: FactId, expected: Option<i64>, locked: bool) -> Answer {
    // First whether it is there: another scope's fact is 404, never 403.
    visible(api, &call.caller, &call.scope, id).await?;
    if !call.caller.is_operator() {
        return Err(ApiError::new(ErrorKind::Forbidden, "locking needs a key with may_edit, or the admin key"));
    }
    let decide = |fact: &Fact, _: &[Arc<Fact>], cx: &EditCx<'_>| match edits::lock(fact, locked, cx) {
        // It is so already: nothing to do, and no error.
        Err(EditError::Nothing) => Ok(Vec::new()),
        decided => decided.map_err(refused),
    };
    edit(api, call, id, expected, decide, None).await
}

/// `DELETE /facts/{id}`: with its history; the same words do not bring it back.
pub(super) async fn delete(
    State(api): State<Shared>,
    call: Write,
    Id(id): Id<FactId>,
    IfMatch(expected): IfMatch,
) -> Answer {
    let fact = visible(&api, &call.caller, &call.scope, id).await?;
    let protected = fact.locked || fact.source_type == SourceType::Operator;
    if protected && !call.caller.is_operator() {
        return Err(ApiError::new(
            ErrorKind::Forbidden,
            "the fact is locked or an operator's: a key with may_edit is needed",
        ));
    }
    check_version(&api, &call, &fact, expected).await?;
    if !api.store.delete_fact(&call.scope, id, api.clock.now()).await? {
        return Err(no_such());
    }
    mark(&api, &call.scope, &[Gone { fact: id, value: fact.value_text() }]).await?;
    api.changed.changed(&call.scope);
    Ok(render::ok(&json!({ "id": id, "deleted": true })))
}

fn optional_time(param: &str, text: Option<&str>) -> Answer<Option<Time>> {
    text.map(|text| Time::parse(text).ok_or_else(|| ApiError::bad(param, "must be RFC 3339, or a date"))).transpose()
}
