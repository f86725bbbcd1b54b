//! Turns that wait for the extraction model.

use std::time::Duration;

use super::fixtures::*;
use crate::base::{ExchangeId, FactId, Time};
use crate::memory::Scope;
use crate::store::{
    DeadLetter, JobFailure, LearnOutcome, Page, Queued, QueuedTurn, Store, Window, WindowClaim, WindowDepth,
    WindowOutcome, WindowRules,
};

const RULES: WindowRules =
    WindowRules { idle: Duration::from_secs(30), max_turns: 3, max_tokens: 1_000, max_waiting: 100 };
const DAY: i64 = NOW.0 / 86_400_000;

fn queued(n: u128, session: &str) -> QueuedTurn {
    QueuedTurn { exchange: ExchangeId(n), session: session.to_owned(), turn_key: format!("turn-{n}"), tokens: 100 }
}

fn window_claim(owner: &str, now: Time) -> WindowClaim {
    WindowClaim { owner: owner.to_owned(), now, lease: Duration::from_secs(60), cap: Some(10_000) }
}

/// Queues an exchange that is leased.
pub(crate) async fn queue_one(store: &dyn Store, n: u128) {
    store.queue_turns("me", &[queued(n, "talk")], &RULES, NOW).await.unwrap();
}

/// Appends and leases exchanges of a scope, and queues them for one conversation, all at `NOW`.
async fn queue(store: &dyn Store, scope: &Scope, exchanges: &[u128]) -> Queued {
    leased(store, scope, exchanges).await;
    let turns: Vec<_> = exchanges.iter().map(|n| queued(*n, "talk")).collect();
    store.queue_turns("me", &turns, &RULES, NOW).await.unwrap()
}

async fn claimed(store: &dyn Store, owner: &str, after_seconds: i64) -> Option<Window> {
    store.claim_window(&window_claim(owner, NOW.plus_seconds(after_seconds))).await.unwrap()
}

fn ids(window: &Window) -> Vec<u128> {
    window.turns.iter().map(|turn| turn.exchange.0).collect()
}

pub(crate) async fn a_window_is_due_when_its_conversation_has_been_idle(store: &dyn Store) {
    let scope = scope("ann");
    assert_eq!(queue(store, &scope, &[1, 2]).await, Queued { queued: 2, refused: 0 });
    assert!(claimed(store, "w", 29).await.is_none());
    let window = claimed(store, "w", 30).await.unwrap();
    assert_eq!((ids(&window), window.attempts, window.opened_at), (vec![1, 2], 0, NOW));
    assert_eq!(window.turns[0], turn(1, &scope));
    assert!(claimed(store, "w", 31).await.is_none(), "its scope is leased");
}

pub(crate) async fn a_full_window_is_due_at_once_and_the_next_turn_opens_another(store: &dyn Store) {
    let scope = scope("ann");
    leased(store, &scope, &[1, 2, 3, 4, 5]).await;
    let turns = [1, 2, 3, 4].map(|n| queued(n, "talk"));
    store.queue_turns("me", &turns, &RULES, NOW).await.unwrap();
    let window = claimed(store, "w", 0).await.unwrap();
    assert_eq!(ids(&window), [1, 2, 3]);
    store.finish_window("w", window.id, &[]).await.unwrap();
    assert!(claimed(store, "w", 0).await.is_none());
    assert_eq!(ids(&claimed(store, "w", 30).await.unwrap()), [4]);

    let large = QueuedTurn { tokens: 1_000, ..queued(5, "another talk") };
    store.queue_turns("me", &[large], &RULES, NOW).await.unwrap();
    assert_eq!(ids(&claimed(store, "x", 120).await.unwrap()), [5]);
}

pub(crate) async fn a_turn_waits_once_however_often_it_is_queued(store: &dyn Store) {
    let scope = scope("ann");
    leased(store, &scope, &[1, 2]).await;
    assert_eq!(store.queue_turns("me", &[queued(1, "talk")], &RULES, NOW).await.unwrap().queued, 1);
    assert_eq!(store.queue_turns("me", &[queued(1, "talk")], &RULES, NOW).await.unwrap().queued, 0);
    // A retry of the same user turn is another exchange.
    let retry = QueuedTurn { turn_key: "turn-1".to_owned(), ..queued(2, "talk") };
    assert_eq!(store.queue_turns("me", std::slice::from_ref(&retry), &RULES, NOW).await.unwrap().queued, 0);
    // Once it was learned, and its window is gone, its retry is known by that.
    let outcome = store.learn("me", &[learned(1, &scope, 0)]).await.unwrap();
    assert_eq!(outcome, [LearnOutcome::Applied { revision: 0 }]);
    let window = claimed(store, "w", 30).await.unwrap();
    store.finish_window("w", window.id, &[]).await.unwrap();
    let now = NOW.plus_seconds(60);
    assert_eq!(store.queue_turns("me", &[retry], &RULES, now).await.unwrap().queued, 0);
    // Nobody else's lease, and no exchange that is not there.
    assert_eq!(store.queue_turns("other", &[queued(2, "talk")], &RULES, NOW).await.unwrap().queued, 0);
    assert_eq!(store.queue_turns("me", &[queued(77, "talk")], &RULES, NOW).await.unwrap().queued, 0);
}

pub(crate) async fn a_full_queue_turns_further_turns_away_and_counts_them(store: &dyn Store) {
    leased(store, &scope("ann"), &[1, 2]).await;
    let rules = WindowRules { max_waiting: 1, ..RULES };
    let result = store.queue_turns("me", &[queued(1, "a"), queued(2, "b")], &rules, NOW).await.unwrap();
    assert_eq!(result, Queued { queued: 1, refused: 1 });
}

pub(crate) async fn a_turn_stays_though_its_outbox_row_is_gone(store: &dyn Store) {
    let scope = scope("ann");
    queue(store, &scope, &[1]).await;
    store.learn("me", &[learned(1, &scope, 0)]).await.unwrap();
    assert_eq!(ids(&claimed(store, "w", 30).await.unwrap()), [1]);
}

pub(crate) async fn what_a_window_taught_is_stored_in_order_and_the_window_is_gone(store: &dyn Store) {
    let scope = scope("ann");
    queue(store, &scope, &[1, 2]).await;
    let window = claimed(store, "w", 30).await.unwrap();
    let mut first = learned(1, &scope, 0);
    first.changes = vec![insert(10, "location.home", "Oslo")];
    let mut second = learned(2, &scope, 1);
    second.changes = vec![edit(10, "location.home", "Rome", 1)];
    let outcome = store.finish_window("w", window.id, &[first, second]).await.unwrap();
    assert_eq!(outcome, WindowOutcome::Applied { revisions: vec![1, 2] });
    assert_eq!(store.scope_state(&scope).await.unwrap().revision, 2);
    assert_eq!(store.window_depth(DAY, None).await.unwrap(), WindowDepth::default());
    assert!(claimed(store, "w", 3600).await.is_none());
}

pub(crate) async fn a_window_decided_on_an_older_revision_is_stale_and_stays(store: &dyn Store) {
    let scope = scope("ann");
    queue(store, &scope, &[1]).await;
    let window = claimed(store, "w", 30).await.unwrap();
    store.apply(&scope, &[insert(10, "note.a", "x")]).await.unwrap();
    let mut late = learned(1, &scope, 0);
    late.changes = vec![insert(11, "location.home", "Oslo")];
    assert_eq!(store.finish_window("w", window.id, &[late.clone()]).await.unwrap(), WindowOutcome::Stale);
    assert_eq!(store.window_depth(DAY, None).await.unwrap().windows, 1);
    late.revision = 1;
    assert_eq!(
        store.finish_window("w", window.id, &[late]).await.unwrap(),
        WindowOutcome::Applied { revisions: vec![2] }
    );
}

pub(crate) async fn a_window_that_was_lost_stores_nothing(store: &dyn Store) {
    let scope = scope("ann");
    queue(store, &scope, &[1]).await;
    let window = claimed(store, "w", 30).await.unwrap();
    let again = claimed(store, "other", 30 + 60).await.unwrap();
    assert_eq!((again.id, again.attempts), (window.id, 1));
    let mut late = learned(1, &scope, 0);
    late.changes = vec![insert(10, "location.home", "Oslo")];
    assert_eq!(store.finish_window("w", window.id, &[late.clone()]).await.unwrap(), WindowOutcome::NotOurs);
    store.fail_window("w", window.id, &failure(None)).await.unwrap();
    assert_eq!(store.window_depth(DAY, None).await.unwrap().windows, 1);
    // Erased while it is being asked about.
    store.erase(&scope, NOW).await.unwrap();
    assert_eq!(store.finish_window("other", window.id, &[late]).await.unwrap(), WindowOutcome::NotOurs);
    assert_eq!(store.scope_state(&scope).await.unwrap().revision, 1);
}

pub(crate) async fn a_window_that_failed_waits_and_one_that_is_given_up_leaves_dead_letters(store: &dyn Store) {
    let scope = scope("ann");
    leased(store, &scope, &[1, 2, 3]).await;
    store.queue_turns("me", &[queued(1, "talk"), queued(2, "talk")], &RULES, NOW).await.unwrap();
    let window = claimed(store, "w", 30).await.unwrap();
    // It is closed: what comes meanwhile waits in another.
    store.queue_turns("me", &[queued(3, "talk")], &RULES, NOW.plus_seconds(3600)).await.unwrap();
    store.fail_window("w", window.id, &failure(Some(NOW.plus_seconds(100)))).await.unwrap();
    assert!(claimed(store, "w", 99).await.is_none());
    let again = claimed(store, "w", 100).await.unwrap();
    assert_eq!((ids(&again), again.attempts), (vec![1, 2], 1));
    store.release_windows("w").await.unwrap();
    let released = claimed(store, "w", 100).await.unwrap();
    assert_eq!((released.id, released.attempts), (window.id, 1), "a released window was not tried");
    store.fail_window("w", window.id, &failure(None)).await.unwrap();
    let dead = store.dead_letters(&scope, &Page::first(10)).await.unwrap();
    let letter = |n| DeadLetter { exchange: ExchangeId(n), attempts: 2, error: "no answer".to_owned(), at: NOW };
    assert_eq!(dead, [letter(1), letter(2)]);
    assert_eq!(store.dead_letters(&super::fixtures::scope("bob"), &Page::first(10)).await.unwrap(), []);
    assert_eq!((store.depth().await.unwrap().dead, store.window_depth(DAY, None).await.unwrap().turns), (2, 1));
}

pub(crate) async fn a_tenant_that_spent_what_it_may_waits_until_the_next_day(store: &dyn Store) {
    queue(store, &scope("ann"), &[1]).await;
    assert_eq!(store.spend("acme", DAY, 9_000).await.unwrap(), 9_000);
    assert_eq!(store.spend("acme", DAY, 2_000).await.unwrap(), 11_000);
    assert!(claimed(store, "w", 30).await.is_none());
    assert_eq!(store.window_depth(DAY, Some(10_000)).await.unwrap().capped, 1);
    assert_eq!(store.window_depth(DAY, None).await.unwrap().capped, 0);
    // What was reserved and not used is given back; never below zero.
    assert_eq!(store.spend("acme", DAY, -50_000).await.unwrap(), 0);
    assert_eq!(store.spend("acme", DAY, 10_000).await.unwrap(), 10_000);
    assert_eq!(store.spend("other", DAY, 5).await.unwrap(), 5);
    assert!(claimed(store, "w", 24 * 3600).await.is_some());
}

pub(crate) async fn what_waited_in_vain_for_a_month_is_swept(store: &dyn Store) {
    queue(store, &scope("ann"), &[1, 2]).await;
    let month = 30 * 24 * 3600;
    store.sweep(NOW.plus_seconds(month), NOW, 100).await.unwrap();
    assert_eq!(store.window_depth(DAY, None).await.unwrap().turns, 2);
    store.sweep(NOW.plus_seconds(month + 1), NOW, 100).await.unwrap();
    assert_eq!(store.window_depth(DAY, None).await.unwrap(), WindowDepth::default());
}

/// Design, doubt 14: the same words do not bring back what was deleted, however a model quotes them.
pub(crate) async fn what_rests_on_a_turn_takes_it_along_when_it_is_deleted(store: &dyn Store) {
    let scope = scope("ann");
    leased(store, &scope, &[9, 10]).await;
    store.queue_turns("me", &[queued(9, "talk"), queued(10, "talk")], &RULES, NOW).await.unwrap();
    let window = claimed(store, "w", 30).await.unwrap();
    // Its evidence is of exchange 9.
    store.apply(&scope, &[insert(1, "note.a", "x")]).await.unwrap();
    assert!(store.delete_fact(&scope, FactId(1), NOW).await.unwrap());
    let taught = [learned(9, &scope, 2), learned(10, &scope, 2)];
    assert_eq!(store.finish_window("w", window.id, &taught).await.unwrap(), WindowOutcome::Stale);
    store.fail_window("w", window.id, &failure(Some(NOW))).await.unwrap();
    let rest = claimed(store, "w", 31).await.unwrap();
    assert_eq!(ids(&rest), [10]);
    let outcome = store.finish_window("w", rest.id, &taught[1..]).await.unwrap();
    assert_eq!(outcome, WindowOutcome::Applied { revisions: vec![2] });
}

fn failure(retry_at: Option<Time>) -> JobFailure {
    JobFailure { retry_at, error: "no answer".to_owned(), now: NOW }
}
