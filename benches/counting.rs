//! Counting tokens: ours beside tiktoken's, over kinds of text, and over what a client could send to slow us down.

use std::hint::black_box;

use backstory::tokens::{Counter, Encoding};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use tiktoken_rs::o200k_base_singleton;

/// Text of a kind, `bytes` long or a little more.
fn text(kind: &str, bytes: usize) -> String {
    let unit = match kind {
        "english" => "The shipment to Rome was late, so please check order A-2291 again and tell me what you found. ",
        "chinese" => "我住在上海，对花生过敏。订单号是 A-2291，请再查一次，然后告诉我结果。",
        "code" => {
            "    let x: Vec<u8> = vec![0; 1 << 20]; // a buffer\n    if x.is_empty() { return Err(Error::Empty); }\n"
        }
        "one letter" => "a",
        "spaces" => " ",
        "two letters" => "abbabaab",
        kind => unreachable!("no text of kind {kind}"),
    };
    unit.repeat(bytes / unit.len() + 1)
}

fn throughput(c: &mut Criterion) {
    let tiktoken = o200k_base_singleton();
    // Loads the vocabulary.
    Counter::new(0).warm_up();
    for kind in ["english", "chinese", "code"] {
        let text = text(kind, 100_000);
        let mut group = c.benchmark_group(format!("100 KB of {kind}"));
        group.throughput(Throughput::Bytes(text.len() as u64));
        group.bench_function("ours", |b| {
            b.iter_batched(|| Counter::new(0), |counter| counter.text(Encoding::O200k, &text), BatchSize::SmallInput);
        });
        group.bench_function("tiktoken", |b| b.iter(|| tiktoken.encode_ordinary(black_box(&text)).len()));
        group.finish();
    }
}

fn hostile(c: &mut Criterion) {
    Counter::new(0).warm_up();
    for kind in ["one letter", "spaces", "two letters"] {
        let text = text(kind, 1_000_000);
        let mut group = c.benchmark_group(format!("1 MB of {kind}"));
        group.throughput(Throughput::Bytes(text.len() as u64)).sample_size(10);
        group.bench_function("ours", |b| {
            b.iter_batched(|| Counter::new(0), |counter| counter.text(Encoding::O200k, &text), BatchSize::SmallInput);
        });
        group.finish();
    }
}

criterion_group!(benches, throughput, hostile);
criterion_main!(benches);
