//! Rows as JSON, there and back.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::store::StoreError;

/// Rows as one JSON array, to be bound once and taken apart by the database.
#[derive(Clone, Debug)]
pub(super) struct JsonRows(pub(super) String);

impl JsonRows {
    pub(super) fn is_empty(&self) -> bool {
        self.0 == "[]"
    }
}

/// Writes rows as one JSON array.
pub(super) fn rows<T: Serialize>(rows: &[T]) -> JsonRows {
    JsonRows(json(rows))
}

/// Where a body stands among [`Bodies`]: the number of its first byte, counted from 1 as `substr` does, and its length.
pub(super) type Place = (usize, usize);

/// The bodies of a group, one behind the other, bound as one blob: rows name their [`Place`], and `substr` takes them
/// out. As members of the rows they would be escaped and parsed once more, for each column of the row.
#[derive(Debug, Default)]
pub(super) struct Bodies(pub(super) Vec<u8>);

impl Bodies {
    /// Adds a record's body.
    pub(super) fn add<T: Serialize>(&mut self, value: &T) -> Place {
        let start = self.0.len();
        serde_json::to_writer(&mut self.0, value).expect("records have string keys and no failing serialiser");
        (start + 1, self.0.len() - start)
    }
}

/// Writes a value.
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

/// The name of a unit variant as serde writes it, without quotes: what status columns hold.
pub(super) fn name<T: Serialize>(variant: &T) -> String {
    json(variant).trim_matches('"').to_owned()
}
