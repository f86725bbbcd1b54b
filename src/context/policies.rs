//! Whose policy holds: the configured one, changed by the model and then by the key.

use std::collections::HashMap;

use super::policy::{Overflow, Policy, Profile};

/// What a model or a key changes of the policy; `None` = it stays.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PolicyChanges {
    /// A cap beside all others: the tightest holds. 0 = none.
    pub max_input_tokens: Option<usize>,
    /// See [`Policy::memory_tokens`].
    pub memory_tokens: Option<usize>,
    /// See [`Policy::output_reserve`].
    pub output_reserve: Option<usize>,
    /// See [`Policy::low_water`].
    pub low_water: Option<f64>,
    /// See [`Policy::overflow`].
    pub overflow: Option<Overflow>,
    /// See [`Policy::profile`].
    pub profile: Option<Profile>,
    /// See [`Policy::sticky_tokens`].
    pub sticky_tokens: Option<usize>,
}

impl Policy {
    /// Returns the policy with changes laid over it. A cap is only ever lowered; all else is replaced.
    #[must_use]
    pub fn with(self, changes: &PolicyChanges) -> Self {
        Self {
            max_input_tokens: tighter(self.max_input_tokens, changes.max_input_tokens.unwrap_or(0)),
            memory_tokens: changes.memory_tokens.unwrap_or(self.memory_tokens),
            output_reserve: changes.output_reserve.or(self.output_reserve),
            low_water: changes.low_water.unwrap_or(self.low_water),
            overflow: changes.overflow.unwrap_or(self.overflow),
            profile: changes.profile.unwrap_or(self.profile),
            sticky_tokens: changes.sticky_tokens.unwrap_or(self.sticky_tokens),
            soft_mark: self.soft_mark,
            knowledge_share: self.knowledge_share,
        }
    }
}

/// The smaller of two caps, where 0 stands for none.
fn tighter(a: usize, b: usize) -> usize {
    match (a, b) {
        (0, cap) | (cap, 0) => cap,
        (a, b) => a.min(b),
    }
}

/// All policies: one for everyone, and what each configured model changes of it. What a key changes comes with the request.
#[derive(Clone, Debug, Default)]
pub struct Policies {
    base: Policy,
    models: HashMap<String, PolicyChanges>,
}

impl Policies {
    /// Puts them together; `models` by the name that clients ask for.
    #[must_use]
    pub fn new(base: Policy, models: HashMap<String, PolicyChanges>) -> Self {
        Self { base, models }
    }

    /// Returns the policy for a request: the key's word goes over the model's, since the key is who the traffic belongs to, and
    /// the model's over everyone's.
    #[must_use]
    pub fn of(&self, model: &str, key: &PolicyChanges) -> Policy {
        let policy = self.base.clone();
        let policy = match self.models.get(model) {
            Some(changes) => policy.with(changes),
            None => policy,
        };
        policy.with(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_goes_over_the_model_and_the_tightest_cap_holds() {
        let base = Policy { max_input_tokens: 900, ..Policy::default() };
        let model = PolicyChanges {
            max_input_tokens: Some(700),
            low_water: Some(0.5),
            memory_tokens: Some(0),
            ..PolicyChanges::default()
        };
        let policies = Policies::new(base.clone(), HashMap::from([("m".to_owned(), model)]));
        let key = PolicyChanges {
            max_input_tokens: Some(800),
            memory_tokens: Some(300),
            profile: Some(Profile::Task),
            ..PolicyChanges::default()
        };
        let both = policies.of("m", &key);
        assert_eq!((both.max_input_tokens, both.memory_tokens, both.low_water), (700, 300, 0.5));
        assert_eq!((both.profile, both.overflow), (Profile::Task, Overflow::Trim));
        assert_eq!(policies.of("other", &key).max_input_tokens, 800);
        assert_eq!(policies.of("other", &PolicyChanges::default()), base);
    }

    #[test]
    fn no_cap_is_no_cap_and_a_change_can_only_lower_one() {
        let capped = |a, b| {
            let changes = PolicyChanges { max_input_tokens: Some(b), ..PolicyChanges::default() };
            Policy { max_input_tokens: a, ..Policy::default() }.with(&changes).max_input_tokens
        };
        assert_eq!((capped(0, 0), capped(0, 5), capped(5, 0), capped(5, 9), capped(9, 5)), (0, 5, 5, 5, 5));
    }
}
