//! What people and apps do to facts through the memory API: pure builders of changes.

use std::sync::Arc;

use serde_json::Value;

use super::arbitrate::{ArbitrateCx, Arbitrated, Verdict, arbitrate};
use super::candidate::{Candidate, Intent, ProposedBy};
use super::change::{Action, Actor, FactChange, HistoryEntry};
use super::fact::{Cardinality, Evidence, Fact, FactStatus, SourceType};
use super::language::detect;
use super::normalise::{MAX_VALUE_CHARS, same_value, tidy};
use super::schema::{KeyRule, KeySchema, ValueType};
use super::turn::Speaker;
use crate::base::{Random, Time};

/// A fact as an app or an operator writes it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NewFact {
    /// The key; must be in the schema.
    pub key: String,
    /// The value: a string, a number or a boolean.
    pub value: Value,
    /// Free labels.
    pub tags: Vec<String>,
    /// Whom it is about, when not the subject.
    pub about: Option<String>,
    /// Since when it is true; now when not given.
    pub valid_from: Option<Time>,
    /// BCP 47 language of the value; guessed when not given.
    pub language: Option<String>,
}

/// What to change of a fact; what is `None` stays.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FactPatch {
    /// A new key: the fact is moved.
    pub key: Option<String>,
    /// A new value: from now on, or since `valid_from` where that is given.
    pub value: Option<Value>,
    /// New labels, in place of the old.
    pub tags: Option<Vec<String>>,
    /// Whom it is about; `Some(None)` = the subject.
    pub about: Option<Option<String>>,
    /// Since when it is true.
    pub valid_from: Option<Time>,
    /// Until when it was true: the fact is retired.
    pub valid_to: Option<Time>,
}

/// What an edit takes from outside.
#[derive(Clone, Copy, Debug)]
pub struct EditCx<'a> {
    /// Now.
    pub now: Time,
    /// Where new ids come from.
    pub ids: &'a dyn Random,
    /// `Api` or `Operator`.
    pub actor: Actor,
}

/// Why an edit cannot be done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// The key is not in the schema.
    #[error("unknown key `{key}`{}", did_you_mean(.near))]
    UnknownKey {
        /// The key.
        key: String,
        /// Names it may have meant.
        near: Vec<String>,
    },
    /// The value is not what the key holds.
    #[error("`{key}` cannot hold this value: {problem}")]
    BadValue {
        /// The key.
        key: String,
        /// What is wrong, and what is allowed.
        problem: String,
    },
    /// Only an operator may do it.
    #[error("the fact is {0}; only an operator may change it")]
    NotAllowed(&'static str),
    /// There is nothing to do.
    #[error("the change would change nothing")]
    Nothing,
    /// The two facts are not one.
    #[error("{0}")]
    CannotMerge(&'static str),
}

fn did_you_mean(near: &[String]) -> String {
    if near.is_empty() { String::new() } else { format!("; near it are {}", near.join(", ")) }
}

/// Builds the changes that write a fact. An existing value gives way only to a source that is at least as strong;
/// else the new one is contested.
///
/// # Errors
/// [`EditError::UnknownKey`], [`EditError::BadValue`], or [`EditError::Nothing`] when arbitration refuses.
pub fn created_by_api(
    existing: &[Arc<Fact>],
    input: &NewFact,
    schema: &KeySchema,
    cx: &EditCx<'_>,
) -> Result<Arbitrated, EditError> {
    let rule = rule_of(&input.key, schema)?;
    let value = checked_value(&input.key, &input.value, rule)?;
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let candidate = Candidate {
        key: input.key.clone(),
        kind: rule.kind,
        intent: Intent::State,
        source_type: if cx.actor == Actor::Operator { SourceType::Operator } else { SourceType::ApiResponse },
        confidence: 1.0,
        evidence: Evidence {
            exchange: None,
            message_hash: String::new(),
            quote: text.clone(),
            role: Speaker::Other,
            said_at: cx.now,
        },
        about: input.about.clone(),
        valid_from: input.valid_from,
        valid_to: None,
        lasting: true,
        tags: tags_for(rule, &input.tags, &text),
        entities: Vec::new(),
        language: input.language.clone().unwrap_or_else(|| detect(&text).to_owned()),
        by: ProposedBy::Api,
        value,
    };
    let mut inner = ArbitrateCx { now: cx.now, ids: cx.ids, actor: cx.actor, exchange: None };
    let decided = arbitrate(existing, &candidate, schema, &mut inner);
    match (decided.status, decided.changes.is_empty()) {
        (Verdict::Refused, _) if !rule.facets.is_empty() => Err(EditError::BadValue {
            key: input.key.clone(),
            problem: format!("one of its tags must be one of {}", rule.facets.join(", ")),
        }),
        (Verdict::Refused, _) | (_, true) => Err(EditError::Nothing),
        _ => Ok(decided),
    }
}

/// Builds the changes of a `PATCH`. The store checks the version.
///
/// # Errors
/// [`EditError`], also when only an operator may change the fact.
pub fn patch(
    fact: &Fact,
    existing: &[Arc<Fact>],
    patch: &FactPatch,
    schema: &KeySchema,
    cx: &EditCx<'_>,
) -> Result<Vec<FactChange>, EditError> {
    may_edit(fact, cx)?;
    let key = patch.key.as_ref().unwrap_or(&fact.key);
    let rule = rule_of(key, schema)?;
    let mut new = fact.clone();
    new.key.clone_from(key);
    if key != &fact.key {
        (new.cardinality, new.kind, new.half_life) = (rule.cardinality, rule.kind, rule.half_life);
        (new.critical, new.sensitivity) = (rule.critical, rule.sensitivity);
    }
    if let Some(value) = &patch.value {
        new.value = checked_value(key, value, rule)?;
    }
    if let Some(tags) = &patch.tags {
        new.tags = tags_for(rule, tags, &new.value_text());
    }
    if let Some(about) = &patch.about {
        new.about.clone_from(about);
    }
    if let Some(from) = patch.valid_from {
        new.valid_from = from;
    }
    if new == *fact && patch.valid_to.is_none() {
        return Err(EditError::Nothing);
    }
    if new.value != fact.value {
        // It is so from now on; with the old `valid_from` given again it is said to have been so all along.
        new.valid_from = patch.valid_from.unwrap_or(cx.now);
        new.source_type = if cx.actor == Actor::Operator { SourceType::Operator } else { SourceType::ApiResponse };
        new.source_confidence = new.source_type.starting_confidence();
        new.said_at = cx.now;
        new.confirmed_at = cx.now;
    }
    if let Some(to) = patch.valid_to {
        if fact.critical && cx.actor != Actor::Operator && fact.source_type == SourceType::Operator {
            return Err(EditError::NotAllowed("critical"));
        }
        new.valid_to = Some(to);
        if to <= cx.now {
            new.status = FactStatus::Superseded;
            new.retired_at = Some(cx.now);
        }
    } else if fact.status == FactStatus::Contested {
        new.status = FactStatus::Active;
    }
    let inner = cx.arbitrate_cx();
    let mut changes = Vec::new();
    if new.status == FactStatus::Active {
        make_room(&new, existing, rule, cx, &mut changes)?;
    }
    changes.push(inner.update(Action::Edit, new, fact.version, "edited"));
    Ok(changes)
}

/// Builds the changes by which a person says that a fact holds: it becomes `user_confirmed` and settles a contest.
///
/// # Errors
/// [`EditError::NotAllowed`] when it would retire a locked or an operator's fact and the caller is no operator.
pub fn confirm(
    fact: &Fact,
    existing: &[Arc<Fact>],
    schema: &KeySchema,
    cx: &EditCx<'_>,
) -> Result<Vec<FactChange>, EditError> {
    let rule = rule_of(&fact.key, schema)?;
    let mut new = fact.clone();
    if (new.source_type as u8) < SourceType::UserConfirmed as u8 {
        new.source_type = SourceType::UserConfirmed;
    }
    new.source_confidence = new.source_type.starting_confidence().max(new.source_confidence);
    new.confirmed_at = cx.now;
    new.said_at = cx.now;
    new.status = FactStatus::Active;
    new.retired_at = None;
    new.valid_to = None;
    new.tags.retain(|t| t != super::arbitrate::RETRACTED && t != super::arbitrate::RETRACTION);
    let mut changes = Vec::new();
    make_room(&new, existing, rule, cx, &mut changes)?;
    changes.push(cx.arbitrate_cx().update(Action::Confirm, new, fact.version, "confirmed"));
    Ok(changes)
}

/// Builds the change that locks or unlocks a fact.
///
/// # Errors
/// [`EditError::Nothing`] when it is so already.
pub fn lock(fact: &Fact, locked: bool, cx: &EditCx<'_>) -> Result<Vec<FactChange>, EditError> {
    if fact.locked == locked {
        return Err(EditError::Nothing);
    }
    let mut new = fact.clone();
    new.locked = locked;
    let (action, reason) = if locked { (Action::Lock, "locked") } else { (Action::Unlock, "unlocked") };
    Ok(vec![cx.arbitrate_cx().update(action, new, fact.version, reason)])
}

/// Builds the changes that bring back a fact as it was in `entry` of its history; `fact` is how it is now.
///
/// # Errors
/// [`EditError::NotAllowed`] and [`EditError::UnknownKey`], as for a patch.
pub fn restore(
    fact: &Fact,
    existing: &[Arc<Fact>],
    entry: &HistoryEntry,
    schema: &KeySchema,
    cx: &EditCx<'_>,
) -> Result<Vec<FactChange>, EditError> {
    may_edit(fact, cx)?;
    if fact.is_current() && entry.fact.key == fact.key && entry.fact.value == fact.value {
        return Err(EditError::Nothing);
    }
    let rule = rule_of(&entry.fact.key, schema)?;
    let mut new = entry.fact.clone();
    new.status = FactStatus::Active;
    new.retired_at = None;
    new.valid_to = None;
    new.locked = fact.locked;
    new.said_at = cx.now;
    new.confirmed_at = cx.now;
    new.source_type = if cx.actor == Actor::Operator { SourceType::Operator } else { SourceType::UserConfirmed };
    new.source_confidence = new.source_type.starting_confidence();
    new.tags.retain(|t| t != super::arbitrate::RETRACTED && t != super::arbitrate::RETRACTION);
    let mut changes = Vec::new();
    make_room(&new, existing, rule, cx, &mut changes)?;
    changes.push(cx.arbitrate_cx().update(Action::Restore, new, fact.version, "restored from its history"));
    Ok(changes)
}

/// Retires the current values that `new` takes the place of.
fn make_room(
    new: &Fact,
    existing: &[Arc<Fact>],
    rule: &KeyRule,
    cx: &EditCx<'_>,
    changes: &mut Vec<FactChange>,
) -> Result<(), EditError> {
    let facet = |f: &Fact| rule.facets.iter().find(|facet| f.tags.contains(facet)).cloned();
    let single = rule.cardinality == Cardinality::One || !rule.facets.is_empty();
    let rivals = existing.iter().filter(|f| {
        f.id != new.id
            && f.is_current()
            && f.key == new.key
            && f.about == new.about
            && facet(f) == facet(new)
            && (single || same_value(&f.value, &new.value))
    });
    for rival in rivals {
        may_edit(rival, cx)?;
        let mut old = Fact::clone(rival);
        old.status = FactStatus::Superseded;
        old.retired_at = Some(cx.now);
        old.valid_to = Some(cx.now);
        changes.push(cx.arbitrate_cx().update(Action::Supersede, old, rival.version, "another value was chosen"));
    }
    Ok(())
}

pub(super) fn may_edit(fact: &Fact, cx: &EditCx<'_>) -> Result<(), EditError> {
    match cx.actor {
        Actor::Operator => Ok(()),
        _ if fact.locked => Err(EditError::NotAllowed("locked")),
        _ if fact.source_type == SourceType::Operator => Err(EditError::NotAllowed("an operator's")),
        _ => Ok(()),
    }
}

fn rule_of<'a>(key: &str, schema: &'a KeySchema) -> Result<&'a KeyRule, EditError> {
    schema.get(key).ok_or_else(|| EditError::UnknownKey { key: key.to_owned(), near: schema.near(key) })
}

fn checked_value(key: &str, value: &Value, rule: &KeyRule) -> Result<Value, EditError> {
    let bad = |problem: String| EditError::BadValue { key: key.to_owned(), problem };
    match value {
        Value::String(text) => {
            if text.chars().count() > MAX_VALUE_CHARS * 4 {
                return Err(bad(format!("it is longer than {} characters", MAX_VALUE_CHARS * 4)));
            }
            let typed = matches!(rule.value_type, ValueType::Email | ValueType::Phone);
            match (typed, tidy(text, rule.value_type)) {
                (true, None) => Err(bad(format!("not a valid {}", rule.label))),
                (true, Some(value)) => Ok(Value::String(value)),
                (false, None) => Err(bad("it is empty".to_owned())),
                // An app's text is kept as it wrote it.
                (false, Some(_)) => Ok(Value::String(text.trim().to_owned())),
            }
        }
        Value::Number(_) | Value::Bool(_) => Ok(value.clone()),
        _ => Err(bad("a value is a string, a number or a boolean".to_owned())),
    }
}

/// The tags of a fact; where a key has facets, the one that its text speaks of.
fn tags_for(rule: &KeyRule, tags: &[String], text: &str) -> Vec<String> {
    let mut tags = tags.to_vec();
    if !rule.facets.is_empty()
        && !tags.iter().any(|t| rule.facets.contains(t))
        && let Some(facet) = super::propose::standing_facet(text)
    {
        tags.push(facet.to_owned());
    }
    tags
}

impl<'a> EditCx<'a> {
    pub(super) fn arbitrate_cx(&self) -> ArbitrateCx<'a> {
        ArbitrateCx { now: self.now, ids: self.ids, actor: self.actor, exchange: None }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::base::SeededRandom;

    const NOW: Time = Time(1_700_000_000_000);

    fn input(key: &str, value: Value) -> NewFact {
        NewFact { key: key.to_owned(), value, ..NewFact::default() }
    }

    fn cx(random: &SeededRandom, actor: Actor) -> EditCx<'_> {
        EditCx { now: NOW, ids: random, actor }
    }

    fn write(facts: &mut Vec<Arc<Fact>>, new: &NewFact, cx: &EditCx<'_>) -> Result<Arbitrated, EditError> {
        let decided = created_by_api(facts, new, KeySchema::builtin(), cx)?;
        apply(facts, &decided.changes);
        Ok(decided)
    }

    fn apply(facts: &mut Vec<Arc<Fact>>, changes: &[FactChange]) {
        for change in changes {
            facts.retain(|f| f.id != change.fact.id);
            facts.push(Arc::new(change.fact.clone()));
        }
    }

    #[test]
    fn an_unknown_key_names_near_ones() {
        let random = SeededRandom::new(1);
        let error = write(&mut Vec::new(), &input("diet.alergy", json!("kiwi")), &cx(&random, Actor::Api))
            .expect_err("unknown");
        assert!(matches!(&error, EditError::UnknownKey { near, .. } if near.contains(&"diet.allergy".to_owned())));
        assert!(error.to_string().contains("diet.allergy"));
    }

    #[test]
    fn values_are_checked_against_the_type_of_their_key() {
        let random = SeededRandom::new(1);
        for (key, value) in [
            ("contact.email", json!("nobody")),
            ("work.role", json!("  ")),
            ("work.role", json!(["a"])),
            ("work.role", json!("x".repeat(2000))),
            ("instruction.standing", json!("obey")),
        ] {
            let error = write(&mut Vec::new(), &input(key, value), &cx(&random, Actor::Api)).expect_err(key);
            assert!(matches!(error, EditError::BadValue { .. }), "{error}");
        }
        let fine =
            write(&mut Vec::new(), &input("instruction.standing", json!("answer in French")), &cx(&random, Actor::Api))
                .expect("in the set");
        assert_eq!(fine.changes[0].fact.tags, ["language"]);
    }

    #[test]
    fn an_app_never_overwrites_an_operator() {
        let random = SeededRandom::new(1);
        let mut facts = Vec::new();
        let operator =
            write(&mut facts, &input("work.role", json!("nurse")), &cx(&random, Actor::Operator)).expect("new");
        let fact = operator.changes[0].fact.clone();
        assert_eq!(fact.source_type, SourceType::Operator);
        let app = write(&mut facts, &input("work.role", json!("doctor")), &cx(&random, Actor::Api)).expect("contested");
        assert_eq!(app.status, Verdict::Contested);
        let patch_it = FactPatch { value: Some(json!("doctor")), ..FactPatch::default() };
        let refused = patch(&fact, &facts, &patch_it, KeySchema::builtin(), &cx(&random, Actor::Api));
        assert_eq!(refused, Err(EditError::NotAllowed("an operator's")));
        assert!(patch(&fact, &facts, &patch_it, KeySchema::builtin(), &cx(&random, Actor::Operator)).is_ok());
    }

    #[test]
    fn a_patch_changes_what_it_names_and_counts_the_version() {
        let random = SeededRandom::new(1);
        let mut facts = Vec::new();
        let fact = write(&mut facts, &input("location.home", json!("Oslo")), &cx(&random, Actor::Api))
            .expect("new")
            .changes[0]
            .fact
            .clone();
        let changes = patch(
            &fact,
            &facts,
            &FactPatch { value: Some(json!("Bergen")), ..FactPatch::default() },
            KeySchema::builtin(),
            &cx(&random, Actor::Api),
        )
        .expect("allowed");
        assert_eq!(
            (changes[0].action, changes[0].expected_version, changes[0].fact.version),
            (Action::Edit, Some(1), 2)
        );
        assert_eq!((changes[0].fact.id, changes[0].fact.value_text()), (fact.id, "Bergen".to_owned()));
        let nothing = patch(&fact, &facts, &FactPatch::default(), KeySchema::builtin(), &cx(&random, Actor::Api));
        assert_eq!(nothing, Err(EditError::Nothing));
    }

    #[test]
    fn confirming_a_contested_value_settles_the_contest() {
        let random = SeededRandom::new(1);
        let mut facts = Vec::new();
        write(&mut facts, &input("location.home", json!("Oslo")), &cx(&random, Actor::Api)).expect("new");
        let mut rival = Fact::clone(&facts[0]);
        rival.id = crate::base::FactId(7);
        rival.value = json!("Rome");
        rival.status = FactStatus::Contested;
        facts.push(Arc::new(rival.clone()));
        let changes = confirm(&rival, &facts, KeySchema::builtin(), &cx(&random, Actor::Api)).expect("allowed");
        apply(&mut facts, &changes);
        let current: Vec<_> =
            facts.iter().filter(|f| f.is_current()).map(|f| (f.value_text(), f.source_type)).collect();
        assert_eq!(current, [("Rome".to_owned(), SourceType::UserConfirmed)]);
    }

    #[test]
    fn a_locked_fact_is_for_operators_only_and_unlocks() {
        let random = SeededRandom::new(1);
        let mut facts = Vec::new();
        write(&mut facts, &input("location.home", json!("Oslo")), &cx(&random, Actor::Api)).expect("new");
        let changes = lock(&facts[0], true, &cx(&random, Actor::Operator)).expect("was not");
        apply(&mut facts, &changes);
        let locked = Arc::clone(&facts[0]);
        assert_eq!(lock(&locked, true, &cx(&random, Actor::Operator)), Err(EditError::Nothing));
        let edit = FactPatch { value: Some(json!("Rome")), ..FactPatch::default() };
        assert_eq!(
            patch(&locked, &facts, &edit, KeySchema::builtin(), &cx(&random, Actor::Api)),
            Err(EditError::NotAllowed("locked"))
        );
        assert_eq!(
            write(&mut facts, &input("location.home", json!("Rome")), &cx(&random, Actor::Api)).expect("stored").status,
            Verdict::Contested
        );
    }

    #[test]
    fn restoring_is_one_call() {
        let random = SeededRandom::new(1);
        let mut facts = Vec::new();
        let first = write(&mut facts, &input("location.home", json!("Oslo")), &cx(&random, Actor::Api))
            .expect("new")
            .changes[0]
            .clone();
        let changes = patch(
            &facts[0].clone(),
            &facts,
            &FactPatch { value: Some(json!("Rome")), ..FactPatch::default() },
            KeySchema::builtin(),
            &cx(&random, Actor::Api),
        )
        .expect("allowed");
        apply(&mut facts, &changes);
        let entry = HistoryEntry {
            fact_id: first.fact.id,
            version: 1,
            action: first.action,
            actor: first.actor,
            reason: String::new(),
            exchange: None,
            at: NOW,
            fact: first.fact.clone(),
            previous_value: None,
        };
        let changes = restore(&facts[0].clone(), &facts, &entry, KeySchema::builtin(), &cx(&random, Actor::Api))
            .expect("allowed");
        assert_eq!(
            (changes[0].fact.value_text(), changes[0].fact.version, changes[0].action),
            ("Oslo".to_owned(), 3, Action::Restore)
        );
    }
}
