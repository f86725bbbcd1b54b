//! Reads a chat request and decides what to say.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::behaviour::{Behaviour, Saying};
use super::notes::take_notes;
use super::record::Recorded;
use crate::tokens::{Counter, Encoding};
use crate::wire::{ChatRequest, Dialect, Kept, Role};

/// The most choices of one reply.
const MAX_CHOICES: u64 = 128;

/// What is read of a request.
pub(super) struct Ask {
    pub(super) dialect: Dialect,
    pub(super) model: String,
    pub(super) stream: bool,
    pub(super) choices: u64,
    pub(super) include_usage: bool,
    pub(super) prompt_tokens: u64,
    chat: ChatRequest,
    notes: Vec<String>,
    user_text: String,
    /// The text of the newest message, when that is a tool's result.
    tool_result: Option<String>,
    /// The names of the offered tools, when the newest message is the user's.
    tools: Vec<String>,
    /// `response_format`, when it asks for JSON.
    json: Option<Value>,
    pub(super) key: Option<String>,
    /// The response that it goes on from.
    pub(super) previous: Option<String>,
    /// Whether the answer is to be kept.
    pub(super) store: bool,
}

/// What the assistant says.
pub(super) enum Answer {
    Text(String),
    Calls(Vec<String>),
}

impl Ask {
    /// Reads a request; the error is for the client.
    pub(super) fn read(dialect: Dialect, request: &Recorded) -> Result<Self, String> {
        let chat = ChatRequest::decode_as(dialect, request.body.clone()).map_err(|e| e.to_string())?;
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
        let format = match dialect {
            Dialect::Responses => value("text").map(|text| format_of(&text["format"])),
            _ => value("response_format"),
        };
        let bearer = request.header("authorization").and_then(|v| v.strip_prefix("Bearer "));
        let json = format.filter(|format| format["type"].as_str().is_some_and(|t| t != "text"));
        let previous = match chat.kept_upstream() {
            Some(Kept::Response(id)) => Some(id.into_owned()),
            _ => None,
        };
        Ok(Self {
            dialect,
            previous,
            store: chat.get("store") != Some("false"),
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
            key: bearer.or_else(|| request.header("x-api-key")).map(str::to_owned),
            chat,
        })
    }

    /// A member of the request; `null` when it is absent.
    pub(super) fn member(&self, key: &str) -> Value {
        self.chat.get(key).and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }

    /// What it was told.
    pub(super) fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Adds what stood in the conversation before.
    pub(super) fn goes_on_from(&mut self, mut notes: Vec<String>, prompt_tokens: u64) {
        self.prompt_tokens += prompt_tokens;
        notes.retain(|note| !self.notes.contains(note));
        self.notes.splice(0..0, notes);
    }

    /// The prompt's tokens by `o200k_base`.
    pub(super) fn counted(&self) -> u64 {
        // Nothing is counted twice here, so there is nothing to remember.
        Counter::new(0).request(Encoding::O200k, &self.chat).total as u64
    }

    /// Decides what to say.
    pub(super) fn answer(&self, behaviour: &Behaviour) -> Answer {
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

/// The format of a responses request, as chat has it.
fn format_of(format: &Value) -> Value {
    json!({"type": format["type"], "json_schema": {"schema": format["schema"]}})
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
