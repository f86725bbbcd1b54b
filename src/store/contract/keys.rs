//! Virtual keys.

use super::fixtures::NOW;
use crate::base::KeyId;
use crate::store::{KeyHash, Page, Store, StoredKey};

const FIRST: KeyHash = [1; 32];
const SECOND: KeyHash = [2; 32];

fn key(n: u128) -> StoredKey {
    StoredKey {
        id: KeyId(n),
        name: format!("key number {n}"),
        tenant: "acme".to_owned(),
        settings: "{\"models\":[\"small\"]}".to_owned(),
        created_at: NOW,
        expires_at: Some(NOW.plus_seconds(3_600)),
        revoked_at: None,
        last_used_at: None,
    }
}

pub(crate) async fn a_key_is_found_by_its_hash_alone(store: &dyn Store) {
    store.create_key(&key(1), &FIRST).await.unwrap();
    assert_eq!(store.key_by_hash(&FIRST).await.unwrap(), Some(key(1)));
    assert_eq!(store.key_by_hash(&SECOND).await.unwrap(), None);
    assert!(store.create_key(&key(2), &FIRST).await.is_err(), "one secret is one key");
    assert_eq!(store.list_keys(&Page::first(9)).await.unwrap(), [key(1)], "nothing of the second is left");
}

pub(crate) async fn keys_are_listed_in_order_and_by_page(store: &dyn Store) {
    for (n, secret) in [(2, SECOND), (1, FIRST)] {
        store.create_key(&key(n), &secret).await.unwrap();
    }
    assert_eq!(store.list_keys(&Page::first(1)).await.unwrap(), [key(1)]);
    let after = Page { after: Some(KeyId(1).to_string()), limit: 9 };
    assert_eq!(store.list_keys(&after).await.unwrap(), [key(2)]);
}

pub(crate) async fn a_rotated_key_has_two_secrets_until_the_old_one_ends(store: &dyn Store) {
    store.create_key(&key(1), &FIRST).await.unwrap();
    let until = NOW.plus_seconds(60);
    assert!(store.rotate_key(KeyId(1), &SECOND, NOW, until).await.unwrap());
    assert_eq!(store.key_by_hash(&FIRST).await.unwrap().unwrap().expires_at, Some(until));
    assert_eq!(store.key_by_hash(&SECOND).await.unwrap(), Some(key(1)));
    // Without overlap the old ones are gone at once.
    assert!(store.rotate_key(KeyId(1), &[3; 32], NOW, NOW).await.unwrap());
    assert_eq!(store.key_by_hash(&SECOND).await.unwrap(), None);
    assert_eq!(store.key_by_hash(&FIRST).await.unwrap(), None);
    assert!(!store.rotate_key(KeyId(9), &[4; 32], NOW, NOW).await.unwrap());
}

pub(crate) async fn a_key_is_revoked_once_and_stays_listed(store: &dyn Store) {
    store.create_key(&key(1), &FIRST).await.unwrap();
    assert!(store.revoke_key(KeyId(1), NOW).await.unwrap());
    assert!(!store.revoke_key(KeyId(1), NOW.plus_seconds(1)).await.unwrap());
    assert!(!store.rotate_key(KeyId(1), &SECOND, NOW, NOW).await.unwrap());
    assert_eq!(store.key_by_hash(&FIRST).await.unwrap().unwrap().revoked_at, Some(NOW));
    assert_eq!(store.list_keys(&Page::first(9)).await.unwrap()[0].revoked_at, Some(NOW));
}

pub(crate) async fn the_last_use_of_a_key_only_moves_forward(store: &dyn Store) {
    store.create_key(&key(1), &FIRST).await.unwrap();
    let later = NOW.plus_seconds(5);
    store.keys_used(&[(KeyId(1), later), (KeyId(9), later)]).await.unwrap();
    store.keys_used(&[(KeyId(1), NOW)]).await.unwrap();
    assert_eq!(store.key_by_hash(&FIRST).await.unwrap().unwrap().last_used_at, Some(later));
}

pub(crate) async fn what_ends_a_secret_is_a_new_revision_and_nothing_else_is(store: &dyn Store) {
    let first = store.keys_revision().await.unwrap();
    store.create_key(&key(1), &FIRST).await.unwrap();
    store.keys_used(&[(KeyId(1), NOW)]).await.unwrap();
    assert!(!store.rotate_key(KeyId(9), &SECOND, NOW, NOW).await.unwrap());
    assert_eq!(store.keys_revision().await.unwrap(), first);
    assert!(store.rotate_key(KeyId(1), &SECOND, NOW, NOW).await.unwrap());
    let second = store.keys_revision().await.unwrap();
    assert!(second > first);
    assert!(store.revoke_key(KeyId(1), NOW).await.unwrap());
    assert!(store.keys_revision().await.unwrap() > second);
}
