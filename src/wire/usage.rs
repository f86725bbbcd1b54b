//! What a reply cost, as upstream reports it.

use super::scan::{self, Span};
use crate::base::MAX_FIGURE;

/// Token counts of one exchange; what upstream did not say is zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Input tokens, cached ones included.
    pub prompt_tokens: u64,
    /// Output tokens, reasoning included.
    pub completion_tokens: u64,
    /// Input tokens that came from upstream's prompt cache.
    pub cached_tokens: u64,
    /// Input tokens that were written to upstream's prompt cache.
    pub cache_write_tokens: u64,
    /// Output tokens that were spent on reasoning.
    pub reasoning_tokens: u64,
}

impl Usage {
    /// Reads the text of a `usage` object; `None` when it is no object or counts nothing that we know.
    ///
    /// The spellings of OpenAI's two APIs are read, those of Anthropic's cache, DeepSeek's and Moonshot's. Some count a part beside its whole
    /// instead of within it; where the total tells so, the whole is corrected.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let mut read = Read::default();
        for member in scan::members(text, Span::new(0, text.len())) {
            read.member(text, member.key.of(text), member.value);
        }
        read.known.then(|| read.settle())
    }

    /// What holds when this was told after `earlier` in one stream: counts are running totals, and the last one counts. What it does not
    /// tell, or tells as nothing, was told before.
    #[must_use]
    pub fn after(self, earlier: Option<Self>) -> Self {
        let earlier = earlier.unwrap_or_default();
        let (input, output) = (
            if self.prompt_tokens > 0 { self } else { earlier },
            if self.completion_tokens > 0 { self } else { earlier },
        );
        Self {
            prompt_tokens: input.prompt_tokens,
            cached_tokens: input.cached_tokens,
            cache_write_tokens: input.cache_write_tokens,
            completion_tokens: output.completion_tokens,
            reasoning_tokens: output.reasoning_tokens,
        }
    }

    /// Input and output tokens together.
    #[must_use]
    pub fn total(self) -> u64 {
        self.prompt_tokens.saturating_add(self.completion_tokens)
    }
}

/// What a `usage` object says, member by member.
#[derive(Default)]
struct Read {
    usage: Usage,
    total: Option<u64>,
    /// Anthropic's members, which may count beside the input: read from its cache, and written to it.
    beside: (u64, u64),
    /// The input is called `input_tokens`, as Anthropic does.
    input_spelling: bool,
    known: bool,
}

impl Read {
    fn member(&mut self, text: &str, key: &str, value: Span) {
        let usage = &mut self.usage;
        let count = || count(value.of(text));
        match key {
            "prompt_tokens" | "input_tokens" => {
                if let Some(count) = count() {
                    usage.prompt_tokens = count;
                    self.input_spelling = key == "input_tokens";
                    self.known = true;
                }
            }
            "completion_tokens" | "output_tokens" => {
                if let Some(count) = count() {
                    usage.completion_tokens = count;
                    self.known = true;
                }
            }
            "total_tokens" => self.total = count(),
            "prompt_tokens_details" | "input_tokens_details" => {
                let detail = |key| nested(text, value, key);
                usage.cached_tokens = detail("cached_tokens").unwrap_or(usage.cached_tokens);
                let written = detail("cache_write_tokens").or_else(|| detail("cache_creation_tokens"));
                usage.cache_write_tokens = written.unwrap_or(usage.cache_write_tokens);
            }
            "completion_tokens_details" | "output_tokens_details" => {
                usage.reasoning_tokens = nested(text, value, "reasoning_tokens").unwrap_or(usage.reasoning_tokens);
            }
            "cached_tokens" | "prompt_cache_hit_tokens" => {
                usage.cached_tokens = count().unwrap_or(usage.cached_tokens);
            }
            "reasoning_tokens" => usage.reasoning_tokens = count().unwrap_or(usage.reasoning_tokens),
            "cache_read_input_tokens" => self.beside.0 = count().unwrap_or_default(),
            "cache_creation_input_tokens" => self.beside.1 = count().unwrap_or_default(),
            _ => {}
        }
    }

    /// Makes wholes of what was told in parts.
    fn settle(self) -> Usage {
        let Self { mut usage, total, beside: (cache_read, cache_written), input_spelling, .. } = self;
        let beside = cache_read.saturating_add(cache_written);
        usage.cached_tokens = usage.cached_tokens.max(cache_read);
        usage.cache_write_tokens = usage.cache_write_tokens.max(cache_written);
        let reasoning = usage.reasoning_tokens;
        match total.map(|total| total.saturating_sub(usage.total())) {
            // xAI counts reasoning beside the output; so did several adapters for Gemini.
            Some(missing) if missing > 0 && missing == reasoning => usage.completion_tokens += missing,
            // Portkey's adapter counts Anthropic's cache in the total only.
            Some(missing) if missing > 0 && missing == beside => usage.prompt_tokens += missing,
            // Some adapters for Gemini drop what was thought from the output, and the detail too.
            Some(missing) if missing > 0 && reasoning == 0 && beside == 0 => {
                usage.completion_tokens += missing;
                usage.reasoning_tokens = missing;
            }
            // A cache that gave more than the whole input was counted beside it, as Anthropic itself does.
            _ if beside > 0 && (input_spelling && total.is_none() || beside > usage.prompt_tokens) => {
                usage.prompt_tokens = usage.prompt_tokens.saturating_add(beside);
            }
            _ => {}
        }
        usage
    }
}

fn nested(text: &str, span: Span, key: &str) -> Option<u64> {
    count(scan::member(text, span, key)?.of(text))
}

/// Reads a count that may be written as a float, as in `12.0` or `1e2`; what is too much to be true counts as [`MAX_FIGURE`].
fn count(text: &str) -> Option<u64> {
    if let Ok(count) = text.parse::<u64>() {
        return Some(count.min(MAX_FIGURE));
    }
    let float: f64 = text.parse().ok()?;
    // `as` takes what is larger than any integer for the largest.
    (float >= 0.0).then_some((float as u64).min(MAX_FIGURE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn openai_names_are_read_with_their_details() {
        let text = r#"{"prompt_tokens":12,"completion_tokens":34,"total_tokens":46,
            "prompt_tokens_details":{"cached_tokens":5,"audio_tokens":0},
            "completion_tokens_details":{"reasoning_tokens":7}}"#;
        let usage = Usage {
            prompt_tokens: 12,
            completion_tokens: 34,
            cached_tokens: 5,
            reasoning_tokens: 7,
            ..Usage::default()
        };
        assert_eq!(Usage::read(text), Some(usage));
        assert_eq!(usage.total(), 46);
    }

    #[test]
    fn the_other_spelling_is_read_too() {
        let text = r#"{"input_tokens":3,"output_tokens":4.0,"input_tokens_details":{"cached_tokens":1}}"#;
        let usage = Usage { prompt_tokens: 3, completion_tokens: 4, cached_tokens: 1, ..Usage::default() };
        assert_eq!(Usage::read(text), Some(usage));
    }

    fn read(text: &str) -> (u64, u64, u64, u64, u64) {
        let usage = Usage::read(text).unwrap();
        let Usage { prompt_tokens, completion_tokens, cached_tokens, cache_write_tokens, reasoning_tokens } = usage;
        (prompt_tokens, completion_tokens, cached_tokens, cache_write_tokens, reasoning_tokens)
    }

    /// UKGovernmentBEIS/inspect_ai#5528: xAI's total is prompt + completion + reasoning.
    #[test]
    fn reasoning_that_is_counted_beside_the_output_is_output() {
        let grok = r#"{"prompt_tokens":279,"completion_tokens":6,"total_tokens":374,"completion_tokens_details":{"reasoning_tokens":89}}"#;
        assert_eq!(read(grok), (279, 95, 0, 0, 89));
        let within = r#"{"prompt_tokens":279,"completion_tokens":95,"total_tokens":374,"completion_tokens_details":{"reasoning_tokens":89}}"#;
        assert_eq!(read(within), (279, 95, 0, 0, 89));
    }

    /// mozilla-ai/any-llm#1290: what Gemini thought is in the total alone.
    #[test]
    fn what_only_the_total_knows_was_thought() {
        assert_eq!(read(r#"{"prompt_tokens":20,"completion_tokens":198,"total_tokens":623}"#), (20, 603, 0, 0, 405));
    }

    /// Portkey-AI/gateway#1754; genkit-ai/genkit#5412; BerriAI/litellm#26919.
    #[test]
    fn anthropics_cache_counts_as_input_once() {
        let beside =
            r#"{"input_tokens":7,"output_tokens":3,"cache_read_input_tokens":9000,"cache_creation_input_tokens":500}"#;
        assert_eq!(read(beside), (9_507, 3, 9_000, 500, 0));
        let only_in_the_total = r#"{"prompt_tokens":7,"completion_tokens":3,"total_tokens":9510,"cache_read_input_tokens":9000,"cache_creation_input_tokens":500}"#;
        assert_eq!(read(only_in_the_total), (9_507, 3, 9_000, 500, 0));
        let within = r#"{"prompt_tokens":9507,"completion_tokens":3,"total_tokens":9510,"cache_read_input_tokens":9000,"cache_creation_input_tokens":500}"#;
        assert_eq!(read(within), (9_507, 3, 9_000, 500, 0));
        let adapter = r#"{"prompt_tokens":9507,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":9000,"cache_creation_tokens":500}}"#;
        assert_eq!(read(adapter), (9_507, 3, 9_000, 500, 0));
    }

    #[test]
    fn other_servers_words_for_the_cache_are_read() {
        let deepseek = r#"{"prompt_tokens":30,"completion_tokens":1,"total_tokens":31,"prompt_cache_hit_tokens":20,"prompt_cache_miss_tokens":10}"#;
        assert_eq!(read(deepseek), (30, 1, 20, 0, 0));
        let moonshot = r#"{"prompt_tokens":30,"completion_tokens":1,"total_tokens":31,"cached_tokens":8}"#;
        assert_eq!(read(moonshot), (30, 1, 8, 0, 0));
    }

    /// mcp-use/mcp-use#2127: a later report that leaves the input out does not erase it.
    #[test]
    fn of_several_reports_the_last_counts_and_erases_nothing() {
        let of = |prompt_tokens, cached_tokens, completion_tokens| Usage {
            prompt_tokens,
            cached_tokens,
            completion_tokens,
            ..Usage::default()
        };
        assert_eq!(of(10, 0, 3).after(Some(of(10, 4, 2))), of(10, 0, 3));
        assert_eq!(of(0, 0, 5).after(Some(of(10, 4, 0))), of(10, 4, 5));
        assert_eq!(of(0, 0, 0).after(Some(of(10, 4, 7))), of(10, 4, 7));
        assert_eq!(of(1, 0, 0).after(None), of(1, 0, 0));
    }

    #[test]
    fn a_total_that_is_too_small_changes_nothing() {
        assert_eq!(read(r#"{"prompt_tokens":20,"completion_tokens":19,"total_tokens":3}"#), (20, 19, 0, 0, 0));
        assert_eq!(read(r#"{"prompt_tokens":20,"completion_tokens":19,"total_tokens":0}"#), (20, 19, 0, 0, 0));
    }

    #[test]
    fn what_counts_nothing_is_no_usage() {
        for text in ["null", "{}", "[]", "", r#"{"prompt_tokens":null}"#, r#"{"prompt_tokens":-3}"#, r#"{"cost":1}"#] {
            assert_eq!(Usage::read(text), None, "{text}");
        }
    }
}
