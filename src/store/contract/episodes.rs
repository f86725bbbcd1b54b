//! Episodes.

use super::fixtures::*;
use crate::base::{EpisodeId, FactId};
use crate::memory::{EpisodeStatus, Speaker};
use crate::store::{EpisodeFilter, Page, Store};

pub(crate) async fn an_episode_comes_back_as_it_was_put(store: &dyn Store) {
    let scope = scope("ann");
    let mut one = episode(1, Speaker::User, "\"quoted\" \\ and 换行\n\u{0}\u{1f600}");
    one.uses = 3;
    one.last_used_at = Some(NOW);
    one.retired_facts = vec![FactId(4)];
    assert_eq!(store.put_episodes(&scope, std::slice::from_ref(&one)).await.unwrap(), 1);
    assert_eq!(store.episode(&scope, EpisodeId(1)).await.unwrap(), Some(one.clone()));
    one.text = "replaced".to_owned();
    one.retired_facts.clear();
    assert_eq!(store.put_episodes(&scope, std::slice::from_ref(&one)).await.unwrap(), 2);
    assert_eq!(store.episode(&scope, EpisodeId(1)).await.unwrap(), Some(one));
    assert_eq!(store.put_episodes(&scope, &[]).await.unwrap(), 2);
    assert_eq!(store.episode(&scope, EpisodeId(2)).await.unwrap(), None);
}

pub(crate) async fn episodes_are_listed_in_order_by_page_and_filter(store: &dyn Store) {
    let scope = scope("ann");
    let episodes: Vec<_> = [4, 2, 3, 1]
        .map(|n| {
            let mut one = episode(n, Speaker::User, "text");
            one.session = format!("session-{}", n % 2);
            one.status = if n == 4 { EpisodeStatus::Archived } else { EpisodeStatus::Active };
            one
        })
        .into();
    store.put_episodes(&scope, &episodes).await.unwrap();
    let list = async |filter: EpisodeFilter, page: Page| {
        let found = store.list_episodes(&scope, &filter, &page).await.unwrap();
        found.iter().map(|e| e.id.0).collect::<Vec<_>>()
    };
    assert_eq!(list(EpisodeFilter::default(), Page::first(3)).await, [1, 2, 3]);
    let after = Page { after: Some(EpisodeId(3).to_string()), limit: 3 };
    assert_eq!(list(EpisodeFilter::default(), after).await, [4]);
    let archived = EpisodeFilter { status: Some(EpisodeStatus::Archived), session: None };
    assert_eq!(list(archived, Page::first(9)).await, [4]);
    let session = EpisodeFilter { status: None, session: Some("session-1".to_owned()) };
    assert_eq!(list(session, Page::first(9)).await, [1, 3]);
}

pub(crate) async fn the_newest_episodes_come_first_and_by_page(store: &dyn Store) {
    let (ann, bob) = (scope("ann"), scope("bob"));
    let mut told: Vec<_> = (1..=5).map(|n| episode(n, Speaker::User, "text")).collect();
    told[3].status = EpisodeStatus::Archived;
    store.put_episodes(&ann, &told).await.unwrap();
    store.put_episodes(&bob, &[episode(9, Speaker::User, "nine")]).await.unwrap();
    let list = async |before: Option<u128>, limit| {
        let found = store.newest_episodes(&ann, before.map(EpisodeId), limit).await.unwrap();
        found.iter().map(|e| e.id.0).collect::<Vec<_>>()
    };
    assert_eq!(list(None, 2).await, [5, 3]);
    assert_eq!(list(Some(3), 9).await, [2, 1]);
    assert!(list(Some(1), 9).await.is_empty());
}

pub(crate) async fn episodes_are_read_by_their_ids_within_a_scope(store: &dyn Store) {
    let (ann, bob) = (scope("ann"), scope("bob"));
    let mut aside = episode(3, Speaker::User, "put aside");
    aside.status = EpisodeStatus::Archived;
    let told = [episode(1, Speaker::User, "one"), episode(2, Speaker::Assistant, "two"), aside.clone()];
    store.put_episodes(&ann, &told).await.unwrap();
    store.put_episodes(&bob, &[episode(9, Speaker::User, "nine")]).await.unwrap();
    let ids = [3, 9, 1, 7, 1].map(EpisodeId);
    assert_eq!(store.episodes_of(&ann, &ids).await.unwrap(), [told[0].clone(), aside]);
    assert!(store.episodes_of(&ann, &[]).await.unwrap().is_empty());
    assert!(store.episodes_of(&scope("nobody"), &ids).await.unwrap().is_empty());
}

pub(crate) async fn a_use_is_counted_without_a_new_revision(store: &dyn Store) {
    let scope = scope("ann");
    store.put_episodes(&scope, &[episode(1, Speaker::User, "a"), episode(2, Speaker::User, "b")]).await.unwrap();
    store.touch_episodes(&scope, &[EpisodeId(1), EpisodeId(99)], NOW.plus_seconds(5)).await.unwrap();
    store.touch_episodes(&scope, &[EpisodeId(1)], NOW).await.unwrap();
    store.touch_episodes(&scope, &[], NOW).await.unwrap();
    let one = store.episode(&scope, EpisodeId(1)).await.unwrap().unwrap();
    assert_eq!((one.uses, one.last_used_at), (2, Some(NOW.plus_seconds(5))), "a clock that jumps back is no news");
    assert_eq!(store.episode(&scope, EpisodeId(2)).await.unwrap().unwrap().uses, 0);
    assert_eq!(store.scope_state(&scope).await.unwrap().revision, 1);
}

pub(crate) async fn a_deleted_episode_leaves_a_tombstone(store: &dyn Store) {
    let scope = scope("ann");
    store
        .put_episodes(&scope, &[episode(1, Speaker::User, "we met Bob"), episode(2, Speaker::User, "b")])
        .await
        .unwrap();
    assert!(store.delete_episode(&scope, EpisodeId(1), NOW).await.unwrap());
    assert!(!store.delete_episode(&scope, EpisodeId(1), NOW).await.unwrap());
    assert_eq!(store.episode(&scope, EpisodeId(1)).await.unwrap(), None);
    assert_eq!(store.tombstoned(&scope, &["We met Bob.", "b"]).await.unwrap(), [true, false]);
    assert_eq!(store.scope_state(&scope).await.unwrap().revision, 2);
}

pub(crate) async fn marks_are_put_on_and_taken_off(store: &dyn Store) {
    let scope = scope("ann");
    store.put_episodes(&scope, &[1, 2].map(|n| episode(n, Speaker::User, "Oslo"))).await.unwrap();
    let marks = async |n| store.episode(&scope, EpisodeId(n)).await.unwrap().unwrap().retired_facts;
    for (fact, retired) in [(7, true), (8, true), (7, true), (8, false)] {
        store.mark_episodes(&scope, &[EpisodeId(1), EpisodeId(99)], FactId(fact), retired).await.unwrap();
    }
    assert_eq!((marks(1).await, marks(2).await), (vec![FactId(7)], vec![]));
    // One put, and three marks that changed something.
    assert_eq!(store.scope_state(&scope).await.unwrap().revision, 4);
    let bob = super::fixtures::scope("bob");
    store.mark_episodes(&bob, &[EpisodeId(1)], FactId(7), false).await.unwrap();
    assert_eq!(marks(1).await, [FactId(7)], "another's are left alone");
    store.mark_episodes(&scope, &[EpisodeId(1)], FactId(7), false).await.unwrap();
    assert_eq!(marks(1).await, []);
}

/// Else a change that was under way during an erasure would bring a piece of it back.
pub(crate) async fn what_was_deleted_is_not_brought_back_by_a_change(store: &dyn Store) {
    let scope = scope("ann");
    let one = episode(1, Speaker::User, "we met");
    assert!(!store.update_episode(&scope, &one).await.unwrap());
    store.put_episodes(&scope, std::slice::from_ref(&one)).await.unwrap();
    let mut labelled = one.clone();
    labelled.tags = vec!["other".to_owned()];
    assert!(store.update_episode(&scope, &labelled).await.unwrap());
    assert_eq!(store.episode(&scope, EpisodeId(1)).await.unwrap(), Some(labelled.clone()));
    store.erase(&scope, NOW).await.unwrap();
    assert!(!store.update_episode(&scope, &labelled).await.unwrap());
    store.mark_episodes(&scope, &[EpisodeId(1)], FactId(7), true).await.unwrap();
    assert_eq!(store.episode(&scope, EpisodeId(1)).await.unwrap(), None);
}
