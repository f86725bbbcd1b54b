//! What a scripted model replies, so that a measurement needs none.
//!
//! One JSON object a line: `{"id", "replies": [text, …]}`: the case it belongs to, and the model's whole reply, as text, for each of its
//! conversations in order (a conversation is one window). A reply goes through the same parser as a live one.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::EvalError;
use super::case::lines;

/// The replies of each case.
pub(super) type Replies = BTreeMap<String, Vec<String>>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    id: String,
    replies: Vec<String>,
}

/// Reads a file of replies; `path` is for messages only.
pub(super) fn read(path: &str, content: &str) -> Result<Replies, EvalError> {
    lines(path, content, |line| serde_json::from_str::<Line>(line))
        .map(|line| line.map(|line| (line.id, line.replies)))
        .collect()
}
