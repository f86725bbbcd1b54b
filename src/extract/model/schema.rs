//! The form of the answer (design, doubt 17).

use serde_json::{Value, json};

/// Names the schema.
pub(super) const NAME: &str = "memories";

/// Kinds that a model may name.
pub(super) const KINDS: [&str; 5] = ["preference", "identity", "constraint", "event", "other"];

/// The members of an item.
pub(super) const MEMBERS: [&str; 11] =
    ["kind", "key", "value", "text", "confidence", "evidence", "about", "said_at", "tags", "entities", "lasting"];

/// The JSON schema, of the strict sort: every member is required, and what may be missing is `null`.
pub(super) fn schema() -> Value {
    let text = json!({"type": "string"});
    let maybe = json!({"type": ["string", "null"]});
    let texts = json!({"type": "array", "items": {"type": "string"}});
    let members = json!({
        "kind": {"type": "string", "enum": KINDS},
        "key": text,
        "value": {"type": ["string", "number", "boolean"]},
        "text": text,
        "confidence": {"type": "number"},
        "evidence": text,
        "about": maybe,
        "said_at": maybe,
        "tags": texts,
        "entities": texts,
        "lasting": {"type": "boolean"},
    });
    json!({
        "type": "object",
        "properties": {"memories": {"type": "array", "items": object(&members)}},
        "required": ["memories"],
        "additionalProperties": false,
    })
}

fn object(members: &Value) -> Value {
    json!({"type": "object", "properties": members, "required": MEMBERS, "additionalProperties": false})
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Strict mode refuses a schema with a member that is not required, or an object that allows others.
    #[test]
    fn the_schema_is_strict() {
        let item = &schema()["properties"]["memories"]["items"];
        assert_eq!(item["required"].as_array().map(Vec::len), item["properties"].as_object().map(|p| p.len()));
        assert!(MEMBERS.iter().all(|name| item["properties"].get(name).is_some()));
        assert_eq!(item["additionalProperties"], false);
    }
}
