//! Stored things as JSON: as they are kept, with times as RFC 3339.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::Value;

use crate::base::Time;

/// Members that hold what someone else wrote; nothing in them is a time of ours.
const OPAQUE: &[&str] = &["value", "previous_value", "detail"];

/// A stored thing as JSON.
pub(super) fn object(thing: &impl Serialize) -> Value {
    let mut value = serde_json::to_value(thing).expect("stored things have string keys and no failing parts");
    spell_times(&mut value);
    value
}

/// Replaces milliseconds in members whose names are those of times.
fn spell_times(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(spell_times),
        Value::Object(members) => {
            for (name, member) in members {
                let is_time = name == "at" || name.ends_with("_at") || name == "valid_from" || name == "valid_to";
                match (is_time, member.as_i64()) {
                    (true, Some(millis)) => *member = Value::String(Time(millis).to_rfc3339()),
                    _ if OPAQUE.contains(&name.as_str()) => {}
                    _ => spell_times(member),
                }
            }
        }
        _ => {}
    }
}

/// 200 with a body.
pub(super) fn ok(body: &Value) -> Response {
    with_status(StatusCode::OK, body)
}

/// 201 with a body.
pub(super) fn created(body: &Value) -> Response {
    with_status(StatusCode::CREATED, body)
}

fn with_status(status: StatusCode, body: &Value) -> Response {
    // Memories must not stay in a cache between here and the app.
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("application/json")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    (status, headers, body.to_string()).into_response()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn times_are_spelt_and_values_are_left_alone() {
        let mut value = json!({
            "said_at": 0, "valid_to": null, "retired_at": 1000, "value": {"at": 5}, "uses": 3,
            "evidence": [{"said_at": 0}],
        });
        spell_times(&mut value);
        let expected = json!({
            "said_at": "1970-01-01T00:00:00.000Z", "valid_to": null, "retired_at": "1970-01-01T00:00:01.000Z",
            "value": {"at": 5}, "uses": 3, "evidence": [{"said_at": "1970-01-01T00:00:00.000Z"}],
        });
        assert_eq!(value, expected);
    }
}
