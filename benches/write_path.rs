//! What remembering an exchange costs: append, claim, decide, learn, over a SQLite file, in groups.
//!
//! Prints CPU time of the whole process (all threads: the driver's own included) and wall time, each per exchange.

use std::sync::Arc;
use std::time::{Duration, Instant};

use backstory::base::{Clock, ExchangeId, Random, SeededRandom, SystemClock};
use backstory::extract::{DecideInput, decide};
use backstory::jobs::{DecideArgs, ExtractLearner, Learner, NoObserver, StoreFacts};
use backstory::memory::{KeySchema, Said, Scope, Speaker, Turn};
use backstory::store::sqlite::{SqliteOptions, SqliteStore};
use backstory::store::{Claim, Finished, Store};

/// Exchanges in one group: about what gathers while a group is committed under load.
const GROUP: u128 = 50;
/// Exchanges in all.
const EXCHANGES: u128 = 10_000;
/// Each person says so many things: their facts and episodes stay few, so that the write path is what is measured.
const PER_SUBJECT: u128 = 5;

const SAID: [&str; 5] = [
    "What is the difference between a mutex and a semaphore, and when should I use which?",
    "I live in Oslo and I'm allergic to peanuts. Can you suggest a restaurant?",
    "Our deployment fails with error 137 after about ten minutes; the logs show nothing unusual.",
    "我住在上海，对花生过敏。周末有什么推荐？",
    "Please summarise the plan that we discussed, and list the open questions for the meeting.",
];

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(run());
}

async fn run() {
    let dir = tempfile::tempdir().expect("a folder");
    let store = SqliteStore::open(SqliteOptions::file(dir.path().join("bench.db"))).await.expect("a store");
    let store: Arc<dyn Store> = Arc::new(store);
    let ids = Arc::new(SeededRandom::new(1)) as Arc<dyn Random>;
    let learner = learner(&store, ids);
    let (mut appending, mut claiming, mut learning) = (Spent::default(), Spent::default(), Spent::default());
    for first in (0..EXCHANGES).step_by(GROUP as usize) {
        let group: Vec<Finished> = (first..first + GROUP).map(finished).collect();
        appending.add(store.append(&group)).await.expect("appended");
        let claim =
            Claim { owner: "bench".to_owned(), now: SystemClock.now(), lease: Duration::from_secs(15), max: 64 };
        let batch = claiming.add(store.claim(&claim)).await.expect("claimed");
        assert_eq!(batch.len() as u128, GROUP);
        learning.add(learner.learn(batch, "bench")).await.expect("learned");
    }
    let mut all = Spent::default();
    for (name, spent) in [("append", appending), ("claim", claiming), ("decide and learn", learning)] {
        spent.print(name);
        all.wall += spent.wall;
        all.cpu += spent.cpu;
    }
    all.print("all");
    decide_alone();
}

fn learner(store: &Arc<dyn Store>, ids: Arc<dyn Random>) -> ExtractLearner {
    let decide = move |args: DecideArgs<'_>| {
        decide(&DecideInput {
            turn: args.turn,
            facts: args.facts,
            schema: KeySchema::builtin(),
            revision: args.revision,
            now: args.now,
            ids: &*ids,
            tombstoned: args.barred,
            mentioning: args.mentioning,
            boilerplate: None,
        })
    };
    let facts = Arc::new(StoreFacts::new(Arc::clone(store)));
    ExtractLearner::new(Arc::clone(store), Arc::new(decide), facts, Arc::new(NoObserver), Arc::new(SystemClock))
}

/// The pure part of learning, without the store.
fn decide_alone() {
    let ids = SeededRandom::new(2);
    let mut spent = Spent::default();
    let turns: Vec<Turn> = (0..EXCHANGES).filter_map(|n| finished(n).turn).collect();
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
    spent.cpu += process_cpu() - cpu;
    spent.print("decide alone");
}

fn finished(n: u128) -> Finished {
    let scope = Scope::new("bench", "default", format!("subject-{}", n / PER_SUBJECT));
    let at = SystemClock.now();
    let said = |role, text: String| Said { role, hash: format!("{n:064x}"), text };
    let turn = Turn {
        exchange: ExchangeId(n),
        scope: scope.clone(),
        epoch: 0,
        session: format!("{n:064x}"),
        turn_key: format!("{n:064x}"),
        turn_index: 0,
        said_at: at,
        before: None,
        user: vec![said(Speaker::User, SAID[n as usize % SAID.len()].to_owned())],
        repeated: false,
        reply: Some(said(Speaker::Assistant, format!("Here is what I found about question {n}. ").repeat(5))),
        complete: true,
        shown: Vec::new(),
    };
    Finished { exchange: ExchangeId(n), scope, at, turn: Some(turn), shown: None, state: None }
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
        self.cpu += process_cpu() - cpu;
        result
    }

    #[expect(clippy::print_stdout, reason = "a bench prints what it measured")]
    fn print(self, name: &str) {
        let each = |time: Duration| time.as_secs_f64() * 1e6 / EXCHANGES as f64;
        let rate = EXCHANGES as f64 / self.wall.as_secs_f64();
        println!("{name:18} {:7.1} us CPU  {:7.1} us wall  {rate:9.0} exchanges/s", each(self.cpu), each(self.wall));
    }
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
