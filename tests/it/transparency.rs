//! What nobody touched arrives as it was sent, in both directions.

use backstory::mock::{Raw, Script};
use bytes::Bytes;
use serde_json::json;

use crate::support::sse::{healthy, joined, usage};
use crate::support::{Got, KEY, Stack};

/// A request with everything in it that a lossy gateway would change.
const ODD: &str = r#" { "x_first" : null,"model":"mock" , "temperature":1.10,"top_p": 1e3, "seed":12345678901234567890123,
  "messages":[ {"role":"user","content":"caf\u00e9 \/ \"q\" \ud83d\ude00","x_note":[1,{"a":0.0}],"name":"A"} ],
  "x_last":{"b":1,"a":[-0,1E+2,true]}, "metadata":{} } "#;

/// A reply of the same kind.
const ODD_REPLY: &str = r#"{ "id":"x","choices":[{"index":0,"message":{"role":"assistant","content":"\u00e9 \/","x":1.10},"finish_reason":"stop","x_new":null}],"usage":{"prompt_tokens":12345678901234567890},"big":1E400 }
"#;

fn streamed(body: &str) -> String {
    body.replacen('{', r#"{"stream" : true ,"#, 1)
}

// Design, promise 1.
#[tokio::test]
async fn with_memory_off_the_same_bytes_go_up_and_down_not_streamed() {
    let stack = Stack::new(Script::Raw(Raw::json(200, ODD_REPLY))).await;
    let got = stack.chat(ODD).user("ann").header("x-backstory-memory", "off").send().await.must_be(200);
    assert_eq!(stack.sent().body, ODD);
    assert_eq!(got.text(), ODD_REPLY);
    assert_eq!(got.memory(), "skipped; reason=off");
}

// Design, promise 1.
#[tokio::test]
async fn with_memory_off_the_same_bytes_go_up_and_down_streamed() {
    let mut reply = healthy();
    reply.insert(2, usage());
    reply.push(": the end\n".to_owned());
    let stack = Stack::new(Script::Raw(Raw::stream(reply.clone()))).await;
    let body = streamed(ODD);
    let got = stack.chat(body.clone()).user("ann").header("x-backstory-memory", "off").send().await.must_be(200);
    assert_eq!(stack.sent().body, body);
    assert_eq!(got.body, joined(&reply));
}

// TencentCloud/TencentDB-Agent-Memory#1341: without a subject requests were changed all the same.
#[tokio::test]
async fn without_a_subject_the_same_bytes_go_up_and_down_and_the_header_says_so() {
    let stack = Stack::new(Script::Raw(Raw::json(200, ODD_REPLY))).await;
    let got = stack.chat(ODD).send().await.must_be(200);
    assert_eq!(stack.sent().body, ODD);
    assert_eq!(got.text(), ODD_REPLY);
    assert_eq!(got.memory(), "skipped; reason=no-subject");
    let body = streamed(ODD);
    stack.upstream().set_script(Script::Raw(Raw::stream(healthy())));
    let got = stack.chat(body.clone()).send().await.must_be(200);
    assert_eq!(stack.sent().body, body);
    assert_eq!(got.body, joined(&healthy()));
    assert_eq!(got.memory(), "skipped; reason=no-subject");
}

// Design, doubt 21: an empty name is none.
#[tokio::test]
async fn an_empty_user_is_no_subject() {
    let stack = Stack::new(Script::Model).await;
    let body = r#"{"model":"mock","user":"","messages":[{"role":"user","content":"Hello there"}]}"#;
    let got = stack.chat(body).send().await.must_be(200);
    assert_eq!(got.memory(), "skipped; reason=no-subject");
    let got = stack.chat(body.replace(r#""user":"""#, r#""user":"zoe""#)).send().await.must_be(200);
    assert_eq!(got.memory(), "miss");
}

// Design: memory that knows nothing changes nothing.
#[tokio::test]
async fn with_memory_on_but_nothing_known_it_is_still_the_clients_own_bytes() {
    let stack = Stack::new(Script::Raw(Raw::json(200, ODD_REPLY))).await;
    let got = stack.chat(ODD).user("ann").send().await.must_be(200);
    assert_eq!(stack.sent().body, ODD);
    assert_eq!(got.text(), ODD_REPLY);
    assert_eq!(got.memory(), "miss");
}

// maximhq/bifrost#5764: members were sorted and numbers written anew.
#[tokio::test]
async fn with_memory_shown_every_untouched_member_leaves_byte_for_byte_in_its_order() {
    let stack = Stack::new(Script::Model).await;
    stack.tell("ann", "I'm allergic to peanuts.").await;
    let got = stack.chat(ODD).user("ann").send().await.must_be(200);
    assert!(got.memory().starts_with("hit; facts=1"), "{}", got.memory());
    let sent = stack.sent().body;
    let sent = std::str::from_utf8(&sent).unwrap();
    let at = ODD.find("caf").unwrap();
    let block = sent.strip_prefix(&ODD[..at]).and_then(|rest| rest.strip_suffix(&ODD[at..]));
    let block = block.unwrap_or_else(|| panic!("more than an insertion: {sent}"));
    assert!(block.starts_with("<backstory-notes>") && block.contains("peanuts"), "{block}");
}

// headroomlabs-ai/headroom#2438: unknown parts were dropped.
#[tokio::test]
async fn unknown_content_parts_and_message_fields_are_kept_both_ways() {
    let stack = Stack::new(Script::Raw(Raw::json(200, ODD_REPLY))).await;
    stack.tell("ann", "I'm allergic to peanuts.").await;
    let body = r#"{"model":"mock","messages":[{"role":"user","content":[{"type":"hologram","data":{"z":1e2}},{"type":"text","text":"What can I eat?"}],"x_mood":"curious"},{"role":"assistant","content":null,"x_thinking":[{"sig":"=="}]},{"role":"user","content":[{"type":"hologram","data":1},{"type":"text","text":"And now?"}]}]}"#;
    let got = stack.chat(body).user("ann").send().await.must_be(200);
    assert_eq!(got.text(), ODD_REPLY);
    let sent = stack.sent().body;
    let sent = std::str::from_utf8(&sent).unwrap();
    for piece in [r#"{"type":"hologram","data":{"z":1e2}}"#, r#""x_mood":"curious""#, r#""x_thinking":[{"sig":"=="}]"#]
    {
        assert!(sent.contains(piece), "{piece} in {sent}");
    }
    assert!(sent.contains("peanuts"), "{sent}");
}

// agentgateway/agentgateway#2350: large bodies were cut or refused.
#[tokio::test]
async fn a_request_of_6_mb_passes_unchanged() {
    let stack = Stack::new(Script::Raw(Raw::json(200, ODD_REPLY))).await;
    let image = "QUJD".repeat(1_500_000);
    let body = format!(
        r#"{{"model":"mock","messages":[{{"role":"user","content":[{{"type":"image_url","image_url":{{"url":"data:image/png;base64,{image}"}}}}]}}]}}"#
    );
    let got = stack.chat(body.clone()).user("ann").send().await.must_be(200);
    assert!(stack.sent().body == body, "the body was changed");
    assert_eq!(got.text(), ODD_REPLY);
}

// Design, section 3.
#[tokio::test]
async fn a_path_that_the_key_may_pass_through_arrives_as_it_is_and_any_other_is_404() {
    let stack = Stack::new(Script::Model).await;
    let body = Bytes::from_static(b"\x00\x01 not JSON \xff");
    let ask =
        stack.ask("POST", "/v1/audio/speech?format=mp3&x=%20y").header("content-type", "application/octet-stream");
    let got = ask.body(body.clone()).send().await.must_be(200);
    let sent = stack.sent();
    assert_eq!((sent.method.as_str(), sent.target.as_str()), ("POST", "/v1/audio/speech?format=mp3&x=%20y"));
    assert_eq!(sent.body, body);
    assert_eq!(got.json()["path"], "/v1/audio/speech", "the reply is upstream's own");
    let before = stack.upstream().accepted();
    for path in [
        "/v1/files",
        "/v1/audiobooks",
        "/v1/audio/../files",
        "/v1/audio/%2e%2e/files",
        // A URL takes these for the same, and some servers the last ones.
        "/v1/audio/.%2e/files",
        "/v1/audio/%2E./files",
        "/v1/audio/%2e%2E/files",
        "/v1/audio/..\\files",
        "/v1/audio/x/.%2E/.\\..\\..\\etc",
        "/v1/audio/..%2ffiles",
        "/v1/audio/x%5c%2e.%5C..%2ffiles",
        "/v1/models/.%2e/files",
        "/v1/responses",
    ] {
        stack.ask("GET", path).send().await.must_be_error(404);
    }
    for method in ["CONNECT", "TRACE"] {
        stack.ask(method, "/v1/audio/speech").send().await.must_be_error(405);
    }
    assert_eq!(stack.upstream().accepted(), before, "upstream was asked");
}

// Design, section 10.
#[tokio::test]
async fn embeddings_are_routed_like_chat_unchanged_alias_included() {
    let stack = Stack::of(Script::Model).chain(1).with("").start().await;
    let body = r#"{ "input":["a","b"],"model":"chain" ,"dimensions":8,"x":1.10}"#;
    let ask = stack.ask("POST", "/v1/embeddings").header("content-type", "application/json");
    let got = ask.body(body).send().await.must_be(200);
    assert_eq!(stack.sent().body, body.replace("\"chain\"", "\"mock\""));
    assert_eq!(got.json()["data"].as_array().unwrap().len(), 2);
    assert_eq!(got.header("x-backstory-target"), "p1/mock; attempts=1");
}

// Design, section 9: an alias replaces `model` and nothing else.
#[tokio::test]
async fn an_alias_changes_the_model_and_no_other_byte() {
    let stack = Stack::of(Script::Raw(Raw::json(200, ODD_REPLY))).chain(1).start().await;
    let body = ODD.replace("\"mock\"", "\"chain\"");
    let got = stack.chat(body).user("ann").send().await.must_be(200);
    assert_eq!(stack.sent().body, ODD);
    assert_eq!(got.text(), ODD_REPLY);
}

/// The five headers of ours on a reply.
#[track_caller]
fn well_formed(got: &Got) {
    assert!(got.header("x-request-id").starts_with("req_"), "{:?}", got.headers);
    assert!(got.header("x-backstory-exchange").len() > 8, "{:?}", got.headers);
    assert!(got.header("x-backstory-memory").starts_with("hit; facts=1; episodes="), "{:?}", got.headers);
    assert!(got.header("x-backstory-memory").contains("; tokens="), "{:?}", got.headers);
    assert_eq!(got.header("x-backstory-target"), "upstream/mock; attempts=1");
    let (counted, sent) = (got.context("counted"), got.context("sent"));
    assert!(0 < counted && counted < sent, "{counted} {sent}");
    assert_eq!(got.context("cut"), 0);
}

// Design, section 10.
#[tokio::test]
async fn outcome_headers_are_there_and_well_formed_in_both_modes() {
    let stack = Stack::new(Script::Model).await;
    stack.tell("ann", "I'm allergic to peanuts.").await;
    let mut body = json!({"model": "mock", "messages": [{"role": "user", "content": "What can I eat?"}]});
    let got = stack.chat(body.to_string()).user("ann").send().await.must_be(200);
    well_formed(&got);
    assert_eq!(got.header("cache-control"), "no-store");
    body["stream"] = json!(true);
    let got = stack.chat(body.to_string()).user("ann").send().await.must_be(200);
    well_formed(&got);
    assert_eq!(got.header("x-accel-buffering"), "no");
    assert!(got.header("cache-control").contains("no-transform"));
    // The exchange that the header names can be looked up.
    stack.learned().await;
    let path = format!("/memory/v1/exchanges/{}", got.header("x-backstory-exchange"));
    let shown = stack.ask("GET", &path).user("ann").send().await.must_be(200).json();
    assert_eq!(shown["memory"], got.header("x-backstory-memory"));
}

// Design, section 4 of the wire: the default key of the harness names no subject of its own.
#[tokio::test]
async fn a_keys_default_subject_counts_when_the_request_names_none() {
    let keys = format!("[[keys]]\nkey = \"{KEY}\"\ndefault_subject = \"dora\"\n");
    let stack = Stack::of(Script::Model).keys(&keys).start().await;
    let body = r#"{"model":"mock","messages":[{"role":"user","content":"I'm allergic to peanuts."}]}"#;
    let got = stack.chat(body).send().await.must_be(200);
    assert_eq!(got.memory(), "miss");
    stack.learned().await;
    assert!(stack.shown("dora", "What can I eat?").await.contains("peanuts"));
    let got = stack.chat(body.replace("I'm allergic to peanuts.", "What can I eat?")).send().await;
    assert!(got.memory().starts_with("hit"), "{}", got.memory());
}
