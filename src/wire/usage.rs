//! What a reply cost, as upstream reports it.

use super::scan::{self, Span};

/// Token counts of one exchange; what upstream did not say is zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Input tokens, cached ones included.
    pub prompt_tokens: u64,
    /// Output tokens, reasoning included.
    pub completion_tokens: u64,
    /// Input tokens that came from upstream's prompt cache.
    pub cached_tokens: u64,
    /// Output tokens that were spent on reasoning.
    pub reasoning_tokens: u64,
}

impl Usage {
    /// Reads the text of a `usage` object; `None` when it is no object or counts nothing that we know.
    ///
    /// Both spellings are read: `prompt_tokens` and `input_tokens`, `completion_tokens` and `output_tokens`.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let mut usage = Self::default();
        let mut known = false;
        for member in scan::members(text, Span::new(0, text.len())) {
            let slot = match member.key.of(text) {
                "prompt_tokens" | "input_tokens" => &mut usage.prompt_tokens,
                "completion_tokens" | "output_tokens" => &mut usage.completion_tokens,
                "prompt_tokens_details" | "input_tokens_details" => {
                    usage.cached_tokens = nested(text, member.value, "cached_tokens").unwrap_or(usage.cached_tokens);
                    continue;
                }
                "completion_tokens_details" | "output_tokens_details" => {
                    usage.reasoning_tokens =
                        nested(text, member.value, "reasoning_tokens").unwrap_or(usage.reasoning_tokens);
                    continue;
                }
                _ => continue,
            };
            if let Some(count) = count(member.value.of(text)) {
                *slot = count;
                known = true;
            }
        }
        known.then_some(usage)
    }

    /// Input and output tokens together.
    #[must_use]
    pub fn total(self) -> u64 {
        self.prompt_tokens.saturating_add(self.completion_tokens)
    }
}

fn nested(text: &str, span: Span, key: &str) -> Option<u64> {
    count(scan::member(text, span, key)?.of(text))
}

/// Reads a count that may be written as a float, as in `12.0` or `1e2`.
fn count(text: &str) -> Option<u64> {
    if let Ok(count) = text.parse() {
        return Some(count);
    }
    let float: f64 = text.parse().ok()?;
    // The bound is where every integer still has a float of its own.
    (0.0..=9_007_199_254_740_992.0).contains(&float).then_some(float as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn openai_names_are_read_with_their_details() {
        let text = r#"{"prompt_tokens":12,"completion_tokens":34,"total_tokens":46,
            "prompt_tokens_details":{"cached_tokens":5,"audio_tokens":0},
            "completion_tokens_details":{"reasoning_tokens":7}}"#;
        let usage = Usage { prompt_tokens: 12, completion_tokens: 34, cached_tokens: 5, reasoning_tokens: 7 };
        assert_eq!(Usage::read(text), Some(usage));
        assert_eq!(usage.total(), 46);
    }

    #[test]
    fn the_other_spelling_is_read_too() {
        let text = r#"{"input_tokens":3,"output_tokens":4.0,"input_tokens_details":{"cached_tokens":1}}"#;
        let usage = Usage { prompt_tokens: 3, completion_tokens: 4, cached_tokens: 1, reasoning_tokens: 0 };
        assert_eq!(Usage::read(text), Some(usage));
    }

    #[test]
    fn what_counts_nothing_is_no_usage() {
        for text in ["null", "{}", "[]", "", r#"{"prompt_tokens":null}"#, r#"{"prompt_tokens":-3}"#, r#"{"cost":1}"#] {
            assert_eq!(Usage::read(text), None, "{text}");
        }
    }
}
