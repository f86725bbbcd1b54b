//! Writes chat replies: what to say, then how to put it into a body or a stream.

use std::fmt::Write as _;
use std::time::Duration;

use async_compression::tokio::write::GzipEncoder;
use bytes::{Bytes, BytesMut};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use super::behaviour::{Behaviour, Saying, Stop};
use super::notes::take_notes;
use super::record::Recorded;
use super::reply::{End, Raw};
use super::sse::{Style, event};
use crate::wire::{ChatRequest, Role, encode_string};

/// `created` of everything: the mock has no clock.
pub(super) const CREATED: u64 = 1_750_000_000;

/// Longer than any client waits.
const FOREVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// How many pieces with content come before a reply stops short.
const PIECES_BEFORE_STOP: usize = 3;

/// The most choices of one reply.
const MAX_CHOICES: u64 = 128;

/// What is read of a request.
struct Ask {
    model: String,
    stream: bool,
    choices: u64,
    include_usage: bool,
    prompt_tokens: u64,
    notes: Vec<String>,
    user_text: String,
    /// The text of the newest message, when that is a tool's result.
    tool_result: Option<String>,
    /// The names of the offered tools, when the newest message is the user's.
    tools: Vec<String>,
    /// `response_format`, when it asks for JSON.
    json: Option<Value>,
    key: Option<String>,
}

/// What the assistant says.
enum Answer {
    Text(String),
    Calls(Vec<String>),
}

/// Answers a chat request; `fixed` replaces the text, `as_model` the name that chooses the behaviour.
pub(super) async fn reply(request: &Recorded, number: u64, fixed: Option<String>, as_model: Option<&str>) -> Raw {
    let ask = match Ask::read(request) {
        Ok(ask) => ask,
        Err(message) => return Raw::error(400, &message),
    };
    let behaviour = Behaviour::of(as_model.unwrap_or(&ask.model));
    let mut raw = match behaviour.error {
        Some(200) if ask.stream => Raw::stream([error_inside()]),
        Some(200) => Raw::json(200, json!({"error": inner_error()}).to_string()),
        Some(status) => Raw::error(status, &error_message(status, ask.key.as_deref())),
        None => {
            let answer = fixed.map_or_else(|| ask.answer(&behaviour), Answer::Text);
            if ask.stream && !behaviour.json_to_stream {
                Writer { ask: &ask, behaviour: &behaviour, answer: &answer, number }.stream()
            } else {
                Writer { ask: &ask, behaviour: &behaviour, answer: &answer, number }.body()
            }
        }
    };
    if behaviour.gzip {
        raw = gzip(raw).await;
    }
    if let Some(size) = behaviour.split {
        raw.split(size);
    }
    raw.header_delay = if behaviour.stop == Some(Stop::StallHeader) { FOREVER } else { behaviour.header_delay };
    raw.with_header("x-request-id", format!("req_mock_{number}"))
        .with_header("openai-processing-ms", "7")
        .with_header("x-ratelimit-remaining-requests", "99")
        .with_header("server", "mock")
        .with_header("set-cookie", "mock=1; path=/")
}

impl Ask {
    fn read(request: &Recorded) -> Result<Self, String> {
        let chat = ChatRequest::decode(request.body.clone()).map_err(|e| e.to_string())?;
        let mut notes = Vec::new();
        let mut user_text = String::new();
        let mut bytes = 0;
        for message in chat.messages() {
            let text = chat.message_text(message);
            bytes += text.len();
            let (mut found, outside) = take_notes(&text);
            notes.append(&mut found);
            if message.role == Role::User {
                user_text = outside;
            }
        }
        let newest = chat.messages().last().ok_or("no message")?;
        let value = |key: &str| chat.get(key).and_then(|text| serde_json::from_str::<Value>(text).ok());
        let offered = newest.role == Role::User && chat.get("tool_choice") != Some(r#""none""#);
        let tools = value("tools").filter(|_| offered).map(|tools| tool_names(&tools)).unwrap_or_default();
        let json = value("response_format").filter(|format| format["type"].as_str().is_some_and(|t| t != "text"));
        Ok(Self {
            model: chat.model().to_owned(),
            stream: chat.stream(),
            choices: chat.get_u64("n").unwrap_or(1).clamp(1, MAX_CHOICES),
            include_usage: chat.include_usage() == Some(true),
            // What OpenAI's tokenizers come to for English, with their overhead per message.
            prompt_tokens: (bytes / 4 + 4 * chat.messages().len() + 3) as u64,
            notes,
            user_text,
            tool_result: newest.role.is_tool_result().then(|| chat.message_text(newest).into_owned()),
            tools,
            json,
            key: request.header("authorization").and_then(|v| v.strip_prefix("Bearer ")).map(str::to_owned),
        })
    }

    fn answer(&self, behaviour: &Behaviour) -> Answer {
        if behaviour.parallel_tools && self.tool_result.is_none() {
            let name = |at: usize, default: &str| self.tools.get(at).cloned().unwrap_or_else(|| default.to_owned());
            return Answer::Calls(vec![name(0, "first_tool"), name(1, "second_tool")]);
        }
        if let Some(first) = self.tools.first() {
            return Answer::Calls(vec![first.clone()]);
        }
        let text = match behaviour.saying {
            Saying::Echo => self.user_text.clone(),
            Saying::Fixed => "Hello from the mock, the same words every time.".to_owned(),
            Saying::Words(n) => {
                let mut text = String::new();
                for i in 1..=n {
                    let _ = write!(text, "{}word{i}", if i == 1 { "" } else { " " });
                }
                text
            }
            Saying::Notes => self.told(),
        };
        match &self.json {
            Some(format) => Answer::Text(json_answer(format, &text)),
            None => Answer::Text(text),
        }
    }

    fn told(&self) -> String {
        let told = match self.notes.as_slice() {
            [] => "Nothing was remembered.".to_owned(),
            notes => format!("I was told: {}.", notes.join("; ")),
        };
        match &self.tool_result {
            Some(result) => format!("{told} The tool said: {result}"),
            None => format!("{told} You said: {}", self.user_text),
        }
    }
}

fn tool_names(tools: &Value) -> Vec<String> {
    let tools = tools.as_array().map(Vec::as_slice).unwrap_or_default();
    tools
        .iter()
        .filter_map(|tool| tool["function"]["name"].as_str().or(tool["name"].as_str()))
        .map(str::to_owned)
        .collect()
}

/// A JSON object as `response_format` asks for it: of the schema, if there is one.
fn json_answer(format: &Value, text: &str) -> String {
    match &format["json_schema"]["schema"] {
        Value::Null => json!({ "answer": text }).to_string(),
        schema => sample(schema, text, 0).to_string(),
    }
}

/// Makes the plainest value of a schema; strings hold the text.
fn sample(schema: &Value, text: &str, depth: usize) -> Value {
    if let Some(first) = schema["enum"].get(0) {
        return first.clone();
    }
    let kind = schema["type"].as_str().or_else(|| schema["type"].get(0).and_then(Value::as_str));
    match kind {
        Some("object") | None if depth < 16 => {
            let properties = schema["properties"].as_object().into_iter().flatten();
            properties
                .map(|(name, of)| (name.clone(), sample(of, text, depth + 1)))
                .collect::<serde_json::Map<_, _>>()
                .into()
        }
        Some("array") => json!([]),
        Some("string") => text.into(),
        Some("integer" | "number") => 0.into(),
        Some("boolean") => false.into(),
        _ => Value::Null,
    }
}

/// Like OpenAI, it quotes the key that was wrong: a gateway has to mask it.
fn error_message(status: u16, key: Option<&str>) -> String {
    match (status, key) {
        (401, Some(key)) => format!("Incorrect API key provided: {key}."),
        _ => format!("The mock was asked to fail with {status}."),
    }
}

fn inner_error() -> Value {
    json!({ "message": "The mock was asked to fail inside a 200.", "type": "server_error", "param": null, "code": "mock_200" })
}

fn error_inside() -> Bytes {
    Bytes::from(format!("data: {}\n\n", json!({"error": inner_error()})))
}

async fn gzip(mut raw: Raw) -> Raw {
    const INFALLIBLE: &str = "a vector takes every write";
    let mut encoder = GzipEncoder::new(Vec::new());
    let pieces = std::mem::take(&mut raw.pieces);
    for (delay, piece) in pieces {
        encoder.write_all(&piece).await.expect(INFALLIBLE);
        encoder.flush().await.expect(INFALLIBLE);
        raw.pieces.push((delay, Bytes::from(std::mem::take(encoder.get_mut()))));
    }
    encoder.shutdown().await.expect(INFALLIBLE);
    raw.pieces.push((Duration::ZERO, Bytes::from(encoder.into_inner())));
    raw.headers.retain(|(name, _)| *name != "content-length");
    raw.with_header("content-encoding", "gzip")
}

/// Puts an answer on the wire.
struct Writer<'a> {
    ask: &'a Ask,
    behaviour: &'a Behaviour,
    answer: &'a Answer,
    number: u64,
}

impl Writer<'_> {
    fn body(&self) -> Raw {
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
        let mut raw = Raw::json(200, body.to_string());
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

    fn stream(&self) -> Raw {
        let behaviour = self.behaviour;
        let style = Style { line_end: behaviour.line_end, space: !behaviour.no_space, comments: behaviour.comments };
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
fn arguments(calls: usize, at: usize) -> Vec<&'static str> {
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
