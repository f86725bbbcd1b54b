//! Memories that are found by what is meant: vectors, their generations, and embedders that fail.

use backstory::mock::{Raw, Script};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{Stack, eventually};

const PROVIDERS: &str = r#"
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

fn embeddings(model: &str) -> String {
    format!("[embeddings]\nengine = \"openai\"\nprovider = \"embedder\"\nmodel = \"{model}\"\n")
}

async fn started(model: &str, recall: &str, folder: Option<TempDir>) -> Stack {
    let mut builder = Stack::of(Script::Fixed("I see.".to_owned()))
        .upstream(Script::Model)
        .providers(PROVIDERS)
        .recall(recall)
        .with(&embeddings(model));
    if let Some(folder) = folder {
        builder = builder.in_folder(folder);
    }
    builder.start().await
}

const PATIENT: &str = "deadline_ms = 30000\n";
const TRIPS: &[&str] = &[
    "We stayed at a campsite at lake Inari where the wooden pier was broken.",
    "The risotto I cooked on Sunday turned out far too salty.",
    "My bike chain snapped on the way to the harbour.",
];
const QUESTION: &str = "What was wrong with the pier at that lake campsite?";

/// Waits until vectors find, and none is missing.
async fn vectors_find(stack: &Stack) {
    eventually("vectors find", || async {
        let status = stack.app.vectors.as_ref().unwrap();
        (stack.app.recall.space().is_some() && status.text() == "ok").then_some(())
    })
    .await;
}

async fn told(stack: &Stack) {
    for text in TRIPS {
        stack.say("ann", text).await;
    }
    stack.learned().await;
}

/// Asks the memory API until the best memory has a vector.
async fn found_by_vectors(stack: &Stack) -> Value {
    eventually("the best memory has a vector", || async {
        let asked = stack.ask("POST", "/memory/v1/recall").user("ann").json(&json!({"query": QUESTION}));
        let found = asked.send().await.must_be(200).json();
        found["data"][0]["scores"]["dense_turn"].is_number().then_some(found)
    })
    .await
}

// Design, section 8: raw scores are kept and shown.
#[tokio::test]
async fn what_was_just_told_is_found_by_vectors_and_shows_their_scores() {
    let stack = started("mock", PATIENT, None).await;
    vectors_find(&stack).await;
    told(&stack).await;
    let found = found_by_vectors(&stack).await;
    let first = &found["data"][0];
    assert!(first["text"].as_str().unwrap().contains("Inari"), "{found}");
    assert!(first["scores"]["dense_turn"].as_f64().unwrap() > 0.2, "{found}");
    assert!(first["scores"]["dense_neighbours"].is_number() && found.get("degraded").is_none(), "{found}");

    let request = json!({"model": "gpt-4o", "messages": [{"role": "user", "content": QUESTION}]});
    let explained = stack.ask("POST", "/memory/v1/explain").user("ann").json(&request).send().await.must_be(200).json();
    assert!(explained["recalled"]["why"].to_string().contains("vectors: turn"), "{explained}");
    let got = stack.say("ann", QUESTION).await;
    assert!(got.memory().starts_with("hit; facts="), "{}", got.memory());
    let ready = stack.ask("GET", "/readyz").send().await.must_be(200).json();
    assert_eq!(ready["vectors"], "ok");
    let metrics = stack.ask("GET", "/metrics").send().await.must_be(200);
    let metrics = metrics.text();
    assert!(metrics.contains("backstory_question_vectors_total{outcome=\"made\"}"), "{metrics}");
    assert!(!metrics.contains("backstory_vectors_total{outcome=\"made\"} 0"), "{metrics}");
}

// mnemosyne-oss/mnemosyne#24, with vectors, which are near to everything.
#[tokio::test]
async fn nonsense_and_greetings_recall_nothing_with_vectors_either() {
    let stack = started("mock", PATIENT, None).await;
    told(&stack).await;
    vectors_find(&stack).await;
    found_by_vectors(&stack).await;
    for nonsense in ["xqzvk jwpft mmrrg", "Good morning!", "How do I reverse a list in Rust?", "☃☃☃", "a"] {
        let got = stack.say("ann", nonsense).await;
        assert_eq!(got.memory(), "miss", "{nonsense}");
    }
}

// Design: a stalled embedding endpoint costs the deadline at most; the header tells; words still find.
#[tokio::test]
async fn a_stalled_embedder_costs_the_deadline_at_most_and_words_find() {
    let stack = started("mock", "deadline_ms = 4000\n", None).await;
    told(&stack).await;
    vectors_find(&stack).await;
    stack.upstreams[1].set_script(Script::As("mock-stall-header"));
    let begun = std::time::Instant::now();
    let got = stack.say("ann", QUESTION).await;
    assert!(got.memory().starts_with("hit; ") && got.memory().ends_with("degraded=vector"), "{}", got.memory());
    assert!(begun.elapsed().as_secs_f64() < 20.0);
    assert!(stack.sent().json().to_string().contains("Inari"));
}

// MemTensor/MemOS#1333; BerriAI/litellm#32202: the embedding endpoint gets its own key.
#[tokio::test]
async fn with_failing_embeddings_words_find_and_chat_goes_on() {
    let stack = started("mock", PATIENT, None).await;
    told(&stack).await;
    vectors_find(&stack).await;
    let not_json = Raw::json(200, "<html>not what you expect</html>".to_owned());
    for answer in [Raw::error(500, "The embedder is broken."), not_json] {
        stack.upstreams[1].set_script(Script::Raw(answer));
        let got = stack.say("ann", QUESTION).await;
        assert!(got.memory().starts_with("hit; ") && got.memory().ends_with("degraded=vector"), "{}", got.memory());
        let asked = stack.ask("POST", "/memory/v1/recall").user("ann").json(&json!({"query": QUESTION}));
        let found = asked.send().await.must_be(200).json();
        // What was asked is remembered, too, and its words are the same.
        assert!(found["degraded"] == "vector" && found["data"].to_string().contains("Inari"), "{found}");
    }
    stack.tell("ann", "The ferry to Hanko was cancelled because of the storm.").await;
    let got = stack.say("ann", "Why was the ferry to Hanko cancelled?").await;
    assert!(got.memory().starts_with("hit"), "what is new is found by words at once: {}", got.memory());
    let key = stack.upstreams[1].last_request().unwrap().header("authorization").map(str::to_owned);
    assert_eq!(key.as_deref(), Some("Bearer sk-embedder-0123456789abcdef"));
}

#[tokio::test]
async fn a_gateway_whose_embedder_was_never_there_serves_by_words() {
    let stack = Stack::of(Script::Fixed("I see.".to_owned()))
        .upstream(Script::Raw(Raw::error(500, "The embedder is broken.")))
        .providers(PROVIDERS)
        .with(&embeddings("mock"))
        .start()
        .await;
    told(&stack).await;
    let got = stack.say("ann", QUESTION).await;
    assert!(got.memory().starts_with("hit; facts="), "{}", got.memory());
    eventually("it says so", || async {
        let ready = stack.ask("GET", "/readyz").send().await.must_be(200).json();
        (ready["status"] == "ready" && ready["vectors"] != "ok" && ready["vectors"] != "starting").then_some(())
    })
    .await;
}

// ruvnet/RuVector#973; mem0ai/mem0#3065; petabridge/memorizer#17.
#[tokio::test]
async fn a_new_model_embeds_old_memories_anew_and_words_find_meanwhile() {
    let stack = started("mock", PATIENT, None).await;
    told(&stack).await;
    vectors_find(&stack).await;
    found_by_vectors(&stack).await;
    let before = stack.app.recall.space().unwrap().generation().clone();
    let (_, folder) = stack.stop().await;

    let stack = started("mock-other", PATIENT, Some(folder)).await;
    let got = stack.say("ann", QUESTION).await;
    assert!(got.memory().starts_with("hit"), "{}", got.memory());
    vectors_find(&stack).await;
    found_by_vectors(&stack).await;
    assert_ne!(stack.app.recall.space().unwrap().generation(), &before);
    assert_eq!(stack.app.recall.damaged_vectors(), 0, "those of the other model were not even looked at");
}

// ruvnet/RuVector#973, while the gateway runs: the server behind the name has another model now.
#[tokio::test]
async fn a_model_that_is_exchanged_behind_its_name_is_another_generation() {
    let stack = started("mock", PATIENT, None).await;
    told(&stack).await;
    vectors_find(&stack).await;
    found_by_vectors(&stack).await;
    let before = stack.app.recall.space().unwrap().generation().clone();
    stack.upstreams[1].set_script(Script::As("mock-other-dimension"));
    stack.tell("ann", "The ferry to Hanko was cancelled because of the storm.").await;
    eventually("vectors of the other model find", || async {
        (stack.app.recall.space().unwrap().generation() != &before).then_some(())
    })
    .await;
    found_by_vectors(&stack).await;
}

// After a restart the vectors of before are used, not made again.
#[tokio::test]
async fn vectors_outlive_a_restart() {
    let stack = started("mock", PATIENT, None).await;
    told(&stack).await;
    vectors_find(&stack).await;
    found_by_vectors(&stack).await;
    let (_, folder) = stack.stop().await;
    let stack = started("mock", PATIENT, Some(folder)).await;
    vectors_find(&stack).await;
    found_by_vectors(&stack).await;
    let asked = stack.upstreams[1].requests();
    assert!(!asked.iter().any(|request| request.json()["input"].to_string().contains("Inari")));
}

// Design, promise 10: vectors of every generation go with the subject, and the receipt counts them.
#[tokio::test]
async fn an_erasure_counts_the_vectors_it_took() {
    let stack = started("mock", PATIENT, None).await;
    told(&stack).await;
    vectors_find(&stack).await;
    found_by_vectors(&stack).await;
    let receipt = stack.ask("DELETE", "/memory/v1/subject").user("ann").send().await.must_be(200).json();
    assert!(receipt["counts"]["vectors"].as_u64().unwrap() > 0, "{receipt}");
    let got = stack.say("ann", QUESTION).await;
    assert_eq!(got.memory(), "miss");
}
