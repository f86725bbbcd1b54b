//! Searches of an index outside of the process, filtered by scope, among many points, beside recall in the process over scopes of the same size.
//!
//!     eval "$(scripts/servers start)"
//!     cargo bench --bench index -- [--engine qdrant|pgvector] [--points 1000000] [--quantization scalar]
//!
//! Loads the points (with a bar), then asks of small scopes and of a large one, alone and eight at a time. A hit's id names its scope, so that one of
//! another scope ends the run. What it made is dropped at the end; `--keep` leaves it, and `--prefix NAME` finds it again.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a bench prints what it measures")]

#[path = "made/mod.rs"]
mod made;

use std::io::{IsTerminal as _, Write as _};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use backstory::base::{EpisodeId, Random, SeededRandom, SystemRandom, Time};
use backstory::embed::Packed;
use backstory::memory::{Scope, Sensitivity, Speaker};
use backstory::recall::{Recall, RecallConfig, ScopeData, Source, Space};
use backstory::store::pgvector::{Pgvector, PgvectorOptions};
use backstory::store::qdrant::{Isolation, Options, Qdrant, Quantization};
use backstory::store::{IndexPoint, IndexQuery, ScopeKey, StoreError, VectorIndex, WeightedTerm};
use clap::{Parser, ValueEnum};
use futures_util::future::join_all;
use tokio::runtime::Builder;

const DIMENSION: usize = 384;
const GENERATION: &str = "bench/384";
/// Points of a small scope.
const SMALL: u64 = 100;
/// Points of the large scope.
const LARGE: u64 = 10_000;
/// Points put by one call.
const BATCH: u64 = 1_000;
/// Words there are; the first ones are frequent.
const WORDS: f64 = 50_000.0;
/// Asked by each measurement.
const QUESTIONS: u64 = 2_000;
const LIMIT: u32 = 64;

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Engine {
    Qdrant,
    Pgvector,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Quantized {
    None,
    Scalar,
    Binary,
}

#[derive(Debug, Parser)]
struct Arguments {
    /// Whose searches are measured.
    #[arg(long, value_enum, default_value = "qdrant")]
    engine: Engine,
    /// How many points there are.
    #[arg(long, default_value_t = 100_000)]
    points: u64,
    /// How Qdrant holds vectors beside their full form.
    #[arg(long, value_enum, default_value = "none")]
    quantization: Quantized,
    /// What Qdrant's collections, or the database, are called; what is there is used as it is.
    #[arg(long)]
    prefix: Option<String>,
    /// Leaves them behind.
    #[arg(long)]
    keep: bool,
    /// As cargo calls benches.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() {
    let arguments = Arguments::parse();
    let variable = match arguments.engine {
        Engine::Qdrant => "BACKSTORY_TEST_QDRANT",
        Engine::Pgvector => "BACKSTORY_TEST_POSTGRES",
    };
    let Ok(url) = std::env::var(variable) else {
        eprintln!("SKIPPED: {variable} is not set");
        return;
    };
    let runtime = Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(run(&url, &arguments));
}

fn qdrant(url: &str, prefix: &str, quantization: Quantized) -> Qdrant {
    let options = Options {
        url: url.to_owned(),
        api_key: None,
        collection_prefix: prefix.to_owned(),
        isolation: Isolation::Payload,
        quantization: match quantization {
            Quantized::None => Quantization::Off,
            Quantized::Scalar => Quantization::Scalar,
            Quantized::Binary => Quantization::Binary,
        },
        timeout: Duration::from_secs(120),
        hnsw_ef: None,
    };
    Qdrant::connect(&options).expect("an address")
}

/// In a database of its own, which is made where it is not there.
fn pgvector(admin: &str, database: &str) -> Pgvector {
    // Fails where it is there already; what else is wrong shows at once.
    psql(admin, &format!("CREATE DATABASE {database}"));
    let server = admin.rsplit_once('/').map_or(admin, |(server, _)| server);
    let mut options = PgvectorOptions::url(format!("{server}/{database}"));
    options.statement_timeout = Duration::from_secs(600);
    Pgvector::connect(&options).expect("an address")
}

fn psql(admin: &str, statement: &str) {
    let _ = Command::new("psql").arg(admin).args(["-qc", statement]).output();
}

async fn run(url: &str, arguments: &Arguments) {
    let prefix = arguments.prefix.clone().unwrap_or_else(|| format!("bench_{:08x}", SystemRandom.next_u64() >> 32));
    let index: Arc<dyn VectorIndex> = match arguments.engine {
        Engine::Qdrant => Arc::new(qdrant(url, &prefix, arguments.quantization)),
        Engine::Pgvector => Arc::new(pgvector(url, &prefix)),
    };
    println!("{} {}, {prefix}", index.engine(), index.ping().await.expect("the server answers"));
    index.prepare(GENERATION, u32::try_from(DIMENSION).expect("small")).await.expect("a collection");
    load(index.as_ref(), arguments.points).await;
    let small = (arguments.points.saturating_sub(LARGE) / SMALL).max(1);
    println!("{:<34} {:>9} {:>9} {:>9} {:>9}", "", "p50 ms", "p99 ms", "per s", "hits");
    for (name, beside) in [("one at a time", 1), ("eight at a time", 8)] {
        measure(index.as_ref(), &format!("scope of {SMALL}, {name}"), beside, |n| 1 + n * 7919 % small).await;
        measure(index.as_ref(), &format!("scope of {LARGE}, {name}"), beside, |_| 0).await;
    }
    in_process();
    if !arguments.keep {
        let started = Instant::now();
        let erased = index.erase(&scope(0).tenant, ScopeKey::of(&scope(0))).await.expect("it is erased");
        println!("erasing {erased} points of a scope: {:.0} ms", started.elapsed().as_secs_f64() * 1e3);
        index.drop_generation(GENERATION).await.expect("it is dropped");
        drop(index);
        if matches!(arguments.engine, Engine::Pgvector) {
            psql(url, &format!("DROP DATABASE {prefix} WITH (FORCE)"));
        }
    }
}

/// Scope 0 is the large one.
fn scope(number: u64) -> Scope {
    Scope::new(format!("tenant {}", number % 50), "bench", format!("subject {number}"))
}

fn id(scope: u64, number: u64) -> EpisodeId {
    EpisodeId(u128::from(number) << 64 | u128::from(scope))
}

async fn load(index: &dyn VectorIndex, points: u64) {
    let there = index.count(GENERATION).await.expect("a count");
    if there >= points {
        println!("{there} points are there already");
        return;
    }
    let started = Instant::now();
    let random = SeededRandom::new(1);
    let mut batch = Vec::new();
    for number in 0..points {
        // The large scope's come in between the others', as they would.
        let of_large = LARGE * 10 <= points && number.is_multiple_of(points / LARGE);
        let owner = if of_large { 0 } else { 1 + number / SMALL };
        batch.push(point(owner, number, &random));
        if batch.len() as u64 == BATCH || number + 1 == points {
            index.put(GENERATION, &batch).await.expect("points are put");
            batch.clear();
            bar(number + 1, points, started.elapsed());
        }
    }
    println!();
}

/// Shows how far it is: as a bar on a terminal, else by a line for each tenth.
fn bar(done: u64, of: u64, took: Duration) {
    let rate = done as f64 / took.as_secs_f64();
    let left = (of - done) as f64 / rate;
    let text = format!("{done} of {of} points, {rate:.0}/s, {left:.0} s left");
    if std::io::stdout().is_terminal() {
        let filled = (done * 40 / of) as usize;
        print!("\r[{}{}] {text}   ", "#".repeat(filled), " ".repeat(40 - filled));
        let _ = std::io::stdout().flush();
    } else if done * 10 / of != (done - BATCH.min(done)) * 10 / of {
        println!("{text}");
    }
}

fn point(owner: u64, number: u64, random: &SeededRandom) -> IndexPoint {
    IndexPoint {
        scope: scope(owner),
        episode: id(owner, number),
        session: format!("session {}", number / 20),
        role: if number.is_multiple_of(2) { Speaker::User } else { Speaker::Assistant },
        at: Time(1_700_000_000_000 + i64::try_from(number).expect("small") * 60_000),
        sensitivity: Sensitivity::Normal,
        vector: vector(random),
        terms: terms(random, 20),
    }
}

fn unit(random: &SeededRandom) -> f64 {
    (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

fn vector(random: &SeededRandom) -> Vec<f32> {
    (0..DIMENSION).map(|_| (unit(random) - 0.5) as f32).collect()
}

/// Words about as often as people use them: the n-th one as often as 1 / n.
fn terms(random: &SeededRandom, n: usize) -> Vec<WeightedTerm> {
    let mut terms: Vec<_> = (0..n).map(|_| (WORDS.powf(unit(random)) as u32, 1.0 + unit(random) as f32)).collect();
    terms.sort_by_key(|(term, _)| *term);
    terms.dedup_by_key(|(term, _)| *term);
    terms
}

async fn measure(index: &dyn VectorIndex, name: &str, beside: u64, owner: impl Fn(u64) -> u64) {
    let random = SeededRandom::new(2);
    let questions: Vec<_> = (0..QUESTIONS).map(|n| (owner(n), vector(&random), terms(&random, 8))).collect();
    let ask = async |(owner, vector, terms): &(u64, Vec<f32>, Vec<WeightedTerm>)| {
        let scope = scope(*owner);
        let query = IndexQuery {
            scope: &scope,
            vector: Some(vector),
            terms,
            max_sensitivity: Sensitivity::Personal,
            role: None,
            from: None,
            to: None,
            limit: LIMIT,
        };
        let started = Instant::now();
        let hits = index.search(GENERATION, &query).await.expect("an answer");
        let took = started.elapsed();
        let all = hits.near.iter().chain(&hits.words);
        assert!(all.clone().all(|(id, _)| id.0 as u64 == *owner), "a hit of another scope");
        (took, all.count())
    };
    for question in questions.iter().take(50) {
        ask(question).await;
    }
    let started = Instant::now();
    let chunks = questions.chunks(usize::try_from(QUESTIONS / beside).expect("small"));
    let each = chunks.map(async |of_one| {
        let mut results = Vec::with_capacity(of_one.len());
        for question in of_one {
            results.push(ask(question).await);
        }
        results
    });
    let results: Vec<_> = join_all(each).await.into_iter().flatten().collect();
    let rate = QUESTIONS as f64 / started.elapsed().as_secs_f64();
    let hits = results.iter().map(|(_, hits)| hits).sum::<usize>() as f64 / QUESTIONS as f64;
    tell(name, results.into_iter().map(|(took, _)| took).collect(), rate, hits);
}

fn tell(name: &str, times: Vec<Duration>, rate: f64, hits: f64) {
    let mut times: Vec<_> = times.iter().map(|took| took.as_secs_f64() * 1e3).collect();
    times.sort_by(f64::total_cmp);
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    println!("{name:<34} {:>9.3} {:>9.3} {rate:>9.0} {hits:>9.1}", at(0.5), at(0.99));
}

/// Scopes come by [`Recall::fill`].
struct Nothing;

#[async_trait]
impl Source for Nothing {
    async fn load(&self, _: &Scope, _: usize) -> Result<ScopeData, StoreError> {
        Ok(ScopeData { revision: 1, facts: Vec::new(), episodes: Vec::new(), ..ScopeData::default() })
    }
}

/// Recall in the process, by the same vectors and words, with all that it does beside searching: neighbours, ranking, what is shown.
fn in_process() {
    let random = SeededRandom::new(3);
    let sample = |texts: &[&str]| texts.iter().map(|_| vector(&random)).collect::<Vec<_>>();
    let texts = Space::texts();
    let written = Space::write(&sample(&texts.documents), &sample(&texts.questions)).expect("texts differ");
    let space = Arc::new(Space::read(GENERATION, &written).expect("what was just written"));
    let text = |words: &[WeightedTerm]| words.iter().map(|(word, _)| format!("w{word}")).collect::<Vec<_>>().join(" ");
    for (size, scopes) in [(SMALL, 100), (LARGE, 1)] {
        let config = RecallConfig { cache_bytes: 4 << 30, ..RecallConfig::default() };
        let recall = Recall::from_source(Arc::new(Nothing), config);
        recall.set_space(Some(space.clone()));
        for owner in 0..scopes {
            let points: Vec<_> = (0..size).map(|number| point(owner, number, &random)).collect();
            let episodes = points.iter().zip(0..).map(|(point, n)| made::episode(point.episode, n, text(&point.terms)));
            recall.fill(
                &scope(owner),
                ScopeData { revision: 1, facts: Vec::new(), episodes: episodes.collect(), ..ScopeData::default() },
            );
            let vectors: Vec<_> =
                points.iter().filter_map(|point| Some((point.episode, Packed::of(&point.vector)?))).collect();
            recall.embedded(&scope(owner), GENERATION, &vectors);
        }
        let questions = (0..QUESTIONS).map(|n| {
            let mut query = made::question(scope(n % scopes), text(&terms(&random, 8)));
            query.vector = Some(vector(&random).into());
            query
        });
        let questions: Vec<_> = questions.collect();
        let started = Instant::now();
        let ask = |query| {
            let started = Instant::now();
            let found = recall.recall_now(query).expect("it is in memory");
            (started.elapsed(), found.episodes.len())
        };
        let (times, hits): (Vec<_>, Vec<_>) = questions.iter().map(ask).unzip();
        let rate = QUESTIONS as f64 / started.elapsed().as_secs_f64();
        tell(
            &format!("scope of {size}, in the process"),
            times,
            rate,
            hits.iter().sum::<usize>() as f64 / QUESTIONS as f64,
        );
    }
}
