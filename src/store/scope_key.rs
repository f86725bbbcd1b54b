//! A scope's three names as one key.

use crate::memory::Scope;

/// Stands for a scope wherever records are found by it: it stays the same when the subject's name is kept no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ScopeKey(pub [u8; 32]);

impl ScopeKey {
    /// The key of a scope. Lengths first: no two scopes write alike.
    #[must_use]
    pub fn of(scope: &Scope) -> Self {
        let mut hasher = blake3::Hasher::new();
        for name in [&scope.tenant, &scope.namespace, &scope.subject] {
            hasher.update(&(name.len() as u64).to_le_bytes());
            hasher.update(name.as_bytes());
        }
        Self(*hasher.finalize().as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_run_together_alike_have_keys_of_their_own() {
        let keys = [("ab", "c", "d"), ("a", "bc", "d"), ("a", "b", "cd"), ("ab", "c", "D")]
            .map(|(tenant, namespace, subject)| ScopeKey::of(&Scope::new(tenant, namespace, subject)));
        for (at, key) in keys.iter().enumerate() {
            assert!(keys[at + 1..].iter().all(|other| other != key));
        }
        assert_eq!(keys[0], ScopeKey::of(&Scope::new("ab", "c", "d")));
    }
}
