//! What a reply cost: Anthropic counts what came from its cache beside the input, OpenAI within it.

use crate::wire::translate::json::Object;
use crate::wire::translate::value::Value;

/// Counts as they were told, the newest holding.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    input: u64,
    output: u64,
    cache_read: u64,
    cache_written: u64,
}

impl Counts {
    /// Takes in a `usage` object: running totals, of which an event may tell only some.
    pub(super) fn told(&mut self, usage: Value<'_>) {
        for (key, value) in usage.members() {
            let Ok(count) = value.literal().parse() else { continue };
            match key {
                "input_tokens" => self.input = count,
                "output_tokens" => self.output = count,
                "cache_read_input_tokens" => self.cache_read = count,
                "cache_creation_input_tokens" => self.cache_written = count,
                _ => {}
            }
        }
    }

    /// Writes OpenAI's `usage`.
    pub(super) fn write(self, out: &mut Object<'_>) {
        let prompt = self.input.saturating_add(self.cache_read).saturating_add(self.cache_written);
        out.object("usage", |usage| {
            usage.number("prompt_tokens", prompt);
            usage.number("completion_tokens", self.output);
            usage.number("total_tokens", prompt.saturating_add(self.output));
            usage.object("prompt_tokens_details", |details| {
                details.number("cached_tokens", self.cache_read);
                details.number("cache_write_tokens", self.cache_written);
            });
        });
    }
}
