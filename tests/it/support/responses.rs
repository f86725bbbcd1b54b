//! Requests of OpenAI's responses, as tests write them.

use serde_json::{Value, json};

use super::{Ask, Got, Stack};

impl Stack {
    /// A responses request with this body.
    pub(crate) fn responses(&self, body: impl Into<bytes::Bytes>) -> Ask {
        self.ask("POST", "/v1/responses").header("content-type", "application/json").body(body)
    }

    /// Asks with this `input` as a subject, and returns the reply with what upstream got.
    pub(crate) async fn respond(&self, user: &str, input: Value, more: Value) -> (Got, Value) {
        let mut body = json!({"model": "mock", "input": input});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let got = self.responses(body.to_string()).user(user).send().await.must_be(200);
        (got, self.sent().json())
    }
}

/// A message of the user.
pub(crate) fn user(text: &str) -> Value {
    json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]})
}

/// A message of the assistant, as it comes back.
pub(crate) fn assistant(text: &str) -> Value {
    let part = json!({"type": "output_text", "text": text, "annotations": []});
    json!({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]})
}

/// The types of the events of a stream, in order.
pub(crate) fn kinds(got: &Got) -> Vec<String> {
    got.text().lines().filter_map(|line| line.strip_prefix("event: ")).map(str::to_owned).collect()
}
