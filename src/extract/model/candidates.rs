//! From the items of an answer to candidates, each with the exchange in which its words were said.

use std::collections::HashMap;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use super::item::Item;
use crate::base::ExchangeId;
use crate::memory::language::{detect, is_han};
use crate::memory::normalise::{fold, names_the_same, tidy};
use crate::memory::propose::{speaks_of, standing_facet};
use crate::memory::segment::{is_fiction, is_payload_task, own_words, sentences};
use crate::memory::{
    Candidate, Evidence, FactKind, Intent, KeySchema, ProposedBy, Said, SourceType, Speaker, Turn, ValueType,
};

/// What the items propose, by exchange. An item whose evidence stands nowhere is left with the newest exchange, where the gate refuses it
/// and says why.
#[must_use]
pub fn candidates(items: Vec<Item>, turns: &[Turn], keys: &KeySchema) -> HashMap<ExchangeId, Vec<Candidate>> {
    let mut out: HashMap<ExchangeId, Vec<Candidate>> = HashMap::new();
    for item in items {
        let named = |turn: &&Turn| item.said_at.as_deref() == Some(&turn.said_at.to_rfc3339());
        // The time that a model names is believed where its evidence agrees.
        let turn = turns.iter().filter(named).find(|turn| holds(turn, &item.evidence));
        let turn = turn.or_else(|| turns.iter().rev().find(|turn| holds(turn, &item.evidence)));
        let Some(turn) = turn.or_else(|| turns.last()) else { break };
        out.entry(turn.exchange).or_default().push(candidate(item, turn, keys));
    }
    out
}

fn user_side(turn: &Turn) -> impl Iterator<Item = &Said> {
    turn.user.iter().filter(|said| said.role == Speaker::User)
}

fn holds(turn: &Turn, quote: &str) -> bool {
    user_side(turn).any(|said| said.text.contains(quote) || fold(&said.text).contains(&*fold(quote)))
}

fn candidate(item: Item, turn: &Turn, keys: &KeySchema) -> Candidate {
    let key = key_of(&item.key, keys);
    let rule = keys.get(&key);
    let value = value_of(item.value, rule.map_or(ValueType::Text, |rule| rule.value_type));
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let mut tags = item.tags;
    if let Some(rule) = rule.filter(|rule| !rule.facets.is_empty()) {
        // Which facet it is follows from the words, not from what the model calls it.
        tags.retain(|tag| !rule.facets.contains(tag));
        tags.extend(standing_facet(&text).map(str::to_owned));
    }
    let message = user_side(turn).find(|said| fold(&said.text).contains(&*fold(&item.evidence)));
    Candidate {
        kind: rule.map_or_else(|| kind_of(&item.kind), |rule| rule.kind),
        source_type: if is_said(&text, &item.evidence) { SourceType::UserStated } else { SourceType::Inferred },
        about: about(&key, item.about, &text, &item.evidence),
        lasting: item.lasting && !is_supposed(&item.evidence, turn),
        language: detect(&item.evidence).to_owned(),
        evidence: Evidence {
            exchange: Some(turn.exchange),
            message_hash: message.map(|said| said.hash.clone()).unwrap_or_default(),
            quote: item.evidence,
            role: Speaker::User,
            said_at: turn.said_at,
        },
        key,
        value,
        intent: Intent::State,
        confidence: item.confidence,
        valid_from: None,
        valid_to: None,
        tags,
        entities: item.entities,
        by: ProposedBy::Model,
    }
}

/// Whom it is about: what the model says, or what the words say where it is silent. Who the speaker's family is, is about the speaker.
fn about(key: &str, named: Option<String>, value: &str, evidence: &str) -> Option<String> {
    let Some(relation) = key.strip_prefix("family.") else {
        return named.or_else(|| speaks_of(evidence));
    };
    named.filter(|about| !names_the_same(about, value) && !names_the_same(about, relation))
}

/// The key in the form of ours: lower case, and the name that people use for it counts too.
fn key_of(key: &str, keys: &KeySchema) -> String {
    let key = key.trim().trim_end_matches(".*").trim_end_matches('*').to_lowercase().replace([' ', '/'], "_");
    if keys.get(&key).is_some() {
        return key;
    }
    let words = key.replace('_', " ");
    keys.called(&words).map_or(key, str::to_owned)
}

fn kind_of(kind: &str) -> FactKind {
    match kind {
        "preference" => FactKind::Preference,
        "identity" => FactKind::Identity,
        "constraint" => FactKind::Constraint,
        "event" => FactKind::Event,
        _ => FactKind::Other,
    }
}

/// A value that its type cannot hold is emptied, which the gate refuses.
fn value_of(value: Value, value_type: ValueType) -> Value {
    match value {
        Value::String(text) => Value::String(tidy(&text, value_type).unwrap_or_default()),
        other => other,
    }
}

/// Whether the evidence says the value, as opposed to leading to it: one of its words stands there, or begins like one that does ("peanuts"
/// and "peanut allergy").
fn is_said(value: &str, evidence: &str) -> bool {
    let (value, evidence) = (fold(value).to_lowercase(), fold(evidence).to_lowercase());
    let mut words = value.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).peekable();
    if words.peek().is_none() {
        return true;
    }
    words.any(|word| match word.contains(is_han) {
        true => word.chars().any(|c| is_han(c) && evidence.contains(c)),
        false => {
            let head = word.char_indices().nth(4).map_or(word, |(at, _)| &word[..at]);
            evidence.split(|c: char| !c.is_alphanumeric()).any(|said| said.starts_with(head))
        }
    })
}

/// Words that begin a condition: what follows in the sentence hangs on it.
static CONDITION: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?xi)^(?:(?:and|but|so|well|ok(?:ay)?|hm+)[,\s]+)*(?:if|unless|suppose|supposing|imagine|assuming|assume|pretend|what\sif|let's\ssay)(?-u:\b)
        |(?-u:\b)if\si\s(?:were|was|had|moved|became|could)(?-u:\b)
        |^(?:如果|假如|要是|假设|假使|倘若|设想|万一)|如果我(?:是|有|住)",
    )
    .expect("tested")
});
/// Words that begin a question or a wish, whatever stands at its end.
static ASKING: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?xi)^(?:(?:and|but|so|well|ok(?:ay)?|hm+)[,\s]+)*(?:whether|would|could|should|do|does|did|is|are|am|was|were|can|may|might|will|i\swish|i\shope)(?-u:\b)
        |^(?:是不是|我是不是|能不能|可不可以)",
    )
    .expect("tested")
});

/// Whether the words of a quote state nothing: they suppose or ask, or belong to a task whose text is nobody's.
fn is_supposed(quote: &str, turn: &Turn) -> bool {
    let task = user_side(turn).any(|said| {
        let first = sentences(&said.text).next().map_or("", |s| s.text);
        is_payload_task(first) || own_words(&said.text).parts().any(is_fiction)
    });
    let quote = fold(quote);
    task || user_side(turn).any(|said| {
        let own = own_words(&said.text);
        let found = own.parts().flat_map(sentences).find_map(|sentence| {
            let text = fold(sentence.text).into_owned();
            let at = text.find(&*quote)?;
            Some((text, at, sentence.question))
        });
        match found {
            Some((text, at, question)) => {
                // "Since I'm vegan, what can I eat?" asks in its last part only.
                let clause = text[..at].rfind([',', ';', ':', '\u{ff0c}', '\u{ff1b}']).map_or(&*text, |end| {
                    text[end..].trim_start_matches(|c: char| c.is_whitespace() || c.is_ascii_punctuation())
                });
                CONDITION.is_match(&text) || ASKING.is_match(clause) || question && begins_with_question_word(clause)
            }
            // It runs over several sentences: with a question among them it says nothing.
            None => quote.contains(['?', '\u{ff1f}']),
        }
    })
}

fn begins_with_question_word(clause: &str) -> bool {
    const WORDS: [&str; 10] = ["what", "where", "which", "who", "whose", "when", "how", "why", "any", "what's"];
    const HAN: [&str; 6] = ["什么", "哪", "谁", "怎么", "为什么", "多少"];
    let first = clause.split_whitespace().next().unwrap_or_default();
    WORDS.iter().any(|word| first.eq_ignore_ascii_case(word)) || HAN.iter().any(|word| clause.starts_with(word))
}
