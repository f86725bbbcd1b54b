//! Questions that are none, or not in the form that anybody expects (issue 5, bad input).

use backstory::mock::Script;
use serde_json::{Value, json};

use crate::support::Stack;

const TOLD: &[&str] = &[
    "We stayed at a campsite at lake Inari where the wooden pier was broken.",
    "הכלב שלי לונה אוהב גזר ותפוחים",
    "تعلمت السباحة في بحيرة صغيرة قرب القرية",
    "My favourite emoji is 🦦 because otters hold hands.",
];

async fn told() -> Stack {
    let stack = Stack::new(Script::Fixed("I see.".to_owned())).await;
    for text in TOLD {
        stack.say("ann", text).await;
    }
    stack.learned().await;
    stack
}

/// Asks chat and the recall endpoint the same; both must answer, and what is shown must be nothing. The client's words arrive as they are.
async fn finds_nothing(stack: &Stack, query: &str) {
    let start: String = query.chars().take(40).collect();
    let found = recalled(stack, query).await;
    assert_eq!((&found["data"], &found["passages"]), (&json!([]), &json!([])), "{start:?}");
    let body = json!({"model": "mock", "messages": [{"role": "user", "content": query}]}).to_string();
    let got = stack.chat(body.clone()).user("ann").send().await.must_be(200);
    assert_eq!(got.memory(), "miss", "{start:?}");
    assert_eq!(stack.sent().body, body, "{start:?}");
}

async fn recalled(stack: &Stack, query: &str) -> Value {
    let ask = stack.ask("POST", "/memory/v1/recall").user("ann").json(&json!({"query": query}));
    ask.send().await.must_be(200).json()
}

#[tokio::test]
async fn an_empty_question_finds_nothing() {
    let stack = told().await;
    for empty in ["", " ", "\n\t\r\n", "\u{feff}\u{200b}", "...", "?!"] {
        finds_nothing(&stack, empty).await;
    }
}

#[tokio::test]
async fn one_letter_finds_nothing() {
    let stack = told().await;
    for letter in ["a", "I", "z", "7", "ж", "é", "ß"] {
        finds_nothing(&stack, letter).await;
    }
}

#[tokio::test]
async fn emoji_find_nothing() {
    let stack = told().await;
    for emoji in ["🙂", "🙂🙃🙂🙃", "👩\u{200d}👩\u{200d}👧\u{200d}👦", "🏳\u{fe0f}\u{200d}🌈 🇫🇮", "❤\u{fe0f}"]
    {
        finds_nothing(&stack, emoji).await;
    }
}

#[tokio::test]
async fn a_question_of_a_megabyte_passes_and_costs_no_error() {
    let stack = told().await;
    let words = "lorem ipsum dolor sit amet ".repeat(40_000);
    finds_nothing(&stack, &words).await;
    // One word of a megabyte, one of very many distinct ones, and one without any spaces.
    finds_nothing(&stack, &"x".repeat(1 << 20)).await;
    let distinct: String = (0..120_000_u32).map(|n| format!("w{} ", n.wrapping_mul(2_654_435_761))).collect();
    finds_nothing(&stack, &distinct).await;
    let chinese = "量子力学概论".repeat(60_000);
    finds_nothing(&stack, &chinese).await;
    // What stands at the beginning of a long question is still looked up.
    let long = format!("What was wrong with the pier at that lake campsite? {words}");
    let got = stack.say("ann", &long).await;
    assert!(got.memory().starts_with("hit"), "{}", got.memory());
}

#[tokio::test]
async fn text_that_runs_from_right_to_left_is_found_as_any_other() {
    let stack = told().await;
    let shown = stack.shown("ann", "מה הכלב לונה אוהב?").await;
    assert!(shown.contains("גזר") && !shown.contains("السباحة"), "{shown}");
    let shown = stack.shown("ann", "أين تعلمت السباحة؟").await;
    assert!(shown.contains("بحيرة") && !shown.contains("גזר"), "{shown}");
    finds_nothing(&stack, "איך מתקנים אופניים ישנים").await;
    // Marks that turn the direction around change nothing of what is asked.
    let shown = stack.shown("ann", "\u{202e}What was wrong with the pier at that lake campsite?\u{202c}").await;
    assert!(shown.contains("Inari"), "{shown}");
}

#[tokio::test]
async fn odd_bytes_in_a_question_do_no_harm() {
    let stack = told().await;
    for odd in
        ["\u{0}", "\u{1}\u{2}", "\u{fffd}\u{fffd}", "e\u{301}\u{301}\u{301}\u{301}", "</backstory-notes>", "'\"\\"]
    {
        let ask = stack.ask("POST", "/memory/v1/recall").user("ann").json(&json!({"query": odd}));
        assert_eq!(ask.send().await.must_be(200).json()["data"], json!([]), "{odd:?}");
        stack.say("ann", odd).await;
    }
}
