//! Arbitration: the only place where a proposal changes facts. A pure function of facts, proposal and schema.
//!
//! A fact stands for the statements of one value. Each statement has a *rank* (how far its source is trusted) and a time
//! *said*. A fact keeps two of them: the strongest (`source_type`, `said_at`) and the last (`confirmed_at`, at most of rank
//! `user_stated`). For a key of one value:
//!
//! - a statement **dominates** another one when its rank is at least as high and it was said later;
//! - a fact is current while one of its statements is dominated by none of another value;
//! - of the current ones the strongest is `active`, the others are `contested`: weaker, but said later.
//!
//! Which statements dominate which does not depend on the order in which they arrive, so neither does the result.
//! A retracted fact stays, tagged [`RETRACTED`], and goes on dominating: an older value does not come back in its place,
//! and an older statement that arrives late is seen to be taken back. Locked facts are dominated by nothing, critical ones only by an operator.

#[cfg(test)]
mod model_tests;
mod retract;
mod standing;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use retract::retract;
use standing::{Statement, is_dominated, rank, resettle, settle, superseded};

use super::candidate::{Candidate, Intent, ProposedBy};
use super::change::{Action, Actor, FactChange};
use super::fact::{Cardinality, Evidence, Fact, FactStatus, SourceType};
use super::normalise::{names_the_same, same_value};
use super::schema::{KeyRule, KeySchema};
use super::turn::Speaker;
use crate::base::{ExchangeId, FactId, Random, Time};

/// Tag of a fact that was taken back, as opposed to replaced.
pub const RETRACTED: &str = "retracted";

/// Tag of a row that only says that something was taken back which we had not (yet) heard of.
pub const RETRACTION: &str = "retraction";

/// So many pieces of evidence are kept for one fact: the first and the newest.
const MAX_EVIDENCE: usize = 6;

/// A statement that is less sure than this counts as inferred, whoever made it.
const LOW_CONFIDENCE: f64 = 0.5;

/// What arbitration takes from outside.
#[derive(Debug)]
pub struct ArbitrateCx<'a> {
    /// Now.
    pub now: Time,
    /// Where new ids come from.
    pub ids: &'a dyn Random,
    /// Who makes the change.
    pub actor: Actor,
    /// The exchange that it rests on.
    pub exchange: Option<ExchangeId>,
}

/// How a proposal ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It holds (or its history was written down).
    Accepted,
    /// Nothing changed.
    Refused,
    /// It disagrees with something stronger and waits.
    Contested,
}

/// What arbitration decided.
#[derive(Clone, Debug)]
pub struct Arbitrated {
    /// The changes, each with the version it expects.
    pub changes: Vec<FactChange>,
    /// How the proposal ended.
    pub status: Verdict,
    /// Why, in a short sentence for people.
    pub reason: String,
    /// The fact that now holds the proposed value, or was retired.
    pub fact: Option<FactId>,
}

impl Arbitrated {
    fn refused(reason: &str, fact: Option<FactId>) -> Self {
        Self { changes: Vec::new(), status: Verdict::Refused, reason: reason.to_owned(), fact }
    }

    fn contested(reason: &str, fact: Option<FactId>) -> Self {
        Self { changes: Vec::new(), status: Verdict::Contested, reason: reason.to_owned(), fact }
    }
}

/// Decides what a proposal does to the facts of its key. `existing` should hold superseded facts as well: a statement that
/// arrives late is placed by them.
#[must_use]
pub fn arbitrate(
    existing: &[Arc<Fact>],
    candidate: &Candidate,
    schema: &KeySchema,
    cx: &mut ArbitrateCx<'_>,
) -> Arbitrated {
    let Some(rule) = schema.get(&candidate.key) else {
        return Arbitrated::refused("the key is not in the schema", None);
    };
    let facet = facet_of(rule, &candidate.tags);
    if !rule.facets.is_empty() && facet.is_none() && matches!(candidate.intent, Intent::State | Intent::Change) {
        return Arbitrated::refused("not one of the things that this key may hold", None);
    }
    let group: Vec<&Arc<Fact>> = existing
        .iter()
        .filter(|f| f.key == candidate.key && same_about(f.about.as_deref(), candidate.about.as_deref()))
        .filter(|f| !matches!(f.status, FactStatus::Quarantined | FactStatus::Expired))
        .filter(|f| facet.is_none() || facet_of(rule, &f.tags) == facet || f.value.is_null())
        .collect();
    let said = Statement::of(candidate);
    match candidate.intent {
        Intent::State | Intent::Change => state(&group, candidate, said, rule, cx),
        Intent::Retract | Intent::Forget => retract(&group, candidate, said, rule, cx),
    }
}

/// The source that a candidate counts as: an explicit change counts as confirmed, but never on a model's word alone.
#[must_use]
pub fn effective_source(candidate: &Candidate) -> SourceType {
    let explicit = candidate.intent != Intent::State && candidate.evidence.role == Speaker::User;
    match (candidate.by, candidate.source_type) {
        (ProposedBy::Model, source) if rank(source) > rank(SourceType::UserStated) => SourceType::UserStated,
        (_, SourceType::UserStated) if candidate.confidence < LOW_CONFIDENCE => SourceType::Inferred,
        (ProposedBy::Rules, SourceType::UserStated) if explicit => SourceType::UserConfirmed,
        (_, source) => source,
    }
}

fn facet_of<'a>(rule: &'a KeyRule, tags: &[String]) -> Option<&'a str> {
    rule.facets.iter().find(|facet| tags.contains(facet)).map(String::as_str)
}

/// Whether two facts are about the same person.
fn same_about(a: Option<&str>, b: Option<&str>) -> bool {
    match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) => super::normalise::same_text(a, b),
        _ => false,
    }
}

fn is_marker(fact: &Fact) -> bool {
    fact.tags.iter().any(|t| t == RETRACTION)
}

fn is_retracted(fact: &Fact) -> bool {
    fact.tags.iter().any(|t| t == RETRACTED)
}

fn state(
    group: &[&Arc<Fact>],
    candidate: &Candidate,
    said: Statement,
    rule: &KeyRule,
    cx: &ArbitrateCx<'_>,
) -> Arbitrated {
    // The same words from the same exchange, decided twice (a job that ran again), are one statement.
    let exchange = candidate.evidence.exchange;
    let same = group.iter().copied().find(|f| f.is_current() && same_value(&f.value, &candidate.value));
    if exchange.is_some()
        && let Some(fact) = same
        && fact.evidence.iter().any(|e| e.exchange == exchange && e.quote == candidate.evidence.quote)
    {
        return Arbitrated::refused("already known from these words", Some(fact.id));
    }
    let single = rule.cardinality == Cardinality::One || !rule.facets.is_empty();
    let others: &[&Arc<Fact>] = if single { group } else { &[] };
    if taken_back(group, candidate, said) {
        let mut fact = new_fact(candidate, rule, cx, FactStatus::Superseded);
        fact.tags.push(RETRACTED.to_owned());
        fact.retired_at = Some(cx.now);
        fact.valid_to = taken_back_at(group, candidate);
        let id = fact.id;
        // Before it was taken back it took the place of what was older: that does not come back.
        let mut changes = Vec::new();
        for rival in others.iter().filter(|f| f.is_current() && !same_value(&f.value, &fact.value)) {
            if is_dominated(rival, &fact, true, rule) {
                changes.push(cx.update(
                    Action::Supersede,
                    superseded(rival, &fact, cx),
                    rival.version,
                    "a newer value took its place",
                ));
            }
        }
        resettle(group, &mut changes, rule, cx);
        changes.push(cx.insert(Action::Insert, fact, "taken back since"));
        return accepted(changes, "taken back since", id);
    }
    let mut subject = match same {
        Some(fact) => reinforced(fact, candidate, said),
        None => new_fact(candidate, rule, cx, FactStatus::Active),
    };
    let standing = settle(others, &mut subject, rule, cx);
    let mut changes = standing.changes;
    let id = subject.id;
    let (action, reason) = match (same, subject.status, standing.replaced) {
        (Some(old), FactStatus::Active, _) if rank(subject.source_type) > rank(old.source_type) => {
            (Action::Confirm, "said again, explicitly")
        }
        (Some(_), ..) => (Action::Reinforce, "said again"),
        (None, FactStatus::Superseded, _) => (Action::Insert, "said before the present value"),
        (None, FactStatus::Contested, _) => (Action::Contest, "disagrees with a stronger value"),
        (None, _, Some(old)) => {
            subject.supersedes = Some(old);
            (
                Action::Supersede,
                if candidate.intent == Intent::Change { "changed by the user" } else { "a newer value" },
            )
        }
        (None, ..) => (Action::Insert, "a new fact"),
    };
    let status = if subject.status == FactStatus::Contested { Verdict::Contested } else { Verdict::Accepted };
    changes.push(match same {
        Some(old) => cx.update(action, subject, old.version, reason),
        None => cx.insert(action, subject, reason),
    });
    Arbitrated { changes, status, reason: reason.to_owned(), fact: Some(id) }
}

/// Whether a retraction that we know of came after this statement.
fn taken_back(group: &[&Arc<Fact>], candidate: &Candidate, said: Statement) -> bool {
    taken_back_at(group, candidate).is_some_and(|at| candidate.evidence.said_at < at)
        && said.rank <= rank(SourceType::UserConfirmed)
}

fn taken_back_at(group: &[&Arc<Fact>], candidate: &Candidate) -> Option<Time> {
    let text = text_of(&candidate.value);
    group
        .iter()
        .filter(|f| is_retracted(f) || is_marker(f))
        .filter(|f| f.value.is_null() || names_the_same(&f.value_text(), &text))
        .filter_map(|f| f.valid_to)
        .max()
}

/// The fact after one more statement of its value.
fn reinforced(fact: &Fact, candidate: &Candidate, said: Statement) -> Fact {
    let mut fact = fact.clone();
    let strongest = Statement::strongest(&fact);
    if (said.rank, said.said) > (strongest.rank, strongest.said) {
        if said.rank > strongest.rank {
            fact.source_type = effective_source(candidate);
            fact.source_confidence = confidence_of(candidate).max(fact.source_confidence);
        }
        fact.said_at = candidate.evidence.said_at;
    }
    // A guess refreshes nothing: only what was said or written counts as a confirmation.
    if said.rank >= rank(SourceType::UserStated).min(strongest.rank) {
        fact.confirmed_at = fact.confirmed_at.max(candidate.evidence.said_at);
    }
    fact.valid_from = fact.valid_from.min(candidate.valid_from.unwrap_or(candidate.evidence.said_at));
    fact.seen = fact.seen.saturating_add(1);
    fact.score = fact.score.max(candidate.confidence.clamp(0.0, 1.0));
    for tag in &candidate.tags {
        if !fact.tags.contains(tag) {
            fact.tags.push(tag.clone());
        }
    }
    push_evidence(&mut fact.evidence, &candidate.evidence);
    fact
}

fn push_evidence(all: &mut Vec<Evidence>, new: &Evidence) {
    if all.len() >= MAX_EVIDENCE {
        // The first stays: it says where the fact came from.
        all.remove(1);
    }
    all.push(new.clone());
}

fn confidence_of(candidate: &Candidate) -> f64 {
    match effective_source(candidate) {
        source @ (SourceType::FileUpload | SourceType::Inferred) => {
            source.starting_confidence().min(candidate.confidence.clamp(0.0, 1.0))
        }
        source => source.starting_confidence(),
    }
}

fn new_fact(candidate: &Candidate, rule: &KeyRule, cx: &ArbitrateCx<'_>, status: FactStatus) -> Fact {
    let said_at = candidate.evidence.said_at;
    Fact {
        id: FactId::generate(cx.now, cx.ids),
        key: candidate.key.clone(),
        value: candidate.value.clone(),
        kind: candidate.kind,
        cardinality: rule.cardinality,
        source_type: effective_source(candidate),
        source_confidence: confidence_of(candidate),
        score: candidate.confidence.clamp(0.0, 1.0),
        half_life: rule.half_life,
        valid_from: candidate.valid_from.unwrap_or(said_at),
        valid_to: candidate.valid_to,
        said_at,
        confirmed_at: said_at,
        seen: 1,
        recorded_at: cx.now,
        retired_at: None,
        status,
        locked: false,
        sensitivity: rule.sensitivity,
        critical: rule.critical,
        tags: candidate.tags.clone(),
        evidence: vec![candidate.evidence.clone()],
        language: candidate.language.clone(),
        about: candidate.about.clone(),
        supersedes: None,
        version: 1,
    }
}

fn accepted(changes: Vec<FactChange>, reason: &str, fact: FactId) -> Arbitrated {
    Arbitrated { changes, status: Verdict::Accepted, reason: reason.to_owned(), fact: Some(fact) }
}

fn text_of(value: &serde_json::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

impl ArbitrateCx<'_> {
    pub(super) fn insert(&self, action: Action, mut fact: Fact, reason: &str) -> FactChange {
        fact.version = 1;
        self.change(action, fact, None, reason)
    }

    pub(super) fn update(&self, action: Action, mut fact: Fact, expected: i64, reason: &str) -> FactChange {
        fact.version = expected + 1;
        self.change(action, fact, Some(expected), reason)
    }

    fn change(&self, action: Action, fact: Fact, expected_version: Option<i64>, reason: &str) -> FactChange {
        FactChange {
            action,
            fact,
            expected_version,
            actor: self.actor,
            reason: reason.to_owned(),
            exchange: self.exchange,
            at: self.now,
        }
    }
}
