//! Turns of one scope decided one after the other, without anything being stored in between.

use std::sync::Arc;

use super::{Decide, DecideArgs, FactSource};
use crate::base::{EpisodeId, Time};
use crate::memory::{Fact, Scope, Turn};
use crate::store::Learned;

/// Turns of one scope, decided one on the result of the other.
pub(super) struct Chain<'a> {
    decide: &'a Decide,
    source: &'a dyn FactSource,
    scope: &'a Scope,
    now: Time,
}

impl<'a> Chain<'a> {
    pub(super) fn new(decide: &'a Decide, source: &'a dyn FactSource, scope: &'a Scope, now: Time) -> Self {
        Self { decide, source, scope, now }
    }

    /// Returns the decisions, one for each turn; `barred` says which texts may not be learned.
    pub(super) fn decide(
        &self,
        turns: &[&Turn],
        revision: i64,
        facts: &[Arc<Fact>],
        barred: &dyn Fn(&str) -> bool,
    ) -> Vec<Learned> {
        let mut revision = revision;
        let mut facts = facts.to_vec();
        let mut decided: Vec<Learned> = Vec::with_capacity(turns.len());
        for turn in turns {
            let mentioning = |value: &str| self.mentioning(value, &decided);
            let args = DecideArgs { turn, facts: &facts, revision, now: self.now, barred, mentioning: &mentioning };
            let learned = (self.decide)(args);
            revision += i64::from(changes_scope(&learned));
            follow(&mut facts, &learned);
            decided.push(learned);
        }
        decided
    }

    /// Stored episodes, and those decided on just now.
    fn mentioning(&self, value: &str, decided: &[Learned]) -> Vec<EpisodeId> {
        let mut found = self.source.mentioning(self.scope, value);
        let value = value.to_lowercase();
        let new = decided.iter().flat_map(|learned| &learned.episodes);
        found.extend(new.filter(|e| e.text.to_lowercase().contains(&value)).map(|e| e.id));
        found
    }
}

/// Whether storing it raises the scope's revision.
fn changes_scope(learned: &Learned) -> bool {
    !(learned.changes.is_empty() && learned.episodes.is_empty() && learned.marks.is_empty())
}

/// Brings a list of current facts to the state after `learned`.
fn follow(facts: &mut Vec<Arc<Fact>>, learned: &Learned) {
    for change in &learned.changes {
        facts.retain(|fact| fact.id != change.fact.id);
        if change.fact.is_current() {
            facts.push(Arc::new(change.fact.clone()));
        }
    }
}
