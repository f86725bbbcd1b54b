//! Puts an answer into a body or a stream.

use bytes::{Bytes, BytesMut};
use serde_json::{Value, json};

use super::ask::{Answer, Ask};
use super::behaviour::{Behaviour, Stop};
use super::reply::{End, Raw};
use super::sse::{Style, event};
use crate::wire::encode_string;

/// `created` of everything: the mock has no clock.
pub(super) const CREATED: u64 = 1_750_000_000;

/// How many pieces with content come before a reply stops short.
const PIECES_BEFORE_STOP: usize = 3;

/// Puts an answer on the wire.
pub(super) struct Writer<'a> {
    pub(super) ask: &'a Ask,
    pub(super) behaviour: &'a Behaviour,
    pub(super) answer: &'a Answer,
    pub(super) number: u64,
}

impl Writer<'_> {
    pub(super) fn body(&self) -> Raw {
        let choices: Vec<Value> = (0..self.ask.choices)
            .map(|index| {
                let (message, finish) = match self.answer {
                    Answer::Text(text) => (json!({"role": "assistant", "content": text, "refusal": null}), "stop"),
                    Answer::Calls(names) => {
                        let calls: Vec<Value> = names
                            .iter()
                            .enumerate()
                            .map(|(i, name)| {
                                let function = json!({ "name": name, "arguments": arguments(names.len(), i).concat() });
                                json!({ "id": self.call_id(i), "type": "function", "function": function })
                            })
                            .collect();
                        (
                            json!({"role": "assistant", "content": null, "refusal": null, "tool_calls": calls}),
                            "tool_calls",
                        )
                    }
                };
                json!({ "index": index, "message": message, "logprobs": null, "finish_reason": finish })
            })
            .collect();
        let mut body = json!({
            "id": self.id(), "object": "chat.completion", "created": CREATED, "model": self.ask.model,
            "choices": choices, "system_fingerprint": "fp_mock"
        });
        if !self.behaviour.no_usage {
            body["usage"] = serde_json::from_str(&self.usage()).expect("written by us");
        }
        self.halved(Raw::json(200, body.to_string()))
    }

    /// A body, or what of it is sent where the reply stops short.
    pub(super) fn halved(&self, mut raw: Raw) -> Raw {
        let (halves, end) = match self.behaviour.stop {
            None | Some(Stop::StallHeader) => return raw,
            Some(Stop::Stall(0)) => (0, End::Stall),
            Some(Stop::Stall(_)) => (1, End::Stall),
            Some(Stop::Reset | Stop::ResetInLine) => (1, End::Reset),
            Some(Stop::Polite) => {
                raw.headers.retain(|(name, _)| *name != "content-length");
                (1, End::Polite)
            }
        };
        for (_, piece) in &mut raw.pieces {
            piece.truncate(piece.len() * halves / 2);
        }
        raw.ending(end)
    }

    pub(super) fn stream(&self) -> Raw {
        let behaviour = self.behaviour;
        let style = self.style();
        let mut events: Vec<String> = Vec::new();
        for choice in 0..self.ask.choices {
            events.push(self.chunk(choice, r#"{"role":"assistant","content":"","refusal":null}"#, None));
        }
        let opening = events.len();
        for delta in self.deltas() {
            events.extend((0..self.ask.choices).map(|choice| self.chunk(choice, &delta, None)));
        }
        if behaviour.malformed {
            events.insert((opening + 1).min(events.len()), r#"{"id":"broken","choices":[{"#.to_owned());
        }
        let content = events.len();
        let finish = if matches!(self.answer, Answer::Text(_)) { "stop" } else { "tool_calls" };
        events.extend((0..self.ask.choices).map(|choice| self.chunk(choice, "{}", Some(finish))));
        let mut pieces: Vec<Bytes> = events.iter().map(|data| event(data, style)).collect();
        if self.ask.include_usage && !behaviour.no_usage {
            let usage = event(&self.usage_chunk(), style);
            if behaviour.usage_split {
                pieces.extend(split_in_number(usage));
            } else {
                pieces.push(usage);
            }
        }
        if !behaviour.no_done {
            pieces.push(event("[DONE]", style));
        }
        self.streamed(pieces, opening, content)
    }

    /// How events are spelled.
    pub(super) fn style(&self) -> Style {
        let behaviour = self.behaviour;
        Style { line_end: behaviour.line_end, space: !behaviour.no_space, comments: behaviour.comments }
    }

    /// A stream of these events, as far as it goes and at its pace. The first with content is at `opening`, `content` is behind the last.
    pub(super) fn streamed(&self, mut pieces: Vec<Bytes>, opening: usize, content: usize) -> Raw {
        let behaviour = self.behaviour;
        let end = self.stop(&mut pieces, opening, content);
        if behaviour.one_write {
            pieces = vec![pieces.iter().flatten().copied().collect::<BytesMut>().freeze()];
        }
        let mut raw = Raw::stream(pieces).ending(end);
        for (delay, _) in raw.pieces.iter_mut().skip(1) {
            *delay = behaviour.piece_delay;
        }
        raw
    }

    /// Leaves out what a reply that stops short does not send, and tells how it ends.
    fn stop(&self, pieces: &mut Vec<Bytes>, opening: usize, content: usize) -> End {
        let (n, end) = match self.behaviour.stop {
            None | Some(Stop::StallHeader) => return End::Polite,
            Some(Stop::Stall(n)) => (n, End::Stall),
            Some(Stop::Polite) => (PIECES_BEFORE_STOP, End::Polite),
            Some(Stop::Reset | Stop::ResetInLine) => (PIECES_BEFORE_STOP, End::Reset),
        };
        let keep = (opening + n).min(content);
        let half = pieces.get(keep).map(|next| next.slice(..next.len() / 2));
        pieces.truncate(keep);
        if self.behaviour.stop == Some(Stop::ResetInLine) {
            pieces.extend(half);
        }
        end
    }

    /// How many pieces the answer has: what it counts as.
    pub(super) fn n_pieces(&self) -> u64 {
        self.deltas().len() as u64
    }

    /// The deltas between the role and the finish reason.
    fn deltas(&self) -> Vec<String> {
        match self.answer {
            Answer::Text(text) => {
                let words = text.split_inclusive(char::is_whitespace);
                words.map(|word| format!(r#"{{"content":{}}}"#, encode_string(word))).collect()
            }
            Answer::Calls(names) => {
                let heads = names.iter().enumerate().map(|(i, name)| {
                    let (id, name) = (self.call_id(i), encode_string(name));
                    format!(r#"{{"tool_calls":[{{"index":{i},"id":"{id}","type":"function","function":{{"name":{name},"arguments":""}}}}]}}"#)
                });
                let all: Vec<_> = (0..names.len()).map(|i| arguments(names.len(), i)).collect();
                let rounds = all.first().map_or(0, Vec::len);
                let tails =
                    (0..rounds).flat_map(|round| all.iter().enumerate().map(move |(i, pieces)| (i, pieces[round])));
                let tails = tails.map(|(i, piece)| {
                    format!(r#"{{"tool_calls":[{{"index":{i},"function":{{"arguments":{}}}}}]}}"#, encode_string(piece))
                });
                heads.chain(tails).collect()
            }
        }
    }

    fn chunk(&self, choice: u64, delta: &str, finish: Option<&str>) -> String {
        let finish = finish.map_or_else(|| "null".to_owned(), encode_string);
        // As upstreams do that were asked for usage: null until the last chunk.
        let usage = if self.ask.include_usage { r#","usage":null"# } else { "" };
        format!(
            r#"{},"choices":[{{"index":{choice},"delta":{delta},"logprobs":null,"finish_reason":{finish}}}]{usage}}}"#,
            self.chunk_head()
        )
    }

    fn usage_chunk(&self) -> String {
        format!(r#"{},"choices":[],"usage":{}}}"#, self.chunk_head(), self.usage())
    }

    fn chunk_head(&self) -> String {
        let (id, model) = (self.id(), encode_string(&self.ask.model));
        format!(
            r#"{{"id":"{id}","object":"chat.completion.chunk","created":{CREATED},"model":{model},"system_fingerprint":"fp_mock""#
        )
    }

    fn usage(&self) -> String {
        let prompt = self.ask.prompt_tokens;
        let completion = self.ask.choices * self.deltas().len() as u64;
        format!(
            r#"{{"prompt_tokens":{prompt},"completion_tokens":{completion},"total_tokens":{},"prompt_tokens_details":{{"cached_tokens":0}},"completion_tokens_details":{{"reasoning_tokens":0}}}}"#,
            prompt + completion
        )
    }

    fn id(&self) -> String {
        format!("chatcmpl-mock-{}", self.number)
    }

    fn call_id(&self, at: usize) -> String {
        format!("call_mock_{}_{at}", self.number)
    }
}

/// The arguments of a call, in pieces: of a lone call `{}`, of parallel ones something to tell them apart by.
pub(super) fn arguments(calls: usize, at: usize) -> Vec<&'static str> {
    match (calls, at) {
        (1, _) => vec!["{}"],
        (_, 0) => vec![r#"{"call":"#, r#""first"}"#],
        _ => vec![r#"{"call":"#, r#""second"}"#],
    }
}

/// Cuts the usage event within the digits of its first count.
fn split_in_number(event: Bytes) -> [Bytes; 2] {
    let key = b"\"prompt_tokens\":";
    let at = memchr::memmem::find(&event, key).map_or(event.len() / 2, |at| at + key.len() + 1);
    [event.slice(..at), event.slice(at..)]
}
