//! Scopes as such: conversation state, exchange records, erasure, sweep, secrets.

use serde_json::json;

use super::fixtures::*;
use crate::base::{EpisodeId, ExchangeId, FactId, Time};
use crate::memory::{Scope, Speaker};
use crate::store::{
    EpisodeFilter, FactFilter, Finished, JobFailure, LearnOutcome, Learned, Page, ProposalStatus, ScopeState, Shown,
    Signal, Store,
};

pub(crate) async fn an_unknown_scope_has_revision_and_epoch_zero(store: &dyn Store) {
    assert_eq!(store.scope_state(&scope("nobody")).await.unwrap(), ScopeState::default());
    assert_eq!(store.tombstoned(&scope("nobody"), &["x"]).await.unwrap(), [false]);
    assert!(store.tombstoned(&scope("nobody"), &[]).await.unwrap().is_empty());
}

pub(crate) async fn a_state_is_found_until_it_runs_out(store: &dyn Store) {
    let scope = scope("ann");
    let (key, expected) = state(&scope, 7, 0);
    keep_state(store, &scope, 7, 0).await;
    assert_eq!(store.turn_state(&key, NOW).await.unwrap(), Some(expected.clone()));
    assert_eq!(store.turn_state(&key, expected.expires_at).await.unwrap(), None);
    assert_eq!(store.turn_state(&state(&scope, 8, 0).0, NOW).await.unwrap(), None);
}

pub(crate) async fn a_state_of_an_older_revision_does_not_replace_a_newer_one(store: &dyn Store) {
    let scope = scope("ann");
    for revision in [3, 2] {
        keep_state(store, &scope, 7, revision).await;
        let (key, newest) = state(&scope, 7, 3);
        assert_eq!(store.turn_state(&key, NOW).await.unwrap(), Some(newest));
    }
    keep_state(store, &scope, 7, 4).await;
    let (key, newest) = state(&scope, 7, 4);
    assert_eq!(store.turn_state(&key, NOW).await.unwrap(), Some(newest));
}

pub(crate) async fn what_was_shown_is_found_by_its_exchange(store: &dyn Store) {
    let scope = scope("ann");
    let mut finished = finished(1, &scope);
    finished.shown = Some(shown(1));
    store.append(&[finished]).await.unwrap();
    assert_eq!(store.shown(&scope, ExchangeId(1)).await.unwrap(), Some(shown(1)));
    assert_eq!(store.shown(&scope, ExchangeId(2)).await.unwrap(), None);
}

pub(crate) async fn proposals_are_listed_by_status(store: &dyn Store) {
    let scope = scope("ann");
    leased(store, &scope, &[1]).await;
    let mut one = learned(1, &scope, 0);
    one.proposals = vec![
        proposal(33, ProposalStatus::Refused, None),
        proposal(31, ProposalStatus::Accepted, Some(1)),
        proposal(32, ProposalStatus::Refused, None),
    ];
    store.learn("me", &[one]).await.unwrap();
    let list = async |status, page: Page| {
        let found = store.proposals(&scope, status, &page).await.unwrap();
        found.iter().map(|p| p.id.0).collect::<Vec<_>>()
    };
    assert_eq!(list(None, Page::first(2)).await, [31, 32]);
    let after = Page { after: Some(crate::base::ProposalId(32).to_string()), limit: 2 };
    assert_eq!(list(None, after).await, [33]);
    assert_eq!(list(Some(ProposalStatus::Refused), Page::first(9)).await, [32, 33]);
    assert_eq!(list(Some(ProposalStatus::Quarantined), Page::first(9)).await, [0; 0]);
}

pub(crate) async fn a_shared_secret_is_made_once(store: &dyn Store) {
    assert_eq!(store.shared_secret("a", &[1; 32]).await.unwrap(), [1; 32]);
    assert_eq!(store.shared_secret("a", &[2; 32]).await.unwrap(), [1; 32]);
    assert_eq!(store.shared_secret("b", &[2; 32]).await.unwrap(), [2; 32]);
}

pub(crate) async fn erasure_takes_everything_and_counts_it(store: &dyn Store) {
    let scope = scope("ann");
    fill(store, &scope).await;
    let before = store.scope_state(&scope).await.unwrap();
    let erased = store.erase(&scope, NOW).await.unwrap();
    assert_eq!(erased.epoch, 1);
    assert!(erased.complete);
    let expected = [
        ("facts", 1),
        ("history", 2),
        ("episodes", 1),
        ("outbox", 1),
        ("dead_letters", 1),
        ("proposals", 1),
        ("states", 1),
        ("digests", 2),
        ("exchanges", 1),
        ("raw_exchanges", 1),
        ("window_turns", 1),
        ("windows", 1),
        ("usage", 1),
        ("vectors", 0),
    ];
    assert_eq!(erased.counts, expected.into_iter().collect());

    let page = Page::first(10);
    assert!(store.list_facts(&scope, &FactFilter::default(), &page).await.unwrap().is_empty());
    assert!(store.history(&scope, FactId(10)).await.unwrap().is_empty());
    assert!(store.list_episodes(&scope, &EpisodeFilter::default(), &page).await.unwrap().is_empty());
    assert!(store.proposals(&scope, None, &page).await.unwrap().is_empty());
    assert_eq!(store.shown(&scope, ExchangeId(2)).await.unwrap(), None);
    assert_eq!(store.raw(&scope, ExchangeId(1)).await.unwrap(), None);
    assert_eq!(store.turn_state(&state(&scope, 7, 0).0, NOW).await.unwrap(), None);
    assert_eq!(store.summary(&scope, &[[5; 32]], NOW).await.unwrap(), None);
    assert_eq!(store.cut(&state(&scope, 6, 0).0, NOW).await.unwrap(), None);
    assert_eq!(store.depth().await.unwrap(), crate::store::Depth::default());
    let after = store.scope_state(&scope).await.unwrap();
    assert_eq!(after, ScopeState { revision: before.revision + 1, epoch: 1 });
    // Erased again: nothing is there, and that is no error.
    let again = store.erase(&scope, NOW).await.unwrap();
    assert_eq!((again.epoch, again.counts.values().sum::<u64>()), (2, 0));
}

/// Design, doubt 14: an exchange that began before an erasure and ends after it leaves nothing.
pub(crate) async fn an_exchange_from_before_an_erasure_leaves_nothing(store: &dyn Store) {
    let scope = scope("ann");
    leased(store, &scope, &[1]).await;
    let mut in_work = learned(1, &scope, 0);
    in_work.changes = vec![insert(10, "location.home", "Oslo")];
    store.erase(&scope, NOW).await.unwrap();
    assert_eq!(store.learn("me", &[in_work]).await.unwrap(), [LearnOutcome::Erased]);

    let mut in_flight = finished(2, &scope);
    in_flight.shown = Some(shown(2));
    in_flight.state = Some(state(&scope, 7, 0));
    store.append(&[in_flight]).await.unwrap();
    assert_eq!(store.depth().await.unwrap().waiting, 0);
    assert_eq!(store.shown(&scope, ExchangeId(2)).await.unwrap(), None);
    assert_eq!(store.turn_state(&state(&scope, 7, 0).0, NOW).await.unwrap(), None);

    // One that begins after it counts.
    let mut new = finished(3, &scope);
    let turn = new.turn.as_mut().unwrap();
    turn.epoch = 1;
    let mut new_shown = shown(3);
    new_shown.at = NOW.plus_millis(1);
    new.shown = Some(new_shown);
    new.state = Some(state(&scope, 7, 1));
    store.append(&[new]).await.unwrap();
    assert_eq!(store.depth().await.unwrap().waiting, 1);
    assert!(store.shown(&scope, ExchangeId(3)).await.unwrap().is_some());
    assert!(store.turn_state(&state(&scope, 7, 1).0, NOW).await.unwrap().is_some());
}

/// plastic-labs/honcho#725: erased evidence is not learned again from replayed history; new statements are.
pub(crate) async fn erased_words_are_barred_and_new_words_are_not(store: &dyn Store) {
    let scope = scope("ann");
    fill(store, &scope).await;
    store.put_episodes(&scope, &[episode(77, Speaker::Assistant, "Sure!")]).await.unwrap();
    store.erase(&scope, NOW).await.unwrap();
    let texts = [
        "I said that location.home is Oslo.",
        "I said that location.home is Rome.",
        "we met Bob",
        "I'm allergic to peanuts",
        "statement number 2: 我住在上海 \u{1f600}",
        "I said that location.home is Bonn.",
        "Sure!",
    ];
    assert_eq!(store.tombstoned(&scope, &texts).await.unwrap(), [true, true, true, true, true, false, false]);
}

pub(crate) async fn the_sweep_takes_what_has_run_out_and_no_more_than_asked(store: &dyn Store) {
    let scope = scope("ann");
    for n in 1..=3 {
        let mut finished = finished(n, &scope);
        finished.turn = None;
        finished.shown = Some(shown(n));
        finished.state = Some(state(&scope, n as u8, 0));
        store.append(&[finished]).await.unwrap();
    }
    leased(store, &scope, &[11, 12]).await;
    let mut one = learned(11, &scope, 0);
    one.proposals = vec![proposal(1, ProposalStatus::Refused, None), proposal(2, ProposalStatus::Accepted, Some(1))];
    store.learn("me", &[one]).await.unwrap();
    let failure = JobFailure { retry_at: None, error: "no".to_owned(), now: NOW };
    store.fail("me", ExchangeId(12), &failure).await.unwrap();

    assert_eq!(store.sweep(NOW, NOW, 100).await.unwrap(), 0, "nothing has run out");
    let later = NOW.plus_seconds(7200);
    assert_eq!(store.sweep(later, later, 2).await.unwrap(), 2);
    // Three states, three exchanges, a mark of what was seen, a refused proposal, a dead letter.
    assert_eq!(store.sweep(later, later, 100).await.unwrap(), 7);
    assert_eq!(store.sweep(later, later, 100).await.unwrap(), 0);
    assert_eq!(store.proposals(&scope, None, &Page::first(9)).await.unwrap().len(), 1);
}

pub(crate) async fn what_was_said_stays_where_that_is_wanted_and_goes_by_its_age(store: &dyn Store) {
    let ann = scope("ann");
    leased(store, &ann, &[1, 2, 3]).await;
    let wanted = |n, keep| Learned { keep, ..learned(n, &ann, 0) };
    store.learn("me", &[wanted(1, true), wanted(2, false), wanted(3, true)]).await.unwrap();
    // Whoever lost its lease leaves nothing.
    store.learn("me", &[wanted(4, true)]).await.unwrap();
    let kept = async |n| store.raw(&ann, ExchangeId(n)).await.unwrap();
    assert_eq!(kept(1).await, Some(turn(1, &ann)));
    assert_eq!((kept(2).await, kept(4).await), (None, None));
    assert_eq!(store.sweep_raw(NOW, 9).await.unwrap(), 0);
    assert_eq!(store.sweep_raw(NOW.plus_seconds(60), 1).await.unwrap(), 1);
    assert_eq!(store.sweep_raw(NOW.plus_seconds(60), 9).await.unwrap(), 1);
    assert_eq!((kept(1).await, kept(3).await), (None, None));
    // What began before an erasure is not kept after it.
    leased(store, &ann, &[5]).await;
    store.erase(&ann, NOW).await.unwrap();
    store.learn("me", &[wanted(5, true)]).await.unwrap();
    assert_eq!(kept(5).await, None);
}

pub(crate) async fn namespaces_are_those_in_which_the_subject_has_something(store: &dyn Store) {
    let support = scope("ann");
    let sales = support.in_namespace("sales");
    let empty = support.in_namespace("empty");
    store.apply(&support, &[insert(1, "note.a", "x")]).await.unwrap();
    store.put_episodes(&sales, &[episode(1, Speaker::User, "a")]).await.unwrap();
    store.apply(&empty, &[]).await.unwrap();
    store.apply(&scope("bob").in_namespace("bobs"), &[insert(2, "note.a", "x")]).await.unwrap();
    store.apply(&Scope::new("other", "theirs", "ann"), &[insert(3, "note.a", "x")]).await.unwrap();
    let found = store.namespaces("acme", "ann").await.unwrap();
    assert_eq!(found, [("sales".to_owned(), 1), ("support".to_owned(), 1)]);
    store.erase(&support, NOW).await.unwrap();
    assert_eq!(store.namespaces("acme", "ann").await.unwrap(), [("sales".to_owned(), 1)]);
}

pub(crate) async fn a_ping_is_answered(store: &dyn Store) {
    store.ping().await.unwrap();
}

/// Puts one of everything into a scope: a fact with two versions, an episode, a proposal, a waiting and a dead exchange,
/// a state, an exchange record, a raw exchange.
pub(crate) async fn fill(store: &dyn Store, scope: &Scope) {
    let base =
        u128::from(u64::from_le_bytes(*blake3::hash(scope.subject.as_bytes()).as_bytes().first_chunk().unwrap()));
    let base = if &*scope.subject == "ann" { 0 } else { base << 8 };
    leased(store, scope, &[base + 1, base + 3]).await;
    super::windows::queue_one(store, base + 1).await;
    let mut one = learned(base + 1, scope, 0);
    one.keep = true;
    one.changes = vec![insert(base + 10, "location.home", "Oslo"), edit(base + 10, "location.home", "Rome", 1)];
    one.episodes = vec![episode(base + 20, Speaker::User, "we met Bob")];
    one.proposals = vec![proposal(base + 30, ProposalStatus::Accepted, Some(base + 10))];
    assert_eq!(store.learn("me", &[one]).await.unwrap(), [LearnOutcome::Applied { revision: 1 }]);
    let failure = JobFailure { retry_at: None, error: "no".to_owned(), now: NOW };
    store.fail("me", ExchangeId(base + 3), &failure).await.unwrap();
    let mut two = finished(base + 2, scope);
    two.turn.as_mut().unwrap().user[0].text = "statement number 2: 我住在上海 \u{1f600}".to_owned();
    two.shown = Some(shown(base + 2));
    two.state = Some(state(scope, 7, 1));
    let used = super::usage::row_of(0, scope);
    two.usage = Some(Box::new(crate::store::UsageRow { exchange: ExchangeId(base + 2), ..used }));
    store.append(&[two]).await.unwrap();
    keep_digest(store, scope, [5; 32], [6; 32], "They live in Oslo.").await;
}

async fn keep_state(store: &dyn Store, scope: &Scope, prefix: u8, revision: i64) {
    let mut finished = finished(1, scope);
    finished.at = Time(finished.at.0 + revision);
    finished.turn = None;
    finished.state = Some(state(scope, prefix, revision));
    store.append(&[finished]).await.unwrap();
}

pub(crate) async fn a_signal_moves_the_scores_of_what_was_shown_within_bounds(store: &dyn Store) {
    let ann = scope("ann");
    store.put_episodes(&ann, &[episode(20, Speaker::User, "one"), episode(21, Speaker::User, "two")]).await.unwrap();
    let exchange = finished(2, &ann);
    let detail = json!({"episodes": [EpisodeId(20), EpisodeId(99)]});
    store.append(&[Finished { shown: Some(Shown { detail, ..shown(2) }), ..exchange }]).await.unwrap();
    let start = store.episode(&ann, EpisodeId(21)).await.unwrap().unwrap().score;
    let rate = |signal| store.rate(&ann, ExchangeId(2), signal);
    let score = async || store.episode(&ann, EpisodeId(20)).await.unwrap().unwrap().score;
    let revision = store.scope_state(&ann).await.unwrap().revision;
    assert_eq!(rate(Signal::Bad).await.unwrap(), Some(1));
    let lowered = score().await;
    assert!((start - lowered - 0.2).abs() < 1e-9, "{lowered}");
    assert_eq!(store.scope_state(&ann).await.unwrap().revision, revision + 1);
    rate(Signal::Bad).await.unwrap();
    assert!((score().await - lowered).abs() < 1e-9, "the same word twice is one");
    rate(Signal::Good).await.unwrap();
    let raised = score().await;
    assert!(raised > lowered && raised <= 1.0, "the later word takes the place of the earlier: {raised}");
    // Praise moved nothing of what stands at the top already: there is nothing to take back.
    rate(Signal::Bad).await.unwrap();
    assert!((score().await - lowered).abs() < 1e-9, "{}", score().await);
    rate(Signal::Good).await.unwrap();
    assert_eq!(store.episode(&ann, EpisodeId(21)).await.unwrap().unwrap().score, start, "what was not shown stays");
    for other in [scope("bob"), ann.in_namespace("sales")] {
        assert_eq!(store.rate(&other, ExchangeId(2), Signal::Bad).await.unwrap(), None);
    }
    assert_eq!(store.rate(&ann, ExchangeId(3), Signal::Bad).await.unwrap(), None);
    assert_eq!(score().await, raised);
}
