//! `[models.targets.params]`: rules for the parameters of requests to one target.

use toml::Value;

use super::reader::Section;
use crate::wire::{ParamError, ParamRules};

/// Reads the rules; each mistake is reported under its own name.
pub(super) fn read(s: &mut Section<'_>) -> ParamRules {
    let mut rules = ParamRules::default();
    // Renames first: a default may stand behind one, and the rules know each other in this order.
    for (from, value) in s.named_values("rename") {
        let Some(to) = value.as_str() else {
            s.wrong_within("rename", from, value, "must be the new name, a string");
            continue;
        };
        report(s, "rename", from, value, rules.rename(from, to));
    }
    for (name, value) in s.named_values("set") {
        if let Some(json) = json(s, "set", name, value) {
            let made = rules.set(name, &json);
            report(s, "set", name, value, made);
        }
    }
    for (name, value) in s.named_values("default") {
        if let Some(json) = json(s, "default", name, value) {
            let made = rules.default_to(name, &json);
            report(s, "default", name, value, made);
        }
    }
    for name in s.names("drop").unwrap_or_default() {
        if let Err(error) = rules.drop_member(&name) {
            s.wrong("drop", error.to_string());
        }
    }
    rules
}

fn report(s: &Section<'_>, key: &str, name: &str, value: &Value, made: Result<(), ParamError>) {
    if let Err(error) = made {
        s.wrong_within(key, name, value, error.to_string());
    }
}

/// A value as JSON text; variables in a string are replaced.
fn json(s: &Section<'_>, key: &str, name: &str, value: &Value) -> Option<String> {
    if !is_json(value) {
        s.wrong_within(
            key,
            name,
            value,
            "cannot be written as JSON: write a date as a string, and no infinite numbers",
        );
        return None;
    }
    if value.is_str() {
        let text = s.expand_within(&format!("{key}.{name}"), value)?;
        return serde_json::to_string(&text).ok();
    }
    serde_json::to_string(value).ok()
}

fn is_json(value: &Value) -> bool {
    match value {
        Value::Datetime(_) => false,
        Value::Float(number) => number.is_finite(),
        Value::Array(items) => items.iter().all(is_json),
        Value::Table(table) => table.values().all(is_json),
        Value::String(_) | Value::Integer(_) | Value::Boolean(_) => true,
    }
}
