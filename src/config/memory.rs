//! `[memory]`: how memories fade and run out.

use std::collections::BTreeMap;
use std::time::Duration;

use super::reader::Section;
use crate::memory::forget::ForgetRules;
use crate::memory::{FactKind, Fading, KeySchema, Schemas};

/// `[memory]`: how memories fade and run out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// What holds for every namespace without rules of its own.
    pub rules: MemoryRules,
    /// `[memory.namespaces.NAME]`: complete rules; what a table leaves out is as in `[memory]`.
    pub namespaces: BTreeMap<String, MemoryRules>,
}

/// Half-lives, times to live and capacities. A half-life orders memories, it removes none. `None` (0 in the file) = never, or no limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryRules {
    /// `fleeting_half_life_hours`: of intents of the moment.
    pub fleeting_half_life: Option<Duration>,
    /// `preference_half_life_days`, since last confirmed.
    pub preference_half_life: Option<Duration>,
    /// `identity_half_life_days`.
    pub identity_half_life: Option<Duration>,
    /// `constraint_half_life_days`.
    pub constraint_half_life: Option<Duration>,
    /// `event_half_life_days`.
    pub event_half_life: Option<Duration>,
    /// `other_half_life_days`.
    pub other_half_life: Option<Duration>,
    /// `episode_half_life_days`.
    pub episode_half_life: Option<Duration>,
    /// `inferred_ttl_days`: of facts that were concluded, not said, unless confirmed.
    pub inferred_ttl: Option<Duration>,
    /// `episode_ttl_days`.
    pub episode_ttl: Option<Duration>,
    /// `max_facts` of a scope; above it the least useful go first.
    pub max_facts: u32,
    /// `max_episodes` of a scope; above it the least useful go first.
    pub max_episodes: u32,
    /// `critical`: keys that are critical beside those of the key schema.
    pub critical: Vec<String>,
    /// `keys`: further keys, as the text of a schema; empty = none.
    pub keys: String,
}

const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;

impl Default for MemoryRules {
    fn default() -> Self {
        let days = |n| Some(Duration::from_secs(n * DAY));
        Self {
            fleeting_half_life: Some(Duration::from_secs(12 * HOUR)),
            preference_half_life: days(180),
            identity_half_life: None,
            constraint_half_life: None,
            event_half_life: days(90),
            other_half_life: days(180),
            episode_half_life: days(90),
            inferred_ttl: days(7),
            episode_ttl: None,
            max_facts: 10_000,
            max_episodes: 100_000,
            critical: Vec::new(),
            keys: String::new(),
        }
    }
}

impl Memory {
    pub(super) fn read(s: &mut Section<'_>) -> Self {
        let rules = MemoryRules::read(s, MemoryRules::default());
        let namespaces = s.named_tables("namespaces", |s| MemoryRules::read(s, rules.clone()));
        Self { rules, namespaces: namespaces.into_iter().collect() }
    }

    /// The keys of each namespace, with what is configured for them.
    #[must_use]
    pub fn schemas(&self) -> Schemas {
        let of = |rules: &MemoryRules| (rules.schema(), rules.fading());
        let namespaces = self.namespaces.iter().map(|(name, rules)| (name.clone(), of(rules)));
        Schemas::new(of(&self.rules), namespaces.collect())
    }

    /// The rules of a namespace.
    #[must_use]
    pub fn of(&self, namespace: &str) -> &MemoryRules {
        self.namespaces.get(namespace).unwrap_or(&self.rules)
    }
}

impl MemoryRules {
    /// The built-in keys, and those that are added to them.
    #[must_use]
    pub fn schema(&self) -> KeySchema {
        let built_in = KeySchema::builtin();
        // Mistakes were reported where it was read.
        let added = (!self.keys.is_empty()).then(|| built_in.clone().with(&self.keys).ok()).flatten();
        added.unwrap_or_else(|| built_in.clone())
    }

    /// What is configured otherwise than by default holds for all facts of a kind; else the key schema says it, key by key.
    fn fading(&self) -> Fading {
        let default = Self::default();
        let kinds = [
            (FactKind::Preference, self.preference_half_life, default.preference_half_life),
            (FactKind::Identity, self.identity_half_life, default.identity_half_life),
            (FactKind::Constraint, self.constraint_half_life, default.constraint_half_life),
            (FactKind::Event, self.event_half_life, default.event_half_life),
            (FactKind::Other, self.other_half_life, default.other_half_life),
        ];
        let changed = kinds.into_iter().filter(|(_, ours, default)| ours != default);
        Fading {
            by_kind: changed.map(|(kind, ours, _)| (kind, seconds(ours))).collect(),
            fleeting: seconds(self.fleeting_half_life),
            episode: seconds(self.episode_half_life),
            critical: self.critical.clone(),
        }
    }

    /// Times to live and capacities, as the sweep takes them.
    #[must_use]
    pub fn forget(&self) -> ForgetRules {
        let millis = |time: Option<Duration>| time.map(|time| seconds(Some(time)).saturating_mul(1000));
        ForgetRules {
            inferred_ttl: millis(self.inferred_ttl),
            episode_ttl: millis(self.episode_ttl),
            max_facts: self.max_facts as usize,
            max_episodes: self.max_episodes as usize,
        }
    }

    fn read(s: &mut Section<'_>, default: Self) -> Self {
        let mut time = |key, unit: u64, default| {
            s.whole(key, 0..=36_500).map_or(default, |n| (n > 0).then(|| Duration::from_secs(n * unit)))
        };
        Self {
            fleeting_half_life: time("fleeting_half_life_hours", HOUR, default.fleeting_half_life),
            preference_half_life: time("preference_half_life_days", DAY, default.preference_half_life),
            identity_half_life: time("identity_half_life_days", DAY, default.identity_half_life),
            constraint_half_life: time("constraint_half_life_days", DAY, default.constraint_half_life),
            event_half_life: time("event_half_life_days", DAY, default.event_half_life),
            other_half_life: time("other_half_life_days", DAY, default.other_half_life),
            episode_half_life: time("episode_half_life_days", DAY, default.episode_half_life),
            inferred_ttl: time("inferred_ttl_days", DAY, default.inferred_ttl),
            episode_ttl: time("episode_ttl_days", DAY, default.episode_ttl),
            max_facts: s.count("max_facts", 1..=1_000_000).unwrap_or(default.max_facts),
            max_episodes: s.count("max_episodes", 1..=10_000_000).unwrap_or(default.max_episodes),
            critical: s.names("critical").unwrap_or(default.critical),
            keys: read_keys(s).unwrap_or(default.keys),
        }
    }
}

fn read_keys(s: &mut Section<'_>) -> Option<String> {
    let text = s.text("keys")?;
    match KeySchema::builtin().clone().with(&text) {
        Ok(_) => Some(text),
        // The value is a whole file: the mistakes name the keys.
        Err(problems) => {
            problems.into_iter().for_each(|problem| s.wrong_secret("keys", problem));
            None
        }
    }
}

/// Seconds; 0 = never.
fn seconds(time: Option<Duration>) -> i64 {
    time.map_or(0, |time| i64::try_from(time.as_secs()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_configured_is_as_the_key_schema_says() {
        let memory = Memory::default();
        let schemas = memory.schemas();
        for rule in KeySchema::builtin().rules() {
            let ours =
                schemas.of("any").get(&rule.name).or_else(|| schemas.of("any").get(&rule.name.replace('*', "x")));
            let ours = ours.expect("the same keys");
            assert_eq!((ours.half_life, ours.critical), (rule.half_life, rule.critical), "{}", rule.name);
        }
    }

    #[test]
    fn what_is_configured_holds_for_its_namespace() {
        let day = |n| Some(Duration::from_secs(n * DAY));
        let strict = MemoryRules {
            other_half_life: day(3),
            critical: vec!["project.tool".to_owned()],
            ..MemoryRules::default()
        };
        let memory = Memory { namespaces: BTreeMap::from([("support".to_owned(), strict)]), ..Memory::default() };
        let schemas = memory.schemas();
        let tool = |namespace: &str| {
            let rule = schemas.of(namespace).get("project.tool").expect("a key");
            (rule.half_life, rule.critical)
        };
        assert_eq!(tool("support"), (3 * 86_400, true));
        assert_eq!(tool("sales"), (365 * 86_400, false));
        assert_eq!(memory.of("support").forget().inferred_ttl, Some(7 * 86_400_000));
    }
}
