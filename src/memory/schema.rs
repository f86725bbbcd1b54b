//! The key schema: which keys there are, and what each of them means.
//!
//! Data, not code: the built-in default is `config/facts.toml`, whose head explains the form.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde::Deserialize;

use super::fact::{Cardinality, FactKind, Sensitivity};

const SECONDS_PER_DAY: i64 = 86_400;
/// A key longer than this is refused: keys are names, not texts.
const MAX_KEY_CHARS: usize = 80;

static BUILTIN: LazyLock<KeySchema> = LazyLock::new(|| {
    KeySchema::parse(include_str!("../../config/facts.toml"))
        .expect("the built-in schema is tested to be without fault")
});

/// All keys, by name.
#[derive(Clone, Debug)]
pub struct KeySchema {
    rules: Vec<KeyRule>,
    exact: HashMap<String, usize>,
    /// `family` for `family.*`.
    below: HashMap<String, usize>,
}

/// What one key, or every key below one, means.
#[derive(Clone, Debug)]
pub struct KeyRule {
    /// The name, without the `*` that means "many"; `family.*` stands for every name below.
    pub name: String,
    /// What to call it when it is shown.
    pub label: String,
    /// What its values look like.
    pub value_type: ValueType,
    /// Whether it holds one value or many.
    pub cardinality: Cardinality,
    /// What sort of thing it is.
    pub kind: FactKind,
    /// Seconds in which its weight halves; 0 = does not fade.
    pub half_life: i64,
    /// Retired only by an explicit retraction that names it, or by a person.
    pub critical: bool,
    /// Who may see it.
    pub sensitivity: Sensitivity,
    /// Whether it is shown in every conversation.
    pub profile: bool,
    /// The closed set of facets of which it holds one value each; empty for nearly all keys.
    pub facets: Vec<String>,
    /// What people call it.
    pub synonyms: Vec<String>,
}

/// What the values of a key look like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the names say it")]
pub enum ValueType {
    #[default]
    Text,
    Name,
    Place,
    Email,
    Phone,
    Date,
    Amount,
    Schedule,
    Language,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    label: Option<String>,
    #[serde(rename = "type", default)]
    value_type: ValueType,
    cardinality: Option<Cardinality>,
    kind: Option<FactKind>,
    #[serde(default)]
    half_life_days: i64,
    #[serde(default)]
    critical: bool,
    #[serde(default)]
    sensitivity: Sensitivity,
    #[serde(default)]
    profile: bool,
    #[serde(default)]
    facets: Vec<String>,
    #[serde(default)]
    synonyms: Vec<String>,
}

impl KeySchema {
    /// Returns the built-in schema.
    #[must_use]
    pub fn builtin() -> &'static Self {
        &BUILTIN
    }

    /// Reads a schema.
    ///
    /// # Errors
    /// All mistakes at once, each naming the key and what is allowed.
    pub fn parse(text: &str) -> Result<Self, Vec<String>> {
        Self { rules: Vec::new(), exact: HashMap::new(), below: HashMap::new() }.with(text)
    }

    /// The schema with further keys, in the form of a schema of their own. A key that is there already is a mistake: what is known under it
    /// would change its meaning.
    ///
    /// # Errors
    /// All mistakes at once, each naming the key and what is allowed.
    pub fn with(mut self, text: &str) -> Result<Self, Vec<String>> {
        let table: toml::Table = text.parse().map_err(|e: toml::de::Error| vec![e.to_string()])?;
        let mut problems: Vec<String> = table
            .keys()
            .filter(|k| *k != "keys")
            .map(|k| format!("unknown entry `{k}`: only [[keys]] is allowed"))
            .collect();
        let entries = match table.get("keys") {
            Some(toml::Value::Array(entries)) => entries.as_slice(),
            _ => &[],
        };
        if entries.is_empty() {
            problems.push("no [[keys]]: a schema needs at least one".to_owned());
        }
        for (index, entry) in entries.iter().enumerate() {
            let name = entry
                .get("name")
                .and_then(toml::Value::as_str)
                .map_or_else(|| format!("number {}", index + 1), str::to_owned);
            match entry.clone().try_into::<Entry>() {
                Ok(entry) => self.add(entry, &mut problems),
                Err(error) => problems.push(format!("key {name}: {}", error.message())),
            }
        }
        if problems.is_empty() { Ok(self) } else { Err(problems) }
    }

    fn add(&mut self, entry: Entry, problems: &mut Vec<String>) {
        let Entry { name, .. } = &entry;
        let (name, starred) = match name.strip_suffix('*') {
            Some(base) if base.ends_with('.') => (format!("{base}*"), true),
            Some(base) => (base.to_owned(), true),
            None => (name.clone(), false),
        };
        let below = name.strip_suffix(".*");
        if !is_key(below.unwrap_or(&name)) {
            problems
                .push(format!("key {}: a name is words of letters, digits, `_` and `-`, joined by dots", entry.name));
            return;
        }
        if entry.half_life_days < 0 {
            problems
                .push(format!("key {}: half_life_days = {}; it cannot be negative", entry.name, entry.half_life_days));
        }
        let index = self.rules.len();
        let clash = match below {
            Some(base) => self.below.insert(base.to_owned(), index),
            None => self.exact.insert(name.clone(), index),
        };
        if clash.is_some() {
            problems.push(format!("key {}: there are two of this name", entry.name));
        }
        self.rules.push(KeyRule {
            label: entry.label.unwrap_or_else(|| name.clone()),
            value_type: entry.value_type,
            cardinality: entry.cardinality.unwrap_or(if starred { Cardinality::Many } else { Cardinality::One }),
            kind: entry.kind.unwrap_or(FactKind::Other),
            half_life: entry.half_life_days.saturating_mul(SECONDS_PER_DAY),
            critical: entry.critical,
            sensitivity: entry.sensitivity,
            profile: entry.profile,
            facets: entry.facets,
            synonyms: entry.synonyms,
            name,
        });
    }

    /// Returns the rule of a key: its own, or that of the nearest `name.*` above it.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&KeyRule> {
        if let Some(&index) = self.exact.get(key) {
            return self.rules.get(index);
        }
        if !is_key(key) {
            return None;
        }
        let mut base = key;
        while let Some((above, _)) = base.rsplit_once('.') {
            if let Some(&index) = self.below.get(above) {
                return self.rules.get(index);
            }
            base = above;
        }
        None
    }

    /// The same keys, each rule changed by `change`; names stay as they are.
    #[must_use]
    pub fn map(mut self, change: impl Fn(&mut KeyRule)) -> Self {
        self.rules.iter_mut().for_each(change);
        self
    }

    /// Returns all rules, in the order of the file.
    #[must_use]
    pub fn rules(&self) -> &[KeyRule] {
        &self.rules
    }

    /// Returns the key that people call `words` ("address", "订单号"); a `name.*` counts as no key.
    #[must_use]
    pub fn called(&self, words: &str) -> Option<&str> {
        let words = words.to_lowercase();
        self.rules
            .iter()
            .find(|rule| !rule.name.ends_with('*') && rule.synonyms.contains(&words))
            .map(|rule| rule.name.as_str())
    }

    /// Returns at most five names that a wrong key may have meant, nearest first.
    #[must_use]
    pub fn near(&self, key: &str) -> Vec<String> {
        let wanted = key.to_lowercase();
        let (group, tail) = wanted.split_once('.').unwrap_or(("", &wanted));
        let mut scored: Vec<(usize, &str)> = Vec::new();
        for rule in &self.rules {
            let mut distance = edit_distance(&wanted, &rule.name);
            let (rule_group, rule_tail) = rule.name.split_once('.').unwrap_or(("", &rule.name));
            distance = distance.min(edit_distance(tail, rule_tail) + usize::from(group != rule_group));
            if group == rule_group {
                distance = distance.min(2);
            }
            if rule.synonyms.iter().any(|s| s == tail || *s == tail.replace('_', " ")) {
                distance = 0;
            }
            if distance <= 3 {
                scored.push((distance, &rule.name));
            }
        }
        scored.sort_unstable();
        scored.into_iter().take(5).map(|(_, name)| name.to_owned()).collect()
    }
}

/// Whether a text has the form of a key: words of letters, digits, `_` and `-`, joined by dots.
fn is_key(text: &str) -> bool {
    text.chars().count() <= MAX_KEY_CHARS
        && text
            .split('.')
            .all(|word| !word.is_empty() && word.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '-'))
}

/// Levenshtein's distance, in characters.
fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().take(MAX_KEY_CHARS).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().take(MAX_KEY_CHARS).enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let above = row[j + 1];
            row[j + 1] = (diagonal + usize::from(ca != *cb)).min(above + 1).min(row[j] + 1);
            diagonal = above;
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_schema_has_the_keys_of_the_design() {
        let schema = KeySchema::builtin();
        for key in [
            "identity.name",
            "identity.birthday",
            "identity.pronouns",
            "contact.email",
            "contact.phone",
            "location.home",
            "location.work",
            "language.preferred",
            "time.zone",
            "work.employer",
            "work.role",
            "family.sister",
            "diet.allergy",
            "diet.restriction",
            "health.condition",
            "health.medication",
            "preference.coffee",
            "preference.香菜",
            "instruction.standing",
            "project.package_manager",
            "device.phone",
            "order.id",
            "schedule.gym",
            "note.wifi",
        ] {
            assert!(schema.get(key).is_some(), "{key}");
        }
        assert!(schema.get("diet.allergy").is_some_and(|r| r.critical && r.cardinality == Cardinality::Many));
        assert!(schema.get("preference.tea").is_some_and(|r| r.cardinality == Cardinality::One));
        assert!(
            schema.get("instruction.other").is_none()
                && schema.get("note").is_none()
                && schema.get("note. x").is_none()
        );
    }

    #[test]
    fn an_unknown_key_names_its_neighbours() {
        let schema = KeySchema::builtin();
        assert_eq!(schema.near("identity.nam").first().map(String::as_str), Some("identity.name"));
        assert!(schema.near("diet.alergy").contains(&"diet.allergy".to_owned()));
        assert!(schema.near("user.address").contains(&"location.home".to_owned()));
        assert!(schema.near("zzzzzzzzzzzzzz").is_empty());
    }

    #[test]
    fn all_mistakes_are_told_at_once() {
        let text = "[[keys]]\nname = \"a.b\"\ncolour = 1\n[[keys]]\nname = \"c d\"\n[[keys]]\nname = \"x\"\n[[keys]]\nname = \"x*\"\n";
        let problems = KeySchema::parse(text).expect_err("three mistakes");
        assert_eq!(problems.len(), 3, "{problems:?}");
        assert!(problems[0].contains("a.b") && problems[1].contains("c d") && problems[2].contains("two of this name"));
    }
}
