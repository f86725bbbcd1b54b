//! Answers requests of OpenAI's responses: the same answers as to chat, in their objects and events.
//!
//! What it answered it keeps, unless the request says `"store": false`: a later request may go on from it, and it can be read and deleted.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};

use super::ask::{Answer, Ask};
use super::chat;
use super::record::Recorded;
use super::reply::Raw;
use super::sse::{Style, event};
use super::write::{CREATED, Writer, arguments};
use crate::wire::Dialect;

/// So many answers are kept; the oldest goes first.
const MAX_KEPT: usize = 256;

/// The answers that are kept.
#[derive(Debug, Default)]
pub(super) struct Kept(Mutex<VecDeque<Answered>>);

#[derive(Clone, Debug)]
struct Answered {
    id: String,
    notes: Vec<String>,
    prompt_tokens: u64,
    body: Value,
}

impl Kept {
    fn find(&self, id: &str) -> Option<Answered> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().find(|answered| answered.id == id).cloned()
    }

    fn add(&self, answered: Answered) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push_back(answered);
        if kept.len() > MAX_KEPT {
            kept.pop_front();
        }
    }

    fn remove(&self, id: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|answered| answered.id != id);
    }

    /// Reads or deletes an answer.
    pub(super) fn stored(&self, method: &Method, id: &str) -> Raw {
        let Some(answered) = self.find(id) else {
            return Raw::error(404, &format!("Response with id '{id}' not found."));
        };
        match *method {
            Method::GET => Raw::json(200, answered.body.to_string()),
            Method::DELETE => {
                self.remove(id);
                Raw::json(200, json!({"id": id, "object": "response", "deleted": true}).to_string())
            }
            _ => Raw::error(405, "a response is read or deleted"),
        }
    }
}

/// Answers a request; `fixed` replaces the text, `as_model` the name that chooses the behaviour.
pub(super) async fn reply(
    kept: &Kept,
    request: &Recorded,
    number: u64,
    fixed: Option<String>,
    as_model: Option<&str>,
) -> Raw {
    let mut ask = match Ask::read(Dialect::Responses, request) {
        Ok(ask) => ask,
        Err(message) => return Raw::error(400, &message),
    };
    if let Some(previous) = ask.previous.clone() {
        let Some(before) = kept.find(&previous) else {
            let message = format!("Previous response with id '{previous}' not found.");
            let error = json!({"message": message, "type": "invalid_request_error", "param": "previous_response_id",
                "code": "previous_response_not_found"});
            return Raw::json(400, json!({ "error": error }).to_string());
        };
        ask.goes_on_from(before.notes, before.prompt_tokens);
    }
    let (store, notes, prompt_tokens) = (ask.store, ask.notes().to_vec(), ask.prompt_tokens);
    let (raw, answer) = chat::answer(ask, number, fixed, as_model).await;
    if let Some(body) = answer.filter(|_| store) {
        kept.add(Answered { id: id_of(number), notes, prompt_tokens, body });
    }
    raw
}

fn id_of(number: u64) -> String {
    format!("resp_mock_{number}")
}

impl Writer<'_> {
    /// The whole object of a response.
    pub(super) fn response(&self) -> Value {
        self.object("completed", self.items().into())
    }

    /// The body of a reply that is not streamed.
    pub(super) fn response_body(&self) -> Raw {
        self.halved(Raw::json(200, self.response().to_string()))
    }

    /// The events of a reply that is streamed.
    pub(super) fn response_stream(&self) -> Raw {
        let mut events: Vec<(&str, Value)> = Vec::new();
        let begun = self.object("in_progress", json!([]));
        events.push(("response.created", json!({ "response": begun })));
        events.push(("response.in_progress", json!({ "response": begun })));
        // What comes before its first word says nothing either.
        let opening = events.len() + if matches!(self.answer, Answer::Text(_)) { 2 } else { 0 };
        for (at, item) in self.items().into_iter().enumerate() {
            self.item(at, &item, &mut events);
        }
        let content = events.len();
        events.push(("response.completed", json!({ "response": self.response() })));
        let style = self.style();
        let numbered = events.into_iter().enumerate();
        let mut pieces: Vec<Bytes> = numbered.map(|(number, (name, data))| named(name, number, data, style)).collect();
        if self.behaviour.malformed {
            pieces.insert(opening + 1, event(r#"{"type":"response.output_text.delta","#, style));
        }
        self.streamed(pieces, opening, content)
    }

    fn item(&self, at: usize, item: &Value, events: &mut Vec<(&'static str, Value)>) {
        let mut begun = item.clone();
        begun["status"] = "in_progress".into();
        match self.answer {
            Answer::Text(text) => {
                begun["content"] = json!([]);
                events.push(("response.output_item.added", json!({"output_index": at, "item": begun})));
                let place = json!({"item_id": item["id"], "output_index": at, "content_index": 0});
                let with = |more: Value| merged(&place, more);
                let part = |text: &str| json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []});
                events.push(("response.content_part.added", with(json!({"part": part("")}))));
                for word in text.split_inclusive(char::is_whitespace) {
                    events.push(("response.output_text.delta", with(json!({"delta": word, "logprobs": []}))));
                }
                events.push(("response.output_text.done", with(json!({"text": text, "logprobs": []}))));
                events.push(("response.content_part.done", with(json!({"part": part(text)}))));
            }
            Answer::Calls(names) => {
                begun["arguments"] = "".into();
                events.push(("response.output_item.added", json!({"output_index": at, "item": begun})));
                let place = json!({"item_id": item["id"], "output_index": at});
                for piece in arguments(names.len(), at) {
                    let piece = merged(&place, json!({ "delta": piece }));
                    events.push(("response.function_call_arguments.delta", piece));
                }
                let whole = merged(&place, json!({"name": item["name"], "arguments": item["arguments"]}));
                events.push(("response.function_call_arguments.done", whole));
            }
        }
        events.push(("response.output_item.done", json!({"output_index": at, "item": item})));
    }

    fn items(&self) -> Vec<Value> {
        match self.answer {
            Answer::Text(text) => {
                let part = json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []});
                let id = format!("msg_mock_{}", self.number);
                vec![json!({"id": id, "type": "message", "status": "completed", "role": "assistant", "content": [part]})]
            }
            Answer::Calls(names) => names
                .iter()
                .enumerate()
                .map(|(at, name)| {
                    let arguments = arguments(names.len(), at).concat();
                    json!({"id": format!("fc_mock_{}_{at}", self.number), "type": "function_call", "status": "completed",
                        "call_id": format!("call_mock_{}_{at}", self.number), "name": name, "arguments": arguments})
                })
                .collect(),
        }
    }

    fn object(&self, status: &str, output: Value) -> Value {
        let done = status == "completed" && !self.behaviour.no_usage;
        let (input, written) = (self.ask.prompt_tokens, self.n_pieces());
        let usage = json!({"input_tokens": input, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": written,
            "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": input + written});
        json!({
            "id": id_of(self.number), "object": "response", "created_at": CREATED, "status": status, "background": false,
            "error": null, "incomplete_details": null, "instructions": self.ask.member("instructions"),
            "max_output_tokens": self.ask.member("max_output_tokens"), "model": self.ask.model, "output": output,
            "parallel_tool_calls": true, "previous_response_id": self.ask.member("previous_response_id"),
            "store": self.ask.store, "tool_choice": "auto", "tools": self.ask.member("tools").as_array().unwrap_or(&Vec::new()),
            "metadata": {}, "usage": if done { usage } else { Value::Null },
        })
    }
}

/// An object with the members of another one behind its own.
fn merged(object: &Value, more: Value) -> Value {
    let mut object = object.clone();
    if let (Some(object), Value::Object(more)) = (object.as_object_mut(), more) {
        object.extend(more);
    }
    object
}

/// An event with its name, its type first in its data.
fn named(name: &str, number: usize, data: Value, style: Style) -> Bytes {
    let data = data.to_string();
    let data = format!(r#"{{"type":"{name}","sequence_number":{number},{}"#, &data[1..]);
    let line = format!("event:{}{name}{}", if style.space { " " } else { "" }, style.line_end.as_str());
    let bytes = event(&data, style);
    let at = bytes.windows(5).position(|window| window == b"data:").unwrap_or(0);
    Bytes::from([&bytes[..at], line.as_bytes(), &bytes[at..]].concat())
}

/// An error of the mock inside a stream.
pub(super) fn error_inside(error: &Value) -> Bytes {
    let data = json!({"code": error["code"], "message": error["message"], "param": null});
    named("error", 0, data, Style { space: true, ..Style::default() })
}
