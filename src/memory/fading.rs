//! How fast memories fade, and which keys are critical, where an operator says otherwise than the key schema.

use std::collections::HashMap;
use std::sync::Arc;

use super::episode::Episode;
use super::fact::{Fact, FactKind};
use super::schema::KeySchema;

/// Tag of a fact that was meant for the moment only: it fades in hours, whatever its key says.
pub const FLEETING: &str = "fleeting";

/// Half-lives, in seconds; 0 = does not fade. What is `None` is as the key schema says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fading {
    /// Of facts by kind.
    pub by_kind: HashMap<FactKind, i64>,
    /// Of facts that are tagged [`FLEETING`].
    pub fleeting: i64,
    /// Of episodes.
    pub episode: i64,
    /// Keys that are critical beside those of the schema, by the names of their rules.
    pub critical: Vec<String>,
}

/// Key schemas by namespace, with what an operator changed in each.
#[derive(Clone, Debug)]
pub struct Schemas {
    others: (Fading, Arc<KeySchema>),
    by_namespace: HashMap<String, (Fading, Arc<KeySchema>)>,
}

impl Schemas {
    /// Keys, and how they fade. `others` holds where `by_namespace` names nothing.
    #[must_use]
    pub fn new(others: (KeySchema, Fading), by_namespace: HashMap<String, (KeySchema, Fading)>) -> Self {
        let tuned = |(keys, fading): (KeySchema, Fading)| {
            let schema = Arc::new(fading.schema(&keys));
            (fading, schema)
        };
        let by_namespace = by_namespace.into_iter().map(|(name, one)| (name, tuned(one))).collect();
        Self { others: tuned(others), by_namespace }
    }

    fn pair(&self, namespace: &str) -> &(Fading, Arc<KeySchema>) {
        self.by_namespace.get(namespace).unwrap_or(&self.others)
    }

    /// The keys of a namespace.
    #[must_use]
    pub fn of(&self, namespace: &str) -> &Arc<KeySchema> {
        &self.pair(namespace).1
    }

    /// How memories of a namespace fade.
    #[must_use]
    pub fn fading(&self, namespace: &str) -> &Fading {
        &self.pair(namespace).0
    }

    /// Gives a stored fact the half-life and the weight of its key as they are configured now.
    pub fn tune_fact(&self, namespace: &str, fact: &mut Fact) {
        let (fading, schema) = self.pair(namespace);
        if fact.tags.iter().any(|tag| tag == FLEETING) {
            fact.half_life = fading.fleeting;
        } else if let Some(half_life) = fading.by_kind.get(&fact.kind) {
            fact.half_life = *half_life;
        }
        if !fact.critical && !fading.critical.is_empty() {
            fact.critical = schema.get(&fact.key).is_some_and(|rule| rule.critical);
        }
    }

    /// The same for an episode.
    pub fn tune_episode(&self, namespace: &str, episode: &mut Episode) {
        episode.half_life = self.fading(namespace).episode;
    }
}

impl Fading {
    fn schema(&self, base: &KeySchema) -> KeySchema {
        base.clone().map(|rule| {
            if let Some(half_life) = self.by_kind.get(&rule.kind) {
                rule.half_life = *half_life;
            }
            rule.critical |= self.critical.contains(&rule.name);
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{SeededRandom, Time};
    use crate::memory::Actor;
    use crate::memory::edit::{EditCx, NewFact, created_by_api};

    fn built_in(fading: Fading) -> (KeySchema, Fading) {
        (KeySchema::builtin().clone(), fading)
    }

    fn fading() -> Fading {
        Fading { by_kind: HashMap::new(), fleeting: 43_200, episode: 100, critical: Vec::new() }
    }

    #[test]
    fn a_namespace_has_its_own_half_lives_and_critical_keys() {
        let strict = Fading {
            by_kind: HashMap::from([(FactKind::Preference, 60)]),
            critical: vec!["work.role".to_owned()],
            ..fading()
        };
        let schemas = Schemas::new(built_in(fading()), HashMap::from([("support".to_owned(), built_in(strict))]));
        let tea = |namespace: &str| schemas.of(namespace).get("preference.tea").unwrap().half_life;
        assert_eq!((tea("support"), tea("sales")), (60, 180 * 86_400));
        let role = |namespace: &str| schemas.of(namespace).get("work.role").unwrap().critical;
        assert!(role("support") && !role("sales"));
        assert!(schemas.of("sales").get("diet.allergy").unwrap().critical, "the schema's own stay");
    }

    #[test]
    fn what_is_stored_follows_what_is_configured_now() {
        let random = SeededRandom::new(1);
        let cx = EditCx { now: Time(0), ids: &random, actor: Actor::Api };
        let new = NewFact { key: "preference.tea".into(), value: "green".into(), ..NewFact::default() };
        let mut fact = created_by_api(&[], &new, KeySchema::builtin(), &cx).unwrap().changes[0].fact.clone();
        let minute = Fading { by_kind: HashMap::from([(FactKind::Preference, 60)]), ..fading() };
        let schemas = Schemas::new(built_in(fading()), HashMap::from([("fast".to_owned(), built_in(minute))]));
        schemas.tune_fact("slow", &mut fact);
        assert_eq!(fact.half_life, 180 * 86_400);
        schemas.tune_fact("fast", &mut fact);
        assert!((fact.weight(Time(60_000)) - fact.score / 2.0).abs() < 1e-9);
        fact.tags.push(FLEETING.to_owned());
        schemas.tune_fact("fast", &mut fact);
        assert_eq!(fact.half_life, 43_200);
    }
}
