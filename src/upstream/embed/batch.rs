//! How many texts go into one request, and how much of each. Pure.

use std::ops::Range;

use crate::ask::estimate_tokens;

/// Texts of one request: servers in front of small models take no more than 32.
const MAX_TEXTS: usize = 32;
/// Estimated tokens of one request.
const MAX_TOKENS: u64 = 32_000;

/// Cuts texts into runs that fit into one request each. A text that is larger than a request goes alone.
pub(super) fn batches(texts: &[String]) -> Vec<Range<usize>> {
    let mut out = Vec::new();
    let (mut start, mut tokens) = (0, 0);
    for (at, text) in texts.iter().enumerate() {
        let size = estimate_tokens(text);
        if at > start && (at - start >= MAX_TEXTS || tokens + size > MAX_TOKENS) {
            out.push(start..at);
            (start, tokens) = (at, 0);
        }
        tokens += size;
    }
    if start < texts.len() {
        out.push(start..texts.len());
    }
    out
}

/// The beginning of a text, as far as about so many tokens go: a quarter of each ASCII byte, a whole one for each other
/// character, as [`estimate_tokens`] counts.
pub(super) fn beginning(text: &str, tokens: u64) -> &str {
    // No text of that many bytes can be longer, and most are far shorter.
    if text.len() as u64 <= tokens {
        return text;
    }
    let quarters = tokens.saturating_mul(4);
    let mut used = 0;
    for (at, c) in text.char_indices() {
        used += if c.is_ascii() { 1 } else { 4 };
        if used > quarters {
            return &text[..at];
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_request_is_bounded_by_count_and_by_tokens() {
        let short = vec!["a".to_owned(); 70];
        assert_eq!(batches(&short), [0..32, 32..64, 64..70]);
        let long = vec!["x".repeat(80_000); 3];
        assert_eq!(batches(&long), [0..1, 1..2, 2..3]);
        assert!(batches(&[]).is_empty());
    }

    #[test]
    fn the_beginning_of_a_text_ends_between_characters() {
        assert_eq!(beginning("abcdefgh", 1), "abcd");
        assert_eq!(beginning("记住我的名字", 2), "记住");
        assert_eq!(beginning("short", 100), "short");
        assert_eq!(beginning("anything", 0), "");
    }

    proptest! {
        #[test]
        fn every_text_is_in_one_batch_and_in_order(lengths in prop::collection::vec(0..60_000_usize, 0..80)) {
            let texts: Vec<String> = lengths.iter().map(|n| "y".repeat(*n)).collect();
            let all: Vec<usize> = batches(&texts).into_iter().flatten().collect();
            prop_assert_eq!(all, (0..texts.len()).collect::<Vec<_>>());
        }

        #[test]
        fn a_beginning_never_counts_for_more_than_was_asked(text in ".{0,400}", tokens in 0..200_u64) {
            let cut = beginning(&text, tokens);
            prop_assert!(text.starts_with(cut));
            prop_assert!(estimate_tokens(cut) <= tokens);
        }
    }
}
