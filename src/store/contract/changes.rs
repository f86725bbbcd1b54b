//! What changed, in order.

use std::collections::HashMap;

use super::fixtures::*;
use crate::base::{EpisodeId, FactId};
use crate::memory::history::replay;
use crate::memory::{Action, FactStatus, Scope, Speaker};
use crate::store::{Change, Changed, FactFilter, LearnOutcome, Page, Store};

async fn all(store: &dyn Store, scope: &Scope, after: i64) -> Vec<Change> {
    store.changes(scope, after, 1000).await.unwrap()
}

/// What a change is about, and what of it.
fn told(change: &Change) -> (u128, String) {
    match &change.what {
        Changed::Fact(entry) => (entry.fact_id.0, format!("v{}", entry.version)),
        Changed::FactGone(id) => (id.0, "gone".to_owned()),
        Changed::Episode(episode) => (episode.id.0, episode.text.clone()),
        Changed::EpisodeGone(id) => (id.0, "gone".to_owned()),
        Changed::Erased => (0, "erased".to_owned()),
    }
}

fn list(changes: &[Change]) -> Vec<(u128, String)> {
    changes.iter().map(told).collect()
}

fn named(expected: &[(u128, &str)]) -> Vec<(u128, String)> {
    expected.iter().map(|(id, text)| (*id, (*text).to_owned())).collect()
}

pub(crate) async fn every_change_has_its_place_and_none_comes_twice(store: &dyn Store) {
    let scope = scope("ann");
    assert!(all(store, &scope, 0).await.is_empty());
    store.apply(&scope, &[insert(1, "note.a", "x"), insert(2, "note.b", "y")]).await.unwrap();
    store.put_episodes(&scope, &[episode(20, Speaker::User, "we met")]).await.unwrap();
    // The clock jumped back: the order is that of the writes.
    let mut earlier = edit(1, "note.a", "z", 1);
    earlier.at = NOW.plus_seconds(-3600);
    store.apply(&scope, &[earlier]).await.unwrap();
    store.touch_episodes(&scope, &[EpisodeId(20)], NOW).await.unwrap();
    let changes = all(store, &scope, 0).await;
    assert_eq!(list(&changes), named(&[(1, "v1"), (2, "v1"), (20, "we met"), (1, "v2")]));
    assert!(changes.windows(2).all(|pair| pair[0].seq < pair[1].seq));
    let Changed::Fact(entry) = &changes[3].what else { panic!("{changes:?}") };
    assert_eq!((entry.action, entry.previous_value.clone()), (Action::Edit, Some("x".into())));
    // In pieces it is the same.
    let (mut pieces, mut after) = (Vec::new(), 0);
    loop {
        let piece = store.changes(&scope, after, 1).await.unwrap();
        let Some(last) = piece.last() else { break };
        after = last.seq;
        pieces.extend(piece);
    }
    assert_eq!(pieces, changes);
    assert_eq!(store.last_change_of(&scope).await.unwrap(), changes[3].seq);
    assert_eq!(store.last_change_of(&scope_of_none()).await.unwrap(), 0);
}

fn scope_of_none() -> Scope {
    scope("nobody")
}

pub(crate) async fn of_an_episode_only_the_newest_state_is_told(store: &dyn Store) {
    let scope = scope("ann");
    store.put_episodes(&scope, &[episode(20, Speaker::User, "first")]).await.unwrap();
    let seen = all(store, &scope, 0).await[0].seq;
    store.apply(&scope, &[insert(1, "note.a", "x")]).await.unwrap();
    store.put_episodes(&scope, &[episode(20, Speaker::User, "second")]).await.unwrap();
    assert_eq!(list(&all(store, &scope, 0).await), named(&[(1, "v1"), (20, "second")]));
    // Whoever had seen it is told again; whoever is told of the new state is not told of the old.
    assert_eq!(list(&all(store, &scope, seen).await), named(&[(1, "v1"), (20, "second")]));
    // The same once more is no change.
    let newest = all(store, &scope, 0).await.last().unwrap().seq;
    store.put_episodes(&scope, &[episode(20, Speaker::User, "second")]).await.unwrap();
    assert!(all(store, &scope, newest).await.is_empty());
}

pub(crate) async fn what_is_deleted_or_erased_is_told(store: &dyn Store) {
    let scope = scope("ann");
    store.apply(&scope, &[insert(1, "note.a", "x"), insert(2, "note.b", "y")]).await.unwrap();
    store.put_episodes(&scope, &[episode(20, Speaker::User, "we met")]).await.unwrap();
    let seen = all(store, &scope, 0).await.last().unwrap().seq;
    store.delete_fact(&scope, FactId(1), NOW).await.unwrap();
    store.delete_episode(&scope, EpisodeId(20), NOW).await.unwrap();
    assert_eq!(list(&all(store, &scope, seen).await), named(&[(1, "gone"), (20, "gone")]));
    assert_eq!(list(&all(store, &scope, 0).await), named(&[(2, "v1"), (1, "gone"), (20, "gone")]));
    store.erase(&scope, NOW).await.unwrap();
    for after in [0, seen] {
        assert_eq!(list(&all(store, &scope, after).await), named(&[(0, "erased")]));
    }
    store.apply(&scope, &[insert(3, "note.a", "new")]).await.unwrap();
    assert_eq!(list(&all(store, &scope, seen).await), named(&[(0, "erased"), (3, "v1")]));
}

/// bytedance/deer-flow#2739: changes hold the own scope and nothing else.
pub(crate) async fn changes_of_another_scope_are_not_told(store: &dyn Store) {
    let ann = scope("ann");
    store.apply(&ann, &[insert(1, "note.a", "x")]).await.unwrap();
    for other in [scope("bob"), ann.in_namespace("sales"), Scope::new("globex", "support", "ann")] {
        assert!(all(store, &other, 0).await.is_empty());
        assert!(store.histories(&other, &Page::first(10)).await.unwrap().is_empty());
    }
}

pub(crate) async fn histories_come_whole_and_replay_to_the_present(store: &dyn Store) {
    let scope = scope("ann");
    let changes: Vec<_> = (1..=5).map(|n| insert(n, "note.a", &n.to_string())).collect();
    store.apply(&scope, &changes).await.unwrap();
    store.apply(&scope, &[edit(2, "note.a", "other", 1), edit(2, "note.a", "again", 2)]).await.unwrap();
    store.delete_fact(&scope, FactId(4), NOW).await.unwrap();
    let (mut found, mut page) = (Vec::new(), Page::first(2));
    loop {
        let piece = store.histories(&scope, &page).await.unwrap();
        let Some(last) = piece.last() else { break };
        page.after = Some(last[0].fact_id.to_string());
        found.extend(piece);
    }
    let counts: Vec<_> = found.iter().map(|entries| (entries[0].fact_id.0, entries.len())).collect();
    assert_eq!(counts, [(1, 1), (2, 3), (3, 1), (5, 1)]);
    assert_eq!(found[1], store.history(&scope, FactId(2)).await.unwrap());
    let present = store.list_facts(&scope, &FactFilter::default(), &Page::first(10)).await.unwrap();
    assert_eq!(replay(&found), present);
}

/// The order of commits is not that of times: a cursor of times alone misses what commits late.
pub(crate) async fn a_reader_beside_writers_misses_nothing_and_sees_nothing_twice(store: &dyn Store) {
    let scope = scope("ann");
    let writer = |writer: u128| {
        let scope = &scope;
        async move {
            for n in 0..12 {
                let id = writer * 100 + n + 1;
                let mut change = insert(id, "note.a", &id.to_string());
                // Each writer has a clock of its own.
                change.at = NOW.plus_seconds(-(writer as i64) * 1000);
                store.apply(scope, &[change]).await.unwrap();
                store.put_episodes(scope, &[episode(id, Speaker::User, &id.to_string())]).await.unwrap();
                store.apply(scope, &[edit(id, "note.a", "other", 1)]).await.unwrap();
                tokio::task::yield_now().await;
            }
        }
    };
    let reader = async {
        let (mut seen, mut after) = (Vec::new(), 0);
        while seen.len() < 4 * 12 * 3 {
            let piece = store.changes(&scope, after, 7).await.unwrap();
            after = piece.last().map_or(after, |last| last.seq);
            seen.extend(list(&piece));
            tokio::task::yield_now().await;
        }
        seen
    };
    let (_, _, _, _, seen) = tokio::join!(writer(0), writer(1), writer(2), writer(3), reader);
    let mut times: HashMap<(u128, String), usize> = HashMap::new();
    for one in &seen {
        *times.entry(one.clone()).or_default() += 1;
    }
    assert!(times.values().all(|n| *n == 1), "{times:?}");
    assert_eq!(times.len(), 4 * 12 * 3);
}

/// redis/agent-memory-server#196, odysseus-dev/odysseus#1940: of two decisions on the same revision one is stale.
pub(crate) async fn of_two_first_values_learned_at_once_one_stands(store: &dyn Store) {
    let scope = scope("ann");
    leased(store, &scope, &[1, 2]).await;
    let of = |n: u128, value: &str| {
        let mut learned = learned(n, &scope, 0);
        learned.changes = vec![insert(n, "location.home", value)];
        learned
    };
    let (oslo, rome) = ([of(1, "Oslo")], [of(2, "Rome")]);
    let (a, b) = tokio::join!(store.learn("me", &oslo), store.learn("me", &rome));
    let outcomes = [a.unwrap()[0], b.unwrap()[0]];
    assert!(outcomes.contains(&LearnOutcome::Applied { revision: 1 }), "{outcomes:?}");
    assert!(!matches!(outcomes, [LearnOutcome::Applied { .. }, LearnOutcome::Applied { .. }]), "{outcomes:?}");
    let active = FactFilter { status: Some(FactStatus::Active), ..FactFilter::default() };
    assert_eq!(store.list_facts(&scope, &active, &Page::first(9)).await.unwrap().len(), 1);
}
