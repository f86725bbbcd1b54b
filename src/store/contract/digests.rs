//! Summaries, and which of them a cut uses.

use super::fixtures::*;
use crate::base::Time;
use crate::context::summary::Summary;
use crate::conversation::Hash;
use crate::memory::Scope;
use crate::store::{Cut, HandedOut, Settled, StateKey, Store};

fn until() -> Time {
    NOW.plus_seconds(3600)
}

fn summary(covers: u8) -> Summary {
    Summary { covers: [covers; 32], text: format!("up to {covers}: 我住在上海") }
}

async fn keep(store: &dyn Store, scope: &Scope, covers: u8) {
    assert!(store.keep_summary(scope, 0, &summary(covers), until()).await.unwrap());
}

async fn settle(store: &dyn Store, scope: &Scope, candidates: &[u8], now: Time) -> Option<Settled> {
    let candidates: Vec<Hash> = candidates.iter().map(|covers| [*covers; 32]).collect();
    let key = StateKey { scope: scope.clone(), prefix: [99; 32] };
    let cut = Cut { key, epoch: 0, candidates: &candidates, expires_at: now.plus_seconds(3600) };
    store.settle_cut(&cut, now).await.unwrap()
}

pub(crate) async fn the_first_summary_that_there_is_is_found_until_it_runs_out(store: &dyn Store) {
    let scope = scope("ann");
    assert_eq!(store.summary(&scope, &[[1; 32]], NOW).await.unwrap(), None);
    for covers in [1, 3] {
        keep(store, &scope, covers).await;
    }
    let first = async |states: &[Hash], now| store.summary(&scope, states, now).await.unwrap().map(|s| s.covers[0]);
    assert_eq!(first(&[[4; 32], [3; 32], [2; 32], [1; 32]], NOW).await, Some(3));
    assert_eq!(first(&[[2; 32], [1; 32], [3; 32]], NOW).await, Some(1));
    assert_eq!(first(&[], NOW).await, None);
    assert_eq!(first(&[[3; 32]], until()).await, None);
    assert_eq!(store.summary(&scope, &[[3; 32]], NOW).await.unwrap(), Some(summary(3)));
}

/// Design, section 5: a summary that becomes ready later is used at the next cut, not before.
pub(crate) async fn a_cut_that_was_settled_stays_so(store: &dyn Store) {
    let scope = scope("ann");
    assert_eq!(settle(store, &scope, &[2, 1], NOW).await, Some(Settled(None)));
    keep(store, &scope, 2).await;
    assert_eq!(settle(store, &scope, &[2, 1], NOW).await, Some(Settled(None)));
    let key = StateKey { scope: scope.clone(), prefix: [99; 32] };
    assert_eq!(store.cut(&key, NOW).await.unwrap(), Some(Settled(None)));
    assert_eq!(store.cut(&StateKey { prefix: [98; 32], ..key.clone() }, NOW).await.unwrap(), None);
}

pub(crate) async fn a_settled_cut_keeps_its_summary_and_lives_on_while_it_is_used(store: &dyn Store) {
    let scope = scope("ann");
    keep(store, &scope, 1).await;
    assert_eq!(settle(store, &scope, &[2, 1], NOW).await, Some(Settled(Some(summary(1)))));
    keep(store, &scope, 2).await;
    let later = NOW.plus_seconds(3000);
    assert_eq!(settle(store, &scope, &[2, 1], later).await, Some(Settled(Some(summary(1)))));
    let key = StateKey { scope: scope.clone(), prefix: [99; 32] };
    let much_later = later.plus_seconds(3000);
    assert_eq!(store.cut(&key, much_later).await.unwrap(), Some(Settled(Some(summary(1)))));
    assert_eq!(store.summary(&scope, &[[1; 32]], much_later).await.unwrap(), Some(summary(1)), "it lives as long");
    assert_eq!(store.summary(&scope, &[[2; 32]], much_later).await.unwrap(), None);
    // Once it has run out it is settled anew.
    let in_the_end = later.plus_seconds(9000);
    assert_eq!(store.cut(&key, in_the_end).await.unwrap(), None);
    assert_eq!(settle(store, &scope, &[1], in_the_end).await, Some(Settled(None)));
}

/// Design, doubt 14.
pub(crate) async fn what_was_summed_up_before_an_erasure_is_not_kept_after_it(store: &dyn Store) {
    let scope = scope("ann");
    store.erase(&scope, NOW).await.unwrap();
    assert!(!store.keep_summary(&scope, 0, &summary(1), until()).await.unwrap());
    assert_eq!(settle(store, &scope, &[1], NOW).await, None);
    assert_eq!(store.summary(&scope, &[[1; 32]], NOW).await.unwrap(), None);
    assert!(store.keep_summary(&scope, 1, &summary(1), until()).await.unwrap());
}

pub(crate) async fn the_sweep_takes_digests_that_have_run_out(store: &dyn Store) {
    let scope = scope("ann");
    keep_digest(store, &scope, [1; 32], [2; 32], "x").await;
    assert_eq!(store.sweep(NOW, NOW, 10).await.unwrap(), 0);
    assert_eq!(store.sweep(until(), NOW, 1).await.unwrap(), 1);
    assert_eq!(store.sweep(until(), NOW, 10).await.unwrap(), 1);
}

/// Issue 7: a `previous_response_id` of another key.
pub(crate) async fn a_response_is_found_where_it_was_handed_out_and_nowhere_else(store: &dyn Store) {
    let (_, shown) = state(&scope("ann"), 1, 0);
    let handed = HandedOut {
        scope: scope("ann"),
        epoch: Some(0),
        names: vec![[1; 32], [2; 32]],
        shown: Some(shown.clone()),
        expires_at: until(),
    };
    store.hand_out(&handed).await.unwrap();
    store.hand_out(&handed).await.unwrap();
    let found = async |subject: &str, name: u8, now| {
        let key = StateKey { scope: scope(subject), prefix: [name; 32] };
        store.handed_out(&key, now).await.unwrap()
    };
    assert_eq!(found("ann", 1, NOW).await, Some(Some(shown)));
    assert_eq!(found("ann", 2, NOW).await, Some(None));
    assert_eq!(found("ann", 3, NOW).await, None);
    assert_eq!(found("bob", 1, NOW).await, None);
    assert_eq!(found("ann", 1, until()).await, None);
    store.erase(&scope("ann"), NOW).await.unwrap();
    assert_eq!(found("ann", 1, NOW).await, None);
    store.hand_out(&handed).await.unwrap();
    assert_eq!(found("ann", 1, NOW).await, None, "it was from before the erasure");
}
