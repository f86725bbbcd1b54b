//! Two replicas over one store and one Redis, and a client that hops between them.

use backstory::memory::Scope;
use backstory::mock::{End, Raw, Script};
use backstory::telemetry::{RedisCommand, RedisOutcome};
use serde_json::{Value, json};

use crate::support::sse::text;
use crate::support::stack::Builder;
use crate::support::{Got, KEY, Stack, eventually, redis, until};

/// Two of them, built alike.
async fn two(redis: &str, build: impl Fn(Builder) -> Builder) -> (Stack, Stack) {
    let of = || build(Stack::of(Script::Fixed("I see.".to_owned())).with(redis));
    let one = of().start().await;
    let other = of().beside(&one).start().await;
    (one, other)
}

fn limited(lines: &str) -> String {
    format!("[[keys]]\nkey = \"{KEY}\"\ntenant = \"one\"\nmemory = \"off\"\n{lines}\n")
}

async fn hello(stack: &Stack) -> Got {
    let body = json!({"model": "mock", "max_tokens": 10, "messages": [{"role": "user", "content": "Hello there"}]});
    stack.chat(body.to_string()).send().await
}

fn left(got: &Got, what: &str) -> u64 {
    got.header(&format!("x-ratelimit-remaining-{what}")).parse().unwrap()
}

async fn erase(stack: &Stack, user: &str) {
    let receipt: Value = stack.ask("DELETE", "/memory/v1/subject").user(user).send().await.must_be(200).json();
    assert_eq!(receipt["subject"], user);
}

/// An address of nobody: replicas that hear nothing of each other.
const NO_REDIS: &str = "[redis]\nurl = \"redis://127.0.0.1:1\"\n";
const QUESTION: &str = "Which nuts must I avoid?";

// BerriAI/litellm#6288; maximhq/bifrost#3547: limits over replicas are shared, with a stated accuracy.
#[tokio::test]
async fn a_limit_is_that_of_all_replicas_together_and_each_tells_what_is_left_of_it() {
    let Some(redis) = redis::shared() else { return };
    let keys = limited("requests_per_minute = 4\ntokens_per_minute = 100000");
    let (one, other) = two(&redis, |builder| builder.keys(&keys)).await;
    for (at, stack) in [&one, &other, &one, &other].into_iter().enumerate() {
        let got = hello(stack).await.must_be(200);
        assert_eq!(left(&got, "requests"), 3 - at as u64);
        assert!(left(&got, "tokens") < 100_000);
    }
    for stack in [&one, &other] {
        let refused = hello(stack).await;
        assert_eq!(left(&refused, "requests"), 0);
        let error = refused.must_be_error(429);
        assert!(error["message"].as_str().unwrap().contains("this key is reached: 4 requests a minute"), "{error}");
    }
    assert_eq!(one.upstream().accepted() + other.upstream().accepted(), 4);
}

#[tokio::test]
async fn a_request_that_runs_on_one_replica_takes_the_slot_on_the_other() {
    let Some(redis) = redis::shared() else { return };
    let keys = limited("max_concurrency = 1");
    let (one, other) = two(&redis, |builder| builder.keys(&keys)).await;
    one.upstream().set_script(Script::Raw(Raw::stream([text("I see")]).ending(End::Stall)));
    let body = json!({"model": "mock", "stream": true, "messages": [{"role": "user", "content": "Hello"}]}).to_string();
    let mut running = one.chat(body).open().await;
    running.read_until("I see").await;
    let error = hello(&other).await.must_be_error(429);
    assert!(error["message"].as_str().unwrap().contains("1 request at a time"), "{error}");
    drop(running);
    eventually("the slot is free", || async { (hello(&other).await.status == 200).then_some(()) }).await;
}

#[tokio::test]
async fn who_has_no_limits_of_the_minute_asks_redis_nothing() {
    let Some(redis) = redis::shared() else { return };
    let keys = limited("tokens_per_day = 100000");
    let (one, _other) = two(&redis, |builder| builder.keys(&keys)).await;
    hello(&one).await.must_be(200);
    let asked = [RedisOutcome::Ok, RedisOutcome::Late, RedisOutcome::Failed, RedisOutcome::Skipped];
    assert!(asked.iter().all(|outcome| one.app.metrics.redis_commands.get(RedisCommand::Take, *outcome) == 0));
}

#[tokio::test]
async fn what_one_learns_the_other_knows_though_it_held_the_scope_before() {
    for redis in [redis::shared(), Some(NO_REDIS.to_owned())].into_iter().flatten() {
        let (one, other) = two(&redis, |builder| builder).await;
        assert_eq!(other.shown("ann", QUESTION).await, "");
        one.tell("ann", "I'm allergic to peanuts.").await;
        assert!(other.shown("ann", QUESTION).await.contains("peanuts"));
        other.tell("ann", "I'm allergic to walnuts.").await;
        assert!(one.shown("ann", QUESTION).await.contains("walnuts"));
    }
}

#[tokio::test]
async fn a_tool_loop_goes_on_at_another_replica_with_the_same_bytes() {
    let Some(redis) = redis::shared() else { return };
    let (one, other) = two(&redis, |builder| builder).await;
    one.tell("ann", "I'm allergic to peanuts.").await;
    let question = json!({"role": "user", "content": QUESTION});
    one.talk("ann", json!([question])).await;
    let shown = one.sent().json()["messages"][0].clone();
    assert!(shown.to_string().contains("peanuts"));
    // What is learned meanwhile is not shown within the turn.
    one.tell("ann", "I'm allergic to walnuts.").await;
    let call = json!({"role": "assistant", "content": null, "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]});
    other.talk("ann", json!([question, call, {"role": "tool", "tool_call_id": "c", "content": "done"}])).await;
    assert_eq!(other.sent().json()["messages"][0], shown);
    assert!(other.app.metrics.redis_commands.get(RedisCommand::Read, RedisOutcome::Ok) > 0);
}

// The cut is replayed over the conversation, not remembered: whichever replica is asked cuts at the same place.
#[tokio::test]
async fn a_growing_chat_that_hops_is_cut_as_if_it_had_stayed() {
    let Some(redis) = redis::shared() else { return };
    let budget = |builder: Builder| builder.with("[budget]\nmax_input_tokens = 1000");
    let (one, other) = two(&redis, budget).await;
    let alone = budget(Stack::of(Script::Fixed("I see.".to_owned()))).start().await;
    let (mut messages, mut cuts) = (Vec::new(), Vec::new());
    for turn in 0..40 {
        let asked =
            format!("Turn {turn}: what do you think of {}?", "the lantern in the garden behind our house ".repeat(4));
        messages.push(json!({"role": "user", "content": asked}));
        let body = json!({"model": "gpt-4o", "messages": messages}).to_string();
        let hops = if turn % 2 == 0 { &one } else { &other };
        let mut sent = Vec::new();
        for stack in [hops, &alone] {
            let off = stack.chat(body.clone()).user("ann").header("x-backstory-memory", "off");
            let cut = off.send().await.must_be(200).context("cut");
            sent.push((cut, stack.sent().json()["messages"].clone()));
        }
        assert_eq!(sent[0], sent[1], "turn {turn}");
        cuts.push(sent[0].0);
        messages.push(json!({"role": "assistant", "content": "I see."}));
    }
    cuts.dedup();
    assert!(cuts.len() > 3, "{cuts:?}");
}

#[tokio::test]
async fn an_erasure_reaches_what_the_other_replica_holds_at_once() {
    let Some(redis) = redis::shared() else { return };
    let (one, other) = two(&redis, |builder| builder).await;
    one.tell("ann", "I'm allergic to peanuts.").await;
    assert!(other.shown("ann", QUESTION).await.contains("peanuts"));
    let scope = Scope::new("one", "default", "ann");
    until("the other listens", || other.app.metrics.render().contains("backstory_redis_hears 1")).await;
    other.shown("ann", QUESTION).await;
    assert!(other.app.recall.facts_now(&scope).is_some());
    erase(&one, "ann").await;
    // Nobody asks it anything meanwhile.
    until("the other has dropped it", || other.app.recall.facts_now(&scope).is_none()).await;
    assert_eq!(other.shown("ann", QUESTION).await, "");
}

// Design, section 12: nothing erased is ever shown; messages only make it faster.
#[tokio::test]
async fn a_replica_that_hears_nothing_shows_nothing_that_another_one_erased() {
    let (one, other) = two(NO_REDIS, |builder| builder).await;
    one.tell("ann", "I'm allergic to peanuts.").await;
    let question = json!({"role": "user", "content": QUESTION});
    other.talk("ann", json!([question])).await;
    assert!(other.sent().json().to_string().contains("peanuts"));
    erase(&one, "ann").await;
    assert_eq!(other.shown("ann", QUESTION).await, "");
    // Nor in a tool loop, whose block was pinned before.
    let call = json!({"role": "assistant", "content": null, "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]});
    other.talk("ann", json!([question, call, {"role": "tool", "tool_call_id": "c", "content": "done"}])).await;
    assert!(!other.sent().json().to_string().contains("peanuts"));
}
