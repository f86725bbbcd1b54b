//! Answers chat requests: reads, behaves, writes.

use std::time::Duration;

use async_compression::tokio::write::GzipEncoder;
use bytes::Bytes;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use super::ask::{Answer, Ask};
use super::behaviour::{Behaviour, Stop};
use super::messages;
use super::record::Recorded;
use super::reply::{End, Raw};
use super::responses;
use super::write::Writer;
use crate::wire::Dialect;

/// Longer than any client waits.
const FOREVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// Answers a chat request; `fixed` replaces the text, `as_model` the name that chooses the behaviour.
pub(super) async fn reply(request: &Recorded, number: u64, fixed: Option<String>, as_model: Option<&str>) -> Raw {
    match Ask::read(Dialect::Chat, request) {
        Ok(ask) => answer(ask, number, fixed, as_model).await.0,
        Err(message) => Raw::error(400, &message),
    }
}

/// Answers a request that was read, in its dialect; with the reply comes the object of it, where its dialect keeps answers.
pub(super) async fn answer(
    mut ask: Ask,
    number: u64,
    fixed: Option<String>,
    as_model: Option<&str>,
) -> (Raw, Option<Value>) {
    let mut kept = None;
    let behaviour = Behaviour::of(as_model.unwrap_or(&ask.model));
    if let Some(percent) = behaviour.tokens_percent {
        ask.prompt_tokens = ask.counted() * percent / 100;
    }
    if let Some(window) = behaviour.window.filter(|&window| ask.prompt_tokens > window) {
        let raw = match ask.dialect {
            Dialect::Messages => messages::too_large(window, ask.prompt_tokens),
            Dialect::Chat | Dialect::Responses => Raw::json(400, too_large(window, ask.prompt_tokens).to_string()),
        };
        return (raw, None);
    }
    let mut raw = match behaviour.error {
        Some(status) if ask.dialect == Dialect::Messages => {
            let message = if status == 200 { INSIDE } else { &*error_message(status, ask.key.as_deref()) };
            messages::failure(status, message, ask.stream)
        }
        Some(200) if ask.stream && ask.dialect == Dialect::Responses => {
            Raw::stream([responses::error_inside(&inner_error())])
        }
        Some(200) if ask.stream => Raw::stream([error_inside()]),
        Some(200) => Raw::json(200, json!({"error": inner_error()}).to_string()),
        Some(status) => Raw::error(status, &error_message(status, ask.key.as_deref())),
        None => {
            let answer = fixed.map_or_else(|| ask.answer(&behaviour), Answer::Text);
            let writer = Writer { ask: &ask, behaviour: &behaviour, answer: &answer, number };
            let streams = ask.stream && !behaviour.json_to_stream;
            match (ask.dialect, streams) {
                (Dialect::Responses, streams) => {
                    kept = Some(writer.response());
                    if streams { writer.response_stream() } else { writer.response_body() }
                }
                (Dialect::Messages, true) => writer.message_stream(),
                (Dialect::Messages, false) => writer.message_body(),
                (Dialect::Chat, true) => writer.stream(),
                (Dialect::Chat, false) => writer.body(),
            }
        }
    };
    if behaviour.gzip {
        raw = gzip(raw).await;
    }
    if let Some(size) = behaviour.split {
        raw.split(size);
    }
    if let Some(bytes) = behaviour.reset_after {
        raw.reset_after(bytes);
    }
    if let Some(bytes_a_second) = behaviour.bandwidth {
        raw.throttle(bytes_a_second);
    }
    if !behaviour.jitter.is_zero() {
        raw.jitter(behaviour.jitter);
    }
    if !behaviour.slow_close.is_zero() && raw.end == End::Polite {
        // A reply of known length has ended with its last byte.
        raw.headers.retain(|(name, _)| *name != "content-length");
        raw.end = End::Late(behaviour.slow_close);
    }
    raw.afterwards = behaviour.afterwards;
    raw.header_delay = if behaviour.stop == Some(Stop::StallHeader) { FOREVER } else { behaviour.header_delay };
    let raw = raw
        .with_header("x-request-id", format!("req_mock_{number}"))
        .with_header("openai-processing-ms", "7")
        .with_header("x-ratelimit-remaining-requests", "99")
        .with_header("server", "mock")
        .with_header("set-cookie", "mock=1; path=/");
    (raw, kept)
}

/// Like OpenAI, it quotes the key that was wrong: a gateway has to mask it.
fn error_message(status: u16, key: Option<&str>) -> String {
    match (status, key) {
        (401, Some(key)) => format!("Incorrect API key provided: {key}."),
        _ => format!("The mock was asked to fail with {status}."),
    }
}

/// In OpenAI's words.
fn too_large(window: u64, tokens: u64) -> Value {
    let message = format!(
        "This model's maximum context length is {window} tokens. However, your messages resulted in {tokens} tokens. Please reduce the length of the messages."
    );
    json!({"error": {"message": message, "type": "invalid_request_error", "param": "messages", "code": "context_length_exceeded"}})
}

const INSIDE: &str = "The mock was asked to fail inside a 200.";

fn inner_error() -> Value {
    json!({ "message": INSIDE, "type": "server_error", "param": null, "code": "mock_200" })
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
