//! What it costs to put a request into another dialect and its answer back, beside reading the request and the stream as they are.
//!
//! `request/*` is one request of a conversation of some length, `stream` a reply of 500 pieces that comes event by event.

use std::hint::black_box;

use backstory::wire::sse::SseParser;
use backstory::wire::translate::{
    AnswerForm, Back, ToChat, ToMessages, Translator, Untranslatable, to_chat, to_messages,
};
use backstory::wire::{ChatRequest, Dialect};
use bytes::Bytes;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use serde_json::json;

/// Of the words of a message.
const WORDS: &str = "The weather in Oslo was fine, said the \"forecast\", and 4 °C is not too cold for a walk.\n";

fn body(dialect: Dialect, turns: usize) -> Bytes {
    let turn = |at: usize| {
        let role = if at.is_multiple_of(2) { "user" } else { "assistant" };
        json!({"role": role, "content": WORDS.repeat(5)})
    };
    let mut messages: Vec<_> = (0..=turns * 2).map(turn).collect();
    let mut body = json!({"model": "m", "max_tokens": 1000, "stream": true, "temperature": 0.7});
    match dialect {
        Dialect::Chat => messages.insert(0, json!({"role": "system", "content": WORDS})),
        Dialect::Messages => body["system"] = WORDS.into(),
        Dialect::Responses => unreachable!("not translated"),
    }
    body["messages"] = messages.into();
    Bytes::from(body.to_string())
}

fn requests(c: &mut Criterion) {
    let mut group = c.benchmark_group("request");
    for turns in [1, 100] {
        let chat = body(Dialect::Chat, turns);
        let messages = body(Dialect::Messages, turns);
        group.throughput(Throughput::Bytes(chat.len() as u64));
        group.bench_with_input(BenchmarkId::new("decode", turns), &chat, |b, body| {
            b.iter(|| ChatRequest::decode(black_box(body.clone())));
        });
        let read = |dialect, body: &Bytes| ChatRequest::decode_as(dialect, body.clone()).expect("it is a request");
        let (chat, messages) = (read(Dialect::Chat, &chat), read(Dialect::Messages, &messages));
        group.bench_with_input(BenchmarkId::new("to_messages", turns), &chat, |b, request| {
            let how = ToMessages { untranslatable: Untranslatable::Drop, max_tokens: 4096 };
            b.iter(|| to_messages(black_box(request), how));
        });
        group.bench_with_input(BenchmarkId::new("to_chat", turns), &messages, |b, request| {
            let how = ToChat { untranslatable: Untranslatable::Drop, completion_tokens: true, ask_usage: true };
            b.iter(|| to_chat(black_box(request), how));
        });
    }
    group.finish();
}

/// A stream of each dialect, an event a piece.
fn stream_of(dialect: Dialect) -> Vec<Bytes> {
    let event = |data: serde_json::Value| match data["type"].as_str() {
        Some(kind) => Bytes::from(format!("event: {kind}\ndata: {data}\n\n")),
        None => Bytes::from(format!("data: {data}\n\n")),
    };
    let piece = |_| match dialect {
        Dialect::Chat => json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m",
                                "choices": [{"index": 0, "delta": {"content": " weather"}, "finish_reason": null}]}),
        Dialect::Messages => json!({"type": "content_block_delta", "index": 0,
                                    "delta": {"type": "text_delta", "text": " weather"}}),
        Dialect::Responses => unreachable!("not translated"),
    };
    (0..500).map(piece).map(event).collect()
}

fn streams(c: &mut Criterion) {
    let mut group = c.benchmark_group("stream");
    for (name, dialect, back) in [
        ("to_chat", Dialect::Messages, Back::ToChat { created: 1, include_usage: true }),
        ("to_messages", Dialect::Chat, Back::ToMessages),
    ] {
        let pieces = stream_of(dialect);
        group.throughput(Throughput::Elements(pieces.len() as u64));
        group.bench_with_input(BenchmarkId::new("read", name), &pieces, |b, pieces| {
            b.iter(|| {
                let mut parser = SseParser::new();
                for piece in pieces {
                    let mut rest: &[u8] = piece;
                    while let Some(event) = parser.next(&mut rest) {
                        black_box(event.data);
                    }
                }
            });
        });
        group.bench_with_input(BenchmarkId::new("translate", name), &pieces, |b, pieces| {
            b.iter(|| {
                let mut translator = Translator::new(AnswerForm::Stream, back);
                for piece in pieces {
                    black_box(translator.push(piece.clone()));
                }
            });
        });
    }
    group.finish();
}

criterion_group!(benches, requests, streams);
criterion_main!(benches);
