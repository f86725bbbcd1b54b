//! Exports of other products as lines of ours.
//!
//! - ChatGPT's data export, `conversations.json`: a list of conversations, each a tree of messages in `mapping`, of which the branch
//!   that ends in `current_node` is the one that was kept
//!   (<https://github.com/mitkury/chatgpt-export-parser/blob/main/docs/chatgpt-data-export-format.md>).
//! - Lists of memories: mem0's `get_all`, `{"results": [{"id", "memory", "user_id", "metadata", "categories", "created_at"}]}`
//!   (<https://docs.mem0.ai/cookbooks/essentials/exporting-memories>), and the like: `memories` instead of `results`, a bare list,
//!   `content` or `text` instead of `memory`, or plain strings, as people copy them out of ChatGPT's list of saved memories.

use serde_json::{Map, Value};

use super::super::export::Line;
use super::super::turn::Speaker;
use crate::base::Time;

/// The most messages that are followed from the end of a conversation to its beginning.
const MAX_MESSAGES: usize = 20_000;

/// Reads a whole document. Of a list of memories of several users only those of `user_id` are taken.
///
/// # Errors
/// What it is not, or whose it is, in a sentence.
pub fn lines(document: &Value, user_id: Option<&str>) -> Result<Vec<Line>, String> {
    let items = match document {
        Value::Array(items) => items,
        Value::Object(members) => {
            match ["results", "memories"].iter().find_map(|name| members.get(*name)?.as_array()) {
                Some(items) => items,
                None if members.contains_key("mapping") => return conversations(std::slice::from_ref(document)),
                None => return Err(UNKNOWN.to_owned()),
            }
        }
        _ => return Err(UNKNOWN.to_owned()),
    };
    if items.iter().any(|item| item.get("mapping").is_some()) {
        return conversations(items);
    }
    memories(items, user_id)
}

const UNKNOWN: &str = "neither an export of ours, nor ChatGPT's conversations.json, nor a list of memories ({\"results\": [{\"memory\": …}]})";

fn memories(items: &[Value], user_id: Option<&str>) -> Result<Vec<Line>, String> {
    let owner = |item: &Value| item.get("user_id").and_then(Value::as_str).map(str::to_owned);
    let mut owners: Vec<String> = items.iter().filter_map(owner).collect();
    owners.sort_unstable();
    owners.dedup();
    if user_id.is_none() && owners.len() > 1 {
        let public = "holds memories of several users: say whose to take, with `user_id`";
        return Err(format!("it {public}"));
    }
    let wanted = items.iter().filter(|item| user_id.is_none_or(|wanted| owner(item).as_deref() == Some(wanted)));
    let lines: Vec<Line> = wanted.filter_map(memory).collect();
    if lines.is_empty() && !items.is_empty() {
        return Err(if owners.is_empty() { UNKNOWN.to_owned() } else { "it holds nothing of this user".to_owned() });
    }
    Ok(lines)
}

fn memory(item: &Value) -> Option<Line> {
    let text = match item {
        Value::String(text) => text.as_str(),
        item => ["memory", "content", "text", "data"].iter().find_map(|name| item.get(*name)?.as_str())?,
    };
    let time = ["updated_at", "created_at", "timestamp"].iter().find_map(|name| time(item.get(*name)?));
    let names = |value: &Value| -> Vec<String> {
        let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
        items.iter().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let tags = item.get("categories").map(names).unwrap_or_default();
    (!text.trim().is_empty()).then(|| Line::Note { text: text.to_owned(), said_at: time, tags })
}

fn conversations(items: &[Value]) -> Result<Vec<Line>, String> {
    let mut lines = Vec::new();
    for (number, item) in (1..).zip(items) {
        let (Some(mapping), Some(last)) =
            (item.get("mapping").and_then(Value::as_object), item.get("current_node").and_then(Value::as_str))
        else {
            return Err(format!("conversation {number} has no `mapping` or no `current_node`"));
        };
        let id = ["conversation_id", "id"].iter().find_map(|name| item.get(*name)?.as_str());
        let session = format!("chatgpt:{}", id.map_or_else(|| number.to_string(), |id| id.chars().take(64).collect()));
        let begun = item.get("create_time").and_then(time);
        conversation(mapping, last, &session, begun, &mut lines);
    }
    Ok(lines)
}

/// The branch that ends in `last`, oldest first: what was edited or regenerated away is not part of it.
fn conversation(mapping: &Map<String, Value>, last: &str, session: &str, begun: Option<Time>, lines: &mut Vec<Line>) {
    let mut branch = Vec::new();
    let mut next = mapping.get(last);
    while let Some(node) = next {
        branch.push(node);
        if branch.len() > MAX_MESSAGES {
            break;
        }
        next = node.get("parent").and_then(Value::as_str).and_then(|parent| mapping.get(parent));
    }
    let mut turn = -1_i64;
    let mut time_before = begun;
    for node in branch.into_iter().rev() {
        let Some(message) = node.get("message").filter(|message| !is_hidden(message)) else { continue };
        let role = match message.pointer("/author/role").and_then(Value::as_str) {
            Some("user") => Speaker::User,
            Some("assistant") => Speaker::Assistant,
            _ => continue,
        };
        let text = text_of(message);
        if text.trim().is_empty() {
            continue;
        }
        let said_at = message.get("create_time").and_then(time).or(time_before);
        time_before = said_at;
        turn += i64::from(role == Speaker::User);
        if turn < 0 {
            continue;
        }
        let position = turn * 2 + i64::from(role == Speaker::Assistant);
        lines.push(Line::Said { role, text, said_at, session: session.to_owned(), position });
    }
}

/// What the user never saw: custom instructions and the like stand in the user's role.
fn is_hidden(message: &Value) -> bool {
    message.pointer("/metadata/is_visually_hidden_from_conversation").and_then(Value::as_bool) == Some(true)
        || message.pointer("/metadata/is_user_system_message").and_then(Value::as_bool) == Some(true)
}

/// The texts of a message; images and files have none.
fn text_of(message: &Value) -> String {
    let kind = message.pointer("/content/content_type").and_then(Value::as_str);
    if !matches!(kind, Some("text" | "multimodal_text") | None) {
        return String::new();
    }
    let parts = message.pointer("/content/parts").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    parts.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("\n")
}

/// Seconds since 1970 as ChatGPT writes them, or a text.
fn time(value: &Value) -> Option<Time> {
    match value {
        Value::String(text) => Time::parse(text).or_else(|| Time::parse(&format!("{text}Z"))),
        value => {
            let seconds = value.as_f64().filter(|seconds| (0.0..=253_402_300_799.0).contains(seconds))?;
            #[expect(
                clippy::cast_possible_truncation,
                reason = "the range is checked, and less than a millisecond does not matter"
            )]
            Some(Time((seconds * 1000.0) as i64))
        }
    }
}
