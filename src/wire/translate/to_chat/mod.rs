//! A request of Anthropic's Messages API as one of chat completions (<https://platform.openai.com/docs/api-reference/chat>).
//!
//! Breakpoints of the cache are left out without a word: servers of this API keep caches by themselves, and some refuse the member.
//! What a model thought is left out too, and told: it is signed for the model that thought it.

mod content;
mod params;
mod tools;
mod turns;

use super::json;
use super::losses::{Losses, Refusal, Translated, Untranslatable};
use crate::wire::ChatRequest;

/// What a translation depends on beside the request.
#[derive(Clone, Copy, Debug)]
pub struct ToChat {
    /// What is done with what cannot be carried over.
    pub untranslatable: Untranslatable,
    /// The limit of the output is called `max_completion_tokens`, as OpenAI's own servers want it; else `max_tokens`, which others know.
    pub completion_tokens: bool,
    /// A stream is asked to tell its usage.
    pub ask_usage: bool,
}

/// Translates a request of the Messages API.
///
/// # Errors
/// Something that cannot be carried over and must not be left out: content or a tool of a kind that has no counterpart, such as a tool
/// that the server runs itself; with [`Untranslatable::Refuse`] any member that has none.
pub fn to_chat(request: &ChatRequest, how: ToChat) -> Result<Translated, Refusal> {
    let mut losses = Losses::new(how.untranslatable, "chat completions");
    let mut out = String::with_capacity(request.text().len() + 512);
    json::object(&mut out, |body| {
        body.raw("model", request.get("model").unwrap_or(r#""""#));
        params::write(body, request, how, &mut losses);
        tools::write(body, request, &mut losses);
        body.array("messages", |messages| turns::write(messages, request, &mut losses));
    });
    losses.settle(out)
}
