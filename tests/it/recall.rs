//! What is shown, and what is not, for a question.

use backstory::mock::Script;
use serde_json::{Value, json};

use crate::support::Stack;

async fn told(texts: &[&str]) -> Stack {
    let stack = Stack::new(Script::Fixed("I see.".to_owned())).await;
    for text in texts {
        stack.say("ann", text).await;
    }
    stack.learned().await;
    stack
}

const TRIPS: &[&str] = &[
    "We stayed at a campsite at lake Inari where the wooden pier was broken.",
    "The risotto I cooked on Sunday turned out far too salty.",
    "My bike chain snapped on the way to the harbour.",
    "Our cat hid behind the washing machine during the thunderstorm.",
];

// mnemosyne-oss/mnemosyne#24; tomcounsell/ai#1213.
#[tokio::test]
async fn a_query_of_random_letters_recalls_nothing() {
    let stack = told(TRIPS).await;
    for nonsense in ["xqzvk jwpft mmrrg", "asdfgh qwerty zxcvb", "☃☃☃", "啊啊啊啊呃呃"] {
        let got = stack.say("ann", nonsense).await;
        assert_eq!(got.memory(), "miss", "{nonsense}");
        assert_eq!(stack.sent().json()["messages"][0]["content"], nonsense);
    }
}

// NousResearch/hermes-agent#22563.
#[tokio::test]
async fn cooking_is_not_shown_for_a_question_about_rust() {
    let stack = told(TRIPS).await;
    let shown = stack.shown("ann", "How do I implement a trait for a generic type in Rust?").await;
    assert!(!shown.contains("risotto"), "{shown}");
}

// Design, section 8.
#[tokio::test]
async fn the_right_episode_is_shown_and_not_all_of_them() {
    let stack = told(TRIPS).await;
    let shown = stack.shown("ann", "What was wrong with the pier at that lake campsite?").await;
    assert!(shown.contains("Inari"), "{shown}");
    for other in ["risotto", "thunderstorm"] {
        assert!(!shown.contains(other), "{other} in {shown}");
    }
}

// MystenLabs/MemWal#741; evoila/meho#1797.
#[tokio::test]
async fn the_recall_endpoint_gives_raw_scores_and_an_empty_list_for_nonsense() {
    let stack = told(TRIPS).await;
    let recall =
        |query: &'static str| stack.ask("POST", "/memory/v1/recall").user("ann").json(&json!({"query": query})).send();
    let found = recall("broken pier at the campsite").await.must_be(200).json();
    let first = &found["data"][0];
    assert!(first["text"].as_str().unwrap().contains("Inari"), "{found}");
    for score in ["turn", "coverage", "fused"] {
        assert!(first["scores"][score].as_f64().is_some_and(|s| s > 0.0), "{score} in {first}");
    }
    assert_eq!(recall("xqzvk jwpft mmrrg").await.must_be(200).json()["data"], json!([]));
    stack.ask("POST", "/memory/v1/recall").user("ann").json(&json!({"question": "x"})).send().await.must_be_error(400);
}

// openclaw#20730; CherryHQ/stella#388; thedotmack/claude-mem#3801.
#[tokio::test]
async fn chinese_is_found_by_a_part_of_the_phrase() {
    let stack = told(&["机房的设备清单放在二楼蓝色柜子里。", "周末我们去西湖边散步了。"]).await;
    let shown = stack.shown("ann", "设备放在哪里？").await;
    assert!(shown.contains("二楼") && !shown.contains("西湖"), "{shown}");
}

// Design: the question is found in an array, too.
#[tokio::test]
async fn a_question_in_an_array_with_an_image_is_recalled_for_as_well() {
    let stack = told(TRIPS).await;
    let parts = json!([
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}},
        {"type": "text", "text": "What was wrong with the pier at that lake campsite?"},
    ]);
    let got = stack.talk("ann", json!([{"role": "user", "content": parts}])).await;
    assert!(got.memory().starts_with("hit"), "{}", got.memory());
    assert!(stack.sent().json().to_string().contains("Inari"));
}

// netclaw-dev/netclaw#380.
#[tokio::test]
async fn at_most_5_episodes_and_1000_tokens_are_shown_and_the_header_tells_the_truth() {
    let stack = Stack::new(Script::Fixed("I see.".to_owned())).await;
    let animals =
        ["heron", "otter", "lynx", "moose", "badger", "swan", "beaver", "eagle", "hare", "viper", "newt", "stork"];
    for (n, animal) in animals.into_iter().enumerate() {
        let birds = format!("while the {animal} number {n} watched us through tall reeds and mist ").repeat(12);
        stack.say("ann", &format!("We repaired the wooden pier at the lake campsite {birds}")).await;
    }
    stack.learned().await;
    let body = json!({"model": "gpt-4o", "messages": [{"role": "user", "content": "Who watched us while we repaired the wooden pier at the lake campsite?"}]});
    let got = stack.chat(body.to_string()).user("ann").send().await.must_be(200);
    let figures: Vec<usize> = got
        .memory()
        .strip_prefix("hit; ")
        .unwrap_or_else(|| panic!("{}", got.memory()))
        .split("; ")
        .map(|pair| pair.split_once('=').unwrap().1.parse().unwrap())
        .collect();
    let (episodes, tokens) = (figures[1], figures[2]);
    assert!((1..=5).contains(&episodes) && tokens <= 1_000, "{}", got.memory());
    let sent: Value = stack.sent().json();
    let shown = sent["messages"][0]["content"].as_str().unwrap();
    assert_eq!(shown.lines().filter(|line| line.starts_with("- ")).count(), figures[0] + episodes, "{shown}");
    let grown = got.context("sent") - got.context("counted");
    assert!(grown.abs_diff(tokens) <= 8, "{} {}", got.memory(), got.header("x-backstory-context"));
}

// smaramwbc/statewave#236.
#[tokio::test]
async fn a_retired_value_does_not_come_back_through_an_episode() {
    let stack = told(&[]).await;
    stack.tell("ann", "I live in Oslo, close to the fish market.").await;
    stack.tell("ann", "I moved to Rome last week.").await;
    let shown = stack.shown("ann", "Which fish market is close to where I live?").await;
    assert!(!shown.contains("Oslo"), "{shown}");
}

// Design, promise 3: recall that is late never holds a request.
#[tokio::test]
async fn recall_that_is_too_late_is_told_in_the_header_and_the_request_passes() {
    let stack = Stack::of(Script::Model).recall("deadline_ms = 1").start().await;
    stack.tell("ann", "I'm allergic to peanuts.").await;
    let body = json!({"model": "mock", "messages": [{"role": "user", "content": "What can I eat?"}]}).to_string();
    let got = stack.chat(body.clone()).user("ann").send().await.must_be(200);
    assert!(got.memory() == "timeout" || got.memory().starts_with("hit") || got.memory() == "miss", "{}", got.memory());
    if got.memory() == "timeout" {
        assert_eq!(stack.sent().body, body);
    }
}

// Design, section 10: explain shows the same and calls nobody.
#[tokio::test]
async fn explain_shows_what_would_be_sent_and_asks_nobody() {
    let stack = told(TRIPS).await;
    let asked = stack.upstream().accepted();
    let request = json!({"model": "gpt-4o", "messages": [{"role": "user", "content": "What was wrong with the pier at that lake campsite?"}]});
    let explained = stack.ask("POST", "/memory/v1/explain").user("ann").json(&request).send().await.must_be(200).json();
    assert_eq!(stack.upstream().accepted(), asked);
    assert!(explained["request"]["messages"][0]["content"].as_str().unwrap().contains("Inari"), "{explained}");
    assert!(explained["memory"].as_str().unwrap().starts_with("hit"), "{explained}");
    assert_eq!(explained["target"], "upstream/gpt-4o");
    assert!(!explained["recalled"]["why"].as_array().unwrap().is_empty(), "{explained}");
    let got = stack.chat(request.to_string()).user("ann").send().await.must_be(200);
    assert_eq!(stack.sent().json(), explained["request"]);
    assert_eq!(got.memory(), explained["memory"]);
}

// Design, section 10: what people think of an answer moves the scores of what was shown for it, within bounds.
#[tokio::test]
async fn feedback_moves_what_was_shown_and_only_that() {
    let stack = told(TRIPS).await;
    let scores = || async {
        let got = stack.ask("GET", "/memory/v1/episodes?limit=200").user("ann").send().await.must_be(200).json();
        let of = |e: &Value| (e["id"].as_str().unwrap().to_owned(), e["score"].as_f64().unwrap());
        got["data"].as_array().unwrap().iter().map(of).collect::<std::collections::BTreeMap<_, _>>()
    };
    let got = stack.say("ann", "What was wrong with the pier at that lake campsite?").await;
    let exchange = got.header("x-backstory-exchange").to_owned();
    stack.learned().await;
    let before = scores().await;
    let give = |user: &'static str, body: Value| stack.ask("POST", "/memory/v1/feedback").user(user).json(&body).send();
    give("bob", json!({"exchange": exchange, "signal": "bad"})).await.must_be_error(404);
    give("ann", json!({"exchange": exchange, "signal": "so-so"})).await.must_be_error(400);
    give("ann", json!({"exchange": "nothing", "signal": "bad"})).await.must_be_error(400);
    for _ in 0..3 {
        give("ann", json!({"exchange": exchange, "signal": "bad"})).await.must_be(200);
    }
    let record = stack.ask("GET", &format!("/memory/v1/exchanges/{exchange}")).user("ann").send().await.must_be(200);
    let detail = record.json()["detail"].clone();
    assert_eq!(detail["feedback"], "bad");
    let shown: Vec<&str> = detail["episodes"].as_array().unwrap().iter().map(|id| id.as_str().unwrap()).collect();
    assert!(!shown.is_empty(), "{detail}");
    for (id, score) in scores().await {
        let moved = if shown.contains(&id.as_str()) { 0.2 } else { 0.0 };
        assert!((before[&id] - score - moved).abs() < 1e-9, "{id}: {} to {score}", before[&id]);
    }
    give("ann", json!({"exchange": exchange, "signal": "good"})).await.must_be(200);
    assert!(scores().await.iter().all(|(id, score)| *score >= before[id] && *score <= 1.0));
}

// Issue 5, item 5: tags find what they are put on.
#[tokio::test]
async fn a_tag_finds_what_its_text_does_not_say() {
    let stack = told(&[]).await;
    let put = |text: &str, tag: &str| {
        stack.ask("POST", "/memory/v1/episodes").user("ann").json(&json!({"text": text, "tags": [tag]})).send()
    };
    put("Signed the lease for the flat by the canal.", "housing").await.must_be(201);
    put("Bought a new chain and two tyres.", "bicycle").await.must_be(201);
    let shown = stack.shown("ann", "What did I note about my bicycle?").await;
    assert!(shown.contains("tyres") && !shown.contains("lease"), "{shown}");
}
