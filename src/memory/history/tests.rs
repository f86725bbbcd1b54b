//! Facts at a time, from hand-made histories and from random edits.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::base::SeededRandom;
use crate::memory::edit::{self, EditCx, FactPatch, NewFact};
use crate::memory::export::origin;
use crate::memory::import::{self, Target};
use crate::memory::merge::merge;
use crate::memory::{Actor, FactChange, KeySchema, Scope};

const START: Time = Time(1_700_000_000_000);
const STEP: i64 = 1000;

fn at(step: i64) -> Time {
    START.plus_millis(step * STEP)
}

/// A scope of one person, kept as a store keeps it.
struct Kept {
    facts: Vec<Arc<Fact>>,
    histories: Vec<Vec<HistoryEntry>>,
    random: SeededRandom,
}

impl Kept {
    fn new() -> Self {
        Self { facts: Vec::new(), histories: Vec::new(), random: SeededRandom::new(1) }
    }

    fn cx(&self, step: i64) -> EditCx<'_> {
        EditCx { now: at(step), ids: &self.random, actor: Actor::Operator }
    }

    fn write(&mut self, key: &str, value: &str, step: i64) {
        let new = NewFact { key: key.to_owned(), value: json!(value), ..NewFact::default() };
        if let Ok(done) = edit::created_by_api(&self.facts, &new, KeySchema::builtin(), &self.cx(step)) {
            self.take(&done.changes);
        }
    }

    fn patch(&mut self, place: usize, patch: &FactPatch, step: i64) {
        let Some(fact) = self.facts.get(place).cloned() else { return };
        if let Ok(changes) = edit::patch(&fact, &self.facts, patch, KeySchema::builtin(), &self.cx(step)) {
            self.take(&changes);
        }
    }

    fn restore(&mut self, place: usize, version: usize, step: i64) {
        let Some(fact) = self.facts.get(place).cloned() else { return };
        let Some(entry) = self.history_of(&fact).get(version).cloned() else { return };
        if let Ok(changes) = edit::restore(&fact, &self.facts, &entry, KeySchema::builtin(), &self.cx(step)) {
            self.take(&changes);
        }
    }

    fn merge(&mut self, from: usize, into: usize, step: i64) {
        let (Some(from), Some(into)) = (self.facts.get(from).cloned(), self.facts.get(into).cloned()) else { return };
        if let Ok(changes) = merge(&from, &into, &self.cx(step)) {
            self.take(&changes);
        }
    }

    fn history_of(&self, fact: &Fact) -> &[HistoryEntry] {
        let rows = self.histories.iter().find(|rows| rows[0].fact_id == fact.id);
        rows.map(Vec::as_slice).unwrap_or_default()
    }

    fn take(&mut self, changes: &[FactChange]) {
        for change in changes {
            let fact = change.fact.clone();
            let before = self.facts.iter().find(|f| f.id == fact.id).map(|f| f.value.clone());
            let entry = HistoryEntry {
                fact_id: fact.id,
                version: fact.version,
                action: change.action,
                actor: change.actor,
                reason: change.reason.clone(),
                exchange: change.exchange,
                at: change.at,
                fact: fact.clone(),
                previous_value: before,
            };
            match self.histories.iter_mut().find(|rows| rows[0].fact_id == fact.id) {
                Some(rows) => rows.push(entry),
                None => self.histories.push(vec![entry]),
            }
            match self.facts.iter_mut().find(|f| f.id == fact.id) {
                Some(old) => *old = Arc::new(fact),
                None => self.facts.push(Arc::new(fact)),
            }
        }
    }

    /// The values of a key that held, by what was known.
    fn values(&self, key: &str, as_of: Time, known_at: Time) -> Vec<String> {
        let held = self.histories.iter().filter_map(|rows| held(rows, as_of, known_at));
        held.filter(|fact| fact.key == key).map(|fact| fact.value_text()).collect()
    }
}

#[test]
fn a_replaced_value_was_true_until_it_was_replaced() {
    let mut kept = Kept::new();
    kept.write("location.home", "Oslo", 10);
    kept.write("location.home", "Rome", 20);
    let home = |as_of, known_at| kept.values("location.home", at(as_of), at(known_at));
    assert_eq!(home(5, 30), [""; 0], "nothing was true before it was said");
    assert_eq!(home(15, 30), ["Oslo"]);
    assert_eq!(home(20, 30), ["Rome"]);
    assert_eq!(home(25, 15), ["Oslo"], "then nobody knew better");
    assert_eq!(home(15, 5), [""; 0]);
}

#[test]
fn a_patched_value_holds_from_then_on_and_a_correction_all_along() {
    let mut kept = Kept::new();
    kept.write("location.home", "Oslo", 10);
    kept.patch(0, &FactPatch { value: Some(json!("Rome")), ..FactPatch::default() }, 20);
    assert_eq!(kept.values("location.home", at(15), at(30)), ["Oslo"]);
    assert_eq!(kept.values("location.home", at(25), at(30)), ["Rome"]);
    assert_eq!(kept.values("location.home", at(25), at(15)), ["Oslo"]);
    let correction = FactPatch { value: Some(json!("Bern")), valid_from: Some(at(10)), ..FactPatch::default() };
    kept.patch(0, &correction, 30);
    assert_eq!(kept.values("location.home", at(15), at(40)), ["Bern"]);
    assert_eq!(kept.values("location.home", at(15), at(29)), ["Oslo"], "what we knew then stays");
}

#[test]
fn what_was_told_of_the_past_is_true_of_the_past() {
    let mut kept = Kept::new();
    let new = NewFact { key: "work.role".into(), value: json!("nurse"), valid_from: Some(at(1)), ..NewFact::default() };
    let done = edit::created_by_api(&[], &new, KeySchema::builtin(), &kept.cx(50)).unwrap();
    kept.take(&done.changes);
    assert_eq!(kept.values("work.role", at(10), at(60)), ["nurse"]);
    assert_eq!(kept.values("work.role", at(10), at(40)), [""; 0], "it was not known yet");
    kept.patch(0, &FactPatch { valid_to: Some(at(30)), ..FactPatch::default() }, 60);
    assert_eq!(kept.values("work.role", at(29), at(70)), ["nurse"]);
    assert_eq!(kept.values("work.role", at(30), at(70)), [""; 0]);
}

#[test]
fn a_merged_fact_is_told_once() {
    let mut kept = Kept::new();
    kept.write("preference.food", "sushi", 10);
    kept.write("preference.meal", "sushi", 20);
    kept.merge(1, 0, 30);
    assert_eq!(kept.values("preference.food", at(25), at(40)), ["sushi"]);
    assert_eq!(kept.values("preference.meal", at(25), at(40)), [""; 0]);
    assert_eq!(kept.values("preference.meal", at(25), at(26)), ["sushi"]);
}

#[test]
fn a_clock_that_jumps_back_does_not_hide_the_newest_version() {
    let mut kept = Kept::new();
    kept.write("location.home", "Oslo", 50);
    kept.patch(0, &FactPatch { value: Some(json!("Rome")), ..FactPatch::default() }, 20);
    assert_eq!(kept.values("location.home", at(60), at(60)), ["Rome"]);
}

#[derive(Clone, Debug)]
enum Step {
    Write(usize, u8),
    Patch(usize, u8),
    Correct(usize, u8, i64),
    End(usize),
    Move(usize, usize),
    Restore(usize, usize),
    Merge(usize, usize),
}

const KEYS: [&str; 3] = ["location.home", "work.role", "diet.restriction"];

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..3_usize, 0..4_u8).prop_map(|(key, value)| Step::Write(key, value)),
        2 => (0..6_usize, 0..4_u8).prop_map(|(place, value)| Step::Patch(place, value)),
        1 => (0..6_usize, 0..4_u8, 0..20_i64).prop_map(|(place, value, from)| Step::Correct(place, value, from)),
        1 => (0..6_usize).prop_map(Step::End),
        1 => (0..6_usize, 0..3_usize).prop_map(|(place, key)| Step::Move(place, key)),
        1 => (0..6_usize, 0..4_usize).prop_map(|(place, version)| Step::Restore(place, version)),
        1 => (0..6_usize, 0..6_usize).prop_map(|(from, into)| Step::Merge(from, into)),
    ]
}

fn value(n: u8) -> Value {
    json!(format!("value {n}"))
}

fn run(kept: &mut Kept, step: &Step, now: i64) {
    match step {
        Step::Write(key, n) => kept.write(KEYS[*key], value(*n).as_str().unwrap(), now),
        Step::Patch(place, n) => {
            kept.patch(*place, &FactPatch { value: Some(value(*n)), ..FactPatch::default() }, now);
        }
        Step::Correct(place, n, from) => {
            let patch = FactPatch { value: Some(value(*n)), valid_from: Some(at(*from)), ..FactPatch::default() };
            kept.patch(*place, &patch, now);
        }
        Step::End(place) => kept.patch(*place, &FactPatch { valid_to: Some(at(now)), ..FactPatch::default() }, now),
        Step::Move(place, key) => {
            kept.patch(*place, &FactPatch { key: Some(KEYS[*key].into()), ..FactPatch::default() }, now);
        }
        Step::Restore(place, version) => kept.restore(*place, *version, now),
        Step::Merge(from, into) => kept.merge(*from, *into, now),
    }
}

proptest! {
    /// Issue 4: history replays to the current state, and what was current at any time is found again.
    #[test]
    fn history_replays_to_every_state_there_was(steps in prop::collection::vec(step(), 1..14)) {
        let mut kept = Kept::new();
        let mut were: Vec<(Time, Vec<(crate::base::FactId, Value)>)> = Vec::new();
        for (now, step) in (20_i64..).zip(&steps) {
            run(&mut kept, step, now);
            let present: Vec<Fact> = kept.facts.iter().map(|fact| Fact::clone(fact)).collect();
            prop_assert_eq!(replay(&kept.histories), present);
            for key in &KEYS[..2] {
                let current = kept.facts.iter().filter(|f| f.key == *key && f.status == FactStatus::Active);
                prop_assert!(current.count() <= 1, "{key} holds one value");
            }
            let holding = kept.facts.iter().filter(|f| f.is_current() && f.valid_from <= at(now));
            let mut holding: Vec<_> = holding.map(|f| (f.id, f.value.clone())).collect();
            holding.sort_by_key(|(id, _)| *id);
            were.push((at(now), holding));
        }
        // Exported and taken in where it came from, each history is the same, row by row.
        let scope = Scope::new("acme", "support", "ann");
        let target = Target::new(&scope, Some(&origin(&scope)), true);
        for rows in &kept.histories {
            let last = rows.last().expect("a fact has a history").fact.clone();
            let replayed = import::fact(&last, rows.clone(), KeySchema::builtin(), &target).expect("it was taken once");
            let replayed: Vec<_> = replayed.iter().map(|c| (&c.fact, c.action, c.actor, &c.reason, c.at)).collect();
            let were: Vec<_> = rows.iter().map(|r| (&r.fact, r.action, r.actor, &r.reason, r.at)).collect();
            prop_assert_eq!(replayed, were);
        }
        // By what was known then, each state is as it was.
        for (then, holding) in were {
            let found = kept.histories.iter().filter_map(|rows| held(rows, then, then));
            let mut found: Vec<_> = found.filter(Fact::is_current).map(|f| (f.id, f.value)).collect();
            found.sort_by_key(|(id, _)| *id);
            prop_assert_eq!(found, holding);
        }
    }
}
