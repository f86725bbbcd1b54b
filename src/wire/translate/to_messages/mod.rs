//! A chat-completions request as a request of Anthropic's Messages API (<https://docs.anthropic.com/en/api/messages>).
//!
//! Text, numbers and schemas are carried over as they are written. The API wants what OpenAI's does not: `max_tokens`, turns
//! that alternate and begin with the user's, results of tools first in theirs, no text that is blank.

mod content;
mod params;
mod tools;
mod turns;

use super::json;
use super::losses::{Losses, Refusal, Translated, Untranslatable};
use crate::wire::ChatRequest;
use turns::Conversation;

/// What a translation depends on beside the request.
#[derive(Clone, Copy, Debug)]
pub struct ToMessages {
    /// What is done with what cannot be carried over.
    pub untranslatable: Untranslatable,
    /// `max_tokens` of a request that names no limit, in tokens.
    pub max_tokens: u64,
}

/// Translates a chat request.
///
/// # Errors
/// Something that cannot be carried over and must not be left out: content of an unknown kind, several choices, a tool that is no
/// function; with [`Untranslatable::Refuse`] any member that has no counterpart.
pub fn to_messages(request: &ChatRequest, how: ToMessages) -> Result<Translated, Refusal> {
    let mut losses = Losses::new(how.untranslatable, "Anthropic's Messages API");
    let conversation = Conversation::read(request, &mut losses);
    let mut out = String::with_capacity(request.text().len() + 512);
    json::object(&mut out, |body| {
        body.raw("model", request.get("model").unwrap_or(r#""""#));
        params::write(body, request, how.max_tokens, &mut losses);
        tools::write(body, request, &mut losses);
        conversation.write(body);
    });
    losses.settle(out)
}
