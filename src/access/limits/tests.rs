//! Many accounts, many requests, a store, and clocks that jump.

mod across;
mod stored;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use proptest::prelude::*;

use super::super::testing::principal;
use super::*;
use crate::base::{ErrorKind, MAX_FIGURE};
use crate::store::sql::{SqlStore, SqliteOptions};
use crate::store::{BudgetTotal, BudgetUse, StoreError, Unreachable};
use crate::telemetry::Limit;
use crate::tokens::{Cost, Price, Rate};

const SALT: [u8; 32] = [7; 32];

/// A table over a store, and who asks it.
struct Place {
    table: LimitTable,
    principal: Principal,
    now: Instant,
    at: Time,
}

impl Place {
    fn of(key: Limits, rules: LimitRules) -> Self {
        Self::over(key, rules, None)
    }

    fn over(key: Limits, rules: LimitRules, store: Option<Arc<dyn BudgetStore>>) -> Self {
        let principal = Principal { key: 1, limits: key, ..principal("acme") };
        let table = LimitTable::new(rules, SALT, store, Arc::default());
        Self { table, principal, now: Instant::now(), at: Time::parse("2026-11-30T12:00:00Z").unwrap() }
    }

    async fn accounts(&self, subject: &str) -> Result<Accounts, GatewayError> {
        let Self { principal, now, at, .. } = self;
        let asking = Asking { principal, subject: Some(subject), model: Some("gpt"), now: *now, at: *at };
        self.table.accounts(&asking).await.map(|accounts| accounts.expect("something is limited"))
    }

    async fn take(&self, tokens: u64) -> Result<Taken, GatewayError> {
        self.table.take(&self.accounts("ann").await?, &need(tokens))
    }

    fn set_store(&mut self, store: Option<Arc<dyn BudgetStore>>) {
        Arc::get_mut(&mut self.table.held).unwrap().store = store;
    }

    /// Takes and uses exactly so much.
    async fn spend(&self, tokens: u64) -> Result<(), GatewayError> {
        self.take(tokens).await?.settle(spent(tokens));
        Ok(())
    }
}

fn need(input: u64) -> Need {
    Need { input, ..Need::default() }
}

fn spent(tokens: u64) -> Spent {
    Spent { tokens, cost: None }
}

fn per_day(tokens: u64) -> Limits {
    Limits { tokens_per_day: Some(tokens), ..Limits::default() }
}

fn per_minute(requests: u64) -> Limits {
    Limits { requests_per_minute: Some(requests), ..Limits::default() }
}

fn tenants(limits: Limits) -> LimitRules {
    LimitRules { each_tenant: limits, ..LimitRules::default() }
}

async fn sqlite() -> Arc<dyn BudgetStore> {
    Arc::new(SqlStore::sqlite(SqliteOptions::default()).await.unwrap())
}

#[tokio::test]
async fn who_has_no_limits_has_no_account() {
    let place = Place::of(Limits::default(), LimitRules::default());
    let Place { table, principal, now, at } = &place;
    let asking = Asking { principal, subject: Some("ann"), model: Some("gpt"), now: *now, at: *at };
    assert!(table.accounts(&asking).await.unwrap().is_none() && table.is_empty());
}

#[tokio::test]
async fn under_other_limits_what_was_used_still_counts() {
    let mut place = Place::of(Limits::default(), tenants(per_day(100)));
    place.spend(80).await.unwrap();
    place.table = place.table.under(tenants(per_day(90)));
    assert_eq!(place.take(20).await.unwrap_err().kind, ErrorKind::RateLimited);
    place.spend(5).await.unwrap();
    place.table = place.table.under(LimitRules::default());
    let Place { table, principal, now, at } = &place;
    let asking = Asking { principal, subject: Some("ann"), model: Some("gpt"), now: *now, at: *at };
    assert!(table.accounts(&asking).await.unwrap().is_none(), "nothing is limited any more");
}

/// BerriAI/litellm#18730, #26672: parallel requests at the edge of a budget; only what fits passes.
#[tokio::test]
async fn of_fifty_parallel_requests_at_the_edge_only_what_fits_passes() {
    for _ in 0..20 {
        let limits = Limits { tokens_per_day: Some(10_000), tokens_per_minute: Some(10_000), ..Limits::default() };
        let place = Place::of(limits, tenants(per_day(9_990)));
        place.spend(9_900).await.unwrap();
        let accounts = place.accounts("ann").await.unwrap();
        let passed: Vec<bool> = thread::scope(|scope| {
            let one = || place.table.take(&accounts, &need(20)).map(|mut taken| taken.settle(spent(20))).is_ok();
            let all: Vec<_> = (0..50).map(|_| scope.spawn(one)).collect();
            all.into_iter().map(|one| one.join().unwrap()).collect()
        });
        // The tenant has 90 left.
        assert_eq!(passed.iter().filter(|passed| **passed).count(), 4);
    }
}

#[tokio::test]
async fn what_one_limit_refuses_is_taken_from_none() {
    let place = Place::of(per_minute(100), tenants(per_minute(1)));
    place.spend(1).await.unwrap();
    for _ in 0..5 {
        let error = place.spend(1).await.unwrap_err();
        assert!(error.public.contains("this tenant"), "{}", error.public);
    }
    let taken = place.table.take(&place.accounts("bob").await.unwrap(), &need(1));
    assert!(taken.is_err());
    let metrics = &place.table.held.books.metrics;
    assert_eq!(metrics.limited.get(Limit::RequestsPerMinute, LimitOf::Tenant), 6);
    let accounts = place.accounts("ann").await.unwrap();
    let headers = accounts.lock().standing().headers();
    // The tighter of the two is told; the key itself has 99 left.
    assert_eq!(headers["x-ratelimit-remaining-requests"], "0");
    let key = accounts.iter().next().unwrap();
    assert_eq!(key.meter.lock().requests_left(&key.limits).unwrap().1, 99);
}

#[tokio::test]
async fn a_slot_is_held_until_the_body_ends_and_not_only_until_the_end_is_known() {
    let place = Place::of(Limits { max_concurrency: Some(1), ..Limits::default() }, LimitRules::default());
    let mut taken = place.take(0).await.unwrap();
    let running = taken.running();
    taken.settle(spent(1));
    drop(taken);
    let refused = place.take(0).await.unwrap_err();
    assert_eq!((refused.kind, refused.openai_type()), (ErrorKind::RateLimited, "requests"));
    drop(running);
    assert!(place.take(0).await.is_ok());
    assert_eq!(place.table.running(), 0);
}

#[tokio::test]
async fn what_was_not_sent_on_is_given_back() {
    let place = Place::of(per_day(100), LimitRules::default());
    let accounts = place.accounts("ann").await.unwrap();
    let left = || accounts.lock().standing().tokens.unwrap().remaining;
    let taken = place.table.take(&accounts, &Need { input: 30, output: 50, price: None }).unwrap();
    assert_eq!(left(), 20);
    drop(taken);
    assert_eq!(left(), 100);
}

#[tokio::test]
async fn what_is_held_follows_what_is_sent_as_far_as_there_is_room() {
    let place = Place::of(per_day(100), LimitRules::default());
    let first = place.take(80).await.unwrap();
    assert!(place.take(30).await.is_err());
    first.reserved().unwrap().sending(60).unwrap();
    let second = place.take(30).await.unwrap();
    let refused = second.reserved().unwrap().sending(41).unwrap_err();
    assert_eq!(refused.code(), "insufficient_quota");
    second.reserved().unwrap().sending(40).unwrap();
    assert!(place.take(1).await.is_err());
}

#[tokio::test]
async fn money_is_counted_in_what_tokens_cost_and_unknown_prices_are_counted_apart() {
    let limits = Limits { usd_per_month: Some(1_000_000_000), ..Limits::default() };
    let place = Place::of(limits, LimitRules::default());
    let accounts = place.accounts("ann").await.unwrap();
    let rate = |dollars| Rate::per_million(dollars).unwrap();
    let price = Some(Price { input: rate(1.0), output: rate(10.0), ..Price::default() });
    // 500,000 × 1 + 40,000 × 10 millionths of a dollar.
    let mut taken = place.table.take(&accounts, &Need { input: 500_000, output: 40_000, price }).unwrap();
    let refused = place.table.take(&accounts, &Need { input: 200_000, output: 0, price }).unwrap_err();
    assert!(refused.public.contains("1.00 USD a month (UTC), 0.10 USD left"), "{}", refused.public);
    taken.settle(Spent { tokens: 540_000, cost: Some(Cost::from_micros(700_000)) });
    assert!(place.table.take(&accounts, &Need { input: 200_000, output: 0, price }).is_ok());
    place.table.take(&accounts, &need(1_000_000)).unwrap().settle(spent(1_000_000));
    assert_eq!(place.table.held.books.metrics.limit_unpriced.get(), 1);
    // Where nothing is left, nothing passes, priced or not.
    let mut taken = place.table.take(&accounts, &Need { input: 300_000, output: 0, price }).unwrap();
    taken.settle(Spent { tokens: 300_000, cost: Some(Cost::from_micros(300_000)) });
    assert!(place.table.take(&accounts, &need(1)).is_err());
}

#[tokio::test]
async fn a_day_begins_anew_and_a_clock_that_jumps_back_makes_no_budget_whole() {
    let mut place = Place::of(per_day(100), LimitRules::default());
    place.spend(100).await.unwrap();
    let refused = place.spend(1).await.unwrap_err();
    assert_eq!(refused.retry_after, Some(Duration::from_secs(12 * 3_600)));
    place.at = Time::parse("2026-12-01T00:00:00Z").unwrap();
    place.spend(100).await.unwrap();
    for back in ["2026-11-30T23:59:59Z", "2026-11-29T12:00:00Z"] {
        place.at = Time::parse(back).unwrap();
        assert!(place.spend(1).await.is_err(), "{back}");
    }
    // What was ahead by more was wrong: the clock is followed, with what that day had used.
    place.at = Time::parse("2026-11-01T00:00:00Z").unwrap();
    place.spend(100).await.unwrap();
    place.at = Time::parse("2026-11-30T12:00:00Z").unwrap();
    assert!(place.spend(1).await.is_err());
}

#[tokio::test]
async fn a_request_counts_on_the_day_on_which_it_began() {
    let mut place = Place::of(per_day(100), LimitRules::default());
    let mut taken = place.take(60).await.unwrap();
    place.at = Time::parse("2026-12-01T00:00:00Z").unwrap();
    place.spend(100).await.unwrap();
    taken.settle(spent(90));
    place.at = Time::parse("2026-12-02T00:00:00Z").unwrap();
    place.spend(100).await.unwrap();
}

#[tokio::test]
async fn a_full_table_drops_who_is_idle_and_turns_new_people_away_but_no_key() {
    let rules = LimitRules { each_subject: per_minute(60), ..LimitRules::default() };
    let mut place = Place::of(Limits::default(), rules);
    Arc::get_mut(&mut place.table.held).unwrap().max_accounts = 3;
    for subject in ["ann", "bob", "eve"] {
        place.table.take(&place.accounts(subject).await.unwrap(), &need(1)).unwrap();
    }
    let refused = place.accounts("joe").await.unwrap_err();
    assert!(refused.kind == ErrorKind::Overloaded && refused.public.contains("users"), "{}", refused.public);
    assert!(place.accounts("ann").await.is_ok());
    place.principal.limits = per_minute(1);
    assert!(place.accounts("ann").await.is_ok());
    place.principal.limits = Limits::default();
    // Two seconds later their requests have drained.
    place.now += Duration::from_secs(2);
    place.table.held.looked_at.store(0, Ordering::Relaxed);
    assert!(place.accounts("joe").await.is_ok());
    assert_eq!(place.table.len(), 1);
}

#[tokio::test]
async fn what_is_not_written_or_runs_is_never_dropped() {
    let store = sqlite().await;
    let place = Place::over(per_day(100), LimitRules::default(), Some(store));
    let taken = place.take(10).await.unwrap();
    let later = place.now + Duration::from_secs(3_600);
    place.table.drop_idle(later, Duration::ZERO);
    assert_eq!(place.table.len(), 1);
    drop(taken);
    place.table.drop_idle(later, Duration::ZERO);
    assert_eq!(place.table.len(), 1, "it is still to be written");
    place.table.write(place.at).await.unwrap();
    place.table.drop_idle(later, Duration::ZERO);
    assert_eq!(place.table.len(), 0);
}

#[tokio::test]
async fn while_there_is_plenty_nobody_counts_and_where_nothing_fits_neither() {
    let place = Place::of(per_day(1_000), LimitRules::default());
    let accounts = place.accounts("ann").await.unwrap();
    let take = |least, most| place.table.take_if_ample(&accounts, &need(least), &need(most));
    assert!(take(1, 100).unwrap().is_some());
    assert!(take(1, 200).unwrap().is_none());
    assert!(take(1_001, 2_000).is_err());
}

/// A limit that comes later does not find all that was used before there was one.
#[tokio::test]
async fn what_was_not_limited_was_not_counted() {
    let mut place = Place::of(per_day(1_000_000), LimitRules::default());
    for _ in 0..50 {
        place.spend(1_000).await.unwrap();
    }
    let tokens_per_minute = Some(1_000);
    place.principal.limits = Limits { requests_per_minute: Some(10), tokens_per_minute, ..place.principal.limits };
    place.spend(1_000).await.unwrap();
    assert!(place.spend(1).await.is_err());
}

/// One person, two keys of a tenant: the person's limit holds over both.
#[tokio::test]
async fn a_person_is_the_same_with_every_key_of_the_tenant_and_another_in_each_tenant() {
    let rules = LimitRules { each_subject: per_minute(1), ..LimitRules::default() };
    let mut place = Place::of(Limits::default(), rules);
    place.spend(1).await.unwrap();
    place.principal.key = 2;
    assert!(place.spend(1).await.unwrap_err().public.contains("this user"));
    place.principal.tenant = "other".into();
    place.spend(1).await.unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever becomes of requests, the books say in the end what was settled, for all accounts alike, and nothing runs.
    #[test]
    fn the_books_balance(steps in prop::collection::vec((1..400_u64, 0..600_u64, 0..3_u8), 1..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let place = Place::of(per_day(5_000), tenants(per_day(4_000)));
            let accounts = place.accounts("ann").await.unwrap();
            let (mut open, mut used) = (Vec::new(), 0);
            for (estimate, actual, what) in steps {
                let before = 4_000_u64.saturating_sub(used + open.iter().map(|(_, n)| n).sum::<u64>());
                match place.table.take(&accounts, &need(estimate)) {
                    Ok(taken) => {
                        assert!(estimate <= before);
                        open.push((taken, estimate));
                    }
                    Err(_) => assert!(estimate > before),
                }
                if what > 0 && !open.is_empty() {
                    let (mut taken, _) = open.swap_remove(actual as usize % open.len());
                    match what {
                        1 => {
                            taken.settle(spent(actual));
                            used += actual;
                        }
                        _ => drop(taken),
                    }
                }
            }
            drop(open);
            assert_eq!(place.table.running(), 0);
            for account in accounts.iter() {
                assert_eq!(account.meter.lock().ledger.used(accounts.when.day).tokens, used);
            }
        });
    }
}
