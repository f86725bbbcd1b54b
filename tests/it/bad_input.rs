//! What no request should be, and what the machine should not do.

use std::time::Duration;

use backstory::mock::Script;
use serde_json::{Value, json};
use sqlx::ConnectOptions as _;
use sqlx::sqlite::SqliteConnectOptions;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::stack::ACKNOWLEDGE_WAIT;
use crate::support::{KEY, PATIENCE, Stack, binary};

fn hello() -> String {
    json!({"model": "mock", "messages": [{"role": "user", "content": "Hello there"}]}).to_string()
}

/// Asserts that a body is refused with 400, asks nobody, and returns the error.
async fn refused(stack: &Stack, body: impl Into<bytes::Bytes>) -> Value {
    let error = stack.chat(body).user("ann").send().await.must_be_error(400);
    assert_eq!(stack.upstream().accepted(), 0);
    error
}

#[tokio::test]
async fn another_content_type_is_415() {
    let stack = Stack::new(Script::Model).await;
    for path in ["/v1/chat/completions", "/v1/embeddings"] {
        for kind in
            ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/jsonp"]
        {
            let ask = stack.ask("POST", path).header("content-type", kind).body(hello());
            assert_eq!(ask.send().await.must_be_error(415)["code"], "unsupported_media_type", "{kind}");
        }
    }
    let ask = stack.chat(hello()).header("content-encoding", "gzip");
    ask.send().await.must_be_error(415);
    assert_eq!(stack.upstream().accepted(), 0);
    for kind in ["application/json; charset=utf-8", "Application/JSON"] {
        stack.chat(hello()).header("content-type", kind).send().await.must_be(200);
    }
    stack.chat(hello()).without("content-type").send().await.must_be(200);
}

#[tokio::test]
async fn invalid_json_is_400_and_names_line_and_column() {
    let stack = Stack::new(Script::Model).await;
    for (body, place) in [
        ("{\"model\": \"m\",\n \"messages\": [,]}", "line 2 column 15"),
        ("{\"model\": \"m\"\n", "line 2"),
        ("", "line 1"),
        ("{\"model\": \"m\",\n\n \"messages\": [{'role': 1}]}", "line 3"),
        ("{\"model\": 01, \"messages\": []}", "line 1"),
        ("{\"model\": \"m\", \"messages\": []} x", "line 1"),
        ("{\"model\": \"m\", \"messages\": [], \"a\": NaN}", "line 1"),
        ("{\"model\": \"m\", \"messages\": [], \"a\": \"\x01\"}", "line 1"),
    ] {
        let error = refused(&stack, body).await;
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(place) && message.contains("column"), "{place} in {message}");
    }
}

#[tokio::test]
async fn messages_missing_or_of_the_wrong_type_are_named() {
    let stack = Stack::new(Script::Model).await;
    for body in [
        r#"{"model":"m"}"#,
        r#"{"model":"m","messages":null}"#,
        r#"{"model":"m","messages":"hi"}"#,
        r#"{"model":"m","messages":{}}"#,
        r#"{"model":"m","messages":[1]}"#,
        r#"{"model":"m","messages":[{"role":"user","content":"x"},"y"]}"#,
    ] {
        let error = refused(&stack, body).await;
        assert!(error["param"].as_str().is_some_and(|param| param.starts_with("messages")), "{body}: {error}");
    }
    for body in [r#"{"messages":[]}"#, r#"{"model":7,"messages":[{"role":"user","content":"x"}]}"#] {
        assert_eq!(refused(&stack, body).await["param"], "model", "{body}");
    }
    for body in ["[]", "7", "null", "\"x\""] {
        refused(&stack, body).await;
    }
}

#[tokio::test]
async fn deep_nesting_is_refused_or_passes_but_never_breaks() {
    let stack = Stack::new(Script::Model).await;
    for depth in [50, 1_000, 200_000] {
        let deep = format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
        let body = format!(r#"{{"model":"mock","x":{deep},"messages":[{{"role":"user","content":"Hello there"}}]}}"#);
        let got = stack.chat(body.clone()).user("ann").send().await;
        match got.status.as_u16() {
            200 => assert!(stack.sent().body == body, "changed at depth {depth}"),
            _ => assert!(got.must_be_error(400)["message"].is_string()),
        }
        let open = format!(r#"{{"model":"mock","messages":{}"#, "[".repeat(depth));
        stack.chat(open).user("ann").send().await.must_be_error(400);
    }
    stack.chat(hello()).user("ann").send().await.must_be(200);
}

#[tokio::test]
async fn invalid_utf_8_is_400() {
    let stack = Stack::new(Script::Model).await;
    let mut body = hello().into_bytes();
    let at = body.len() - 8;
    body[at] = 0xff;
    let error = refused(&stack, body).await;
    assert!(error["message"].as_str().unwrap().contains("UTF-8"), "{error}");
}

#[tokio::test]
async fn duplicate_keys_pass_as_they_are_and_the_last_one_counts() {
    let stack = Stack::of(Script::Model).chain(1).start().await;
    let body = r#"{"model":"nope","model":"chain","x":1,"x":2,"messages":[{"role":"user","content":"a","content":"Hello there"}],"user":"bob","user":""}"#;
    let got = stack.chat(body).send().await.must_be(200);
    assert_eq!(got.memory(), "skipped; reason=no-subject");
    let sent = stack.sent().body;
    assert_eq!(sent, body.replace("\"nope\"", "\"mock\"").replace("\"chain\"", "\"mock\""), "{sent:?}");
}

#[tokio::test]
async fn lone_surrogates_pass_as_they_are() {
    let stack = Stack::new(Script::Fixed("ok".to_owned())).await;
    stack.tell("ann", "I'm allergic to peanuts.").await;
    let body = r#"{"model":"mock","messages":[{"role":"user","content":"What can I eat \ud83d today?\udc00"}]}"#;
    let got = stack.chat(body).user("ann").send().await.must_be(200);
    assert!(got.memory().starts_with("hit"), "{}", got.memory());
    let sent = stack.sent().body;
    let sent = std::str::from_utf8(&sent).unwrap();
    assert!(sent.contains(r"What can I eat \ud83d today?\udc00"), "{sent}");
    stack.learned().await;
}

#[tokio::test]
async fn a_single_message_of_10_mb_passes_unchanged() {
    let stack = Stack::new(Script::Fixed("ok".to_owned())).await;
    let text = "lorem ipsum dolor sit amet ".repeat(10_000_000 / 27);
    let body = json!({"model": "mock", "messages": [{"role": "user", "content": text}]}).to_string();
    let got = stack.chat(body.clone()).user("ann").header("x-backstory-memory", "off").send().await.must_be(200);
    assert!(stack.sent().body == body);
    assert_eq!(got.memory(), "skipped; reason=off");
}

#[tokio::test]
async fn ten_thousand_messages_pass_unchanged_with_memory_on() {
    let stack = Stack::new(Script::Fixed("ok".to_owned())).await;
    let messages: Vec<Value> = (0..10_001)
        .map(|n| json!({"role": if n % 2 == 0 { "user" } else { "assistant" }, "content": format!("message {n}")}))
        .collect();
    let body = json!({"model": "mock", "messages": messages}).to_string();
    let got = stack.chat(body.clone()).user("ann").send().await.must_be(200);
    assert!(stack.sent().body == body);
    assert!(got.context("counted") > 10_001);
    stack.learned().await;
}

#[tokio::test]
async fn odd_but_valid_messages_pass_with_memory_on() {
    let stack = Stack::new(Script::Fixed("ok".to_owned())).await;
    stack.tell("ann", "I'm allergic to peanuts.").await;
    for messages in [
        r#"[]"#,
        r#"[{}]"#,
        r#"[{"role":"user"}]"#,
        r#"[{"role":"user","content":null}]"#,
        r#"[{"role":"user","content":[]}]"#,
        r#"[{"role":"user","content":7}]"#,
        r#"[{"role":"user","content":""}]"#,
        r#"[{"role":"critic","content":"x"}]"#,
        r#"[{"role":7,"content":"x"}]"#,
        r#"[{"role":"assistant","content":"x"}]"#,
        r#"[{"role":"tool","tool_call_id":"none","content":"x"}]"#,
        r#"[{"role":"user","content":[{"type":"text"}]}]"#,
        r#"[{"role":"user","content":["x",null,7]}]"#,
        r#"[{"role":"assistant","tool_calls":"x"},{"role":"user","content":"y"}]"#,
    ] {
        let body = format!(r#"{{"model":"mock","messages":{messages}}}"#);
        let before = stack.upstream().accepted();
        let got = stack.chat(body).user("ann").send().await;
        let judged_by_upstream = stack.upstream().accepted() > before;
        assert!(judged_by_upstream || got.status.as_u16() == 400, "{messages}: {} {}", got.status, got.text());
        assert!(got.status.as_u16() < 500, "{messages}: {}", got.text());
    }
}

// Design, section 3: DNS rebinding.
#[tokio::test]
async fn without_keys_on_loopback_host_and_origin_are_checked_on_every_path() {
    let stack = Stack::of(Script::Model).client_mode().start().await;
    for path in ["/livez", "/readyz", "/metrics", "/v1/models", "/memory/v1/facts", "/nowhere"] {
        for (name, value) in [
            ("host", "evil.example"),
            ("host", "evil.example:8080"),
            ("origin", "https://evil.example"),
            ("origin", "null"),
        ] {
            let got = stack.ask("GET", path).user("ann").header(name, value).send().await;
            assert_eq!(got.must_be_error(403)["param"], *name, "{path} {value}");
        }
    }
    let ask = stack.chat(hello()).header("origin", "http://evil.example");
    ask.send().await.must_be_error(403);
    assert_eq!(stack.upstream().accepted(), 0);
    for (name, value) in [("host", "localhost:1"), ("host", "[::1]:1"), ("origin", "http://localhost:3000")] {
        stack.chat(hello()).header(name, value).send().await.must_be(200);
    }
    // With keys a browser cannot do harm without one.
    let keyed = Stack::new(Script::Model).await;
    keyed.chat(hello()).header("host", "gateway.internal").send().await.must_be(200);
}

// BerriAI/litellm#1554, #4970: every error of ours is in OpenAI's envelope.
#[tokio::test]
async fn unknown_paths_methods_and_upgrades_are_answered_in_the_envelope() {
    let stack = Stack::new(Script::Model).await;
    stack.ask("GET", "/nowhere").send().await.must_be_error(404);
    stack.ask("GET", "/v1/nowhere").send().await.must_be_error(404);
    let got = stack.ask("GET", "/v1/chat/completions").send().await;
    assert_eq!(got.header("allow"), "POST");
    got.must_be_error(405);
    stack.ask("GET", "/v1/realtime").send().await.must_be_error(501);
    let ask = stack.ask("GET", "/v1/audio/x").header("connection", "upgrade").header("upgrade", "websocket");
    ask.send().await.must_be_error(501);
    // Codex goes over to plain requests at this status alone.
    let ask = stack.ask("GET", "/v1/responses").header("connection", "upgrade").header("upgrade", "websocket");
    let got = ask.send().await;
    assert_eq!(got.header("upgrade"), "HTTP/1.1");
    got.must_be_error(426);
    stack.ask("POST", "/memory/v1/nowhere").send().await.must_be_error(404);
    stack.chat(hello()).without("authorization").send().await.must_be_error(401);
    stack.chat(hello()).header("authorization", "Basic eDp5").send().await.must_be_error(401);
}

#[tokio::test]
async fn a_corrupt_database_lets_requests_pass_without_memory_and_readyz_says_degraded() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("backstory.db"), "this is no database ".repeat(1_000)).unwrap();
    let stack = Stack::of(Script::Model).in_folder(folder).start().await;
    for stream in [false, true] {
        let body =
            json!({"model": "mock", "stream": stream, "messages": [{"role": "user", "content": "I live in Oslo."}]});
        let begun = std::time::Instant::now();
        let got = stack.chat(body.to_string()).user("ann").send().await.must_be(200);
        assert!(begun.elapsed() < ACKNOWLEDGE_WAIT, "the end of the reply waited for what cannot be kept");
        assert_eq!(got.memory(), "error");
        assert!(got.text().contains("Oslo"), "{}", got.text());
    }
    let ready = stack.ask("GET", "/readyz").send().await.must_be(200).json();
    assert_eq!(ready["status"], "degraded");
    assert!(ready["store"].as_str().unwrap().contains("database"), "{ready}");
    let metrics = stack.ask("GET", "/metrics").send().await.must_be(200);
    assert!(metrics.text().contains("backstory_store_degraded 1"));
    let got = stack.ask("GET", "/memory/v1/facts").user("ann").send().await;
    assert_eq!(got.status.as_u16(), 503, "{}", got.text());
    let kept = std::fs::read(stack.folder().join("backstory.db")).unwrap();
    assert!(kept.starts_with(b"this is no database"), "what may be repaired is not touched");
}

// mem0ai/mem0#7196; AVIDS2/memorix#291: "database is locked" reached users.
#[tokio::test]
async fn while_the_database_is_locked_requests_pass_and_afterwards_all_is_learned() {
    let stack = Stack::of(Script::Fixed("ok".to_owned())).acknowledge_wait(Duration::from_millis(100)).start().await;
    stack.tell("ann", "I'm allergic to peanuts.").await;
    let released = async || -> u64 {
        let metrics = stack.ask("GET", "/metrics").send().await.must_be(200);
        let line = metrics.text().lines().find(|line| line.starts_with("backstory_outbox_released_by_timeout_total"));
        line.and_then(|line| line.rsplit(' ').next()).unwrap().parse().unwrap()
    };
    // A busy machine may have released that one as well.
    let before = released().await;
    let path = stack.folder().join("backstory.db");
    let mut other = SqliteConnectOptions::new().filename(path).connect().await.unwrap();
    sqlx::query("BEGIN IMMEDIATE").execute(&mut other).await.unwrap();
    for text in ["I live in Oslo.", "What can I eat?"] {
        let got = stack.say("ann", text).await;
        assert!(got.memory().starts_with("hit"), "what is known is shown all the same: {}", got.memory());
    }
    assert_eq!(released().await, before + 2, "released ends are counted");
    sqlx::query("ROLLBACK").execute(&mut other).await.unwrap();
    stack.learned().await;
    assert_eq!(stack.facts("ann").await, ["diet.allergy = peanuts", "location.home = Oslo"]);
}

#[tokio::test]
async fn a_port_in_use_is_said_plainly() {
    let stack = Stack::new(Script::Model).await;
    let folder = tempfile::tempdir().unwrap();
    let (addr, data) = (stack.addr.to_string(), folder.path().to_str().unwrap());
    let (code, _, said) = binary::run(&["serve", "--listen", &addr, "--data", data], &[]).await;
    assert_eq!(code, 1);
    assert!(said.contains(&addr) && said.contains("in use") && said.contains("--listen"), "{said}");
}

/// Sends raw bytes and returns all that comes back.
async fn raw(stack: &Stack, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(stack.addr).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let mut answer = Vec::new();
    // A server that resets after its answer has said what it had to say.
    let _ = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer)).await.expect("the connection is closed");
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn what_is_no_http_is_refused_and_does_no_harm() {
    let stack = Stack::new(Script::Model).await;
    for bytes in [
        &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 not TLS here\r\n\r\n"[..],
        b"HELLO\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: x\r\nbad header\r\n\r\n",
        b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello",
    ] {
        let answer = raw(&stack, bytes).await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400"), "{answer}");
    }
    let cut = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {KEY}\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\nzz\r\nnot a chunk"
    );
    let answer = raw(&stack, cut.as_bytes()).await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400"), "{answer}");
    assert_eq!(stack.upstream().accepted(), 0);
    stack.chat(hello()).send().await.must_be(200);
}

// What a reader of JSON takes for `model` or `messages` passes no list, budget or wall because it is spelled otherwise.
#[tokio::test]
async fn names_with_escaped_letters_are_refused_before_they_can_mean_something_else_upstream() {
    let stack = Stack::new(Script::Model).await;
    let hi = r#"[{"role":"user","content":"hi"}]"#;
    for body in [
        format!(r#"{{"model":"mock","mod\u0065l":"other","messages":{hi}}}"#),
        format!(r#"{{"mod\u0065l":"mock","messages":{hi}}}"#),
        format!(r#"{{"model":"mock","messages":{hi},"messa\u0067es":{hi}}}"#),
        r#"{"model":"mock","messages":[{"role":"user","content":"hi","cont\u0065nt":"a lot"}]}"#.to_owned(),
        r#"{"model":"mock","messages":[{"role":"syst\u0065m","content":"hi"}]}"#.to_owned(),
        format!(r#"{{"model":"mock","Model":"other","messages":{hi}}}"#),
    ] {
        let error = stack.chat(body).user("ann").send().await.must_be_error(400);
        assert!(error["message"].as_str().unwrap().contains("must be written plainly"), "{error}");
    }
    let ask = stack.ask("POST", "/v1/embeddings").header("content-type", "application/json");
    ask.body(r#"{"model":"mock","mod\u0065l":"other","input":"a"}"#).send().await.must_be_error(400);
    let ask = stack.ask("POST", "/v1/responses").header("content-type", "application/json");
    ask.body(r#"{"model":"mock","input":"a","previous_response_i\u0064":"resp_1"}"#).send().await.must_be_error(400);
    assert_eq!(stack.upstream().accepted(), 0, "upstream was asked");
}
