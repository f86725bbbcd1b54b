//! One item of an answer, read as kindly as can be.

use serde_json::{Map, Value};

/// Longest text of an item that is kept, in characters; what is longer is no memory but a copy.
const MAX_TEXT_CHARS: usize = 500;
/// So many tags and entities at most, each.
const MAX_LABELS: usize = 8;
const MAX_LABEL_CHARS: usize = 60;
/// What is taken for the confidence of a model that names none.
const DEFAULT_CONFIDENCE: f64 = 0.6;

/// What a model would like to be remembered.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// The key it chose; it need not be one of ours.
    pub key: String,
    /// The value: text, number or boolean.
    pub value: Value,
    /// What sort of thing it says it is.
    pub kind: String,
    /// The whole as a sentence.
    pub text: String,
    /// How sure it is, 0 to 1.
    pub confidence: f64,
    /// The words that it rests on, as the model copied them.
    pub evidence: String,
    /// Whom it is about, when not the person who speaks.
    pub about: Option<String>,
    /// The time of the exchange that it names.
    pub said_at: Option<String>,
    /// Free labels.
    pub tags: Vec<String>,
    /// Names in it.
    pub entities: Vec<String>,
    /// Whether it is meant to last.
    pub lasting: bool,
}

impl Item {
    /// Reads an item; `None` when it has no value or no evidence, without which it can be nothing.
    pub(super) fn read(object: &Map<String, Value>) -> Option<Self> {
        let text = |name: &str| object.get(name).and_then(short_text);
        let value = match object.get("value")? {
            Value::String(value) => Value::String(short(value)?),
            value @ (Value::Number(_) | Value::Bool(_)) => value.clone(),
            // A set of one, as some write it.
            Value::Array(values) if values.len() == 1 => Value::String(short(values[0].as_str()?)?),
            _ => return None,
        };
        Some(Self {
            key: text("key").unwrap_or_default(),
            value,
            kind: text("kind").unwrap_or_default(),
            text: text("text").unwrap_or_default(),
            confidence: object.get("confidence").and_then(number).unwrap_or(DEFAULT_CONFIDENCE).clamp(0.0, 1.0),
            evidence: text("evidence").or_else(|| text("quote"))?,
            about: text("about").filter(|about| !is_speaker(about)),
            said_at: text("said_at"),
            tags: labels(object.get("tags")),
            entities: labels(object.get("entities")),
            lasting: object.get("lasting").is_none_or(is_true),
        })
    }

    /// Whether an object is meant as an item, well made or not.
    pub(super) fn is_meant(object: &Map<String, Value>) -> bool {
        ["value", "evidence", "key", "text"].iter().filter(|name| object.contains_key(**name)).count() >= 2
    }
}

/// The ways in which models write "the person who speaks".
fn is_speaker(about: &str) -> bool {
    let about = about.trim().trim_start_matches("the ").trim_start_matches("The ");
    const SELF: [&str; 14] = [
        "user", "person", "self", "me", "i", "myself", "speaker", "subject", "none", "null", "用户", "我", "本人",
        "自己",
    ];
    SELF.iter().any(|own| about.eq_ignore_ascii_case(own))
}

fn short_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => short(text),
        Value::Number(number) => Some(number.to_string()),
        Value::Array(texts) => short(texts.first()?.as_str()?),
        _ => None,
    }
}

/// The text without white space around it; `None` when nothing is left, or far too much.
fn short(text: &str) -> Option<String> {
    let text = text.trim();
    (!text.is_empty() && text.chars().nth(MAX_TEXT_CHARS).is_none()).then(|| text.to_owned())
}

fn number(value: &Value) -> Option<f64> {
    let number = value.as_f64().or_else(|| value.as_str()?.trim().parse().ok())?;
    number.is_finite().then_some(number)
}

fn is_true(value: &Value) -> bool {
    match value {
        Value::Bool(lasting) => *lasting,
        Value::String(word) => !matches!(word.trim().to_ascii_lowercase().as_str(), "false" | "no" | "0"),
        Value::Number(number) => number.as_f64() != Some(0.0),
        _ => true,
    }
}

fn labels(value: Option<&Value>) -> Vec<String> {
    let labels = value.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let short = labels.map(str::trim).filter(|label| !label.is_empty() && label.chars().count() <= MAX_LABEL_CHARS);
    short.take(MAX_LABELS).map(str::to_owned).collect()
}
