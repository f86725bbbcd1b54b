//! No scope sees or changes what is another's (design, promise 4).

use super::fixtures::*;
use super::scopes::fill;
use crate::base::{EpisodeId, ExchangeId, FactId};
use crate::memory::{Scope, Speaker};
use crate::store::{EpisodeFilter, FactFilter, LearnOutcome, Page, Store, StoreError};

/// MemoriLabs/Memori#136, vllm-project/semantic-router#1301, getzep/graphiti#1659: subject, namespace and tenant are walls.
pub(crate) async fn nothing_is_read_across_scopes(store: &dyn Store) {
    let ann = scope("ann");
    fill(store, &ann).await;
    let page = Page::first(10);
    for other in others() {
        assert_eq!(store.fact(&other, FactId(10)).await.unwrap(), None);
        assert!(store.list_facts(&other, &FactFilter::default(), &page).await.unwrap().is_empty());
        assert!(store.history(&other, FactId(10)).await.unwrap().is_empty());
        assert_eq!(store.episode(&other, EpisodeId(20)).await.unwrap(), None);
        assert!(store.list_episodes(&other, &EpisodeFilter::default(), &page).await.unwrap().is_empty());
        assert!(store.proposals(&other, None, &page).await.unwrap().is_empty());
        assert_eq!(store.shown(&other, ExchangeId(2)).await.unwrap(), None);
        assert_eq!(store.raw(&other, ExchangeId(1)).await.unwrap(), None);
        assert_eq!(store.turn_state(&state(&other, 7, 1).0, NOW).await.unwrap(), None);
        assert_eq!(store.summary(&other, &[[5; 32]], NOW).await.unwrap(), None);
        assert_eq!(store.cut(&state(&other, 6, 1).0, NOW).await.unwrap(), None);
        assert_eq!(store.scope_state(&other).await.unwrap().revision, 0);
    }
    assert!(store.delete_fact(&ann, FactId(10), NOW).await.unwrap());
    for other in others() {
        let words = ["I said that location.home is Oslo."];
        assert_eq!(store.tombstoned(&other, &words).await.unwrap(), [false], "each has its own tombstones");
    }
}

/// agno-agi/agno#8334, TianGzlab/OmicsClaw PR#137: another's id changes nothing.
pub(crate) async fn nothing_is_changed_across_scopes(store: &dyn Store) {
    let ann = scope("ann");
    fill(store, &ann).await;
    let fact = store.fact(&ann, FactId(10)).await.unwrap();
    let one = store.episode(&ann, EpisodeId(20)).await.unwrap();
    for other in others() {
        assert!(!store.delete_fact(&other, FactId(10), NOW).await.unwrap());
        assert!(!store.delete_episode(&other, EpisodeId(20), NOW).await.unwrap());
        store.touch_episodes(&other, &[EpisodeId(20)], NOW).await.unwrap();
        let stolen = store.apply(&other, &[edit(10, "location.home", "Bonn", 2)]).await;
        assert!(matches!(stolen, Err(StoreError::Conflict { .. })), "{stolen:?}");
        let inserted = store.apply(&other, &[insert(10, "location.home", "Bonn")]).await;
        assert!(matches!(inserted, Err(StoreError::Conflict { .. })), "{inserted:?}");
        let put = store.put_episodes(&other, &[episode(20, Speaker::User, "mine now")]).await;
        assert!(matches!(put, Err(StoreError::Conflict { .. })), "{put:?}");
    }
    let bob = scope("bob");
    leased(store, &bob, &[900]).await;
    let mut marking = learned(900, &bob, 0);
    marking.marks = vec![(EpisodeId(20), FactId(10))];
    assert!(matches!(store.learn("me", &[marking]).await.unwrap()[..], [LearnOutcome::Applied { .. }]));
    assert_eq!(store.fact(&ann, FactId(10)).await.unwrap(), fact);
    assert_eq!(store.episode(&ann, EpisodeId(20)).await.unwrap(), one);
}

/// mem0ai/mem0#3746, #3785: erasure of one subject leaves all others as they were.
pub(crate) async fn erasing_one_scope_leaves_all_others_as_they_were(store: &dyn Store) {
    let ann = scope("ann");
    fill(store, &ann).await;
    for (n, other) in (1000..).zip(others()) {
        store.apply(&other, &[insert(n, "note.a", "x")]).await.unwrap();
        store.put_episodes(&other, &[episode(n, Speaker::User, "we met Bob")]).await.unwrap();
    }
    let bob = scope("bob");
    store.append(&[finished(77, &bob)]).await.unwrap();
    store.erase(&ann, NOW).await.unwrap();
    for (n, other) in (1000..).zip(others()) {
        assert_eq!(store.fact(&other, FactId(n)).await.unwrap(), Some(insert(n, "note.a", "x").fact));
        assert!(store.episode(&other, EpisodeId(n)).await.unwrap().is_some());
        assert_eq!(store.tombstoned(&other, &["we met Bob"]).await.unwrap(), [false]);
        assert_eq!(store.scope_state(&other).await.unwrap().epoch, 0);
    }
    assert_eq!(store.depth().await.unwrap().waiting, 1);
}

pub(crate) async fn names_that_run_together_are_different_scopes(store: &dyn Store) {
    let scopes = [
        Scope::new("a", "b", "cd"),
        Scope::new("a", "bc", "d"),
        Scope::new("ab", "", "cd"),
        Scope::new("a", "b/cd", ""),
    ];
    for (n, scope) in (1..).zip(&scopes) {
        store.apply(scope, &[insert(n, "note.a", "x")]).await.unwrap();
    }
    for (n, scope) in (1..).zip(&scopes) {
        let facts = store.list_facts(scope, &FactFilter::default(), &Page::first(9)).await.unwrap();
        assert_eq!(facts.iter().map(|f| f.id.0).collect::<Vec<_>>(), [n]);
    }
}

/// Scopes that share two names of three with `scope("ann")`.
fn others() -> [Scope; 3] {
    [scope("bob"), scope("ann").in_namespace("sales"), Scope::new("globex", "support", "ann")]
}
