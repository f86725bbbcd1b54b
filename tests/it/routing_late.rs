//! Keep-alives before upstream has answered at all: `keepalive_before_header_seconds`.

use backstory::mock::{Raw, Script};
use serde_json::json;

use crate::support::sse::{healthy, joined};
use crate::support::{Got, Stack};

const ON: &str = "keepalive_before_header_seconds = 1\n";
const COMMENT: &str = ": keep-alive\n\n";

/// A reply whose header comes after a second and a half.
fn late(mut raw: Raw) -> Script {
    raw.header_delay = std::time::Duration::from_millis(1500);
    Script::Raw(raw)
}

async fn ask(stack: &Stack, model: &str, stream: bool) -> Got {
    let body = json!({"model": model, "stream": stream, "messages": [{"role": "user", "content": "My name is Ann."}]});
    stack.chat(body.to_string()).user("ann").send().await
}

#[tokio::test]
async fn a_stream_begins_with_comments_and_goes_on_as_upstreams_own() {
    let stack = Stack::of(late(Raw::stream(healthy()))).server(ON).start().await;
    let got = ask(&stack, "mock", true).await.must_be(200);
    let text = got.text();
    assert!(text.starts_with(COMMENT), "{text}");
    assert_eq!(text.trim_start_matches(COMMENT).as_bytes(), joined(&healthy()));
    assert_eq!(got.header("content-type"), "text/event-stream; charset=utf-8");
    assert_eq!(got.header("x-backstory-target"), "upstream/mock; attempts=1");
    // It is an exchange like any other.
    stack.learned().await;
    assert_eq!(stack.facts("ann").await, ["identity.name = Ann"]);
}

#[tokio::test]
async fn it_is_off_by_default_and_never_for_what_is_no_stream() {
    let stack = Stack::new(late(Raw::stream(healthy()))).await;
    assert_eq!(ask(&stack, "mock", true).await.must_be(200).body, joined(&healthy()));
    let stack = Stack::of(late(Raw::json(503, "{}"))).server(ON).start().await;
    ask(&stack, "mock", false).await.must_be(503);
}

#[tokio::test]
async fn what_goes_wrong_after_the_200_is_told_inside_the_stream() {
    let odd = "{\"error\":{\"message\":\"in my\\n own words\",\n\"n\":1.10}}";
    let stack = Stack::of(late(Raw::json(503, odd))).server(ON).start().await;
    let got = ask(&stack, "mock", true).await.must_be(200);
    let expected = format!("{COMMENT}data: {}\n\n", odd.replace('\n', "\ndata: "));
    assert!(got.text().starts_with(&expected), "{}", got.text());
    assert!(!got.text().contains("[DONE]"));

    let stack =
        Stack::of(Script::As("mock-stall-header")).server(ON).with("[timeouts]\nheader_ms = 1200").start().await;
    let got = ask(&stack, "mock", true).await.must_be(200);
    assert!(got.text().contains("\"code\":\"upstream_timeout\"") && !got.text().contains("[DONE]"), "{}", got.text());
}

// The one stated exception to promise 1 takes nothing from a fallback.
#[tokio::test]
async fn it_never_begins_while_another_target_could_be_tried() {
    let stack = Stack::of(late(Raw::error(500, "no")))
        .upstream(Script::Raw(Raw::stream(healthy())))
        .chain(2)
        .server(ON)
        .start()
        .await;
    let got = ask(&stack, "chain", true).await.must_be(200);
    assert_eq!(got.body, joined(&healthy()), "no comment, since the second target could still answer");
    assert_eq!(got.header("x-backstory-target"), "p2/mock; attempts=2");
}

#[tokio::test]
async fn an_answer_that_is_in_time_keeps_its_own_status() {
    let stack = Stack::of(Script::As("mock-error-503")).server(ON).start().await;
    ask(&stack, "mock", true).await.must_be(503);
}

// What fails late cools a target as what fails in time does, also where nothing follows on it by the table.
#[tokio::test]
async fn a_target_that_never_answers_in_time_cools_although_its_streams_had_begun() {
    let limited = Script::Raw(Raw::error(429, "no").with_header("retry-after", "30"));
    let stack = Stack::of(limited)
        .upstream(Script::As("mock-stall-header"))
        .chain(2)
        .server(ON)
        .with("[timeouts]\nheader_ms = 1200\n[retry.on]\ntimeout = \"stop\"\n")
        .start()
        .await;
    for got in futures_util::future::join_all((0..3).map(|_| ask(&stack, "chain", true))).await {
        assert!(got.must_be(200).text().contains("error"));
    }
    ask(&stack, "chain", true).await.must_be_error(503);
}
