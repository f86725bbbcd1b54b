//! What upstream really counts, and what its window really is: learned from its answers.

use backstory::mock::{Raw, Script};
use serde_json::{Value, json};

use crate::support::{Got, Stack, eventually};

/// A conversation of so many words, in short turns.
fn conversation(model: &str, n_words: usize) -> String {
    let mut messages = vec![json!({"role": "system", "content": "You are brief."})];
    for turn in 0..n_words / 20 {
        let words = format!("turn number {turn} of this long talk about boats and harbours ");
        messages.push(json!({"role": "user", "content": words}));
        messages.push(json!({"role": "assistant", "content": "Yes, boats and harbours, and what else is there?"}));
    }
    messages.push(json!({"role": "user", "content": "And now?"}));
    json!({"model": model, "messages": messages}).to_string()
}

async fn ask(stack: &Stack, body: String) -> Got {
    stack.chat(body).user("ann").header("x-backstory-memory", "read").send().await
}

async fn explained(stack: &Stack, body: String) -> Value {
    let got = stack.ask("POST", "/memory/v1/explain").user("ann").header("content-type", "application/json").body(body);
    got.send().await.must_be(200).json()
}

async fn metric(stack: &Stack, name: &str) -> String {
    let got = stack.ask("GET", "/metrics").send().await.must_be(200);
    let line = got.text().lines().find(|line| line.starts_with(name)).map(str::to_owned);
    line.unwrap_or_else(|| panic!("no {name} in {}", got.text()))
}

/// One alias with a target of each model, in order.
fn chain(models: &[&str], more: &str) -> String {
    let mut text = "[[models]]\nname = \"chain\"\n".to_owned();
    for (order, model) in models.iter().enumerate() {
        text.push_str(&format!(
            "[[models.targets]]\nprovider = \"upstream\"\nmodel = \"{model}\"\norder = {order}\n{more}"
        ));
    }
    text
}

// Issue 3, item 2: twenty exchanges with a tokenizer that is 1.5 times ours; kept over a restart, and explained.
#[tokio::test]
async fn how_a_target_counts_is_learned_kept_and_explained() {
    let start = || Stack::of(Script::Model).with(&chain(&["mock-tokens-150"], ""));
    let stack = start().start().await;
    for n in 1..=20 {
        ask(&stack, conversation("chain", 40 * n)).await.must_be(200);
    }
    let got = ask(&stack, conversation("chain", 500)).await.must_be(200);
    let upstreams = got.json()["usage"]["prompt_tokens"].as_f64().unwrap();
    // The first ones are known before the last one is asked, whenever their books are kept.
    let error = got.context("sent") as f64 / upstreams - 1.0;
    assert!(error.abs() < 0.02, "{error}");
    let shown = metric(&stack, "backstory_token_correction{target=\"upstream/mock-tokens-150\"}").await;
    let ratio: f64 = shown.split(' ').next_back().unwrap().parse().unwrap();
    assert!((ratio - 1.5).abs() < 0.03, "{shown}");
    // The books are kept when the reply has ended, which the client may see first.
    let learned = eventually("all exchanges are learned from", || async {
        let learned = explained(&stack, conversation("chain", 40)).await["learned"].clone();
        (learned["exchanges"] == 21).then_some(learned)
    })
    .await;
    assert_eq!(learned["exact"], json!(false));

    let (_, folder) = stack.stop().await;
    let stack = start().in_folder(folder).start().await;
    let again = explained(&stack, conversation("chain", 40)).await["learned"].clone();
    assert_eq!(again, learned);
}

// Issue 3, item 2: OpenAI's own models are counted with their own vocabulary.
#[tokio::test]
async fn a_model_whose_vocabulary_is_public_is_not_corrected() {
    let stack = Stack::of(Script::As("mock-tokens-150")).with(&chain(&["gpt-4o"], "")).start().await;
    for n in 1..=5 {
        ask(&stack, conversation("chain", 40 * n)).await.must_be(200);
    }
    let learned = explained(&stack, conversation("chain", 40)).await["learned"].clone();
    assert_eq!((&learned["exact"], &learned["correction"]), (&json!(true), &json!(1.0)));
    assert_eq!((&learned["window"], &learned["window_source"]), (&json!(128_000), &json!("table")));
}

// Issue 3, item 3: with one target the request is cut to the window that the error told, and sent again, once.
#[tokio::test]
async fn a_window_that_an_error_tells_is_kept_to_at_once_and_from_then_on() {
    let stack = Stack::of(Script::Model).with(&chain(&["mock-tokens-window-600"], "")).start().await;
    let got = ask(&stack, conversation("chain", 1_000)).await.must_be(200);
    assert_eq!(got.header("x-backstory-target"), "upstream/mock-tokens-window-600; attempts=2");
    assert!(got.context("cut") > 0 && got.context("budget") < 600, "{}", got.header("x-backstory-context"));
    let next = ask(&stack, conversation("chain", 1_000)).await.must_be(200);
    assert_eq!(next.header("x-backstory-target"), "upstream/mock-tokens-window-600; attempts=1");
    let learned = explained(&stack, conversation("chain", 40)).await["learned"].clone();
    assert_eq!((&learned["window"], &learned["window_source"]), (&json!(600), &json!("learned")));
    let shown = metric(&stack, "backstory_learned_window_tokens{target=\"upstream/mock-tokens-window-600\"}").await;
    assert!(shown.ends_with(" 600"), "{shown}");
    assert!(metric(&stack, "backstory_window_overflows_total{outcome=\"refitted\"}").await.ends_with(" 1"));
}

// Design, doubt 7: a recognised overflow goes on to a target with a larger window, uncut, and cools nobody.
#[tokio::test]
async fn an_overflow_goes_on_to_a_target_with_a_larger_window() {
    let models = ["mock-tokens-window-600", "mock-tokens-window-50", "mock-tokens-window-100000"];
    let stack = Stack::of(Script::Model).with(&chain(&models, "")).start().await;
    let got = ask(&stack, conversation("chain", 1_000)).await.must_be(200);
    assert_eq!(got.header("x-backstory-target"), "upstream/mock-tokens-window-100000; attempts=3");
    assert_eq!(got.context("cut"), 0);
    // Known now: a small request still goes to the first one, which did not cool.
    let small = ask(&stack, conversation("chain", 40)).await.must_be(200);
    assert_eq!(small.header("x-backstory-target"), "upstream/mock-tokens-window-600; attempts=1");
}

// Issue 3, item 3: with one target, upstream's own error passes when there is nothing to be done.
#[tokio::test]
async fn an_overflow_without_numbers_passes_in_upstreams_own_words() {
    let groq = r#"{"error":{"message":"Please reduce the length of the messages or completion.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#;
    let stack = Stack::new(Script::Raw(Raw::json(400, groq))).await;
    let got = ask(&stack, conversation("mock", 100)).await.must_be(400);
    assert_eq!(got.text(), groq);
    assert_eq!(stack.upstream().requests().len(), 1);
}

// Issue 3, item 3: a configured window wins over what an error says.
#[tokio::test]
async fn a_configured_window_is_not_changed_by_an_error() {
    let stack = Stack::of(Script::Model).with(&chain(&["mock-tokens-window-600"], "window = 50000\n")).start().await;
    for _ in 0..2 {
        let error = ask(&stack, conversation("chain", 1_000)).await.must_be(400).json();
        assert_eq!(error["error"]["code"], "context_length_exceeded");
    }
    let learned = explained(&stack, conversation("chain", 40)).await["learned"].clone();
    assert_eq!((&learned["window"], &learned["window_source"]), (&json!(50_000), &json!("configured")));
}

// Design, doubt 5: `reject` never cuts, also not after an overflow.
#[tokio::test]
async fn with_reject_nothing_is_cut_after_an_overflow() {
    let stack = Stack::of(Script::Model)
        .with(&chain(&["mock-tokens-window-600"], ""))
        .with("[budget]\noverflow = \"reject\"")
        .start()
        .await;
    let error = ask(&stack, conversation("chain", 1_000)).await.must_be(400).json();
    assert!(error["error"]["message"].as_str().unwrap().contains("maximum context length is 600"), "{error}");
    assert_eq!(stack.upstream().requests().len(), 1);
}

// Issue 3, bad input: 5 MB of one character is counted in a moment, and the gateway lives on meanwhile.
#[tokio::test]
async fn five_megabytes_of_one_character_are_answered() {
    let stack = Stack::new(Script::Model).await;
    for character in ["a", " ", "=", "记"] {
        // A tenth of it where nothing is optimised.
        let bytes = if cfg!(debug_assertions) { 500_000 } else { 5_000_000 };
        let text = character.repeat(bytes / character.len());
        let body = json!({"model": "mock-fixed", "messages": [{"role": "user", "content": text}]}).to_string();
        ask(&stack, body).await.must_be(200);
    }
    eventually("the gateway is alive", || async {
        (stack.ask("GET", "/livez").send().await.status == 200).then_some(())
    })
    .await;
}
