//! Recall in scopes of 100 to 100,000 episodes by words, and by words and vectors, the analysis of a question, one insert, and a cold scope.
//!
//! Texts are made up: a vocabulary of 20,000 words whose frequencies follow Zipf's law, 8 to 40 words a turn, 20 turns a session. A
//! question has 8 words, taken from one of the turns and from the vocabulary at large.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use backstory::base::{EpisodeId, ExchangeId, Random, SeededRandom, Time};
use backstory::embed::Packed;
use backstory::memory::{Episode, Scope, Speaker, text};
use backstory::recall::{Query, Recall, RecallConfig, Said, ScopeData, Source, Space};
use backstory::store::{Learned, StoreError};
use criterion::{BatchSize, Criterion, criterion_group, criterion_main};

mod made;
#[path = "made/travel.rs"]
mod travel;

use travel::{PLACES, SUBJECTS};

const VOCABULARY: u64 = 20_000;

fn word(random: &SeededRandom) -> String {
    // Zipf by inversion: the logarithm of the rank is uniform.
    let uniform = (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
    let mut rank = (VOCABULARY as f64).powf(uniform) as u64;
    let mut word = String::from("q");
    loop {
        word.push(char::from(b'a' + (rank % 23) as u8));
        rank /= 23;
        if rank == 0 {
            return word;
        }
    }
}

fn words(random: &SeededRandom, n: u64) -> String {
    (0..n).map(|_| word(random)).collect::<Vec<_>>().join(" ")
}

fn episode(random: &SeededRandom, number: i64) -> Episode {
    let id = EpisodeId::generate(made::said_at(number), random);
    made::episode(id, number, words(random, 8 + random.next_u64() % 33))
}

struct Made(i64);

#[async_trait]
impl Source for Made {
    async fn load(&self, _: &Scope, _: usize) -> Result<ScopeData, StoreError> {
        Ok(data(self.0))
    }
}

fn data(size: i64) -> ScopeData {
    let random = SeededRandom::new(7);
    ScopeData {
        revision: 1,
        episodes: (0..size).map(|number| episode(&random, number)).collect(),
        ..ScopeData::default()
    }
}

fn scope() -> Scope {
    Scope::new("bench", "bench", "me")
}

fn recall_of(size: i64) -> Recall {
    let recall =
        Recall::from_source(Arc::new(Made(size)), RecallConfig { cache_bytes: 4 << 30, ..RecallConfig::default() });
    recall.fill(&scope(), data(size));
    recall
}

fn queries(size: i64) -> Vec<Query> {
    let random = SeededRandom::new(11);
    let episodes = data(size).episodes;
    let query = |number: usize| {
        let about = &episodes[number * 7919 % episodes.len()].text;
        let text = about.split(' ').take(5).chain(words(&random, 3).split(' ')).collect::<Vec<_>>().join(" ");
        made::question(scope(), text)
    };
    (0..500).map(query).collect()
}

fn recall(criterion: &mut Criterion) {
    for size in [100, 1_000, 10_000, 100_000] {
        measure(criterion, &format!("recall/{size}"), &recall_of(size), &queries(size));
    }
}

/// A person who asks nearly the same again and again, by the thousand: every question and reply before it is an episode, so each word of the
/// question but its name stands nearly everywhere. What the gateway bench does to a scope.
fn repeated(criterion: &mut Criterion) {
    let scope = scope();
    let about = |n: usize| {
        let mixed = (n as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17) as usize;
        (SUBJECTS[mixed % 16], PLACES[mixed / 16 % 16])
    };
    let question = |n: usize| {
        let (subject, place) = about(n);
        format!(
            "I wrote to you about {subject} to {place} some time ago, under number {n}. What did we find out then, and what would you do in \
             my place?"
        )
    };
    let reply = "The train to the coast leaves twice an hour from the central station. Tickets are cheaper in advance, and the ride takes \
                 about fifty minutes when there are no works on the line. A seat by the left window has the better view.";
    for copies in [500, 2_000, 8_000] {
        let random = SeededRandom::new(17);
        let mut data = ScopeData { revision: 1, ..ScopeData::default() };
        let mut say = |n: usize, text: String, role: Speaker, session: String, position: usize| {
            let said_at = Time(1_750_000_000_000 + n as i64 * 1_000);
            let id = EpisodeId::generate(said_at, &random);
            data.episodes.push(Episode {
                session,
                position: position as i64,
                ..Episode::said(id, text, role, said_at)
            });
        };
        for n in 0..10_000 {
            let (subject, place) = about(n * 7);
            let text = format!("On trip {n} I learned that {subject} to {place} was delayed by snow.");
            say(n, text, Speaker::User, format!("trip {}", n / 8), n);
        }
        for n in 0..copies {
            for (role, text) in [(Speaker::User, question(n)), (Speaker::Assistant, reply.to_owned())] {
                let position = usize::from(role == Speaker::Assistant);
                say(10_000 + n, text, role, format!("copy {n}"), position);
            }
        }
        let recall =
            Recall::from_source(Arc::new(Made(0)), RecallConfig { cache_bytes: 4 << 30, ..RecallConfig::default() });
        recall.fill(&scope, data);
        let query = |n: usize| made::question(scope.clone(), question(1_000_000 + n * 13));
        let queries: Vec<Query> = (0..500).map(query).collect();
        let mut next = 0;
        criterion.bench_function(&format!("recall/10000 and {copies} copies of the question"), |bencher| {
            bencher.iter(|| {
                next = (next + 1) % queries.len();
                black_box(recall.recall_now(&queries[next]))
            });
        });
    }
}

/// A client that sends 64 KiB of its own: what was found is compared with it.
fn with_history(criterion: &mut Criterion) {
    let recall = recall_of(10_000);
    let queries = queries(10_000);
    let random = SeededRandom::new(19);
    let mut history = vec![String::new()];
    while history[0].len() < 64 << 10 {
        history[0].push_str(&word(&random));
        history[0].push(' ');
    }
    let mut next = 0;
    criterion.bench_function("recall/10000, 64 KiB in the request", |bencher| {
        bencher.iter_batched(
            || {
                next = (next + 1) % queries.len();
                Query { said: Arc::new(Said::of(history.clone())), ..queries[next].clone() }
            },
            |query| black_box(recall.recall_now(&query)),
            BatchSize::SmallInput,
        );
    });
}

const DIMENSION: usize = 384;

/// A vector that is made of its words, as long as those of e5-small and MiniLM; like them it is never at right angles to another.
fn vector(text: &str) -> Vec<f32> {
    let mut sum = vec![1.5_f32; DIMENSION];
    for word in text.split(' ') {
        let seed = word.bytes().fold(7_u64, |seed, byte| seed.wrapping_mul(31).wrapping_add(byte.into()));
        let random = SeededRandom::new(seed);
        for numbers in sum.chunks_mut(8) {
            let bytes = random.next_u64().to_le_bytes();
            numbers.iter_mut().zip(bytes).for_each(|(sum, byte)| *sum += (f32::from(byte) - 127.5) / 127.5);
        }
    }
    sum
}

fn space() -> Arc<Space> {
    let texts = Space::texts();
    let vectors = |texts: &[&str]| texts.iter().map(|text| vector(text)).collect::<Vec<_>>();
    let written =
        Space::write(&vectors(&texts.documents), &vectors(&texts.questions)).expect("texts are not all alike");
    Arc::new(Space::read("bench", &written).expect("what was just written"))
}

/// The same by words and vectors; the vector of the question is made before.
fn dense(criterion: &mut Criterion) {
    let space = space();
    for size in [1_000, 10_000, 100_000] {
        let recall = recall_of(size);
        recall.set_space(Some(Arc::clone(&space)));
        for episodes in data(size).episodes.chunks(1_000) {
            let vectors: Vec<_> =
                episodes.iter().filter_map(|episode| Some((episode.id, Packed::of(&vector(&episode.text))?))).collect();
            recall.embedded(&scope(), "bench", &vectors);
        }
        let mut queries = queries(size);
        for query in &mut queries {
            query.vector = Some(vector(&query.text).into());
        }
        measure(criterion, &format!("recall with vectors/{size}"), &recall, &queries);
    }
}

fn measure(criterion: &mut Criterion, name: &str, recall: &Recall, queries: &[Query]) {
    percentiles(name, recall, queries);
    let mut next = 0;
    criterion.bench_function(name, |bencher| {
        bencher.iter(|| {
            next = (next + 1) % queries.len();
            black_box(recall.recall_now(&queries[next]))
        });
    });
}

/// Criterion tells the mean; a promise is made on the 99th percentile.
#[expect(clippy::print_stderr, reason = "criterion has no place for a percentile")]
fn percentiles(name: &str, recall: &Recall, queries: &[Query]) {
    let mut times: Vec<f64> = Vec::new();
    for query in queries.iter().chain(queries).chain(queries) {
        let start = Instant::now();
        black_box(recall.recall_now(query));
        times.push(start.elapsed().as_secs_f64() * 1e6);
    }
    let mut times = times.split_off(queries.len());
    times.sort_by(f64::total_cmp);
    let at = |q: f64| times[(times.len() as f64 * q) as usize];
    eprintln!("{name}: p50 {:.1} µs, p99 {:.1} µs, max {:.1} µs", at(0.5), at(0.99), times[times.len() - 1]);
}

fn analyse(criterion: &mut Criterion) {
    let question = "What did my sister say about the flight to Lisbon, TP-1234?";
    criterion.bench_function("analyse/60 bytes", |bencher| bencher.iter(|| text::analyse(black_box(question))));
    let question = "我上个月在杭州订的酒店叫什么名字，押金是5999元吗";
    criterion.bench_function("analyse/chinese", |bencher| bencher.iter(|| text::analyse(black_box(question))));
}

fn insert(criterion: &mut Criterion) {
    let recall = recall_of(10_000);
    let random = SeededRandom::new(13);
    let mut revision = 1;
    criterion.bench_function("learn one exchange/10000", |bencher| {
        bencher.iter_batched(
            || {
                revision += 1;
                let number = 20_000 + 2 * revision;
                (revision, learned(revision, vec![episode(&random, number), episode(&random, number + 1)]))
            },
            |(revision, learned)| recall.learned(&scope(), revision, &learned),
            BatchSize::SmallInput,
        );
    });
}

fn learned(revision: i64, episodes: Vec<Episode>) -> Learned {
    Learned {
        exchange: ExchangeId(1),
        keep: false,
        scope: scope(),
        epoch: 0,
        turn_key: String::new(),
        user_side: true,
        revision: revision - 1,
        now: Time(0),
        changes: Vec::new(),
        episodes,
        proposals: Vec::new(),
        marks: Vec::new(),
    }
}

fn cold(criterion: &mut Criterion) {
    let recall = recall_of(10);
    criterion.bench_function("index a cold scope/10000", |bencher| {
        bencher.iter_batched(|| data(10_000), |data| recall.fill(&scope(), data), BatchSize::LargeInput);
    });
}

criterion_group!(benches, analyse, recall, repeated, with_history, dense, insert, cold);
criterion_main!(benches);
