//! Tells valid JSON fast: nearly all of a chat request is strings, and those are passed over many bytes at a time.

use memchr::memchr2;

use super::scan::Span;
use super::text::decode_lossy;

/// Words that decide on what a request may do, is counted as or is about.
const READ: [&str; 64] = [
    "arguments",
    "assistant",
    "call_id",
    "computer_call_output",
    "content",
    "conversation",
    "custom_tool_call",
    "custom_tool_call_output",
    "data",
    "description",
    "developer",
    "document",
    "effort",
    "file",
    "function",
    "function_call",
    "function_call_output",
    "functions",
    "id",
    "image",
    "image_url",
    "include_usage",
    "input",
    "input_audio",
    "input_file",
    "input_image",
    "input_text",
    "instructions",
    "item_reference",
    "json_schema",
    "max_completion_tokens",
    "max_output_tokens",
    "max_tokens",
    "message",
    "messages",
    "metadata",
    "model",
    "name",
    "output",
    "output_text",
    "parameters",
    "previous_response_id",
    "prompt",
    "reasoning",
    "redacted_thinking",
    "refusal",
    "response_format",
    "role",
    "safety_identifier",
    "schema",
    "source",
    "stream",
    "stream_options",
    "system",
    "text",
    "thinking",
    "tool",
    "tool_call_id",
    "tool_calls",
    "tool_result",
    "tool_use",
    "tools",
    "type",
    "user_id",
];

/// Whether `text` is one JSON value and nothing else. Nothing recurses, so depth is not limited.
pub(super) fn is_json(text: &str) -> bool {
    checked(text).is_some()
}

/// The most telling of them, which must not be there in capitals beside themselves.
const IN_SMALL_LETTERS: [&str; 11] = [
    "content",
    "conversation",
    "input",
    "instructions",
    "max_tokens",
    "messages",
    "model",
    "previous_response_id",
    "role",
    "stream",
    "system",
];

/// `None` where `text` is not one JSON value and nothing else; else the first word in it that somebody goes by and that is spelled oddly.
///
/// That is a letter, a digit or an underscore that is escaped, in the name of a member of the outermost object, in one of [`READ`], or in a value
/// of `type` and `role` that is one of them; or a capital in one of [`IN_SMALL_LETTERS`].
pub(super) fn checked(text: &str) -> Option<Option<Span>> {
    let mut checker = Checker { bytes: text.as_bytes(), at: 0, names: false, odd: None };
    checker.whole()?;
    Some(checker.odd)
}

struct Checker<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Whether the value that comes next says what its object is.
    names: bool,
    odd: Option<Span>,
}

/// All steps return `None` where the text is not JSON.
impl<'a> Checker<'a> {
    fn whole(&mut self) -> Option<()> {
        // What is open: `true` for an object.
        let mut open: Vec<bool> = Vec::new();
        loop {
            self.space();
            let names = std::mem::take(&mut self.names);
            match self.next()? {
                b'{' => {
                    self.space();
                    if !self.takes(b'}') {
                        open.push(true);
                        self.key(open.len())?;
                        continue;
                    }
                }
                b'[' => {
                    self.space();
                    if !self.takes(b']') {
                        open.push(false);
                        continue;
                    }
                }
                b'"' => {
                    let (value, odd) = self.string()?;
                    if odd && names {
                        self.note(value, |word| READ.contains(&word));
                    }
                }
                b't' => self.word(b"rue")?,
                b'f' => self.word(b"alse")?,
                b'n' => self.word(b"ull")?,
                b'-' => {
                    let first = self.next()?;
                    self.number(first)?;
                }
                first => self.number(first)?,
            }
            // A value has ended here, and perhaps what it stands in.
            loop {
                self.space();
                let Some(&is_object) = open.last() else {
                    return (self.at == self.bytes.len()).then_some(());
                };
                match (self.next()?, is_object) {
                    (b',', true) => {
                        self.space();
                        self.key(open.len())?;
                        break;
                    }
                    (b',', false) => break,
                    (b'}', true) | (b']', false) => open.pop(),
                    _ => return None,
                };
            }
        }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    fn takes(&mut self, byte: u8) -> bool {
        let takes = self.peek() == Some(byte);
        self.at += usize::from(takes);
        takes
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    fn word(&mut self, rest: &[u8]) -> Option<()> {
        let found = self.bytes[self.at..].starts_with(rest);
        self.at += rest.len();
        found.then_some(())
    }

    /// A key of an object in so many others, with its colon.
    fn key(&mut self, depth: usize) -> Option<()> {
        if !self.takes(b'"') {
            return None;
        }
        let (name, odd) = self.string()?;
        if odd {
            self.note(name, |word| depth == 1 || READ.contains(&word));
        } else if matches!(depth, 1 | 3) && name.iter().any(u8::is_ascii_uppercase) {
            // Go's readers take `Model` for `model`, too. The third object is a message's; deeper ones are schemas, whose names are anybody's.
            self.note(name, |word| IN_SMALL_LETTERS.iter().any(|small| small.eq_ignore_ascii_case(word)));
        }
        self.names = matches!(name, b"type" | b"role");
        self.space();
        self.takes(b':').then_some(())
    }

    /// Notes a word that has just been read and is spelled oddly, where it matters.
    fn note(&mut self, word: &[u8], matters: impl Fn(&str) -> bool) {
        let span = Span::new(self.at - 1 - word.len(), self.at - 1);
        let literal = format!("\"{}\"", String::from_utf8_lossy(word));
        if self.odd.is_none() && matters(&decode_lossy(&literal)) {
            self.odd = Some(span);
        }
    }

    /// What follows the opening quote, as it is written, and whether a letter of it is escaped.
    fn string(&mut self) -> Option<(&'a [u8], bool)> {
        let (bytes, start, mut odd) = (self.bytes, self.at, false);
        loop {
            let rest = &self.bytes[self.at..];
            let plain = memchr2(b'"', b'\\', rest)?;
            // Without a way out, so that many bytes are looked at in one step.
            if rest[..plain].iter().fold(false, |any, &byte| any | (byte < b' ')) {
                return None;
            }
            self.at += plain + 1;
            if rest[plain] == b'"' {
                return Some((&bytes[start..self.at - 1], odd));
            }
            match self.next()? {
                b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => {}
                b'u' => {
                    let digits = self.bytes.get(self.at..self.at + 4)?;
                    self.at += 4;
                    digits.iter().all(u8::is_ascii_hexdigit).then_some(())?;
                    odd |= is_word(digits);
                }
                _ => return None,
            }
        }
    }

    /// What follows the sign and the first digit.
    fn number(&mut self, first: u8) -> Option<()> {
        match first {
            b'0' => {}
            b'1'..=b'9' => {
                self.digits();
            }
            _ => return None,
        }
        if self.takes(b'.') && self.digits() == 0 {
            return None;
        }
        if self.takes(b'e') || self.takes(b'E') {
            let _signed = self.takes(b'+') || self.takes(b'-');
            if self.digits() == 0 {
                return None;
            }
        }
        Some(())
    }

    fn digits(&mut self) -> usize {
        let from = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        self.at - from
    }
}

/// Whether four digits of an escape stand for a letter, a digit or an underscore of ASCII, which no writer of JSON escapes.
fn is_word(digits: &[u8]) -> bool {
    let unit = std::str::from_utf8(digits).ok().and_then(|digits| u8::from_str_radix(digits, 16).ok());
    unit.is_some_and(|unit| unit.is_ascii_alphanumeric() || unit == b'_')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde::de::IgnoredAny;

    use super::*;

    fn parses(text: &str) -> bool {
        serde_json::from_str::<IgnoredAny>(text).is_ok()
    }

    #[test]
    fn letters_that_are_escaped_where_a_name_stands_are_told() {
        let odd = |text: &'static str| checked(text).unwrap().map(|span| span.of(text));
        assert_eq!(odd(r#"{"a":1,"mod\u0065l":2}"#), Some(r"mod\u0065l"));
        assert_eq!(odd(r#"{"x_\u0061":{}}"#), Some(r"x_\u0061"), "rules may name any member of the outermost object");
        assert_eq!(odd(r#"{"messages":[{"a":[],"cont\u0065nt":1}]}"#), Some(r"cont\u0065nt"));
        assert_eq!(odd(r#"{"type":"item\u005freference"}"#), Some(r"item\u005freference"));
        assert_eq!(odd(r#"{"x":{"type":1},"role" : "syst\u0065m"}"#), Some(r"syst\u0065m"));
        assert_eq!(odd(r#"{"Model":1}"#), Some("Model"));
        assert_eq!(odd(r#"{"messages":[{"CONTENT":1}]}"#), Some("CONTENT"));
        // What is no letter is escaped by some; values say what they like, and so do members that nobody reads.
        for text in [
            r#"{"a\u00e9\u002fb\n":1}"#,
            r#"{"a\\u0065":1}"#,
            r#"{"content":"\u0065"}"#,
            r#"{"type":["t\u0065xt"]}"#,
            r#"[{"type":"a"},"t\u0065xt"]"#,
            r#"{"a":{"\u0041":1}}"#,
            r#"{"type":"\u0041"}"#,
            r#"{"tools":[{"parameters":{"Role":1,"Model":1}}],"metadata":{"Model":1}}"#,
        ] {
            assert_eq!(odd(text), None, "{text}");
        }
    }

    #[test]
    fn the_odd_corners_are_those_of_the_parser() {
        let deep = format!("{}{}", "[".repeat(5_000), "]".repeat(5_000));
        for text in [
            "",
            " ",
            "1",
            "-",
            "-0",
            "01",
            "1.",
            ".5",
            "1e5",
            "1E+",
            "1e-07",
            "nul",
            "null",
            "true false",
            "[1,]",
            "[,1]",
            "{}",
            "{,}",
            r#"{"a":1,}"#,
            r#"{"a" : [ ] , "b":{}}"#,
            r#"{"a"}"#,
            r#"{a:1}"#,
            r#"["\ud800"]"#,
            r#""\u12G4""#,
            r#""\x""#,
            "\"a\nb\"",
            "\"\u{7f}\"",
            "\"",
            r#""\"#,
            r#""\u00"#,
            "[1]x",
            "\u{feff}1",
            "[",
            "{\"a\":",
            &deep,
        ] {
            assert_eq!(is_json(text), parses(text), "{}", &text[..text.len().min(40)]);
        }
    }

    proptest! {
        #[test]
        fn any_text_is_judged_as_the_parser_does(text in r#"[\[\]{}:,"\\ tfrueals0-9.eE+\-nbu\n]{0,40}"#) {
            prop_assert_eq!(is_json(&text), parses(&text));
        }

        #[test]
        fn a_valid_text_with_one_byte_changed_too(
            keys in prop::collection::vec("[a-z\\\\\"\u{4f60}]{0,6}", 1..6),
            at in any::<prop::sample::Index>(),
            with in prop::sample::select(vec!["", "\"", "\\", ",", "]", "1", "\u{1}", " "]),
        ) {
            let valid = serde_json::json!({"keys": keys, "n": [1.5, -2e9, null, true], "o": {"p": {}}}).to_string();
            prop_assert!(is_json(&valid));
            let mut changed = valid;
            let at = changed.floor_char_boundary(at.index(changed.len()));
            let end = changed.ceil_char_boundary(at + 1);
            changed.replace_range(at..end, with);
            prop_assert_eq!(is_json(&changed), parses(&changed));
        }
    }
}
