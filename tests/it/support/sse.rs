//! Streams as tests write them.

use bytes::Bytes;
use serde_json::{Value, json};

use super::{Got, Stack};

/// One event.
pub(crate) fn event(data: &str) -> String {
    format!("data: {data}\n\n")
}

/// A chunk with a piece of text.
pub(crate) fn text(piece: &str) -> String {
    delta(&json!({ "content": piece }))
}

/// A chunk with this delta.
pub(crate) fn delta(delta: &Value) -> String {
    event(&format!(
        r#"{{"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{{"index":0,"delta":{delta},"finish_reason":null}}]}}"#
    ))
}

/// The chunk that says why it ended.
pub(crate) fn finish(reason: &str) -> String {
    event(&format!(
        r#"{{"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{{"index":0,"delta":{{}},"finish_reason":"{reason}"}}]}}"#
    ))
}

/// The chunk with the counts.
pub(crate) fn usage() -> String {
    event(
        r#"{"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":{"prompt_tokens":1234,"completion_tokens":5,"total_tokens":1239}}"#,
    )
}

/// The end.
pub(crate) const DONE: &str = "data: [DONE]\n\n";

/// A short healthy stream, an event a piece.
pub(crate) fn healthy() -> Vec<String> {
    vec![delta(&json!({"role": "assistant"})), text("Grüße, "), text("世界 🌍"), finish("stop"), DONE.to_owned()]
}

/// The bytes of some pieces.
pub(crate) fn joined(pieces: &[String]) -> Bytes {
    Bytes::from(pieces.concat())
}

impl Stack {
    /// Asks for a stream, as the client of most tests does: with memory, without asking for usage.
    pub(crate) async fn stream(&self) -> Got {
        self.stream_of(
            &json!({"model": "mock", "stream": true, "messages": [{"role": "user", "content": "Hello there"}]}),
        )
        .await
    }

    /// Asks for this stream as a subject of its own.
    pub(crate) async fn stream_of(&self, body: &Value) -> Got {
        self.chat(body.to_string()).user("streamer").send().await
    }
}
