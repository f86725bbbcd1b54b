//! Rows as JSON, there and back.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::store::StoreError;

/// Writes rows as one JSON array, to be bound once and taken apart by `json_each`.
pub(super) fn rows<T: Serialize>(rows: &[T]) -> String {
    json(rows)
}

/// Writes a record's body.
pub(super) fn json<T: Serialize + ?Sized>(value: &T) -> String {
    serde_json::to_string(value).expect("records have string keys and no failing serialiser")
}

/// Reads a record's body.
pub(super) fn parse<T: DeserializeOwned>(table: &'static str, id: &str, body: &str) -> Result<T, StoreError> {
    serde_json::from_str(body).map_err(|e| StoreError::Inconsistent {
        table,
        column: "body",
        id: id.to_owned(),
        // Only where, not what: the error's own text may quote the body.
        problem: format!("{:?} error in line {}, column {}", e.classify(), e.line(), e.column()),
    })
}

/// Bytes as hexadecimal digits, for `unhex`.
pub(super) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes.iter().flat_map(|b| [DIGITS[usize::from(b >> 4)], DIGITS[usize::from(b & 15)]]).map(char::from).collect()
}

/// The name of a unit variant as serde writes it, without quotes: what status columns hold.
pub(super) fn name<T: Serialize>(variant: &T) -> String {
    json(variant).trim_matches('"').to_owned()
}
