//! OpenAI's responses as a conversation.
//!
//! What goes in is a text, or a list of *items*: messages, and beside them what the model did and what came of it (reasoning,
//! calls, their outputs), each an item of its own. Here an item is a [`Message`]: what the model wrote is the assistant's, an
//! output is a tool's result, and what is of no known kind stays as it is.
//!
//! Source: OpenAI's API reference, "Create a model response" (as of 2025-10), and what the Codex CLI sends.

use std::borrow::Cow;

use super::chat::{ChatRequest, DecodeError, View, fault};
use super::dialect::Dialect;
use super::message::{Content, Message, Role};
use super::scan::{self, Span};
use super::text::decode_lossy;

/// Reads the messages. What the client has in `instructions` is the first of them; a text in `input` is one message of the user.
///
/// Both may be absent: `prompt` names a prompt that upstream keeps, `previous_response_id` and `conversation` what was said before.
pub(super) fn view(text: &str, instructions: Option<Span>, input: Option<Span>) -> Result<View, DecodeError> {
    let is_there = |span: &Span| span.of(text) != "null";
    let mut view = View { array: input.unwrap_or_default(), messages: Vec::new() };
    if let Some(span) = instructions.filter(is_there) {
        view.messages.push(Message::new(span, Role::System, Content::read(text, span)));
    }
    let Some(input) = input.filter(is_there) else {
        return Ok(view);
    };
    match Content::read(text, input) {
        content @ Content::Text(_) => view.messages.push(Message::new(input, Role::User, content)),
        Content::Parts(_) => {
            for (i, span) in scan::elements(text, input).enumerate() {
                let mut item = item(text, span).ok_or_else(|| fault(format!("input[{i}]"), "must be an object"))?;
                let is_models = |message: &Message| message.role == Role::Assistant;
                item.goes_on = is_models(&item) && view.messages.last().is_some_and(is_models);
                view.messages.push(item);
            }
        }
        _ => return Err(fault("input", "must be a string or an array of items")),
    }
    Ok(view)
}

/// Reads the item under `span`; `None` when it is no object.
fn item(text: &str, span: Span) -> Option<Message> {
    if !span.of(text).starts_with('{') {
        return None;
    }
    let (mut kind, mut role, mut content, mut output, mut call_id, mut approves) = (None, None, None, None, None, None);
    for member in scan::members(text, span) {
        let place = match member.key.of(text) {
            "type" => &mut kind,
            "role" => &mut role,
            "content" => &mut content,
            "output" => &mut output,
            "call_id" => &mut call_id,
            "approval_request_id" => &mut approves,
            _ => continue,
        };
        *place = Some(member.value);
    }
    let written = |span: Option<Span>| span.map_or(Content::Absent, |span| Content::read(text, span));
    let whole = |role| Message { item: Some(span), ..Message::new(span, role, Content::Absent) };
    let literal = |span: Option<Span>| span.map(|span| span.of(text)).filter(|literal| literal.starts_with('"'));
    let kind = match literal(kind) {
        Some(literal) => literal.trim_matches('"'),
        // Messages are known by their role where the type is left out; what has neither is a reference.
        None if role.is_some() => "message",
        None => "item_reference",
    };
    Some(match kind {
        "message" => Message::new(span, role.map_or(Role::Other, |role| Role::parse(role.of(text))), written(content)),
        "function_call" | "custom_tool_call" => {
            Message { function_call: Some(span), ..Message::new(span, Role::Assistant, Content::Absent) }
        }
        "function_call_output" | "custom_tool_call_output" => {
            Message { tool_call_id: call_id, ..Message::new(span, Role::Tool, written(output)) }
        }
        "mcp_approval_request" => Message { function_call: Some(span), ..whole(Role::Assistant) },
        "mcp_approval_response" => Message { tool_call_id: approves, ..whole(Role::Tool) },
        // What stands for all that was said before it: it is not the oldest turn, however old it is.
        "compaction" | "compaction_summary" | "context_compaction" => whole(Role::Developer),
        "reasoning" | "mcp_list_tools" => whole(Role::Assistant),
        // Computer, shell, patch and what comes next year.
        _ if kind.ends_with("_output") => {
            Message { tool_call_id: call_id, ..Message::new(span, Role::Tool, written(output)) }
        }
        // Calls that upstream makes itself have no `call_id`: nobody answers them.
        _ if kind.ends_with("_call") => Message { function_call: call_id.map(|_| span), ..whole(Role::Assistant) },
        _ => whole(Role::Other),
    })
}

/// What upstream keeps of a conversation, so that the client does not send it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kept<'a> {
    /// All up to this response: `previous_response_id`.
    Response(Cow<'a, str>),
    /// All up to now: `conversation`.
    Conversation(Cow<'a, str>),
}

impl ChatRequest {
    /// What of the conversation upstream keeps, where the client does not send it all.
    #[must_use]
    pub fn kept_upstream(&self) -> Option<Kept<'_>> {
        if self.dialect() != Dialect::Responses {
            return None;
        }
        let filled = |id: &Cow<'_, str>| !id.is_empty();
        let response = self.get_string("previous_response_id").filter(filled).map(Kept::Response);
        let conversation = || {
            self.get_string("conversation")
                .or_else(|| self.get_nested("conversation", "id").filter(|id| id.starts_with('"')).map(decode_lossy))
        };
        response.or_else(|| conversation().filter(filled).map(Kept::Conversation))
    }

    /// The member by which a request brings in what it does not hold, so that it cannot be counted.
    #[must_use]
    pub fn partial(&self) -> Option<&'static str> {
        if self.dialect() != Dialect::Responses {
            return None;
        }
        let has = |name: &str| self.get(name).is_some_and(|value| value != "null");
        match self.kept_upstream() {
            Some(Kept::Response(_)) => Some("previous_response_id"),
            Some(Kept::Conversation(_)) => Some("conversation"),
            None if has("prompt") => Some("prompt"),
            None => self.references().next().map(|_| "item_reference"),
        }
    }

    /// The ids of the items that a request only refers to.
    pub fn references(&self) -> impl Iterator<Item = Cow<'_, str>> {
        let text = self.text();
        let of_responses = self.dialect() == Dialect::Responses;
        let unknown = self.messages().iter().filter(move |message| of_responses && message.role == Role::Other);
        unknown.filter_map(move |message| {
            let get = |key| scan::member(text, message.item?, key).map(|span| span.of(text));
            let kind = get("type").filter(|kind| *kind != "null");
            let refers = kind.is_none_or(|kind| kind == r#""item_reference""#);
            get("id").filter(|id| refers && id.starts_with('"')).map(decode_lossy)
        })
    }
}

#[cfg(test)]
mod tests;
