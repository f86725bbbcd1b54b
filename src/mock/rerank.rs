//! Rerank answers by the words that question and text share: deterministic, in the shape that fits the question.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::behaviour::Behaviour;
use super::record::Recorded;
use super::reply::Raw;

/// Answers a rerank request: TEI asks with `texts`, Cohere and Jina with `documents`.
pub(super) fn reply(request: &Recorded, as_model: Option<&str>) -> Raw {
    let body = request.json();
    let behaviour = Behaviour::of(as_model.or(body["model"].as_str()).unwrap_or("mock"));
    if let Some(status) = behaviour.error {
        return Raw::error(status, "The mock was asked to fail.");
    }
    let is_tei = body["texts"].is_array();
    let (Some(question), Some(texts)) =
        (body["query"].as_str(), body[if is_tei { "texts" } else { "documents" }].as_array())
    else {
        return Raw::error(400, "`query`, and `documents` or `texts`, are required");
    };
    let asked = words(question);
    let name = if is_tei { "score" } else { "relevance_score" };
    let mut items: Vec<(usize, f64)> = texts.iter().enumerate().map(|(n, text)| (n, share(&asked, text))).collect();
    items.sort_by(|a, b| b.1.total_cmp(&a.1));
    let items: Vec<Value> = items.iter().map(|(index, score)| json!({"index": index, name: score})).collect();
    let answer = if is_tei { Value::from(items) } else { json!({"id": "mock-rerank", "results": items}) };
    let mut raw = Raw::json(200, answer.to_string());
    raw.header_delay = behaviour.header_delay;
    raw
}

fn words(text: &str) -> HashSet<String> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).map(str::to_lowercase).collect()
}

/// Share of the question's words that stand in a text.
fn share(asked: &HashSet<String>, text: &Value) -> f64 {
    let said = words(text.as_str().unwrap_or_default());
    asked.intersection(&said).count() as f64 / asked.len().max(1) as f64
}
