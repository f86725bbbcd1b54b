//! Attempts: keys in turn, repeats, cool-down, the table of failures, the bounds of it all.

use std::time::{Duration, Instant};

use backstory::mock::{Raw, Script};
use serde_json::json;

use crate::support::raw::{REPLY, RawServer, Step, json_answer, tls_file};
use crate::support::{Got, Stack, binary, log, until};

const TWO_KEYS: &str = "[[providers]]\nname = \"p\"\nbase_url = \"${UPSTREAM}\"\napi_keys = [\"sk-first-0123456789\", \"sk-second-0123456789\"]\ndefault = true\n";

async fn ask(stack: &Stack, model: &str) -> Got {
    let body = json!({"model": model, "messages": [{"role": "user", "content": "Hello there"}]});
    stack.chat(body.to_string()).user("ann").send().await
}

fn attempts(got: &Got) -> u32 {
    got.header("x-backstory-target").rsplit_once('=').unwrap().1.parse().unwrap()
}

/// A 429 with this Retry-After, in seconds.
fn limited(seconds: &str) -> Script {
    Script::Raw(Raw::error(429, "slow down").with_header("retry-after", seconds))
}

/// The keys that the first upstream got, in order.
fn keys_sent(stack: &Stack) -> Vec<String> {
    let key = |request: &backstory::mock::Recorded| {
        request
            .header("authorization")
            .unwrap()
            .strip_prefix("Bearer sk-")
            .unwrap()
            .split('-')
            .next()
            .unwrap()
            .to_owned()
    };
    stack.upstream().requests().iter().map(key).collect()
}

#[tokio::test]
async fn several_keys_are_taken_in_turn() {
    let stack = Stack::of(Script::Model).providers(TWO_KEYS).start().await;
    for _ in 0..4 {
        ask(&stack, "mock").await.must_be(200);
    }
    assert_eq!(keys_sent(&stack), ["first", "second", "first", "second"]);
}

// Design, doubt 6: cool-down is per (target, credential).
#[tokio::test]
async fn a_limited_key_is_left_alone_and_the_other_one_answers() {
    let script = Script::from_fn(|request| match request.header("authorization") {
        Some("Bearer sk-first-0123456789") => limited("60"),
        _ => Script::Model,
    });
    let stack = Stack::of(script).providers(TWO_KEYS).start().await;
    assert_eq!(attempts(&ask(&stack, "mock").await.must_be(200)), 2, "the other key is asked at once");
    for _ in 0..3 {
        assert_eq!(attempts(&ask(&stack, "mock").await.must_be(200)), 1);
    }
    assert_eq!(keys_sent(&stack), ["first", "second", "second", "second", "second"]);
}

// BerriAI/litellm#18731: the log says which key by its number, never the key.
#[tokio::test]
async fn a_refused_key_is_taken_out_and_the_log_says_which_by_its_number() {
    let script = Script::from_fn(|request| match request.header("authorization") {
        Some("Bearer sk-refused-0123456789") => Script::As("mock-error-401"),
        _ => Script::Model,
    });
    let providers = TWO_KEYS.replace("\"p\"", "\"refusing\"").replace("sk-first", "sk-refused");
    let stack = Stack::of(script).providers(&providers).start().await;
    for _ in 0..4 {
        ask(&stack, "mock").await.must_be(200);
    }
    assert_eq!(keys_sent(&stack).iter().filter(|key| *key == "refused").count(), 1);
    assert!(log::contains("provider=\"refusing\" key=1"), "its number is in the log");
    assert!(!log::contains("sk-refused-0123456789"));
    let metrics = stack.ask("GET", "/metrics").send().await;
    assert!(metrics.text().contains("backstory_upstream_keys_refused_total 1"));
    // With both refused the client is told so by upstream itself, and neither key shows.
    stack.upstream().set_script(Script::As("mock-error-401"));
    let got = ask(&stack, "mock").await.must_be(401);
    assert!(got.text().contains("***") && !got.text().contains("sk-"), "{}", got.text());
}

// BerriAI/litellm#3646, PR#34836; #27823.
#[tokio::test]
async fn a_cooling_target_is_skipped_and_when_all_cool_nobody_is_asked() {
    let stack = Stack::of(limited("30")).upstream(Script::Model).chain(2).start().await;
    assert_eq!(attempts(&ask(&stack, "chain").await.must_be(200)), 2);
    assert_eq!(attempts(&ask(&stack, "chain").await.must_be(200)), 1, "the first one cools");
    assert_eq!(stack.upstreams[0].accepted(), 1);
    let metrics = stack.ask("GET", "/metrics").send().await;
    assert!(metrics.text().contains("backstory_target_cooling{target=\"p1/mock\"} 1"), "{}", metrics.text());

    let stack = Stack::of(limited("30")).upstream(limited("7")).chain(2).start().await;
    ask(&stack, "chain").await.must_be(429);
    let got = ask(&stack, "chain").await;
    assert_eq!(got.header("retry-after"), "7", "the soonest");
    assert_eq!(got.must_be_error(429)["type"], "rate_limit_error");
    assert_eq!((stack.upstreams[0].accepted(), stack.upstreams[1].accepted()), (1, 1));
}

#[tokio::test]
async fn when_not_all_were_limited_it_is_503() {
    let stack = Stack::of(limited("30"))
        .upstream(Script::As("mock-error-500"))
        .chain(2)
        .with("[retry]\nattempts = 3")
        .start()
        .await;
    // Three failures in a row of the second one, within one request.
    ask(&stack, "chain").await.must_be(500);
    let error = ask(&stack, "chain").await.must_be_error(503);
    assert_eq!(error["code"], "overloaded");
}

// Design, doubt 6: what cools already is a target of the route all the same.
#[tokio::test]
async fn the_last_target_that_does_not_cool_does_so_too() {
    let stack = Stack::of(limited("30")).upstream(Script::As("mock-error-500")).chain(2).start().await;
    for _ in 0..3 {
        ask(&stack, "chain").await.must_be(500);
    }
    assert_eq!(ask(&stack, "chain").await.must_be_error(503)["code"], "overloaded");
    assert_eq!((stack.upstreams[0].accepted(), stack.upstreams[1].accepted()), (1, 3));
}

// After its cool-down a target is probed by one request; others go to the next target meanwhile.
#[tokio::test]
async fn a_target_that_cooled_is_probed_by_one_request_at_a_time() {
    let stack = Stack::of(Script::Raw(Raw::error(429, "no").with_header("retry-after-ms", "1")))
        .upstream(Script::Model)
        .chain(2)
        .start()
        .await;
    ask(&stack, "chain").await.must_be(200);
    // Its cool-down is over at once; now it takes its time to answer.
    stack.upstreams[0].set_script(Script::As("mock-late-header-400"));
    tokio::time::sleep(Duration::from_millis(5)).await;
    let all = futures_util::future::join_all((0..6).map(|_| ask(&stack, "chain"))).await;
    let by_first = all.iter().filter(|got| got.header("x-backstory-target").starts_with("p1/")).count();
    assert_eq!(by_first, 1, "the probe");
    assert_eq!(stack.upstreams[0].accepted(), 2);
    // It answered: it is open for all again.
    stack.upstreams[0].set_script(Script::Model);
    assert_eq!(ask(&stack, "chain").await.header("x-backstory-target"), "p1/mock; attempts=1");
}

// Where the others have failed, the outcome of another request's probe is waited for.
#[tokio::test]
async fn a_probe_of_the_last_target_is_waited_for_by_those_that_have_nobody_else_left() {
    let stack = Stack::of(Script::As("mock-error-500"))
        .upstream(Script::Raw(Raw::error(429, "no").with_header("retry-after-ms", "1")))
        .chain(2)
        .start()
        .await;
    ask(&stack, "chain").await.must_be(429);
    stack.upstreams[1].set_script(Script::As("mock-late-header-400"));
    tokio::time::sleep(Duration::from_millis(5)).await;
    for got in futures_util::future::join_all((0..2).map(|_| ask(&stack, "chain"))).await {
        assert_eq!(got.must_be(200).header("x-backstory-target"), "p2/mock; attempts=2");
    }
}

#[tokio::test]
async fn after_max_seconds_no_further_try_is_begun() {
    let mut late = Raw::error(500, "late");
    late.header_delay = Duration::from_millis(1100);
    let stack = Stack::of(Script::Raw(late))
        .upstream(Script::Model)
        .chain(2)
        .with("[retry]\nattempts = 2\nmax_seconds = 1")
        .start()
        .await;
    ask(&stack, "chain").await.must_be(500);
    assert_eq!((stack.upstreams[0].accepted(), stack.upstreams[1].accepted()), (1, 0));
}

#[tokio::test]
async fn a_wait_for_which_there_is_no_time_leaves_their_turn_to_the_other_targets() {
    let stack = Stack::of(Script::Raw(Raw::error(503, "busy").with_header("retry-after-ms", "1900")))
        .upstream(Script::Model)
        .chain(2)
        .with("[retry]\nattempts = 2\nmax_seconds = 1")
        .start()
        .await;
    assert_eq!(ask(&stack, "chain").await.must_be(200).header("x-backstory-target"), "p2/mock; attempts=2");
}

// Retry-After in its form as a date, read against upstream's own clock.
#[tokio::test]
async fn a_repeat_waits_as_long_as_upstream_asks_in_either_form() {
    let busy = |headers: &str| {
        let body = r#"{"error":{"message":"busy"}}"#;
        let head = format!("HTTP/1.1 503 Busy\r\ncontent-type: application/json\r\ncontent-length: {}\r\n", body.len());
        format!("{head}{headers}\r\n{body}")
    };
    for headers in
        ["retry-after: 1\r\n", "date: Sun, 06 Nov 1994 08:49:37 GMT\r\nretry-after: Sun, 06 Nov 1994 08:49:38 GMT\r\n"]
    {
        let first = busy(headers);
        let server =
            RawServer::start(move |n| Step::Say(if n == 0 { first.clone() } else { json_answer("", REPLY) })).await;
        let stack = Stack::of(Script::Model)
            .env("RAW", &server.base_url())
            .providers("[[providers]]\nname = \"raw\"\nbase_url = \"${RAW}\"\ndefault = true\n")
            .with("[retry]\nattempts = 2")
            .start()
            .await;
        let begun = Instant::now();
        let got = ask(&stack, "m").await.must_be(200);
        assert_eq!(attempts(&got), 2);
        assert!(begun.elapsed() >= Duration::from_secs(1), "{:?} after {headers}", begun.elapsed());
    }
}

// A wait that nobody would sit out is left to the client, with upstream's own words.
#[tokio::test]
async fn a_wait_that_is_too_long_is_passed_to_the_client() {
    let stack = Stack::of(Script::Raw(Raw::error(503, "much later").with_header("retry-after", "3000")))
        .with("[retry]\nattempts = 3")
        .start()
        .await;
    let got = ask(&stack, "mock").await.must_be(503);
    assert_eq!((got.header("retry-after"), stack.upstream().accepted()), ("3000", 1));
}

#[tokio::test]
async fn the_table_says_what_follows_on_which_failure() {
    let table = "[retry]\nattempts = 2\n[retry.on]\n\"400\" = \"next\"\n\"5xx\" = \"stop\"\n\"503\" = \"next\"\n\"404\" = \"same\"\ntimeout = \"stop\"\n[timeouts]\nheader_ms = 200\n";
    for (model, asked_first, status) in [
        ("mock-error-400", 1, 200),
        ("mock-error-500", 1, 500),
        ("mock-error-503", 1, 200),
        ("mock-error-404", 2, 200),
        ("mock-stall-header", 1, 504),
    ] {
        let stack = Stack::of(Script::As(model)).upstream(Script::Model).chain(2).with(table).start().await;
        ask(&stack, "chain").await.must_be(status);
        assert_eq!(stack.upstreams[0].accepted(), asked_first, "{model}");
        assert_eq!(stack.upstreams[1].accepted() > 0, status == 200, "{model}");
    }
}

#[tokio::test]
async fn all_tries_of_a_request_have_a_bound() {
    let failing = || Script::As("mock-error-500");
    let stack = Stack::of(failing())
        .upstream(failing())
        .upstream(Script::Model)
        .chain(3)
        .with("[retry]\nattempts = 3\nmax_total = 4")
        .start()
        .await;
    let got = ask(&stack, "chain").await.must_be(500);
    assert_eq!(attempts(&got), 4);
    assert_eq!(stack.upstreams.iter().map(|upstream| upstream.accepted()).collect::<Vec<_>>(), [3, 1, 0]);
}

// A kept connection that its server closes at the very moment at which it is used again.
#[tokio::test]
async fn a_kept_connection_that_was_just_closed_is_replaced_once() {
    let stack = Stack::of(Script::As("mock-hang-up")).start().await;
    for _ in 0..3 {
        assert_eq!(attempts(&ask(&stack, "mock").await.must_be(200)), 1, "it is no attempt more");
    }
    assert_eq!(stack.upstream().connections(), 3);
}

/// A gateway before this server.
async fn before(server: &RawServer, base_url: &str) -> Stack {
    assert!(base_url.contains(&server.addr.port().to_string()));
    Stack::of(Script::Model)
        .env("RAW", base_url)
        .file("ca.pem", &tls_file("ca.pem"))
        .providers(
            "[[providers]]\nname = \"raw\"\nbase_url = \"${RAW}\"\nproxy = \"none\"\nca_file = \"ca.pem\"\ndefault = true\n",
        )
        .start()
        .await
}

// A request may have been read, and paid for, before its connection ended: only one that a kept connection cannot have carried is sent again.
#[tokio::test]
async fn what_may_have_been_read_is_not_sent_twice() {
    let unreachable = |got: Got| assert_eq!(got.must_be_error(502)["code"], "upstream_unreachable");
    for tls in [false, true] {
        let start = async |answer: fn(usize) -> Step| {
            let server = if tls { RawServer::start_tls("good", answer).await } else { RawServer::start(answer).await };
            let base_url = if tls { format!("https://localhost:{}/v1", server.addr.port()) } else { server.base_url() };
            let stack = before(&server, &base_url).await;
            (server, stack)
        };
        // Hangs up on a connection that was made for this request.
        let (server, stack) = start(|_| Step::SayAndClose(String::new())).await;
        unreachable(ask(&stack, "m").await);
        assert_eq!(server.accepted(), 1, "tls: {tls}");
        // Hangs up on a kept one without a byte: that may be sent again, once.
        let (server, stack) = start(|n| match n {
            0 => Step::Say(json_answer("", REPLY)),
            _ => Step::SayAndClose(String::new()),
        })
        .await;
        ask(&stack, "m").await.must_be(200);
        unreachable(ask(&stack, "m").await);
        assert_eq!(server.accepted(), 3, "tls: {tls}");
    }
    // Begins an answer on a kept one.
    let server = RawServer::start(|n| match n {
        0 => Step::Say(json_answer("", REPLY)),
        _ => Step::SayAndClose("HTTP/1.1 200 OK\r\ncontent-".to_owned()),
    })
    .await;
    let stack = before(&server, &server.base_url()).await;
    ask(&stack, "m").await.must_be(200);
    unreachable(ask(&stack, "m").await);
    assert_eq!(server.accepted(), 2);
}

// A connection whose other end is gone says nothing: the header timeout finds out, and the next target answers.
#[tokio::test]
async fn a_half_open_connection_costs_the_header_timeout_and_no_answer() {
    let stack = Stack::of(Script::As("mock-half-open"))
        .upstream(Script::Model)
        .chain(2)
        .with("[timeouts]\nheader_ms = 300")
        .start()
        .await;
    assert_eq!(ask(&stack, "chain").await.header("x-backstory-target"), "p1/mock; attempts=1");
    assert_eq!(ask(&stack, "chain").await.header("x-backstory-target"), "p2/mock; attempts=2");
}

// Each attempt is in the header, in a span with its outcome, and in the metric.
#[tokio::test]
async fn attempts_are_visible() {
    let stack = Stack::of(Script::As("mock-error-500")).upstream(Script::Model).chain(2).start().await;
    assert_eq!(attempts(&ask(&stack, "chain").await.must_be(200)), 2);
    let metrics = stack.ask("GET", "/metrics").send().await;
    for line in ["{outcome=\"5xx\"} 1", "{outcome=\"ok\"} 1"] {
        assert!(metrics.text().contains(&format!("backstory_upstream_attempts_total{line}")), "{line}");
    }
}

// The log is that of all tests: the provider has a name of its own.
#[tokio::test]
async fn an_attempt_has_a_span_that_says_how_it_ended() {
    let named = |name: &str| TWO_KEYS.replace("\"p\"", &format!("\"{name}\""));
    let logged = |name: &str, outcome: &str| {
        let (target, outcome) = (format!("backstory.target=\"{name}/"), format!("backstory.outcome=\"{outcome}\""));
        log::has_line_with(&[&target, &outcome])
    };
    let stack = Stack::of(Script::As("mock-error-500")).providers(&named("spanned")).start().await;
    ask(&stack, "mock").await.must_be(500);
    until("the span is logged", || logged("spanned", "status")).await;
    // Also where the client's stream began before its answer was there.
    let mut late = Raw::error(500, "late");
    late.header_delay = Duration::from_millis(1500);
    let stack = Stack::of(Script::Raw(late))
        .providers(&named("spanned-late"))
        .server("keepalive_before_header_seconds = 1\n")
        .start()
        .await;
    let body = json!({"model": "mock", "stream": true, "messages": [{"role": "user", "content": "Hello there"}]});
    stack.chat(body.to_string()).user("ann").send().await.must_be(200);
    until("the late span is logged", || logged("spanned-late", "status")).await;
}

// Who was asked, and how often, is worth knowing most where nobody answered.
#[tokio::test]
async fn attempts_are_in_the_header_also_when_nobody_answered() {
    let stack = Stack::of(Script::As("mock-stall-header")).with("[timeouts]\nheader_ms = 200").start().await;
    let got = ask(&stack, "mock").await;
    assert_eq!(got.header("x-backstory-target"), "upstream/mock; attempts=1");
    got.must_be_error(504);
}

// An operator who asks is told which key it is, by its number.
#[tokio::test]
async fn doctor_tries_every_key_of_a_provider() {
    let script = Script::from_fn(|request| match request.header("authorization") {
        Some("Bearer sk-second-0123456789") => Script::Raw(Raw::error(401, "no")),
        _ => Script::Model,
    });
    let stack = Stack::of(script).start().await;
    let config = stack.folder().join("doctor.toml");
    let data = stack.folder().join("doctor-data");
    let text = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\n[store]\ndata = \"{}\"\n{}",
        data.display(),
        TWO_KEYS.replace("${UPSTREAM}", &stack.upstream().base_url())
    );
    std::fs::write(&config, text).unwrap();
    let (code, out, _) = binary::run(&["doctor", "--config", config.to_str().unwrap()], &[]).await;
    assert_eq!(code, 1, "{out}");
    assert!(out.contains("ok   provider `p` (key 1) answers"), "{out}");
    assert!(out.contains("BAD  provider `p` (key 2) refuses the configured API key (401)"), "{out}");
    assert!(!out.contains("sk-"), "{out}");
}

#[tokio::test]
async fn doctor_sends_the_headers_of_a_provider() {
    let script = Script::from_fn(|request| match request.header("api-key") {
        Some("sk-header-0123456789") => Script::Model,
        _ => Script::Raw(Raw::error(401, "no")),
    });
    let stack = Stack::of(script).start().await;
    let config = stack.folder().join("doctor.toml");
    let text = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\n[store]\ndata = \"{}\"\n[[providers]]\nname = \"p\"\nbase_url = \"{}\"\ndefault = true\nheaders = {{ api-key = \"sk-header-0123456789\" }}\n",
        stack.folder().join("doctor-data").display(),
        stack.upstream().base_url()
    );
    std::fs::write(&config, text).unwrap();
    let (_, out, _) = binary::run(&["doctor", "--config", config.to_str().unwrap()], &[]).await;
    assert!(out.contains("ok   provider `p` answers"), "{out}");
    assert!(!out.contains("sk-"), "{out}");
}
