//! Vectors and their generations.

use std::time::Duration;

use super::fixtures::{NOW, episode, scope};
use crate::base::EpisodeId;
use crate::embed::Generation;
use crate::memory::{EpisodeStatus, Scope, Speaker};
use crate::store::{GenerationState, NewVector, ScopeKey, Store};

const LEASE: Duration = Duration::from_secs(30);

fn generation(model: &str) -> Generation {
    Generation {
        model: model.to_owned(),
        dimension: None,
        query_prefix: "query: ".to_owned(),
        document_prefix: String::new(),
    }
}

/// Begins a generation whose vectors `me` makes.
async fn begun(store: &dyn Store, model: &str) -> String {
    let id = store.use_generation(&generation(model), NOW).await.unwrap().id;
    assert!(store.lease_generation(&id, "me", NOW, LEASE).await.unwrap());
    id
}

fn vector(scope: &Scope, episode: u128, byte: u8) -> NewVector {
    NewVector { scope: scope.clone(), episode: EpisodeId(episode), body: vec![byte; 20] }
}

async fn told(store: &dyn Store, scope: &Scope, ids: std::ops::Range<u128>) {
    let episodes: Vec<_> = ids.map(|n| episode(n, Speaker::User, &format!("episode number {n}"))).collect();
    store.put_episodes(scope, &episodes).await.unwrap();
}

pub(crate) async fn a_generation_is_begun_once_and_found_again(store: &dyn Store) {
    let first = store.use_generation(&generation("one"), NOW).await.unwrap();
    assert_eq!((first.state, first.cursor, first.dimension), (GenerationState::Filling, 0, 0));
    assert_eq!((first.id.as_str(), first.model.as_str()), (generation("one").id().as_str(), "one"));
    store.set_background(&first.id, 384, b"measured by").await.unwrap();
    store.complete_generation(&first.id, NOW.plus_seconds(5)).await.unwrap();
    store.complete_generation(&first.id, NOW.plus_seconds(9)).await.unwrap();
    store.use_generation(&generation("two"), NOW).await.unwrap();
    let again = store.use_generation(&generation("one"), NOW.plus_seconds(60)).await.unwrap();
    assert_eq!((again.state, again.dimension), (GenerationState::Ready, 384));
    assert_eq!(again.background.as_deref(), Some(&b"measured by"[..]));
    assert_eq!((again.started_at, again.ready_at), (NOW, Some(NOW.plus_seconds(5))));
    assert_eq!(again.used_at, NOW.plus_seconds(60));
    let models: Vec<String> = store.generations().await.unwrap().into_iter().map(|record| record.model).collect();
    assert_eq!(models, ["one", "two"]);
}

pub(crate) async fn the_making_of_vectors_is_leased_to_one_at_a_time(store: &dyn Store) {
    let id = begun(store, "one").await;
    let lease = async |owner: &str, seconds: i64| {
        store.lease_generation(&id, owner, NOW.plus_seconds(seconds), LEASE).await.unwrap()
    };
    assert!(!lease("other", 10).await);
    assert!(lease("me", 20).await, "it goes on");
    assert!(!lease("other", 45).await);
    assert!(lease("other", 51).await, "it ended");
    store.release_generation(&id, "me").await.unwrap();
    assert!(!lease("me", 52).await, "only one's own is given back");
    store.release_generation(&id, "other").await.unwrap();
    assert!(lease("me", 53).await);
    assert!(!store.lease_generation("unknown", "me", NOW, LEASE).await.unwrap());
}

pub(crate) async fn what_is_due_comes_in_order_and_from_where_it_was_left(store: &dyn Store) {
    told(store, &scope("ann"), 1..4).await;
    told(store, &scope("bob"), 11..13).await;
    let id = begun(store, "one").await;
    let first = store.due_episodes(&id, 0, 4).await.unwrap();
    let ids = |due: &crate::store::Due| due.episodes.iter().map(|e| e.episode.id.0).collect::<Vec<_>>();
    assert_eq!((ids(&first), first.is_last), (vec![1, 2, 3, 11], false));
    assert_eq!((first.episodes[0].episode.text.as_str(), &first.episodes[0].vector), ("episode number 1", &None));
    assert_eq!((&first.episodes[0].scope, &first.episodes[3].scope), (&scope("ann"), &scope("bob")));
    assert_eq!(store.count_due(first.cursor, 100).await.unwrap(), 1);
    assert_eq!(store.count_due(0, 3).await.unwrap(), 3, "counted no further");
    let made = [vector(&scope("ann"), 1, 1)];
    assert!(store.put_vectors(&id, "me", &made, Some(first.cursor)).await.unwrap());
    let record = store.use_generation(&generation("one"), NOW).await.unwrap();
    assert_eq!(record.cursor, first.cursor);
    let rest = store.due_episodes(&id, record.cursor, 4).await.unwrap();
    assert_eq!((ids(&rest), rest.is_last), (vec![12], true));
    let none = store.due_episodes(&id, rest.cursor, 4).await.unwrap();
    assert_eq!((ids(&none), none.is_last, none.cursor), (vec![], true, rest.cursor));
}

pub(crate) async fn what_was_changed_since_comes_again_with_its_old_vector(store: &dyn Store) {
    let ann = scope("ann");
    told(store, &ann, 1..3).await;
    let id = begun(store, "one").await;
    let cursor = store.due_episodes(&id, 0, 10).await.unwrap().cursor;
    store.put_vectors(&id, "me", &[vector(&ann, 1, 7)], Some(cursor)).await.unwrap();
    store.put_episodes(&ann, &[episode(1, Speaker::User, "said otherwise")]).await.unwrap();
    let due = store.due_episodes(&id, cursor, 10).await.unwrap();
    assert_eq!(due.episodes.len(), 1);
    assert_eq!(
        (due.episodes[0].episode.text.as_str(), due.episodes[0].vector.as_deref()),
        ("said otherwise", Some(&[7; 20][..]))
    );
    let known = store.vectors_of(&ann, &id, &[EpisodeId(1), EpisodeId(2), EpisodeId(9)]).await.unwrap();
    let known: Vec<_> = known.iter().map(|e| (e.episode.id.0, e.vector.is_some())).collect();
    assert_eq!(known, [(1, true), (2, false)]);
    assert!(store.vectors_of(&scope("bob"), &id, &[EpisodeId(1)]).await.unwrap().is_empty());
}

pub(crate) async fn what_went_comes_in_the_same_order(store: &dyn Store) {
    let (ann, bob) = (scope("ann"), scope("bob"));
    told(store, &ann, 1..5).await;
    told(store, &bob, 11..13).await;
    let id = begun(store, "one").await;
    let seen = store.due_episodes(&id, 0, 100).await.unwrap().cursor;
    let mut aside = episode(1, Speaker::User, "episode number 1");
    aside.status = EpisodeStatus::Archived;
    store.put_episodes(&ann, &[aside]).await.unwrap();
    store.delete_episode(&ann, EpisodeId(2), NOW).await.unwrap();
    store.delete_episode(&ann, EpisodeId(3), NOW).await.unwrap();
    store.put_episodes(&ann, &[episode(3, Speaker::User, "told again")]).await.unwrap();
    // From the beginning and from where it was left it ends in the same.
    for cursor in [0, seen] {
        let due = store.due_episodes(&id, cursor, 100).await.unwrap();
        assert_eq!(due.gone, [(ann.clone(), EpisodeId(1)), (ann.clone(), EpisodeId(2))]);
        assert!(due.erased.is_empty() && due.episodes.iter().any(|e| e.episode.text == "told again"));
    }
    let first = store.due_episodes(&id, seen, 1).await.unwrap();
    assert_eq!((first.gone, first.episodes.len(), first.is_last), (vec![(ann.clone(), EpisodeId(1))], 0, false));
    let seen = store.due_episodes(&id, seen, 100).await.unwrap().cursor;
    store.erase(&ann, NOW).await.unwrap();
    for cursor in [0, seen] {
        let due = store.due_episodes(&id, cursor, 100).await.unwrap();
        assert_eq!(due.erased, [(ann.tenant.to_string(), ScopeKey::of(&ann))]);
        assert!(due.gone.is_empty() && due.episodes.iter().all(|e| e.scope == bob));
    }
    told(store, &ann, 21..22).await;
    let due = store.due_episodes(&id, seen, 100).await.unwrap();
    assert_eq!((due.erased.len(), due.episodes.len(), due.is_last), (1, 1, true));
    assert!(store.due_episodes(&id, due.cursor, 100).await.unwrap().erased.is_empty(), "told once");
}

pub(crate) async fn vectors_are_read_by_scope_and_generation(store: &dyn Store) {
    let (ann, bob) = (scope("ann"), scope("bob"));
    told(store, &ann, 1..4).await;
    told(store, &bob, 11..12).await;
    let (one, two) = (begun(store, "one").await, begun(store, "two").await);
    let made: Vec<_> = (1..4).map(|n| vector(&ann, n, n as u8)).chain([vector(&bob, 11, 11)]).collect();
    assert!(store.put_vectors(&one, "me", &made, None).await.unwrap());
    assert!(store.put_vectors(&two, "me", &[vector(&ann, 2, 22)], None).await.unwrap());
    assert!(store.put_vectors(&two, "me", &[vector(&ann, 2, 23)], None).await.unwrap(), "the newer one stays");
    let read = async |scope: &Scope, id: &str, after, limit| {
        let found = store.vectors(scope, id, after, limit).await.unwrap();
        found.into_iter().map(|(episode, body)| (episode.0, body[0])).collect::<Vec<_>>()
    };
    assert_eq!(read(&ann, &one, None, 2).await, [(1, 1), (2, 2)]);
    assert_eq!(read(&ann, &one, Some(EpisodeId(2)), 2).await, [(3, 3)]);
    assert_eq!(read(&ann, &two, None, 9).await, [(2, 23)]);
    assert_eq!(read(&bob, &one, None, 9).await, [(11, 11)]);
}

pub(crate) async fn a_vector_of_an_episode_that_is_gone_is_not_kept(store: &dyn Store) {
    let ann = scope("ann");
    told(store, &ann, 1..3).await;
    let id = begun(store, "one").await;
    store.put_vectors(&id, "me", &[vector(&ann, 1, 1)], None).await.unwrap();
    assert!(store.delete_episode(&ann, EpisodeId(1), NOW).await.unwrap());
    assert!(store.vectors(&ann, &id, None, 9).await.unwrap().is_empty(), "it went with its episode");
    let late = [vector(&ann, 1, 1), vector(&scope("bob"), 2, 2)];
    assert!(store.put_vectors(&id, "me", &late, None).await.unwrap());
    assert!(store.vectors(&ann, &id, None, 9).await.unwrap().is_empty(), "and does not come back");
}

pub(crate) async fn whoever_lost_the_lease_stores_nothing(store: &dyn Store) {
    let ann = scope("ann");
    told(store, &ann, 1..2).await;
    let id = begun(store, "one").await;
    assert!(!store.put_vectors(&id, "other", &[vector(&ann, 1, 1)], Some(1)).await.unwrap());
    assert!(!store.put_vectors("unknown", "me", &[], Some(1)).await.unwrap());
    assert!(store.vectors(&ann, &id, None, 9).await.unwrap().is_empty());
    assert_eq!(store.use_generation(&generation("one"), NOW).await.unwrap().cursor, 0);
}

pub(crate) async fn a_generation_that_is_rewound_is_made_anew_and_goes_on_being_used(store: &dyn Store) {
    let ann = scope("ann");
    told(store, &ann, 1..4).await;
    let id = begun(store, "one").await;
    let cursor = store.due_episodes(&id, 0, 9).await.unwrap().cursor;
    assert!(store.put_vectors(&id, "me", &[vector(&ann, 1, 1)], Some(cursor)).await.unwrap());
    store.complete_generation(&id, NOW).await.unwrap();
    assert!(store.rewind_generation(&id).await.unwrap());
    // Else its cursor would be moved on by whoever is at work.
    assert!(!store.put_vectors(&id, "me", &[], Some(cursor)).await.unwrap());
    assert!(store.lease_generation(&id, "other", NOW, LEASE).await.unwrap(), "anyone may begin at once");
    let record = store.use_generation(&generation("one"), NOW).await.unwrap();
    assert_eq!((record.cursor, record.state), (0, GenerationState::Ready));
    assert_eq!(store.vectors(&ann, &id, None, 9).await.unwrap().len(), 1);
    assert!(!store.rewind_generation("unknown").await.unwrap());
}

pub(crate) async fn erasure_takes_the_vectors_of_every_generation_and_counts_them(store: &dyn Store) {
    let (ann, bob) = (scope("ann"), scope("bob"));
    told(store, &ann, 1..3).await;
    told(store, &bob, 11..12).await;
    let ids = [begun(store, "one").await, begun(store, "two").await];
    for id in &ids {
        let made = [vector(&ann, 1, 1), vector(&ann, 2, 2), vector(&bob, 11, 11)];
        store.put_vectors(id, "me", &made, None).await.unwrap();
    }
    assert_eq!(store.erase(&ann, NOW).await.unwrap().counts["vectors"], 4);
    for id in &ids {
        assert!(store.vectors(&ann, id, None, 9).await.unwrap().is_empty());
        assert_eq!(store.vectors(&bob, id, None, 9).await.unwrap().len(), 1);
        store.put_vectors(id, "me", &[vector(&ann, 1, 1)], None).await.unwrap();
        assert!(store.vectors(&ann, id, None, 9).await.unwrap().is_empty(), "what was on its way comes to nothing");
        let due = store.due_episodes(id, 0, 9).await.unwrap();
        assert!(due.episodes.iter().all(|episode| episode.scope == bob));
    }
}

pub(crate) async fn a_generation_that_nobody_uses_is_dropped_piece_by_piece(store: &dyn Store) {
    let (one, two) = (begun(store, "one").await, begun(store, "two").await);
    for n in 1..6 {
        let scope = scope(&format!("subject {n}"));
        told(store, &scope, n..n + 1).await;
        for id in [&one, &two] {
            store.put_vectors(id, "me", &[vector(&scope, n, 1)], None).await.unwrap();
        }
    }
    let later = NOW.plus_seconds(60);
    let mut dropped = 0;
    for _ in 0..9 {
        let (n, all) = store.drop_generation(&one, later, 2).await.unwrap();
        assert!(n <= 2);
        dropped += n;
        if all {
            break;
        }
    }
    assert_eq!(dropped, 5);
    let left: Vec<String> = store.generations().await.unwrap().into_iter().map(|record| record.model).collect();
    assert_eq!(left, ["two"]);
    assert_eq!(store.vectors(&scope("subject 3"), &two, None, 9).await.unwrap().len(), 1);
}

pub(crate) async fn a_generation_in_use_is_not_dropped(store: &dyn Store) {
    told(store, &scope("ann"), 1..2).await;
    let id = begun(store, "one").await;
    store.put_vectors(&id, "me", &[vector(&scope("ann"), 1, 1)], Some(1)).await.unwrap();
    assert_eq!(store.drop_generation(&id, NOW, 9).await.unwrap(), (0, false));
    // One that comes into use again while it is being dropped is filled again from the beginning.
    assert_eq!(store.drop_generation(&id, NOW.plus_seconds(1), 9).await.unwrap(), (1, false));
    assert_eq!(store.generations().await.unwrap()[0].state, GenerationState::Dropping);
    let again = store.use_generation(&generation("one"), NOW.plus_seconds(2)).await.unwrap();
    assert_eq!((again.state, again.cursor), (GenerationState::Filling, 0));
    assert_eq!(store.drop_generation(&id, NOW.plus_seconds(2), 9).await.unwrap(), (0, false));
}
