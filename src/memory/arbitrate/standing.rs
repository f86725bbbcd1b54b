//! Which of several values of one key stands: statements, what dominates what, and the status that follows.

use std::sync::Arc;

use super::{ArbitrateCx, effective_source, is_marker, is_retracted};
use crate::base::{FactId, Time};
use crate::memory::candidate::Candidate;
use crate::memory::change::{Action, FactChange};
use crate::memory::fact::{Cardinality, Fact, FactStatus, SourceType};
use crate::memory::normalise::same_value;
use crate::memory::schema::KeyRule;

/// A point in the order of statements: how strong, and when.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Statement {
    pub(super) rank: u8,
    pub(super) said: (Time, u128),
}

impl Statement {
    pub(super) fn of(candidate: &Candidate) -> Self {
        let exchange = candidate.evidence.exchange.map_or(0, |e| e.0);
        Self { rank: rank(effective_source(candidate)), said: (candidate.evidence.said_at, exchange) }
    }

    /// The strongest statement of a fact.
    pub(super) fn strongest(fact: &Fact) -> Self {
        Self { rank: rank(fact.source_type), said: (fact.said_at, exchange_at(fact, fact.said_at)) }
    }

    /// The last statement of a fact. Its own rank is not kept; it counts no higher than that of a plain statement.
    pub(super) fn last(fact: &Fact) -> Self {
        Self {
            rank: rank(fact.source_type).min(rank(SourceType::UserStated)),
            said: (fact.confirmed_at, exchange_at(fact, fact.confirmed_at)),
        }
    }

    pub(super) fn dominates(self, other: Self, tie: bool) -> bool {
        self.rank >= other.rank && (self.said > other.said || (tie && self.said == other.said))
    }
}

pub(super) fn exchange_at(fact: &Fact, time: Time) -> u128 {
    fact.evidence.iter().rev().find(|e| e.said_at == time).and_then(|e| e.exchange).map_or(0, |e| e.0)
}

pub(super) fn rank(source: SourceType) -> u8 {
    source as u8
}

pub(super) struct Settled {
    pub(super) changes: Vec<FactChange>,
    pub(super) replaced: Option<FactId>,
}

/// Gives `subject` its status among the other facts of a key of one value, and the others theirs.
pub(super) fn settle(group: &[&Arc<Fact>], subject: &mut Fact, rule: &KeyRule, cx: &ArbitrateCx<'_>) -> Settled {
    let mut changes = Vec::new();
    let mut replaced = None;
    // Times are compared before values: a key may have a long history, all of it older than what is said now.
    let rival = |f: &Fact| f.id != subject.id && !is_marker(f) && !same_live(f, subject);
    let dominator = group.iter().copied().find(|f| is_dominated(subject, f, false, rule) && rival(f));
    if let Some(dominator) = dominator {
        subject.status = FactStatus::Superseded;
        subject.retired_at = Some(cx.now);
        subject.valid_to = Some(dominator.valid_from.max(subject.valid_from));
        return Settled { changes, replaced };
    }
    // Superseded facts stay as they are: whatever dominated them does so still.
    let mut standing: Vec<&Fact> = Vec::new();
    for rival in group.iter().copied().filter(|f| f.is_current() && rival(f)) {
        // Within one exchange what is said later comes later here: a tie goes to the newcomer.
        if is_dominated(rival, subject, true, rule) {
            let old = superseded(rival, subject, cx);
            replaced = match (replaced, rival.status) {
                (None, _) | (_, FactStatus::Active) => Some(rival.id),
                (found, _) => found,
            };
            changes.push(cx.update(Action::Supersede, old, rival.version, "a newer value took its place"));
        } else {
            standing.push(rival);
        }
    }
    let best = standing.iter().map(|f| strength(f)).max();
    let wins = best.is_none_or(|best| strength(subject) >= best);
    subject.status = if wins { FactStatus::Active } else { FactStatus::Contested };
    if wins {
        for rival in standing.iter().filter(|f| f.status == FactStatus::Active) {
            let mut old = Fact::clone(rival);
            old.status = FactStatus::Contested;
            changes.push(cx.update(Action::Contest, old, rival.version, "a stronger value disagrees with it"));
        }
    } else if !standing.iter().any(|f| f.status == FactStatus::Active)
        && let Some(rival) = standing.iter().max_by_key(|f| strength(f))
    {
        let mut active = Fact::clone(rival);
        active.status = FactStatus::Active;
        changes.push(cx.update(Action::Confirm, active, rival.version, "the strongest value that is left"));
    }
    Settled { changes, replaced }
}

pub(super) fn superseded(old: &Fact, by: &Fact, cx: &ArbitrateCx<'_>) -> Fact {
    let mut old = old.clone();
    old.status = FactStatus::Superseded;
    old.retired_at = Some(cx.now);
    old.valid_to = Some(by.valid_from.max(old.valid_from));
    old
}

pub(super) fn same_live(fact: &Fact, subject: &Fact) -> bool {
    !is_retracted(fact) && same_value(&fact.value, &subject.value)
}

/// Whether every statement of `fact` is dominated by one of `by`.
pub(super) fn is_dominated(fact: &Fact, by: &Fact, tie: bool, rule: &KeyRule) -> bool {
    if fact.locked || (rule.critical && fact.status != FactStatus::Superseded && by.source_type != SourceType::Operator)
    {
        return false;
    }
    if by.said_at.max(by.confirmed_at) < fact.said_at.max(fact.confirmed_at) {
        return false;
    }
    let points = [Statement::strongest(by), Statement::last(by)];
    let dominated = |s: Statement| points.iter().any(|p| p.dominates(s, tie));
    dominated(Statement::strongest(fact)) && dominated(Statement::last(fact))
}

/// After a retirement: the facts of a key of one value that are left find their places anew.
pub(super) fn resettle(group: &[&Arc<Fact>], changes: &mut Vec<FactChange>, rule: &KeyRule, cx: &ArbitrateCx<'_>) {
    if rule.cardinality == Cardinality::Many && rule.facets.is_empty() {
        return;
    }
    let untouched =
        group.iter().filter(|f| f.is_current() && !changes.iter().any(|c| c.fact.id == f.id)).map(|f| Fact::clone(f));
    let mut left: Vec<Fact> =
        untouched.chain(changes.iter().map(|c| c.fact.clone())).filter(Fact::is_current).collect();
    let beaten = |f: &Fact| {
        left.iter().any(|by| by.id != f.id && !same_value(&by.value, &f.value) && is_dominated(f, by, false, rule))
    };
    let beaten: Vec<FactId> = left.iter().filter(|f| beaten(f)).map(|f| f.id).collect();
    let standing = left.iter().filter(|f| !beaten.contains(&f.id));
    let best = standing.max_by_key(|f| strength(f)).map(|f| f.id);
    for fact in &mut left {
        let (status, action) = match () {
            () if beaten.contains(&fact.id) => (FactStatus::Superseded, Action::Supersede),
            () if best == Some(fact.id) => (FactStatus::Active, Action::Confirm),
            () => (FactStatus::Contested, Action::Contest),
        };
        if fact.status == status {
            continue;
        }
        fact.status = status;
        if status == FactStatus::Superseded {
            fact.retired_at = Some(cx.now);
            fact.valid_to = Some(fact.valid_from.max(cx.now.min(fact.confirmed_at)));
        }
        match changes.iter_mut().find(|c| c.fact.id == fact.id) {
            Some(change) => change.fact = fact.clone(),
            None => {
                changes.push(cx.update(action, fact.clone(), fact.version, "what it disagreed with was taken back"))
            }
        }
    }
}

/// How facts that stand side by side compare.
pub(super) fn strength(fact: &Fact) -> (bool, u8, (Time, u128)) {
    let strongest = Statement::strongest(fact);
    (fact.locked, strongest.rank, strongest.said)
}
