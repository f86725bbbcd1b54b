//! Messages as turns that alternate, and what instructs the model apart from them.

use std::borrow::Cow;

use super::content::{Place, part, text_block, trimmed};
use crate::wire::translate::json::{Array, Object};
use crate::wire::translate::losses::Losses;
use crate::wire::translate::value::Value;
use crate::wire::{ChatRequest, Content, Message, Role, scan};

/// What the user says before an assistant that speaks first: the API wants the first word to be the user's, and no blank one.
const OPENING: &str = r#"{"type":"text","text":"."}"#;

/// A conversation as it is sent.
#[derive(Default)]
pub(super) struct Conversation {
    /// Text blocks.
    system: String,
    turns: Vec<Turn>,
    /// The id that stands for the newest `function_call`, which has none.
    function_call: String,
}

/// Messages in a row by one side.
struct Turn {
    assistant: bool,
    /// Results of tools, which go before all else in a user's turn.
    results: String,
    blocks: String,
}

impl Turn {
    /// Takes in what the next turn of the same side says.
    fn takes(&mut self, later: &Self) -> bool {
        for (own, more) in [(&mut self.results, &later.results), (&mut self.blocks, &later.blocks)] {
            if !more.is_empty() {
                Array::behind(own).raw(more);
            }
        }
        true
    }
}

impl Conversation {
    pub(super) fn read(request: &ChatRequest, losses: &mut Losses) -> Self {
        let mut conversation = Self::default();
        let messages = request.messages();
        for (at, message) in messages.iter().enumerate() {
            let is_last = at + 1 == messages.len();
            conversation.message(request.text(), at, message, is_last, losses);
        }
        // A message that says nothing leaves no turn, and what stood around it becomes one.
        conversation.turns.retain(|turn| !turn.results.is_empty() || !turn.blocks.is_empty());
        conversation.turns.dedup_by(|later, earlier| later.assistant == earlier.assistant && earlier.takes(later));
        if conversation.turns.is_empty() {
            losses.refuse("messages", "must hold a message of the user that says something");
        }
        conversation
    }

    /// Writes `system` and `messages`.
    pub(super) fn write(&self, body: &mut Object<'_>) {
        if !self.system.is_empty() {
            body.array("system", |blocks| blocks.raw(&self.system));
        }
        body.array("messages", |messages| {
            if self.turns.first().is_some_and(|turn| turn.assistant) {
                messages.object(|message| {
                    message.raw("role", r#""user""#);
                    message.array("content", |blocks| blocks.raw(OPENING));
                });
            }
            for turn in &self.turns {
                messages.object(|message| {
                    message.text("role", if turn.assistant { "assistant" } else { "user" });
                    message.array("content", |blocks| {
                        for part in [&turn.results, &turn.blocks] {
                            if !part.is_empty() {
                                blocks.raw(part);
                            }
                        }
                    });
                });
            }
        });
    }

    fn message(&mut self, text: &str, at: usize, message: &Message, is_last: bool, losses: &mut Losses) {
        if message.name.is_some() && message.role != Role::Function {
            losses.lose("messages.name");
        }
        let own = Value::at(text, message.span);
        match message.role {
            Role::System | Role::Developer => {
                content(&mut Array::behind(&mut self.system), text, at, message, losses);
            }
            Role::User => {
                content(&mut Array::behind(&mut self.turn(false).blocks), text, at, message, losses);
            }
            Role::Assistant => self.assistant(text, at, message, is_last, losses),
            Role::Tool => {
                let id = own.get_string("tool_call_id").unwrap_or_default();
                self.result(&plain_id(&id), text, at, message, losses);
            }
            Role::Function => {
                let id = self.function_call.clone();
                self.result(&id, text, at, message, losses);
            }
            Role::Other => losses.refuse(format!("messages[{at}].role"), "is not one that this target knows"),
        }
    }

    fn assistant(&mut self, text: &str, at: usize, message: &Message, is_last: bool, losses: &mut Losses) {
        let own = Value::at(text, message.span);
        let turn = self.turn(true);
        let mut blocks = Array::behind(&mut turn.blocks);
        // As this gateway gave them: signed, so not a byte may change.
        for block in own.get("thinking_blocks").into_iter().flat_map(Value::elements).filter(|block| block.is_object())
        {
            blocks.raw(block.literal());
        }
        match message.content {
            Content::Text(span) if is_last && !message.calls_tools() => {
                let literal = trimmed(Value::at(text, span));
                text_block(&mut blocks, Value::whole(&literal), own.get("cache_control"));
            }
            _ => content(&mut blocks, text, at, message, losses),
        }
        if let Some(refusal) = message.refusal {
            text_block(&mut blocks, Value::at(text, refusal), None);
        }
        for call in own.get("tool_calls").into_iter().flat_map(Value::elements) {
            let (function, arguments) = match call.get("custom") {
                Some(custom) => (custom, "input"),
                None => (call.get("function").unwrap_or(call), "arguments"),
            };
            let id = call.get_string("id").unwrap_or_default();
            tool_use(&mut blocks, &plain_id(&id), function, arguments, call.get("cache_control"));
        }
        if let Some(call) = own.get("function_call") {
            let id = format!("function_call_{at}");
            tool_use(&mut blocks, &id, call, "arguments", None);
            self.function_call = id;
        }
    }

    fn result(&mut self, id: &str, text: &str, at: usize, message: &Message, losses: &mut Losses) {
        let cache_control = Value::at(text, message.span).get("cache_control");
        Array::behind(&mut self.turn(false).results).object(|block| {
            block.raw("type", r#""tool_result""#);
            block.text("tool_use_id", id);
            match message.content {
                Content::Text(span) => block.raw("content", span.of(text)),
                Content::Parts(span) => block.array("content", |blocks| {
                    for (n, element) in scan::elements(text, span).enumerate() {
                        part(blocks, Value::at(text, element), None, Place { message: at, part: n }, losses);
                    }
                }),
                Content::Absent | Content::Null(_) => {}
                Content::Other(_) => losses.refuse(format!("messages[{at}].content"), "must be a string or an array"),
            }
            block.raw_if("cache_control", cache_control.map(Value::literal));
        });
    }

    /// The turn that is being written, or a new one when the other side speaks.
    fn turn(&mut self, assistant: bool) -> &mut Turn {
        if self.turns.last().is_none_or(|turn| turn.assistant != assistant) {
            self.turns.push(Turn { assistant, results: String::new(), blocks: String::new() });
        }
        self.turns.last_mut().expect("one was pushed where there was none")
    }
}

/// Writes what a message says.
fn content(blocks: &mut Array<'_>, text: &str, at: usize, message: &Message, losses: &mut Losses) {
    // On the message itself it marks the end of the message.
    let own = Value::at(text, message.span).get("cache_control");
    match message.content {
        Content::Text(span) => text_block(blocks, Value::at(text, span), own),
        Content::Parts(span) => {
            let mut parts = scan::elements(text, span).enumerate().peekable();
            while let Some((n, element)) = parts.next() {
                let mark = own.filter(|_| parts.peek().is_none());
                part(blocks, Value::at(text, element), mark, Place { message: at, part: n }, losses);
            }
        }
        Content::Absent | Content::Null(_) => {}
        Content::Other(_) => losses.refuse(format!("messages[{at}].content"), "must be a string or an array"),
    }
}

fn tool_use(blocks: &mut Array<'_>, id: &str, function: Value<'_>, arguments: &str, cache_control: Option<Value<'_>>) {
    blocks.object(|block| {
        block.raw("type", r#""tool_use""#);
        block.text("id", id);
        block.raw("name", function.get("name").map_or(r#""""#, Value::literal));
        let said = function.get_string(arguments).unwrap_or_default();
        if said.trim().is_empty() {
            block.raw("input", "{}");
        } else if said.trim_start().starts_with('{') && scan::validate(&said).is_ok() {
            block.raw("input", said.trim());
        } else {
            // A model wrote what is no object, as models do; the conversation has to go on with it.
            block.object("input", |input| input.text(arguments, &said));
        }
        block.raw_if("cache_control", cache_control.map(Value::literal));
    });
}

/// An id of letters, digits, `_` and `-`: the API takes no others, and some servers make them with dots and colons.
fn plain_id(id: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    match id.chars().all(is_plain) {
        true => Cow::Borrowed(id),
        false => Cow::Owned(id.chars().map(|c| if is_plain(c) { c } else { '_' }).collect()),
    }
}
