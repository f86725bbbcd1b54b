//! The fence however it comes back: escaped, in other case, with attributes, nested, torn. For what is learned from, not for what is sent.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use super::without;

/// The reserved name, opening or closing; also escaped as in HTML or JSON, in any case, with attributes or white space.
static TAG: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)(?:<|&lt;|\\u003c|<)\s*(/|\\/|/)?\s*backstory-notes(?-u:\b)[^<>\n]{0,200}?(?:>|&gt;|\\u003e|>)")
        .expect("tested")
});

/// Whether a text has our fence in it, whole or in part.
#[must_use]
pub fn occurs_loosely(text: &str) -> bool {
    // The name has no rarer letters than `k` and `-`; a byte search is far cheaper than the pattern.
    memchr::memchr2_iter(b'b', b'B', text.as_bytes())
        .any(|at| text.as_bytes().get(at..at + 15).is_some_and(|w| w.eq_ignore_ascii_case(b"backstory-notes")))
        && TAG.is_match(text)
}

/// The spans of our fence. Nested fences are one span; one that is not closed goes to the end, one that is not opened began before the text.
#[must_use]
pub fn spans_loosely(text: &str) -> Vec<Range<usize>> {
    if !occurs_loosely(text) {
        return Vec::new();
    }
    let mut spans = Vec::new();
    let mut depth = 0_usize;
    let mut start = 0;
    for tag in TAG.captures_iter(text) {
        let whole = tag.get(0).expect("group 0 is the match");
        if tag.get(1).is_none() {
            if depth == 0 {
                start = whole.start();
            }
            depth += 1;
        } else if depth == 0 {
            spans.clear();
            spans.push(0..whole.end());
        } else {
            depth -= 1;
            if depth == 0 {
                spans.push(start..whole.end());
            }
        }
    }
    if depth > 0 {
        spans.push(start..text.len());
    }
    spans
}

/// The text without our fence.
#[must_use]
pub fn strip_loosely(text: &str) -> Cow<'_, str> {
    without(text, &spans_loosely(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fence_goes_nested_escaped_and_torn() {
        for (text, left) in [
            ("a <backstory-notes>x</backstory-notes> b", "a  b"),
            ("<backstory-notes>x <backstory-notes>y</backstory-notes> z</backstory-notes>b", "b"),
            ("&lt;backstory-notes&gt;x&lt;/backstory-notes&gt;b", "b"),
            ("a <BackStory-Notes kind=\"profile\">never closed", "a "),
            ("torn tail</backstory-notes> b", " b"),
            ("backstory-notes are a thing", "backstory-notes are a thing"),
        ] {
            assert_eq!(strip_loosely(text), left);
        }
    }
}
