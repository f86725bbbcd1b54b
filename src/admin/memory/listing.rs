//! Lists: `{"data": […], "next": cursor | null}`.

use std::fmt::Display;
use std::str::FromStr;

use axum::response::Response;
use serde_json::{Value, json};

use super::error::{Answer, ApiError};
use super::render;
use crate::store::Page;

/// Rows of a list when the request does not say.
const DEFAULT_LIMIT: u32 = 100;
/// The most rows of one list.
const MAX_LIMIT: u32 = 500;

/// Which piece of a list is wanted. A cursor is the id of the last row that was seen.
pub(super) struct Listing {
    limit: u32,
    after: Option<String>,
}

impl Listing {
    /// Checks `limit` and `cursor`; the cursor must be an id of type `I`.
    pub(super) fn new<I: FromStr + Display>(limit: Option<u32>, cursor: Option<&str>) -> Answer<Self> {
        let limit = checked_limit(limit)?;
        let after = match cursor {
            None => None,
            Some(text) => {
                let id: I =
                    text.parse().map_err(|_| ApiError::bad("cursor", "is not the `next` of an earlier list"))?;
                Some(id.to_string())
            }
        };
        Ok(Self { limit, after })
    }

    /// One row more than wanted, to know whether there is a next piece.
    pub(super) fn page(&self) -> Page {
        Page { after: self.after.clone(), limit: self.limit + 1 }
    }

    /// The answer from the rows of [`Listing::page`]. `show` leaves a row out by `None`.
    pub(super) fn answer<T>(
        &self,
        mut rows: Vec<T>,
        id: impl Fn(&T) -> String,
        show: impl Fn(&T) -> Option<Value>,
    ) -> Response {
        let limit = usize::try_from(self.limit).expect("at most 500");
        let more = rows.len() > limit;
        rows.truncate(limit);
        let next = if more { rows.last().map(id) } else { None };
        let data: Vec<Value> = rows.iter().filter_map(show).collect();
        render::ok(&json!({ "data": data, "next": next }))
    }
}

/// How many rows are wanted.
pub(super) fn checked_limit(limit: Option<u32>) -> Answer<u32> {
    let limit = limit.unwrap_or(DEFAULT_LIMIT);
    if (1..=MAX_LIMIT).contains(&limit) {
        return Ok(limit);
    }
    Err(ApiError::bad("limit", format!("must be a number from 1 to {MAX_LIMIT}")))
}

/// A list that is never cut in pieces.
pub(super) fn whole(data: Vec<Value>) -> Response {
    render::ok(&json!({ "data": data, "next": null }))
}
