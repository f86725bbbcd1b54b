//! The look at a stream before its reply is committed to the client.

use super::books::is_done;
use crate::wire::UpstreamError;
use crate::wire::delta::{is_filled, says_something};
use crate::wire::fault::upstream_error;
use crate::wire::scan::{self, Span};
use crate::wire::sse::SseParser;
use crate::wire::text::decode_lossy;

/// What a stream begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FirstEvent {
    /// No event with data has ended yet.
    NeedMore,
    /// Only events without content came: a role, an empty text, no choices.
    RoleOnly,
    /// There is content: text, a refusal, a tool call, a finish reason.
    Content,
    /// Upstream reports an error inside a 200.
    Error(UpstreamError),
    /// `[DONE]` came before any content.
    Done,
    /// Data that is no chat chunk: another API, or no JSON.
    Other,
}

/// Returns what the stream begins with, given all its bytes so far. Comments and events without data do not count.
#[must_use]
pub fn first_event(bytes: &[u8]) -> FirstEvent {
    let mut parser = SseParser::new();
    let mut rest = bytes;
    let mut first = FirstEvent::NeedMore;
    while let Some(event) = parser.next(&mut rest) {
        let Some(data) = event.data else { continue };
        match classify(data) {
            FirstEvent::RoleOnly => first = FirstEvent::RoleOnly,
            decided => return decided,
        }
    }
    first
}

fn classify(data: &[u8]) -> FirstEvent {
    if is_done(data) {
        return FirstEvent::Done;
    }
    let Ok(text) = std::str::from_utf8(data) else {
        return FirstEvent::Other;
    };
    if scan::validate(text).is_err() {
        return FirstEvent::Other;
    }
    if let Some(error) = upstream_error(text) {
        return FirstEvent::Error(error);
    }
    let whole = Span::new(0, text.len());
    match scan::member(text, whole, "choices") {
        None => of_response(text, whole),
        Some(choices) if scan::elements(text, choices).any(|c| has_content(text, c)) => FirstEvent::Content,
        Some(_) => FirstEvent::RoleOnly,
    }
}

/// An event of Anthropic's messages: a block that begins with nothing in it says nothing yet.
fn of_message(kind: Option<&str>, text: &str, event: Span) -> FirstEvent {
    match kind {
        Some("message_start" | "ping" | "content_block_stop") => FirstEvent::RoleOnly,
        Some("content_block_start") => {
            let block = scan::member(text, event, "content_block").unwrap_or_default();
            let begins = |key| scan::member(text, block, key).is_some_and(|span| is_filled(span.of(text)));
            // Text and thinking come in pieces; a call is named at once.
            let has_begun = ["text", "thinking", "id", "data"].into_iter().any(begins);
            if has_begun { FirstEvent::Content } else { FirstEvent::RoleOnly }
        }
        Some("content_block_delta" | "message_delta") => FirstEvent::Content,
        Some("message_stop") => FirstEvent::Done,
        _ => FirstEvent::Other,
    }
}

/// An event of OpenAI's responses: those that only say that it was taken on hold nothing.
fn of_response(text: &str, whole: Span) -> FirstEvent {
    match scan::member(text, whole, "type").map(|kind| kind.of(text).trim_matches('"')) {
        Some("response.created" | "response.queued" | "response.in_progress") => FirstEvent::RoleOnly,
        Some("error") => FirstEvent::Error(said(text, whole)),
        Some("response.failed") => {
            let error = scan::member(text, whole, "response").and_then(|it| scan::member(text, it, "error"));
            FirstEvent::Error(error.map(|error| said(text, error)).unwrap_or_default())
        }
        Some(kind) if kind.starts_with("response.") => FirstEvent::Content,
        kind => of_message(kind, text, whole),
    }
}

fn said(text: &str, error: Span) -> UpstreamError {
    let word = |key| {
        let literal = scan::member(text, error, key)?.of(text);
        literal.starts_with('"').then(|| decode_lossy(literal).into_owned())
    };
    UpstreamError { message: word("message").unwrap_or_default(), kind: word("type"), code: word("code") }
}

fn has_content(text: &str, choice: Span) -> bool {
    scan::members(text, choice).any(|member| match member.key.of(text) {
        "finish_reason" => member.value.of(text) != "null",
        "text" => is_filled(member.value.of(text)),
        "delta" => says_something(text, member.value),
        _ => false,
    })
}
