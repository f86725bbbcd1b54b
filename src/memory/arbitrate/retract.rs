//! Taking back: "I sold the car", "I am no longer allergic to …", "forget my address".

use std::sync::Arc;

use super::standing::{Statement, rank, resettle};
use super::{ArbitrateCx, Arbitrated, RETRACTED, RETRACTION, accepted, is_marker, new_fact, push_evidence, text_of};
use crate::base::FactId;
use crate::memory::candidate::{Candidate, Intent, ProposedBy};
use crate::memory::change::{Action, FactChange};
use crate::memory::fact::{Fact, FactStatus, SourceType};
use crate::memory::normalise::{names_the_same, same_value};
use crate::memory::schema::KeyRule;
use crate::memory::turn::Speaker;

pub(super) fn retract(
    group: &[&Arc<Fact>],
    candidate: &Candidate,
    said: Statement,
    rule: &KeyRule,
    cx: &ArbitrateCx<'_>,
) -> Arbitrated {
    let whole_key = candidate.value.is_null();
    let text = text_of(&candidate.value);
    let explicit = candidate.by == ProposedBy::Rules && candidate.evidence.role == Speaker::User && !whole_key;
    let mut changes = Vec::new();
    let mut held = None;
    let mut retired = None;
    let hit = |f: &&Arc<Fact>| f.is_current() && (whole_key || names_the_same(&text, &f.value_text()));
    for fact in group.iter().copied().filter(hit) {
        if fact.locked || Statement::strongest(fact).rank > said.rank {
            held.get_or_insert(("a stronger source holds it", fact.id));
        } else if rule.critical && !explicit {
            held.get_or_insert(("critical: only its own retraction by the user, or a person, ends it", fact.id));
        } else if said.said >= Statement::strongest(fact).said {
            retired.get_or_insert(fact.id);
            take_back(fact, candidate, said, cx, &mut changes);
        }
    }
    if let Some((reason, fact)) = held
        && retired.is_none()
    {
        return Arbitrated::contested(reason, Some(fact));
    }
    let reason = if candidate.intent == Intent::Forget { "forgotten on request" } else { "taken back by the user" };
    // A retired fact says by itself that its value was taken back; the whole key, or other words for the value, need a row of their own.
    let told = changes.iter().any(|c| same_value(&c.fact.value, &candidate.value));
    let may_mark = said.rank >= rank(SourceType::UserConfirmed) && (!rule.critical || explicit);
    let mut fact = retired;
    if may_mark && !told {
        let marked = mark(group, candidate, rule, cx, reason, &mut changes);
        fact = fact.or(marked);
    }
    let Some(fact) = fact else {
        return Arbitrated::refused("nothing of this kind is known", None);
    };
    if retired.is_none() {
        return accepted(changes, "nothing of this kind was known; an older statement stays out", fact);
    }
    resettle(group, &mut changes, rule, cx);
    accepted(changes, reason, fact)
}

/// Writes down that something was taken back which is not (yet) known: an older statement may still be on its way.
fn mark(
    group: &[&Arc<Fact>],
    candidate: &Candidate,
    rule: &KeyRule,
    cx: &ArbitrateCx<'_>,
    reason: &str,
    changes: &mut Vec<FactChange>,
) -> Option<FactId> {
    let said_at = candidate.evidence.said_at;
    let known = group.iter().find(|f| is_marker(f) && same_value(&f.value, &candidate.value));
    let (mut marker, version) = match known {
        Some(known) if known.valid_to >= Some(said_at) => return None,
        Some(known) => (Fact::clone(known), Some(known.version)),
        None => (new_fact(candidate, rule, cx, FactStatus::Superseded), None),
    };
    if version.is_none() {
        marker.tags.push(RETRACTION.to_owned());
    }
    marker.retired_at = Some(cx.now);
    marker.valid_to = Some(said_at);
    let id = marker.id;
    changes.push(match version {
        Some(version) => cx.update(Action::Retire, marker, version, reason),
        None => cx.insert(Action::Retire, marker, reason),
    });
    Some(id)
}

/// Retires one fact. When it was also stated after the retraction (which arrived late), that later statement stays.
fn take_back(fact: &Fact, candidate: &Candidate, said: Statement, cx: &ArbitrateCx<'_>, changes: &mut Vec<FactChange>) {
    let reason = if candidate.intent == Intent::Forget { "forgotten on request" } else { "taken back by the user" };
    let mut gone = fact.clone();
    gone.status = FactStatus::Superseded;
    gone.retired_at = Some(cx.now);
    gone.valid_to = Some(candidate.evidence.said_at);
    gone.tags.push(RETRACTED.to_owned());
    if Statement::last(fact).said <= said.said {
        push_evidence(&mut gone.evidence, &candidate.evidence);
        changes.push(cx.update(Action::Retire, gone, fact.version, reason));
        return;
    }
    let mut stays = fact.clone();
    stays.source_type =
        if rank(fact.source_type) > rank(SourceType::UserStated) { SourceType::UserStated } else { fact.source_type };
    stays.source_confidence = stays.source_type.starting_confidence();
    stays.said_at = fact.confirmed_at;
    stays.valid_from = fact.confirmed_at;
    changes.push(cx.update(Action::Reinforce, stays, fact.version, "taken back, and said again since"));
    gone.id = FactId::generate(cx.now, cx.ids);
    gone.confirmed_at = fact.said_at;
    changes.push(cx.insert(Action::Retire, gone, reason));
}
