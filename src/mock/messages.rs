//! Puts an answer into a body or a stream in Anthropic's dialect.

use bytes::Bytes;
use serde_json::{Value, json};

use super::ask::{Answer, Ask};
use super::chat;
use super::record::Recorded;
use super::reply::Raw;
use super::sse::named_event;
use super::write::{Writer, arguments};
use crate::wire::Dialect;

/// Answers a request; `fixed` replaces the text, `as_model` the name that chooses the behaviour.
pub(super) async fn reply(request: &Recorded, number: u64, fixed: Option<String>, as_model: Option<&str>) -> Raw {
    match Ask::read(Dialect::Messages, request) {
        Ok(ask) => chat::answer(ask, number, fixed, as_model).await.0,
        Err(message) => error(400, &message),
    }
}

impl Writer<'_> {
    /// The whole message.
    pub(super) fn message_body(&self) -> Raw {
        let content: Vec<Value> = match self.answer {
            Answer::Text(text) => vec![json!({"type": "text", "text": text})],
            Answer::Calls(names) => names
                .iter()
                .enumerate()
                .map(|(at, name)| {
                    let input: Value =
                        serde_json::from_str(&arguments(names.len(), at).concat()).expect("written by us");
                    json!({"type": "tool_use", "id": self.tool_id(at), "name": name, "input": input})
                })
                .collect(),
        };
        let mut message = self.opening(self.n_pieces());
        message["content"] = content.into();
        message["stop_reason"] = self.reason().into();
        if self.behaviour.no_usage {
            message.as_object_mut().expect("written by us").remove("usage");
        }
        self.halved(Raw::json(200, message.to_string()))
    }

    /// The events of a stream.
    pub(super) fn message_stream(&self) -> Raw {
        let style = self.style();
        let mut pieces = Vec::new();
        let mut add = |data: Value| {
            let name = data["type"].as_str().unwrap_or_default().to_owned();
            pieces.push(named_event(&name, &data.to_string(), style));
        };
        let begin =
            |index: usize, block: Value| json!({"type": "content_block_start", "index": index, "content_block": block});
        let delta = |index: usize, delta: Value| json!({"type": "content_block_delta", "index": index, "delta": delta});
        let stop = |index: usize| json!({"type": "content_block_stop", "index": index});
        let mut message = self.opening(1);
        message["content"] = json!([]);
        if self.behaviour.no_usage {
            message.as_object_mut().expect("written by us").remove("usage");
        }
        add(json!({"type": "message_start", "message": message}));
        add(json!({"type": "ping"}));
        let (opening, content);
        match self.answer {
            Answer::Text(text) => {
                add(begin(0, json!({"type": "text", "text": ""})));
                opening = 3;
                let words: Vec<&str> = text.split_inclusive(char::is_whitespace).collect();
                content = opening + words.len();
                for word in words {
                    add(delta(0, json!({"type": "text_delta", "text": word})));
                }
                add(stop(0));
            }
            Answer::Calls(names) => {
                opening = 2;
                for (at, name) in names.iter().enumerate() {
                    add(begin(at, json!({"type": "tool_use", "id": self.tool_id(at), "name": name, "input": {}})));
                    for piece in arguments(names.len(), at) {
                        add(delta(at, json!({"type": "input_json_delta", "partial_json": piece})));
                    }
                    add(stop(at));
                }
                content = opening
                    + names.iter().enumerate().map(|(at, _)| arguments(names.len(), at).len() + 2).sum::<usize>();
            }
        }
        let mut end = json!({"type": "message_delta", "delta": {"stop_reason": self.reason(), "stop_sequence": null}});
        if !self.behaviour.no_usage {
            end["usage"] = json!({"output_tokens": self.n_pieces()});
        }
        add(end);
        if !self.behaviour.no_done {
            add(json!({"type": "message_stop"}));
        }
        if self.behaviour.malformed {
            pieces.insert(
                opening + 1,
                named_event("content_block_delta", r#"{"type":"content_block_delta","delta":{"#, style),
            );
            return self.streamed(pieces, opening, content + 1);
        }
        self.streamed(pieces, opening, content)
    }

    /// What a message says of itself when it begins.
    fn opening(&self, output_tokens: u64) -> Value {
        json!({
            "id": format!("msg_mock_{}", self.number), "type": "message", "role": "assistant", "model": self.ask.model,
            "stop_reason": null, "stop_sequence": null,
            "usage": {
                "input_tokens": self.ask.prompt_tokens, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0,
                "output_tokens": output_tokens
            }
        })
    }

    fn reason(&self) -> &'static str {
        match self.answer {
            Answer::Text(_) => "end_turn",
            Answer::Calls(_) => "tool_use",
        }
    }

    fn tool_id(&self, at: usize) -> String {
        format!("toolu_mock_{}_{at}", self.number)
    }
}

/// An error in Anthropic's shape.
fn error(status: u16, message: &str) -> Raw {
    let mut reply = Raw::json(status, object(status, message).to_string());
    if status == 429 {
        reply.headers.push(("retry-after", "1".to_owned()));
    }
    reply
}

/// A failure of this status; of 200, an error inside the reply.
pub(super) fn failure(status: u16, message: &str, stream: bool) -> Raw {
    match (status, stream) {
        (200, true) => Raw::stream([Bytes::from(format!("event: error\ndata: {}\n\n", object(500, message)))]),
        (200, false) => Raw::json(200, object(500, message).to_string()),
        _ => error(status, message),
    }
}

/// In Anthropic's words.
pub(super) fn too_large(window: u64, tokens: u64) -> Raw {
    error(400, &format!("prompt is too long: {tokens} tokens > {window} maximum"))
}

fn object(status: u16, message: &str) -> Value {
    let kind = match status {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        529 => "overloaded_error",
        400..=499 => "invalid_request_error",
        _ => "api_error",
    };
    json!({"type": "error", "error": {"type": kind, "message": message}})
}
