//! The requests: small ones (about 600 bytes) and ones with a history of 100 KB, each with another question, so that
//! nothing is answered from a cache and every exchange is a new user turn. The episodes are made of the same words.

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use serde_json::{Value, json};

use crate::client::{Call, Calls};
use crate::travel::{PLACES, SUBJECTS};

const SYSTEM: &str = "You are a helpful travel assistant of a small railway company. Answer in two or three short \
    sentences, name prices only when you know them, and never promise a seat that was not booked. When a guest is \
    delayed, be kind, say what will happen next, and offer the next connection.";
const CHAT_PATH: &str = "/v1/chat/completions";
pub(crate) const MESSAGES_PATH: &str = "/v1/messages";
const HISTORY_BYTES: usize = 100_000;

const MATTERS: [&str; 16] = [
    "was delayed by snow",
    "costs less on Tuesdays",
    "needs a reservation",
    "was booked twice",
    "leaves from track nine",
    "has no wheelchair space",
    "was moved to the morning",
    "is sold out in August",
    "can be cancelled until noon",
    "was paid with a voucher",
    "connects with the bus",
    "has a broken heater",
    "takes two hours longer",
    "was upgraded",
    "is noisy near the engine",
    "was recommended by a friend",
];

/// The API that requests are written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// OpenAI's chat completions.
    Chat,
    /// Anthropic's messages.
    Messages,
}

/// Makes request bodies of one shape.
#[derive(Debug)]
pub(crate) struct Prompts {
    dialect: Dialect,
    /// Everything before the text of the newest question, already written as JSON.
    head: String,
    counter: AtomicU64,
}

impl Prompts {
    pub(crate) fn small(dialect: Dialect, model: &str) -> Self {
        Self::new(dialect, model, &[json!({"role": "system", "content": SYSTEM})])
    }

    /// Forty turns of a long conversation.
    pub(crate) fn with_history(dialect: Dialect, model: &str) -> Self {
        let mut messages = vec![json!({"role": "system", "content": SYSTEM})];
        let (mut bytes, mut n) = (0, 0);
        while bytes < HISTORY_BYTES {
            let text = (n..n + 24).map(|n| sentence(n * 7)).collect::<Vec<_>>().join(" ");
            bytes += text.len();
            messages.push(json!({"role": if n % 2 == 0 { "user" } else { "assistant" }, "content": text}));
            n += 1;
        }
        if n % 2 == 1 {
            messages.push(json!({"role": "assistant", "content": "Gladly. Anything else?"}));
        }
        Self::new(dialect, model, &messages)
    }

    fn new(dialect: Dialect, model: &str, messages: &[Value]) -> Self {
        // The instructions come first, and are no message for Anthropic.
        let (beside, messages) = match dialect {
            Dialect::Chat => (String::new(), messages),
            Dialect::Messages => (format!(r#""max_tokens":1024,"system":{},"#, messages[0]["content"]), &messages[1..]),
        };
        let messages: Vec<String> = messages.iter().map(Value::to_string).collect();
        // `model` comes first: the upstream searches for it.
        let stream = model != "fixed";
        let before: String = messages.iter().map(|message| format!("{message},")).collect();
        let head = format!(
            r#"{{"model":"{model}","stream":{stream},"temperature":0.7,{beside}"messages":[{before}{{"role":"user","content":""#,
        );
        Self { dialect, head, counter: AtomicU64::new(0) }
    }
}

impl Calls for Prompts {
    fn next(&self) -> Call {
        let n = self.counter.fetch_add(1, Ordering::Relaxed);
        let body = format!("{}{}\"}}]}}", self.head, question(n));
        Call::new(if self.dialect == Dialect::Chat { CHAT_PATH } else { MESSAGES_PATH }, Bytes::from(body))
    }
}

/// The bodies with which the episodes of the scope are added.
pub(crate) fn episodes(count: usize) -> impl Iterator<Item = Bytes> {
    (0..count).map(|n| episode(n as u64))
}

/// The body with which one is added.
pub(crate) fn episode(n: u64) -> Bytes {
    let said_at = format!("2026-{:02}-{:02}T{:02}:15:00Z", 1 + n % 10, 1 + n % 28, n % 24);
    let session = format!("session-{}", n / 8);
    let episode = json!({"text": sentence(n), "said_at": said_at, "role": "user", "session": session});
    Bytes::from(episode.to_string())
}

/// Another one for each number.
pub(crate) fn question(n: u64) -> String {
    let (subject, place) = (SUBJECTS[pick(n, 0)], PLACES[pick(n, 1)]);
    format!(
        "I wrote to you about {subject} to {place} some time ago, under number {n}. What did we find out then, and what \
         would you do in my place?"
    )
}

pub(crate) fn sentence(n: u64) -> String {
    let (subject, place, matter) = (SUBJECTS[pick(n, 0)], PLACES[pick(n, 1)], MATTERS[pick(n, 2)]);
    format!("On trip {n} I learned that {subject} to {place} {matter}.")
}

/// A number below 16 that looks random and is the same in every run.
fn pick(n: u64, salt: u64) -> usize {
    let mixed = (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17 + 13 * u32::try_from(salt).unwrap_or(0));
    usize::try_from(mixed % 16).unwrap_or(0)
}
