//! Tombstones: what was deleted is known again by the hash of its words, without keeping the words.

use unicode_normalization::UnicodeNormalization;

use super::session::Tx;
use super::text::Sql;
use super::write::execute;
use crate::base::{Time, hex};
use crate::memory::Scope;
use crate::store::StoreError;

static LEAVE: Sql = Sql::new(
    "
    INSERT INTO tombstones (scope, hash, at) 
    SELECT CAST(value ->> 0 AS BIGINT), unhex(value ->> 1), CAST(value ->> 2 AS BIGINT) FROM each_row(?1) WHERE true
    ON CONFLICT (scope, hash) DO NOTHING",
);

/// Leaves tombstones in a scope.
pub(super) async fn leave(conn: &mut Tx, scope: i64, hashes: &[[u8; 32]], now: Time) -> Result<(), StoreError> {
    let stones: Vec<_> = hashes.iter().map(|hash| (scope, hex(hash), now)).collect();
    execute(conn, &LEAVE, "leave tombstones", &stones).await?;
    Ok(())
}

/// Hashes a text for one namespace. Equal words in another namespace have another hash, so that hashes tell nothing
/// across that wall.
pub(super) fn hash(salt: &[u8; 32], scope: &Scope, text: &str) -> [u8; 32] {
    *blake3::keyed_hash(&namespace_key(salt, scope), normalised(text).as_bytes()).as_bytes()
}

fn namespace_key(salt: &[u8; 32], scope: &Scope) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new_keyed(salt);
    // Length first: ("ab", "c") and ("a", "bc") are two namespaces.
    hasher.update(&(scope.tenant.len() as u64).to_le_bytes());
    hasher.update(scope.tenant.as_bytes());
    hasher.update(scope.namespace.as_bytes());
    *hasher.finalize().as_bytes()
}

/// Hashes a subject within its tenant.
pub(super) fn subject_hash(salt: &[u8; 32], tenant: &str, subject: &str) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new_keyed(salt);
    hasher.update(b"subject");
    hasher.update(&(tenant.len() as u64).to_le_bytes());
    hasher.update(tenant.as_bytes());
    hasher.update(subject.as_bytes());
    *hasher.finalize().as_bytes()
}

/// The words of a text: NFKC, lower-cased, white space folded, without marks at either end. "I  Moved." is "i moved".
fn normalised(text: &str) -> String {
    let folded: String = text.nfkc().flat_map(char::to_lowercase).collect();
    let trimmed = folded.trim_matches(|c: char| !c.is_alphanumeric());
    // A text of marks alone keeps them: else all such texts would be one.
    let kept = if trimmed.is_empty() { folded.as_str() } else { trimmed };
    kept.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_words_have_the_same_hash_however_they_are_set() {
        let scope = Scope::new("t", "n", "s");
        let hash = |text| hash(&[7; 32], &scope, text);
        assert_eq!(hash("I'm allergic to peanuts."), hash(" i'm  allergic\nto PEANUTS"));
        assert_eq!(hash("我住在上海。"), hash("我住在上海"));
        assert_eq!(hash("Ｒｏｍｅ"), hash("rome"));
        assert_ne!(hash("I moved to Rome"), hash("I moved to Oslo"));
        assert_ne!(hash("!!"), hash("??"));
    }

    #[test]
    fn each_namespace_has_its_own_hashes() {
        let salt = [7; 32];
        let a = hash(&salt, &Scope::new("ab", "c", "s"), "x");
        assert_ne!(a, hash(&salt, &Scope::new("a", "bc", "s"), "x"));
        assert_ne!(a, hash(&[8; 32], &Scope::new("ab", "c", "s"), "x"));
    }
}
