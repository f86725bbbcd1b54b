//! The cases: what was said, and what should be known after it.
//!
//! One JSON object a line: `{"id", "language", "conversations": [{"said_at", "messages": [{"role", "content"}]}],
//! "expect": [{"key", "value", "about"?}], "forbid": [{"value"} | {"key"}], "current": {key: value}}`.
//!
//! `expect` is what should be known in the end, `forbid` what must not be, `current` the one value that a key must have. A key
//! may end in `.*`: any key of that family. A forbidden key may end in `*`.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::EvalError;
use crate::base::Time;

/// One case.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Case {
    pub(super) id: String,
    pub(super) language: String,
    pub(super) conversations: Vec<Conversation>,
    #[serde(default)]
    pub(super) expect: Vec<Expected>,
    #[serde(default)]
    pub(super) forbid: Vec<Forbidden>,
    #[serde(default)]
    pub(super) current: BTreeMap<String, Value>,
}

/// One conversation of a case.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Conversation {
    #[serde(deserialize_with = "time")]
    pub(super) said_at: Time,
    pub(super) messages: Vec<Message>,
}

/// One message; what is neither `user` nor `assistant` is context that nobody said.
#[derive(Debug, Deserialize)]
pub(super) struct Message {
    pub(super) role: String,
    #[serde(default)]
    pub(super) content: Option<String>,
}

impl Message {
    pub(super) fn text(&self) -> &str {
        self.content.as_deref().unwrap_or("")
    }
}

/// A fact that should be known.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Expected {
    pub(super) key: String,
    pub(super) value: Value,
    #[serde(default)]
    pub(super) about: Option<String>,
}

/// What must not be known; with both, only that value of that key.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Forbidden {
    #[serde(default)]
    pub(super) value: Option<Value>,
    #[serde(default)]
    pub(super) key: Option<String>,
}

fn time<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Time, D::Error> {
    let text = String::deserialize(deserializer)?;
    Time::parse(&text).ok_or_else(|| serde::de::Error::custom(format!("{text:?} is not a date or an RFC 3339 time")))
}

/// Reads a file of cases; `path` is for messages only.
pub(super) fn read(path: &str, content: &str) -> Result<Vec<Case>, EvalError> {
    lines(path, content, |line| serde_json::from_str(line)).collect()
}

/// Reads every line that is not empty.
pub(super) fn lines<'a, T>(
    path: &'a str,
    content: &'a str,
    read: impl Fn(&str) -> Result<T, serde_json::Error> + 'a,
) -> impl Iterator<Item = Result<T, EvalError>> + 'a {
    content.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()).map(move |(at, line)| {
        read(line).map_err(|error| EvalError::Format {
            path: path.to_owned(),
            place: format!("line {}", at + 1),
            problem: error.to_string(),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_line_is_named() {
        let good = r#"{"id":"a","language":"en","conversations":[{"said_at":"2025-01-02","messages":[{"role":"user","content":"x"}]}]}"#;
        assert_eq!(read("f", &format!("{good}\n\n{good}")).expect("two cases").len(), 2);
        for bad in ["nonsense", &good.replace("2025-01-02", "soon"), &good.replace("language", "lang")] {
            let error = read("f", &format!("{good}\n{bad}")).expect_err(bad).to_string();
            assert!(error.starts_with("f, line 2: "), "{error}");
        }
    }
}
