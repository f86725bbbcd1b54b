//! No scope sees another's memory: in chat, lists, recall, errors, log or metrics.

use backstory::mock::Script;
use serde_json::{Value, json};

use crate::support::{Ask, Stack, log};

const ONE: &str = "bk-tenant-one-0123456789";
const TWO: &str = "bk-tenant-two-0123456789";
const SALES: &str = "bk-tenant-one-sales-012345";
const GRANTED: &str = "bk-tenant-one-granted-01234";
const FIXED: &str = "bk-tenant-one-fixed-0123456";
const NO_API: &str = "bk-tenant-one-no-api-012345";

const KEYS: &str = r#"
[[keys]]
key = "bk-tenant-one-0123456789"
tenant = "one"
namespace = "support"
may_edit = true

[[keys]]
key = "bk-tenant-two-0123456789"
tenant = "two"
namespace = "support"
may_edit = true

[[keys]]
key = "bk-tenant-one-sales-012345"
tenant = "one"
namespace = "sales"

[[keys]]
key = "bk-tenant-one-granted-01234"
tenant = "one"
namespace = "billing"
read_namespaces = ["support"]

[[keys]]
key = "bk-tenant-one-fixed-0123456"
tenant = "one"
namespace = "support"
default_subject = "kiosk"
may_name_subject = false

[[keys]]
key = "bk-tenant-one-no-api-012345"
tenant = "one"
namespace = "support"
memory_api = "off"
"#;

async fn start() -> Stack {
    Stack::of(Script::Fixed("I see.".to_owned())).keys(KEYS).start().await
}

fn chat(stack: &Stack, key: &str, text: &str) -> Ask {
    let body = json!({"model": "mock", "messages": [{"role": "user", "content": text}]});
    stack.chat(body.to_string()).key(key)
}

/// Tells something and waits until it is learned.
async fn tell(stack: &Stack, key: &str, user: &str, text: &str) {
    chat(stack, key, text).user(user).send().await.must_be(200);
    stack.learned().await;
}

/// What upstream got for a question.
async fn sent(stack: &Stack, key: &str, user: &str, text: &str) -> String {
    chat(stack, key, text).user(user).send().await.must_be(200);
    stack.sent().json()["messages"][0]["content"].as_str().unwrap().to_owned()
}

/// A GET of the memory API, as JSON.
async fn get(stack: &Stack, key: &str, user: &str, path: &str) -> Value {
    stack.ask("GET", path).key(key).user(user).send().await.must_be(200).json()
}

const QUESTION: &str = "What was the canary word of the locker, and am I allergic to peanuts?";

async fn told() -> Stack {
    let stack = start().await;
    tell(&stack, ONE, "ann", "I'm allergic to peanuts. Remember that the canary word of the locker is xylophone.")
        .await;
    assert!(sent(&stack, ONE, "ann", QUESTION).await.contains("xylophone"), "the owner is shown it");
    stack.learned().await;
    stack
}

/// Asserts that nothing of Ann's support memory reaches this caller by any way.
async fn sees_nothing(stack: &Stack, key: &str, user: &str) {
    assert_eq!(sent(stack, key, user, QUESTION).await, QUESTION);
    stack.learned().await;
    for path in ["/memory/v1/facts", "/memory/v1/episodes", "/memory/v1/proposals"] {
        let listed = get(stack, key, user, path).await.to_string();
        assert!(!listed.contains("xylophone") && !listed.contains("diet.allergy"), "{path}: {listed}");
    }
    let recalled = stack.ask("POST", "/memory/v1/recall").key(key).user(user).json(&json!({"query": QUESTION}));
    let recalled = recalled.send().await.must_be(200).json().to_string();
    assert!(!recalled.contains("xylophone"), "{recalled}");
    let request = json!({"model": "mock", "messages": [{"role": "user", "content": QUESTION}]});
    let explained = stack.ask("POST", "/memory/v1/explain").key(key).user(user).json(&request);
    let explained = explained.send().await.must_be(200).json().to_string();
    assert!(!explained.contains("xylophone"), "{explained}");
}

// MemoriLabs/Memori#136; MervinPraison/PraisonAI#4818; evoila/meho#1797.
#[tokio::test]
async fn one_subject_never_sees_anothers_in_chat_lists_or_recall() {
    let stack = told().await;
    sees_nothing(&stack, ONE, "bob").await;
    // Names that differ little are different people.
    sees_nothing(&stack, ONE, "Ann").await;
    sees_nothing(&stack, ONE, "ann2").await;
}

// vllm-project/semantic-router#1301; Dakera-AI/dakera-deploy#195.
#[tokio::test]
async fn the_same_subject_name_under_two_tenants_is_two_people() {
    let stack = told().await;
    sees_nothing(&stack, TWO, "ann").await;
}

// Design, section 3.
#[tokio::test]
async fn a_second_namespace_sees_nothing_unless_it_was_granted() {
    let stack = told().await;
    sees_nothing(&stack, SALES, "ann").await;
    assert!(sent(&stack, GRANTED, "ann", QUESTION).await.contains("xylophone"));
    // Granted is to read: what is said there stays there.
    tell(&stack, GRANTED, "ann", "I live in Bergen.").await;
    let listed = get(&stack, ONE, "ann", "/memory/v1/facts?current=true").await.to_string();
    assert!(!listed.contains("Bergen"), "{listed}");
    // A namespace that the key may not use is refused, and so is writing to one that it may only read.
    let ask = chat(&stack, SALES, QUESTION).user("ann").header("x-backstory-namespace", "support");
    ask.send().await.must_be_error(403);
    let fact = json!({"key": "location.home", "value": "Oslo"});
    let ask = stack.ask("POST", "/memory/v1/facts").key(GRANTED).user("ann").header("x-backstory-namespace", "support");
    ask.json(&fact).send().await.must_be_error(403);
}

// moorcheh-ai/memanto PR#1891: no subject meant all subjects.
#[tokio::test]
async fn the_memory_api_without_a_subject_refuses() {
    let stack = told().await;
    for (method, path) in [
        ("GET", "/memory/v1/facts"),
        ("GET", "/memory/v1/episodes"),
        ("GET", "/memory/v1/proposals"),
        ("DELETE", "/memory/v1/subject"),
    ] {
        stack.ask(method, path).key(ONE).send().await.must_be_error(400);
        stack.ask(method, path).key(ONE).user("").send().await.must_be_error(400);
    }
    let ask = stack.ask("POST", "/memory/v1/recall").key(ONE).json(&json!({"query": QUESTION}));
    ask.send().await.must_be_error(400);
    assert!(sent(&stack, ONE, "ann", QUESTION).await.contains("xylophone"), "nothing was erased");
    stack.ask("GET", "/memory/v1/facts").key(NO_API).user("ann").send().await.must_be_error(403);
    stack.ask("GET", "/memory/v1/facts").key("bk-nobody-0123456789").user("ann").send().await.must_be_error(401);
    stack.ask("GET", "/memory/v1/facts").without("authorization").user("ann").send().await.must_be_error(401);
}

// vllm-project/semantic-router PR#1318; nearai/ironclaw#6900.
#[tokio::test]
async fn a_key_that_may_not_name_subjects_reads_and_writes_its_default_subject_only() {
    let stack = told().await;
    chat(&stack, FIXED, QUESTION).user("ann").send().await.must_be_error(403);
    stack.ask("GET", "/memory/v1/facts").key(FIXED).user("ann").send().await.must_be_error(403);
    // What the body says is passed over.
    let body = json!({"model": "mock", "user": "ann", "metadata": {"user_id": "ann"}, "messages": [{"role": "user", "content": QUESTION}]});
    let got = stack.chat(body.to_string()).key(FIXED).send().await.must_be(200);
    assert_eq!(got.memory(), "miss");
    chat(&stack, FIXED, "I live in Bergen.").send().await.must_be(200);
    stack.learned().await;
    let kiosk = get(&stack, ONE, "kiosk", "/memory/v1/facts?current=true").await.to_string();
    let ann = get(&stack, ONE, "ann", "/memory/v1/facts?current=true").await.to_string();
    assert!(kiosk.contains("Bergen") && !ann.contains("Bergen"), "{kiosk} {ann}");
}

// agno-agi/agno#8334; TianGzlab/OmicsClaw PR#137.
#[tokio::test]
async fn anothers_id_is_404_for_reading_changing_locking_and_deleting() {
    let stack = told().await;
    let facts = get(&stack, ONE, "ann", "/memory/v1/facts?key=diet.allergy").await;
    let id = facts["data"][0]["id"].as_str().unwrap();
    let episodes = get(&stack, ONE, "ann", "/memory/v1/episodes").await;
    let episode = episodes["data"][0]["id"].as_str().unwrap();
    for (key, user) in [(ONE, "bob"), (TWO, "ann")] {
        for (method, path) in [
            ("GET", format!("/memory/v1/facts/{id}")),
            ("GET", format!("/memory/v1/facts/{id}/history")),
            ("PATCH", format!("/memory/v1/facts/{id}")),
            ("DELETE", format!("/memory/v1/facts/{id}")),
            ("POST", format!("/memory/v1/facts/{id}/lock")),
            ("DELETE", format!("/memory/v1/facts/{id}/lock")),
            ("POST", format!("/memory/v1/facts/{id}/confirm")),
            ("GET", format!("/memory/v1/episodes/{episode}")),
            ("PATCH", format!("/memory/v1/episodes/{episode}")),
            ("DELETE", format!("/memory/v1/episodes/{episode}")),
        ] {
            let mut ask = stack.ask(method, &path).key(key).user(user);
            if method == "PATCH" {
                let change = if path.contains("facts") { json!({"value": "soy"}) } else { json!({"tags": ["soy"]}) };
                ask = ask.json(&change);
            }
            let got = ask.send().await;
            assert_eq!(got.status.as_u16(), 404, "{method} {path} as {key} {user}: {}", got.text());
            assert!(!got.text().contains("peanuts"), "{}", got.text());
        }
    }
    let now = get(&stack, ONE, "ann", "/memory/v1/facts?key=diet.allergy").await;
    assert_eq!(now, facts);
    assert_eq!(get(&stack, ONE, "ann", "/memory/v1/episodes").await, episodes);
}

// Design: an exchange's record belongs to its scope as well.
#[tokio::test]
async fn what_was_shown_for_an_answer_is_told_to_its_own_scope_only() {
    let stack = told().await;
    let got = chat(&stack, ONE, QUESTION).user("ann").send().await;
    stack.learned().await;
    let path = format!("/memory/v1/exchanges/{}", got.header("x-backstory-exchange"));
    assert!(get(&stack, ONE, "ann", &path).await.to_string().contains("xylophone"));
    for (key, user) in [(ONE, "bob"), (TWO, "ann"), (SALES, "ann")] {
        stack.ask("GET", &path).key(key).user(user).send().await.must_be_error(404);
    }
}

// Design, section 3: what a header names has to be a name.
#[tokio::test]
async fn malformed_names_of_subjects_are_refused() {
    let stack = start().await;
    for name in ["x".repeat(300), "a\tb".to_owned()] {
        chat(&stack, ONE, "Hello there").user(&name).send().await.must_be_error(400);
    }
}

// Design, promise 4 and the rules of telemetry.
#[tokio::test]
async fn neither_prompts_nor_memories_nor_keys_are_in_the_log_or_the_metrics() {
    let stack = start().await;
    tell(
        &stack,
        ONE,
        "canarysubject",
        "Remember that the canary word of the locker is quetzalcoatlus. I'm allergic to canarynuts.",
    )
    .await;
    sent(&stack, ONE, "canarysubject", "What was the quetzalcoatlus canarynuts canaryprompt thing?").await;
    chat(&stack, ONE, "canaryprompt").header("x-backstory-namespace", "nowhere").send().await.must_be_error(403);
    stack.chat("{\"model\":\"mock\",\"messages\":canaryprompt}").key(ONE).send().await.must_be_error(400);
    stack.upstream().set_script(Script::As("mock-error-500"));
    chat(&stack, ONE, "canaryprompt failed").user("canarysubject").send().await.must_be(500);
    stack.upstream().set_script(Script::As("mock-cut"));
    let body = json!({"model": "mock", "stream": true, "messages": [{"role": "user", "content": "canaryprompt cut"}]});
    stack.chat(body.to_string()).key(ONE).user("canarysubject").send().await;
    let fact = get(&stack, ONE, "canarysubject", "/memory/v1/facts").await;
    let path = format!("/memory/v1/facts/{}", fact["data"][0]["id"].as_str().unwrap());
    stack.ask("DELETE", &path).key(ONE).user("canarysubject").send().await;
    stack.learned().await;
    let metrics = stack.ask("GET", "/metrics").send().await.must_be(200);
    for canary in ["quetzalcoatlus", "canarynuts", "canaryprompt", "canarysubject", ONE] {
        assert!(!metrics.text().contains(canary), "{canary} in the metrics");
        assert!(!log::contains(canary), "{canary} in the log");
    }
}

// A name that cannot be one is somebody's all the same: it shares no memory with others, nor with those who name nobody.
#[tokio::test]
async fn a_name_in_the_body_that_cannot_be_one_has_no_memory() {
    let stack = Stack::of(Script::Model).with("").start().await;
    let asking = |user: &str| {
        let said = "I am allergic to peanuts.";
        format!(r#"{{"model":"mock","user":{user},"messages":[{{"role":"user","content":"{said}"}}]}}"#)
    };
    let long = format!("\"{}\"", "u".repeat(257));
    for user in [r#""\ud800""#, r#""\udfff""#, "42", "{}", "[\"ann\"]", r#""a\nb""#, &long] {
        let got = stack.chat(asking(user)).send().await.must_be(200);
        assert_eq!(got.header("x-backstory-memory"), "skipped; reason=no-subject", "{user}");
    }
    let got = stack.chat(asking(r#""ann""#)).send().await.must_be(200);
    assert!(!got.header("x-backstory-memory").contains("no-subject"));
}
