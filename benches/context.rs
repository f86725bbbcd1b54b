//! The pure hot path: decode, hash, count, fit, encode.

use std::hint::black_box;

use backstory::base::{EpisodeId, FactId};
use backstory::context::{Digests, FitInput, NoteLine, Notes, Policy, Target, Trails, fit};
use backstory::conversation::{Chain, chain};
use backstory::memory::Scope;
use backstory::tokens::{Counter, Encoding};
use backstory::wire::ChatRequest;
use bytes::Bytes;
use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use serde_json::{Value, json};

const CACHE_BYTES: usize = 8 << 20;

/// Text that no cache has seen under another `salt`.
fn prose(salt: usize, bytes: usize) -> String {
    let words = ["the", "order", "Rome", "shipment", "later", "please", "question", "about", "database", "tea", "2026"];
    let mut text = String::new();
    let mut state = salt as u64 * 2_654_435_761 + 1;
    while text.len() < bytes {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        text.push_str(words[(state >> 33) as usize % words.len()]);
        text.push(if state >> 61 == 0 { '.' } else { ' ' });
    }
    text
}

/// A conversation of `n_turns` turns; its newest message is `salt`'s own.
fn conversation(n_turns: usize, bytes_per_message: usize, salt: usize) -> Bytes {
    let mut messages = vec![json!({"role": "system", "content": "You are a helpful assistant. Be kind and be brief."})];
    for turn in 0..n_turns {
        messages.push(json!({"role": "user", "content": prose(2 * turn, bytes_per_message)}));
        messages.push(json!({"role": "assistant", "content": prose(2 * turn + 1, bytes_per_message)}));
    }
    messages.push(json!({"role": "user", "content": prose(1_000_000 + salt, bytes_per_message)}));
    Bytes::from(json!({"model": "gpt-4o", "stream": true, "messages": Value::from(messages)}).to_string())
}

fn notes() -> Notes {
    let line = |n: u128, text: String| NoteLine {
        text,
        critical: n == 0,
        fact: (n < 4).then_some(FactId(n)),
        episode: (n >= 4).then_some(EpisodeId(n)),
        ..NoteLine::default()
    };
    Notes {
        profile: (0..4).map(|n| line(n, format!("preference ({n}): {}", prose(n as usize, 30)))).collect(),
        recollection: (4..9)
            .map(|n| line(n, format!("3 weeks ago, the user said: \"{}\"", prose(n as usize, 150))))
            .collect(),
        ..Notes::default()
    }
}

struct Gateway {
    counter: Counter,
    digests: Digests,
    trails: Trails,
    notes: Notes,
    target: Target,
    policy: Policy,
}

impl Gateway {
    fn new(max_input_tokens: usize, notes: Notes) -> Self {
        Self {
            counter: Counter::new(CACHE_BYTES),
            digests: Digests::new(1 << 20),
            trails: Trails::new(1 << 20),
            notes,
            target: Target { window: Some(128_000), ..Target::default() },
            policy: Policy { max_input_tokens, ..Policy::default() },
        }
    }

    fn fit(&self, request: &ChatRequest, chain: &Chain) -> Bytes {
        let input = FitInput {
            request,
            chain: Some(chain),
            notes: &self.notes,
            target: &self.target,
            policy: &self.policy,
            budget_header: None,
            counter: &self.counter,
            digests: Some(&self.digests),
            trails: Some(&self.trails),
            strip_own_fence: true,
            figures: true,
        };
        fit(&input).expect("it fits").body
    }
}

fn read(body: Bytes) -> (ChatRequest, Chain) {
    let request = ChatRequest::decode(body).expect("it is a request");
    let chain = chain(&Scope::new("t", "n", "s"), &request);
    (request, chain)
}

fn small(c: &mut Criterion) {
    let gateway = Gateway::new(0, notes());
    let mut salt = 0;
    c.bench_function("fit/600 bytes, 3 messages, memory, seen", |b| {
        let (request, chain) = read(conversation(1, 150, 0));
        b.iter(|| gateway.fit(black_box(&request), &chain));
    });
    c.bench_function("fit/600 bytes, 3 messages, memory, new question", |b| {
        b.iter_batched(
            || {
                salt += 1;
                read(conversation(1, 150, salt))
            },
            |(request, chain)| gateway.fit(&request, &chain),
            BatchSize::SmallInput,
        );
    });
}

fn long(c: &mut Criterion) {
    let mut salt = 0;
    let mut next = |bytes| {
        salt += 1;
        read(conversation(200, bytes, salt))
    };
    for (name, budget) in [("under the budget", 0), ("cut", 12_000)] {
        let gateway = Gateway::new(budget, notes());
        c.bench_function(&format!("fit/200 turns, 100 KB, one new turn, {name}"), |b| {
            b.iter_batched(|| next(230), |(request, chain)| gateway.fit(&request, &chain), BatchSize::LargeInput);
        });
    }
    c.bench_function("fit/200 turns, 100 KB, cold, cut", |b| {
        b.iter_batched(
            || (Gateway::new(12_000, notes()), next(230)),
            |(gateway, (request, chain))| gateway.fit(&request, &chain),
            BatchSize::LargeInput,
        );
    });
    let counter = Counter::new(CACHE_BYTES);
    c.bench_function("count/200 turns, 100 KB, one new turn", |b| {
        b.iter_batched(|| next(230), |(request, _)| counter.request(Encoding::O200k, &request), BatchSize::LargeInput);
    });
    let body = conversation(200, 230, 0);
    c.bench_function("decode/200 turns, 100 KB", |b| b.iter(|| ChatRequest::decode(black_box(body.clone()))));
    let (request, _) = read(body);
    c.bench_function("chain/200 turns, 100 KB", |b| b.iter(|| chain(&Scope::new("t", "n", "s"), black_box(&request))));
}

fn large(c: &mut Criterion) {
    let gateway = Gateway::new(0, notes());
    let body = conversation(200, 550, 0);
    c.bench_function(&format!("decode, splice and encode/{} KiB", body.len() / 1024), |b| {
        b.iter(|| {
            let (request, chain) = read(black_box(body.clone()));
            gateway.fit(&request, &chain)
        });
    });
    let text = prose(7, 36_000);
    c.bench_function("count/36 KB of text, cold", |b| {
        b.iter_batched(|| Counter::new(64), |counter| counter.text(Encoding::O200k, &text), BatchSize::SmallInput);
    });
}

criterion_group!(benches, small, long, large);
criterion_main!(benches);
