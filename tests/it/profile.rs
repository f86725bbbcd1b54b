//! What an operator may see of a running process: where its time and its memory go.

use backstory::mock::Script;
use serde_json::json;
use tokio::task::JoinSet;

use crate::support::{ADMIN_KEY, KEY, Stack};

fn stack() -> crate::support::stack::Builder {
    Stack::of(Script::Model).with(&format!("[admin]\nkey = \"{ADMIN_KEY}\"\n"))
}

#[tokio::test]
async fn where_the_memory_goes_is_told_to_the_operator_alone() {
    let stack = stack().start().await;
    let told = stack.ask("GET", "/admin/v1/profile/heap").key(ADMIN_KEY).send().await.must_be(200).json();
    assert!(told["held"]["recall"].is_u64() && told["counts"]["limit_accounts"] == 0, "{told}");
    if cfg!(target_os = "linux") {
        assert!(told["process"]["resident"].as_u64().unwrap() > 1 << 20, "{told}");
    }
    for path in ["/admin/v1/profile/heap", "/admin/v1/profile/cpu"] {
        stack.ask("GET", path).key(KEY).send().await.must_be_error(401);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_the_time_goes_is_told_as_folded_stacks_by_one_profile_at_a_time() {
    let stack = stack().start().await;
    let profile = |seconds: &str| stack.ask("GET", &format!("/admin/v1/profile/cpu?seconds={seconds}")).key(ADMIN_KEY);
    for wrong in ["0", "61", "x"] {
        assert_eq!(profile(wrong).send().await.status, 400, "{wrong}");
    }
    let mut tasks = JoinSet::new();
    tasks.spawn(profile("2").send());
    let second = crate::support::eventually("the first has begun", || async {
        let got = profile("1").send().await;
        (got.status == 409).then_some(got)
    });
    second.await.must_be_error(409);
    // Something to see.
    let body = json!({"model": "mock", "messages": [{"role": "user", "content": "word ".repeat(20_000)}]}).to_string();
    while tasks.len() == 1
        && tasks.try_join_next().is_none_or(|got| {
            let got = got.unwrap().must_be(200);
            assert!(got.text().lines().count() > 0, "somebody computed");
            for line in got.text().lines() {
                let (stack, count) = line.rsplit_once(' ').unwrap();
                assert!(stack.contains(';') && count.parse::<u32>().unwrap() > 0, "{line}");
            }
            false
        })
    {
        stack.chat(body.clone()).send().await.must_be(200);
    }
}
