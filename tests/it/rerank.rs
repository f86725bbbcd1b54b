//! An endpoint that orders what was found: what it is asked, and what becomes of every answer.

use std::time::Duration;

use backstory::mock::{Raw, Recorded, Script};
use serde_json::{Value, json};

use crate::support::{Stack, eventually};

const TOLD: &[&str] = &[
    "The wooden pier at the lake campsite was broken in spring.",
    "We repaired the pier at the lake campsite with planks from the old barn.",
    "The lake campsite by the pier has no showers.",
];
const QUESTION: &str = "What do I know of the pier at the lake campsite?";

/// A gateway with an endpoint of this kind behind it.
async fn stack(rerank: Script, more: &str) -> Stack {
    let section = format!("[rerank]\nurl = \"${{UPSTREAM_2}}/rerank\"\napi_key = \"sk-rerank-0123456789\"\n{more}");
    let stack = Stack::of(Script::Fixed("I see.".to_owned())).upstream(rerank).with(&section).start().await;
    for text in TOLD {
        stack.say("ann", text).await;
    }
    stack.learned().await;
    stack
}

/// The memories in the order in which they stand before the question: the best stands last.
async fn order(stack: &Stack) -> (Vec<usize>, String) {
    let got = stack.say("ann", QUESTION).await;
    let sent = stack.sent().json();
    let shown = sent["messages"][0]["content"].as_str().unwrap().to_owned();
    let mut places: Vec<(usize, usize)> =
        TOLD.iter().enumerate().filter_map(|(n, text)| Some((shown.find(text)?, n))).collect();
    places.sort_unstable();
    (places.into_iter().map(|(_, n)| n).collect(), got.memory().to_owned())
}

/// Scores the texts so that the one with these words is the best, and what has them not the worst.
fn best(words: &'static str, tei: bool) -> Script {
    Script::from_fn(move |request: &Recorded| {
        let body = request.json();
        let texts = body[if tei { "texts" } else { "documents" }].as_array().unwrap().clone();
        let items = texts.iter().enumerate().map(|(index, text)| {
            let text = text.as_str().unwrap();
            let score = if text.contains(words) { 0.9 } else { 0.5 - index as f64 / 100.0 };
            if tei {
                json!({"index": index, "score": score})
            } else {
                json!({"index": index, "relevance_score": score})
            }
        });
        let items: Vec<Value> = items.rev().collect();
        let answer = if tei { Value::from(items) } else { json!({"results": items}) };
        Script::Raw(Raw::json(200, answer.to_string()))
    })
}

// Issue 5, item 7.
#[tokio::test]
async fn the_endpoint_decides_the_order_in_all_three_shapes() {
    for (kind, words) in [("cohere", "no showers"), ("jina", "planks"), ("tei", "broken in spring")] {
        let model = if kind == "tei" { "" } else { "model = \"ranker\"\n" };
        let stack = stack(best(words, kind == "tei"), &format!("kind = \"{kind}\"\n{model}")).await;
        let (order, header) = order(&stack).await;
        assert!(header.starts_with("hit") && !header.contains("degraded"), "{kind}: {header}");
        assert!(TOLD[*order.last().unwrap()].contains(words), "{kind}: {order:?}");
        let asked = stack.upstreams[1].last_request().unwrap();
        assert_eq!(asked.headers["authorization"], "Bearer sk-rerank-0123456789");
        assert_eq!(asked.json()["query"], QUESTION);
    }
}

#[tokio::test]
async fn without_a_kind_a_model_tells_which_it_is() {
    let tei = stack(best("planks", true), "").await;
    assert!(TOLD[*order(&tei).await.0.last().unwrap()].contains("planks"));
    let cohere = stack(Script::Model, "model = \"mock\"\n").await;
    let (_, header) = order(&cohere).await;
    assert!(!header.contains("degraded"), "{header}");
    assert!(cohere.upstreams[1].last_request().unwrap().json()["documents"].is_array());
}

// Issue 5, bad input: a wrong count, NaN, unknown index, HTML, 429, and an answer that comes too late.
#[tokio::test]
async fn an_answer_that_is_no_order_leaves_our_own_and_is_told() {
    let plain = Stack::new(Script::Fixed("I see.".to_owned())).await;
    for text in TOLD {
        plain.say("ann", text).await;
    }
    plain.learned().await;
    let (own, _) = order(&plain).await;
    let all = |score: &str| {
        let items: Vec<String> = (0..TOLD.len()).map(|n| format!("{{\"index\":{n},\"score\":{score}}}")).collect();
        format!("[{}]", items.join(","))
    };
    let stack = stack(Script::Model, "").await;
    for (what, answer) in [
        ("count", Raw::json(200, "[{\"index\":0,\"score\":1.0}]")),
        ("NaN", Raw::json(200, all("NaN"))),
        ("index", Raw::json(200, all("1.0").replace("\"index\":0", "\"index\":99"))),
        ("twice", Raw::json(200, all("1.0").replace("\"index\":0", "\"index\":1"))),
        ("HTML", Raw::json(200, "<html><body>Bad gateway</body></html>")),
        ("empty", Raw::json(200, "")),
        ("429", Raw::error(429, "slow down")),
        ("500", Raw::error(500, "oops")),
        ("401", Raw::error(401, "who?")),
    ] {
        stack.upstreams[1].set_script(Script::Raw(answer));
        let (order, header) = order(&stack).await;
        assert_eq!(order, own, "{what}");
        assert!(header.starts_with("hit") && header.ends_with("; degraded=rerank"), "{what}: {header}");
    }
    let metrics = stack.ask("GET", "/metrics").send().await.must_be(200);
    for (outcome, n) in [("unusable", 6), ("unavailable", 2), ("refused", 1)] {
        let line = format!("backstory_rerank_total{{outcome=\"{outcome}\"}} {n}");
        assert!(metrics.text().lines().any(|l| l == line), "{line}");
    }
}

// Design, promise 3: an endpoint that does not answer costs a part of the deadline, and no memory.
#[tokio::test]
async fn an_endpoint_that_is_late_costs_no_memory() {
    let stalled = Script::Raw(Raw { header_delay: Duration::from_secs(3_600), ..Raw::json(200, "[]") });
    let section = "[rerank]\nurl = \"${UPSTREAM_2}/rerank\"\n";
    let script = Script::Fixed("I see.".to_owned());
    let stack = Stack::of(script).upstream(stalled).recall("deadline_ms = 1500\n").with(section).start().await;
    for text in TOLD {
        stack.say("ann", text).await;
    }
    stack.learned().await;
    let (shown, header) = order(&stack).await;
    assert!(!shown.is_empty() && header.ends_with("; degraded=rerank"), "{header}");
    let metrics = stack.ask("GET", "/metrics").send().await.must_be(200);
    let late = "backstory_rerank_total{outcome=\"late\"} 0";
    assert!(!metrics.text().lines().any(|line| line == late), "{}", metrics.text());
}

// Each has a share of the deadline of its own; together they must not use it up.
#[tokio::test]
async fn an_embedder_and_an_endpoint_that_are_late_together_cost_no_memory() {
    let providers = "[[providers]]\nname = \"upstream\"\nbase_url = \"${UPSTREAM}\"\napi_key = \"${PROVIDER_KEY}\"\ndefault = true\n\
                     [[providers]]\nname = \"embedder\"\nbase_url = \"${UPSTREAM_2}\"\napi_key = \"sk-embedder-0123456789abcdef\"\n";
    let more = "[embeddings]\nengine = \"openai\"\nprovider = \"embedder\"\nmodel = \"mock\"\n\
                [rerank]\nurl = \"${UPSTREAM_2}/rerank\"\nmodel = \"mock\"\n";
    let builder = Stack::of(Script::Fixed("I see.".to_owned())).upstream(Script::Model).providers(providers);
    let stack = builder.recall("deadline_ms = 4000\n").with(more).start().await;
    for text in TOLD {
        stack.say("ann", text).await;
    }
    stack.learned().await;
    eventually("vectors find", || async { stack.app.recall.space().map(drop) }).await;
    stack.upstreams[1].set_script(Script::As("mock-stall-header"));
    let (shown, header) = order(&stack).await;
    assert!(!shown.is_empty() && header.starts_with("hit") && header.contains("degraded="), "{header}");
    // Whose question has a vector already is told of the endpoint.
    stack.upstreams[1].set_script(Script::Model);
    assert!(!order(&stack).await.1.contains("degraded"));
    stack.upstreams[1].set_script(Script::Raw(Raw::error(500, "oops")));
    assert!(order(&stack).await.1.ends_with("; degraded=rerank"));
}

#[tokio::test]
async fn nonsense_is_asked_of_nobody() {
    let stack = stack(Script::Model, "").await;
    let asked = stack.upstreams[1].accepted();
    assert_eq!(stack.say("ann", "xqzvk jwpft mmrrg").await.memory(), "miss");
    assert_eq!(stack.upstreams[1].accepted(), asked);
}
