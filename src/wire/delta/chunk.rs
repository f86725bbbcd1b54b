//! Finds the members of a chunk or body that someone reads, as literals in its text.

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::wire::scan::{self, Span};

/// A chunk or a whole body.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct Chunk<'a> {
    #[serde(borrow)]
    pub(super) id: Option<Literal<'a>>,
    #[serde(borrow)]
    pub(super) model: Option<Literal<'a>>,
    #[serde(borrow)]
    pub(super) object: Option<Literal<'a>>,
    #[serde(borrow)]
    pub(super) choices: Option<Vec<Choice<'a>>>,
    #[serde(borrow)]
    pub(super) usage: Option<Literal<'a>>,
    #[serde(borrow)]
    pub(super) error: Option<Literal<'a>>,
}

/// One element of `choices`.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct Choice<'a> {
    pub(super) index: u64,
    #[serde(borrow)]
    pub(super) finish_reason: Option<Literal<'a>>,
    #[serde(borrow)]
    pub(super) delta: Option<Literal<'a>>,
    #[serde(borrow)]
    pub(super) message: Option<Literal<'a>>,
    /// Of the older completions API.
    #[serde(borrow)]
    pub(super) text: Option<Literal<'a>>,
}

/// The JSON text of a value of any type; `null` is no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Literal<'a>(pub(super) &'a str);

impl<'de: 'a, 'a> Deserialize<'de> for Literal<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        <&RawValue>::deserialize(deserializer).map(|raw| Self(raw.get()))
    }
}

impl Literal<'_> {
    pub(super) fn is_object(self) -> bool {
        self.0.starts_with('{')
    }

    pub(super) fn is_string(self) -> bool {
        self.0.starts_with('"')
    }
}

impl<'a> Chunk<'a> {
    /// Reads a text; `None` when it is no JSON object.
    ///
    /// One pass does for what real upstreams send. What that refuses (a repeated member, an index that is no
    /// number, choices that are no list) is read by the scanner, which takes anything that is JSON.
    pub(super) fn read(text: &'a str) -> Option<Self> {
        if !text.trim_ascii_start().starts_with('{') {
            return None;
        }
        serde_json::from_str(text).ok().or_else(|| scan::validate(text).is_ok().then(|| Self::scan(text)))
    }

    fn scan(text: &'a str) -> Self {
        let mut chunk = Self::default();
        for member in scan::members(text, Span::new(0, text.len())) {
            let literal = literal(text, member.value);
            match member.key.of(text) {
                "id" => chunk.id = literal,
                "model" => chunk.model = literal,
                "object" => chunk.object = literal,
                "usage" => chunk.usage = literal,
                "error" => chunk.error = literal,
                // Of repeated lists all count: none may hide that another one has a choice in it.
                "choices" if member.value.of(text).starts_with('[') => {
                    let found = scan::elements(text, member.value).map(|span| Choice::scan(text, span));
                    chunk.choices.get_or_insert_default().extend(found);
                }
                _ => {}
            }
        }
        chunk
    }
}

impl<'a> Choice<'a> {
    fn scan(text: &'a str, span: Span) -> Self {
        let mut choice = Self::default();
        for member in scan::members(text, span) {
            let literal = literal(text, member.value);
            match member.key.of(text) {
                "index" => choice.index = literal.and_then(|l| l.0.parse().ok()).unwrap_or(0),
                "finish_reason" => choice.finish_reason = literal,
                "delta" => choice.delta = literal,
                "message" => choice.message = literal,
                "text" => choice.text = literal,
                _ => {}
            }
        }
        choice
    }
}

fn literal(text: &str, span: Span) -> Option<Literal<'_>> {
    Some(span.of(text)).filter(|value| *value != "null").map(Literal)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_the_quick_way_refuses_is_still_read() {
        let odd = r#"{"id":1,"id":"x","choices":[{"index":"0","delta":{"content":"a"}}],"choices":[{"index":1.5}]}"#;
        assert!(serde_json::from_str::<Chunk<'_>>(odd).is_err());
        let chunk = Chunk::read(odd).unwrap();
        assert_eq!(chunk.id, Some(Literal(r#""x""#)));
        let choices = chunk.choices.unwrap();
        assert_eq!((choices.len(), choices[0].delta), (2, Some(Literal(r#"{"content":"a"}"#))));
        assert_eq!(Chunk::read(r#"{"choices":{}}"#), Some(Chunk::default()));
    }

    #[test]
    fn what_is_no_object_is_nothing() {
        for text in ["", "[]", r#"["id"]"#, "null", "{", r#"{"choices":[{"#, "{]}", "{} x"] {
            assert_eq!(Chunk::read(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn both_ways_find_the_same(
            members in prop::collection::btree_map(
                prop::sample::select(vec!["id", "model", "object", "usage", "error", "other"]),
                prop::sample::select(vec!["null", "\"a\\ud800\"", "{\"x\":[1,{}]}", "1.10", "[]", " {} ", "true"]), 0..6),
            choices in prop::collection::vec(
                prop::collection::btree_map(
                    prop::sample::select(vec!["finish_reason", "delta", "message", "text", "logprobs"]),
                    prop::sample::select(vec!["null", "\"stop\"", "{\"content\":\"x\"}", "[1]"]), 0..5), 0..3),
        ) {
            let object = |members: Vec<String>| format!("{{ {} }}", members.join(" , "));
            let choices: Vec<String> = choices
                .into_iter()
                .map(|c| object(c.into_iter().map(|(key, value)| format!("\"{key}\" : {value}")).collect()))
                .collect();
            let mut all: Vec<String> = members.into_iter().map(|(key, value)| format!("\"{key}\":{value}")).collect();
            all.push(format!("\"choices\": [{}]", choices.join(",")));
            let text = object(all);
            prop_assert_eq!(serde_json::from_str::<Chunk<'_>>(&text).unwrap(), Chunk::scan(&text));
        }
    }
}
