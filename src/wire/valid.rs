//! Tells valid JSON fast: nearly all of a chat request is strings, and those are passed over many bytes at a time.

use memchr::memchr2;

/// Whether `text` is one JSON value and nothing else. Nothing recurses, so depth is not limited.
pub(super) fn is_json(text: &str) -> bool {
    Checker { bytes: text.as_bytes(), at: 0 }.whole().is_some()
}

struct Checker<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// All steps return `None` where the text is not JSON.
impl Checker<'_> {
    fn whole(&mut self) -> Option<()> {
        // What is open: `true` for an object.
        let mut open: Vec<bool> = Vec::new();
        loop {
            self.space();
            match self.next()? {
                b'{' => {
                    self.space();
                    if !self.takes(b'}') {
                        open.push(true);
                        self.key()?;
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
                b'"' => self.string()?,
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
                        self.key()?;
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

    /// A key with its colon.
    fn key(&mut self) -> Option<()> {
        if !self.takes(b'"') {
            return None;
        }
        self.string()?;
        self.space();
        self.takes(b':').then_some(())
    }

    /// What follows the opening quote.
    fn string(&mut self) -> Option<()> {
        loop {
            let rest = &self.bytes[self.at..];
            let plain = memchr2(b'"', b'\\', rest)?;
            // Without a way out, so that many bytes are looked at in one step.
            if rest[..plain].iter().fold(false, |any, &byte| any | (byte < b' ')) {
                return None;
            }
            self.at += plain + 1;
            if rest[plain] == b'"' {
                return Some(());
            }
            match self.next()? {
                b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => {}
                b'u' => {
                    let digits = self.bytes.get(self.at..self.at + 4)?;
                    self.at += 4;
                    digits.iter().all(u8::is_ascii_hexdigit).then_some(())?;
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde::de::IgnoredAny;

    use super::*;

    fn parses(text: &str) -> bool {
        serde_json::from_str::<IgnoredAny>(text).is_ok()
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
