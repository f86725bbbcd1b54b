//! What a case shows: which facts are right, which are not, and in what way.

use std::sync::Arc;

use serde_json::Value;

use super::case::{Case, Expected, Forbidden};
use crate::memory::normalise::{fold, kept, same_value};
use crate::memory::redact::redact;
use crate::memory::{Fact, FactStatus, KeySchema, ValueType};

/// One case, counted.
#[derive(Clone, Debug, Default)]
pub(super) struct Scored {
    pub(super) id: String,
    pub(super) language: String,
    /// Facts that are known in the end.
    pub(super) known: usize,
    /// … of them: expected.
    pub(super) right: usize,
    /// … the right thing of the wrong person.
    pub(super) wrong_subject: usize,
    /// … what nobody asked for, or was forbidden.
    pub(super) junk: usize,
    /// Expected facts.
    pub(super) expected: usize,
    /// … of them: known.
    pub(super) found: usize,
    /// Keys whose value in the end is given, and values that were said once and are forbidden since.
    pub(super) dated: usize,
    /// … of them: not so.
    pub(super) stale: usize,
    /// Facts that rest on what the user did not say.
    pub(super) loops: usize,
    /// Facts with a secret in them.
    pub(super) secrets: usize,
    /// What is wrong, for people.
    pub(super) problems: Vec<String>,
}

pub(super) fn score(case: &Case, facts: &[Arc<Fact>]) -> Scored {
    let schema = KeySchema::builtin();
    let mut scored = Scored { id: case.id.clone(), language: case.language.clone(), ..Scored::default() };
    let known: Vec<&Arc<Fact>> = facts.iter().filter(|f| f.is_current()).collect();
    scored.known = known.len();
    for fact in &known {
        let forbidden = case.forbid.iter().any(|f| forbids(f, fact));
        let wanted = case.expect.iter().any(|e| matches(fact, e, schema) && same_person(fact, e))
            || (fact.about.is_none() && case.current.iter().any(|(k, v)| *k == fact.key && same(fact, v, schema)));
        let anothers = case.expect.iter().any(|e| matches(fact, e, schema));
        let what = match () {
            () if wanted && !forbidden => {
                scored.right += 1;
                None
            }
            () if anothers && !forbidden => {
                scored.wrong_subject += 1;
                Some("of the wrong person")
            }
            () => {
                scored.junk += 1;
                Some(if forbidden { "forbidden" } else { "not asked for" })
            }
        };
        if let Some(what) = what {
            let quote = fact.evidence.first().map_or("", |e| &e.quote);
            let about = fact.about.as_deref().map(|a| format!(" (of {a})")).unwrap_or_default();
            scored.problems.push(format!("{what}: {} = {}{about}, from {quote:?}", fact.key, fact.value));
        }
    }
    for expected in &case.expect {
        scored.expected += 1;
        if known.iter().any(|f| matches(f, expected, schema) && same_person(f, expected)) {
            scored.found += 1;
        } else {
            scored.problems.push(format!("missed: {} = {}", expected.key, expected.value));
        }
    }
    count_stale(case, facts, schema, &mut scored);
    count_unsafe(case, facts, &mut scored);
    scored
}

fn count_stale(case: &Case, facts: &[Arc<Fact>], schema: &KeySchema, scored: &mut Scored) {
    for (key, value) in &case.current {
        scored.dated += 1;
        let active: Vec<&Arc<Fact>> =
            facts.iter().filter(|f| f.key == *key && f.status == FactStatus::Active && f.about.is_none()).collect();
        if !(active.len() == 1 && same(active[0], value, schema)) {
            scored.stale += 1;
            scored.problems.push(format!("stale: {key} is not {value}"));
        }
    }
    // A value that was learned and taken back must be gone.
    for forbidden in &case.forbid {
        let of_it = || facts.iter().filter(|f| forbids(forbidden, f));
        if of_it().any(|f| f.seen > 0) && case.conversations.len() > 1 {
            scored.dated += 1;
            if of_it().any(|f| f.is_current()) {
                scored.stale += 1;
            }
        }
    }
}

fn count_unsafe(case: &Case, facts: &[Arc<Fact>], scored: &mut Scored) {
    let by_user: String = case
        .conversations
        .iter()
        .flat_map(|c| &c.messages)
        .filter(|m| m.role == "user")
        .map(|m| fold(&redact(m.text())).into_owned() + "\n")
        .collect();
    for fact in facts {
        if fact.evidence.iter().any(|e| !by_user.contains(&*fold(&e.quote))) {
            scored.loops += 1;
            scored.problems.push(format!("not the user's words: {} = {}", fact.key, fact.value));
        }
        let texts = fact.evidence.iter().map(|e| e.quote.clone()).chain([fact.value_text()]);
        if texts.into_iter().any(|text| *redact(&text) != text) || fact.value_text().contains("[redacted:") {
            scored.secrets += 1;
            scored.problems.push(format!("a secret: {}", fact.key));
        }
    }
}

/// Whether a fact says what is expected, of whomever.
fn matches(fact: &Fact, expected: &Expected, schema: &KeySchema) -> bool {
    same_key(&fact.key, &expected.key, schema) && same(fact, &expected.value, schema)
}

/// `preference.coffee` and `preference.drink`: the last word of an open family is a name that the proposer chose.
fn same_key(key: &str, expected: &str, schema: &KeySchema) -> bool {
    if key == expected {
        return true;
    }
    let family = |key: &str| schema.get(key).map(|rule| rule.name.as_str()).filter(|name| is_open(name));
    match expected.strip_suffix(".*") {
        Some(base) => key.strip_prefix(base).is_some_and(|rest| rest.starts_with('.')),
        None => family(key).is_some() && family(key) == family(expected),
    }
}

/// Families in which the last word only names the matter; that of `family.*` says who it is.
fn is_open(family: &str) -> bool {
    family.ends_with(".*") && family != "family.*"
}

/// Whether the value of a fact is the expected one, both in the form in which they are kept.
///
/// What is worded freely (open families, standing wishes) says the expected thing when it has all its words.
fn same(fact: &Fact, expected: &Value, schema: &KeySchema) -> bool {
    let rule = schema.get(&fact.key);
    let value_type = rule.map_or(ValueType::Text, |rule| rule.value_type);
    let wanted = text_of(expected);
    let said_at = fact.evidence.first().map_or(fact.said_at, |e| e.said_at);
    let wanted = kept(&wanted, value_type, said_at).unwrap_or(wanted);
    if same_value(&Value::String(fact.value_text()), &Value::String(wanted.clone())) {
        return true;
    }
    let free = rule.is_some_and(|rule| is_open(&rule.name) || !rule.facets.is_empty());
    free && has_all_words(&fact.value_text(), &wanted)
}

fn has_all_words(value: &str, wanted: &str) -> bool {
    let (value, wanted) = (value.to_lowercase(), wanted.to_lowercase());
    let words = |text: &str| -> Vec<String> {
        let words = text.split(|c: char| !c.is_alphanumeric()).filter(|w| !w.is_empty());
        words.filter(|w| !matches!(*w, "the" | "a" | "an" | "my")).map(str::to_owned).collect()
    };
    let (of_value, of_wanted) = (words(&value), words(&wanted));
    if wanted.is_ascii() {
        !of_wanted.is_empty() && of_wanted.iter().all(|w| of_value.contains(w))
    } else {
        value.contains(&wanted)
    }
}

fn same_person(fact: &Fact, expected: &Expected) -> bool {
    match (&fact.about, &expected.about) {
        (None, None) => true,
        (Some(a), Some(b)) => {
            let (a, b) = (a.to_lowercase(), b.to_lowercase());
            a.contains(&b) || b.contains(&a)
        }
        _ => false,
    }
}

fn forbids(forbidden: &Forbidden, fact: &Fact) -> bool {
    let by_value = forbidden.value.as_ref().is_none_or(|value| {
        same_value(value, &fact.value) || fact.value_text().to_lowercase().contains(&text_of(value).to_lowercase())
    });
    let by_key = forbidden
        .key
        .as_ref()
        .is_none_or(|key| *key == fact.key || key.strip_suffix('*').is_some_and(|head| fact.key.starts_with(head)));
    by_value && by_key
}

fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
