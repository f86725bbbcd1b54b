//! Streams reach the client as upstream sent them.

use std::time::Duration;

use backstory::mock::{End, Raw, Script};
use bytes::Bytes;
use serde_json::json;

use crate::support::sse::{DONE, delta, event, finish, healthy, joined, text, usage};
use crate::support::{Got, Stack, until};

/// Sends these pieces as a stream, a write each, and returns what the client got.
async fn through(pieces: Vec<Bytes>) -> Got {
    let stack = Stack::new(Script::Raw(Raw::stream(pieces))).await;
    stack.stream().await.must_be(200)
}

/// Asserts that a stream in these pieces arrives byte for byte.
async fn passes(pieces: Vec<Bytes>) {
    let whole = Bytes::from(pieces.concat());
    let got = through(pieces).await;
    assert_eq!(got.body, whole, "{:?}\n{:?}", got.body, whole);
    assert!(!got.broken);
}

fn bytes(pieces: &[String]) -> Vec<Bytes> {
    pieces.iter().map(|piece| Bytes::from(piece.clone())).collect()
}

fn with_usage() -> Vec<String> {
    let mut pieces = healthy();
    pieces.insert(pieces.len() - 1, usage());
    pieces
}

fn asking_for_usage(wanted: bool) -> serde_json::Value {
    json!({
        "model": "mock", "stream": true, "stream_options": {"include_usage": wanted},
        "messages": [{"role": "user", "content": "Hello there"}],
    })
}

// BerriAI/litellm#8450, #9657: the usage event was lost, or came twice.
#[tokio::test]
async fn usage_that_was_asked_for_arrives_once_as_upstream_sent_it() {
    let stack = Stack::new(Script::Raw(Raw::stream(with_usage()))).await;
    let got = stack.stream_of(&asking_for_usage(true)).await.must_be(200);
    assert_eq!(got.body, joined(&with_usage()));
    assert_eq!(stack.sent().json()["stream_options"]["include_usage"], true);
}

// entrius/gittensor#1749; BerriAI/litellm#5632: clients met an event without choices that they had not asked for.
#[tokio::test]
async fn usage_that_was_not_asked_for_is_asked_of_upstream_and_withheld() {
    let stack = Stack::new(Script::Raw(Raw::stream(with_usage()))).await;
    let got = stack.stream().await.must_be(200);
    assert_eq!(got.body, joined(&healthy()));
    assert_eq!(stack.sent().json()["stream_options"]["include_usage"], true);
    let metrics = stack.ask("GET", "/metrics").send().await;
    assert!(metrics.text().contains("1234"), "it is booked: {}", metrics.text());
}

// Design, doubt 2: a client that says `false` is asked for all the same, and sees none.
#[tokio::test]
async fn usage_that_was_refused_is_withheld_as_well() {
    let stack = Stack::new(Script::Raw(Raw::stream(with_usage()))).await;
    let got = stack.stream_of(&asking_for_usage(false)).await.must_be(200);
    assert_eq!(got.body, joined(&healthy()));
}

// BerriAI/litellm#23847: a gateway made up counts.
#[tokio::test]
async fn no_usage_is_invented_when_upstream_sends_none() {
    let stack = Stack::new(Script::Raw(Raw::stream(healthy()))).await;
    for wanted in [true, false] {
        let got = stack.stream_of(&asking_for_usage(wanted)).await.must_be(200);
        assert_eq!(got.body, joined(&healthy()), "asked: {wanted}");
    }
}

// gpustack/gpustack#6155: neighbours in the same write were lost with it.
#[tokio::test]
async fn a_usage_event_in_one_write_with_its_neighbours_is_withheld_alone() {
    let got = through(vec![joined(&with_usage())]).await;
    assert_eq!(got.body, joined(&healthy()));
}

// envoyproxy/ai-gateway#2162: half an event reached the client, and the count was wrong.
#[tokio::test]
async fn a_usage_event_cut_within_a_number_is_withheld_whole_and_booked() {
    let usage = usage();
    let at = usage.find("1234").unwrap() + 2;
    let before = healthy();
    let (last, rest) = before.split_last().unwrap();
    let mut pieces = bytes(rest);
    pieces.extend([
        Bytes::from(usage[..at].to_owned()),
        Bytes::from(usage[at..].to_owned()),
        Bytes::from(last.clone()),
    ]);
    let stack = Stack::new(Script::Raw(Raw::stream(pieces))).await;
    assert_eq!(stack.stream().await.must_be(200).body, joined(&before));
    let metrics = stack.ask("GET", "/metrics").send().await;
    assert!(metrics.text().contains("1234"), "it is booked: {}", metrics.text());
}

// Portkey-AI/gateway#1035: comments broke the parser.
#[tokio::test]
async fn comment_lines_pass() {
    passes(bytes(&[": hello\n\n".to_owned(), text("a"), ":\n\n".to_owned(), finish("stop"), DONE.to_owned()])).await;
}

// Portkey-AI/gateway#722, #949: fields beside `data` were dropped.
#[tokio::test]
async fn event_id_retry_and_unknown_fields_pass() {
    let odd = format!("event: message\nid: 7\nretry: 100\nx-other: y\nlonely\n{}", text("a"));
    passes(bytes(&[odd, finish("stop"), DONE.to_owned()])).await;
}

// BerriAI/litellm#40404: one bad line ended the stream.
#[tokio::test]
async fn a_malformed_line_between_two_good_ones_is_not_fatal() {
    let pieces =
        [text("one"), event(r#"{"choices":[{"delta":{"content":"#), text("two"), finish("stop"), DONE.to_owned()];
    passes(bytes(&pieces)).await;
}

// BerriAI/litellm#18842; musistudio/claude-code-router#1672: characters became replacement marks.
#[tokio::test]
async fn multi_byte_characters_split_at_every_place_arrive_whole() {
    let stack = Stack::new(Script::Model).await;
    let whole = joined(&[text("é世🌍"), finish("stop"), DONE.to_owned()]);
    let start = memchr::memmem::find(&whole, "é".as_bytes()).unwrap();
    for at in start..start + "é世🌍".len() {
        let pieces = [whole.slice(..at), whole.slice(at..)];
        stack.upstream().set_script(Script::Raw(Raw::stream(pieces)));
        assert_eq!(stack.stream().await.must_be(200).body, whole, "split at {at}");
    }
}

// envoyproxy/ai-gateway#2162: parsers that wanted an event a read.
#[tokio::test]
async fn a_stream_sent_one_byte_at_a_time_arrives_the_same() {
    let whole = joined(&healthy());
    passes((0..whole.len()).map(|at| whole.slice(at..=at)).collect()).await;
}

// envoyproxy/ai-gateway PR#2177: `data:` without the space was no event.
#[tokio::test]
async fn data_without_the_space_passes_and_done_is_understood() {
    let tight: Vec<String> = with_usage().iter().map(|piece| piece.replace("data: ", "data:")).collect();
    let stack = Stack::new(Script::Raw(Raw::stream(tight.clone()))).await;
    let got = stack.stream().await.must_be(200);
    let expected: Vec<String> = tight.into_iter().filter(|piece| !piece.contains("prompt_tokens")).collect();
    assert_eq!(got.body, joined(&expected));
}

// alibaba/higress#4146: other line ends than LF.
#[tokio::test]
async fn crlf_and_bare_cr_and_both_in_different_reads_pass() {
    for end in ["\r\n", "\r"] {
        let pieces: Vec<String> = healthy().iter().map(|piece| piece.replace('\n', end)).collect();
        passes(bytes(&pieces)).await;
    }
    let crlf = Bytes::from(healthy().concat().replace('\n', "\r\n"));
    let mut pieces = Vec::new();
    let mut start = 0;
    for at in memchr::memchr_iter(b'\n', &crlf) {
        pieces.push(crlf.slice(start..at));
        start = at;
    }
    pieces.push(crlf.slice(start..));
    passes(pieces).await;
}

// gpustack/gpustack#6155: the `data:` of the second event was lost.
#[tokio::test]
async fn several_events_in_one_write_keep_their_prefixes() {
    let pieces = healthy();
    passes(vec![joined(&pieces[..3]), joined(&pieces[3..])]).await;
}

// Design: what upstream answers to a stream request is upstream's matter.
#[tokio::test]
async fn a_json_answer_or_error_to_a_stream_request_passes_with_its_status() {
    for (status, body) in [
        (200, r#"{"choices":[{"message":{"role":"assistant","content":"whole"}}], "x": 1.10}"#),
        (400, r#"{"error":{"message":"no","type":"invalid_request_error","param":"n","code":null}, "x":1e3}"#),
    ] {
        let stack = Stack::new(Script::Raw(Raw::json(status, body))).await;
        let got = stack.stream().await.must_be(status);
        assert_eq!(got.text(), body);
        assert_eq!(got.header("content-type"), "application/json");
    }
}

// maximhq/bifrost#1961, #1829: the pieces of two calls were mixed up.
#[tokio::test]
async fn interleaved_pieces_of_two_parallel_calls_keep_their_indices() {
    let call = |index: u32, rest: serde_json::Value| {
        let mut call = json!({"index": index});
        call.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        delta(&json!({"tool_calls": [call]}))
    };
    let pieces = [
        call(0, json!({"id": "a", "type": "function", "function": {"name": "f", "arguments": ""}})),
        call(1, json!({"id": "b", "type": "function", "function": {"name": "g", "arguments": ""}})),
        call(1, json!({"function": {"arguments": "{\"y\""}})),
        call(0, json!({"function": {"arguments": "{\"x\":1}"}})),
        call(1, json!({"function": {"arguments": ":2}"}})),
        finish("tool_calls"),
        DONE.to_owned(),
    ];
    passes(bytes(&pieces)).await;
}

// maximhq/bifrost PR#7235: the second call of a chunk was dropped.
#[tokio::test]
async fn two_calls_in_one_chunk_both_arrive() {
    let call = |index: u32| json!({"index": index, "id": format!("c{index}"), "type": "function", "function": {"name": "f", "arguments": "{}"}});
    let pieces = [delta(&json!({"tool_calls": [call(0), call(1)]})), finish("tool_calls"), DONE.to_owned()];
    passes(bytes(&pieces)).await;
}

// BerriAI/litellm#5231: calls without an index, or counted from 1, were refused.
#[tokio::test]
async fn calls_without_index_or_counted_from_one_are_forwarded_as_they_are() {
    let pieces = [
        delta(&json!({"tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}]})),
        delta(
            &json!({"tool_calls": [{"index": 1, "id": "b", "type": "function", "function": {"name": "g", "arguments": "{}"}}]}),
        ),
        finish("tool_calls"),
        DONE.to_owned(),
    ];
    passes(bytes(&pieces)).await;
}

// headroomlabs-ai/headroom#2438: what a gateway did not know it left out.
#[tokio::test]
async fn unknown_delta_members_and_block_types_stay() {
    let pieces = [
        delta(&json!({"reasoning_content": "hm", "x_new": {"deep": [1, null]}})),
        delta(&json!({"content": [{"type": "thinking", "thinking": "…", "signature": "abc"}]})),
        finish("some_new_reason"),
        DONE.to_owned(),
    ];
    passes(bytes(&pieces)).await;
}

/// The last event of a stream, which has to be an error of ours, and what came before it.
#[track_caller]
fn ends_with_an_error(got: &Got) -> &str {
    let whole = got.text().trim_end();
    let at = whole.rfind("data: ").unwrap();
    let error: serde_json::Value = serde_json::from_str(&whole["data: ".len() + at..]).unwrap();
    assert!(error["error"]["message"].is_string(), "{whole}");
    assert!(!whole.contains("[DONE]"), "{whole}");
    assert!(!got.broken, "our own reply ends as HTTP wants it");
    &whole[..at]
}

// Portkey-AI/gateway#1797: a cut stream looked like a finished one.
#[tokio::test]
async fn a_stream_cut_in_mid_answer_ends_with_an_error_event_and_without_done() {
    let pieces = [text("one"), text("two")];
    for end in [End::Reset, End::Polite] {
        let stack = Stack::new(Script::Raw(Raw::stream(pieces.clone()).ending(end))).await;
        let got = stack.stream().await.must_be(200);
        let before = ends_with_an_error(&got);
        // A reset takes with it what was not read yet.
        let whole = pieces.concat();
        assert!(if end == End::Reset { whole.starts_with(before) } else { whole == before }, "{end:?}: {before}");
        // The alert on broken streams (deploy/prometheus) sees it.
        let counted = stack.app.metrics.render();
        assert!(counted.contains(r#"backstory_requests_total{route="chat",outcome="cut"} 1"#), "{counted}");
        assert!(!counted.contains(r#"backstory_requests_total{route="chat",outcome="2xx"} 1"#), "{counted}");
    }
}

// dativo-io/talon#393: our event was glued to half a line of upstream's.
#[tokio::test]
async fn a_cut_in_mid_line_is_ended_so_that_our_own_event_can_be_parsed() {
    let second = text("two");
    let half = &second[..second.len() / 2];
    let stack = Stack::new(Script::Raw(Raw::stream([text("one"), half.to_owned()]))).await;
    let got = stack.stream_of(&asking_for_usage(true)).await.must_be(200);
    assert_eq!(ends_with_an_error(&got), format!("{}{half}\n\n", text("one")));
    // Where an event may have to be withheld, half of one never leaves.
    assert_eq!(ends_with_an_error(&stack.stream().await.must_be(200)), text("one"));
    stack.upstream().set_script(Script::Raw(Raw::stream([text("one"), half.to_owned()]).ending(End::Reset)));
    for wanted in [true, false] {
        ends_with_an_error(&stack.stream_of(&asking_for_usage(wanted)).await.must_be(200));
    }
}

// Portkey-AI/gateway#1047: an error inside a 200 was passed on although another target could answer.
#[tokio::test]
async fn an_error_as_first_event_of_a_200_is_answered_by_the_next_target() {
    let error = event(r#"{"error":{"message":"overloaded","type":"server_error","param":null,"code":null}}"#);
    let stack = Stack::of(Script::Raw(Raw::stream([error])))
        .upstream(Script::Raw(Raw::stream(healthy())))
        .chain(2)
        .start()
        .await;
    let body = json!({"model": "chain", "stream": true, "messages": [{"role": "user", "content": "Hello there"}]});
    let got = stack.stream_of(&body).await.must_be(200);
    assert_eq!(got.body, joined(&healthy()));
    assert_eq!(got.header("x-backstory-target"), "p2/mock; attempts=2");
}

// tensorzero/tensorzero#6328: a silent stream hung for ever.
#[tokio::test]
async fn silence_after_three_tokens_ends_by_the_idle_timeout_and_lets_upstream_go() {
    let pieces = [text("a"), text("b"), text("c")];
    let stack = Stack::of(Script::Raw(Raw::stream(pieces.clone()).ending(End::Stall)))
        .with("[timeouts]\nidle_ms = 200")
        .start()
        .await;
    let got = stack.stream().await.must_be(200);
    assert!(got.text().starts_with(&pieces.concat()));
    assert!(got.text().contains("\"error\"") && !got.text().contains("[DONE]"), "{}", got.text());
    let upstream = stack.upstream().clone();
    until("upstream is let go", || upstream.cancelled() == 1).await;
}

// adolfousier/opencrabs#1635: long answers were cut by a timeout meant for short ones.
#[tokio::test]
async fn a_healthy_stream_may_last_longer_than_the_total_timeout() {
    let mut raw = Raw::stream(healthy());
    for piece in &mut raw.pieces {
        piece.0 = Duration::from_millis(80);
    }
    let stack = Stack::of(Script::Raw(raw)).with("[timeouts]\ntotal_ms = 150").start().await;
    let got = stack.stream().await.must_be(200);
    assert_eq!(got.body, joined(&healthy()));
}

// Kong/kong#14425: events were collected before they were passed on. Here the next event comes only after the client has
// seen the one before, so that a gateway which waits for more would wait for ever.
#[tokio::test]
async fn each_event_is_passed_on_before_the_next_one_comes() {
    let mut raw = Raw::stream([text("first")]);
    raw.end = End::Stall;
    let stack = Stack::new(Script::Raw(raw)).await;
    let body = json!({"model": "mock", "stream": true, "messages": [{"role": "user", "content": "Hello there"}]});
    let mut reply = stack.chat(body.to_string()).user("ann").open().await;
    assert_eq!(reply.read_until("\n\n").await, text("first"));
}

// OpenRouter's comments while a model is not there yet: they are no first token, however many come.
#[tokio::test]
async fn comments_of_upstream_are_no_beginning() {
    let waiting = std::iter::repeat_n(": PROCESSING\n\n".to_owned(), 20);
    let mut raw = Raw::stream(waiting.chain(healthy()));
    raw.pieces[1..20].iter_mut().for_each(|(pause, _)| *pause = Duration::from_millis(100));
    let limits = "[timeouts]\nfirst_token_ms = 500\nidle_ms = 60000";
    let stack = Stack::of(Script::Raw(raw)).with(limits).start().await;
    let got = stack.stream().await.must_be(200);
    assert!(ends_with_an_error(&got).lines().all(|line| line.is_empty() || line.starts_with(':')), "{}", got.text());
}

// BerriAI/litellm#34819; theopenco/llmgateway#1541: proxies closed connections that were silent for long.
#[tokio::test]
async fn comments_keep_a_stream_alive_while_upstream_is_silent_after_its_header() {
    let mut raw = Raw::stream(healthy());
    raw.pieces[1].0 = Duration::from_millis(1_500);
    let stack = Stack::of(Script::Raw(raw)).server("keepalive_seconds = 1").start().await;
    let got = stack.stream().await.must_be(200);
    let comments: Vec<&str> = got.text().lines().filter(|line| line.starts_with(':')).collect();
    assert!(!comments.is_empty(), "{}", got.text());
    let events: Vec<&str> = got.text().lines().filter(|line| line.starts_with("data:")).collect();
    assert_eq!(events.join("\n\n") + "\n\n", healthy().concat());
}

// Kong/kong#14893: compressed streams could not be read by the gateway.
#[tokio::test]
async fn identity_is_asked_of_upstream_and_a_compressed_stream_can_still_be_read() {
    let stack = Stack::new(Script::As("mock-gzip-fixed")).await;
    let body = json!({"model": "mock", "stream": true, "messages": [{"role": "user", "content": "Hello there"}]});
    let got = stack.chat(body.to_string()).user("ann").header("accept-encoding", "gzip, br").send().await.must_be(200);
    assert_eq!(stack.sent().header("accept-encoding"), Some("identity"));
    assert_eq!(got.header("content-encoding"), "");
    assert!(got.text().ends_with(DONE), "{}", got.text());
    assert!(!got.text().contains("prompt_tokens"), "usage is withheld from what was unpacked: {}", got.text());
}
