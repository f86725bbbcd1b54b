//! Puts a reply of OpenAI's responses together, from its events or from the whole object.
//!
//! Source: OpenAI's API reference, "Streaming events" of responses (as of 2025-10). The reply is one choice: the words of all its
//! messages, and its calls by their place in the output. What is not read (reasoning, calls that upstream makes itself, and what
//! comes next year) is counted as an event where it says something.

use std::borrow::Cow;

use super::call::CallPiece;
use super::{Accumulator, Field, MAX_ITEMS, Seen, short_text, whole};
use crate::wire::scan::{self, Span};
use crate::wire::text::decode_lossy;
use crate::wire::usage::Usage;

/// The members of an event that someone reads, as literals.
#[derive(Default)]
struct Event<'a> {
    kind: Cow<'a, str>,
    delta: Option<&'a str>,
    place: Option<u64>,
    item: Option<Span>,
    response: Option<Span>,
    error: Option<Span>,
}

impl<'a> Event<'a> {
    fn read(text: &'a str) -> Self {
        let mut event = Self::default();
        for member in scan::members(text, whole(text)) {
            let value = member.value.of(text);
            match member.key.of(text) {
                "type" if value.starts_with('"') => event.kind = decode_lossy(value),
                "delta" if value.starts_with('"') => event.delta = Some(value),
                "output_index" => event.place = value.parse().ok(),
                "item" if value.starts_with('{') => event.item = Some(member.value),
                "response" if value.starts_with('{') => event.response = Some(member.value),
                "error" if value.starts_with('{') => event.error = Some(member.value),
                _ => {}
            }
        }
        event
    }
}

impl Accumulator {
    /// Takes the data of one event.
    pub(super) fn event_of_response(&mut self, text: &str) -> Seen {
        // Nearly every event of a stream whose text nobody keeps ends here.
        if !self.collect && self.chat && text.starts_with(r#"{"type":"response.output_text.delta","#) {
            self.reply.events += 1;
            return Seen { chat: true, ..Seen::default() };
        }
        if is_no_object(text) {
            self.malformed += u64::from(!text.trim_ascii().is_empty());
            return Seen { malformed: !text.trim_ascii().is_empty(), ..Seen::default() };
        }
        let event = Event::read(text);
        let mut seen = Seen {
            chat: event.kind.starts_with("response."),
            error: event.kind == "error" || event.error.is_some(),
            end: self.dialect.is_last_event(&event.kind),
            ..Seen::default()
        };
        if let Some(delta) = event.delta.filter(|delta| delta.len() > 2) {
            self.reply.events += 1;
            if self.collect {
                self.delta(&event, delta);
            }
        }
        match (event.response, event.item) {
            (Some(response), _) => seen = Seen { chat: true, ..self.response(text, response, seen) },
            (None, Some(item)) => self.item(text, item, event.place, event.kind == "response.output_item.added"),
            (None, None) => {}
        }
        self.chat |= seen.chat;
        self.error |= seen.error;
        seen
    }

    /// Takes a whole reply that was not streamed.
    pub(super) fn whole_response(&mut self, text: &str) -> Seen {
        if is_no_object(text) {
            self.malformed += 1;
            return Seen { malformed: true, ..Seen::default() };
        }
        let mut seen = self.response(text, whole(text), Seen { end: true, ..Seen::default() });
        seen.chat = scan::member(text, whole(text), "output").is_some();
        let says = self.reply.choices.first().is_some_and(|choice| {
            !(choice.text.is_empty() && choice.refusal.is_empty() && choice.tool_calls.is_empty())
        });
        self.reply.events += u64::from(says);
        self.chat |= seen.chat;
        self.error |= seen.error;
        seen
    }

    fn delta(&mut self, event: &Event<'_>, delta: &str) {
        let Some(at) = self.slot(0) else { return };
        let piece = decode_lossy(delta);
        match &*event.kind {
            "response.output_text.delta" => self.push(at, Field::Text, &piece),
            "response.refusal.delta" => self.push(at, Field::Refusal, &piece),
            "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta" => {
                let piece = CallPiece { index: event.place, arguments: piece, ..CallPiece::default() };
                self.call_piece(at, &piece);
            }
            _ => {}
        }
    }

    /// Reads the object of a response: as it begins, or as it is in the end.
    fn response(&mut self, text: &str, response: Span, seen: Seen) -> Seen {
        let mut seen = seen;
        let mut output = None;
        for member in scan::members(text, response) {
            let value = member.value.of(text);
            match member.key.of(text) {
                "id" if self.reply.id.is_none() => self.reply.id = short_text(value),
                "model" if self.reply.model.is_none() => self.reply.model = short_text(value),
                "usage" if value.starts_with('{') => {
                    seen.usage = true;
                    let later = Usage::read(value).map(|later| later.after(self.reply.usage));
                    self.reply.usage = later.or(self.reply.usage);
                }
                "error" => seen.error |= value.starts_with('{'),
                "status" if seen.end => self.finish(value),
                "output" => output = Some(member.value),
                _ => {}
            }
        }
        if let Some(output) = output.filter(|_| seen.end) {
            self.output(text, output);
        }
        seen
    }

    fn finish(&mut self, status: &str) {
        // A reply that is made in the background has not come with this.
        let ended = !matches!(status, r#""queued""# | r#""in_progress""#);
        if let Some(at) = self.slot(0).filter(|_| ended) {
            self.reply.choices[at].finish_reason = short_text(status);
        }
    }

    /// Reads what a response holds in the end; its texts only where none of them came before.
    fn output(&mut self, text: &str, output: Span) {
        let Some(at) = self.slot(0) else { return };
        let choice = &self.reply.choices[at];
        let came = !(choice.text.is_empty() && choice.refusal.is_empty() && choice.tool_calls.is_empty());
        for (place, item) in scan::elements(text, output).enumerate() {
            self.item(text, item, Some(place as u64), false);
            if came || !self.collect {
                continue;
            }
            match scan::member(text, item, "type").map(|kind| kind.of(text)) {
                Some(r#""message""#) => self.message_item(text, at, item),
                Some(r#""function_call""# | r#""custom_tool_call""#) => {
                    let piece = CallPiece { index: Some(place as u64), ..call(text, item) };
                    self.call_piece(at, &piece);
                }
                _ => {}
            }
        }
    }

    fn message_item(&mut self, text: &str, at: usize, item: Span) {
        for part in scan::elements(text, scan::member(text, item, "content").unwrap_or_default()) {
            for (key, field) in [("text", Field::Text), ("refusal", Field::Refusal)] {
                let literal = scan::member(text, part, key).map(|span| span.of(text));
                if let Some(literal) = literal.filter(|literal| literal.starts_with('"')) {
                    self.push(at, field, &decode_lossy(literal));
                }
            }
        }
    }

    /// Takes the name of an item, and what it calls where it begins.
    fn item(&mut self, text: &str, item: Span, place: Option<u64>, begins: bool) {
        let id = scan::member(text, item, "id").and_then(|id| short_text(id.of(text)));
        if let Some(id) = id.filter(|id| !id.is_empty() && !self.reply.items.contains(id)) {
            if self.reply.items.len() < MAX_ITEMS {
                self.reply.items.push(id);
            } else {
                self.reply.truncated = true;
            }
        }
        let kind = scan::member(text, item, "type").map(|kind| kind.of(text));
        let calls = matches!(kind, Some(r#""function_call""# | r#""custom_tool_call""#));
        if begins
            && calls
            && self.collect
            && let Some(at) = self.slot(0)
        {
            self.reply.events += 1;
            // Its arguments come with deltas: they are empty here.
            let piece = CallPiece { index: place, ..call(text, item) };
            self.call_piece(at, &piece);
        }
    }
}

/// Reads a call that is an item.
fn call(text: &str, item: Span) -> CallPiece<'_> {
    let id = scan::member(text, item, "call_id").map(|id| id.of(text)).filter(|id| id.starts_with('"'));
    CallPiece { id: id.map(decode_lossy).unwrap_or_default(), ..CallPiece::function(text, item) }
}

fn is_no_object(text: &str) -> bool {
    !text.trim_ascii_start().starts_with('{') || scan::validate(text).is_err()
}

#[cfg(test)]
mod tests;
