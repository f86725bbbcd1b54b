//! Redis that is slow, gone, emptied, somebody else's, or wrongly addressed.

use std::time::Instant;

use super::super::testing::Proxy;
use super::*;

/// What a request may be delayed by a Redis that does not answer.
const BRIEF: Duration = Duration::from_millis(50);

fn key() -> [Account<'static>; 1] {
    [Account { requests: Some(1_000), ..account("key:a") }]
}

#[tokio::test]
async fn a_redis_that_is_away_costs_no_time_and_is_used_when_it_is_there_again() {
    let Some(url) = server() else { return };
    let proxy = Proxy::start(&url).await;
    let replica = Replica::start(&options(&proxy.url())).await;
    assert!(is_taken(&take(&replica, &key(), 0).await));
    until("it listens", async || replica.heard.missed.load(Ordering::SeqCst) == 1).await;
    proxy.cut();
    until("it is known to be away", async || {
        replica.shared.take(&key(), wants(0), None).await.is_err() && !replica.shared.is_up()
    })
    .await;
    let begun = Instant::now();
    for _ in 0..100 {
        assert_eq!(replica.shared.take(&key(), wants(0), None).await.unwrap_err(), Away);
    }
    assert!(begun.elapsed() < Duration::from_millis(500), "{:?}", begun.elapsed());
    assert!(replica.metrics.redis_commands.get(RedisCommand::Take, RedisOutcome::Skipped) >= 100);
    assert!(matches!(replica.shared.why(), Some(Reason::Unreachable(_))), "{:?}", replica.shared.why());
    proxy.mend();
    until("it is used again", async || replica.shared.take(&key(), wants(0), None).await.is_ok()).await;
    // What was said meanwhile was not heard.
    until("it listens again", async || replica.heard.missed.load(Ordering::SeqCst) >= 2).await;
}

#[tokio::test]
async fn a_slow_redis_delays_a_few_requests_by_a_moment_and_then_none() {
    let Some(url) = server() else { return };
    let proxy = Proxy::start(&url).await;
    let replica = Replica::start(&Options { timeout: BRIEF, ..options(&proxy.url()) }).await;
    proxy.slow_down(Duration::from_secs(3));
    let mut waits = Vec::new();
    for _ in 0..20 {
        let begun = Instant::now();
        assert!(replica.shared.take(&key(), wants(0), None).await.is_err());
        waits.push(begun.elapsed());
    }
    let delayed = waits.iter().filter(|wait| **wait >= BRIEF).count();
    assert!((1..=3).contains(&delayed), "{waits:?}");
    assert!(waits.iter().all(|wait| *wait < BRIEF * 10), "{waits:?}");
    assert!(!replica.shared.is_up());
    assert_eq!(replica.shared.why(), Some(Reason::Late));
    proxy.slow_down(Duration::ZERO);
    until("it is used again", async || replica.shared.take(&key(), wants(0), None).await.is_ok()).await;
}

#[tokio::test]
async fn slots_of_what_began_without_redis_are_said_when_it_is_there() {
    let Some(url) = server() else { return };
    let proxy = Proxy::start(&url).await;
    let options = options(&url);
    let (away, other) = (
        Replica::new(&Options { url: Secret::from(&*proxy.url()), ..options.clone() }),
        Replica::start(&options).await,
    );
    proxy.cut();
    away.run();
    let key = [Account { slots: Some(1), ..account("key:a") }];
    let slot = away.shared.slot(&key);
    assert!(away.shared.take(&key, wants(0), slot.as_ref()).await.is_err());
    proxy.mend();
    until("the other one hears of it", async || !is_taken(&other.shared.take(&key, wants(0), None).await.unwrap()))
        .await;
}

#[tokio::test]
async fn scripts_that_redis_forgot_are_given_to_it_again() {
    let Some(url) = server() else { return };
    let replica = Replica::start(&options(&url)).await;
    assert!(is_taken(&take(&replica, &key(), 0).await));
    let mut connection = replica.shared.link.connect().await.unwrap();
    redis::cmd("SCRIPT").arg("FLUSH").query_async::<()>(&mut connection).await.unwrap();
    assert!(is_taken(&take(&replica, &key(), 0).await));
}

/// As after FLUSHALL, or a restart without a file.
#[tokio::test]
async fn a_redis_that_lost_everything_is_filled_anew() {
    let Some(url) = server() else { return };
    let options = Options { hold: Duration::from_millis(300), ..options(&url) };
    let replica = Replica::start(&options).await;
    let of = [Account { tokens: Some(1_000), slots: Some(1), ..account("key:a") }];
    let slot = replica.shared.slot(&of);
    let answer = replica.shared.take(&of, wants(900), slot.as_ref()).await.unwrap();
    let Verdict::Taken(held) = answer.verdict else { panic!("{answer:?}") };
    let mut connection = replica.shared.link.connect().await.unwrap();
    let keys: Vec<String> =
        redis::cmd("KEYS").arg(format!("{}*", options.prefix)).query_async(&mut connection).await.unwrap();
    assert!(keys.len() >= 3, "{keys:?}");
    redis::cmd("DEL").arg(keys).query_async::<()>(&mut connection).await.unwrap();
    // Its tokens are gone; settling them takes nothing of what others have taken since.
    let tokens = [Account { slots: None, ..of[0] }];
    assert!(is_taken(&take(&replica, &tokens, 500).await));
    held.set(100);
    until("its slot is said again", async || {
        !is_taken(&replica.shared.take(&[Account { tokens: None, ..of[0] }], wants(0), None).await.unwrap())
    })
    .await;
    let left = take(&replica, &tokens, 600).await;
    assert!(matches!(left.verdict, Verdict::Refused), "{left:?}");
}

#[tokio::test]
async fn two_clusters_under_one_prefix_are_told_apart() {
    let Some(url) = server() else { return };
    let options = options(&url);
    let first = Replica::start(&options).await;
    let second = Replica::new(&Options { secret: [8; 32], ..options.clone() });
    let error = second.shared.reach().await.unwrap_err().to_string();
    assert!(error.contains(&options.prefix) && error.contains("prefix"), "{error}");
    assert!(!second.shared.is_up() && first.shared.is_up());
    let apart = Replica::new(&Options { secret: [8; 32], prefix: format!("{}other:", options.prefix), ..options });
    assert!(apart.shared.reach().await.unwrap().is_ok());
}

#[tokio::test]
async fn a_wrong_password_is_named_and_not_shown() {
    let Some(url) = server() else { return };
    let wrong = url.replace("redis://", "redis://:canary@");
    let replica = Replica::new(&options(&wrong));
    let reason = replica.shared.reach().await.unwrap().unwrap_err();
    assert_eq!(reason, Reason::Credentials);
    assert!(!format!("{reason} {reason:?} {:?}", replica.shared).contains("canary"));
}

#[tokio::test]
async fn what_is_no_address_is_an_error_that_does_not_show_it() {
    let options = Options { url: Secret::from("redis://:canary@"), ..options("redis://h") };
    let made = Shared::new(options, Arc::new(crate::base::SystemClock), &crate::base::SystemRandom, Arc::default());
    if let Err(error) = made {
        assert!(!error.to_string().contains("canary") && error.to_string().contains("[redis] url"), "{error}");
    }
}

#[tokio::test]
async fn where_nobody_listens_redis_is_away() {
    let replica = Replica::new(&options("redis://127.0.0.1:1"));
    assert!(matches!(replica.shared.reach().await, Ok(Err(Reason::Unreachable(_)))));
    assert!(replica.shared.take(&key(), wants(0), None).await.is_err());
}
