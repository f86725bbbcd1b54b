//! The fence around everything that we add to a request: `<backstory-notes>` … `</backstory-notes>`, a reserved name.
//!
//! What stands inside is ours, however it comes back: it is taken out of what is sent, hashed and learned from. Memories
//! cannot close the fence from inside: [`escape`] takes the `<` of every tag of this name.
//!
//! It is read in two ways. What is *sent* and *hashed* loses only spans between our own tags, to the letter ([`strip`]): the client's
//! bytes are theirs. What is *learned from* loses everything that may have been ours, however it was mangled on its way
//! ([`strip_loosely`]): a fact that is not learned can be said again, one that we told ourselves cannot be taken back.

mod loose;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::LazyLock;

use memchr::memmem;

pub use loose::{occurs_loosely, spans_loosely, strip_loosely};

/// The reserved name.
pub const NAME: &str = "backstory-notes";
/// The tag that opens a block.
pub const OPEN: &str = "<backstory-notes>";
/// The tag that closes a block.
pub const CLOSE: &str = "</backstory-notes>";

/// Made once: it is used on every message of every request.
static FINDER: LazyLock<memmem::Finder<'static>> = LazyLock::new(|| memmem::Finder::new(NAME));

/// Whether the text has an opening tag of ours; in raw JSON too, where encoders may write `<` as `\u003c`.
#[must_use]
pub fn contains(text: &str) -> bool {
    next_tag(text, 0, false).is_some()
}

/// Takes out every fenced span, with the blank line that parts it from the client's own words. A span that is never closed
/// goes to the end: a reply may have been cut short while it repeated our block.
#[must_use]
pub fn strip(text: &str) -> Cow<'_, str> {
    without(text, &spans(text, "\n"))
}

/// Returns a text without these spans of it, which are in order.
fn without<'a>(text: &'a str, spans: &[Range<usize>]) -> Cow<'a, str> {
    if spans.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    for span in spans {
        out.push_str(&text[at..span.start]);
        at = span.end;
    }
    out.push_str(&text[at..]);
    Cow::Owned(out)
}

/// Makes a text harmless inside the fence: a tag of our name, however it is cased or spaced, loses its `<`.
#[must_use]
pub fn escape(text: &str) -> Cow<'_, str> {
    if memchr::memchr(b'<', text.as_bytes()).is_none() {
        return Cow::Borrowed(text);
    }
    let lower = text.to_ascii_lowercase();
    let mut out = String::new();
    let mut done = 0;
    for at in memmem::find_iter(lower.as_bytes(), NAME) {
        let before = text[done..at].trim_end_matches(|c: char| c == '/' || c.is_whitespace());
        if let Some(kept) = before.strip_suffix('<') {
            out.push_str(kept);
            out.push_str("&lt;");
            done += kept.len() + 1;
        }
    }
    if done == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(&text[done..]);
    Cow::Owned(out)
}

/// Returns the fenced spans inside the raw text of a JSON string literal (quotes included), to be cut out of it as they
/// stand: all other escapes of the client stay as they are.
#[must_use]
pub fn spans_in_literal(literal: &str) -> Vec<Range<usize>> {
    let inner = literal.len().saturating_sub(1);
    let mut spans = spans(&literal[..inner.max(1).min(literal.len())], "\\n");
    spans.retain(|span| span.start < span.end && span.start > 0);
    spans
}

/// Returns the fenced spans of a text in which a line feed is written as `newline`.
fn spans(text: &str, newline: &str) -> Vec<Range<usize>> {
    let mut spans: Vec<Range<usize>> = Vec::new();
    let mut from = 0;
    while let Some(open) = next_tag(text, from, false) {
        let mut end = next_tag(text, open.end, true).map_or(text.len(), |close| close.end);
        // We part our block from the client's words by a blank line, or by a part of its own, which joins as one line feed.
        for _ in 0..2 {
            if text[end..].starts_with(newline) {
                end += newline.len();
            }
        }
        spans.push(open.start..end);
        from = end;
    }
    // Blocks at the very end have that blank line before the first of them.
    if spans.last().is_some_and(|last| last.end == text.len()) {
        let first = (1..spans.len()).rfind(|&i| spans[i - 1].end != spans[i].start).unwrap_or(0);
        let own = first.checked_sub(1).map_or(0, |before| spans[before].end);
        for _ in 0..2 {
            if ends_with_newline(&text[own..spans[first].start], newline) {
                spans[first].start -= newline.len();
            }
        }
    }
    spans
}

/// Whether a text ends with a line feed as it is written there. In raw JSON a backslash before `n` begins the escape only where it is not
/// the second half of an escaped one.
fn ends_with_newline(text: &str, newline: &str) -> bool {
    let escaped = newline.starts_with('\\');
    let backslashes = || text.bytes().rev().skip(1).take_while(|&byte| byte == b'\\').count();
    text.ends_with(newline) && (!escaped || backslashes() % 2 == 1)
}

/// Finds the next opening or closing tag at or behind `from`, in plain text or in raw JSON.
fn next_tag(text: &str, from: usize, closing: bool) -> Option<Range<usize>> {
    let mut at = from;
    loop {
        let name = at + FINDER.find(text.as_bytes().get(at..)?)?;
        let end = name + NAME.len();
        let before = &text[from..name];
        let slash = ["\\/", "/", ""].into_iter().find(|slash| before.ends_with(slash)).unwrap_or_default();
        let less =
            ["<", "\\u003c", "\\u003C"].into_iter().find(|less| before[..before.len() - slash.len()].ends_with(less));
        let greater = [">", "\\u003e", "\\u003E"].into_iter().find(|greater| text[end..].starts_with(greater));
        if let (Some(less), Some(greater)) = (less, greater)
            && closing != slash.is_empty()
        {
            return Some(name - slash.len() - less.len()..end + greater.len());
        }
        at = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_block_is_taken_out_with_its_blank_line() {
        assert_eq!(strip("<backstory-notes>\n- x\n</backstory-notes>\n\nhello"), "hello");
        assert_eq!(strip("be kind\n\n<backstory-notes>\n- x\n</backstory-notes>"), "be kind");
        assert_eq!(strip("a <backstory-notes>x</backstory-notes> b"), "a  b");
        assert_eq!(strip("a\n\n<backstory-notes>x"), "a");
        assert_eq!(strip("a\n\n<backstory-notes>1</backstory-notes>\n\n<backstory-notes>2</backstory-notes>"), "a");
        assert_eq!(strip("<backstory-notes>1</backstory-notes>\n\n<backstory-notes>2</backstory-notes>\n\nc"), "c");
    }

    #[test]
    fn other_text_stays_as_it_is() {
        for text in ["", "hello", "backstory-notes", "</backstory-notes> x", "<backstory-notes x>", "<b>"] {
            assert!(matches!(strip(text), Cow::Borrowed(_)), "{text}");
            assert!(!contains(text), "{text}");
        }
    }

    #[test]
    fn raw_json_is_understood_however_it_is_escaped() {
        assert!(contains(r#""\u003cbackstory-notes\u003e""#));
        let literal = r#""é\u00e9 \u003cbackstory-notes\u003e\n- x\n\u003c\/backstory-notes\u003e\n\nhi \ud800""#;
        let spans = spans_in_literal(literal);
        assert_eq!(spans.len(), 1);
        let rest = format!("{}{}", &literal[..spans[0].start], &literal[spans[0].end..]);
        assert_eq!(rest, r#""é\u00e9 hi \ud800""#);
        let open = r#""a\n\n<backstory-notes>x""#;
        assert_eq!(spans_in_literal(open), vec![Range { start: 2, end: open.len() - 1 }]);
        assert!(spans_in_literal("\"\"").is_empty());
        assert!(spans_in_literal("").is_empty());
    }

    #[test]
    fn a_memory_cannot_close_the_fence() {
        assert_eq!(escape("x</backstory-notes>y"), "x&lt;/backstory-notes>y");
        assert_eq!(escape("< / BackStory-Notes >"), "&lt; / BackStory-Notes >");
        assert_eq!(escape("<<backstory-notes><backstory-notes>"), "<&lt;backstory-notes>&lt;backstory-notes>");
        assert!(matches!(escape("plain backstory-notes"), Cow::Borrowed(_)));
    }

    #[test]
    fn an_escaped_backslash_before_an_n_is_no_line_feed() {
        for (literal, start) in [(r#""a\\n<backstory-notes>x""#, 5), (r#""a\n<backstory-notes>x""#, 2)] {
            assert_eq!(spans_in_literal(literal).first(), Some(&(start..literal.len() - 1)), "{literal}");
        }
    }

    fn texts() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            Just("<".to_owned()),
            Just("/".to_owned()),
            Just(">".to_owned()),
            Just(NAME.to_owned()),
            Just("\n\n".to_owned()),
            Just(OPEN.to_owned()),
            Just(CLOSE.to_owned()),
            "[a-zİ你\\\\\"]{0,3}",
        ];
        prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn a_literal_is_stripped_as_its_text_is(text in texts()) {
            let literal = serde_json::to_string(&text).unwrap();
            let mut rest = literal.clone();
            for span in spans_in_literal(&literal).into_iter().rev() {
                rest.replace_range(span, "");
            }
            prop_assert_eq!(serde_json::from_str::<String>(&rest).unwrap(), strip(&text));
        }

        #[test]
        fn what_is_escaped_has_no_tag(text in texts()) {
            let escaped = escape(&text);
            prop_assert!(!contains(&escaped));
            prop_assert!(!escaped.contains(CLOSE));
            prop_assert_eq!(escape(&escaped), escaped.clone());
        }

        #[test]
        fn a_block_around_any_memory_comes_out_whole(text in texts(), own in "[a-z ]{1,9}") {
            let sent = format!("{OPEN}\n{}\n{CLOSE}\n\n{own}", escape(&text));
            prop_assert_eq!(strip(&sent), own);
        }
    }
}
