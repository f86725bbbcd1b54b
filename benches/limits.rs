//! What keys and limits cost a request: to find its key among 10,000, to reserve of four accounts that have every limit
//! there is, and to settle. The goal is 20 us for keys, limits and routing together.
//!
//!     cargo bench --bench limits
//!
//! With `BACKSTORY_TEST_REDIS` (`redis://…`) the same where replicas share limits: a round trip for each request, one after the other.

use std::collections::HashMap;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use backstory::access::{Asking, Keys, LimitRules, LimitTable, Need, Spent, VirtualKeys, fingerprint};
use backstory::base::{Secret, SystemClock, SystemRandom, Time};
use backstory::context::PolicyChanges;
use backstory::exchange::{Limits, MemoryApi, Principal, SubjectRule, Switch};
use backstory::memory::Sensitivity;
use backstory::shared::{Change, Follow, HOLD, Options, Shared};
use backstory::store::sql::{SqlStore, SqliteOptions};
use backstory::telemetry::Metrics;
use backstory::tokens::{Cost, Price, Rate};
use criterion::{Criterion, criterion_group, criterion_main};
use http::HeaderMap;
use http::header::AUTHORIZATION;
use tokio::runtime::{Builder, Runtime};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

const N_KEYS: usize = 10_000;
const N_TENANTS: usize = 100;
/// Noon of a day.
const AT: Time = Time(1_796_040_000_000);

/// Every limit there is, and none that is reached.
const ALL: Limits = Limits {
    max_concurrency: Some(1_000_000),
    requests_per_minute: Some(4_000_000_000),
    tokens_per_minute: Some(1_000_000_000_000),
    tokens_per_day: Some(1_000_000_000_000_000),
    tokens_per_month: Some(1_000_000_000_000_000),
    usd_per_day: Some(1_000_000_000_000_000_000),
    usd_per_month: Some(1_000_000_000_000_000_000),
};

struct Gateway {
    keys: Keys,
    headers: Vec<HeaderMap>,
    table: LimitTable,
    runtime: Runtime,
    price: Option<Price>,
}

/// Nothing is held here that replicas could change.
struct Nobody;

impl Follow for Nobody {
    fn follow(&self, _: &Change) {}

    fn missed(&self) {}
}

impl Gateway {
    /// 10,000 keys of 100 tenants with these limits of the key, its people, its tenant and its model.
    fn new(limits: Limits) -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let secret = |n: usize| format!("bsk-{n:052}");
        let configured: HashMap<_, _> =
            (0..N_KEYS).map(|n| (fingerprint(&secret(n)), Arc::new(principal(n, limits)))).collect();
        let headers = (0..N_KEYS)
            .map(|n| HeaderMap::from_iter([(AUTHORIZATION, format!("Bearer {}", secret(n)).parse().expect("plain"))]));
        let rules = LimitRules {
            each_tenant: limits,
            models: HashMap::from([("gpt".to_owned(), limits)]),
            ..LimitRules::default()
        };
        let store = runtime.block_on(SqlStore::sqlite(SqliteOptions::default())).expect("a store in memory");
        let rate = |dollars| Rate::per_million(dollars).expect("a price");
        Self {
            keys: Keys::Virtual(VirtualKeys { configured, stored: None }),
            headers: headers.collect(),
            table: LimitTable::new(rules, [7; 32], Some(Arc::new(store)), Arc::new(Metrics::new())),
            runtime,
            price: Some(Price { input: rate(2.5), output: rate(10.0), ..Price::default() }),
        }
    }

    /// The same, whose limits are shared through a Redis.
    fn shared_by(mut self, url: &str) -> Self {
        let options = Options {
            url: Secret::from(url),
            prefix: format!("bench-{}:", std::process::id()),
            timeout: Duration::from_secs(1),
            hold: HOLD,
            secret: [7; 32],
        };
        let shared = Shared::new(options, Arc::new(SystemClock), &SystemRandom, Arc::default()).expect("an address");
        let shared = Arc::new(shared);
        self.runtime.block_on(async {
            shared.reach().await.expect("no other cluster").expect("a Redis that answers");
            shared.start(Arc::new(Nobody), &TaskTracker::new(), &CancellationToken::new());
        });
        self.table = self.table.shared_by(Some(shared));
        self
    }

    /// What the `n`th request has done with keys and limits.
    fn request(&self, n: usize) {
        let Self { keys, headers, table, runtime, price } = self;
        runtime.block_on(async {
            let (principal, _) = keys.authenticate(&headers[n % N_KEYS]).await.expect("a known key");
            let asking = Asking {
                principal: &principal,
                subject: Some("person"),
                model: Some("gpt"),
                now: Instant::now(),
                at: AT,
            };
            let Some(accounts) = table.accounts(&asking).await.expect("a store that answers") else { return };
            let need = Need { input: 400, output: 1_024, price: *price };
            let taken = table.take_of_all_if_ample(&accounts, &Need::default(), &need).await;
            let mut taken = taken.expect("room").expect("plenty");
            let running = taken.running();
            let reserved = taken.reserved().expect("tokens count");
            reserved.sending(350).expect("room");
            black_box(taken.standing().headers());
            taken.settle(Spent { tokens: 500, cost: Some(Cost::from_micros(1_500)) });
            drop(running);
        });
    }
}

fn principal(n: usize, limits: Limits) -> Principal {
    Principal {
        tenant: format!("tenant-{}", n % N_TENANTS).as_str().into(),
        namespace: "default".into(),
        read_namespaces: vec![],
        any_namespace: false,
        subject: SubjectRule { from: vec![], default: None, may_name: true },
        memory: Switch::OFF,
        memory_api: MemoryApi::Off,
        may_edit: false,
        models: vec![],
        passthrough: vec![],
        max_sensitivity: Sensitivity::Sensitive,
        budget: PolicyChanges::default(),
        key: n as u128,
        key_name: "bench".into(),
        limits,
        each_subject: limits,
    }
}

fn limits(c: &mut Criterion) {
    let mut n = 0;
    let limited = Gateway::new(ALL);
    // Each account's use is read from the store once, which is not what is measured here.
    (0..N_KEYS).for_each(|n| limited.request(n));
    c.bench_function("limits/10,000 keys, all limits of all four", |b| {
        b.iter(|| {
            n += 1;
            limited.request(n);
        });
    });
    let free = Gateway::new(Limits::default());
    c.bench_function("limits/10,000 keys, none", |b| {
        b.iter(|| {
            n += 1;
            free.request(n);
        });
    });
    if let Ok(url) = std::env::var("BACKSTORY_TEST_REDIS") {
        let shared = Gateway::new(ALL).shared_by(&url);
        (0..N_KEYS).for_each(|n| shared.request(n));
        c.bench_function("limits/10,000 keys, all limits of all four, shared through Redis", |b| {
            b.iter(|| {
                n += 1;
                shared.request(n);
            });
        });
    }
    let mut group = c.benchmark_group("limits");
    group.sample_size(10);
    group.bench_function("write the use of 10,000 keys", |b| {
        b.iter_custom(|rounds| {
            let mut spent = Duration::ZERO;
            for _ in 0..rounds {
                (0..N_KEYS).for_each(|n| limited.request(n));
                let begun = Instant::now();
                limited.runtime.block_on(limited.table.write(AT)).expect("a store that answers");
                spent += begun.elapsed();
            }
            spent
        });
    });
    group.finish();
}

criterion_group!(benches, limits);
criterion_main!(benches);
