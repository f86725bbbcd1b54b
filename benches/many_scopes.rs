//! A million episodes over 10,000 scopes, with vectors, asked in turn: what is resident, by the bound of the cache.
//!
//! `cargo bench --bench many_scopes`. Texts and vectors are made up when a scope is read, so that the process holds nothing but the cache.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use backstory::base::{EpisodeId, Random, SeededRandom};
use backstory::embed::Packed;
use backstory::memory::{Episode, Scope};
use backstory::recall::{Query, Recall, RecallConfig, ScopeData, Source, Space};
use backstory::store::StoreError;

mod made;

const SCOPES: u64 = 10_000;
const EPISODES: u64 = 100;
const DIMENSION: usize = 384;
const CACHE_BYTES: u64 = 1 << 30;
const GOAL_MB: u64 = 1_500;

/// Makes scopes up, the same each time.
struct Made;

#[async_trait]
impl Source for Made {
    async fn load(&self, scope: &Scope, _: usize) -> Result<ScopeData, StoreError> {
        Ok(ScopeData { revision: 1, facts: Vec::new(), episodes: episodes(scope), ..ScopeData::default() })
    }

    async fn load_vectors(&self, scope: &Scope, generation: &str) -> Result<Vec<(EpisodeId, Vec<u8>)>, StoreError> {
        let sealed = |episode: &Episode| {
            let packed = Packed::of(&vector(episode.id.0 as u64)).expect("no vector is zero");
            (episode.id, packed.seal(generation, &episode.text))
        };
        Ok(episodes(scope).iter().map(sealed).collect())
    }
}

fn scope(number: u64) -> Scope {
    Scope::new("bench", "bench", format!("subject {number}"))
}

fn random_of(scope: &Scope) -> SeededRandom {
    SeededRandom::new(scope.subject.bytes().fold(7, |seed, byte| seed.wrapping_mul(31).wrapping_add(byte.into())))
}

fn episodes(scope: &Scope) -> Vec<Episode> {
    let random = random_of(scope);
    (0..EPISODES)
        .map(|number| {
            let words = 8 + random.next_u64() % 33;
            let text: Vec<String> = (0..words).map(|_| format!("q{:x}", random.next_u64() % 20_000)).collect();
            made::episode(EpisodeId(u128::from(random.next_u64())), number as i64, text.join(" "))
        })
        .collect()
}

fn vector(seed: u64) -> Vec<f32> {
    let random = SeededRandom::new(seed);
    (0..DIMENSION / 8).flat_map(|_| random.next_u64().to_le_bytes()).map(|byte| 64.0 + f32::from(byte)).collect()
}

fn space() -> Space {
    let texts = Space::texts();
    let vectors = |texts: &[&str]| (0..texts.len() as u64).map(vector).collect::<Vec<_>>();
    let written = Space::write(&vectors(&texts.documents), &vectors(&texts.questions)).expect("they are not all alike");
    Space::read("bench", &written).expect("what was just written")
}

/// Resident memory of this process in MB, as the kernel tells it.
fn resident_mb() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? / 1_024)
}

#[expect(clippy::print_stdout, reason = "this is what it is for")]
fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime can be made");
    runtime.block_on(async {
        let config = RecallConfig { cache_bytes: CACHE_BYTES, ..RecallConfig::default() };
        let recall = Recall::from_source(Arc::new(Made), config);
        recall.set_space(Some(Arc::new(space())));
        let mut times = Vec::new();
        let mut most = 0;
        for round in 0..2 {
            for number in 0..SCOPES {
                let scope = scope(number);
                let text = episodes(&scope)[(number % EPISODES) as usize].text.clone();
                let asked = text.split(' ').take(6).collect::<Vec<_>>().join(" ");
                let query = Query { vector: Some(vector(number).into()), ..made::question(scope, asked) };
                black_box(recall.recall(&query).await.expect("made-up scopes can be read"));
                let begun = Instant::now();
                black_box(recall.recall_now(&query));
                times.push(begun.elapsed().as_secs_f64() * 1e6);
                if number % 500 == 0 {
                    most = most.max(resident_mb().unwrap_or_default());
                }
            }
            println!("round {round}: resident {} MB", resident_mb().unwrap_or_default());
        }
        times.sort_by(f64::total_cmp);
        let at = |q: f64| times[(times.len() as f64 * q) as usize];
        println!(
            "{} episodes in {SCOPES} scopes, cache {} MB: resident at most {most} MB (goal {GOAL_MB}); recall p50 {:.0} µs, p99 {:.0} µs",
            SCOPES * EPISODES,
            CACHE_BYTES >> 20,
            at(0.5),
            at(0.99)
        );
    });
}
