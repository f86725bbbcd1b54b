//! What upstreams, networks and machines between do wrong.

use std::time::{Duration, Instant};

use backstory::mock::{End, Raw, Script};
use serde_json::{Value, json};

use crate::support::raw::{REPLY, RawServer, Step, json_answer, tls_file};
use crate::support::sse::{healthy, joined};
use crate::support::{Got, Stack, until};

/// A gateway whose first target is this base URL, and whose second one is well.
async fn before_a_good_one(base_url: &str, more: &str) -> Stack {
    Stack::of(Script::Model)
        .env("ODD", base_url)
        .file("ca.pem", &tls_file("ca.pem"))
        .providers(&format!("[[providers]]\nname = \"odd\"\nbase_url = \"${{ODD}}\"\napi_key = \"sk-odd-0123456789\"\n{more}\n[[providers]]\nname = \"good\"\nbase_url = \"${{UPSTREAM}}\"\n"))
        .with("[timeouts]\nheader_ms = 20000\n[[models]]\nname = \"alone\"\n[[models.targets]]\nprovider = \"odd\"\nmodel = \"m\"\n[[models]]\nname = \"chain\"\n[[models.targets]]\nprovider = \"odd\"\nmodel = \"m\"\norder = 1\n[[models.targets]]\nprovider = \"good\"\nmodel = \"mock\"\norder = 2\n")
        .start()
        .await
}

fn body(model: &str, stream: bool) -> String {
    json!({"model": model, "stream": stream, "messages": [{"role": "user", "content": "Hello there"}]}).to_string()
}

async fn ask(stack: &Stack, model: &str, stream: bool) -> Got {
    stack.chat(body(model, stream)).user("ann").send().await
}

/// Alone it is this error in our envelope, whose message has this word; with a second target that one answers.
async fn goes_on(stack: &Stack, code: &str, word: &str) -> Value {
    for stream in [false, true] {
        let got = ask(stack, "chain", stream).await.must_be(200);
        assert_eq!(got.header("x-backstory-target"), "good/mock; attempts=2");
    }
    let error = ask(stack, "alone", false).await.must_be_error(502);
    assert_eq!(error["code"], code);
    let message = error["message"].as_str().unwrap();
    assert!(message.contains(word), "{word:?} in {message}");
    assert!(!message.contains("sk-odd"), "{message}");
    error
}

#[tokio::test]
async fn an_expired_certificate_is_refused_and_the_next_target_answers() {
    let server = RawServer::start_tls("expired", |_| Step::Say(json_answer("", REPLY))).await;
    let url = format!("https://localhost:{}/v1", server.addr.port());
    let stack = before_a_good_one(&url, "ca_file = \"ca.pem\"").await;
    goes_on(&stack, "upstream_unreachable", "xpired").await;
    assert_eq!(server.accepted(), 0, "no request, and no key, is sent");
}

#[tokio::test]
async fn a_private_ca_is_trusted_where_it_is_configured_and_nowhere_else() {
    let server = RawServer::start_tls("good", |_| Step::Say(json_answer("", REPLY))).await;
    for url in [format!("https://localhost:{}/v1", server.addr.port()), format!("https://{}/v1", server.addr)] {
        let stack = before_a_good_one(&url, "ca_file = \"ca.pem\"").await;
        let got = ask(&stack, "alone", false).await.must_be(200);
        assert_eq!(got.json()["choices"][0]["message"]["content"], "raw");
    }
    let stack = before_a_good_one(&format!("https://localhost:{}/v1", server.addr.port()), "").await;
    goes_on(&stack, "upstream_unreachable", "ertificate").await;
}

#[tokio::test]
async fn a_name_that_dns_does_not_know_is_a_failure_like_others() {
    let stack = before_a_good_one("http://no-such-host.invalid/v1", "proxy = \"none\"").await;
    goes_on(&stack, "upstream_unreachable", "odd").await;
}

#[tokio::test]
async fn a_redirect_is_not_followed_and_gets_no_key() {
    let elsewhere = RawServer::start(|_| Step::Say(json_answer("", REPLY))).await;
    let location = format!("http://{}/v1/chat/completions", elsewhere.addr);
    let server = RawServer::start(move |n| {
        let status = ["301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"][n % 5];
        Step::Say(format!("HTTP/1.1 {status}\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n"))
    })
    .await;
    let stack = before_a_good_one(&server.base_url(), "").await;
    let error = goes_on(&stack, "upstream_unreachable", "redirect").await;
    assert!(!error["message"].as_str().unwrap().contains("127.0.0.1"), "{error}");
    for _ in 0..5 {
        ask(&stack, "alone", false).await.must_be_error(502);
    }
    assert_eq!(elsewhere.accepted(), 0);
}

#[tokio::test]
async fn a_page_of_html_is_no_answer() {
    let page = "<!doctype html><title>Sign in</title>";
    let head =
        format!("HTTP/1.1 200 OK\r\ncontent-type: text/html; charset=utf-8\r\ncontent-length: {}\r\n\r\n", page.len());
    let server = RawServer::start(move |_| Step::Say(format!("{head}{page}"))).await;
    let stack = before_a_good_one(&server.base_url(), "").await;
    goes_on(&stack, "upstream_unreachable", "HTML").await;
    // An error page of a machine between is that machine's own answer: it passes with its status.
    let server = RawServer::start(|_| {
        Step::Say("HTTP/1.1 502 Bad\r\ncontent-type: text/html\r\ncontent-length: 4\r\n\r\n<b/>".to_owned())
    })
    .await;
    let stack = before_a_good_one(&server.base_url(), "").await;
    let got = ask(&stack, "alone", false).await.must_be(502);
    assert_eq!((got.text(), got.header("content-type")), ("<b/>", "text/html"));
}

#[tokio::test]
async fn a_body_that_never_ends_ends_with_the_client_or_the_total_timeout() {
    let endless = |status: &str| {
        let head = format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n");
        move |_| Step::ForEver(head.clone(), "400\r\n".to_owned() + &" ".repeat(1024) + "\r\n")
    };
    let server = RawServer::start(endless("200 OK")).await;
    let stack = Stack::of(Script::Model)
        .env("ODD", &server.base_url())
        .providers("[[providers]]\nname = \"odd\"\nbase_url = \"${ODD}\"\ndefault = true\n")
        .with("[timeouts]\ntotal_ms = 300")
        .start()
        .await;
    let got = ask(&stack, "m", false).await;
    assert!(got.broken, "it is cut, and the client can tell");
    // An endless error is read for a while and no longer: the next target answers.
    let server = RawServer::start(endless("500 Oh")).await;
    let stack = before_a_good_one(&server.base_url(), "").await;
    assert_eq!(ask(&stack, "chain", false).await.header("x-backstory-target"), "good/mock; attempts=2");
}

// A stream's error body has no total timeout of its own: one that trickles must not hold up the next target.
#[tokio::test]
async fn an_error_body_that_stalls_does_not_hold_up_the_next_target() {
    let stalled = Raw::error(500, "half of this").ending(End::Stall);
    let mut stalled = stalled;
    stalled.headers.retain(|(name, _)| *name != "content-length");
    let stack = Stack::of(Script::Raw(stalled)).upstream(Script::Model).chain(2).start().await;
    let begun = Instant::now();
    let got = ask(&stack, "chain", true).await.must_be(200);
    assert_eq!(got.header("x-backstory-target"), "p2/mock; attempts=2");
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn informational_answers_are_passed_over() {
    let server = RawServer::start(|_| {
        let early = "HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n";
        Step::Say(format!("HTTP/1.1 100 Continue\r\n\r\n{early}{}", json_answer("", REPLY)))
    })
    .await;
    let stack = before_a_good_one(&server.base_url(), "").await;
    for _ in 0..2 {
        assert_eq!(ask(&stack, "alone", false).await.must_be(200).text(), REPLY);
    }
}

#[tokio::test]
async fn doubled_headers_of_upstream_are_one_header_of_the_reply_where_one_can_be_meant() {
    let server = RawServer::start(|_| {
        let twice = "content-type: text/plain\r\nx-ratelimit-remaining-tokens: 1\r\nx-ratelimit-remaining-tokens: 2\r\nretry-after: 1\r\nretry-after: 2\r\n";
        Step::Say(json_answer(twice, REPLY))
    })
    .await;
    let stack = before_a_good_one(&server.base_url(), "").await;
    let got = ask(&stack, "alone", false).await.must_be(200);
    let all = |name: &str| got.headers.get_all(name).iter().map(|v| v.to_str().unwrap().to_owned()).collect::<Vec<_>>();
    assert_eq!(all("content-type"), ["application/json"]);
    assert_eq!(all("retry-after"), ["1"]);
    assert_eq!(all("x-ratelimit-remaining-tokens"), ["1", "2"]);
    // Two lengths that contradict each other: nobody can tell where the reply ends.
    let server = RawServer::start(|_| Step::SayAndClose(json_answer("content-length: 3\r\n", REPLY))).await;
    let stack = before_a_good_one(&server.base_url(), "").await;
    goes_on(&stack, "upstream_unreachable", "odd").await;
}

// The reverse of a JSON answer to a stream request, which passes as it is, too.
#[tokio::test]
async fn an_upstream_that_streams_to_a_request_for_no_stream_is_passed_as_it_is_and_read_for_our_books() {
    let stack = Stack::new(Script::Raw(Raw::stream(healthy()))).await;
    let body = json!({"model": "mock", "messages": [{"role": "user", "content": "My name is Ann."}]});
    let got = stack.chat(body.to_string()).user("ann").send().await.must_be(200);
    assert_eq!(got.body, joined(&healthy()));
    assert!(got.header("content-type").starts_with("text/event-stream"));
    stack.learned().await;
    assert_eq!(stack.facts("ann").await, ["identity.name = Ann"]);
    // While another target could be tried its first event is looked at, as that of any stream.
    let error = Raw::stream(["data: {\"error\":{\"message\":\"no\"}}\n\n"]);
    let stack = Stack::of(Script::Raw(error)).upstream(Script::Model).chain(2).start().await;
    let got = ask(&stack, "chain", false).await.must_be(200);
    assert_eq!(got.header("x-backstory-target"), "p2/mock; attempts=2");
}

// Faults of networks, as toxiproxy makes them, joined at will.
#[tokio::test]
async fn slow_and_uneven_networks_change_no_byte() {
    let plain = Stack::new(Script::As("mock-fixed")).await;
    let mut expected = Vec::new();
    for stream in [false, true] {
        expected.push(ask(&plain, "mock", stream).await.must_be(200).body);
    }
    for faults in [
        "mock-fixed-jitter-8",
        "mock-fixed-bandwidth-9000",
        "mock-fixed-slow-close-60",
        "mock-fixed-split-7-jitter-2",
        "mock-fixed-close",
    ] {
        let stack = Stack::new(Script::As(faults)).await;
        for (stream, expected) in [false, true].into_iter().zip(&expected) {
            let got = ask(&stack, "mock", stream).await.must_be(200);
            // The mock numbers its replies.
            let same = |body: &[u8]| String::from_utf8_lossy(body).replace(char::is_numeric, "");
            assert_eq!(same(&got.body), same(expected), "{faults}");
            assert!(!got.broken, "{faults}");
        }
    }
}

#[tokio::test]
async fn a_reset_after_some_bytes_is_a_fallback_before_content_and_an_error_after_it() {
    let stack = Stack::of(Script::As("mock-long-50-reset-20")).upstream(Script::Model).chain(2).start().await;
    for stream in [false, true] {
        assert_eq!(ask(&stack, "chain", stream).await.must_be(200).header("x-backstory-target"), "p2/mock; attempts=2");
    }
    let stack = Stack::of(Script::As("mock-long-50-reset-2000")).upstream(Script::Model).chain(2).start().await;
    let got = ask(&stack, "chain", true).await.must_be(200);
    assert_eq!(got.header("x-backstory-target"), "p1/mock; attempts=1");
    assert!(got.text().contains("stream_interrupted") && !got.text().contains("[DONE]"), "{}", got.text());
    assert!(stack.upstreams[1].accepted() == 0, "content was sent: there is no way back");
    until("the stream is closed", || stack.app.metrics.render().contains("backstory_streams_open 0")).await;
}
