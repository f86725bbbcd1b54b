//! Finds members and elements in JSON text that is already known to be valid.
//!
//! Validation is done once, when a body arrives ([`validate`]). After that this
//! scanner only has to find where values end, which it does without reading them: strings are
//! skipped with `memchr`. On text that is not valid JSON the spans make no sense, but nothing panics.

use std::ops::Range;

use memchr::{memchr2, memchr3};
use serde::de::IgnoredAny;

use super::valid;

/// A range of bytes in a body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Span {
    /// Offset of the first byte.
    pub start: usize,
    /// Offset behind the last byte.
    pub end: usize,
}

impl Span {
    /// Makes a span of two offsets.
    #[must_use]
    pub fn new(start: usize, end: usize) -> Self {
        Self { start, end }
    }

    /// Returns the text under this span; empty when it is out of range.
    #[must_use]
    pub fn of<'a>(&self, text: &'a str) -> &'a str {
        text.get(Range::from(*self)).unwrap_or_default()
    }

    /// The number of bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.end.saturating_sub(self.start)
    }

    /// Whether another span is within this one.
    #[must_use]
    pub fn contains(&self, other: Self) -> bool {
        self.start <= other.start && other.end <= self.end
    }

    /// Whether the span holds no byte.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl From<Span> for Range<usize> {
    fn from(span: Span) -> Self {
        span.start..span.end
    }
}

/// One member of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// The key as it stands in the text, without its quotes and with its escapes.
    pub key: Span,
    /// The value.
    pub value: Span,
}

/// Checks that `text` is one JSON value and nothing else. Nesting depth is not limited: nothing recurses.
///
/// # Errors
/// The error names line and column.
pub fn validate(text: &str) -> Result<(), serde_json::Error> {
    if valid::is_json(text) {
        return Ok(());
    }
    serde_json::from_str::<IgnoredAny>(text).map(|_| ())
}

/// The same for what a client sends. Returns what is spelled oddly in it, as [`valid::checked`] says: its reader may take `mod\u0065l` for
/// `model`, which this scanner, for which a name is what is written, does not.
///
/// # Errors
/// As [`validate`].
pub fn validate_sent(text: &str) -> Result<Option<Span>, serde_json::Error> {
    match valid::checked(text) {
        Some(odd) => Ok(odd),
        None => serde_json::from_str::<IgnoredAny>(text).map(|_| None),
    }
}

/// Returns the members of the object under `span`, in order, repeated keys included; none when it is not an object.
#[must_use]
pub fn members(text: &str, span: Span) -> Members<'_> {
    let bytes = &text.as_bytes()[..span.end.min(text.len())];
    let at = skip_space(bytes, span.start);
    let at = if bytes.get(at) == Some(&b'{') { at + 1 } else { bytes.len() };
    Members { bytes, at, end: bytes.len() }
}

/// Returns the elements of the array under `span`, in order; none when it is not an array.
///
/// A span may hold a part of an array: from its bracket to the end of any element, or from any of its commas on.
#[must_use]
pub fn elements(text: &str, span: Span) -> Elements<'_> {
    let bytes = &text.as_bytes()[..span.end.min(text.len())];
    let at = skip_space(bytes, span.start);
    let at = match bytes.get(at) {
        Some(b'[') => at + 1,
        // A value never begins with a comma.
        Some(b',') => at,
        _ => bytes.len(),
    };
    Elements { bytes, at, end: bytes.len() }
}

/// Returns the value of the last member called `key` of the object under `span`.
///
/// The last one is what most parsers take when a key is repeated.
#[must_use]
pub fn member(text: &str, span: Span, key: &str) -> Option<Span> {
    members(text, span).filter(|m| m.key.of(text) == key).last().map(|m| m.value)
}

/// Iterates over the members of an object.
#[derive(Debug)]
pub struct Members<'a> {
    bytes: &'a [u8],
    at: usize,
    end: usize,
}

impl Iterator for Members<'_> {
    type Item = Member;

    fn next(&mut self) -> Option<Member> {
        let (key, start) = self.begin()?;
        let end = skip_value(self.bytes, start);
        self.go_on(end);
        Some(Member { key, value: Span::new(start, end) })
    }
}

impl Members<'_> {
    /// The next key, and where its value begins; [`Members::go_on`] behind that before the next one is asked for. For values that are read anyway:
    /// where one ends need not be looked for first.
    pub fn begin(&mut self) -> Option<(Span, usize)> {
        let mut at = skip_space(self.bytes, self.at);
        if self.bytes.get(at) == Some(&b',') {
            at = skip_space(self.bytes, at + 1);
        }
        if self.bytes.get(at) != Some(&b'"') {
            if self.at < self.bytes.len() {
                self.end = (at + 1).min(self.bytes.len());
                self.at = self.bytes.len();
            }
            return None;
        }
        let key_end = skip_string(self.bytes, at);
        let key = Span::new(at + 1, key_end.saturating_sub(1).max(at + 1));
        let colon = skip_space(self.bytes, key_end);
        Some((key, skip_space(self.bytes, colon + 1)))
    }

    /// Goes on behind a value that ends here.
    pub fn go_on(&mut self, end: usize) {
        self.at = end;
    }

    /// The offset behind the object, once there is no further member.
    #[must_use]
    pub fn end(&self) -> usize {
        self.end
    }
}

/// Iterates over the elements of an array.
#[derive(Debug)]
pub struct Elements<'a> {
    bytes: &'a [u8],
    at: usize,
    end: usize,
}

impl Iterator for Elements<'_> {
    type Item = Span;

    fn next(&mut self) -> Option<Span> {
        let start = self.begin()?;
        let end = skip_value(self.bytes, start);
        self.go_on(end);
        (end > start).then_some(Span::new(start, end))
    }
}

impl Elements<'_> {
    /// Where the next element begins; [`Elements::go_on`] behind it before the next one is asked for, as with [`Members::begin`].
    pub fn begin(&mut self) -> Option<usize> {
        let mut at = skip_space(self.bytes, self.at);
        if self.bytes.get(at) == Some(&b',') {
            at = skip_space(self.bytes, at + 1);
        }
        if matches!(self.bytes.get(at), None | Some(b']')) {
            if self.at < self.bytes.len() {
                self.end = (at + 1).min(self.bytes.len());
                self.at = self.bytes.len();
            }
            return None;
        }
        Some(at)
    }

    /// Goes on behind an element that ends here.
    pub fn go_on(&mut self, end: usize) {
        self.at = end;
    }

    /// The offset behind the array, once there is no further element.
    #[must_use]
    pub fn end(&self) -> usize {
        self.end
    }
}

/// The offset behind the value that begins at `at`.
#[must_use]
pub fn end_of_value(text: &str, at: usize) -> usize {
    skip_value(text.as_bytes(), at)
}

fn skip_space(bytes: &[u8], mut at: usize) -> usize {
    while matches!(bytes.get(at), Some(b' ' | b'\n' | b'\r' | b'\t')) {
        at += 1;
    }
    at
}

/// Returns the offset behind the string that begins at `at`.
fn skip_string(bytes: &[u8], at: usize) -> usize {
    let mut at = at + 1;
    loop {
        let Some(found) = bytes.get(at..).and_then(|rest| memchr2(b'"', b'\\', rest)) else {
            return bytes.len();
        };
        at += found;
        if bytes[at] == b'"' {
            return at + 1;
        }
        at += 2;
    }
}

/// Returns the offset behind the value that begins at `at`.
fn skip_value(bytes: &[u8], at: usize) -> usize {
    match bytes.get(at) {
        None => bytes.len(),
        Some(b'"') => skip_string(bytes, at),
        Some(b'{' | b'[') => skip_nested(bytes, at),
        Some(_) => {
            let rest = &bytes[at..];
            let end = rest.iter().position(|b| matches!(b, b',' | b'}' | b']' | b' ' | b'\n' | b'\r' | b'\t'));
            at + end.unwrap_or(rest.len())
        }
    }
}

/// Returns the offset behind the object or array that begins at `at`, counting braces and brackets alike:
/// in valid JSON they match.
fn skip_nested(bytes: &[u8], mut at: usize) -> usize {
    let mut depth = 0_usize;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' => {
                at = skip_string(bytes, at);
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return at + 1;
                }
            }
            _ => {}
        }
        at += 1;
        // Numbers and white space are short in real bodies; a vector search pays off only behind them.
        if depth == 1
            && bytes.get(at).is_some_and(|b| !matches!(b, b'"' | b'{' | b'[' | b'}' | b']'))
            && let Some(skip) = memchr3(b'"', b'}', b']', &bytes[at..])
            && !bytes[at..at + skip].iter().any(|b| matches!(b, b'{' | b'['))
        {
            at += skip;
        }
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    fn whole(text: &str) -> Span {
        Span::new(0, text.len())
    }

    #[test]
    fn members_keep_order_repeats_and_spelling() {
        let text = r#" { "a" : 1.10 , "b\"x":[1,{"c":"]}"}], "a": null,"e":{} } "#;
        let found: Vec<_> = members(text, whole(text)).map(|m| (m.key.of(text), m.value.of(text))).collect();
        assert_eq!(found, [("a", "1.10"), (r#"b\"x"#, r#"[1,{"c":"]}"}]"#), ("a", "null"), ("e", "{}")]);
        assert_eq!(member(text, whole(text), "a").map(|s| s.of(text).to_owned()), Some("null".to_owned()));
    }

    #[test]
    fn elements_are_found_whatever_they_hold() {
        let text = r#"[ 1e3,"a\\", [[]] ,{"k":"[,]"},true ]"#;
        let found: Vec<_> = elements(text, whole(text)).map(|s| s.of(text)).collect();
        assert_eq!(found, ["1e3", r#""a\\""#, "[[]]", r#"{"k":"[,]"}"#, "true"]);
        assert_eq!(elements("[ ]", whole("[ ]")).count(), 0);
        assert_eq!(elements("{}", whole("{}")).count(), 0);
    }

    #[test]
    fn a_part_of_an_array_has_its_own_elements() {
        let text = r#"[ {"a":1} , 2 , "x"]"#;
        let of = |start, end| elements(text, Span::new(start, end)).map(|s| s.of(text)).collect::<Vec<_>>();
        assert_eq!(of(0, text.find(" ,").unwrap()), [r#"{"a":1}"#]);
        assert_eq!(of(text.rfind(',').unwrap(), text.len()), [r#""x""#]);
        assert_eq!(of(text.find(',').unwrap(), text.len()), ["2", r#""x""#]);
    }

    #[test]
    fn what_is_read_on_the_way_tells_where_it_ends() {
        let text = r#" { "a" : [ 1 , {"b":"}"} ] , "c":{ } } "#;
        let mut members = members(text, whole(text));
        let (key, start) = members.begin().unwrap();
        assert_eq!(key.of(text), "a");
        let mut elements = elements(text, Span::new(start, text.len()));
        assert_eq!(elements.by_ref().count(), 2);
        assert!(text[..elements.end()].ends_with("} ]"));
        members.go_on(elements.end());
        assert_eq!(members.by_ref().map(|m| m.value.of(text)).collect::<Vec<_>>(), ["{ }"]);
        assert_eq!((members.next(), members.end()), (None, text.len() - 1));
    }

    #[test]
    fn deep_nesting_takes_no_stack() {
        let text = format!("{}{}", "[".repeat(200_000), "]".repeat(200_000));
        assert!(validate(&text).is_ok());
        assert_eq!(elements(&text, whole(&text)).count(), 1);
    }

    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            ".*".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 64, 8, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
                prop::collection::btree_map(".*", inner, 0..8).prop_map(|m| Value::Object(m.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn spans_hold_what_a_parser_reads(value in json(), pretty in any::<bool>()) {
            let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }.unwrap();
            match &value {
                Value::Array(items) => {
                    let found: Vec<Value> = elements(&text, whole(&text)).map(|s| serde_json::from_str(s.of(&text)).unwrap()).collect();
                    prop_assert_eq!(&found, items);
                }
                Value::Object(map) => {
                    let found: Vec<Value> = members(&text, whole(&text)).map(|m| serde_json::from_str(m.value.of(&text)).unwrap()).collect();
                    prop_assert_eq!(found, map.values().cloned().collect::<Vec<_>>());
                }
                _ => {}
            }
        }

        #[test]
        fn text_that_is_no_json_does_not_panic(text in ".*", start in 0_usize..64, end in 0_usize..128) {
            let span = Span::new(start, end);
            let _ = members(&text, span).count();
            let _ = elements(&text, span).count();
        }
    }
}
