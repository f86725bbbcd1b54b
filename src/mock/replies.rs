//! Plays the extraction model from a file.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde::Deserialize;
use serde_json::Value;

use super::record::Recorded;
use super::reply::Raw;
use super::script::Script;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    contains: String,
    reply: Option<Value>,
    status: Option<u16>,
}

impl Line {
    fn script(&self) -> Script {
        match (self.status, &self.reply) {
            (Some(status), _) => Script::Raw(Raw::error(status, "as the file says")),
            (None, Some(Value::String(text))) => Script::Fixed(text.clone()),
            (None, reply) => Script::Fixed(reply.clone().unwrap_or_default().to_string()),
        }
    }
}

/// Makes a script of a file of replies ([`HELP`](super::HELP) has its form). Requests that are not about what to remember are
/// answered as the name of the model says.
///
/// # Errors
/// The first line that cannot be read.
pub fn from_replies(text: &str) -> Result<Script, String> {
    let mut lines = Vec::new();
    for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
        let line: Line = serde_json::from_str(line).map_err(|error| format!("line {number}: {error}"))?;
        if line.reply.is_none() && line.status.is_none() {
            return Err(format!("line {number}: it needs `reply` or `status`"));
        }
        lines.push((line, AtomicUsize::new(0)));
    }
    Ok(Script::from_fn(move |request| match about_memories(request) {
        None => Script::Model,
        Some(question) => {
            let mut applying = lines.iter().filter(|(line, _)| question.contains(&line.contains)).peekable();
            while let Some((line, played)) = applying.next() {
                // Each is played once, but for the last.
                if applying.peek().is_none() || played.fetch_add(1, Ordering::Relaxed) == 0 {
                    return line.script();
                }
            }
            Script::Fixed(r#"{"memories":[]}"#.to_owned())
        }
    }))
}

/// The question of a request that asks what to remember.
fn about_memories(request: &Recorded) -> Option<String> {
    let body = request.json();
    let messages = body["messages"].as_array()?;
    let system = messages.first().filter(|m| m["role"] == "system")?["content"].as_str()?;
    // The system prompt of the extraction names the member that it wants.
    let asked = system.contains("\"memories\"") && messages.len() == 2;
    asked.then(|| messages[1]["content"].as_str().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn request(system: &str, user: &str) -> Recorded {
        let messages = json!([{"role": "system", "content": system}, {"role": "user", "content": user}]);
        Recorded {
            method: http::Method::POST,
            target: "/v1/chat/completions".to_owned(),
            headers: http::HeaderMap::new(),
            body: json!({"model": "m", "messages": messages}).to_string().into(),
        }
    }

    #[test]
    fn replies_that_apply_are_played_in_order_and_the_last_one_stays() {
        let script = from_replies(
            "{\"contains\":\"stamps\",\"status\":429}\n\n{\"contains\":\"stamps\",\"reply\":{\"memories\":[1]}}\n{\"contains\":\"oboe\",\"reply\":\"no\"}",
        )
        .unwrap();
        let play = |system: &str, user: &str| match script.clone().resolve(&request(system, user)) {
            Script::Fixed(text) => text,
            other => format!("{other:?}"),
        };
        let ours = "… {\"memories\": []} …";
        assert_eq!(play(ours, "I collect stamps"), "Raw(429)");
        assert_eq!(play(ours, "I collect stamps"), "{\"memories\":[1]}");
        assert_eq!(play(ours, "I collect stamps"), "{\"memories\":[1]}");
        assert_eq!(play(ours, "my oboe"), "no");
        assert_eq!(play(ours, "tea"), "{\"memories\":[]}");
        assert_eq!(play("You are helpful.", "I collect stamps"), "Model");
    }

    #[test]
    fn a_line_that_cannot_be_read_is_named() {
        for (text, says) in [("{}", "contains"), ("{\"contains\":\"x\"}", "reply"), ("\n[", "line 2")] {
            let error = from_replies(text).expect_err(text);
            assert!(error.contains(says), "{error}");
        }
    }
}
