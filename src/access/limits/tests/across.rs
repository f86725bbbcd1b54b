//! Several processes, by one Redis.

use super::*;
use crate::shared::testing::{Proxy, Replica, options, server, until};
use crate::telemetry::{RedisCommand, RedisOutcome};

/// A process of its own.
fn process(replica: &Replica, key: Limits, rules: LimitRules) -> Place {
    let mut place = Place::of(key, rules);
    let table = LimitTable::new(place.table.rules.clone(), SALT, None, Arc::clone(&replica.metrics));
    place.table = table.shared_by(Some(Arc::clone(&replica.shared)));
    place
}

async fn take(place: &Place, tokens: u64) -> Result<Taken, GatewayError> {
    place.table.take_of_all(&place.accounts("ann").await?, &need(tokens)).await
}

/// What is left, as the headers say it.
fn left(taken: &Taken, what: &str) -> u64 {
    taken.standing().headers()[&format!("x-ratelimit-remaining-{what}")].to_str().unwrap().parse().unwrap()
}

#[tokio::test]
async fn headers_and_refusals_tell_what_all_processes_use() {
    let Some(url) = server() else { return };
    let options = options(&url);
    let (a, b) = (Replica::start(&options).await, Replica::start(&options).await);
    let limits = Limits { tokens_per_minute: Some(1_000), requests_per_minute: Some(10), ..Limits::default() };
    let (one, other) = (process(&a, limits, tenants(per_minute(3))), process(&b, limits, tenants(per_minute(3))));
    let first = take(&one, 300).await.unwrap();
    assert_eq!((left(&first, "requests"), left(&first, "tokens")), (2, 700));
    let second = take(&other, 300).await.unwrap();
    assert_eq!((left(&second, "requests"), left(&second, "tokens")), (1, 400));
    let refused = take(&one, 600).await.unwrap_err();
    assert!(refused.public.contains("1000 tokens a minute"), "{}", refused.public);
    let _third = take(&one, 300).await.unwrap();
    let refused = take(&other, 0).await.unwrap_err();
    assert!(
        refused.public.contains("this tenant is reached: 3 requests a minute, 0 requests left"),
        "{}",
        refused.public
    );
    assert!(refused.retry_after.is_some_and(|wait| wait > Duration::from_secs(10) && wait <= Duration::from_secs(20)));
}

#[tokio::test]
async fn what_is_settled_or_dropped_is_there_for_the_others() {
    let Some(url) = server() else { return };
    let options = options(&url);
    let (a, b) = (Replica::start(&options).await, Replica::start(&options).await);
    let limits = Limits { tokens_per_minute: Some(1_000), max_concurrency: Some(2), ..Limits::default() };
    let (one, other) = (process(&a, limits, LimitRules::default()), process(&b, limits, LimitRules::default()));
    let (mut first, second) = (take(&one, 500).await.unwrap(), take(&other, 500).await.unwrap());
    let refused = take(&one, 1).await.unwrap_err();
    assert!(refused.public.contains("2 requests at a time"), "{}", refused.public);
    // The reply is over, and used less; the other one was never sent.
    first.settle(spent(100));
    drop((first, second));
    until("both gave back", async || take(&one, 850).await.is_ok()).await;
}

/// A request that is sent with less than was reserved, and then settled: its own share alone moves.
#[tokio::test]
async fn what_is_known_better_on_the_way_is_held_in_its_place() {
    let Some(url) = server() else { return };
    let options = options(&url);
    let (a, b) = (Replica::start(&options).await, Replica::start(&options).await);
    let limits = Limits { tokens_per_minute: Some(1_000), ..Limits::default() };
    let (one, other) = (process(&a, limits, LimitRules::default()), process(&b, limits, LimitRules::default()));
    let taken = take(&one, 900).await.unwrap();
    taken.reserved().unwrap().sending(200).unwrap();
    until("the rest is free", async || take(&other, 700).await.is_ok()).await;
    assert!(taken.reserved().unwrap().sending(2_000).is_err(), "more than the limit is");
}

#[tokio::test]
async fn days_alone_ask_redis_nothing_and_a_day_that_is_used_up_neither() {
    let Some(url) = server() else { return };
    let replica = Replica::start(&options(&url)).await;
    let asked = || replica.metrics.redis_commands.get(RedisCommand::Take, RedisOutcome::Ok);
    let days = process(&replica, per_day(100), LimitRules::default());
    take(&days, 10).await.unwrap();
    assert_eq!(asked(), 0);
    let both = Limits { requests_per_minute: Some(10), ..per_day(100) };
    let both = process(&replica, both, LimitRules::default());
    take(&both, 100).await.unwrap().settle(spent(100));
    assert_eq!(asked(), 1);
    assert_eq!(take(&both, 10).await.unwrap_err().code(), "insufficient_quota");
    assert_eq!(asked(), 1);
}

#[tokio::test]
async fn while_redis_is_away_each_goes_on_from_what_it_heard_last() {
    let Some(url) = server() else { return };
    let options = options(&url);
    let proxy = Proxy::start(&url).await;
    let far = crate::shared::Options { url: crate::base::Secret::from(&*proxy.url()), ..options.clone() };
    let (a, b) = (Replica::start(&far).await, Replica::start(&options).await);
    let (one, other) =
        (process(&a, per_minute(10), LimitRules::default()), process(&b, per_minute(10), LimitRules::default()));
    for _ in 0..6 {
        take(&other, 0).await.unwrap();
    }
    let heard = take(&one, 0).await.unwrap();
    assert_eq!(left(&heard, "requests"), 3);
    proxy.cut();
    until("it is away", async || !a.shared.is_up() || a.shared.take(&[], wanted(), None).await.is_err()).await;
    // Three are left of what all have.
    let passed = futures_util::future::join_all((0..5).map(|_| take(&one, 0))).await;
    assert_eq!(passed.iter().filter(|taken| taken.is_ok()).count(), 3);
    assert_eq!(a.metrics.limits_local.get(), 5);
    assert!(a.metrics.render().contains("\nbackstory_redis_up 0\n"));
}

fn wanted() -> crate::shared::Wanted {
    crate::shared::Wanted { least: 1, ample: 1, take: 0 }
}

/// Issue 8: over replicas a limit is passed by a request each at most.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_three_processes_at_the_edge_only_what_fits_passes() {
    let Some(url) = server() else { return };
    let options = options(&url);
    let limits = Limits { tokens_per_minute: Some(6_000), ..Limits::default() };
    let mut asking = tokio::task::JoinSet::new();
    for _ in 0..3 {
        let replica = Replica::start(&options).await;
        let place = Arc::new((process(&replica, limits, tenants(per_minute(1_000))), replica));
        for _ in 0..40 {
            let place = Arc::clone(&place);
            asking.spawn(async move {
                let accounts = place.0.accounts("ann").await.unwrap();
                let (least, most) = (need(50), need(150));
                let taken = match place.0.table.take_of_all_if_ample(&accounts, &least, &most).await {
                    Ok(Some(taken)) => Ok(taken),
                    Ok(None) => place.0.table.take_of_all(&accounts, &need(100)).await,
                    Err(error) => Err(error),
                };
                // Each uses what was counted, whatever was reserved before.
                let mut taken = taken.ok()?;
                taken.settle(spent(100));
                Some(taken)
            });
        }
    }
    let taken: Vec<_> = asking.join_all().await.into_iter().flatten().collect();
    // 60 fit; 100 tokens drain in a second, and some were refused while others held more than they used.
    assert!(taken.len() <= 63, "{}", taken.len());
    assert!(taken.len() >= 40, "{}", taken.len());
}
