//! How a fact is changed: read, decided by `memory::edit`, written against the versions that were read.
//!
//! When someone else wrote in between, it is decided again, unless the caller said which version it expects: then the
//! answer is 409 with both.

use std::sync::Arc;

use axum::response::Response;
use serde_json::{Value, json};

use super::call::{Caller, Write};
use super::error::{Answer, ApiError};
use super::mentions::{Gone, mark, unmark};
use super::{Shared, render};
use crate::base::{ErrorKind, FactId};
use crate::memory::edit::{EditCx, EditError};
use crate::memory::gate::is_bidding;
use crate::memory::normalise::same_value;
use crate::memory::redact::redact;
use crate::memory::{Actor, Fact, FactChange, FactStatus, KeySchema, Scope};
use crate::store::{FactFilter, Page, StoreError};

/// How often a change is decided anew because someone else wrote in between.
pub(super) const TRIES: u32 = 4;
/// Rows that are read at once.
const BATCH: u32 = 500;
/// The most current facts of one key that a decision looks at.
const MAX_CURRENT: usize = 10_000;
/// The most retired facts of one key that it looks at.
const MAX_RETIRED: usize = 2_000;
/// The key that may hold orders to the assistant: a closed set of them.
const STANDING: &str = "instruction.standing";

/// Reads a fact, decides, and writes; answers with the fact as it is then.
pub(super) async fn edit(
    api: &Shared,
    call: &Write,
    id: FactId,
    expected: Option<i64>,
    decide: impl Fn(&Fact, &[Arc<Fact>], &EditCx<'_>) -> Answer<Vec<FactChange>>,
    new_key: Option<&str>,
) -> Answer<Response> {
    let _turn = api.turns.take(&call.scope).await;
    for _ in 0..TRIES {
        let fact = visible(api, &call.caller, &call.scope, id).await?;
        check_version(api, call, &fact, expected).await?;
        let existing = existing(api, &call.scope, new_key.unwrap_or(&fact.key)).await?;
        let cx = EditCx { now: api.clock.now(), ids: &*api.random, actor: call.caller.editor() };
        let changes = decide(&fact, &existing, &cx)?;
        if changes.is_empty() {
            return Ok(render::ok(&render::object(&fact)));
        }
        if apply(api, &call.scope, &changes).await? {
            let before = fact;
            let fact = api.store.fact(&call.scope, id).await?.ok_or_else(no_such)?;
            if fact.value != before.value && fact.is_current() {
                mark(api, &call.scope, &[Gone { fact: id, value: before.value_text() }]).await?;
            }
            if fact.is_current() && (!before.is_current() || fact.value != before.value) {
                unmark(api, &call.scope, &Gone { fact: id, value: fact.value_text() }).await?;
            }
            api.changed.changed(&call.scope);
            return Ok(render::ok(&render::object(&fact)));
        }
        // Someone wrote in between. With an expected version the next round answers 409, if it was this fact.
    }
    Err(busy())
}

/// Writes changes. `false` = someone else wrote one of the facts in between, and nothing was written.
pub(super) async fn apply(api: &Shared, scope: &Scope, changes: &[FactChange]) -> Answer<bool> {
    match api.store.apply(scope, changes).await {
        Ok(_) => {
            // A value that another fact of these holds now is not gone.
            let held =
                |fact: &Fact| changes.iter().any(|c| c.fact.is_current() && same_value(&c.fact.value, &fact.value));
            let gone = changes.iter().map(|change| &change.fact).filter(|fact| !fact.is_current() && !held(fact));
            let gone: Vec<Gone> = gone.map(|fact| Gone { fact: fact.id, value: fact.value_text() }).collect();
            mark(api, scope, &gone).await?;
            api.changed.changed(scope);
            Ok(true)
        }
        Err(StoreError::Conflict { .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// A fact of the scope that the caller may see.
pub(super) async fn visible(api: &Shared, caller: &Caller, scope: &Scope, id: FactId) -> Answer<Fact> {
    let fact = api.store.fact(scope, id).await?;
    fact.filter(|fact| caller.sees(fact.sensitivity)).ok_or_else(no_such)
}

/// The facts of a key that a decision is placed among: all current ones, and retired ones as far as they can matter.
pub(super) async fn existing(api: &Shared, scope: &Scope, key: &str) -> Answer<Vec<Arc<Fact>>> {
    let of_key = FactFilter { key: Some(key.to_owned()), ..FactFilter::default() };
    let mut all = read_all(api, scope, &FactFilter { current: true, ..of_key.clone() }, MAX_CURRENT).await?;
    let retired = FactFilter { status: Some(FactStatus::Superseded), ..of_key };
    all.extend(read_all(api, scope, &retired, MAX_RETIRED).await?);
    Ok(all)
}

async fn read_all(api: &Shared, scope: &Scope, filter: &FactFilter, max: usize) -> Answer<Vec<Arc<Fact>>> {
    let mut page = Page::first(BATCH);
    let mut all = Vec::new();
    loop {
        let rows = api.store.list_facts(scope, filter, &page).await?;
        let is_last = rows.len() < BATCH as usize;
        page.after = rows.last().map(|fact| fact.id.to_string());
        all.extend(rows.into_iter().map(Arc::new));
        if is_last || all.len() >= max {
            return Ok(all);
        }
    }
}

/// Compares a fact with the version that the caller expects. The refusal shows both: the fact as the caller knows it, and as it is.
pub(super) async fn check_version(api: &Shared, call: &Write, fact: &Fact, expected: Option<i64>) -> Answer<()> {
    let Some(expected) = expected.filter(|&expected| expected != fact.version) else { return Ok(()) };
    let history = api.store.history(&call.scope, fact.id).await?;
    let known = history.iter().map(|entry| &entry.fact).find(|known| known.version == expected);
    let known = known.filter(|known| call.caller.sees(known.sensitivity)).map(render::object);
    let public = format!("the fact has version {}, and the change expects {expected}", fact.version);
    Err(ApiError::new(ErrorKind::Conflict, public)
        .beside("versions", json!({ "expected": expected, "current": fact.version }))
        .beside("expected", known)
        .beside("current", render::object(fact)))
}

/// No secret is stored, and nobody but an operator leaves orders to the assistant outside their own key.
pub(super) fn check_value(key: &str, value: &Value, actor: Actor) -> Answer<()> {
    let Value::String(text) = value else { return Ok(()) };
    if redact(text) != text.as_str() {
        return Err(ApiError::bad(
            "value",
            "holds what looks like a password, key or card number; secrets are not remembered",
        ));
    }
    if actor != Actor::Operator && key != STANDING && is_bidding(text) {
        let public = format!(
            "gives orders to the assistant; only `{STANDING}` holds such, for language, tone, length and format"
        );
        return Err(ApiError::bad("value", public));
    }
    Ok(())
}

/// The answer to an edit that cannot be done.
pub(super) fn refused(error: EditError) -> ApiError {
    let public = error.to_string();
    match error {
        EditError::UnknownKey { .. } => ApiError::bad("key", public),
        EditError::BadValue { .. } => ApiError::bad("value", public),
        EditError::NotAllowed(_) => ApiError::new(ErrorKind::Forbidden, public),
        EditError::CannotMerge(_) => ApiError::bad("into", public),
        EditError::Nothing => ApiError::new(ErrorKind::BadRequest, public),
    }
}

/// The keys of the scope's namespace.
pub(super) fn schema<'a>(api: &'a Shared, scope: &Scope) -> &'a KeySchema {
    api.schemas.of(&scope.namespace)
}

/// The scope has no such fact, or the caller may not see it.
pub(super) fn no_such() -> ApiError {
    ApiError::not_found("fact")
}

/// Others were faster each time.
pub(super) fn busy() -> ApiError {
    ApiError::new(ErrorKind::Conflict, "others keep changing this fact; try again")
}
