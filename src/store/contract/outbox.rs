//! The queue.

use super::fixtures::*;
use crate::base::{ExchangeId, Time};
use crate::store::{JobFailure, Store};

pub(crate) async fn an_appended_exchange_is_claimed_with_all_that_was_said(store: &dyn Store) {
    let scope = scope("ann");
    store.append(&[finished(1, &scope)]).await.unwrap();
    let claimed = store.claim(&claim("me", 10)).await.unwrap();
    assert_eq!(claimed.len(), 1);
    assert_eq!(claimed[0].turn, turn(1, &scope));
    assert_eq!(claimed[0].attempts, 0);
}

pub(crate) async fn a_new_exchange_is_due_though_the_clock_jumped_back(store: &dyn Store) {
    store.append(&[finished(1, &scope("ann"))]).await.unwrap();
    let mut earlier = claim("me", 10);
    earlier.now = NOW.plus_seconds(-3600);
    assert_eq!(store.claim(&earlier).await.unwrap().len(), 1);
}

pub(crate) async fn claims_come_oldest_first_and_no_more_than_asked(store: &dyn Store) {
    let group: Vec<_> = [5, 3, 9, 1].map(|n| finished(n, &scope(&format!("subject-{n}")))).into();
    store.append(&group[..2]).await.unwrap();
    store.append(&group[2..]).await.unwrap();
    assert_eq!(exchanges(store, "me", 3).await, [5, 3, 9]);
    assert_eq!(exchanges(store, "me", 3).await, [1]);
}

pub(crate) async fn a_leased_exchange_is_not_claimed_again_until_its_lease_ends(store: &dyn Store) {
    store.append(&[finished(1, &scope("ann"))]).await.unwrap();
    assert_eq!(exchanges(store, "me", 10).await, [1]);
    assert_eq!(exchanges(store, "other", 10).await, []);
    let mut later = claim("other", 10);
    later.now = later.now.plus_seconds(60);
    let claimed = store.claim(&later).await.unwrap();
    assert_eq!(claimed[0].attempts, 1, "the lost lease counts as an attempt");
}

pub(crate) async fn a_scope_with_a_live_lease_is_left_out(store: &dyn Store) {
    let (ann, bob) = (scope("ann"), scope("bob"));
    store.append(&[finished(1, &ann), finished(2, &ann)]).await.unwrap();
    assert_eq!(exchanges(store, "me", 10).await, [1, 2], "one owner may have several of one scope");
    store.append(&[finished(3, &ann), finished(4, &bob)]).await.unwrap();
    assert_eq!(exchanges(store, "other", 10).await, [4]);
}

pub(crate) async fn appending_the_same_exchange_again_changes_nothing(store: &dyn Store) {
    let scope = scope("ann");
    store.append(&[finished(1, &scope)]).await.unwrap();
    store.append(&[finished(1, &scope), finished(2, &scope)]).await.unwrap();
    assert_eq!(exchanges(store, "me", 10).await, [1, 2]);
}

pub(crate) async fn a_failed_exchange_waits_for_its_next_try_and_does_not_hold_up_others(store: &dyn Store) {
    let scope = scope("ann");
    store.append(&[finished(1, &scope), finished(2, &scope)]).await.unwrap();
    assert_eq!(exchanges(store, "me", 1).await, [1]);
    store.fail("me", ExchangeId(1), &failure(Some(NOW.plus_seconds(30)))).await.unwrap();
    assert_eq!(exchanges(store, "me", 10).await, [2]);
    store.fail("me", ExchangeId(2), &failure(Some(NOW))).await.unwrap();
    let mut later = claim("me", 10);
    later.now = NOW.plus_seconds(30);
    let claimed = store.claim(&later).await.unwrap();
    assert_eq!(claimed.iter().map(|c| (c.turn.exchange.0, c.attempts)).collect::<Vec<_>>(), [(1, 1), (2, 1)]);
}

pub(crate) async fn an_exchange_that_was_given_up_is_a_dead_letter(store: &dyn Store) {
    leased(store, &scope("ann"), &[1]).await;
    store.fail("me", ExchangeId(1), &failure(None)).await.unwrap();
    let depth = store.depth().await.unwrap();
    assert_eq!((depth.waiting, depth.dead), (0, 1));
    let mut later = claim("me", 10);
    later.now = NOW.plus_seconds(100_000);
    assert!(store.claim(&later).await.unwrap().is_empty());
}

pub(crate) async fn failing_an_exchange_of_another_owner_changes_nothing(store: &dyn Store) {
    leased(store, &scope("ann"), &[1]).await;
    store.fail("other", ExchangeId(1), &failure(None)).await.unwrap();
    store.fail("other", ExchangeId(1), &failure(Some(NOW))).await.unwrap();
    assert_eq!(exchanges(store, "third", 10).await, [], "the lease holds");
    assert_eq!(store.depth().await.unwrap().dead, 0);
    store.fail("me", ExchangeId(77), &failure(None)).await.unwrap();
}

pub(crate) async fn depth_counts_what_waits_and_what_is_dead(store: &dyn Store) {
    assert_eq!(store.depth().await.unwrap(), crate::store::Depth::default());
    let scope = scope("ann");
    leased(store, &scope, &[1]).await;
    store.append(&[finished(2, &scope)]).await.unwrap();
    let depth = store.depth().await.unwrap();
    assert_eq!((depth.waiting, depth.dead, depth.oldest), (2, 0, Some(NOW.plus_millis(1))));
}

pub(crate) async fn an_exchange_without_a_turn_leaves_only_what_was_shown_and_its_state(store: &dyn Store) {
    let scope = scope("ann");
    let mut finished = finished(1, &scope);
    finished.turn = None;
    finished.shown = Some(shown(1));
    finished.state = Some(state(&scope, 7, 0));
    store.append(&[finished]).await.unwrap();
    assert_eq!(exchanges(store, "me", 10).await, []);
    assert_eq!(store.shown(&scope, ExchangeId(1)).await.unwrap(), Some(shown(1)));
    let (key, expected) = state(&scope, 7, 0);
    assert_eq!(store.turn_state(&key, NOW).await.unwrap(), Some(expected));
}

fn failure(retry_at: Option<Time>) -> JobFailure {
    JobFailure { retry_at, error: "could not".repeat(1000), now: NOW }
}

async fn exchanges(store: &dyn Store, owner: &str, max: u32) -> Vec<u128> {
    let claimed = store.claim(&claim(owner, max)).await.unwrap();
    claimed.iter().map(|c| c.turn.exchange.0).collect()
}
