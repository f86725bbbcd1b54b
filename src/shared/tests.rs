//! Several replicas over one Redis.

mod faults;

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::testing::{Replica, options, server, until};
use super::*;
use crate::memory::{Namespace, Scope};
use crate::telemetry::{RedisCommand, RedisOutcome};

fn account(name: &str) -> Account<'_> {
    Account { name, requests: None, tokens: None, slots: None }
}

fn wants(tokens: u64) -> Wanted {
    Wanted { least: tokens.max(1), ample: tokens.max(1), take: tokens }
}

async fn take(replica: &Replica, accounts: &[Account<'_>], tokens: u64) -> Answer {
    replica.shared.take(accounts, wants(tokens), None).await.unwrap()
}

fn is_taken(answer: &Answer) -> bool {
    matches!(answer.verdict, Verdict::Taken(_))
}

/// Issue 8: what replicas give out together is at most a request each more than the limit is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_replicas_together_give_out_what_one_would() {
    let Some(url) = server() else { return };
    let options = options(&url);
    let mut asking = tokio::task::JoinSet::new();
    // So slow a minute that nothing drains while the test runs.
    for _ in 0..3 {
        let replica = Arc::new(Replica::start(&options).await);
        for _ in 0..40 {
            let replica = Arc::clone(&replica);
            asking.spawn(async move {
                let key = Account { requests: Some(60), tokens: Some(3_000), ..account("key:a") };
                is_taken(&take(&replica, &[key], 100).await)
            });
        }
    }
    let taken = asking.join_all().await.into_iter().filter(|taken| *taken).count();
    // 3,000 tokens are 30 requests; 50 tokens drain in a second.
    assert!((30..=33).contains(&taken), "{taken}");
}

#[tokio::test]
async fn of_all_accounts_or_of_none() {
    let Some(url) = server() else { return };
    let replica = Replica::start(&options(&url)).await;
    let (key, tenant) =
        (Account { requests: Some(10), ..account("key:a") }, Account { tokens: Some(100), ..account("tenant:a") });
    assert!(is_taken(&take(&replica, &[key, tenant], 60).await));
    let refused = take(&replica, &[key, tenant], 60).await;
    assert!(matches!(refused.verdict, Verdict::Refused));
    let [of_key, of_tenant] = refused.figures[..] else { panic!("{refused:?}") };
    // What was not taken of the tenant was not taken of the key.
    assert!(of_key.requests <= 1.0 && of_tenant.tokens <= 60.0, "{refused:?}");
    assert!(is_taken(&take(&replica, &[key, tenant], 30).await));
}

#[tokio::test]
async fn where_there_is_not_ample_room_nothing_is_taken_before_it_is_counted() {
    let Some(url) = server() else { return };
    let replica = Replica::start(&options(&url)).await;
    let key = Account { tokens: Some(1_000), ..account("key:a") };
    let wanted = Wanted { least: 10, ample: 2_000, take: 500 };
    let answer = replica.shared.take(&[key], wanted, None).await.unwrap();
    assert!(matches!(answer.verdict, Verdict::Tight));
    assert_eq!(answer.figures[0].tokens, 0.0);
    let wanted = Wanted { least: 1_001, ..wanted };
    assert!(matches!(replica.shared.take(&[key], wanted, None).await.unwrap().verdict, Verdict::Refused));
}

#[tokio::test]
async fn what_was_not_used_is_there_for_the_other_replica() {
    let Some(url) = server() else { return };
    let options = options(&url);
    let (one, other) = (Replica::start(&options).await, Replica::start(&options).await);
    let key = Account { tokens: Some(1_000), ..account("key:a") };
    let Verdict::Taken(held) = take(&one, &[key], 1_000).await.verdict else { panic!("there is room") };
    assert!(!is_taken(&take(&other, &[key], 500).await));
    // Better known on its way, and then settled.
    held.set(700);
    held.set(100);
    until("the rest is given back", async || is_taken(&take(&other, &[key], 800).await)).await;
    assert!(!is_taken(&take(&other, &[key], 500).await));
}

#[tokio::test]
async fn what_was_more_than_expected_is_worked_off() {
    let Some(url) = server() else { return };
    let replica = Replica::start(&options(&url)).await;
    let key = Account { tokens: Some(1_000), ..account("key:a") };
    let Verdict::Taken(held) = take(&replica, &[key], 10).await.verdict else { panic!("there is room") };
    held.set(5_000);
    until("it counts", async || take(&replica, &[key], 1).await.figures[0].tokens > 4_000.0).await;
}

#[tokio::test]
async fn slots_are_counted_over_replicas_and_come_back_when_they_end() {
    let Some(url) = server() else { return };
    let options = options(&url);
    let (one, other) = (Replica::start(&options).await, Replica::start(&options).await);
    let key = [Account { slots: Some(2), ..account("key:a") }];
    let take = async |replica: &Replica| {
        let slot = replica.shared.slot(&key);
        let answer = replica.shared.take(&key, wants(0), slot.as_ref()).await.unwrap();
        is_taken(&answer).then_some(slot.unwrap())
    };
    let (first, second) = (take(&one).await.unwrap(), take(&other).await.unwrap());
    assert!(take(&other).await.is_none() && take(&one).await.is_none());
    drop(first);
    until("the slot is free", async || take(&other).await.is_some()).await;
    drop(second);
}

#[tokio::test]
async fn the_slots_of_a_killed_replica_come_back_and_those_of_a_living_one_stay() {
    let Some(url) = server() else { return };
    let options = Options { hold: Duration::from_millis(300), ..options(&url) };
    let living = Replica::start(&options).await;
    // It is never started: nobody says that its requests still run.
    let killed = Replica::new(&options);
    killed.shared.reach().await.unwrap().unwrap();
    let key = [Account { slots: Some(2), ..account("key:a") }];
    let mut slots = Vec::new();
    for replica in [&living, &killed] {
        let slot = replica.shared.slot(&key).unwrap();
        assert!(is_taken(&replica.shared.take(&key, wants(0), Some(&slot)).await.unwrap()));
        slots.push(slot);
    }
    let free = async || {
        let slot = living.shared.slot(&key);
        let answer = living.shared.take(&key, wants(0), slot.as_ref()).await.unwrap();
        slots.extend(slot.filter(|_| is_taken(&answer)));
        is_taken(&answer)
    };
    let begun = std::time::Instant::now();
    until("the killed replica's slot is free", free).await;
    assert!(begun.elapsed() >= Duration::from_millis(100), "it was held for a while");
    // The living one's is still held, for all that has passed.
    until("its time is over", async || begun.elapsed() > Duration::from_millis(700)).await;
    let answer = living.shared.take(&key, wants(0), None).await.unwrap();
    assert!(matches!(answer.verdict, Verdict::Refused), "{answer:?}");
}

#[tokio::test]
async fn states_are_found_by_other_replicas_until_they_are_dropped() {
    let Some(url) = server() else { return };
    let options = options(&url);
    let (one, other) = (Replica::start(&options).await, Replica::start(&options).await);
    let (ann, bob) = (Scope::new("t", "n", "ann"), Scope::new("t", "n", "bob"));
    one.shared.keep_state(&ann, 3, [1; 32], b"state".to_vec());
    until("it is there", async || other.shared.state(&ann, 3, &[1; 32]).await.is_some()).await;
    assert_eq!(other.shared.state(&ann, 3, &[1; 32]).await.as_deref(), Some(&b"state"[..]));
    assert_eq!(other.shared.state(&ann, 3, &[2; 32]).await, None);
    assert_eq!(other.shared.state(&bob, 3, &[1; 32]).await, None);
    other.shared.drop_states(&ann);
    until("it is gone", async || one.shared.state(&ann, 3, &[1; 32]).await.is_none()).await;
}

/// An erasure that Redis has missed: what it still holds is of an epoch that is over.
#[tokio::test]
async fn a_state_of_another_epoch_is_none() {
    let Some(url) = server() else { return };
    let replica = Replica::start(&options(&url)).await;
    let ann = Scope::new("t", "n", "ann");
    replica.shared.keep_state(&ann, 3, [1; 32], b"before".to_vec());
    until("it is there", async || replica.shared.state(&ann, 3, &[1; 32]).await.is_some()).await;
    assert_eq!(replica.shared.state(&ann, 4, &[1; 32]).await, None);
    replica.shared.keep_state(&ann, 4, [2; 32], b"after".to_vec());
    until("the new one is there", async || replica.shared.state(&ann, 4, &[2; 32]).await.is_some()).await;
    // What comes late of the old epoch does not come in, and what was there of it is gone.
    replica.shared.keep_state(&ann, 3, [3; 32], b"late".to_vec());
    replica.shared.keep_state(&ann, 4, [4; 32], b"last".to_vec());
    until("the last one is there", async || replica.shared.state(&ann, 4, &[4; 32]).await.is_some()).await;
    for name in [[1; 32], [3; 32]] {
        assert_eq!(replica.shared.state(&ann, 4, &name).await, None);
        assert_eq!(replica.shared.state(&ann, 3, &name).await, None);
    }
}

#[tokio::test]
async fn what_one_replica_changes_the_others_hear() {
    let Some(url) = server() else { return };
    let options = options(&url);
    let (one, other) = (Replica::start(&options).await, Replica::start(&options).await);
    for replica in [&one, &other] {
        until("it listens", async || replica.heard.missed.load(Ordering::SeqCst) == 1).await;
    }
    let changes =
        [Change::Erased(Scope::new("t", "n", "ann")), Change::Documents(Namespace::new("t", "n")), Change::Keys];
    changes.iter().for_each(|change| one.shared.tell_of(change));
    until("all is heard", async || other.heard.changes.lock().unwrap().len() == 3).await;
    assert_eq!(*other.heard.changes.lock().unwrap(), changes);
    assert!(one.heard.changes.lock().unwrap().is_empty(), "it knows what it did itself");
}

#[tokio::test]
async fn what_waits_at_the_end_of_the_process_is_still_told() {
    let Some(url) = server() else { return };
    let options = options(&url);
    let (ending, other) = (Replica::start(&options).await, Replica::start(&options).await);
    let key = [Account { slots: Some(1), ..account("key:a") }];
    let slot = ending.shared.slot(&key);
    assert!(is_taken(&ending.shared.take(&key, wants(0), slot.as_ref()).await.unwrap()));
    drop(slot);
    ending.stop().await;
    assert!(is_taken(&other.shared.take(&key, wants(0), None).await.unwrap()));
}

#[tokio::test]
async fn no_name_of_a_person_is_a_key() {
    let Some(url) = server() else { return };
    let replica = Replica::start(&options(&url)).await;
    let key = replica.shared.prefix.clone();
    replica.shared.keep_state(&Scope::new("acme", "support", "ann@example.com"), 1, [1; 32], b"state".to_vec());
    let keys = async || {
        let mut connection = replica.shared.link.connect().await.unwrap();
        redis::cmd("KEYS").arg(format!("{key}*")).query_async::<Vec<String>>(&mut connection).await.unwrap()
    };
    until("it is there", async || keys().await.iter().any(|key| key.contains("states:"))).await;
    assert!(keys().await.iter().all(|key| !key.contains("ann") && !key.contains("acme")));
}

#[tokio::test]
async fn commands_are_counted_by_how_they_end() {
    let Some(url) = server() else { return };
    let replica = Replica::start(&options(&url)).await;
    take(&replica, &[Account { requests: Some(1), ..account("key:a") }], 0).await;
    assert_eq!(replica.metrics.redis_commands.get(RedisCommand::Take, RedisOutcome::Ok), 1);
    assert!(replica.metrics.render().contains("\nbackstory_redis_up 1\n"));
}
