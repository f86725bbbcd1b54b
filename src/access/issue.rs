//! Making virtual keys: a secret is shown once, its hash is stored.

use std::time::Duration;

use super::fingerprint;
use crate::base::{Clock, KeyId, Random, Secret};
use crate::store::{KeyStore, StoreError, StoredKey};

/// What a secret of ours begins with, so that people and scanners know it when they see it.
pub const KEY_PREFIX: &str = "bsk-";
/// Random bits of a secret, in groups of 64.
const WORDS: usize = 4;
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// A key to be made.
#[derive(Clone, Debug)]
pub struct NewKey {
    /// What people call it.
    pub name: String,
    /// Whose it is.
    pub tenant: String,
    /// What it may do: a JSON object of the settings of a `[[keys]]` table, checked by the caller.
    pub settings: String,
    /// After what time it ends by itself.
    pub lifetime: Option<Duration>,
}

/// Makes a key and stores it. The secret is not kept: whoever gets it here must show it.
///
/// # Errors
/// The store cannot be written.
pub async fn create(
    store: &(impl KeyStore + ?Sized),
    clock: &dyn Clock,
    random: &dyn Random,
    new: NewKey,
) -> Result<(StoredKey, Secret), StoreError> {
    let now = clock.now();
    let key = StoredKey {
        id: KeyId::generate(now, random),
        name: new.name,
        tenant: new.tenant,
        settings: new.settings,
        created_at: now,
        expires_at: new.lifetime.map(|lifetime| now.plus_seconds(seconds(lifetime))),
        revoked_at: None,
        last_used_at: None,
    };
    let secret = secret(random);
    store.create_key(&key, &fingerprint(secret.expose())).await?;
    Ok((key, secret))
}

/// Gives a key a new secret; the old one goes on being good for `overlap`. `None` when there is no such key, or it was
/// revoked.
///
/// # Errors
/// The store cannot be written.
pub async fn rotate(
    store: &(impl KeyStore + ?Sized),
    clock: &dyn Clock,
    random: &dyn Random,
    id: KeyId,
    overlap: Duration,
) -> Result<Option<Secret>, StoreError> {
    let now = clock.now();
    let secret = secret(random);
    let old_until = now.plus_seconds(seconds(overlap));
    let done = store.rotate_key(id, &fingerprint(secret.expose()), now, old_until).await?;
    Ok(done.then_some(secret))
}

fn seconds(time: Duration) -> i64 {
    i64::try_from(time.as_secs()).unwrap_or(i64::MAX)
}

/// 256 random bits, in Crockford's base 32.
fn secret(random: &dyn Random) -> Secret {
    let mut text = KEY_PREFIX.to_owned();
    for _ in 0..WORDS {
        let mut word = random.next_u64();
        // 13 digits carry 65 bits.
        for _ in 0..13 {
            text.push(char::from(ALPHABET[(word & 31) as usize]));
            word >>= 5;
        }
    }
    Secret::from(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{ManualClock, SeededRandom, Time};
    use crate::store::sql::{SqlStore, SqliteOptions};

    #[tokio::test]
    async fn a_key_is_shown_once_and_only_its_hash_is_kept() {
        let store = SqlStore::sqlite(SqliteOptions::default()).await.unwrap();
        let (clock, random) = (ManualClock::new(Time(1_760_000_000_000)), SeededRandom::new(7));
        let new = NewKey {
            name: "app".to_owned(),
            tenant: "acme".to_owned(),
            settings: "{}".to_owned(),
            lifetime: Some(Duration::from_secs(60)),
        };
        let (key, secret) = create(&store, &clock, &random, new).await.unwrap();
        assert!(secret.expose().starts_with(KEY_PREFIX) && secret.expose().len() == 56);
        assert_eq!(store.key_by_hash(&fingerprint(secret.expose())).await.unwrap(), Some(key.clone()));
        assert_eq!(key.expires_at, Some(key.created_at.plus_seconds(60)));

        let second = rotate(&store, &clock, &random, key.id, Duration::ZERO).await.unwrap().unwrap();
        assert_ne!(second.expose(), secret.expose());
        assert_eq!(store.key_by_hash(&fingerprint(secret.expose())).await.unwrap(), None);
        assert!(rotate(&store, &clock, &random, KeyId(1), Duration::ZERO).await.unwrap().is_none());
    }
}
