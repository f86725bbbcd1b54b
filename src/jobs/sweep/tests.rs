//! The sweep over a store in memory.

use std::sync::Mutex;

use super::*;
use crate::base::{ManualClock, SeededRandom};
use crate::memory::{Actor, FactStatus, SourceType, Speaker};
use crate::store::contract::fixtures::{NOW, episode, insert, scope};
use crate::store::contract::usage::row;
use crate::store::sql::{SqlStore, SqliteOptions};
use crate::store::{EpisodeStore, FactStore, ScopeStore, UpkeepStore, UsageQuery, UsageStore};

struct Host {
    max_episodes: usize,
    told: Mutex<Vec<(String, Forgotten)>>,
}

impl SweepHost for Host {
    fn rules(&self, _: &str) -> ForgetRules {
        ForgetRules {
            inferred_ttl: Some(7 * 86_400_000),
            episode_ttl: None,
            max_facts: 100,
            max_episodes: self.max_episodes,
        }
    }

    fn tune(&self, _: &Scope, _: &mut Fact) {}

    fn forgotten(&self, scope: &Scope, what: &Forgotten) {
        self.told.lock().unwrap().push((scope.subject.to_string(), *what));
    }
}

struct Bench {
    sweep: Sweep,
    store: SqlStore,
    host: Arc<Host>,
    clock: Arc<ManualClock>,
}

impl Bench {
    async fn new(config: SweepConfig) -> Self {
        let store = SqlStore::sqlite(SqliteOptions::default()).await.unwrap();
        let host = Arc::new(Host { max_episodes: 2, told: Mutex::default() });
        let clock = Arc::new(ManualClock::new(NOW));
        let sweep =
            Sweep::new(Arc::new(store.clone()), host.clone(), clock.clone(), Arc::new(SeededRandom::new(1)), config);
        Self { sweep, store, host, clock }
    }

    /// A scope of three episodes, one more than it may hold.
    async fn fill(&self, subject: &str, base: u128) {
        let episodes = [1, 2, 3].map(|n| {
            let mut one = episode(base + n, Speaker::User, &format!("{subject} said word{n} and nothing else"));
            one.half_life = 86_400;
            one.said_at = NOW.plus_seconds(n as i64);
            one
        });
        self.store.put_episodes(&scope(subject), &episodes).await.unwrap();
    }

    async fn step(&self) {
        self.sweep.step(&CancellationToken::new()).await.unwrap();
    }

    fn told(&self) -> Vec<String> {
        self.host.told.lock().unwrap().iter().map(|(subject, _)| subject.clone()).collect()
    }
}

#[tokio::test]
async fn a_round_goes_over_all_scopes_in_pieces_and_goes_on_after_a_restart() {
    let bench = Bench::new(SweepConfig { scopes: 2, ..SweepConfig::default() }).await;
    for (n, subject) in (0..).zip(["a", "b", "c"]) {
        bench.fill(subject, n * 100).await;
    }
    bench.step().await;
    assert_eq!(bench.told(), ["a", "b"]);
    // Another process goes on where this one stood.
    let other = Sweep::new(
        Arc::new(bench.store.clone()),
        bench.host.clone(),
        bench.clock.clone(),
        Arc::new(SeededRandom::new(2)),
        SweepConfig { scopes: 2, ..SweepConfig::default() },
    );
    other.step(&CancellationToken::new()).await.unwrap();
    assert_eq!(bench.told(), ["a", "b", "c"]);
    assert_eq!(other.counters().rounds.load(Ordering::Relaxed), 1);
    let left = bench.store.episode(&scope("c"), EpisodeId(201)).await.unwrap().unwrap();
    assert_eq!(left.status, EpisodeStatus::Archived, "the oldest was put aside");
}

#[tokio::test]
async fn the_next_round_begins_a_day_later() {
    let bench = Bench::new(SweepConfig::default()).await;
    bench.step().await;
    bench.fill("a", 0).await;
    bench.step().await;
    assert!(bench.told().is_empty());
    bench.clock.advance_millis(24 * 3600 * 1000);
    bench.step().await;
    assert_eq!(bench.told(), ["a"]);
}

#[tokio::test]
async fn what_runs_out_has_a_history_row_of_the_sweep() {
    let bench = Bench::new(SweepConfig::default()).await;
    let ann = scope("ann");
    let mut guess = insert(1, "note.a", "x");
    guess.fact.source_type = SourceType::Inferred;
    bench.store.apply(&ann, &[guess, insert(2, "note.b", "y")]).await.unwrap();
    bench.clock.advance_millis(8 * 86_400_000);
    bench.step().await;
    assert_eq!(bench.store.fact(&ann, FactId(1)).await.unwrap().unwrap().status, FactStatus::Expired);
    assert_eq!(bench.store.fact(&ann, FactId(2)).await.unwrap().unwrap().status, FactStatus::Active);
    let history = bench.store.history(&ann, FactId(1)).await.unwrap();
    assert_eq!((history[1].actor, history[1].reason.as_str()), (Actor::Sweep, "not confirmed in time"));
    // Half a year later it is gone, with its history.
    bench.clock.advance_millis(KEEP_MILLIS + 1);
    bench.step().await;
    assert_eq!(bench.store.fact(&ann, FactId(1)).await.unwrap(), None);
    assert!(bench.store.history(&ann, FactId(1)).await.unwrap().is_empty());
    assert!(bench.store.fact(&ann, FactId(2)).await.unwrap().is_some());
}

#[tokio::test]
async fn an_erased_scope_is_not_brought_back() {
    let bench = Bench::new(SweepConfig::default()).await;
    bench.fill("ann", 0).await;
    bench.store.erase(&scope("ann"), NOW).await.unwrap();
    bench.step().await;
    assert!(bench.told().is_empty());
    assert!(bench.store.scopes_after(0, 10).await.unwrap().is_empty(), "its name does not come back");
}

#[tokio::test]
async fn a_mark_that_cannot_be_read_begins_anew() {
    let bench = Bench::new(SweepConfig::default()).await;
    bench.fill("a", 0).await;
    bench.store.set_mark(MARK, "{\"began\": \"a later version\"}").await.unwrap();
    bench.step().await;
    assert_eq!(bench.told(), ["a"]);
}

#[tokio::test]
async fn the_books_are_kept_for_so_many_days_however_many_rows_there_are() {
    let config = SweepConfig { usage_days: 10, rows: 2, ..SweepConfig::default() };
    let bench = Bench::new(config).await;
    let rows: Vec<_> = (0..20).map(|day| row(day, "k", None)).collect();
    bench.store.book(&rows).await.unwrap();
    bench.clock.set(rows[19].at);
    bench.step().await;
    let left = bench.store.usage(&UsageQuery { limit: 1, ..UsageQuery::default() }).await.unwrap();
    assert_eq!(left[0].sums.exchanges, 11);

    let keeping = Bench::new(SweepConfig { usage_days: 0, ..config }).await;
    keeping.store.book(&rows).await.unwrap();
    keeping.clock.set(rows[19].at);
    keeping.step().await;
    let left = keeping.store.usage(&UsageQuery { limit: 1, ..UsageQuery::default() }).await.unwrap();
    assert_eq!(left[0].sums.exchanges, 20);
}
