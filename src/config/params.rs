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

/// A value as JSON text; variables in its strings are replaced.
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
    serde_json::to_string(&expanded(s, &format!("{key}.{name}"), value)?).ok()
}

/// A value with the variables in its strings replaced, however deep they stand; `None` when a mistake was reported.
fn expanded(s: &Section<'_>, at: &str, value: &Value) -> Option<Value> {
    match value {
        Value::String(raw) => s.expand_within(at, raw).map(Value::String),
        Value::Array(items) => {
            let items: Vec<_> =
                items.iter().enumerate().map(|(n, item)| expanded(s, &format!("{at}[{n}]"), item)).collect();
            items.into_iter().collect::<Option<_>>().map(Value::Array)
        }
        Value::Table(table) => {
            let members: Vec<_> = table
                .iter()
                .map(|(name, value)| Some((name.clone(), expanded(s, &format!("{at}.{name}"), value)?)))
                .collect();
            members.into_iter().collect::<Option<_>>().map(Value::Table)
        }
        Value::Integer(_) | Value::Float(_) | Value::Boolean(_) | Value::Datetime(_) => Some(value.clone()),
    }
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
