//! A Redis that is away, killed, wrongly set up, or another cluster's: it never costs a request more than a moment.

use backstory::mock::Script;
use backstory::telemetry::{RedisCommand, RedisOutcome};
use serde_json::json;

use crate::support::redis::{self, OwnRedis};
use crate::support::{Got, KEY, Stack, log, until};

async fn hello(stack: &Stack) -> Got {
    let body = json!({"model": "mock", "max_tokens": 10, "messages": [{"role": "user", "content": "Hello there"}]});
    stack.chat(body.to_string()).send().await
}

fn limited(per_minute: u64) -> String {
    format!("[[keys]]\nkey = \"{KEY}\"\ntenant = \"one\"\nmemory = \"off\"\nrequests_per_minute = {per_minute}\n")
}

fn is(stack: &Stack, line: &str) -> bool {
    stack.app.metrics.render().lines().any(|l| l == line)
}

async fn readiness(stack: &Stack) -> serde_json::Value {
    stack.ask("GET", "/readyz").send().await.must_be(200).json()
}

#[tokio::test]
async fn without_redis_the_gateway_starts_has_limits_of_its_own_and_says_so() {
    let stack = Stack::of(Script::Model).keys(&limited(2)).with("[redis]\nurl = \"redis://127.0.0.1:1\"").start().await;
    for status in [200, 200, 429] {
        assert_eq!(hello(&stack).await.status, status);
    }
    assert!(is(&stack, "backstory_redis_up 0") && is(&stack, "backstory_limits_local_total 3"));
    let ready = readiness(&stack).await;
    assert_eq!(ready["status"], "degraded");
    assert!(ready["redis"].as_str().unwrap().contains("cannot be reached"), "{ready}");
    assert!(log::has_line_with(&["WARN", "Redis is not used", "[redis] url"]));
}

#[tokio::test]
async fn a_redis_that_is_killed_while_requests_run_costs_none_of_them_and_is_used_again() {
    let Some(mut server) = OwnRedis::start(&[]).await else { return };
    let lines = redis::lines(&server.url());
    let of = || Stack::of(Script::Model).keys(&limited(1_000)).with(&lines);
    let one = of().start().await;
    let other = of().beside(&one).start().await;
    let decided_by_redis = |stack: &Stack| stack.app.metrics.redis_commands.get(RedisCommand::Take, RedisOutcome::Ok);
    for stack in [&one, &other] {
        hello(stack).await.must_be(200);
        assert_eq!(decided_by_redis(stack), 1);
    }
    assert_eq!(readiness(&one).await["redis"], "ok");
    server.kill();
    for _ in 0..20 {
        hello(&one).await.must_be(200);
        hello(&other).await.must_be(200);
    }
    for stack in [&one, &other] {
        assert!(is(stack, "backstory_redis_up 0") && !is(stack, "backstory_limits_local_total 0"));
        assert_eq!(readiness(stack).await["status"], "degraded");
    }
    server.start_again().await;
    for stack in [&one, &other] {
        until("it is used again", || is(stack, "backstory_redis_up 1")).await;
    }
    for stack in [&one, &other] {
        hello(stack).await.must_be(200);
        assert_eq!(decided_by_redis(stack), 2);
    }
    assert_eq!(readiness(&one).await["status"], "ready");
}

#[tokio::test]
async fn a_redis_that_has_no_memory_left_costs_no_request_and_is_used_again_when_it_has() {
    let Some(server) = OwnRedis::start(&["--maxmemory-policy", "noeviction"]).await else { return };
    let stack = Stack::of(Script::Model).keys(&limited(1_000)).with(&redis::lines(&server.url())).start().await;
    hello(&stack).await.must_be(200);
    assert!(server.command("CONFIG SET maxmemory 1").await.starts_with("+OK"));
    for _ in 0..20 {
        hello(&stack).await.must_be(200);
    }
    let ready = readiness(&stack).await;
    assert_eq!(ready["status"], "degraded");
    assert!(ready["redis"].as_str().unwrap().contains("no memory left"), "{ready}");
    assert!(is(&stack, "backstory_redis_up 0") && !is(&stack, "backstory_limits_local_total 0"));
    assert!(server.command("CONFIG SET maxmemory 0").await.starts_with("+OK"));
    until("it is used again", || is(&stack, "backstory_redis_up 1")).await;
    hello(&stack).await.must_be(200);
    assert_eq!(readiness(&stack).await["status"], "ready");
}

#[tokio::test]
async fn a_wrong_password_and_keys_that_may_be_dropped_are_warned_of_at_the_start() {
    let args = ["--requirepass", "right-canary", "--maxmemory-policy", "allkeys-lru"];
    let Some(server) = OwnRedis::start(&args).await else { return };
    let with = |password: &str| redis::lines(&server.url().replace("redis://", &format!("redis://:{password}@")));
    let wrong = Stack::of(Script::Model).keys(&limited(5)).with(&with("wrong-canary")).start().await;
    hello(&wrong).await.must_be(200);
    let said = readiness(&wrong).await["redis"].as_str().unwrap().to_owned();
    assert!(said.contains("refuses the user or the password"), "{said}");
    let right = Stack::of(Script::Model).keys(&limited(5)).with(&with("right-canary")).start().await;
    assert_eq!(readiness(&right).await["redis"], "ok");
    assert!(log::has_line_with(&["WARN", "maxmemory-policy allkeys-lru", "noeviction"]));
    assert!(!log::contains("wrong-canary") && !log::contains("right-canary"));
}

#[tokio::test]
async fn two_stores_under_one_prefix_are_refused_by_name() {
    let Some(lines) = redis::shared() else { return };
    let _first = Stack::of(Script::Model).with(&lines).start().await;
    let refused = Stack::of(Script::Model).with(&lines).try_start().await;
    let error = refused.err().expect("another store").to_string();
    let prefix = lines.split('"').nth(3).unwrap();
    assert!(error.contains(prefix) && error.contains("[redis] prefix"), "{error}");
}
