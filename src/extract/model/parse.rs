//! Reads an answer, whatever form it has: fenced, wrapped in prose, a bare list, cut at its end. Good items are kept, bad ones counted.

use std::borrow::Cow;

use serde_json::Value;

use super::item::Item;

/// So many items of one answer are kept.
const MAX_ITEMS: usize = 64;
/// Where braces do not match, a scan for their end costs the rest of the text: in all, so many bytes are scanned.
const MAX_SCANNED_BYTES: usize = 8 * 1024 * 1024;

/// What was in an answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parsed {
    /// The items that could be read, in order, none twice.
    pub items: Vec<Item>,
    /// How many could not, or were too many.
    pub bad: usize,
    /// Whether there was a list at all, be it empty: an answer without one is no answer.
    pub list: bool,
}

impl Parsed {
    /// Whether the answer says something: items, or that there are none.
    #[must_use]
    pub fn is_answer(&self) -> bool {
        self.list || !self.items.is_empty()
    }

    fn add(&mut self, item: Option<Item>) {
        match item {
            Some(item) if self.items.contains(&item) => {}
            Some(item) if self.items.len() < MAX_ITEMS => self.items.push(item),
            _ => self.bad += 1,
        }
    }

    /// Takes all items out of a value, wherever in it they stand; whether there was anything of ours.
    fn harvest(&mut self, value: Value) -> bool {
        match value {
            Value::Object(object) if Item::is_meant(&object) => {
                self.add(Item::read(&object));
                true
            }
            Value::Object(object) => {
                let mut ours = false;
                for (name, value) in object {
                    let list = value.is_array();
                    let named = matches!(name.as_str(), "memories" | "memory" | "facts" | "items");
                    self.list |= list && named;
                    ours |= (list || value.is_object()) && self.harvest(value) || list && named;
                }
                ours
            }
            Value::Array(values) => {
                let mut ours = false;
                for value in values {
                    let found = self.harvest(value);
                    self.bad += usize::from(!found);
                    ours |= found;
                }
                ours
            }
            _ => false,
        }
    }
}

/// Reads an answer.
#[must_use]
pub fn parse(text: &str) -> Parsed {
    let mut parsed = Parsed::default();
    let text = text.trim().trim_start_matches('\u{feff}');
    if let Some(value) = read(inside_fence(text)) {
        parsed.list = value.is_array();
        parsed.harvest(value);
        return parsed;
    }
    scan(text, &mut parsed);
    parsed
}

/// Takes every whole object out of a text.
fn scan(text: &str, parsed: &mut Parsed) {
    let mut scanned = 0;
    let mut at = 0;
    while let Some(open) = memchr::memchr2(b'{', b'[', &text.as_bytes()[at..]).map(|n| at + n) {
        if scanned > MAX_SCANNED_BYTES {
            parsed.bad += 1;
            return;
        }
        at = open + 1;
        let end = end_of(&text[open..]).map(|length| open + length);
        scanned += end.unwrap_or(text.len()) - open;
        let Some(end) = end else {
            // A wrapper whose end was cut off is no item lost; an item is.
            parsed.bad += usize::from(is_item_head(&text[open..]));
            continue;
        };
        let Some(value) = read(&text[open..end]) else { continue };
        let before = parsed.bad;
        if parsed.harvest(value) {
            at = end;
        } else {
            // A list or an object of prose.
            parsed.bad = before;
        }
    }
}

/// The length of the value that begins the text: up to the bracket that closes it, strings skipped.
fn end_of(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    let mut string = false;
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if string => escaped = true,
            b'"' => string = !string,
            _ if string => {}
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

/// Whether a piece that has no end begins as an item.
fn is_item_head(text: &str) -> bool {
    let Some(head) = text.strip_prefix('{').map(str::trim_start).and_then(|head| head.strip_prefix('"')) else {
        return false;
    };
    super::schema::MEMBERS.iter().any(|name| head.strip_prefix(name).is_some_and(|rest| rest.starts_with('"')))
}

/// What stands in a code fence around the whole text.
fn inside_fence(text: &str) -> &str {
    let Some(inner) = text.strip_prefix("```").and_then(|inner| inner.trim_end().strip_suffix("```")) else {
        return text;
    };
    inner.trim_start_matches(|c: char| c.is_ascii_alphanumeric()).trim()
}

/// Reads one value, mended where models make mistakes.
fn read(text: &str) -> Option<Value> {
    let wanted = |value: &Value| value.is_object() || value.is_array();
    let value = match serde_json::from_str::<Value>(text) {
        Ok(value) => Some(value),
        Err(_) => match mended(text) {
            Cow::Borrowed(_) => None,
            Cow::Owned(mended) => serde_json::from_str(&mended).ok(),
        },
    };
    value.filter(wanted)
}

/// Without commas before a closing bracket, bare line ends in strings, and halves of surrogate pairs (`\ud83d`), which
/// no text can hold.
fn mended(text: &str) -> Cow<'_, str> {
    let mut out = String::with_capacity(text.len());
    let mut string = false;
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let tail = &rest[c.len_utf8()..];
        match c {
            '\\' if string => {
                let (escape, after) = escape(rest);
                out.push_str(escape);
                rest = after;
                continue;
            }
            '"' => string = !string,
            ',' if !string && tail.trim_start().starts_with(['}', ']']) => {
                rest = tail;
                continue;
            }
            '\n' | '\r' | '\t' if string => {
                out.push(' ');
                rest = tail;
                continue;
            }
            _ => {}
        }
        out.push(c);
        rest = tail;
    }
    if out == text { Cow::Borrowed(text) } else { Cow::Owned(out) }
}

/// The escape at the head of a text, and what follows it.
fn escape(text: &str) -> (&str, &str) {
    let unit = |text: &str| {
        let digits = text.strip_prefix("\\u")?.get(..4)?;
        u16::from_str_radix(digits, 16).ok()
    };
    match unit(text) {
        Some(0xd800..0xdc00) if text.get(6..).and_then(unit).is_some_and(|low| (0xdc00..0xe000).contains(&low)) => {
            text.split_at(12)
        }
        Some(0xd800..0xe000) => ("\\ufffd", &text[6..]),
        Some(_) => text.split_at(6),
        None => {
            let end = text.char_indices().nth(2).map_or(text.len(), |(at, _)| at);
            text.split_at(end)
        }
    }
}
