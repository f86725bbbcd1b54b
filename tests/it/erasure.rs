//! Erased is erased.

use backstory::mock::{End, Raw, Script};
use serde_json::{Value, json};

use crate::support::sse::text;
use crate::support::stack::files_below;
use crate::support::{Stack, eventually, log};

const CANARY: &str = "zanzibarquokka";

async fn erase(stack: &Stack, user: &str) -> Value {
    stack.ask("DELETE", "/memory/v1/subject").user(user).send().await.must_be(200).json()
}

async fn told() -> Stack {
    let stack = Stack::new(Script::Fixed(format!("I see, {CANARY}."))).await;
    stack.tell("ann", &format!("Remember that my locker's word is {CANARY}. I'm allergic to {CANARY}.")).await;
    assert!(stack.shown("ann", "What is my locker's word?").await.contains(CANARY));
    stack.learned().await;
    stack
}

fn holders(stack: &Stack) -> Vec<String> {
    let files = files_below(stack.folder()).into_iter();
    let holding = files.filter(|(_, bytes)| memchr::memmem::find(bytes, CANARY.as_bytes()).is_some());
    holding.map(|(path, _)| path.display().to_string()).collect()
}

// MemOS#2331; semantica-agi/semantica#1018; Significant-Gravitas/AutoGPT PR#12720: deleted data stayed in the files.
#[tokio::test]
async fn after_the_receipt_the_canary_is_in_no_file_nor_in_the_log() {
    let stack = told().await;
    assert!(!holders(&stack).is_empty(), "the test looks at the right files");
    let receipt = erase(&stack, "ann").await;
    assert_eq!(receipt["complete"], true, "{receipt}");
    assert_eq!(receipt["subject"], "ann");
    assert!(receipt["erased_at"].is_string(), "{receipt}");
    assert!(receipt["counts"]["facts"].as_u64().unwrap() >= 1, "{receipt}");
    assert_eq!(holders(&stack), Vec::<String>::new());
    assert!(log::contains("a subject was erased"), "the log is caught");
    assert!(!log::contains(CANARY));
    assert_eq!(stack.facts("ann").await, Vec::<String>::new());
    assert_eq!(stack.episodes("ann").await, Vec::<String>::new());
    assert_eq!(stack.shown("ann", "What is my locker's word?").await, "");
}

// The same after a restart: nothing comes back from the files.
#[tokio::test]
async fn nothing_comes_back_after_a_restart() {
    let stack = told().await;
    erase(&stack, "ann").await;
    let (_, folder) = stack.stop().await;
    let stack = Stack::of(Script::Model).in_folder(folder).start().await;
    assert_eq!(stack.shown("ann", "What is my locker's word?").await, "");
    assert_eq!(holders(&stack), Vec::<String>::new());
}

// honcho#725: erased statements were learned again from the history that clients resend.
#[tokio::test]
async fn erased_evidence_is_not_learned_from_replayed_history_and_new_statements_are() {
    let stack = Stack::new(Script::Fixed("I see.".to_owned())).await;
    let first = json!({"role": "user", "content": "I'm allergic to peanuts."});
    stack.talk("ann", json!([first])).await;
    stack.learned().await;
    assert_eq!(stack.facts("ann").await, ["diet.allergy = peanuts"]);
    erase(&stack, "ann").await;
    let replay = json!([first, {"role": "assistant", "content": "I see."}, {"role": "user", "content": "What about soup recipes?"}]);
    stack.talk("ann", replay).await;
    stack.talk("ann", json!([first])).await;
    stack.learned().await;
    assert_eq!(stack.facts("ann").await, Vec::<String>::new());
    stack.tell("ann", "I'm allergic to shellfish.").await;
    assert_eq!(stack.facts("ann").await, ["diet.allergy = shellfish"]);
}

// mem0ai/mem0#3746, #3785; TianGzlab/OmicsClaw PR#137.
#[tokio::test]
async fn erasure_of_one_subject_leaves_all_others_as_they_were() {
    let stack = told().await;
    stack.tell("bob", "I'm allergic to peanuts. Remember that my bike is the green one.").await;
    let before = (stack.facts("bob").await, stack.episodes("bob").await);
    erase(&stack, "ann").await;
    erase(&stack, "nobody").await;
    assert_eq!((stack.facts("bob").await, stack.episodes("bob").await), before);
    assert!(stack.shown("bob", "What colour is my bike?").await.contains("green"));
}

// Design, doubt 14: an exchange that began before an erasure and ends after it leaves nothing.
#[tokio::test]
async fn an_exchange_that_runs_over_an_erasure_leaves_nothing() {
    let raw = Raw::stream([text("I see"), text(" that")]).ending(End::Stall);
    let stack = Stack::of(Script::Raw(raw)).with("[timeouts]\nidle_ms = 1000").start().await;
    let body = json!({"model": "mock", "stream": true, "messages": [{"role": "user", "content": format!("I'm allergic to {CANARY}.")}]});
    let mut running = stack.chat(body.to_string()).user("ann").open().await;
    running.read_until(" that").await;
    erase(&stack, "ann").await;
    running.rest().await;
    let appended = eventually("the exchange is recorded", || async {
        let health = stack.app.outbox.health();
        (health.appended_total > 0).then_some(health.appended_total)
    });
    appended.await;
    stack.learned().await;
    assert_eq!(stack.facts("ann").await, Vec::<String>::new());
    assert_eq!(stack.episodes("ann").await, Vec::<String>::new());
}

// Design, doubt 14: the same words do not bring a deleted fact back, new words do.
#[tokio::test]
async fn a_deleted_facts_words_do_not_bring_it_back_and_new_words_do() {
    let stack = Stack::new(Script::Fixed("I see.".to_owned())).await;
    stack.tell("ann", "I'm allergic to peanuts.").await;
    let id = stack.fact_id("ann", "diet.allergy").await;
    let gone = stack.ask("DELETE", &format!("/memory/v1/facts/{id}")).user("ann").send().await;
    assert!(gone.status.is_success(), "{}", gone.text());
    stack.tell("ann", "By the way, I'm allergic to peanuts.").await;
    assert_eq!(stack.facts("ann").await, Vec::<String>::new());
    stack.tell("ann", "I have a peanut allergy.").await;
    let facts = stack.facts("ann").await;
    assert!(facts.iter().any(|fact| fact.starts_with("diet.allergy = peanut")), "{facts:?}");
}
