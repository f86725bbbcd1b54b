//! Whose budget holds, what it does to a request, and what `explain` says of it.

use backstory::mock::{Raw, Script};
use serde_json::{Value, json};

use crate::support::binary::run;
use crate::support::{Got, KEY, Stack};

const TIGHT: &str = "bk-virtual-tight-0123456789";
const AGENT: &str = "bk-virtual-agent-0123456789";
const STRICT: &str = "bk-virtual-strict-012345678";
const SINGLE: &str = "bk-virtual-single-012345678";

const KEYS: &str = r#"
[[keys]]
key = "${KEY}"
[[keys]]
key = "bk-virtual-tight-0123456789"
max_input_tokens = 600
[[keys]]
key = "bk-virtual-agent-0123456789"
[keys.budget]
max_input_tokens = 2500
profile = "task"
[[keys]]
key = "bk-virtual-strict-012345678"
[keys.budget]
max_input_tokens = 600
overflow = "reject"
[[keys]]
key = "bk-virtual-single-012345678"
[keys.budget]
profile = "single"
"#;

const MODELS: &str = r#"
[budget]
max_input_tokens = 5000
[[models]]
name = "small"
[[models.targets]]
provider = "upstream"
model = "gpt-4o"
[models.budget]
max_input_tokens = 400
[[models]]
name = "wide"
[[models.targets]]
provider = "upstream"
model = "gpt-4o"
"#;

fn reply() -> Script {
    Script::Raw(Raw::json(
        200,
        r#"{"choices":[{"index":0,"message":{"role":"assistant","content":"ok"},"finish_reason":"stop"}]}"#,
    ))
}

async fn stack() -> Stack {
    Stack::of(reply()).keys(KEYS).with(MODELS).start().await
}

/// `n` turns of some 60 tokens.
fn history(n: usize) -> Vec<Value> {
    let mut messages = vec![json!({"role": "system", "content": "Be brief."})];
    for turn in 0..n {
        messages.push(json!({"role": "user", "content": format!("turn {turn}: {}", "and then some more ".repeat(12))}));
        messages.push(json!({"role": "assistant", "content": format!("answer {turn}")}));
    }
    messages.push(json!({"role": "user", "content": "And what now?"}));
    messages
}

async fn ask(stack: &Stack, key: &str, model: &str, messages: &[Value], header: Option<usize>) -> Got {
    let ask = stack.chat(json!({"model": model, "messages": messages}).to_string()).key(key).user("ann");
    match header {
        Some(budget) => ask.header("x-backstory-budget", &budget.to_string()).send().await,
        None => ask.send().await,
    }
}

// Issue 3, item 6: policies per key, model and request.
#[tokio::test]
async fn of_all_caps_the_tightest_holds() {
    let stack = stack().await;
    let cases =
        [(KEY, "wide", None, 5000), (KEY, "small", None, 400), (TIGHT, "wide", None, 600), (TIGHT, "small", None, 400)];
    let headers = [(TIGHT, "wide", Some(300), 300), (TIGHT, "small", Some(9000), 400)];
    for (key, model, header, budget) in cases.into_iter().chain(headers) {
        let got = ask(&stack, key, model, &history(30), header).await.must_be(200);
        assert_eq!(got.context("budget"), budget, "{model}");
        assert!(got.context("sent") <= budget);
        assert_eq!(got.context("cut") > 0, budget < 2000, "{model} {budget}");
    }
}

#[tokio::test]
async fn reject_never_cuts_and_says_which_part_is_how_large() {
    let stack = stack().await;
    let error = ask(&stack, STRICT, "wide", &history(30), None).await.must_be_error(400);
    assert_eq!((error["code"].as_str(), error["param"].as_str()), (Some("context_length_exceeded"), Some("messages")));
    let message = error["message"].as_str().unwrap();
    for part in ["system 7", "tools 0", "response_format 0", "history ", "newest turn ", "memory 0", "messages["] {
        assert!(message.contains(part), "{part} in {message}");
    }
    assert_eq!(stack.upstream().accepted(), 0);
    ask(&stack, STRICT, "wide", &history(3), None).await.must_be(200);
}

#[tokio::test]
async fn single_questions_have_no_memory_and_still_a_window() {
    let stack = stack().await;
    let told = [json!({"role": "user", "content": "I'm allergic to peanuts."})];
    let got = ask(&stack, SINGLE, "small", &told, None).await.must_be(200);
    assert_eq!(got.memory(), "skipped; reason=profile");
    stack.learned().await;
    assert!(stack.facts("ann").await.is_empty());
    let got = ask(&stack, SINGLE, "small", &history(30), None).await.must_be(200);
    assert!(got.context("cut") > 0 && got.context("sent") <= 400);
}

#[tokio::test]
async fn for_tasks_results_are_shortened_first_and_between_budgets_they_stay_as_they_were() {
    let stack = stack().await;
    let mut messages = vec![json!({"role": "user", "content": "Find it."})];
    let mut before: Option<Vec<Value>> = None;
    let mut moves = 0;
    for n in 0..12 {
        let id = format!("c{n}");
        messages.push(json!({"role": "assistant", "content": null, "tool_calls": [{"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}}]}));
        let result = format!("begin{n} {}end{n}", "row ".repeat(900));
        messages.push(json!({"role": "tool", "tool_call_id": id, "content": result}));
        let got = ask(&stack, AGENT, "wide", &messages, None).await;
        if got.status.as_u16() == 400 {
            // Twelve results do not fit, even short.
            assert!(n > 5);
            return;
        }
        assert!(got.context("sent") <= 2500 && got.context("cut") == 0, "{}", got.header("x-backstory-context"));
        let sent = stack.sent().json()["messages"].as_array().unwrap().clone();
        assert_eq!(sent.last(), messages.last(), "the newest result is whole");
        if let Some(before) = before {
            moves += usize::from(sent[..before.len()] != before[..]);
        }
        before = Some(sent);
    }
    assert!(moves < 12, "{moves}");
}

// Issue 3, bad input.
#[tokio::test]
async fn a_budget_smaller_than_the_system_prompt_is_400_and_names_it() {
    let stack = stack().await;
    let messages =
        [json!({"role": "system", "content": "You are kind. ".repeat(200)}), json!({"role": "user", "content": "hi"})];
    let error = ask(&stack, KEY, "small", &messages, None).await.must_be_error(400);
    assert_eq!(error["code"], "context_length_exceeded");
    assert!(error["message"].as_str().unwrap().contains("messages[0] (system): "), "{error}");
    let messages = [messages[1].clone(), messages[0].clone(), messages[1].clone()];
    ask(&stack, KEY, "small", &messages, None).await.must_be_error(400);
}

#[tokio::test]
async fn an_unknown_window_cuts_nothing() {
    let stack = Stack::new(reply()).await;
    let body = json!({"model": "a-model-nobody-knows", "messages": history(400)}).to_string();
    let got = stack.chat(body.clone()).user("ann").send().await.must_be(200);
    assert_eq!(stack.sent().body, body);
    assert!(!got.header("x-backstory-context").contains("budget"), "{}", got.header("x-backstory-context"));
}

#[tokio::test]
async fn nonsense_in_max_tokens_passes_and_leaves_a_budget() {
    let stack = Stack::new(reply()).await;
    for value in ["0", "-7", "\"many\"", "\"9\"", "null", "1e99", "128000", "99999999999999999999", "[]", "1.5"] {
        let body =
            format!(r#"{{"model":"gpt-4o","max_tokens":{value},"messages":[{{"role":"user","content":"hi"}}]}}"#);
        let got = stack.chat(body.clone()).user("ann").send().await.must_be(200);
        assert_eq!(stack.sent().body, body, "it is upstream's to refuse");
        assert!(got.context("budget") > 10_000, "{value}: {}", got.header("x-backstory-context"));
    }
}

#[tokio::test]
async fn data_urls_that_are_no_images_count_and_pass() {
    let stack = Stack::new(reply()).await;
    for url in [
        "data:image/png;base64,aGVsbG8=",
        "data:image/png;base64,!!!",
        "data:,",
        "data:text/html,<b>",
        "",
        "data:image/png;base64,iVBORw0KGgo",
        "ftp://x",
    ] {
        let part = json!({"type": "image_url", "image_url": {"url": url}});
        let messages = json!([{"role": "user", "content": [{"type": "text", "text": "What is it?"}, part]}]);
        let body = json!({"model": "gpt-4o", "messages": messages}).to_string();
        let got = stack.chat(body.clone()).user("ann").send().await.must_be(200);
        assert_eq!(stack.sent().body, body);
        assert!((50..3000).contains(&got.context("counted")), "{url}: {}", got.header("x-backstory-context"));
    }
    let odd = json!([{"role": "user", "content": [{"type": "image_url"}, {"type": "image_url", "image_url": 7}]}]);
    let body = json!({"model": "gpt-4o", "messages": odd}).to_string();
    stack.chat(body).user("ann").send().await.must_be(200);
}

// Issue 3, item 7.
#[tokio::test]
async fn explain_says_what_stays_what_goes_and_why() {
    let stack = stack().await;
    let request = json!({"model": "wide", "max_tokens": 100, "messages": history(120)});
    let got = stack.ask("POST", "/memory/v1/explain").user("ann").json(&request).send().await.must_be(200).json();
    let rows = got["tokens"]["messages"].as_array().unwrap();
    assert_eq!(rows.len(), 242);
    assert_eq!((rows[0]["fate"].as_str(), rows[0]["why"].as_str()), (Some("pinned"), Some("instructions stay")));
    assert_eq!((rows[1]["fate"].as_str(), rows[1]["why"].as_str()), (Some("cut"), Some("oldest turns go first")));
    assert_eq!((rows[1]["sent"].as_u64(), rows[241]["why"].as_str()), (Some(0), Some("newest turn stays")));
    assert_eq!(got["tokens"]["allowance"]["output_reserve"], 100);
    assert!(
        got["tokens"]["allowance"]["why"]
            .as_str()
            .unwrap()
            .starts_with("5000: the smallest of max_input_tokens 5000, window 128000"),
        "{got}"
    );
    assert!(got["tokens"]["why"].as_str().unwrap().contains("messages left out"), "{got}");
    assert!(got["digest"].as_str().unwrap().starts_with("<backstory-notes>"), "{got}");
    let sum: u64 = rows.iter().map(|row| row["sent"].as_u64().unwrap()).sum::<u64>()
        + ["fixed", "memory", "digest"].iter().map(|part| got["tokens"][part].as_u64().unwrap()).sum::<u64>();
    assert_eq!(got["tokens"]["sent"].as_u64(), Some(sum));
    assert_eq!(stack.upstream().accepted(), 0);
}

// Issue 3, item 7: a policy is chosen before it is enforced.
#[tokio::test]
async fn a_dry_run_replays_a_conversation_and_asks_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("chat.json");
    std::fs::write(&file, json!({"model": "gpt-4o", "messages": history(60)}).to_string()).unwrap();
    let file = file.to_str().unwrap();
    let args = ["explain", "--dry-run", "--max-input-tokens", "1000", "--recollection-tokens", "80", "--json", file];
    let (code, out, err) = run(&args, &[("HOME", folder.path().to_str().unwrap())]).await;
    assert_eq!(code, 0, "{err}");
    let replay: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(replay["requests"].as_array().unwrap().len(), 61);
    let totals = &replay["totals"];
    assert!(totals["cuts"].as_u64().unwrap() >= 3 && totals["saved"].as_i64().unwrap() > 0, "{totals}");
    assert!(
        totals["prefix"]["chat"]["ratio"].as_f64() < totals["prefix_without"]["chat"]["ratio"].as_f64(),
        "{totals}"
    );
    let (code, out, _) = run(&["explain", "--dry-run", "--max-input-tokens", "1000", file], &[]).await;
    assert_eq!(code, 0);
    assert!(out.contains("in the common prefix with the request before") && out.contains("  cut\n"), "{out}");
}
