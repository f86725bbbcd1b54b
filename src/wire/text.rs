//! JSON strings to text and back.

use std::borrow::Cow;

/// Returns the text of a JSON string literal, quotes included in the input.
///
/// Never fails: a lone surrogate (`"\ud800"`, valid JSON that no Rust string can hold) becomes U+FFFD,
/// and a literal that is not a string comes back as it stands.
#[must_use]
pub fn decode_lossy(literal: &str) -> Cow<'_, str> {
    let Some(inner) = literal.strip_prefix('"').and_then(|t| t.strip_suffix('"')) else {
        return Cow::Borrowed(literal);
    };
    if memchr::memchr(b'\\', inner.as_bytes()).is_none() {
        return Cow::Borrowed(inner);
    }
    let mut out = String::with_capacity(inner.len());
    let mut rest = inner;
    while let Some(at) = memchr::memchr(b'\\', rest.as_bytes()) {
        out.push_str(&rest[..at]);
        rest = decode_escape(&rest[at + 1..], &mut out);
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// The same to the letter: `None` for what is no string, or no text.
#[must_use]
pub fn decode(literal: &str) -> Option<Cow<'_, str>> {
    let inner = literal.strip_prefix('"')?.strip_suffix('"')?;
    if memchr::memchr(b'\\', inner.as_bytes()).is_none() {
        return Some(Cow::Borrowed(inner));
    }
    serde_json::from_str(literal).ok().map(Cow::Owned)
}

/// Decodes the escape whose backslash was just read; returns what follows it.
fn decode_escape<'a>(rest: &'a str, out: &mut String) -> &'a str {
    let Some(kind) = rest.chars().next() else {
        return rest;
    };
    let after = &rest[kind.len_utf8()..];
    let plain = match kind {
        'n' => '\n',
        't' => '\t',
        'r' => '\r',
        'b' => '\u{8}',
        'f' => '\u{c}',
        'u' => return decode_unicode(after, out),
        other => other,
    };
    out.push(plain);
    after
}

fn decode_unicode<'a>(after: &'a str, out: &mut String) -> &'a str {
    let Some(unit) = hex4(after) else {
        out.push(char::REPLACEMENT_CHARACTER);
        return after;
    };
    let rest = &after[4..];
    if (0xd800..0xdc00).contains(&unit)
        && let Some(low) = rest.strip_prefix("\\u").and_then(hex4)
        && (0xdc00..0xe000).contains(&low)
    {
        let code = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
        out.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
        return &rest[6..];
    }
    out.push(char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER));
    rest
}

fn hex4(text: &str) -> Option<u32> {
    let digits = text.get(..4)?;
    digits.bytes().all(|b| b.is_ascii_hexdigit()).then(|| u32::from_str_radix(digits, 16).ok())?
}

/// Returns `text` as a JSON string literal, quotes included.
#[must_use]
pub fn encode_string(text: &str) -> String {
    serde_json::to_string(text).expect("a string is always serialisable")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn escapes_are_read_and_lone_surrogates_replaced() {
        assert_eq!(decode_lossy(r#""a\n\u4f60\ud83d\ude00\/\"""#), "a\n你😀/\"");
        assert_eq!(decode_lossy(r#""x\ud800y""#), "x\u{fffd}y");
        assert_eq!(decode_lossy(r#""\ud800\u0041""#), "\u{fffd}A");
        assert_eq!(decode_lossy("12"), "12");
    }

    proptest! {
        #[test]
        fn decoding_undoes_encoding(text in ".*") {
            let literal = encode_string(&text);
            prop_assert_eq!(decode_lossy(&literal), text);
        }

        #[test]
        fn any_literal_is_read_without_panic(text in "\"[\\\\a-fu0-9\u{4f60}]*\"") {
            let _ = decode_lossy(&text);
        }
    }
}
