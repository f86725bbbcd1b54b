//! Memories that are found through an index outside of the process. What needs a server says that it was skipped where there is none
//! (`BACKSTORY_TEST_QDRANT`).

use backstory::mock::Script;
use serde_json::{Value, json};

use crate::support::redis::skipped;
use crate::support::{Stack, eventually};

const EMBEDDER: &str = r#"
[[providers]]
name = "upstream"
base_url = "${UPSTREAM}"
api_key = "${PROVIDER_KEY}"
default = true
[[providers]]
name = "embedder"
base_url = "${UPSTREAM_2}"
api_key = "sk-embedder-0123456789abcdef"
"#;
const EMBEDDINGS: &str = "[embeddings]\nengine = \"openai\"\nprovider = \"embedder\"\nmodel = \"mock\"\n";
/// Of each person one memory is held.
const HELD: &str = "deadline_ms = 5000\nheld_episodes = 1\n";
const TRIPS: &[&str] = &[
    "We stayed at a campsite at lake Inari where the wooden pier was broken.",
    "The risotto I cooked on Sunday turned out far too salty.",
    "My bike chain snapped on the way to the harbour.",
];
const QUESTION: &str = "What was wrong with my wooden pier at that lake campsite?";

/// The address of the server that all tests share; none where there is none, which is said.
fn server() -> Option<String> {
    let url = std::env::var("BACKSTORY_TEST_QDRANT").ok().filter(|url| !url.is_empty());
    if url.is_none() {
        skipped("BACKSTORY_TEST_QDRANT names no Qdrant");
    }
    url
}

async fn started(url: &str, name: &str) -> Stack {
    let prefix = format!("it_{name}_{}", std::process::id());
    let vectors = format!("[vectors]\nengine = \"qdrant\"\nurl = \"{url}\"\ncollection_prefix = \"{prefix}\"\n");
    let builder = Stack::of(Script::Fixed("I see.".to_owned())).upstream(Script::Model).providers(EMBEDDER);
    builder.recall(HELD).with(&vectors).with(EMBEDDINGS).start().await
}

async fn told(stack: &Stack) {
    for text in TRIPS {
        stack.say("ann", text).await;
    }
    stack.learned().await;
}

async fn found(stack: &Stack) -> Value {
    let asked = stack.ask("POST", "/memory/v1/recall").user("ann").json(&json!({"query": QUESTION}));
    asked.send().await.must_be(200).json()
}

#[tokio::test]
async fn what_is_older_than_memory_is_found_in_the_index_and_erased_there() {
    let Some(url) = server() else { return };
    let stack = started(&url, "older").await;
    told(&stack).await;
    let first = eventually("the oldest memory is found by its vector", || async {
        let found = found(&stack).await;
        let first = found["data"][0].clone();
        first["scores"]["dense_turn"].is_number().then_some(first)
    })
    .await;
    assert!(first["text"].as_str().unwrap().contains("Inari"), "{first}");
    let got = stack.say("ann", QUESTION).await;
    assert!(got.memory().starts_with("hit"), "{}", got.memory());
    let got = stack.ask("GET", "/metrics").send().await.must_be(200);
    let metrics = got.text();
    let value = |name: &str| metrics.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<f64>().ok());
    assert!(value("backstory_index_search_total{outcome=\"ok\"}").unwrap() > 0.0, "{metrics}");
    assert!(value("backstory_index_older_total").unwrap() > 0.0, "{metrics}");
    let receipt = stack.ask("DELETE", "/memory/v1/subject").user("ann").send().await.must_be(200).json();
    assert!(receipt["counts"]["index"].as_u64().unwrap() >= 3, "{receipt}");
    assert!(receipt["index"]["remains"].as_str().unwrap().contains("segments"), "{receipt}");
    assert_eq!(found(&stack).await["data"], json!([]));
}

// Design, promise 3.
#[tokio::test]
async fn an_index_that_is_not_there_costs_no_request_and_is_told() {
    let stack = started("http://127.0.0.1:1", "away").await;
    told(&stack).await;
    let got = stack.say("ann", "Did my bike chain snap on the way to the harbour?").await;
    assert!(got.memory().starts_with("hit"), "words find what is held: {}", got.memory());
    let ready = eventually("it is told", || async {
        let ready = stack.ask("GET", "/readyz").send().await.must_be(200).json();
        (ready["vectors"] != "ok" && ready["vectors"] != "starting").then_some(ready)
    })
    .await;
    assert!(ready["vectors"].as_str().unwrap().to_lowercase().contains("qdrant"), "{ready}");
    let receipt = stack.ask("DELETE", "/memory/v1/subject").user("ann").send().await.must_be(200).json();
    assert_eq!((&receipt["complete"], &receipt["index"]["engine"]), (&json!(false), &json!("qdrant")), "{receipt}");
}
