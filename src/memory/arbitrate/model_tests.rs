//! What a model's proposals can never do.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::base::SeededRandom;
use crate::memory::fact::{FactKind, Sensitivity};

const KEYS: [&str; 4] = ["location.home", "preference.tea", "diet.allergy", "instruction.standing"];
const VALUES: [&str; 4] = ["Oslo", "Rome", "green", "answer in French"];

fn standing(n: u128, key: &str, value: &str, source: SourceType, locked: bool) -> Fact {
    let rule = KeySchema::builtin().get(key).unwrap();
    Fact {
        id: FactId(n),
        key: key.to_owned(),
        value: json!(value),
        kind: FactKind::Other,
        cardinality: rule.cardinality,
        source_type: source,
        source_confidence: source.starting_confidence(),
        score: 0.9,
        half_life: 0,
        valid_from: Time(0),
        valid_to: None,
        said_at: Time(0),
        confirmed_at: Time(0),
        seen: 1,
        recorded_at: Time(0),
        retired_at: None,
        status: FactStatus::Active,
        locked,
        sensitivity: Sensitivity::Normal,
        critical: rule.critical,
        tags: if rule.facets.is_empty() { Vec::new() } else { vec!["language".to_owned()] },
        evidence: Vec::new(),
        language: "en".to_owned(),
        about: None,
        supersedes: None,
        version: 1,
    }
}

prop_compose! {
    /// Anything that a model may propose, whatever it calls it.
    fn proposal()(
        key in prop::sample::select(&KEYS[..]),
        value in prop::sample::select(&VALUES[..]),
        intent in prop::sample::select(vec![Intent::State, Intent::Change, Intent::Retract, Intent::Forget]),
        source in prop::sample::select(vec![
            SourceType::Inferred, SourceType::UserStated, SourceType::UserConfirmed, SourceType::Operator,
        ]),
        confidence in 0.0..1.0_f64,
        at in -10..10_i64,
        exchange in 1..4_u128,
        whole_key in any::<bool>(),
    ) -> Candidate {
        let taking_back = matches!(intent, Intent::Retract | Intent::Forget);
        let evidence = Evidence {
            exchange: Some(ExchangeId(exchange)),
            message_hash: String::new(),
            quote: format!("{value} {at}"),
            role: Speaker::User,
            said_at: Time(at),
        };
        let value = if taking_back && whole_key { serde_json::Value::Null } else { json!(value) };
        Candidate {
            intent,
            source_type: source,
            confidence,
            tags: vec!["language".to_owned()],
            by: ProposedBy::Model,
            ..Candidate::stated(key, value, evidence)
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_proposals_of_a_model_retire_what_an_operator_wrote_or_the_user_confirmed(
        proposals in prop::collection::vec(proposal(), 1..25),
        source in prop::sample::select(vec![SourceType::UserConfirmed, SourceType::Operator]),
        locked in any::<bool>(),
    ) {
        let random = SeededRandom::new(3);
        let first = KEYS.iter().zip(VALUES).zip(1..).map(|((key, value), n)| Arc::new(standing(n, key, value, source, locked)));
        let mut facts: Vec<Arc<Fact>> = first.collect();
        for candidate in &proposals {
            let mut cx = ArbitrateCx { now: Time(100), ids: &random, actor: Actor::Model, exchange: None };
            for change in arbitrate(&facts, candidate, KeySchema::builtin(), &mut cx).changes {
                facts.retain(|fact| fact.id != change.fact.id);
                facts.push(Arc::new(change.fact));
            }
        }
        for n in 1..=4 {
            let fact = facts.iter().find(|fact| fact.id == FactId(n)).unwrap();
            prop_assert_eq!(fact.status, FactStatus::Active, "{}", &fact.key);
            prop_assert_eq!(&fact.value, &json!(VALUES[n as usize - 1]));
        }
    }
}
