//! Blocks in tags: `<doc>…</doc>`.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

static OPEN_TAG: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"<\s*([A-Za-z_][A-Za-z0-9_:.-]{0,60})(?:\s[^<>]{0,300})?>").expect("tested"));

/// Leaves out `<tag>…</tag>`; one that stands alone on its line and is never closed goes to the end.
pub(super) fn mask_tags(text: &str, masks: &mut Vec<Range<usize>>) {
    let mut at = 0;
    while let Some(open) = OPEN_TAG.captures_at(text, at) {
        let (whole, name) = (open.get(0).expect("group 0 is the match"), open.get(1).expect("group 1 is not optional"));
        let close = format!("</{}", name.as_str());
        let end = match find_ignore_case(&text[whole.end()..], &close) {
            Some(found) => text[whole.end() + found..].find('>').map_or(text.len(), |gt| whole.end() + found + gt + 1),
            None if whole.as_str().ends_with("/>") => whole.end(),
            None => {
                let alone = text[..whole.start()].rsplit('\n').next().is_none_or(|l| l.trim().is_empty());
                let ends_line = text[whole.end()..].split('\n').next().is_none_or(|l| l.trim().is_empty());
                if alone && ends_line { text.len() } else { whole.end() }
            }
        };
        masks.push(whole.start()..end);
        at = end;
        if at >= text.len() {
            break;
        }
    }
}

fn find_ignore_case(text: &str, needle: &str) -> Option<usize> {
    memchr::memchr_iter(b'<', text.as_bytes()).find(|&at| {
        text.as_bytes().get(at..at + needle.len()).is_some_and(|w| w.eq_ignore_ascii_case(needle.as_bytes()))
    })
}
