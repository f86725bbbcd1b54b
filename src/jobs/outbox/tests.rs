//! The queue and its writer over a store that fails as told.

use std::sync::Mutex;

use async_trait::async_trait;
use tokio::sync::{OwnedMutexGuard, Semaphore};

use super::*;
use crate::base::{ExchangeId, ManualClock};
use crate::jobs::testing::{Faulty, unavailable};
use crate::store::contract::fixtures::{NOW, claim, finished, learned, scope};
use crate::store::{LearnOutcome, Learned};

struct Running {
    outbox: Outbox,
    store: Arc<Faulty>,
    tracker: TaskTracker,
    stop: CancellationToken,
}

impl Running {
    async fn stop(self) -> Arc<Faulty> {
        self.stop.cancel();
        self.tracker.close();
        self.tracker.wait().await;
        self.store
    }
}

fn config() -> OutboxConfig {
    let backoff = Backoff { first: Duration::from_millis(1), longest: Duration::from_millis(2), max_attempts: 3 };
    OutboxConfig {
        capacity: 8,
        max_bytes: 1 << 20,
        max_backlog: 100,
        measure_every: Duration::ZERO,
        max_group: 5,
        backoff,
    }
}

fn start(store: Faulty, config: OutboxConfig, redact: Redact) -> Running {
    start_with(store, config, redact, None)
}

fn start_with(store: Faulty, config: OutboxConfig, redact: Redact, at_once: Option<Arc<dyn AtOnce>>) -> Running {
    let store = Arc::new(store);
    let (tracker, stop) = (TaskTracker::new(), CancellationToken::new());
    let clock = Arc::new(ManualClock::new(NOW));
    let outbox = outbox(store.clone(), config, redact, at_once, clock, &tracker, stop.clone());
    Running { outbox, store, tracker, stop }
}

fn as_it_is(_: &mut Turn) {}

fn put(outbox: &Outbox, n: u128) -> Committed {
    outbox.reserve().unwrap().finish(finished(n, &scope("ann")))
}

async fn stored(store: &Arc<Faulty>) -> Vec<u128> {
    let claimed = store.claim(&claim("me", 1000)).await.unwrap();
    claimed.iter().map(|c| c.turn.exchange.0).collect()
}

#[tokio::test]
async fn an_idle_writer_commits_a_single_exchange_at_once() {
    let running = start(Faulty::new().await, config(), as_it_is);
    put(&running.outbox, 1).await.unwrap();
    assert_eq!(stored(&running.store).await, [1]);
    assert_eq!(running.outbox.health(), OutboxHealth { appended_total: 1, ..OutboxHealth::default() });
}

#[tokio::test]
async fn what_comes_while_the_writer_is_busy_is_one_group() {
    let store = Faulty { gate: Semaphore::new(0), ..Faulty::new().await };
    let running = start(store, config(), as_it_is);
    let first = put(&running.outbox, 1);
    // The writer takes it and waits at the gate.
    while running.outbox.health().queued != 1 || running.outbox.queue.capacity() != 8 {
        tokio::task::yield_now().await;
    }
    let rest: Vec<_> = (2..=8).map(|n| put(&running.outbox, n)).collect();
    assert_eq!(running.outbox.health().queued, 8);
    running.store.gate.add_permits(100);
    first.await.unwrap();
    for committed in rest {
        committed.await.unwrap();
    }
    assert_eq!(*running.store.groups.lock().unwrap(), [1, 5, 2]);
    assert_eq!(stored(&running.store).await, [1, 2, 3, 4, 5, 6, 7, 8], "in the order in which they came");
}

#[tokio::test]
async fn a_full_queue_refuses_and_a_dropped_slot_gives_its_place_back() {
    let running = start(Faulty::new().await, config(), as_it_is);
    let mut slots: Vec<_> = (0..8).map(|_| running.outbox.reserve().unwrap()).collect();
    assert!(running.outbox.reserve().is_none());
    assert_eq!(running.outbox.health(), OutboxHealth { queued: 8, refused_total: 1, ..OutboxHealth::default() });
    slots.pop();
    assert!(running.outbox.reserve().is_some());
}

#[tokio::test]
async fn a_queue_with_too_much_text_refuses() {
    let store = Faulty { down: true.into(), ..Faulty::new().await };
    let running = start(store, OutboxConfig { max_bytes: 1000, ..config() }, as_it_is);
    let mut large = finished(1, &scope("ann"));
    large.turn.as_mut().unwrap().user[0].text = "x".repeat(1000);
    let committed = running.outbox.reserve().unwrap().finish(large);
    assert!(running.outbox.reserve().is_none());
    running.store.down.store(false, Ordering::Relaxed);
    committed.await.unwrap();
    assert_eq!(running.outbox.health().queued_bytes, 0);
    assert!(running.outbox.reserve().is_some());
}

/// Design, doubt 23: when the jobs are full, exchanges pass unremembered, and it is visible.
#[tokio::test]
async fn a_full_backlog_refuses_until_it_is_worked_on() {
    let running = start(Faulty::new().await, OutboxConfig { max_backlog: 2, ..config() }, as_it_is);
    put(&running.outbox, 1).await.unwrap();
    put(&running.outbox, 2).await.unwrap();
    while !running.outbox.health().backlog_full {
        tokio::task::yield_now().await;
    }
    assert!(running.outbox.reserve().is_none());
    let results = [learned(1, &scope("ann"), 0)];
    running.store.claim(&claim("me", 1)).await.unwrap();
    running.store.learn("me", &results).await.unwrap();
    while running.outbox.health().backlog_full {
        tokio::task::yield_now().await;
    }
    put(&running.outbox, 3).await.unwrap();
}

/// mem0ai/mem0#7196: a store that fails is a loud health state, and nothing is lost.
#[tokio::test]
async fn while_the_store_fails_the_group_is_kept_and_tried_again() {
    let store = Faulty { down: true.into(), ..Faulty::new().await };
    let running = start(store, config(), as_it_is);
    let committed = put(&running.outbox, 1);
    while running.outbox.health().failing_since.is_none() {
        tokio::task::yield_now().await;
    }
    assert_eq!(committed.await, Err(NotCommitted::StoreFails));
    drop(put(&running.outbox, 2));
    assert_eq!(running.outbox.health().failing_since, Some(NOW));
    running.store.down.store(false, Ordering::Relaxed);
    let outbox = running.outbox.clone();
    assert_eq!(stored(&running.stop().await).await, [1, 2]);
    assert_eq!(outbox.health(), OutboxHealth { appended_total: 2, released_total: 2, ..OutboxHealth::default() });
}

/// A store that fails must not make every reply wait as long as it may.
#[tokio::test]
async fn nobody_waits_for_a_store_that_is_known_to_fail() {
    let store = Faulty { down: true.into(), ..Faulty::new().await };
    let running = start(store, config(), as_it_is);
    assert_eq!(put(&running.outbox, 1).await, Err(NotCommitted::StoreFails), "the one that found out");
    let mut later = put(&running.outbox, 2);
    let at_once = futures_util::FutureExt::now_or_never(&mut later);
    assert_eq!(at_once, Some(Err(NotCommitted::StoreFails)), "no wait at all");
    assert_eq!(running.outbox.health().released_total, 2);
    running.store.down.store(false, Ordering::Relaxed);
    while running.outbox.health().failing_since.is_some() {
        tokio::task::yield_now().await;
    }
    put(&running.outbox, 3).await.unwrap();
    assert_eq!(stored(&running.store).await, [1, 2, 3]);
}

#[tokio::test]
async fn one_exchange_that_cannot_be_stored_does_not_take_others_with_it() {
    let store = Faulty { poison: Some(ExchangeId(2)), gate: Semaphore::new(0), ..Faulty::new().await };
    let running = start(store, config(), as_it_is);
    let all: Vec<_> = (1..=3).map(|n| put(&running.outbox, n)).collect();
    running.store.gate.add_permits(1000);
    let results: Vec<_> = futures_util::future::join_all(all).await;
    assert_eq!(results, [Ok(()), Err(NotCommitted::GivenUp), Ok(())]);
    let health = running.outbox.health();
    assert_eq!((health.appended_total, health.failed_total, health.failing_since), (2, 1, None));
    assert_eq!(stored(&running.store).await, [1, 3]);
}

#[tokio::test]
async fn a_stop_drains_the_queue_and_waits_for_slots_that_were_reserved_before() {
    let running = start(Faulty::new().await, config(), as_it_is);
    let outbox = running.outbox.clone();
    let late = outbox.reserve().unwrap();
    for n in 1..=5 {
        drop(put(&outbox, n));
    }
    running.stop.cancel();
    while outbox.reserve().is_some() {
        tokio::task::yield_now().await;
    }
    late.finish(finished(6, &scope("ann"))).await.unwrap();
    assert_eq!(stored(&running.stop().await).await, [1, 2, 3, 4, 5, 6]);
}

#[tokio::test]
async fn after_a_stop_a_store_that_keeps_failing_is_given_up() {
    let store = Faulty { down: true.into(), ..Faulty::new().await };
    let running = start(store, config(), as_it_is);
    let (outbox, committed) = (running.outbox.clone(), put(&running.outbox, 1));
    running.stop().await;
    assert_eq!(committed.await, Err(NotCommitted::StoreFails));
    assert_eq!(outbox.health().failed_total, 1);
}

#[tokio::test]
async fn a_commit_whose_answer_was_lost_is_not_stored_twice() {
    let running = start(Faulty::new().await, config(), as_it_is);
    running.store.append(&[finished(1, &scope("ann"))]).await.unwrap();
    running.store.append.lock().unwrap().push_back(unavailable());
    put(&running.outbox, 1).await.unwrap();
    assert_eq!(stored(&running.store).await, [1]);
}

/// mem0ai/mem0#6817: secrets are taken out before anything is stored.
#[tokio::test]
async fn nothing_is_stored_that_was_not_redacted() {
    fn redact(turn: &mut Turn) {
        assert!(turn.exchange != ExchangeId(2), "a redaction that fails");
        turn.user[0].text = "[redacted]".to_owned();
    }
    let running = start(Faulty::new().await, config(), redact);
    put(&running.outbox, 1).await.unwrap();
    put(&running.outbox, 2).await.unwrap();
    let claimed = running.store.claim(&claim("me", 9)).await.unwrap();
    let texts: Vec<_> = claimed.iter().map(|c| c.turn.user[0].text.as_str()).collect();
    assert_eq!(texts, ["[redacted]"]);
}

/// Learns nothing from everything but what is to wait, and notes what became of it.
#[derive(Default)]
struct Quick {
    long_way: Vec<u128>,
    told: Mutex<Vec<(u128, LearnOutcome)>>,
}

#[async_trait]
impl AtOnce for Quick {
    async fn in_turn(&self) -> Option<OwnedMutexGuard<()>> {
        None
    }

    async fn decide(&self, group: &[Finished]) -> Vec<Option<Learned>> {
        let decided = |n: u128| (!self.long_way.contains(&n)).then(|| learned(n, &scope("ann"), 0));
        group.iter().map(|finished| decided(finished.exchange.0)).collect()
    }

    fn stored(&self, learned: &Learned, outcome: LearnOutcome) {
        self.told.lock().unwrap().push((learned.exchange.0, outcome));
    }
}

#[tokio::test]
async fn what_was_learned_at_once_does_not_wait_and_the_worker_is_woken_for_the_rest_alone() {
    let quick = Arc::new(Quick { long_way: vec![2], ..Quick::default() });
    let running = start_with(Faulty::new().await, config(), as_it_is, Some(quick.clone()));
    let appended = running.outbox.appended();
    put(&running.outbox, 1).await.unwrap();
    assert_eq!(futures_util::FutureExt::now_or_never(appended.notified()), None, "nothing waits");
    put(&running.outbox, 2).await.unwrap();
    appended.notified().await;
    assert_eq!(stored(&running.store).await, [2]);
    assert_eq!(*quick.told.lock().unwrap(), [(1, LearnOutcome::Applied { revision: 0 })]);
    assert_eq!(running.outbox.health().appended_total, 2);
}

#[tokio::test]
async fn what_could_not_be_stored_as_it_was_learned_goes_the_long_way() {
    let store = Faulty { append: Mutex::new([unavailable()].into()), ..Faulty::new().await };
    let quick = Arc::new(Quick::default());
    let running = start_with(store, config(), as_it_is, Some(quick.clone()));
    put(&running.outbox, 1).await.unwrap();
    assert_eq!(stored(&running.store).await, [1]);
    assert!(quick.told.lock().unwrap().is_empty());
}
