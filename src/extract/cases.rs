//! The cases of `tests/data/extraction`, run through the rules path.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use super::{DecideInput, decide};
use crate::base::{ExchangeId, SeededRandom, Time};
use crate::memory::normalise::same_value;
use crate::memory::{Fact, FactStatus, KeySchema, Said, Scope, Speaker, Turn};

#[derive(Deserialize)]
struct Case {
    id: String,
    language: String,
    conversations: Vec<Conversation>,
    #[serde(default)]
    expect: Vec<Expected>,
    #[serde(default)]
    forbid: Vec<Forbidden>,
    #[serde(default)]
    current: BTreeMap<String, Value>,
}

#[derive(Deserialize)]
struct Conversation {
    said_at: String,
    messages: Vec<Message>,
}

#[derive(Deserialize)]
struct Message {
    role: String,
    content: String,
}

#[derive(Deserialize)]
struct Expected {
    key: String,
    value: Value,
    #[serde(default)]
    about: Option<String>,
}

#[derive(Deserialize)]
struct Forbidden {
    value: Option<Value>,
    key: Option<String>,
}

/// What was learned from the conversations of a case: all facts, superseded ones too.
fn learn(case: &Case) -> Vec<Arc<Fact>> {
    let random = SeededRandom::new(7);
    let mut facts: Vec<Arc<Fact>> = Vec::new();
    for (session, conversation) in case.conversations.iter().enumerate() {
        let start = Time::parse(&conversation.said_at).expect("a date");
        let by_user = conversation.messages.iter().enumerate().filter(|(_, m)| m.role == "user");
        for (users, (index, message)) in (0..).zip(by_user) {
            let at = start.plus_seconds(60 * users);
            let said = |m: &Message| Said {
                role: if m.role == "user" { Speaker::User } else { Speaker::Assistant },
                text: crate::memory::redact::redact(&m.content).into_owned(),
                hash: format!("{session}-{index}"),
            };
            let messages = &conversation.messages;
            let turn = Turn {
                exchange: ExchangeId::generate(at, &random),
                scope: Scope::new("t", "n", "s"),
                epoch: 0,
                session: session.to_string(),
                turn_key: format!("{session}-{index}"),
                turn_index: users,
                said_at: at,
                before: index.checked_sub(1).map(|i| &messages[i]).filter(|m| m.role == "assistant").map(said),
                user: vec![said(message)],
                repeated: false,
                reply: messages.get(index + 1).filter(|m| m.role == "assistant").map(said),
                complete: true,
                shown: Vec::new(),
            };
            let learned = decide(&DecideInput {
                turn: &turn,
                facts: &facts,
                schema: KeySchema::builtin(),
                revision: 0,
                now: at,
                ids: &random,
                tombstoned: &|_| false,
                mentioning: &|_| Vec::new(),
            });
            for change in learned.changes {
                match facts.iter_mut().find(|f| f.id == change.fact.id) {
                    Some(fact) => *fact = Arc::new(change.fact),
                    None => facts.push(Arc::new(change.fact)),
                }
            }
        }
    }
    facts
}

fn matches(fact: &Fact, expected: &Expected) -> bool {
    let about = match (&fact.about, &expected.about) {
        (None, None) => true,
        (Some(a), Some(b)) => a.to_lowercase().contains(&b.to_lowercase()),
        _ => false,
    };
    about && fact.key == expected.key && same_value(&fact.value, &expected.value)
}

fn forbids(forbidden: &Forbidden, fact: &Fact) -> bool {
    let by_value = forbidden
        .value
        .as_ref()
        .is_none_or(|v| same_value(v, &fact.value) || v.as_str().is_some_and(|v| fact.value_text().contains(v)));
    let by_key = forbidden
        .key
        .as_ref()
        .is_none_or(|k| *k == fact.key || k.strip_suffix('*').is_some_and(|k| fact.key.starts_with(k)));
    by_value && by_key
}

#[derive(Default)]
struct Tally {
    right: usize,
    wrong: usize,
    missed: usize,
    cases: usize,
}

/// Guards against the kinds of faults under "Write path" in public reports, each case naming its own: mem0ai/mem0#4573, #2736,
/// #4536, #5576, #3707; plastic-labs/honcho#953; NousResearch/hermes-agent#59823; letta-ai/letta-code#4097.
#[test]
fn the_rules_are_right_when_they_speak_and_speak_when_they_can() {
    let mut tallies: BTreeMap<String, Tally> = BTreeMap::new();
    let mut stale = 0;
    let files = [
        include_str!("../../tests/data/extraction/english.jsonl"),
        include_str!("../../tests/data/extraction/chinese.jsonl"),
        include_str!("../../tests/data/extraction/held_out.jsonl"),
        include_str!("../../tests/data/extraction/second.jsonl"),
        include_str!("../../tests/data/extraction/third.jsonl"),
    ];
    for line in files.iter().flat_map(|f| f.lines()).filter(|l| !l.trim().is_empty()) {
        let case: Case = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
        let facts = learn(&case);
        let current: Vec<&Arc<Fact>> = facts.iter().filter(|f| f.is_current()).collect();
        let tally = tallies.entry(case.language.clone()).or_default();
        tally.cases += 1;
        let mut problems = Vec::new();
        for fact in &current {
            let known = case.expect.iter().any(|e| matches(fact, e))
                || case.current.iter().any(|(k, v)| *k == fact.key && same_value(v, &fact.value));
            let bad = case.forbid.iter().any(|f| forbids(f, fact));
            if known && !bad {
                tally.right += 1;
            } else {
                tally.wrong += 1;
                problems.push(format!(
                    "  not asked for: {} = {} about {:?} from {:?}",
                    fact.key, fact.value, fact.about, fact.evidence[0].quote
                ));
            }
        }
        for expected in case.expect.iter().filter(|e| !current.iter().any(|f| matches(f, e))) {
            tally.missed += 1;
            problems.push(format!("  missed: {} = {}", expected.key, expected.value));
        }
        for (key, value) in &case.current {
            let active: Vec<_> = current
                .iter()
                .filter(|f| f.key == *key && f.status == FactStatus::Active && f.about.is_none())
                .collect();
            if !(active.len() == 1 && same_value(&active[0].value, value)) {
                stale += 1;
                problems.push(format!("  current {key} is not {value}"));
            }
        }
        if !problems.is_empty() {
            println!(
                "{}: {}\n{}",
                case.id,
                case.conversations
                    .iter()
                    .flat_map(|c| &c.messages)
                    .map(|m| m.content.as_str())
                    .collect::<Vec<_>>()
                    .join(" / "),
                problems.join("\n")
            );
        }
    }
    let (mut right, mut wrong, mut missed, mut cases) = (0, 0, 0, 0);
    for (language, tally) in &tallies {
        println!(
            "{language}: {} cases, {} right, {} wrong, {} missed",
            tally.cases, tally.right, tally.wrong, tally.missed
        );
        right += tally.right;
        wrong += tally.wrong;
        missed += tally.missed;
        cases += tally.cases;
    }
    let precision = right as f64 / (right + wrong) as f64;
    let recall = right as f64 / (right + missed) as f64;
    println!("precision {precision:.3}, recall {recall:.3}, stale {stale}, cases {cases}");
    assert!(cases >= 150, "{cases} cases");
    assert!(
        precision >= 0.95 && recall >= 0.8 && stale == 0,
        "precision {precision:.3}, recall {recall:.3}, stale {stale}"
    );
}
