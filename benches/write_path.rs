//! What remembering an exchange costs, over a SQLite file, in groups: learned on its way into the store, and the long way (append, claim,
//! decide, learn).
//!
//! Prints CPU time of the whole process (all threads: the driver's own included) and wall time, each per exchange.

#[path = "made/exchange.rs"]
mod exchange;

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use backstory::base::{Clock, EpisodeId, Random, SeededRandom, SystemClock};
use backstory::extract::{DecideInput, decide};
use backstory::jobs::{AtOnce, DecideArgs, ExtractLearner, FactSource, LearnObserver, Learner};
use backstory::memory::{Fact, KeySchema, Scope, Turn};
use backstory::recall::{Recall, RecallConfig};
use backstory::store::sql::{SqlStore, SqliteOptions};
use backstory::store::{Claim, Finished, Learned, Store, StoreError, UsageRow, UsageStore};

use exchange::{SAID, finished, scope, used};

/// As in the gateway.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Exchanges in one group: about what gathers while a group is committed under load.
const GROUP: u128 = 32;
/// Rows of usage in one group.
const USAGE_GROUP: usize = 128;
/// Exchanges in all.
const EXCHANGES: u128 = 9_600;

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let questions = Load { per_subject: EXCHANGES, said: &SAID[..1] };
        let people = Load { per_subject: 5, said: &SAID };
        for (name, load) in [("questions of one person", questions), ("people who say five things each", people)] {
            title(name);
            Bench::new(load).await.at_once().await;
            Bench::new(load).await.long_way().await;
        }
        title("of it");
        decide_alone();
        title("exchanges that leave nothing but what they used");
        book().await;
    });
}

/// Who says what.
#[derive(Clone, Copy)]
struct Load {
    per_subject: u128,
    said: &'static [&'static str],
}

struct Bench {
    store: Arc<dyn Store>,
    learner: ExtractLearner,
    load: Load,
    _dir: tempfile::TempDir,
}

impl Bench {
    async fn new(load: Load) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let store = SqlStore::sqlite(SqliteOptions::file(dir.path().join("bench.db"))).await.expect("a store");
        let store: Arc<dyn Store> = Arc::new(store);
        let cached = Arc::new(Cached(Recall::new(Arc::clone(&store), RecallConfig::default())));
        let ids = SeededRandom::new(1);
        let decide = move |args: DecideArgs<'_>| decide(&input(&args, &ids));
        let learner = ExtractLearner::new(
            Arc::clone(&store),
            Arc::new(decide),
            Arc::clone(&cached) as Arc<_>,
            Arc::clone(&cached) as Arc<_>,
            Arc::new(SystemClock),
        );
        // As a request does that asks memory before it is answered.
        for n in 0..EXCHANGES.div_ceil(load.per_subject) {
            cached.0.facts(&scope(n)).await.expect("read");
        }
        Self { store, learner, load, _dir: dir }
    }

    fn groups(&self) -> impl Iterator<Item = Vec<Finished>> {
        let Load { per_subject, said } = self.load;
        (0..EXCHANGES)
            .step_by(GROUP as usize)
            .map(move |first| (first..first + GROUP).map(|n| finished(n, &scope(n / per_subject), said)).collect())
    }

    async fn at_once(self) {
        let (mut deciding, mut storing, mut telling) = (Spent::default(), Spent::default(), Spent::default());
        for group in self.groups() {
            let learned = deciding.add(AtOnce::decide(&self.learner, &group)).await;
            let outcomes = storing.add(self.store.append_learned(&group, &learned)).await.expect("stored");
            let told = async {
                for (learned, outcome) in learned.iter().zip(outcomes) {
                    let (Some(learned), Some(outcome)) = (learned, outcome) else { panic!("went the long way") };
                    self.learner.stored(learned, outcome);
                }
            };
            telling.add(told).await;
        }
        print_all("at once", &[("decide", deciding), ("append what was learned", storing), ("index", telling)]);
    }

    async fn long_way(self) {
        let (mut appending, mut claiming, mut learning) = (Spent::default(), Spent::default(), Spent::default());
        for group in self.groups() {
            appending.add(self.store.append(&group)).await.expect("appended");
            let claim =
                Claim { owner: "bench".to_owned(), now: SystemClock.now(), lease: Duration::from_secs(15), max: 64 };
            let batch = claiming.add(self.store.claim(&claim)).await.expect("claimed");
            assert_eq!(batch.len() as u128, GROUP);
            learning.add(self.learner.learn(batch, "bench")).await.expect("learned");
        }
        print_all("the long way", &[("append", appending), ("claim", claiming), ("decide, learn, index", learning)]);
    }
}

/// The recall cache, as the gateway ties it to the write path.
struct Cached(Recall);

#[async_trait]
impl FactSource for Cached {
    async fn facts(&self, scope: &Scope) -> Result<(i64, Vec<Arc<Fact>>), StoreError> {
        self.0.facts(scope).await
    }

    fn facts_now(&self, scope: &Scope) -> Option<(i64, Vec<Arc<Fact>>)> {
        self.0.facts_now(scope)
    }

    fn mentioning(&self, scope: &Scope, value: &str) -> Vec<EpisodeId> {
        self.0.mentioning(scope, value)
    }
}

impl LearnObserver for Cached {
    fn learned(&self, scope: &Scope, revision: i64, learned: &Learned) {
        self.0.learned(scope, revision, learned);
    }
}

fn input<'a>(args: &'a DecideArgs<'_>, ids: &'a dyn Random) -> DecideInput<'a> {
    DecideInput {
        turn: args.turn,
        facts: args.facts,
        schema: KeySchema::builtin(),
        revision: args.revision,
        now: args.now,
        ids,
        tombstoned: args.barred,
        mentioning: args.mentioning,
        boilerplate: None,
    }
}

/// The journal's part of the store, in groups as under load.
async fn book() {
    let dir = tempfile::tempdir().expect("a folder");
    let store = SqlStore::sqlite(SqliteOptions::file(dir.path().join("bench.db"))).await.expect("a store");
    let rows: Vec<UsageRow> = (0..EXCHANGES).map(|n| used(n, SystemClock.now())).collect();
    let mut spent = Spent::default();
    for group in rows.chunks(USAGE_GROUP) {
        spent.add(store.book(group)).await.expect("booked");
    }
    spent.print("book", EXCHANGES);
}

/// The pure part of learning, without the store.
fn decide_alone() {
    let ids = SeededRandom::new(2);
    for (index, text) in SAID.iter().enumerate() {
        let mut spent = Spent::default();
        let turns: Vec<Turn> =
            (0..EXCHANGES / 5).filter_map(|n| finished(n, &scope(n), &SAID[index..=index]).turn).collect();
        let (wall, cpu) = (Instant::now(), process_cpu());
        for turn in &turns {
            std::hint::black_box(decide(&DecideInput {
                turn,
                facts: &[],
                schema: KeySchema::builtin(),
                revision: 0,
                now: turn.said_at,
                ids: &ids,
                tombstoned: &|_| false,
                mentioning: &|_| Vec::new(),
                boilerplate: None,
            }));
        }
        spent.wall += wall.elapsed();
        spent.cpu += process_cpu().saturating_sub(cpu);
        let head: String = text.chars().take(20).collect();
        spent.print(&format!("decide: {head}"), EXCHANGES / 5);
    }
    let mut spent = Spent::default();
    let mut turns: Vec<Turn> = (0..EXCHANGES).filter_map(|n| finished(n, &scope(n), &SAID).turn).collect();
    let (wall, cpu) = (Instant::now(), process_cpu());
    turns.iter_mut().for_each(backstory::memory::redact::redact_turn);
    spent.wall += wall.elapsed();
    spent.cpu += process_cpu().saturating_sub(cpu);
    spent.print("redact", EXCHANGES);
}

/// Time spent in one step.
#[derive(Clone, Copy, Debug, Default)]
struct Spent {
    wall: Duration,
    cpu: Duration,
}

impl Spent {
    async fn add<T>(&mut self, step: impl Future<Output = T>) -> T {
        let (wall, cpu) = (Instant::now(), process_cpu());
        let result = step.await;
        self.wall += wall.elapsed();
        self.cpu += process_cpu().saturating_sub(cpu);
        result
    }

    #[expect(clippy::print_stdout, reason = "a bench prints what it measured")]
    fn print(self, name: &str, exchanges: u128) {
        let each = |time: Duration| time.as_secs_f64() * 1e6 / exchanges as f64;
        let rate = exchanges as f64 / self.wall.as_secs_f64();
        println!("  {name:30} {:7.1} us CPU  {:7.1} us wall  {rate:9.0} exchanges/s", each(self.cpu), each(self.wall));
    }
}

fn print_all(name: &str, steps: &[(&str, Spent)]) {
    let mut all = Spent::default();
    for (step, spent) in steps {
        spent.print(step, EXCHANGES);
        all.wall += spent.wall;
        all.cpu += spent.cpu;
    }
    all.print(&format!("= {name}"), EXCHANGES);
}

#[expect(clippy::print_stdout, reason = "a bench prints what it measured")]
fn title(text: &str) {
    println!("{text}");
}

/// CPU time of all threads of this process. From `schedstat`: nanoseconds, where `stat` counts in ticks of 10 ms.
fn process_cpu() -> Duration {
    let threads = std::fs::read_dir("/proc/self/task").expect("Linux");
    let nanos = threads.flatten().filter_map(|thread| {
        let stat = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
        stat.split(' ').next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(nanos.sum())
}
