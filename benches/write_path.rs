//! What remembering an exchange costs, over a SQLite file, in groups: learned on its way into the store, and the long way (append, claim,
//! decide, learn).
//!
//! Prints CPU time of the whole process (all threads: the driver's own included) and wall time, each per exchange.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use backstory::base::{Clock, EpisodeId, ExchangeId, Random, SeededRandom, SystemClock, Time};
use backstory::extract::{DecideInput, decide};
use backstory::jobs::{AtOnce, DecideArgs, ExtractLearner, FactSource, LearnObserver, Learner};
use backstory::memory::{Fact, KeySchema, Said, Scope, Speaker, Turn};
use backstory::recall::{Recall, RecallConfig};
use backstory::store::sql::{SqlStore, SqliteOptions};
use backstory::store::{Claim, Finished, Learned, Shown, StateKey, Store, StoreError, TurnState};
use backstory::store::{UsageOutcome, UsageRow, UsageStore, UsageTimes, UsageTokens};
use backstory::tokens::Cost;

/// As in the gateway.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Exchanges in one group: about what gathers while a group is committed under load.
const GROUP: u128 = 32;
/// Rows of usage in one group.
const USAGE_GROUP: usize = 128;
/// Exchanges in all.
const EXCHANGES: u128 = 9_600;

/// What people say; all but two of five tell nothing about them.
const SAID: [&str; 5] = [
    "What is the difference between a mutex and a semaphore, and when should I use which?",
    "I live in Oslo and I'm allergic to peanuts. Can you suggest a restaurant?",
    "Our deployment fails with error 137 after about ten minutes; the logs show nothing unusual.",
    "我住在上海，对花生过敏。周末有什么推荐？",
    "Please summarise the plan that we discussed, and list the open questions for the meeting.",
];

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

fn used(n: u128, at: Time) -> UsageRow {
    UsageRow {
        exchange: ExchangeId((at.0 as u128) << 80 | n),
        at,
        tenant: "bench".into(),
        namespace: "default".into(),
        key: "team-a".into(),
        subject: None,
        conversation: None,
        operation: "chat",
        model: "assistant".to_owned(),
        target: Some("openai/gpt-4o-mini".to_owned()),
        attempts: 1,
        stream: false,
        status: 200,
        outcome: UsageOutcome::Complete,
        tokens: UsageTokens { input: 150, output: 20, ..UsageTokens::default() },
        cost: Some(Cost::from_nanos(34_500)),
        memory_cost: Some(Cost::default()),
        saved: Some(Cost::default()),
        times: UsageTimes { total_us: 900, first_us: Some(800), overhead_us: 60 },
    }
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

fn scope(n: u128) -> Scope {
    Scope::new("bench", "default", format!("subject-{n}"))
}

/// One exchange, with a block of notes that was shown for it.
fn finished(n: u128, scope: &Scope, all: &[&str]) -> Finished {
    let at = SystemClock.now();
    let said = |role, text: String| Said { role, hash: format!("{n:064x}"), text };
    let block = "- 3 weeks ago the user said that the deployment of the billing service had failed twice.\n".repeat(5);
    let exchange = ExchangeId((at.0 as u128) << 80 | n);
    // Prefixes are hashes.
    let prefix = *blake3::hash(&n.to_le_bytes()).as_bytes();
    let turn = Turn {
        exchange,
        scope: scope.clone(),
        epoch: 0,
        session: format!("{n:064x}"),
        turn_key: blake3::Hash::from_bytes(prefix).to_hex().to_string(),
        turn_index: 0,
        said_at: at,
        before: None,
        user: vec![said(Speaker::User, format!("{} ({n})", all[n as usize % all.len()]))],
        repeated: false,
        reply: Some(said(Speaker::Assistant, format!("Here is what I found about question {n}. ").repeat(5))),
        complete: true,
        shown: vec![block.clone()],
        trace: None,
    };
    let shown = Shown {
        exchange,
        at,
        model: "gpt-4o".to_owned(),
        target: "openai/gpt-4o".to_owned(),
        memory: "hit; facts=0; episodes=5; tokens=120".to_owned(),
        context: "counted=40; sent=160; cut=0; budget=100000".to_owned(),
        detail: serde_json::json!({"profile": "", "recollection": block, "facts": [], "episodes": [], "why": []}),
        complete: true,
    };
    let state =
        TurnState { recollection: block.into(), expires_at: at.plus_seconds(7 * 86_400), ..TurnState::default() };
    let state = (StateKey { scope: scope.clone(), prefix }, state);
    Finished {
        exchange,
        scope: scope.clone(),
        at,
        turn: Some(turn),
        shown: Some(shown),
        state: Some(state),
        usage: Some(Box::new(used(n, at))),
    }
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
