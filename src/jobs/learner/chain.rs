//! Turns of one scope decided one after the other, without anything being stored in between.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
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
    /// Texts of which it is known whether they are barred.
    pub(super) known: HashMap<String, bool>,
}

impl<'a> Chain<'a> {
    pub(super) fn new(decide: &'a Decide, source: &'a dyn FactSource, scope: &'a Scope, now: Time) -> Self {
        Self { decide, source, scope, now, known: HashMap::new() }
    }

    /// Returns the decisions, and the texts that were asked for and are not known; `assumed` was the answer for them.
    pub(super) fn decide(
        &self,
        turns: &[&Turn],
        revision: i64,
        facts: &[Arc<Fact>],
        assumed: bool,
    ) -> (Vec<Learned>, Vec<String>) {
        let unknown: RefCell<HashSet<String>> = RefCell::default();
        let barred = |text: &str| {
            self.known.get(text).copied().unwrap_or_else(|| {
                unknown.borrow_mut().insert(text.to_owned());
                assumed
            })
        };
        let mut revision = revision;
        let mut facts = facts.to_vec();
        let mut decided: Vec<Learned> = Vec::with_capacity(turns.len());
        for turn in turns {
            let mentioning = |value: &str| self.mentioning(value, &decided);
            let args =
                DecideArgs { turn, facts: &facts, revision, now: self.now, barred: &barred, mentioning: &mentioning };
            let learned = (self.decide)(args);
            revision += i64::from(changes_scope(&learned));
            follow(&mut facts, &learned);
            decided.push(learned);
        }
        (decided, unknown.into_inner().into_iter().collect())
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
