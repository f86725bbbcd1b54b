//! What a reply cost: OpenAI counts what came from its cache within the input, Anthropic beside it.

use crate::wire::Usage;
use crate::wire::translate::json::Object;

/// Writes Anthropic's `usage`.
pub(super) fn write(out: &mut Object<'_>, usage: Usage) {
    let cached = usage.cached_tokens.saturating_add(usage.cache_write_tokens);
    out.object("usage", |out| {
        out.number("input_tokens", usage.prompt_tokens.saturating_sub(cached));
        out.number("cache_creation_input_tokens", usage.cache_write_tokens);
        out.number("cache_read_input_tokens", usage.cached_tokens);
        out.number("output_tokens", usage.completion_tokens);
    });
}
