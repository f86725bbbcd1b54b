//! Facts at another time than now: what was true then, and what was known then.

use axum::response::Response;

use super::call::Read;
use super::error::{Answer, ApiError};
use super::listing::Listing;
use super::{Shared, render};
use crate::base::{FactId, Time};
use crate::memory::history::held;
use crate::memory::{Fact, HistoryEntry};
use crate::store::Page;

/// Facts whose history is read at once.
const BATCH: u32 = 200;

/// The two times of a question. One that is not given follows from the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct When {
    as_of: Time,
    known_at: Time,
}

impl When {
    /// `known_at` alone asks what was held to be true at that moment; `as_of` alone asks with all that is known now.
    pub(super) fn new(as_of: Option<&str>, known_at: Option<&str>, now: Time) -> Answer<Option<Self>> {
        let (as_of, known_at) = (moment("as_of", as_of)?, moment("known_at", known_at)?);
        if known_at.is_some_and(|at| at > now) {
            return Err(ApiError::bad("known_at", "is in the future: nobody knows yet what will be known then"));
        }
        Ok(match (as_of, known_at) {
            (None, None) => None,
            (Some(as_of), known_at) => Some(Self { as_of, known_at: known_at.unwrap_or(now) }),
            (None, Some(known_at)) => Some(Self { as_of: known_at, known_at }),
        })
    }
}

/// A time in a query. A `+` of an offset that was not escaped has become a blank.
fn moment(param: &str, text: Option<&str>) -> Answer<Option<Time>> {
    let parse = |text: &str| Time::parse(text).or_else(|| Time::parse(&text.replace(' ', "+")));
    let wrong = "must be a time as in 2026-03-01T12:00:00Z, or a date as in 2026-03-01 (its first moment, UTC)";
    text.map(|text| parse(text).ok_or_else(|| ApiError::bad(param, wrong))).transpose()
}

/// The facts that held then, by page; each as it was known, with the end that was known.
pub(super) async fn list(api: &Shared, call: &Read, when: When, key: Option<&str>, listing: &Listing) -> Answer {
    let wanted = usize::try_from(listing.page().limit).unwrap_or(usize::MAX);
    let mut after = listing.page().after;
    let mut found: Vec<Fact> = Vec::new();
    loop {
        let page = Page { after: after.clone(), limit: BATCH };
        let histories = api.store.histories(&call.scope, &page).await?;
        let full = histories.len() >= BATCH as usize;
        after = histories.last().and_then(|rows| rows.first()).map(|row| row.fact_id.to_string());
        let held = |rows: &Vec<HistoryEntry>| held(rows, when.as_of, when.known_at);
        let shown = |fact: &Fact| call.caller.sees(fact.sensitivity) && is_key(&fact.key, key);
        found.extend(histories.iter().filter_map(held).filter(shown));
        if found.len() >= wanted || !full {
            found.truncate(wanted);
            return Ok(answer(listing, found));
        }
    }
}

fn answer(listing: &Listing, found: Vec<Fact>) -> Response {
    listing.answer(found, |fact| fact.id.to_string(), |fact| Some(render::object(fact)))
}

/// Whether a key is the one asked for, or with a trailing `.*` below it; as a store filters.
fn is_key(key: &str, wanted: Option<&str>) -> bool {
    match wanted.map(|wanted| (wanted, wanted.strip_suffix('*').filter(|prefix| prefix.ends_with('.')))) {
        None => true,
        Some((_, Some(prefix))) => key.starts_with(prefix),
        Some((wanted, None)) => key == wanted,
    }
}

/// The listing of such a question; its cursor is a fact's id.
pub(super) fn listing(limit: Option<u32>, cursor: Option<&str>) -> Answer<Listing> {
    Listing::new::<FactId>(limit, cursor)
}
