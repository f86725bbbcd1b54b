//! What an operator may see of a running process: where its time and its memory go.

use backstory::mock::Script;
use serde_json::json;

use crate::support::{ADMIN_KEY, KEY, Stack, eventually};

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
    // Something to see.
    let body = json!({"model": "mock", "messages": [{"role": "user", "content": "word ".repeat(20_000)}]}).to_string();
    let busy = async { while stack.chat(body.clone()).send().await.status == 200 {} };
    // Whichever of the two comes first: the other is refused while it measures.
    let pair = eventually("one of two is refused", || async {
        let (one, other) = tokio::join!(profile("1").send(), profile("1").send());
        let (measured, refused) = if one.status == 409 { (other, one) } else { (one, other) };
        (refused.status == 409).then_some((measured, refused))
    });
    let (measured, refused) = tokio::select! {
        pair = pair => pair,
        () = busy => panic!("a request failed"),
    };
    refused.must_be_error(409);
    let measured = measured.must_be(200);
    assert!(measured.text().lines().count() > 0, "somebody computed");
    for line in measured.text().lines() {
        let (stack, count) = line.rsplit_once(' ').unwrap();
        assert!(stack.contains(';') && count.parse::<u32>().unwrap() > 0, "{line}");
    }
}
