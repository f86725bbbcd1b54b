//! What is learned, and what is not: the write path through the wire, and its measurement through the binary.

use backstory::mock::Script;
use serde_json::{Value, json};

use crate::support::{Stack, binary};

/// A subject's facts as the memory API gives them.
async fn raw_facts(stack: &Stack, user: &str) -> Vec<Value> {
    let got = stack.ask("GET", "/memory/v1/facts").user(user).send().await.must_be(200);
    got.json()["data"].as_array().unwrap().clone()
}

/// Why proposals were refused, newest first.
async fn refusals(stack: &Stack, user: &str) -> Vec<String> {
    let got = stack.ask("GET", "/memory/v1/proposals?status=refused").user(user).send().await.must_be(200);
    let data = got.json()["data"].as_array().unwrap().clone();
    data.iter().map(|p| p["reason"].as_str().unwrap().to_owned()).collect()
}

// A statement said again word for word, while it is shown: it was taken for an echo of ours.
#[tokio::test]
async fn what_is_said_again_while_it_is_shown_reinforces() {
    let stack = Stack::new(Script::Model).await;
    stack.tell("ann", "I'm allergic to peanuts.").await;
    // The very same first message within ten minutes would be a retry, and is learned from once.
    for turn in ["I'm allergic to peanuts. What may I bake?", "I'm allergic to peanuts. What may I cook?"] {
        let body = json!({"model": "mock", "messages": [{"role": "user", "content": turn}]});
        let got = stack.chat(body.to_string()).user("ann").send().await.must_be(200);
        assert!(got.memory().starts_with("hit"), "{}", got.memory());
        stack.learned().await;
    }
    let facts = raw_facts(&stack, "ann").await;
    assert_eq!((facts.len(), &facts[0]["seen"]), (1, &json!(3)));
}

// Design, section 7: a sentence seen under three subjects of a tenant is app boilerplate.
#[tokio::test]
async fn what_an_app_says_to_everyone_is_no_ones_fact() {
    let stack = Stack::new(Script::Model).await;
    let template = "I work at Acme and I prefer the window seats in the upper deck.";
    for (user, ask) in [("ann", "Where is it?"), ("bob", "When does it leave?"), ("cat", "Is it on time?")] {
        stack.tell(user, &format!("{template} {ask}")).await;
    }
    stack.tell("dan", &format!("{template} I'm allergic to peanuts.")).await;
    assert_eq!(stack.facts("dan").await, ["diet.allergy = peanuts"]);
    assert!(refusals(&stack, "dan").await.contains(&"boilerplate".to_owned()));
    // The same short words, from many people, are theirs.
    for user in ["eve", "fay", "gus", "hal"] {
        stack.tell(user, &format!("I'm vegan. What can {user} eat?")).await;
        assert_eq!(stack.facts(user).await, ["diet.restriction = vegan"]);
    }
}

// Issue: values are normalised; what cannot be a value of its key is refused, with a reason.
#[tokio::test]
async fn values_are_kept_in_one_form() {
    let stack = Stack::new(Script::Model).await;
    stack.tell("ann", "My birthday is 14th of March, 1988.").await;
    stack.tell("ann", "我的生日是1988年3月14日。").await;
    assert_eq!(stack.facts("ann").await, ["identity.birthday = 1988-03-14"]);
    assert_eq!(raw_facts(&stack, "ann").await[0]["seen"], json!(2));
}

// Issue: quality is measured, by anyone, on cases of their own.
#[tokio::test]
async fn extraction_is_measured_on_a_file_of_cases() {
    let folder = tempfile::tempdir().unwrap();
    let [cases, replies, wrong] =
        ["cases.jsonl", "replies.jsonl", "wrong.jsonl"].map(|name| folder.path().join(name).display().to_string());
    let case = |id: &str, said: &str, expect: Value| {
        json!({"id": id, "language": "en", "conversations": [{"said_at": "2025-01-14T10:00:00Z",
            "messages": [{"role": "user", "content": said}]}], "expect": expect})
        .to_string()
    };
    let lines = [
        case("told", "I live in Oslo.", json!([{"key": "location.home", "value": "Oslo"}])),
        case(
            "model",
            "Oslo has been where my heart and my flat are.",
            json!([{"key": "location.home", "value": "Oslo"}]),
        ),
    ];
    std::fs::write(&cases, lines.join("\n")).unwrap();
    let item = json!({"kind": "identity", "key": "location.home", "value": "Oslo", "text": "Lives in Oslo", "confidence": 0.9,
        "evidence": "Oslo has been where my heart and my flat are", "about": null, "said_at": null, "tags": [], "entities": [],
        "lasting": true});
    let reply = json!({"id": "model", "replies": [json!({"memories": [item]}).to_string()]});
    std::fs::write(&replies, reply.to_string()).unwrap();
    std::fs::write(&wrong, format!("{}\n{{}}", lines[0])).unwrap();

    let (code, out, err) = binary::run(&["eval", "extraction", &cases, "--json"], &[]).await;
    assert_eq!(code, 0, "{err}");
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&report["overall"]["precision"], &report["overall"]["recall"]), (&json!(1.0), &json!(0.5)));
    let (_, out, _) = binary::run(&["eval", "extraction", &cases, "--json", "--replies", &replies], &[]).await;
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(report["by_language"]["en"]["recall"], json!(1.0), "{report}");
    let (code, _, err) = binary::run(&["eval", "extraction", &wrong], &[]).await;
    assert!(code != 0 && err.contains("line 2"), "{code} {err}");
}
