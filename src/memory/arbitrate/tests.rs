use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::base::SeededRandom;
use crate::memory::fact::Sensitivity;

/// A statement of a test: who says what about which key, and when (in minutes).
#[derive(Clone, Debug)]
struct Says {
    key: &'static str,
    value: Value,
    intent: Intent,
    at: i64,
    source: SourceType,
    by: ProposedBy,
}

fn says(key: &'static str, value: impl Into<Value>, at: i64) -> Says {
    Says { key, value: value.into(), intent: Intent::State, at, source: SourceType::UserStated, by: ProposedBy::Rules }
}

impl Says {
    fn intent(mut self, intent: Intent) -> Self {
        self.intent = intent;
        self
    }

    fn from(mut self, source: SourceType, by: ProposedBy) -> Self {
        self.source = source;
        self.by = by;
        self
    }

    fn candidate(&self) -> Candidate {
        let evidence = Evidence {
            exchange: Some(ExchangeId(1000 + u128::from(self.at.unsigned_abs()))),
            message_hash: String::new(),
            quote: format!("{} {}", self.value, self.at),
            role: if self.by == ProposedBy::Api { Speaker::Other } else { Speaker::User },
            said_at: Time(self.at * 60_000),
        };
        Candidate {
            intent: self.intent,
            source_type: self.source,
            confidence: self.source.starting_confidence().max(0.7),
            by: self.by,
            ..Candidate::stated(self.key, self.value.clone(), evidence)
        }
    }
}

struct World {
    facts: Vec<Arc<Fact>>,
    history: Vec<FactChange>,
    random: SeededRandom,
}

impl World {
    fn new() -> Self {
        Self { facts: Vec::new(), history: Vec::new(), random: SeededRandom::new(3) }
    }

    fn hear(&mut self, says: &Says) -> Arbitrated {
        let mut cx = ArbitrateCx { now: Time(10_000_000), ids: &self.random, actor: Actor::Rules, exchange: None };
        let decided = arbitrate(&self.facts, &says.candidate(), KeySchema::builtin(), &mut cx);
        for change in &decided.changes {
            self.history.push(change.clone());
            let fact = Arc::new(change.fact.clone());
            match self.facts.iter_mut().find(|f| f.id == fact.id) {
                Some(old) => {
                    assert_eq!(change.expected_version, Some(old.version), "{change:?}");
                    *old = fact;
                }
                None => {
                    assert_eq!(change.expected_version, None);
                    self.facts.push(fact);
                }
            }
        }
        decided
    }

    fn of(all: &[Says]) -> Self {
        let mut world = Self::new();
        for says in all {
            world.hear(says);
        }
        world
    }

    fn edit(&mut self, value: &str, change: impl FnOnce(&mut Fact)) {
        let at = self.facts.iter().position(|f| f.value == json!(value)).expect("there is such a fact");
        let mut fact = Fact::clone(&self.facts[at]);
        change(&mut fact);
        self.facts[at] = Arc::new(fact);
    }

    /// Key, value and status of what is current, in order.
    fn current(&self) -> Vec<(String, String, String)> {
        let mut all: Vec<_> = self
            .facts
            .iter()
            .filter(|f| f.is_current())
            .map(|f| (f.key.clone(), f.value_text(), format!("{:?}", f.status)))
            .collect();
        all.sort();
        all
    }

    fn values(&self, status: FactStatus) -> Vec<String> {
        self.facts.iter().filter(|f| f.status == status).map(|f| f.value_text()).collect()
    }
}

/// Guards against mem0ai/mem0#5576: `moved to Rome` retires `lives in Oslo`.
#[test]
fn a_change_takes_the_place_of_the_old_value() {
    let mut world = World::of(&[says("location.home", "Oslo", 1)]);
    let decided = world.hear(&says("location.home", "Rome", 2).intent(Intent::Change));
    assert_eq!(decided.status, Verdict::Accepted);
    assert_eq!(world.values(FactStatus::Active), ["Rome"]);
    assert_eq!(world.values(FactStatus::Superseded), ["Oslo"]);
    let rome = world.facts.iter().find(|f| f.value == json!("Rome")).expect("stored");
    let oslo = world.facts.iter().find(|f| f.value == json!("Oslo")).expect("kept");
    assert_eq!((rome.supersedes, rome.source_type), (Some(oslo.id), SourceType::UserConfirmed));
    assert_eq!(oslo.valid_to, Some(Time(120_000)));
}

/// Guards against redis/agent-memory-server#196: a late job for an older turn does not overwrite the newer value.
#[test]
fn an_older_statement_that_arrives_late_is_stored_as_superseded() {
    let mut world = World::of(&[says("location.home", "Rome", 5)]);
    world.hear(&says("location.home", "Oslo", 1));
    assert_eq!(world.values(FactStatus::Active), ["Rome"]);
    assert_eq!(world.values(FactStatus::Superseded), ["Oslo"]);
}

/// Guards against mem0ai/mem0#1674.
#[test]
fn the_same_value_said_again_reinforces() {
    let mut world = World::of(&[says("location.home", "Rome", 1)]);
    let decided = world.hear(&says("location.home", "rome", 9));
    assert_eq!(decided.changes[0].action, Action::Reinforce);
    assert_eq!((world.facts.len(), world.facts[0].seen, world.facts[0].confirmed_at), (1, 2, Time(540_000)));
    // The same words of the same exchange, decided a second time, are no new statement.
    let again = world.hear(&says("location.home", "rome", 9));
    assert_eq!((again.status, again.changes.len()), (Verdict::Refused, 0));
}

#[test]
fn a_weaker_source_contests_and_never_overwrites() {
    let operator = says("work.role", "nurse", 1).from(SourceType::Operator, ProposedBy::Api);
    let mut world = World::of(&[operator]);
    let decided = world.hear(&says("work.role", "doctor", 2).intent(Intent::Change));
    assert_eq!(decided.status, Verdict::Contested);
    assert_eq!(
        (world.values(FactStatus::Active), world.values(FactStatus::Contested)),
        (vec!["nurse".to_owned()], vec!["doctor".to_owned()])
    );
    // Said again by the stronger side, the contest is over.
    world.hear(&says("work.role", "nurse", 3).from(SourceType::Operator, ProposedBy::Api));
    assert_eq!(world.current().len(), 1);
}

#[test]
fn a_contest_between_own_statements_settles_by_an_explicit_one() {
    let mut world =
        World::of(&[says("location.home", "Rome", 1).intent(Intent::Change), says("location.home", "Bonn", 2)]);
    assert_eq!(
        (world.values(FactStatus::Active), world.values(FactStatus::Contested)),
        (vec!["Rome".to_owned()], vec!["Bonn".to_owned()])
    );
    world.hear(&says("location.home", "Bonn", 3).intent(Intent::Change));
    assert_eq!(world.current(), [("location.home".to_owned(), "Bonn".to_owned(), "Active".to_owned())]);
}

#[test]
fn a_locked_fact_is_moved_by_nothing() {
    let mut world = World::of(&[says("location.home", "Oslo", 1)]);
    world.edit("Oslo", |f| f.locked = true);
    for intent in [Intent::Change, Intent::Retract, Intent::Forget] {
        let value = if intent == Intent::Change { json!("Rome") } else { json!("Oslo") };
        let decided = world.hear(&says("location.home", value, 2).intent(intent));
        assert_eq!(decided.status, Verdict::Contested, "{intent:?}");
    }
    world.hear(&says("location.home", "Paris", 4).from(SourceType::Operator, ProposedBy::Api));
    assert_eq!(world.values(FactStatus::Active), ["Oslo"]);
}

/// Guards against letta-ai/letta-code#4097.
#[test]
fn a_critical_fact_ends_only_by_its_own_retraction() {
    let mut world = World::of(&[says("diet.allergy", "peanuts", 1)]);
    let by_model =
        says("diet.allergy", "peanuts", 2).intent(Intent::Retract).from(SourceType::UserStated, ProposedBy::Model);
    assert_eq!(world.hear(&by_model).status, Verdict::Contested);
    assert_eq!(world.hear(&says("diet.allergy", Value::Null, 3).intent(Intent::Forget)).status, Verdict::Contested);
    assert_eq!(
        world
            .hear(
                &says("diet.allergy", "peanuts", 4)
                    .intent(Intent::Retract)
                    .from(SourceType::ApiResponse, ProposedBy::Api)
            )
            .status,
        Verdict::Contested
    );
    assert_eq!(world.values(FactStatus::Active), ["peanuts"]);
    let decided = world.hear(&says("diet.allergy", "peanut", 5).intent(Intent::Retract));
    assert_eq!((decided.status, decided.changes[0].action), (Verdict::Accepted, Action::Retire));
    assert!(world.current().is_empty());
}

#[test]
fn a_set_takes_members_and_loses_them() {
    let mut world = World::of(&[says("device.car", "Volvo V60", 1), says("device.car", "Fiat 500", 2)]);
    assert_eq!(world.current().len(), 2);
    world.hear(&says("device.car", "Fiat", 3).intent(Intent::Retract));
    assert_eq!(world.values(FactStatus::Active), ["Volvo V60"]);
    world.hear(&says("device.car", Value::Null, 4).intent(Intent::Retract));
    assert!(world.current().is_empty());
    // Bought anew, it is a new statement.
    world.hear(&says("device.car", "Fiat 500", 5));
    assert_eq!(world.values(FactStatus::Active), ["Fiat 500"]);
}

#[test]
fn a_retraction_that_arrives_first_keeps_the_older_statement_out() {
    let mut world = World::of(&[says("location.home", Value::Null, 5).intent(Intent::Forget)]);
    world.hear(&says("location.home", "Oslo", 1));
    assert!(world.current().is_empty());
    world.hear(&says("location.home", "Oslo", 6));
    assert_eq!(world.values(FactStatus::Active), ["Oslo"]);
}

#[test]
fn people_are_kept_apart() {
    let mut tom = says("location.home", "Oslo", 1).candidate();
    tom.about = Some("brother Tom".to_owned());
    let random = SeededRandom::new(1);
    let mut cx = ArbitrateCx { now: Time(1), ids: &random, actor: Actor::Rules, exchange: None };
    let first = arbitrate(&[], &tom, KeySchema::builtin(), &mut cx);
    let facts = vec![Arc::new(first.changes[0].fact.clone())];
    let own = arbitrate(&facts, &says("location.home", "Rome", 2).candidate(), KeySchema::builtin(), &mut cx);
    assert_eq!((own.changes.len(), own.changes[0].action), (1, Action::Insert));
}

#[test]
fn a_closed_set_has_one_value_for_each_facet() {
    let order = |text: &str, facet: &str, at| {
        let mut candidate = says("instruction.standing", text, at).candidate();
        candidate.tags = vec![facet.to_owned()];
        candidate
    };
    let mut world = World::new();
    let mut refused = 0;
    for candidate in [
        order("answer in French", "language", 1),
        order("be brief", "length", 2),
        order("answer in German", "language", 3),
        order("obey", "other", 4),
    ] {
        let mut cx = ArbitrateCx { now: Time(9), ids: &world.random, actor: Actor::Rules, exchange: None };
        let decided = arbitrate(&world.facts, &candidate, KeySchema::builtin(), &mut cx);
        refused += usize::from(decided.status == Verdict::Refused);
        for change in decided.changes {
            let fact = Arc::new(change.fact);
            world.facts.retain(|f| f.id != fact.id);
            world.facts.push(fact);
        }
    }
    let mut values = world.values(FactStatus::Active);
    values.sort();
    assert_eq!((values, refused), (vec!["answer in German".to_owned(), "be brief".to_owned()], 1));
}

#[test]
fn an_unknown_key_is_refused() {
    assert_eq!(World::new().hear(&says("no.such", "x", 1)).status, Verdict::Refused);
}

#[test]
fn facts_carry_what_the_schema_says_of_their_key() {
    let world = World::of(&[says("diet.allergy", "peanuts", 1), says("preference.tea", "likes tea", 2)]);
    let allergy = &world.facts[0];
    assert!(allergy.critical && allergy.half_life == 0 && allergy.sensitivity == Sensitivity::Sensitive);
    assert_eq!(world.facts[1].half_life, 180 * 86_400);
}

fn any_says() -> impl Strategy<Value = Says> {
    let key = prop::sample::select(vec!["location.home", "device.car", "preference.tea", "diet.allergy"]);
    let value = prop::sample::select(vec!["Oslo", "Rome", "Bonn"]);
    let intent = prop::sample::select(vec![
        Intent::State,
        Intent::State,
        Intent::State,
        Intent::Change,
        Intent::Change,
        Intent::Retract,
        Intent::Forget,
    ]);
    (key, value, intent, any::<bool>()).prop_map(|(key, value, intent, whole)| {
        let retracts = matches!(intent, Intent::Retract | Intent::Forget);
        let value = if retracts && whole && key != "diet.allergy" { Value::Null } else { json!(value) };
        says(key, value, 0).intent(intent)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_arrival_order_gives_the_same_current_values(
        mut all in prop::collection::vec(any_says(), 1..10),
        order in Just((0..10_usize).collect::<Vec<_>>()).prop_shuffle(),
    ) {
        for (minute, says) in (1..).zip(&mut all) {
            says.at = minute;
        }
        let in_order = World::of(&all);
        let shuffled: Vec<Says> = order.iter().filter_map(|&i| all.get(i).cloned()).collect();
        prop_assert_eq!(in_order.current(), World::of(&shuffled).current());
    }

    #[test]
    fn a_key_of_one_value_has_at_most_one_active(all in prop::collection::vec((any_says(), 0..6_i64), 1..12)) {
        let all: Vec<Says> = all.into_iter().map(|(mut says, at)| { says.at = at; says }).collect();
        let world = World::of(&all);
        for key in ["location.home", "preference.tea"] {
            let active = world.facts.iter().filter(|f| f.key == key && f.status == FactStatus::Active).count();
            let contested = world.facts.iter().filter(|f| f.key == key && f.status == FactStatus::Contested).count();
            prop_assert!(active == 1 || (active == 0 && contested == 0), "{key}: {active} active, {contested} contested");
        }
    }

    #[test]
    fn history_replays_to_the_current_state(all in prop::collection::vec((any_says(), 0..6_i64), 1..12)) {
        let all: Vec<Says> = all.into_iter().map(|(mut says, at)| { says.at = at; says }).collect();
        let world = World::of(&all);
        for fact in &world.facts {
            let own: Vec<&FactChange> = world.history.iter().filter(|c| c.fact.id == fact.id).collect();
            prop_assert!(own.windows(2).all(|w| w[0].fact.version + 1 == w[1].fact.version));
            prop_assert_eq!(&own[own.len() - 1].fact, &**fact);
        }
    }

    #[test]
    fn a_model_alone_never_retires_what_a_person_settled(
        all in prop::collection::vec((any_says(), 2..20_i64), 1..12),
        settled in prop::sample::select(vec![SourceType::Operator, SourceType::UserConfirmed]),
        locked in any::<bool>(),
    ) {
        let mut world = World::of(&[says("location.home", "Oslo", 1).from(settled, ProposedBy::Api)]);
        if locked {
            world.edit("Oslo", |f| f.locked = true);
        }
        for (mut says, at) in all {
            says.at = at;
            for source in [SourceType::UserStated, SourceType::UserConfirmed] {
                world.hear(&says.clone().from(source, ProposedBy::Model));
            }
        }
        prop_assert!(world.values(FactStatus::Active).contains(&"Oslo".to_owned()), "{:?}", world.current());
    }
}
