//! Targets: conditions, parameter rules, aliases, least latency, windows, and names that nobody configured.

use backstory::mock::Script;
use serde_json::{Value, json};

use crate::support::raw::{REPLY, RawServer, Step, json_answer};
use crate::support::{Got, KEY, Stack};

const TWO_PROVIDERS: &str = "[[providers]]\nname = \"p1\"\nbase_url = \"${UPSTREAM}\"\n[[providers]]\nname = \"p2\"\nbase_url = \"${UPSTREAM_2}\"\n";

/// A target of `[[models]]`.
fn target(provider: &str, order: u32, more: &str) -> String {
    format!("[[models.targets]]\nprovider = \"{provider}\"\nmodel = \"mock\"\norder = {order}\n{more}\n")
}

async fn two_targets(first: &str, second: &str) -> Stack {
    let model = format!("[[models]]\nname = \"chain\"\n{}{}", target("p1", 1, first), target("p2", 2, second));
    Stack::of(Script::Model).upstream(Script::Model).providers(TWO_PROVIDERS).with(&model).start().await
}

fn hello() -> Value {
    json!({"model": "chain", "messages": [{"role": "user", "content": "Hello there"}]})
}

fn with(name: &str, value: Value) -> Value {
    let mut body = hello();
    body[name] = value;
    body
}

async fn ask(stack: &Stack, body: &Value) -> Got {
    stack.chat(body.to_string()).user("ann").send().await
}

/// Who answered.
async fn answers(stack: &Stack, body: &Value) -> String {
    let got = ask(stack, body).await.must_be(200);
    got.header("x-backstory-target").split('/').next().unwrap().to_owned()
}

#[tokio::test]
async fn a_target_takes_only_the_requests_that_its_conditions_name() {
    let tools = with("tools", json!([{"type": "function", "function": {"name": "f", "parameters": {}}}]));
    let image = json!({"model": "chain", "messages": [{"role": "user", "content": [
        {"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]}]});
    let long = json!({"model": "chain", "messages": [{"role": "user", "content": "word ".repeat(500)}]});
    for (when, taken) in [
        ("when = { tools = true }", &tools),
        ("when = { images = true }", &image),
        ("when = { stream = true }", &with("stream", json!(true))),
        ("when = { min_input_tokens = 300 }", &long),
    ] {
        let stack = two_targets(when, "").await;
        assert_eq!(answers(&stack, taken).await, "p1", "{when}");
        assert_eq!(answers(&stack, &hello()).await, "p2", "{when}");
    }
    let stack = two_targets("when = { tools = false, max_input_tokens = 100 }", "when = { tools = true }").await;
    assert_eq!(answers(&stack, &hello()).await, "p1");
    assert_eq!(answers(&stack, &tools).await, "p2");
    let error = ask(&stack, &long).await.must_be_error(400);
    assert!(error["message"].as_str().unwrap().contains("no target"), "{error}");
}

// What nobody touched leaves byte for byte; rules are of a target, and a fallback begins with the client's own body.
#[tokio::test]
async fn parameter_rules_change_what_they_name_and_a_fallback_begins_anew() {
    let rules = "[models.targets.params]\nset = { \"reasoning.effort\" = \"low\" }\ndefault = { top_p = 0.9 }\ndrop = [\"logit_bias\"]\nrename = { max_tokens = \"max_completion_tokens\" }";
    let stack = two_targets(rules, "").await;
    let body = r#"{ "model":"chain" , "max_tokens":16, "logit_bias":{"1":-1},"temperature":1.10,"seed":12345678901234567890,
        "messages":[{"role":"user","content":"Hello there"}],"x":null}"#;
    let send = || stack.chat(body).without("x-backstory-user").send();
    send().await.must_be(200);
    let sent = stack.upstreams[0].last_request().unwrap();
    let expected = r#"{ "model":"mock" , "max_completion_tokens":16,"temperature":1.10,"seed":12345678901234567890,
        "messages":[{"role":"user","content":"Hello there"}],"x":null,"reasoning":{"effort":"low"},"top_p":0.9}"#;
    assert_eq!(std::str::from_utf8(&sent.body).unwrap(), expected);
    stack.upstreams[0].set_script(Script::As("mock-error-500"));
    send().await.must_be(200);
    let sent = stack.upstreams[1].last_request().unwrap();
    assert_eq!(std::str::from_utf8(&sent.body).unwrap(), body.replace("\"chain\"", "\"mock\""));
    // Embeddings have parameters, too.
    let ask = stack.ask("POST", "/v1/embeddings").json(&json!({"model": "chain", "input": "x", "logit_bias": 1}));
    stack.upstreams[0].set_script(Script::Model);
    ask.send().await.must_be(200);
    assert_eq!(stack.upstreams[0].last_request().unwrap().json()["top_p"], 0.9);
}

// The room for the reply is that of the request as the target gets it.
#[tokio::test]
async fn a_rule_that_sets_the_output_limit_counts_for_the_window() {
    let stack = two_targets("window = 4000\nparams = { set = { max_tokens = 3000 } }", "").await;
    let long = "A sentence of quite a few words, said again and again. ".repeat(60);
    let messages: Vec<Value> = (0..6)
        .map(|at| json!({"role": if at % 2 == 0 { "user" } else { "assistant" }, "content": format!("{at} {long}")}))
        .chain([json!({"role": "user", "content": "And now?"})])
        .collect();
    stack.upstreams[1].set_script(Script::As("mock-error-500"));
    let got = ask(&stack, &json!({"model": "chain", "messages": messages})).await;
    assert!(got.context("budget") <= 1000, "{}", got.header("x-backstory-context"));
}

#[tokio::test]
async fn a_rule_that_sets_the_output_limit_decides_which_target_holds_a_request() {
    let stack = two_targets("window = 9000\nparams = { set = { max_tokens = 8000 } }", "window = 60000").await;
    let long = "A sentence of quite a few words, said again and again. ".repeat(200);
    assert_eq!(answers(&stack, &hello()).await, "p1");
    let body = json!({"model": "chain", "messages": [{"role": "user", "content": long}]});
    assert_eq!(answers(&stack, &body).await, "p2");
}

// Filtered by window before anything is sent: what the first one could only take cut goes to the one that holds it.
#[tokio::test]
async fn a_request_goes_to_a_target_that_holds_it_whole() {
    let stack = two_targets("window = 2000", "window = 60000").await;
    let long = "A sentence of quite a few words, said again and again. ".repeat(60);
    let messages: Vec<Value> = (0..8)
        .map(|at| json!({"role": if at % 2 == 0 { "user" } else { "assistant" }, "content": format!("{at} {long}")}))
        .chain([json!({"role": "user", "content": "And now?"})])
        .collect();
    let body = json!({"model": "chain", "messages": messages});
    assert_eq!(answers(&stack, &hello()).await, "p1");
    let got = ask(&stack, &body).await.must_be(200);
    assert_eq!((got.header("x-backstory-target"), got.context("cut")), ("p2/mock; attempts=1", 0));
    // When that one fails, the smaller one gets it cut for its own window, from the client's own body.
    stack.upstreams[1].set_script(Script::As("mock-error-500"));
    let got = ask(&stack, &body).await.must_be(200);
    assert_eq!(got.header("x-backstory-target"), "p1/mock; attempts=2");
    assert!(got.context("cut") > 0 && got.context("sent") <= 2000, "{}", got.header("x-backstory-context"));
}

// Design, doubt 7: an upstream's own error is worth more than our refusal to ask a later target.
#[tokio::test]
async fn an_upstreams_error_is_not_replaced_by_a_target_that_cannot_hold_the_request() {
    let stack = two_targets("window = 60000", "window = 200").await;
    let body = json!({"model": "chain", "messages": [{"role": "user", "content": "word ".repeat(2000)}]});
    stack.upstreams[0].set_script(Script::As("mock-error-503"));
    assert_eq!(ask(&stack, &body).await.must_be(503).header("x-backstory-target"), "p1/mock; attempts=1");
    assert_eq!(stack.upstreams[1].accepted(), 0);
}

#[tokio::test]
async fn the_fastest_target_goes_first_and_new_ones_are_tried() {
    let model = format!(
        "[[models]]\nname = \"chain\"\npick = \"least-latency\"\n{}{}",
        target("p1", 1, ""),
        target("p2", 1, "")
    );
    let stack = Stack::of(Script::As("mock-late-header-150"))
        .upstream(Script::Model)
        .providers(TWO_PROVIDERS)
        .with(&model)
        .start()
        .await;
    for _ in 0..8 {
        ask(&stack, &hello()).await.must_be(200);
    }
    assert_eq!(stack.upstreams[0].accepted(), 1, "tried once, and found slow");
    assert_eq!(stack.upstreams[1].accepted(), 7);
}

#[tokio::test]
async fn an_alias_is_another_name_for_a_model() {
    let model = format!(
        "[[models]]\nname = \"chain\"\n{}[[models]]\nname = \"quick\"\nalias = \"chain\"\n[[models]]\nname = \"quicker\"\nalias = \"quick\"\n",
        target("p1", 1, "")
    );
    let keys = format!("[[keys]]\nkey = \"{KEY}\"\n[[keys]]\nkey = \"bk-quick-0123456789\"\nmodels = [\"quick\"]\n");
    let stack = Stack::of(Script::Model)
        .upstream(Script::Model)
        .providers(TWO_PROVIDERS)
        .with(&model)
        .keys(&keys)
        .start()
        .await;
    for name in ["chain", "quick", "quicker"] {
        assert_eq!(answers(&stack, &with("model", json!(name))).await, "p1");
        assert_eq!(stack.sent().json()["model"], "mock");
    }
    let names = stack.ask("GET", "/v1/models").send().await.json();
    let names: Vec<&str> = names["data"].as_array().unwrap().iter().map(|m| m["id"].as_str().unwrap()).collect();
    assert_eq!(names, ["chain", "quick", "quicker"]);
    // A key that may use the alias may not use what it stands for.
    let ask = |name: &str| stack.chat(with("model", json!(name)).to_string()).key("bk-quick-0123456789").send();
    ask("quick").await.must_be(200);
    let error = ask("chain").await.must_be_error(404);
    assert_eq!(error["code"], "model_not_found");
    assert!(!error["message"].as_str().unwrap().contains("quicker"), "only what the key may use is named: {error}");
}

#[tokio::test]
async fn an_unknown_model_passes_or_is_rejected_with_near_names_as_configured() {
    let providers = format!("{TWO_PROVIDERS}default = true\n");
    let model = format!("[[models]]\nname = \"assistant\"\n{}", target("p1", 1, ""));
    let start = |setting: &str| {
        let text = format!("[routing]\nunknown_models = \"{setting}\"\n{model}");
        Stack::of(Script::Model).upstream(Script::Model).providers(&providers).with(&text).start()
    };
    let stack = start("pass").await;
    assert_eq!(answers(&stack, &with("model", json!("mock-echo"))).await, "p2");
    let stack = start("reject").await;
    let error = ask(&stack, &with("model", json!("asistant"))).await.must_be_error(404);
    assert_eq!((error["code"].as_str(), error["param"].as_str()), (Some("model_not_found"), Some("model")));
    assert!(error["message"].as_str().unwrap().ends_with("near it are assistant"), "{error}");
    assert_eq!(stack.upstreams[1].accepted(), 0);
    // Paths that are passed through still have their provider.
    stack.ask("GET", "/v1/audio/voices").send().await.must_be(200);
    assert_eq!(stack.upstreams[1].accepted(), 1);
}

// Without configured names a client may ask for whatever upstream has, and is told what that is.
#[tokio::test]
async fn models_of_a_default_provider_are_listed_by_it_or_by_the_keys_own_list() {
    let keys =
        format!("[[keys]]\nkey = \"{KEY}\"\n[[keys]]\nkey = \"bk-limited-0123456789\"\nmodels = [\"mock-echo\"]\n");
    let providers = "[[providers]]\nname = \"p1\"\nbase_url = \"${UPSTREAM}\"\ndefault = true\n";
    let stack = Stack::of(Script::Model).providers(providers).keys(&keys).start().await;
    let list = stack.ask("GET", "/v1/models").send().await.must_be(200).json();
    assert!(list["data"].as_array().unwrap().len() > 1, "upstream's own list: {list}");
    let one = stack.ask("GET", "/v1/models/mock-fixed").send().await.must_be(200).json();
    assert_eq!(one["id"], "mock-fixed");
    let limited = |path: &str| stack.ask("GET", path).key("bk-limited-0123456789").send();
    let list = limited("/v1/models").await.must_be(200).json();
    assert_eq!(list["data"].as_array().unwrap().len(), 1, "{list}");
    assert_eq!(limited("/v1/models/mock-echo").await.must_be(200).json()["id"], "mock-echo");
    limited("/v1/models/mock-fixed").await.must_be_error(404);
}

// A proxy is used for its provider, and for no other; its password is nowhere to be seen.
#[tokio::test]
async fn a_provider_is_reached_through_its_proxy() {
    let proxy = RawServer::start(|_| Step::Say(json_answer("", REPLY))).await;
    let stack = Stack::of(Script::Model)
        .env("PROXY", &format!("http://user:proxypassword@{}", proxy.addr))
        .providers("[[providers]]\nname = \"p1\"\nbase_url = \"http://upstream.invalid/v1\"\nproxy = \"${PROXY}\"\n[[providers]]\nname = \"p2\"\nbase_url = \"${UPSTREAM}\"\n")
        .with(&format!("[[models]]\nname = \"chain\"\n{}[[models]]\nname = \"other\"\n{}", target("p1", 1, ""), target("p2", 1, "")))
        .start()
        .await;
    let got = ask(&stack, &hello()).await.must_be(200);
    assert_eq!(got.json()["choices"][0]["message"]["content"], "raw");
    assert_eq!(proxy.accepted(), 1);
    assert_eq!(answers(&stack, &with("model", json!("other"))).await, "p2");
    assert_eq!(proxy.accepted(), 1);
    assert!(!crate::support::log::contains("proxypassword"));
}
