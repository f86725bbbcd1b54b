//! Shortens texts in their middle: the largest ones when even the cut leaves too much (`overflow = "shorten"`), and long
//! results of tools before anything is cut (`profile = "task"`).

use crate::tokens::{Counter, Rules};
use crate::wire::{ChatRequest, Content, Message, Patches, Role, Span, decode_lossy, encode_string};

/// Texts below this are left alone: shortening them saves little and hurts much.
const MIN_TOKENS: usize = 128;
/// Tokens of the mark that stands for what was left out.
const MARK_TOKENS: usize = 16;
/// Results of tools above this are long, …
const LONG_RESULT_TOKENS: usize = 512;
/// … and are shortened to this.
const SHORT_RESULT_TOKENS: usize = 256;
/// Texts that are shortened at most.
const MAX_TEXTS: usize = 32;

/// A shortened text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shortened {
    /// The message it is in.
    pub(super) message: usize,
    /// What is saved.
    pub(super) saved: usize,
    /// The string literal that is replaced.
    pub(super) literal: Span,
    with: String,
}

impl Shortened {
    /// Puts the shorter text in.
    pub(super) fn patch(&self, patches: &mut Patches) {
        // Between the quotes only: our blocks are inserted right behind or before them.
        let literal = encode_string(&self.with);
        patches.replace(Span::new(self.literal.start + 1, self.literal.end - 1), &literal[1..literal.len() - 1]);
    }
}

/// Returns the texts to shorten so that `excess` tokens are saved, largest first; `None` when that cannot be done.
///
/// Instructions are never shortened, nor parts with `cache_control`, nor texts for which `skip` says so.
pub(super) fn shorten(
    request: &ChatRequest,
    text: &str,
    first_kept: usize,
    excess: usize,
    (counter, rules): (&Counter, Rules),
    skip: impl Fn(Span) -> bool,
) -> Option<Vec<Shortened>> {
    let mut texts: Vec<(usize, usize, Span)> = Vec::new();
    for (at, message) in request.messages().iter().enumerate().skip(first_kept) {
        if message.role.is_instruction() {
            continue;
        }
        for literal in literals(text, message).into_iter().filter(|&literal| !skip(literal)) {
            let tokens = counter.text(rules, &decode_lossy(literal.of(text)));
            if tokens >= MIN_TOKENS {
                texts.push((tokens, at, literal));
            }
        }
    }
    // Largest first; of two alike the older one.
    texts.sort_by_key(|&(tokens, at, _)| (std::cmp::Reverse(tokens), at));
    let mut left = excess;
    let mut out = Vec::new();
    for (tokens, message, literal) in texts.into_iter().take(MAX_TEXTS) {
        let whole = decode_lossy(literal.of(text));
        let room = tokens.saturating_sub(left).max(MIN_TOKENS / 2);
        let with = middle_out(&whole, tokens, room, counter, rules);
        let saved = tokens.saturating_sub(counter.text(rules, &with));
        if saved == 0 {
            continue;
        }
        left = left.saturating_sub(saved);
        out.push(Shortened { message, saved, literal, with });
        if left == 0 {
            return Some(out);
        }
    }
    None
}

/// Returns all long results of tools, shortened (`profile = "task"`), but those that the model has not answered yet. When each of
/// them is really shortened, the cut says.
pub(super) fn tool_results(request: &ChatRequest, text: &str, (counter, rules): (&Counter, Rules)) -> Vec<Shortened> {
    let messages = request.messages();
    let answered = messages.iter().rposition(|m| m.role == Role::Assistant).unwrap_or(0);
    let mut out = Vec::new();
    for (at, message) in messages[..answered].iter().enumerate().filter(|(_, m)| m.role.is_tool_result()) {
        for literal in literals(text, message) {
            let whole = decode_lossy(literal.of(text));
            let tokens = counter.text(rules, &whole);
            if tokens > LONG_RESULT_TOKENS {
                let with = middle_out(&whole, tokens, SHORT_RESULT_TOKENS, counter, rules);
                let saved = tokens.saturating_sub(counter.text(rules, &with));
                out.push(Shortened { message: at, saved, literal, with });
            }
        }
    }
    out
}

/// The texts of a message that may be edited.
fn literals(text: &str, message: &Message) -> Vec<Span> {
    match message.content {
        Content::Text(span) => vec![span],
        // The words beside what the model signed are left alone as well.
        Content::Parts(_) if message.signed => Vec::new(),
        Content::Parts(_) => message
            .parts(text)
            .flat_map(|part| part.texts(text))
            .filter(|part| !part.cache_control)
            .map(|part| part.literal)
            .collect(),
        Content::Absent | Content::Null(_) | Content::Other(_) => Vec::new(),
    }
}

/// Returns the beginning and the end of a text of `tokens` tokens, with a mark between, in at most `room` tokens.
fn middle_out(text: &str, tokens: usize, room: usize, counter: &Counter, rules: Rules) -> String {
    let mut keep = room.saturating_sub(MARK_TOKENS);
    loop {
        // Bytes are spread over tokens evenly enough for a first guess; each next one is smaller.
        let bytes = (text.len() as u128 * keep as u128 / tokens.max(1) as u128) as usize;
        let head = text.floor_char_boundary(bytes * 3 / 5);
        let tail = text.ceil_char_boundary(text.len() - bytes * 2 / 5);
        let left_out = tokens - keep;
        let short = format!("{}\n[… about {left_out} tokens left out …]\n{}", &text[..head], &text[tail.max(head)..]);
        if keep == 0 || counter.text(rules, &short) <= room {
            return short;
        }
        keep -= (keep / 16).max(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokens::Encoding;
    use bytes::Bytes;
    use serde_json::json;

    #[test]
    fn the_largest_text_is_shortened_in_its_middle() {
        let long = format!("begin {} end", "word ".repeat(2000));
        let body = json!({"model": "m", "messages": [
            {"role": "user", "content": "question"},
            {"role": "tool", "content": long},
            {"role": "tool", "content": "word ".repeat(300)},
        ]});
        let request = ChatRequest::decode(Bytes::from(body.to_string())).unwrap();
        let counter = Counter::new(1 << 12);
        let by = (&counter, Encoding::O200k.into());
        let out = shorten(&request, request.text(), 0, 1000, by, |_| false).unwrap();
        assert_eq!(out.len(), 1);
        assert_eq!(out[0].message, 1);
        assert!((1000..1100).contains(&out[0].saved), "{}", out[0].saved);
        assert!(out[0].with.starts_with("begin word") && out[0].with.ends_with("word  end"));
        assert!(shorten(&request, request.text(), 0, 2100, by, |_| false).is_some_and(|out| out.len() == 2));
        assert_eq!(shorten(&request, request.text(), 0, 5000, by, |_| false), None);
    }
}
