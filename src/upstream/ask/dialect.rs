//! How a question is put: the members that models call differently, learned from what they refuse.

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use crate::ask::{Format, Question};

/// What one model does not take. Learned once, kept while the process lives.
#[derive(Debug, Default)]
pub(super) struct Dialect {
    /// Reasoning models of OpenAI take `max_completion_tokens` in place of `max_tokens`, which all others know.
    completion_tokens: AtomicBool,
    /// They also take no temperature but their own.
    no_temperature: AtomicBool,
}

impl Dialect {
    /// So many members can be learned.
    pub(super) const WORDS: usize = 2;

    /// The request's body.
    pub(super) fn body(&self, model: &str, question: &Question) -> Vec<u8> {
        let mut body = json!({
            "model": model,
            "messages": [
                {"role": "system", "content": question.system},
                {"role": "user", "content": question.user},
            ],
            "stream": false,
        });
        let limit = if self.completion_tokens.load(Ordering::Relaxed) { "max_completion_tokens" } else { "max_tokens" };
        body[limit] = question.max_output_tokens.into();
        if !self.no_temperature.load(Ordering::Relaxed) {
            body["temperature"] = 0.into();
        }
        if let Some(format) = response_format(&question.format) {
            body["response_format"] = format;
        }
        body.to_string().into_bytes()
    }

    /// Learns from a refusal; whether there was something new in it, so that asking again makes sense.
    pub(super) fn learn(&self, said: &str) -> bool {
        let words = [("max_completion_tokens", &self.completion_tokens), ("temperature", &self.no_temperature)];
        words.into_iter().any(|(word, known)| said.contains(word) && !known.swap(true, Ordering::Relaxed))
    }
}

fn response_format(format: &Format) -> Option<Value> {
    match format {
        Format::Text => None,
        Format::JsonObject => Some(json!({"type": "json_object"})),
        Format::JsonSchema { name, schema } => Some(json!({
            "type": "json_schema",
            "json_schema": {"name": name, "strict": true, "schema": schema},
        })),
    }
}
