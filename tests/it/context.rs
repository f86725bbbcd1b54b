//! Counting and cutting, as the headers and upstream tell it.

use backstory::mock::{Raw, Script};
use serde_json::{Value, json};

use crate::support::{Got, Stack};

fn reply() -> Script {
    Script::Raw(Raw::json(
        200,
        r#"{"choices":[{"index":0,"message":{"role":"assistant","content":"ok"},"finish_reason":"stop"}]}"#,
    ))
}

/// The messages of OpenAI's own example of counting tokens, written from its published description.
fn cookbook() -> Value {
    json!([
        {"role": "system", "content": "You are a helpful, pattern-following assistant that translates corporate jargon into plain English."},
        {"role": "system", "name": "example_user", "content": "New synergies will help drive top-line growth."},
        {"role": "system", "name": "example_assistant", "content": "Things working well together will increase revenue."},
        {"role": "system", "name": "example_user", "content": "Let's circle back when we have more bandwidth to touch base on opportunities for increased leverage."},
        {"role": "system", "name": "example_assistant", "content": "Let's talk later when we're less busy about how to do better."},
        {"role": "user", "content": "This late pivot means we don't have time to boil the ocean for the client deliverable."},
    ])
}

async fn counted(stack: &Stack, body: &Value) -> usize {
    stack.chat(body.to_string()).user("ann").send().await.must_be(200).context("counted")
}

// Design: the published counts.
#[tokio::test]
async fn the_cookbooks_messages_count_as_openai_counts_them() {
    let stack = Stack::new(reply()).await;
    assert_eq!(counted(&stack, &json!({"model": "gpt-4o", "messages": cookbook()})).await, 124);
    assert_eq!(counted(&stack, &json!({"model": "gpt-4-0613", "messages": cookbook()})).await, 129);
}

// Design: plain words and Chinese.
#[tokio::test]
async fn plain_words_and_chinese_count_exactly() {
    let stack = Stack::new(reply()).await;
    let words = vec!["hello"; 100].join(" ");
    let body = |model: &str, text: &str| json!({"model": model, "messages": [{"role": "user", "content": text}]});
    assert_eq!(counted(&stack, &body("gpt-4o", &words)).await, 107);
}

// BerriAI/litellm#39910: images by size and detail.
#[tokio::test]
async fn images_count_by_size_and_detail() {
    let stack = Stack::new(reply()).await;
    let text = json!({"type": "text", "text": "What is this?"});
    let base = counted(&stack, &json!({"model": "gpt-4o", "messages": [{"role": "user", "content": [text]}]})).await;
    // A PNG header that says 1024 x 1024.
    let png = "iVBORw0KGgoAAAANSUhEUgAABAAAAAQACAIAAADwf7zU";
    for (detail, tokens) in [("high", 765), ("low", 85)] {
        let image = json!({"type": "image_url", "image_url": {"url": format!("data:image/png;base64,{png}"), "detail": detail}});
        let body = json!({"model": "gpt-4o", "messages": [{"role": "user", "content": [text, image]}]});
        assert_eq!(counted(&stack, &body).await, base + tokens, "{detail}");
    }
}

// BerriAI/litellm#36671; #1702, PR#4036: what was left out of the count.
#[tokio::test]
async fn tools_formats_names_parts_and_arguments_are_counted() {
    let stack = Stack::new(reply()).await;
    let text = "Please tell me about the weather in Oslo tomorrow";
    let plain = json!({"model": "gpt-4o", "messages": [{"role": "user", "content": text}]});
    let base = counted(&stack, &plain).await;
    let with = |change: &dyn Fn(&mut Value)| {
        let mut body = plain.clone();
        change(&mut body);
        body
    };
    let parts = with(&|body| body["messages"][0]["content"] = json!([{"type": "text", "text": text}]));
    assert_eq!(counted(&stack, &parts).await, base, "parts count like one string");
    let tool = json!([{"type": "function", "function": {"name": "weather", "description": "Tells the weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}]);
    let format = json!({"type": "json_schema", "json_schema": {"name": "answer", "schema": {"type": "object", "properties": {"degrees": {"type": "number"}}}}});
    for (what, body) in [
        ("tools", with(&|body| body["tools"] = tool.clone())),
        ("response_format", with(&|body| body["response_format"] = format.clone())),
        ("name", with(&|body| body["messages"][0]["name"] = json!("Ann"))),
    ] {
        assert!(counted(&stack, &body).await > base, "{what}");
    }
    let calls = |arguments: &str| {
        json!({"model": "gpt-4o", "messages": [
            {"role": "user", "content": text},
            {"role": "assistant", "content": null, "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "weather", "arguments": arguments}}]},
            {"role": "tool", "tool_call_id": "c1", "content": "cold"},
        ]})
    };
    let (short, long) = (counted(&stack, &calls("{}")).await, counted(&stack, &calls(&"x y z ".repeat(50))).await);
    assert!(long >= short + 100, "{short} {long}");
}

/// A long chat: a system message, then turns of about 60 tokens, every third with a tool call.
fn history(turns: usize) -> Vec<Value> {
    let mut messages = vec![json!({"role": "system", "content": "Be brief."})];
    for turn in 0..turns {
        let filler = "the quick brown fox jumps over the lazy dog and goes home ".repeat(4);
        messages.push(json!({"role": "user", "content": format!("turn {turn}: {filler}")}));
        if turn % 3 == 0 {
            let id = format!("call_{turn}");
            messages.push(json!({"role": "assistant", "content": null, "tool_calls": [{"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}}]}));
            messages.push(json!({"role": "tool", "tool_call_id": id, "content": format!("result {turn}")}));
        }
        messages.push(json!({"role": "assistant", "content": format!("answer {turn}")}));
    }
    messages.push(json!({"role": "user", "content": "And what now?"}));
    messages
}

async fn ask(stack: &Stack, messages: &[Value], budget: usize) -> Got {
    let body = json!({"model": "gpt-4o", "messages": messages});
    stack.chat(body.to_string()).user("ann").header("x-backstory-budget", &budget.to_string()).send().await
}

fn sent(stack: &Stack) -> Vec<Value> {
    stack.sent().json()["messages"].as_array().unwrap().clone()
}

// BerriAI/litellm#4931, #6505, #8261; langchain-ai/langchain#33245: orphans of tool calls made upstream refuse.
#[tokio::test]
async fn whatever_the_budget_no_tool_result_is_parted_from_its_call() {
    let stack = Stack::new(reply()).await;
    let messages = history(12);
    for budget in (60..1_000).step_by(37) {
        let got = ask(&stack, &messages, budget).await;
        if got.status.as_u16() == 400 {
            continue;
        }
        assert!(got.context("sent") <= budget, "{}", got.header("x-backstory-context"));
        let kept = sent(&stack);
        for (at, message) in kept.iter().enumerate() {
            if message["role"] == "tool" {
                let call = &kept[at - 1]["tool_calls"][0]["id"];
                assert_eq!(*call, message["tool_call_id"], "budget {budget}");
            }
            if message["tool_calls"].is_array() {
                assert_eq!(kept[at + 1]["role"], "tool", "budget {budget}");
            }
        }
    }
}

// Design, section 5; langchain-ai/langchain PR#35313; Memori#434.
#[tokio::test]
async fn system_and_newest_turn_stay_the_oldest_go_first_and_order_is_kept() {
    let stack = Stack::new(reply()).await;
    let mut messages = history(9);
    messages.push(json!({"role": "assistant", "content": null, "tool_calls": [{"id": "open", "type": "function", "function": {"name": "f", "arguments": "{}"}}]}));
    messages.push(json!({"role": "tool", "tool_call_id": "open", "content": "an open result"}));
    let got = ask(&stack, &messages, 400).await.must_be(200);
    assert!(got.context("cut") > 0 && got.context("sent") <= 400, "{}", got.header("x-backstory-context"));
    let kept = sent(&stack);
    assert!(kept[0]["content"].as_str().unwrap().starts_with("Be brief."));
    assert_eq!(kept[kept.len() - 3..], messages[messages.len() - 3..], "the newest turn, whole");
    assert_eq!(kept[1..], messages[messages.len() - (kept.len() - 1)..], "a tail, in order");
}

// Design: nothing happens below the budget.
#[tokio::test]
async fn below_the_budget_nothing_happens_to_the_byte() {
    let stack = Stack::new(reply()).await;
    let body = json!({"model": "gpt-4o", "messages": history(9)}).to_string();
    let got = stack.chat(body.clone()).user("ann").header("x-backstory-budget", "100000").send().await.must_be(200);
    assert_eq!(stack.sent().body, body);
    assert_eq!((got.context("cut"), got.context("sent")), (0, got.context("counted")));
}

// Design: the header may lower the budget and never raise it.
#[tokio::test]
async fn the_budget_header_may_lower_the_budget_and_never_raise_it() {
    let stack = Stack::of(reply()).with("[budget]\nmax_input_tokens = 500").start().await;
    for (header, budget) in [("300", 300), ("100000", 500)] {
        let body = json!({"model": "gpt-4o", "messages": history(9)}).to_string();
        let got = stack.chat(body).user("ann").header("x-backstory-budget", header).send().await.must_be(200);
        assert!(
            got.context("budget") <= budget && got.context("sent") <= budget,
            "{}",
            got.header("x-backstory-context")
        );
        assert!(got.context("cut") > 0);
    }
    for header in ["-1", "many", "0"] {
        let body = json!({"model": "gpt-4o", "messages": history(1)}).to_string();
        stack.chat(body).user("ann").header("x-backstory-budget", header).send().await.must_be_error(400);
    }
}

// BerriAI/litellm#3329, #742: it was sent all the same, or cut in silence.
#[tokio::test]
async fn one_message_larger_than_the_budget_is_400_and_nothing_is_sent() {
    let stack = Stack::new(reply()).await;
    let messages = [json!({"role": "user", "content": "a quick brown fox ".repeat(400)})];
    for stream in [false, true] {
        let body = json!({"model": "gpt-4o", "stream": stream, "messages": messages});
        let got = stack.chat(body.to_string()).user("ann").header("x-backstory-budget", "200").send().await;
        let error = got.must_be_error(400);
        assert_eq!(
            (error["code"].as_str(), error["param"].as_str()),
            (Some("context_length_exceeded"), Some("messages"))
        );
    }
    assert_eq!(stack.upstream().accepted(), 0);
}

// Design, doubt 3: the cut works without memory, too.
#[tokio::test]
async fn the_budget_holds_without_a_subject() {
    let stack = Stack::of(reply()).with("[budget]\nmax_input_tokens = 400").start().await;
    let body = json!({"model": "gpt-4o", "messages": history(9)}).to_string();
    let got = stack.chat(body).send().await.must_be(200);
    assert!(got.context("sent") <= 400 && got.context("cut") > 0, "{}", got.header("x-backstory-context"));
}

// Design, doubt 4: memory gives way; a request is never over its budget because of us.
#[tokio::test]
async fn memory_counts_inside_the_budget_and_gives_way_first() {
    let stack = Stack::new(Script::Fixed("I see.".to_owned())).await;
    stack.tell("ann", "I'm allergic to peanuts. Our campsite at lake Inari had a broken wooden pier.").await;
    let messages = [json!({"role": "user", "content": "What was broken at the campsite at lake Inari?"})];
    let open = ask(&stack, &messages, 10_000).await.must_be(200);
    assert!(open.memory().starts_with("hit") && open.context("sent") > open.context("counted"));
    let tight = ask(&stack, &messages, open.context("counted") + 5).await.must_be(200);
    assert_eq!(tight.memory(), "miss");
    assert_eq!((tight.context("sent"), tight.context("cut")), (tight.context("counted"), 0));
}

// headroomlabs-ai/headroom PR#2942; tontinton/maki PR#407: cut anew at every turn, so that no prefix was ever cached.
#[tokio::test]
async fn a_growing_chat_is_cut_rarely_and_between_cuts_the_sent_prefix_stays_the_same_bytes() {
    let stack = Stack::of(reply()).with("[budget]\nmax_input_tokens = 1000").start().await;
    let (mut cuts, mut before): (Vec<usize>, Option<(usize, Vec<Value>)>) = (Vec::new(), None);
    for turns in 1..60 {
        let body = json!({"model": "gpt-4o", "messages": history(turns)}).to_string();
        let got = stack.chat(body).user("ann").header("x-backstory-memory", "off").send().await.must_be(200);
        let (cut, kept) = (got.context("cut"), sent(&stack));
        assert!(got.context("sent") <= 1_000, "{}", got.header("x-backstory-context"));
        if let Some((last_cut, last)) = before {
            if cut == last_cut {
                let stays = last.len() - 1;
                assert_eq!(kept[..stays], last[..stays], "turn {turns}");
            } else {
                assert!(
                    got.context("sent") <= 760,
                    "down to the low-water mark: {}",
                    got.header("x-backstory-context")
                );
                cuts.push(turns);
            }
        }
        before = Some((cut, kept));
    }
    assert!((3..=15).contains(&cuts.len()), "{cuts:?}");
}

// earendil-works/pi#8061; can1357/oh-my-pi#12741.
#[tokio::test]
async fn max_tokens_are_kept_free_in_the_window() {
    let models = "[[models]]\nname = \"small\"\n[[models.targets]]\nprovider = \"upstream\"\nmodel = \"gpt-4o\"\nwindow = 2000\nmax_output = 1500";
    let stack = Stack::of(reply()).with(models).start().await;
    let mut budgets = Vec::new();
    for (name, tokens) in [("max_tokens", 200), ("max_completion_tokens", 1_200)] {
        let body = json!({"model": "small", name: tokens, "messages": history(40)}).to_string();
        let got = stack.chat(body).user("ann").send().await.must_be(200);
        assert!(got.context("sent") + tokens <= 2_000, "{name}: {}", got.header("x-backstory-context"));
        budgets.push(got.context("budget"));
    }
    assert!(budgets[0] > budgets[1] + 900, "{budgets:?}");
}

// BerriAI/litellm#31557.
#[tokio::test]
async fn on_fallback_the_request_is_cut_again_for_the_smaller_window_from_the_original() {
    let models = "[[models]]\nname = \"two\"\n[[models.targets]]\nprovider = \"p1\"\nmodel = \"gpt-4o\"\norder = 1\n[[models.targets]]\nprovider = \"p2\"\nmodel = \"gpt-4o\"\nwindow = 1500\norder = 2";
    let stack = Stack::of(Script::As("mock-error-500")).upstream(reply()).chain(2).with(models).start().await;
    let messages = history(40);
    let body = json!({"model": "two", "max_tokens": 300, "messages": messages}).to_string();
    let got = stack.chat(body.clone()).user("ann").send().await.must_be(200);
    assert_eq!(stack.sent().body, body.replace("\"two\"", "\"gpt-4o\""), "all of it fits the first");
    let kept = stack.upstreams[1].last_request().unwrap().json()["messages"].as_array().unwrap().clone();
    assert!(got.context("cut") > 0 && got.context("sent") <= 1_200, "{}", got.header("x-backstory-context"));
    assert_eq!(kept[1..], messages[messages.len() - (kept.len() - 1)..]);
}

// Design, section 5: key data of what was cut is kept word for word.
#[tokio::test]
async fn order_numbers_amounts_dates_urls_and_versions_of_what_was_cut_stay_word_for_word() {
    let stack = Stack::new(reply()).await;
    let mut messages = history(40);
    let data = ["A-48213-X", "€1,249.50", "2026-03-14", "https://shop.example/orders/48213", "v2.4.1"];
    let text = format!(
        "My order number is {}, it cost {}, it is due on {}, see {} and firmware {}.",
        data[0], data[1], data[2], data[3], data[4]
    );
    messages.insert(1, json!({"role": "user", "content": text}));
    messages.insert(2, json!({"role": "assistant", "content": "Noted."}));
    let got = ask(&stack, &messages, 1_500).await.must_be(200);
    assert!(got.context("cut") > 0);
    let kept = json!(sent(&stack)).to_string();
    assert!(!kept.contains("My order number is A-48213-X, it cost"), "the message itself is cut");
    for piece in data {
        assert!(kept.contains(piece), "{piece} in {kept}");
    }
}
