//! Inline code and quotations.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use super::transcript::is_name;

/// Leaves out `inline code` and quotations that are more than a title.
pub(super) fn mask_inline(text: &str, masks: &mut Vec<Range<usize>>) {
    let pairs = [('`', '`'), ('"', '"'), ('“', '”'), ('「', '」'), ('『', '』'), ('«', '»')];
    for (open, close) in pairs {
        let mut from = 0;
        while let Some(start) = text[from..].find(open).map(|at| from + at) {
            let inside = start + open.len_utf8();
            // A quotation stays within its paragraph: an unpaired mark (5" of rain) hides nothing.
            let limit = text[inside..].find("\n\n").map_or(text.len(), |at| inside + at);
            let Some(length) = text[inside..limit].find(close) else {
                from = inside;
                continue;
            };
            let quoted = &text[inside..inside + length];
            let end = inside + length + close.len_utf8();
            if open == '`' || is_speech(quoted) {
                masks.push(start..end);
            }
            from = end;
        }
    }
}

static INLINE_SPEAKER: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"[^\s:\x{FF1A}]\s+(?P<from>(?P<name>\p{Lu}\p{Ll}+(?:\s\p{Lu}\p{Ll}+)?):\s+(?:I|I'm|I’m|I've|My|We|Our)\s)",
    )
    .expect("tested")
});

/// Leaves out what another speaker says within a line ("notes from today - Priya: I hate standups"), to the end of the line.
pub(super) fn mask_inline_speakers(text: &str, masks: &mut Vec<Range<usize>>) {
    for found in INLINE_SPEAKER.captures_iter(text) {
        let (Some(from), Some(name)) = (found.name("from"), found.name("name")) else { continue };
        if is_name(name.as_str()) {
            let end = text[from.start()..].find('\n').map_or(text.len(), |at| from.start() + at);
            masks.push(from.start()..end);
        }
    }
}

/// Whether a quotation is someone's speech, and not a title or a name.
fn is_speech(quoted: &str) -> bool {
    let lower = quoted.to_lowercase();
    let words = lower.split_whitespace().count();
    let first_person = lower
        .split(|c: char| !c.is_alphanumeric() && c != '\'')
        .any(|w| matches!(w, "i" | "i'm" | "my" | "me" | "we" | "our" | "i've"));
    let han = quoted.chars().filter(|c| crate::memory::language::is_han(*c)).count();
    words > 5 || (first_person && words > 1) || han > 10 || (han > 2 && quoted.contains('我'))
}
