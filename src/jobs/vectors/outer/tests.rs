//! The job over a real store and an index in memory that can be told to be away.

use std::sync::atomic::Ordering;

use super::super::tests::{Letters, Process, World};
use super::super::{Pace, VectorPhase};
use super::*;
use crate::memory::{EpisodeStatus, Sensitivity, Speaker};
use crate::store::contract::fixtures::{NOW, episode, scope};
use crate::store::{EpisodeStore, Faulty, IndexQuery, ScopeStore, VectorIndex, VectorStore};

fn process(world: &World, owner: &str, index: &Arc<Faulty>) -> Process {
    let mut process = world.process(owner, Letters::new("m"));
    process.job = process.job.through(Some(Arc::clone(index) as Arc<_>));
    process
}

async fn listed(index: &Faulty, process: &Process, subject: &str) -> Vec<u128> {
    let found = index.index.list(&process.generation(), &scope(subject), None, 100).await.unwrap();
    found.iter().map(|id| id.0).collect()
}

#[tokio::test]
async fn all_episodes_go_to_the_index_and_none_to_the_records() {
    let (world, index) = (World::new().await, Arc::new(Faulty::default()));
    world.told("ann", 1..40).await;
    world.told("bob", 101..104).await;
    let mut process = process(&world, "a", &index);
    assert_eq!(process.job.step().await.unwrap(), Pace::Busy);
    assert_eq!((process.host.serves(), process.job.status().phase()), (None, VectorPhase::Filling));
    process.work().await;
    assert!(process.host.serves().is_some());
    assert_eq!((listed(&index, &process, "ann").await.len(), listed(&index, &process, "bob").await.len()), (39, 3));
    assert_eq!(world.stored("ann", &process.generation()).await, 0);
    assert_eq!(process.metrics.vectors.get(VectorOutcome::Made), 42);
    world.told("bob", 104..105).await;
    process.work().await;
    assert_eq!(listed(&index, &process, "bob").await, [101, 102, 103, 104]);
}

#[tokio::test]
async fn what_no_embedder_may_see_goes_there_by_its_words() {
    let (world, index) = (World::new().await, Arc::new(Faulty::default()));
    let mut private = episode(1, Speaker::User, "a secret thing");
    private.sensitivity = Sensitivity::Sensitive;
    let told = [private, episode(2, Speaker::User, "forbidden thing"), episode(3, Speaker::User, "open thing")];
    world.store.put_episodes(&scope("ann"), &told).await.unwrap();
    let mut process = process(&world, "a", &index);
    process.work().await;
    let ann = scope("ann");
    let letters = process.embedder.vector("open thing");
    let query = IndexQuery {
        scope: &ann,
        vector: Some(&letters),
        terms: &[(5, 1.0)],
        max_sensitivity: Sensitivity::Sensitive,
        role: None,
        from: None,
        to: None,
        limit: 9,
    };
    let hits = index.index.search(&process.generation(), &query).await.unwrap();
    assert_eq!(hits.near.iter().map(|(id, _)| id.0).collect::<Vec<_>>(), [3]);
    assert_eq!(hits.words.len(), 3);
}

#[tokio::test]
async fn what_was_deleted_put_aside_or_changed_follows() {
    let (world, index) = (World::new().await, Arc::new(Faulty::default()));
    world.told("ann", 1..6).await;
    let mut process = process(&world, "a", &index);
    process.work().await;
    let ann = scope("ann");
    world.store.delete_episode(&ann, EpisodeId(1), NOW).await.unwrap();
    let mut aside = episode(2, Speaker::User, "memory number 2");
    aside.status = EpisodeStatus::Archived;
    world.store.put_episodes(&ann, &[aside.clone()]).await.unwrap();
    process.work().await;
    assert_eq!(listed(&index, &process, "ann").await, [3, 4, 5]);
    aside.status = EpisodeStatus::Active;
    world.store.put_episodes(&ann, &[aside]).await.unwrap();
    process.work().await;
    assert_eq!(listed(&index, &process, "ann").await, [2, 3, 4, 5]);
}

// Design, promise 10: it must happen, whatever is away, and survives a restart.
#[tokio::test]
async fn an_erasure_that_the_index_missed_is_made_up_for_by_the_next_process() {
    let (world, index) = (World::new().await, Arc::new(Faulty::default()));
    world.told("ann", 1..6).await;
    world.told("bob", 11..13).await;
    let mut first = process(&world, "a", &index);
    first.work().await;
    index.is_away.store(true, Ordering::SeqCst);
    world.store.erase(&scope("ann"), NOW).await.unwrap();
    world.told("ann", 21..22).await;
    assert!(first.job.step().await.is_err());
    let generation = first.generation();
    drop(first);
    world.clock.advance_millis(120_000);
    let mut second = process(&world, "b", &index);
    for _ in 0..3 {
        assert!(second.job.step().await.is_err(), "again and again");
    }
    index.is_away.store(false, Ordering::SeqCst);
    second.work().await;
    assert_eq!(second.generation(), generation);
    assert_eq!((listed(&index, &second, "ann").await, index.erased.load(Ordering::SeqCst)), (vec![21], 5));
    assert_eq!(listed(&index, &second, "bob").await, [11, 12]);
}

#[tokio::test]
async fn an_index_that_was_emptied_or_exchanged_is_filled_anew() {
    let (world, index) = (World::new().await, Arc::new(Faulty::default()));
    world.told("ann", 1..6).await;
    let mut first = process(&world, "a", &index);
    first.work().await;
    drop(first);
    world.clock.advance_millis(120_000);
    let other = Arc::new(Faulty::default());
    let mut second = process(&world, "b", &other);
    for _ in 0..3 {
        second.work().await;
    }
    assert_eq!(listed(&other, &second, "ann").await.len(), 5);
}

#[tokio::test]
async fn an_index_that_comes_back_empty_is_filled_anew_by_who_leads() {
    let (world, index) = (World::new().await, Arc::new(Faulty::default()));
    world.told("ann", 1..6).await;
    let mut process = process(&world, "a", &index);
    process.work().await;
    index.is_away.store(true, Ordering::SeqCst);
    world.told("ann", 6..7).await;
    assert!(process.job.step().await.is_err());
    index.index.drop_generation(&process.generation()).await.unwrap();
    index.is_away.store(false, Ordering::SeqCst);
    for _ in 0..3 {
        process.work().await;
    }
    assert_eq!(listed(&index, &process, "ann").await.len(), 6);
}

#[tokio::test]
async fn a_batch_that_was_lost_with_its_lease_is_put_again() {
    let (world, index) = (World::new().await, Arc::new(Faulty::default()));
    world.told("ann", 1..40).await;
    let mut one = process(&world, "a", &index);
    one.job.step().await.unwrap();
    let generation = one.generation();
    assert!(world.store.rewind_generation(&generation).await.unwrap());
    assert_eq!(one.job.step().await.unwrap(), Pace::Idle, "it lost the lease");
    let mut two = process(&world, "b", &index);
    two.work().await;
    assert_eq!(listed(&index, &two, "ann").await.len(), 39);
}

#[tokio::test]
async fn where_nobody_embeds_words_alone_go_there() {
    let (world, index) = (World::new().await, Arc::new(Faulty::default()));
    world.told("ann", 1..4).await;
    let mut process = process(&world, "a", &index);
    process.job.embedder = Arc::new(crate::embed::WordsAlone::default());
    process.work().await;
    assert!(process.host.serves().is_some());
    assert_eq!(listed(&index, &process, "ann").await.len(), 3);
    assert_eq!(process.metrics.vectors.get(VectorOutcome::Made), 0);
}

#[tokio::test]
async fn a_generation_that_is_no_longer_used_goes_from_the_index_too() {
    let (world, index) = (World::new().await, Arc::new(Faulty::default()));
    world.told("ann", 1..4).await;
    let mut old = process(&world, "a", &index);
    old.work().await;
    let generation = old.generation();
    drop(old);
    world.clock.advance_millis(600_000);
    let mut new = world.process("b", Letters::new("another"));
    new.job = new.job.through(Some(Arc::clone(&index) as Arc<_>));
    new.work().await;
    assert!(index.index.count(&generation).await.is_err(), "there is none");
    assert_eq!(listed(&index, &new, "ann").await.len(), 3);
}
