//! Bounds, clients that leave, and the end.

use std::time::Duration;

use backstory::mock::{End, Raw, Script};
use backstory::server::Drained;
use serde_json::json;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::support::sse::{DONE, healthy, joined, text};
use crate::support::{Stack, eventually, until};

fn hello(stream: bool) -> String {
    json!({"model": "mock", "stream": stream, "messages": [{"role": "user", "content": "Hello there"}]}).to_string()
}

fn stalling() -> Script {
    Script::Raw(Raw::stream([text("one")]).ending(End::Stall))
}

// tower-rs/tower-http PR#447; constructorfabric/gears-rust#4880: streams did not count.
#[tokio::test]
async fn a_slot_is_held_until_the_reply_body_ends_and_health_is_not_affected() {
    let stack =
        Stack::of(Script::Sequence(vec![stalling(), Script::Model])).server("max_concurrency = 1").start().await;
    let mut running = stack.chat(hello(true)).user("ann").open().await;
    running.read_until("one").await;
    let refused = stack.chat(hello(false)).user("ann").send().await;
    assert_eq!(refused.header("retry-after"), "1");
    assert_eq!(refused.must_be_error(503)["code"], "overloaded");
    for path in ["/livez", "/readyz", "/metrics"] {
        stack.ask("GET", path).send().await.must_be(200);
    }
    assert_eq!(stack.upstream().accepted(), 1);
    drop(running);
    eventually("the slot is free again", || async {
        (stack.chat(hello(false)).send().await.status.as_u16() == 200).then_some(())
    })
    .await;
}

// agentgateway/agentgateway#2350, PR#3408.
#[tokio::test]
async fn over_the_body_limit_is_413_chunked_uploads_too() {
    let stack = Stack::of(Script::Model).server("max_body_bytes = 20000").start().await;
    let body = json!({"model": "mock", "messages": [{"role": "user", "content": "x".repeat(30_000)}]}).to_string();
    let error = stack.chat(body.clone()).send().await.must_be_error(413);
    assert_eq!(error["code"], "request_too_large");
    stack.chat(body.clone()).chunked(1_000).send().await.must_be_error(413);
    for path in ["/v1/embeddings", "/memory/v1/recall", "/memory/v1/explain", "/v1/audio/speech"] {
        let ask = stack.ask("POST", path).user("ann").header("content-type", "application/json").body(body.clone());
        ask.clone().send().await.must_be_error(413);
        ask.chunked(1_000).send().await.must_be_error(413);
    }
    assert_eq!(stack.upstream().accepted(), 0);
    let fits = json!({"model": "mock", "messages": [{"role": "user", "content": "x".repeat(10_000)}]}).to_string();
    stack.chat(fits).chunked(100).send().await.must_be(200);
}

// BerriAI/litellm#13774; maximhq/bifrost#3164: upstream went on for nobody, and was paid.
#[tokio::test]
async fn when_the_client_leaves_after_one_event_upstream_is_cancelled() {
    let stack = Stack::new(stalling()).await;
    let mut running = stack.chat(hello(true)).user("ann").open().await;
    running.read_until("one").await;
    drop(running);
    let upstream = stack.upstream().clone();
    until("upstream is cancelled", || upstream.cancelled() == 1).await;
}

// BerriAI/litellm#22805, PR#31499.
#[tokio::test]
async fn when_the_client_leaves_before_the_first_byte_upstream_is_cancelled() {
    for stream in [true, false] {
        let stack = Stack::new(Script::As("mock-stall-header")).await;
        let upstream = stack.upstream().clone();
        let mut client = JoinSet::new();
        let ask = stack.chat(hello(stream)).user("ann");
        client.spawn(async move { ask.open().await.status });
        until("upstream is asked", || upstream.accepted() == 1).await;
        client.abort_all();
        until("upstream is cancelled", || upstream.cancelled() == 1).await;
    }
}

// The same in the middle of a body that is no stream.
#[tokio::test]
async fn when_the_client_leaves_in_the_middle_of_a_body_upstream_is_cancelled() {
    let mut raw = Raw::json(200, "{\"half\":").ending(End::Stall);
    raw.headers.retain(|(name, _)| *name != "content-length");
    let stack = Stack::new(Script::Raw(raw)).await;
    let upstream = stack.upstream().clone();
    let mut client = JoinSet::new();
    let ask = stack.chat(hello(false)).user("ann");
    client.spawn(async move { ask.send().await.status });
    until("upstream is asked", || upstream.accepted() == 1).await;
    client.abort_all();
    until("upstream is cancelled", || upstream.cancelled() == 1).await;
}

// Design, section 7: what the client saw of a broken exchange is recorded as incomplete; what the user said still counts.
#[tokio::test]
async fn a_client_that_left_is_recorded_as_incomplete_and_its_words_count() {
    let stack = Stack::new(stalling()).await;
    let body =
        json!({"model": "mock", "stream": true, "messages": [{"role": "user", "content": "I'm allergic to peanuts."}]});
    let mut running = stack.chat(body.to_string()).user("ann").open().await;
    running.read_until("one").await;
    let exchange = running.headers["x-backstory-exchange"].to_str().unwrap().to_owned();
    drop(running);
    let path = format!("/memory/v1/exchanges/{exchange}");
    let shown = eventually("the exchange is recorded", || async {
        let got = stack.ask("GET", &path).user("ann").send().await;
        (got.status.as_u16() == 200).then(|| got.json())
    })
    .await;
    assert_eq!(shown["complete"], false);
    stack.learned().await;
    assert_eq!(stack.facts("ann").await, ["diet.allergy = peanuts"]);
}

// Design, section 7: a client that leaves after `finish_reason` has seen it all.
#[tokio::test]
async fn a_client_that_leaves_after_the_finish_reason_counts_as_complete() {
    let pieces = healthy();
    let raw = Raw::stream(pieces[..4].to_vec()).ending(End::Stall);
    let stack = Stack::new(Script::Raw(raw)).await;
    let mut running = stack.chat(hello(true)).user("ann").open().await;
    running.read_until("\"stop\"").await;
    let exchange = running.headers["x-backstory-exchange"].to_str().unwrap().to_owned();
    drop(running);
    let path = format!("/memory/v1/exchanges/{exchange}");
    let shown = eventually("the exchange is recorded", || async {
        let got = stack.ask("GET", &path).user("ann").send().await;
        (got.status.as_u16() == 200).then(|| got.json())
    })
    .await;
    assert_eq!(shown["complete"], true);
}

// PostHog/posthog PR#73863; langwatch/langwatch#6941: deployments cut streams.
#[tokio::test]
async fn a_stop_in_a_stream_lets_it_end_as_it_should_and_takes_no_new_work() {
    let mut raw = Raw::stream(healthy());
    raw.pieces[2].0 = Duration::from_millis(400);
    let stack = Stack::new(Script::Raw(raw)).await;
    let mut running = stack.chat(hello(true)).user("ann").open().await;
    let begun = running.read_until("Grüße").await;
    let addr = stack.addr;
    stack.app.stop.cancel();
    eventually("no connection is accepted", || async { TcpStream::connect(addr).await.is_err().then_some(()) }).await;
    let rest = running.rest().await;
    assert_eq!(begun + rest.text(), String::from_utf8(joined(&healthy()).to_vec()).unwrap());
    assert!(!rest.broken);
    let (drained, _folder) = stack.stop().await;
    assert_eq!(drained, Drained::All);
}

// Design: the drain has a limit, and what was seen until then is recorded.
#[tokio::test]
async fn a_stream_that_does_not_end_is_cut_when_the_drain_is_over() {
    let stack = Stack::of(stalling()).server("drain_seconds = 1").start().await;
    let body =
        json!({"model": "mock", "stream": true, "messages": [{"role": "user", "content": "I'm allergic to peanuts."}]});
    let mut running = stack.chat(body.to_string()).user("ann").open().await;
    running.read_until("one").await;
    let (drained, folder) = stack.stop().await;
    assert_eq!(drained, Drained::Cut);
    let rest = running.rest().await;
    assert!(!rest.text().contains(DONE.trim()));
    let stack = Stack::of(Script::Model).in_folder(folder).start().await;
    stack.learned().await;
    assert_eq!(stack.facts("ann").await, ["diet.allergy = peanuts"]);
}

// Design, section 10: health is for machines without keys.
#[tokio::test]
async fn health_and_metrics_need_no_key_and_ask_no_model() {
    let stack = Stack::new(Script::Model).await;
    for path in ["/livez", "/readyz", "/metrics"] {
        stack.ask("GET", path).without("authorization").send().await.must_be(200);
    }
    let ready = stack.ask("GET", "/readyz").without("authorization").send().await.json();
    assert_eq!((ready["status"].as_str(), ready["store"].as_str()), (Some("ready"), Some("ok")));
    assert_eq!(stack.upstream().accepted(), 0);
    stack.app.stop.cancel();
}

// BerriAI/litellm#36174; sgl-project/sglang#15097: counting blocked everything else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_requests_do_not_keep_health_waiting() {
    let stack = Stack::new(Script::Fixed("ok".to_owned())).await;
    let words: String = (0..120_000).map(|n| format!("word{n} ")).collect();
    let body = json!({"model": "mock", "messages": [{"role": "user", "content": words}]}).to_string();
    assert!(body.len() > 1_000_000);
    let large = futures_util::future::join_all((0..4).map(|_| stack.chat(body.clone()).user("ann").send()));
    let health = async {
        let mut slowest = Duration::ZERO;
        for _ in 0..20 {
            let begun = std::time::Instant::now();
            stack.ask("GET", "/readyz").send().await.must_be(200);
            slowest = slowest.max(begun.elapsed());
        }
        slowest
    };
    let (replies, slowest) = tokio::join!(large, health);
    for got in replies {
        got.must_be(200);
    }
    // The promise is 300 ms; debug builds on a busy machine get more, and a blocked thread would take longer still.
    assert!(slowest < Duration::from_secs(3), "{slowest:?}");
}
