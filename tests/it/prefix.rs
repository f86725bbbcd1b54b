//! How much of a prompt stays the same from request to request, and that it is measured.

use backstory::mock::Script;
use bytes::Bytes;
use serde_json::{Value, json};

use crate::support::{Got, Stack};

const QUESTION: &str = "What was broken at the campsite at lake Inari?";

async fn told(budget: &str) -> Stack {
    let stack = Stack::of(Script::Fixed("I see.".to_owned())).with(budget).start().await;
    stack.tell("ann", "Our campsite at lake Inari had a broken wooden pier.").await;
    stack
}

async fn send(stack: &Stack, messages: &[Value]) -> (Got, Vec<Value>) {
    let body = json!({"model": "mock", "messages": messages});
    let got = stack.chat(body.to_string()).user("ann").send().await.must_be(200);
    (got, stack.sent().json()["messages"].as_array().unwrap().clone())
}

/// A question, a tool call with a long result, the answer, and another question: as three requests.
fn agent(end: usize) -> Vec<Value> {
    let call = json!([{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]);
    let all = [
        json!({"role": "system", "content": "Be brief."}),
        json!({"role": "user", "content": QUESTION}),
        json!({"role": "assistant", "content": null, "tool_calls": call}),
        json!({"role": "tool", "tool_call_id": "c", "content": "a row of the table ".repeat(120)}),
        json!({"role": "assistant", "content": "The pier."}),
        json!({"role": "user", "content": "Thanks, and how long does it take to mend it?"}),
    ];
    all[..end].to_vec()
}

const STICKY: &str = "[budget]\nsticky_tokens = 200";

// Design, section 9: after a long user turn its block stays in place, so that the turn stays cached.
#[tokio::test]
async fn the_block_of_a_long_turn_stays_in_place_byte_for_byte() {
    let stack = told(STICKY).await;
    let (first, asked) = send(&stack, &agent(2)).await;
    assert!(first.memory().starts_with("hit"), "{}", first.memory());
    assert!(asked[1]["content"].as_str().unwrap().contains("pier"), "{asked:?}");
    let (_, going_on) = send(&stack, &agent(4)).await;
    let (next, later) = send(&stack, &agent(6)).await;
    assert_eq!(going_on[..2], asked[..]);
    assert_eq!(later[..4], going_on[..], "the long turn is as it was");
    assert!(next.memory().starts_with("hit") && next.header("cache-control").contains("no-store"), "{}", next.memory());
    assert!(next.context("sent") > next.context("counted"));
}

// Design, section 4: states are known by content, so another replica, or this one after a restart, does the same.
#[tokio::test]
async fn it_stays_after_a_restart() {
    let stack = told(STICKY).await;
    send(&stack, &agent(2)).await;
    let (_, going_on) = send(&stack, &agent(4)).await;
    stack.learned().await;
    let (_, folder) = stack.stop().await;
    let stack = Stack::of(Script::Fixed("I see.".to_owned())).with(STICKY).in_folder(folder).start().await;
    let (_, later) = send(&stack, &agent(6)).await;
    assert_eq!(later[..4], going_on[..]);
}

// Design, section 9: only of a long turn; and joryirving/home-ops PR#9507: earlier messages are the client's own.
#[tokio::test]
async fn the_block_of_a_short_turn_goes() {
    let stack = told("[budget]\nsticky_tokens = 4000").await;
    send(&stack, &agent(2)).await;
    let (_, later) = send(&stack, &agent(6)).await;
    assert_eq!(later[..5], agent(5)[..]);
}

// Design, promise 10: what was erased is not shown again, wherever it stood.
#[tokio::test]
async fn an_erased_memory_takes_its_block_along() {
    let stack = told(STICKY).await;
    send(&stack, &agent(2)).await;
    send(&stack, &agent(4)).await;
    stack.learned().await;
    let episodes = stack.ask("GET", "/memory/v1/episodes?limit=200").user("ann").send().await.must_be(200).json();
    for episode in episodes["data"].as_array().unwrap() {
        let path = format!("/memory/v1/episodes/{}", episode["id"].as_str().unwrap());
        stack.ask("DELETE", &path).user("ann").send().await;
    }
    let (_, again) = send(&stack, &agent(4)).await;
    assert_eq!(again, agent(4), "in the turn itself");
    let (_, later) = send(&stack, &agent(6)).await;
    assert_eq!(later[..5], agent(5)[..], "and in later ones");
}

// Design, section 9: the block goes with the next cut, which breaks the prefix anyway.
#[tokio::test]
async fn the_block_goes_with_the_next_cut() {
    let stack = told("[budget]\nsticky_tokens = 200\nmax_input_tokens = 8000\nmemory_tokens = 200").await;
    let mut messages = agent(5);
    messages.splice(
        1..1,
        [json!({"role": "user", "content": "old ".repeat(4000)}), json!({"role": "assistant", "content": "Yes."})],
    );
    send(&stack, &messages[..4]).await;
    let (_, going_on) = send(&stack, &messages[..6]).await;
    messages.push(json!({"role": "user", "content": "Thanks."}));
    let (_, stays) = send(&stack, &messages).await;
    assert_eq!(stays[..6], going_on[..]);
    messages.extend([
        json!({"role": "assistant", "content": "You are welcome."}),
        json!({"role": "user", "content": "new ".repeat(3700)}),
    ]);
    let (got, cut) = send(&stack, &messages).await;
    assert!(got.context("cut") > 0, "{}", got.header("x-backstory-context"));
    assert!(cut.contains(&agent(2)[1]), "the question as the client sent it: {cut:?}");
}

// Issue 3, item 8.
#[tokio::test]
async fn the_common_prefix_is_measured() {
    let stack = told("").await;
    for end in [2, 4, 6] {
        send(&stack, &agent(end)).await;
    }
    let metrics = stack.ask("GET", "/metrics").send().await.must_be(200);
    let value = |line: &str| -> u64 {
        let found = metrics.text().lines().find_map(|l| l.strip_prefix(line)).unwrap_or_else(|| panic!("{line}"));
        found.trim().parse().unwrap()
    };
    // In the tool loop all of the request before; in the next turn the system message, since the short turn's block went.
    assert!(value(r#"backstory_prompt_tokens_total{turn="tool_loop",part="prefix"}"#) > 40);
    assert!(value(r#"backstory_prompt_tokens_total{turn="tool_loop",part="new"}"#) > 400);
    assert!((1..20).contains(&value(r#"backstory_prompt_tokens_total{turn="chat",part="prefix"}"#)));
    assert!(value(r#"backstory_prompt_bytes_total{turn="chat",part="new"}"#) > 2000);
    assert_eq!(value("backstory_prompt_prefix_ratio_count"), 2);
    assert_eq!(value(r#"backstory_prompt_tokens_total{turn="cut",part="prefix"}"#), 0);
}

/// Bytes that two bodies have in common from the beginning on, and all of the later one.
fn common(before: &[u8], later: &[u8]) -> (usize, usize) {
    (before.iter().zip(later).take_while(|(a, b)| a == b).count(), later.len())
}

// Issue 3, item 8; mtrnix/metronix-memory#428; anthropics/claude-code#46644: memory must not cost the cache.
#[tokio::test]
async fn over_200_turns_with_memory_the_prefix_is_within_3_points_of_the_clients_own() {
    let stack = told("").await;
    let mut messages = r#"{"role":"system","content":"Be brief."}"#.to_owned();
    let (mut with, mut without, mut last) = ((0, 0), (0, 0), None::<(Bytes, String)>);
    let mut hits = 0;
    for turn in 0..200 {
        messages.push_str(&format!(r#",{{"role":"user","content":"{QUESTION} ({turn})"}}"#));
        let own = format!(r#"{{"messages":[{messages}],"model":"mock"}}"#);
        // Shown and not learned: a question asked 200 times would itself be what is remembered.
        let ask = stack.chat(own.clone()).user("ann").header("x-backstory-memory", "read");
        hits += usize::from(ask.send().await.must_be(200).memory().starts_with("hit"));
        let sent = stack.sent().body;
        if let Some((before, own_before)) = &last {
            let pairs =
                [(&mut with, common(before, &sent)), (&mut without, common(own_before.as_bytes(), own.as_bytes()))];
            for (sum, (same, all)) in pairs {
                sum.0 += same;
                sum.1 += all;
            }
        }
        last = Some((sent, own));
        let answer = format!("It was the pier, as I said {turn} times. ").repeat(10);
        messages.push_str(&format!(r#",{{"role":"assistant","content":"{answer}"}}"#));
    }
    let share = |(same, all): (usize, usize)| 100.0 * same as f64 / all as f64;
    assert!(hits > 190, "{hits}");
    assert!(share(without) - share(with) < 3.0, "{:.2} % without, {:.2} % with", share(without), share(with));
}
