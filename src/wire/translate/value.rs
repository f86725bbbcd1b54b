//! A JSON value where it stands in its text.

use std::borrow::Cow;
use std::collections::HashSet;

use crate::wire::ChatRequest;
use crate::wire::scan::{self, Span};
use crate::wire::text::decode_lossy;

/// A value in a text that is known to be JSON. Nothing of it is read before it is asked for, so that numbers and strings can be
/// carried over as they are written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Value<'a> {
    text: &'a str,
    span: Span,
}

impl<'a> Value<'a> {
    /// The value that a text is.
    pub(super) fn whole(text: &'a str) -> Self {
        Self::at(text, Span::new(0, text.len()))
    }

    /// The value under a span.
    pub(super) fn at(text: &'a str, span: Span) -> Self {
        Self { text, span }
    }

    /// As it is written.
    pub(super) fn literal(self) -> &'a str {
        self.span.of(self.text)
    }

    /// The last member of this name; `null` is none.
    pub(super) fn get(self, key: &str) -> Option<Self> {
        let found = Self::at(self.text, scan::member(self.text, self.span, key)?);
        (found.literal() != "null").then_some(found)
    }

    /// The members of an object, as name and value.
    pub(super) fn members(self) -> impl Iterator<Item = (&'a str, Self)> {
        let text = self.text;
        scan::members(text, self.span).map(move |member| (member.key.of(text), Self::at(text, member.value)))
    }

    /// The elements of an array.
    pub(super) fn elements(self) -> impl Iterator<Item = Self> {
        let text = self.text;
        scan::elements(text, self.span).map(move |span| Self::at(text, span))
    }

    /// The text of a string.
    pub(super) fn string(self) -> Option<Cow<'a, str>> {
        self.is_string().then(|| decode_lossy(self.literal()))
    }

    /// The text of a string member.
    pub(super) fn get_string(self, key: &str) -> Option<Cow<'a, str>> {
        self.get(key)?.string()
    }

    /// The literal of a string member.
    pub(super) fn get_text(self, key: &str) -> Option<Self> {
        self.get(key).filter(|value| value.is_string())
    }

    /// `type`, by which most objects of these APIs are told apart; empty where there is none.
    pub(super) fn kind(self) -> Cow<'a, str> {
        self.get_string("type").unwrap_or_default()
    }

    /// What stands between the quotes of a string, escapes and all.
    pub(super) fn inner(self) -> &'a str {
        let literal = self.literal();
        literal.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or_default()
    }

    pub(super) fn is_string(self) -> bool {
        self.literal().starts_with('"')
    }

    pub(super) fn is_object(self) -> bool {
        self.literal().starts_with('{')
    }

    pub(super) fn is_array(self) -> bool {
        self.literal().starts_with('[')
    }

    /// Whether it is a string with nothing but white space in it.
    pub(super) fn is_blank(self) -> bool {
        let inner = self.inner().trim_start();
        inner.is_empty() || inner.starts_with('\\') && self.string().is_some_and(|text| text.trim().is_empty())
    }

    /// Whether it is a value that changes nothing: `null`, `false`, nothing in it, or zero.
    pub(super) fn is_neutral(self) -> bool {
        let literal = self.literal();
        let is_zero = || literal.parse::<f64>().is_ok_and(|number| number == 0.0);
        matches!(literal, "null" | "false" | r#""""#) || self.has_nothing() || is_zero()
    }

    fn has_nothing(self) -> bool {
        (self.is_object() && self.members().next().is_none()) || (self.is_array() && self.elements().next().is_none())
    }
}

/// The value of a member of a request; `null` is none.
pub(super) fn get<'r>(request: &'r ChatRequest, key: &str) -> Option<Value<'r>> {
    let span = request.get_span(key)?;
    Some(Value::at(request.text(), span)).filter(|value| value.literal() != "null")
}

/// The members of a request, in order; of a repeated one the last, which is what most parsers take.
pub(super) fn members(request: &ChatRequest) -> Vec<(&str, Value<'_>)> {
    let text = request.text();
    let mut seen = HashSet::new();
    let read = request.members().iter().rev().map(|member| (member.key.of(text), Value::at(text, member.value)));
    let mut members: Vec<_> = read.filter(|(key, _)| seen.insert(*key)).collect();
    members.reverse();
    members
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blank_is_what_has_no_visible_character() {
        for (text, blank) in [(r#""""#, true), (r#"" \n\t""#, true), (r#""\u00e9""#, false), (r#"" a""#, false)] {
            assert_eq!(Value::whole(text).is_blank(), blank, "{text}");
        }
    }

    #[test]
    fn neutral_is_what_an_api_does_by_itself() {
        for text in ["null", "false", "0", "0.00", "-0e5", "{ }", "[]", r#""""#] {
            assert!(Value::whole(text).is_neutral(), "{text}");
        }
        for text in ["true", "1e-3", r#"{"a":0}"#, "[0]", r#""none""#] {
            assert!(!Value::whole(text).is_neutral(), "{text}");
        }
    }
}
