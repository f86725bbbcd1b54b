//! The edges of the process: its two addresses, what a head may be, who may take how long, what web pages may do.

use backstory::mock::Script;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{ADMIN_KEY, Ask, KEY, Live, PATIENCE, Stack};

fn two_addresses(keys: &str) -> String {
    format!(
        "[server]\nadmin_listen = \"127.0.0.1:0\"\n{keys}[[providers]]\nname = \"up\"\nbase_url = \"http://127.0.0.1:9/v1\"\ndefault = true\n"
    )
}

// Issue 7, point 4: an admin listener apart from the data listener, own key.
#[tokio::test]
async fn what_is_for_operators_is_on_their_address_and_nowhere_else() {
    let keys = format!("[admin]\nkey = \"{ADMIN_KEY}\"\n[[keys]]\nkey = \"{KEY}\"\n");
    let live = Live::start(tempfile::tempdir().unwrap(), &two_addresses(&keys)).await;
    assert_ne!(live.addr, live.admin);
    for path in ["/metrics", "/admin/v1/keys", "/admin/v1/usage", "/admin/v1/reload"] {
        Ask::new(live.addr, "GET", path).key(ADMIN_KEY).send().await.must_be_error(404);
        live.operator("GET", path).send().await.must_be(200);
    }
    for path in ["/livez", "/readyz"] {
        for addr in [live.addr, live.admin] {
            Ask::new(addr, "GET", path).send().await.must_be(200);
        }
    }
    for path in ["/v1/models", "/memory/v1/facts"] {
        live.operator("GET", path).send().await.must_be_error(404);
    }
    Ask::new(live.admin, "POST", "/v1/chat/completions").key(KEY).json(&json!({})).send().await.must_be_error(404);
    Ask::new(live.admin, "GET", "/admin/v1/keys").key(KEY).send().await.must_be_error(401);
    assert!(live.metric("backstory_connections{listener=\"admin\"}").await >= 1.0);
    live.stop().await;
}

// Design, section 3: DNS rebinding; on every path of every address.
#[tokio::test]
async fn on_loopback_without_keys_web_pages_reach_neither_address() {
    let live = Live::start(tempfile::tempdir().unwrap(), &two_addresses("")).await;
    for (addr, path) in [(live.addr, "/readyz"), (live.admin, "/metrics")] {
        Ask::new(addr, "GET", path).send().await.must_be(200);
        Ask::new(addr, "GET", path).header("host", "evil.example").send().await.must_be_error(403);
        Ask::new(addr, "GET", path).header("origin", "https://evil.example").send().await.must_be_error(403);
    }
    live.stop().await;
}

// Issue 7: CORS off. A page's script gets no permission to send what it may not, and none to read what comes back.
#[tokio::test]
async fn web_pages_of_other_origins_get_no_permission() {
    let stack = Stack::new(Script::Model).await;
    for path in ["/v1/chat/completions", "/v1/models", "/memory/v1/facts", "/admin/v1/keys", "/metrics"] {
        let preflight = stack
            .ask("OPTIONS", path)
            .without("authorization")
            .header("origin", "https://app.example")
            .header("access-control-request-method", "POST")
            .header("access-control-request-headers", "authorization")
            .send()
            .await;
        assert!(preflight.status.is_client_error(), "{path}: {}", preflight.status);
        assert!(preflight.headers.keys().all(|name| !name.as_str().starts_with("access-control-")), "{path}");
    }
    let body = json!({"model": "mock", "messages": [{"role": "user", "content": "Hello"}]}).to_string();
    let got = stack.chat(body).header("origin", "https://app.example").send().await.must_be(200);
    assert!(got.headers.keys().all(|name| !name.as_str().starts_with("access-control-")), "{:?}", got.headers);
}

#[tokio::test]
async fn a_head_over_its_bounds_is_refused_in_the_words_of_the_api() {
    let stack = Stack::of(Script::Model).server("max_header_bytes = 8192\nmax_url_bytes = 2048\n").start().await;
    let long = |n: usize| "x".repeat(n);
    let error = stack.ask("GET", &format!("/v1/models?q={}", long(2048))).send().await.must_be_error(414);
    assert_eq!(error["code"], "uri_too_long");
    let error = stack.ask("GET", "/v1/models").header("x-long", &long(8192)).send().await.must_be_error(431);
    assert!(error["message"].as_str().unwrap().contains("8192"), "{error}");
    stack.ask("GET", "/v1/models").header("x-long", &long(6000)).send().await.must_be(200);
    // Far over, hyper gives up by itself.
    let got = stack.ask("GET", "/v1/models").header("x-long", &long(1 << 20)).send().await;
    assert_eq!(got.status, 431);
}

// Issue 7: a slow upload ends. Slowloris: bytes one by one hold a place among the requests that run.
#[tokio::test]
async fn who_stops_uploading_gets_408_and_loses_the_connection() {
    let stack = Stack::of(Script::Model).server("upload_idle_seconds = 1\n").start().await;
    // Read whole, and passed on as it comes.
    for path in ["/v1/chat/completions", "/v1/audio/transcriptions"] {
        let mut stream = TcpStream::connect(stack.addr).await.unwrap();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {KEY}\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n{{\"model\"",
            stack.addr
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut said = String::new();
        let reading = tokio::time::timeout(PATIENCE, stream.read_to_string(&mut said));
        reading.await.expect("the connection is closed").unwrap();
        assert!(said.starts_with("HTTP/1.1 408 ") && said.contains("\"code\":\"request_timeout\""), "{path}: {said}");
    }
}
