//! Limits of requests, tokens and money: of keys, people, tenants and models, through the whole gateway.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use backstory::mock::{End, Raw, Script};
use serde_json::{Value, json};

use crate::support::sse::text;
use crate::support::{Got, Stack, eventually, until};

const ONE: &str = "bk-limited-0123456789abcdef";
const TWO: &str = "bk-another-0123456789abcdef";

/// One key with these lines, and memory off.
fn key(secret: &str, tenant: &str, lines: &str) -> String {
    format!("[[keys]]\nkey = \"{secret}\"\ntenant = \"{tenant}\"\nmemory = \"off\"\n{lines}\n")
}

fn hello() -> String {
    json!({"model": "mock", "max_tokens": 10, "messages": [{"role": "user", "content": "Hello there"}]}).to_string()
}

/// Replies whose usage is so many tokens.
fn using(tokens: u64) -> Script {
    let usage = json!({"prompt_tokens": 1, "completion_tokens": tokens - 1, "total_tokens": tokens});
    let choice = json!({"index": 0, "message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"});
    let body = json!({"id": "c", "object": "chat.completion", "model": "mock", "choices": [choice], "usage": usage});
    Script::Raw(Raw::json(200, body.to_string()))
}

async fn ask(stack: &Stack, secret: &str) -> Got {
    stack.chat(hello()).key(secret).send().await
}

fn number(got: &Got, header: &str) -> u64 {
    got.header(header).parse().unwrap_or_else(|_| panic!("{header} in {:?}", got.headers))
}

#[track_caller]
fn refused(got: Got, openai_type: &str, code: &str) -> Value {
    let error = got.must_be_error(429);
    assert_eq!((error["type"].as_str(), error["code"].as_str()), (Some(openai_type), Some(code)), "{error}");
    error
}

// Design, section 10: over the request limit: 429 in OpenAI's shape with Retry-After; every answer tells what is left.
#[tokio::test]
async fn every_answer_of_a_limited_key_tells_what_is_left_and_a_refusal_when_to_come_again() {
    let keys = key(ONE, "one", "requests_per_minute = 3\ntokens_per_minute = 1000");
    let stack = Stack::of(Script::Sequence(vec![using(100), Script::Raw(Raw::error(400, "no")), using(100)]));
    let stack = stack.keys(&keys).start().await;
    let first = ask(&stack, ONE).await.must_be(200);
    assert_eq!(
        (number(&first, "x-ratelimit-limit-requests"), number(&first, "x-ratelimit-remaining-requests")),
        (3, 2)
    );
    assert_eq!(number(&first, "x-ratelimit-limit-tokens"), 1_000);
    assert!(first.header("x-ratelimit-reset-requests").ends_with('s'));
    // An upstream's error is an answer too.
    let second = ask(&stack, ONE).await.must_be(400);
    assert_eq!(number(&second, "x-ratelimit-remaining-requests"), 1);
    ask(&stack, ONE).await.must_be(200);
    let fourth = ask(&stack, ONE).await;
    assert!((1..=20).contains(&number(&fourth, "retry-after")));
    assert!((1..=20_000).contains(&number(&fourth, "retry-after-ms")));
    assert_eq!(number(&fourth, "x-ratelimit-remaining-requests"), 0);
    let error = refused(fourth, "requests", "rate_limit_exceeded");
    let said = error["message"].as_str().unwrap();
    assert!(said.contains("this key") && said.contains("3 requests a minute"), "{said}");
    assert_eq!(stack.upstream().accepted(), 3);
    let metrics = stack.ask("GET", "/metrics").send().await;
    assert!(metrics.text().contains("backstory_limited_total{limit=\"requests_per_minute\",of=\"key\"} 1"));
}

// BerriAI/litellm#18730, #26672: parallel requests at the edge of a budget; only what fits passes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_fifty_parallel_requests_at_99_percent_of_a_budget_only_what_fits_passes() {
    let keys = key(ONE, "one", "tokens_per_day = 100000");
    let stack = Stack::of(using(99_000)).keys(&keys).start().await;
    ask(&stack, ONE).await.must_be(200);
    // 1,000 are left, and each uses 300.
    stack.upstream().set_script(using(300));
    let body =
        json!({"model": "mock", "max_tokens": 290, "messages": [{"role": "user", "content": "Hello"}]}).to_string();
    let all = (0..50).map(|_| stack.chat(body.clone()).key(ONE).send());
    let all = futures_util::future::join_all(all).await;
    let passed = all.iter().filter(|got| got.status.as_u16() == 200).count();
    assert_eq!(passed, 3);
    for got in all.into_iter().filter(|got| got.status.as_u16() != 200) {
        assert_eq!(got.header("x-should-retry"), "false");
        let error = refused(got, "insufficient_quota", "insufficient_quota");
        assert!(error["message"].as_str().unwrap().contains("100000 tokens a day (UTC)"), "{error}");
    }
    assert_eq!(stack.upstream().accepted(), 4);
}

// BerriAI/litellm#6288; maximhq/bifrost#3547: kept over a restart.
#[tokio::test]
async fn a_budget_of_the_month_outlives_a_restart() {
    let keys = key(ONE, "one", "tokens_per_month = 1000");
    let stack = Stack::of(using(900)).keys(&keys).start().await;
    ask(&stack, ONE).await.must_be(200);
    let (_, folder) = stack.stop().await;
    let stack = Stack::of(using(90)).keys(&keys).in_folder(folder).start().await;
    let left = ask(&stack, ONE).await.must_be(200);
    assert!(number(&left, "x-ratelimit-remaining-tokens") <= 100);
    refused(ask(&stack, ONE).await, "insufficient_quota", "insufficient_quota");
}

#[tokio::test]
async fn a_person_a_tenant_and_a_model_have_limits_of_their_own() {
    let keys = key(ONE, "one", "[keys.each_subject]\nrequests_per_minute = 1") + &key(TWO, "one", "");
    let models = "[[models]]\nname = \"small\"\n[[models.targets]]\nprovider = \"upstream\"\nmodel = \"mock\"\n\
                  [models.limits]\nrequests_per_minute = 1\n[limits.tenants.one]\nrequests_per_minute = 6";
    let providers =
        "[[providers]]\nname = \"upstream\"\nbase_url = \"${UPSTREAM}\"\napi_key = \"sk-p\"\ndefault = true\n";
    let stack = Stack::of(Script::Model).keys(&keys).providers(providers).with(models).start().await;
    let by = |secret: &str, user: &str| stack.chat(hello()).key(secret).user(user);
    by(ONE, "ann").send().await.must_be(200);
    let said = refused(by(ONE, "ann").send().await, "requests", "rate_limit_exceeded");
    assert!(said["message"].as_str().unwrap().contains("this user"), "{said}");
    by(ONE, "bob").send().await.must_be(200);
    // The other key says nothing of its people.
    by(TWO, "ann").send().await.must_be(200);

    let small = || by(TWO, "ann").body(hello().replace("\"mock\"", "\"small\""));
    small().send().await.must_be(200);
    let said = refused(small().send().await, "requests", "rate_limit_exceeded");
    assert!(said["message"].as_str().unwrap().contains("this model"), "{said}");
    for _ in 0..2 {
        by(TWO, "ann").send().await.must_be(200);
    }
    let said = refused(by(TWO, "ann").send().await, "requests", "rate_limit_exceeded");
    assert!(said["message"].as_str().unwrap().contains("this tenant"), "{said}");
}

#[tokio::test]
async fn money_counts_by_the_price_of_the_target() {
    let keys = key(ONE, "one", "usd_per_day = 1.0\nmodels = [\"m\"]");
    let model = "[[models]]\nname = \"m\"\n[[models.targets]]\nprovider = \"upstream\"\nmodel = \"mock\"\n\
                 price_input_per_million = 0.0\nprice_output_per_million = 1000.0";
    let stack = Stack::of(using(991)).keys(&keys).with(model).start().await;
    let body = hello().replace("\"mock\"", "\"m\"");
    // 990 × 0.001 dollars.
    stack.chat(body.clone()).key(ONE).send().await.must_be(200);
    stack.chat(body.clone()).key(ONE).send().await.must_be(200);
    let refusal = stack.chat(body).key(ONE).send().await;
    let error = refused(refusal, "insufficient_quota", "insufficient_quota");
    assert!(error["message"].as_str().unwrap().contains("1.00 USD a day (UTC)"), "{error}");
}

#[tokio::test]
async fn what_can_never_pass_says_so_and_is_not_to_be_tried_again() {
    let stack = Stack::of(Script::Model).keys(&key(ONE, "one", "tokens_per_minute = 500")).start().await;
    let long = json!({"model": "mock", "messages": [{"role": "user", "content": "word ".repeat(600)}]}).to_string();
    let got = stack.chat(long).key(ONE).send().await;
    assert_eq!((got.header("x-should-retry"), got.header("retry-after")), ("false", ""));
    let error = refused(got, "tokens", "rate_limit_exceeded");
    assert!(error["message"].as_str().unwrap().contains("never pass"), "{error}");
    assert_eq!(stack.upstream().accepted(), 0);
    ask(&stack, ONE).await.must_be(200);
}

// Embeddings are sent whole, whatever budget a client names: they hold what they need.
#[tokio::test]
async fn no_client_talks_down_what_its_embeddings_need() {
    let stack = Stack::of(Script::Model).keys(&key(ONE, "one", "tokens_per_minute = 500")).start().await;
    let body = json!({"model": "mock", "input": "word ".repeat(600)});
    let ask = stack.ask("POST", "/v1/embeddings").key(ONE).json(&body).header("x-backstory-budget", "1");
    let error = refused(ask.send().await, "tokens", "rate_limit_exceeded");
    assert!(error["message"].as_str().unwrap().contains("never pass"), "{error}");
    assert_eq!(stack.upstream().accepted(), 0);
}

// What failed before a byte of the reply costs nothing but the request.
// What is held for a reply is what the target is asked for, not what its rules replace.
#[tokio::test]
async fn an_output_limit_that_a_rule_sets_counts_for_the_limits_too() {
    let models = "[[models]]\nname = \"mock\"\n[[models.targets]]\nprovider = \"upstream\"\nmodel = \"mock\"\nparams = { set = { max_tokens = 5000 } }\n";
    let stack = Stack::of(Script::Model).keys(&key(ONE, "one", "tokens_per_minute = 500")).with(models).start().await;
    refused(ask(&stack, ONE).await, "tokens", "rate_limit_exceeded");
    assert_eq!(stack.upstream().accepted(), 0);
}

#[tokio::test]
async fn an_upstream_that_fails_costs_no_tokens() {
    let keys = key(ONE, "one", "tokens_per_day = 1000");
    let stack = Stack::of(Script::Raw(Raw::error(500, "down"))).keys(&keys).start().await;
    for _ in 0..60 {
        ask(&stack, ONE).await.must_be(500);
    }
    stack.upstream().set_script(using(500));
    let left = ask(&stack, ONE).await.must_be(200);
    assert!(number(&left, "x-ratelimit-remaining-tokens") > 950, "{:?}", left.headers);
}

#[tokio::test]
async fn a_client_that_leaves_pays_for_what_it_saw() {
    let pieces: Vec<_> = (0..40).map(|n| text(&format!("w{n}"))).collect();
    let stack = Stack::of(Script::Raw(Raw::stream(pieces).ending(End::Stall)))
        .keys(&key(ONE, "one", "tokens_per_day = 10000\nmax_concurrency = 1"))
        .start()
        .await;
    let body =
        json!({"model": "mock", "stream": true, "max_tokens": 5000, "messages": [{"role": "user", "content": "Hi"}]});
    let mut running = stack.chat(body.to_string()).key(ONE).open().await;
    running.read_until("w39").await;
    refused(ask(&stack, ONE).await, "requests", "rate_limit_exceeded");
    drop(running);
    until("the slot is free", || stack.app.limits.running() == 0).await;
    stack.upstream().set_script(using(10));
    let left = number(&ask(&stack, ONE).await.must_be(200), "x-ratelimit-remaining-tokens");
    assert!((9_700..9_950).contains(&left), "{left}");
}

// Upstream is asked for usage where tokens are limited, and the client that did not ask sees none of it (design, doubt 2).
#[tokio::test]
async fn a_stream_is_settled_by_what_upstream_counted() {
    let stack = Stack::of(Script::Model).keys(&key(ONE, "one", "tokens_per_day = 100000")).start().await;
    let body =
        json!({"model": "mock", "stream": true, "max_tokens": 50000, "messages": [{"role": "user", "content": "Hi"}]});
    let got = stack.chat(body.to_string()).key(ONE).send().await.must_be(200);
    assert!(!got.text().contains("prompt_tokens"), "{}", got.text());
    assert_eq!(stack.sent().json()["stream_options"]["include_usage"], true);
    let left = number(&ask(&stack, ONE).await.must_be(200), "x-ratelimit-remaining-tokens");
    assert!(left > 99_000, "{left}");
}

// Design, doubt 19: upstream's own headers pass where we have none; else they are about the operator's account.
#[tokio::test]
async fn upstreams_own_limits_are_shown_to_those_who_have_none_here() {
    let Script::Raw(raw) = using(10) else { unreachable!("it is raw") };
    let raw = raw.with_header("x-ratelimit-remaining-tokens", "7").with_header("x-ratelimit-limit-tokens", "8");
    let keys = key(ONE, "one", "requests_per_minute = 9") + &key(TWO, "two", "");
    let stack = Stack::of(Script::Raw(raw)).keys(&keys).start().await;
    assert_eq!(ask(&stack, TWO).await.must_be(200).header("x-ratelimit-remaining-tokens"), "7");
    let limited = ask(&stack, ONE).await.must_be(200);
    assert_eq!(
        (limited.header("x-ratelimit-remaining-tokens"), limited.header("x-ratelimit-limit-requests")),
        ("", "9")
    );
}

#[tokio::test]
async fn paths_that_are_passed_through_count_as_requests() {
    let keys = key(ONE, "one", "requests_per_minute = 1\npassthrough = [\"/v1/audio/\"]");
    let stack = Stack::of(using(10)).keys(&keys).start().await;
    let speech = || stack.ask("POST", "/v1/audio/speech").key(ONE).json(&json!({}));
    let first = speech().send().await.must_be(200);
    assert_eq!(first.header("x-ratelimit-remaining-requests"), "0");
    refused(speech().send().await, "requests", "rate_limit_exceeded");
    assert_eq!(stack.app.limits.running(), 0);
}

// Without virtual keys each client's own key is a tenant.
#[tokio::test]
async fn in_client_mode_each_client_can_be_limited() {
    let stack =
        Stack::of(Script::Model).client_mode().with("[limits.each_tenant]\nrequests_per_minute = 1").start().await;
    for secret in ["sk-client-one", "sk-client-two"] {
        ask(&stack, secret).await.must_be(200);
        refused(ask(&stack, secret).await, "requests", "rate_limit_exceeded");
    }
}

// A stored key's limits are those of its settings, and a new secret does not make them whole.
#[tokio::test]
async fn a_stored_key_has_limits_and_keeps_its_use_when_it_is_rotated() {
    let stack = Stack::of(using(900)).with("[admin]\nkey = \"admin-key-for-the-tests\"").start().await;
    let admin = |path: &str, body: &Value| stack.ask("POST", path).key("admin-key-for-the-tests").json(body);
    let settings = json!({"memory": "off", "tokens_per_day": 1000, "each_subject": {"requests_per_minute": 50}});
    let wanted = json!({"name": "app", "settings": settings});
    let made = admin("/admin/v1/keys", &wanted).send().await.must_be(201).json();
    let (id, secret) = (made["id"].as_str().unwrap(), made["key"].as_str().unwrap());
    let first = ask(&stack, secret).await.must_be(200);
    assert_eq!(number(&first, "x-ratelimit-limit-tokens"), 1_000);
    let rotated = admin(&format!("/admin/v1/keys/{id}/rotate"), &json!({})).send().await.must_be(200).json();
    let secret = rotated["key"].as_str().unwrap();
    let long = json!({"model": "mock", "max_tokens": 200, "messages": [{"role": "user", "content": "Hi"}]}).to_string();
    refused(stack.chat(long).key(secret).send().await, "insufficient_quota", "insufficient_quota");
}

// Design, doubt 23: 503 only where limits are on that cannot be kept.
#[tokio::test]
async fn without_a_store_only_those_with_a_budget_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("backstory.db"), "this is no database".repeat(500)).unwrap();
    let keys = key(ONE, "one", "tokens_per_day = 1000") + &key(TWO, "two", "tokens_per_minute = 1000");
    let stack = Stack::of(Script::Model).keys(&keys).in_folder(folder).start().await;
    let error = ask(&stack, ONE).await;
    assert_eq!(error.header("retry-after"), "2");
    assert_eq!(error.must_be_error(503)["code"], "overloaded");
    ask(&stack, TWO).await.must_be(200);
}

// All of a request's own parts are limited alike: a stream's slot is its own until the body ends.
#[tokio::test]
async fn a_slot_of_a_key_is_held_until_the_reply_ends() {
    let asked = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&asked);
    let script = Script::from_fn(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        Script::Raw(Raw::stream([text("one")]).ending(End::Stall))
    });
    let stack = Stack::of(script).keys(&key(ONE, "one", "max_concurrency = 2")).start().await;
    let stream = hello().replace("\"max_tokens\"", "\"stream\":true,\"max_tokens\"");
    let mut open = Vec::new();
    for _ in 0..2 {
        let mut running = stack.chat(stream.clone()).key(ONE).open().await;
        running.read_until("one").await;
        open.push(running);
    }
    let third = ask(&stack, ONE).await;
    assert_eq!(third.header("retry-after"), "1");
    refused(third, "requests", "rate_limit_exceeded");
    assert_eq!(asked.load(Ordering::Relaxed), 2);
    open.pop();
    eventually("a slot is free", || async {
        let running = stack.chat(stream.clone()).key(ONE).open().await;
        (running.status.as_u16() == 200).then_some(())
    })
    .await;
}
