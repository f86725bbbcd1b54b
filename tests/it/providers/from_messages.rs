//! Clients of the Messages API: before a target of OpenAI's kind, and before one that takes them as they are.

use super::*;

const GPT: &str = r#"
[[models]]
name = "gpt"
[[models.targets]]
provider = "openai"
model = "gpt-4o-mini"
"#;

const CHAT_REPLY: &str = r#"{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"gpt-4o-mini","choices":[{"index":0,"message":{"role":"assistant","content":"Hello"},"finish_reason":"stop"}],"usage":{"prompt_tokens":12,"completion_tokens":3,"total_tokens":15,"prompt_tokens_details":{"cached_tokens":2}}}"#;

const CHAT_STREAM: &str = "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"gpt-4o-mini\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"Hello\"},\"finish_reason\":null}]}\n\ndata: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"gpt-4o-mini\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"gpt-4o-mini\",\"choices\":[],\"usage\":{\"prompt_tokens\":12,\"completion_tokens\":3,\"total_tokens\":15}}\n\ndata: [DONE]\n\n";

fn well_as_chat(asked: &Recorded) -> Answer {
    match asked.json()["stream"].as_bool() {
        Some(true) => (200, SSE, CHAT_STREAM.to_owned()),
        _ => (200, JSON, CHAT_REPLY.to_owned()),
    }
}

async fn gpt(answer: impl Fn(&Recorded) -> Answer + Send + Sync + 'static) -> (Stack, Fake) {
    let fake = Fake::start(answer).await;
    let provider =
        format!("[[providers]]\nname = \"openai\"\nbase_url = \"{}/v1\"\napi_key = \"${{PROVIDER_KEY}}\"\n", fake.url);
    let stack = Stack::of(Script::default()).providers(&provider).with(GPT).start().await;
    (stack, fake)
}

async fn ask_messages(stack: &Stack, user: &str, body: &Value) -> Got {
    stack.ask("POST", "/v1/messages").json(body).user(user).send().await
}

fn hi(model: &str) -> Value {
    json!({"model": model, "max_tokens": 50, "system": "Be brief.", "messages": [{"role": "user", "content": "Hi"}]})
}

#[tokio::test]
async fn a_messages_request_reaches_openai_as_chat_and_comes_back_as_messages() {
    let (stack, fake) = gpt(well_as_chat).await;
    let got = ask_messages(&stack, "ann", &with(hi("gpt"), &json!({"top_k": 4}))).await.must_be(200);
    assert_eq!(fake.last().path(), "/v1/chat/completions");
    assert_eq!(
        fake.last().json(),
        json!({"model": "gpt-4o-mini", "max_tokens": 50, "messages": [
            {"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]})
    );
    let reply = got.json();
    assert_eq!((reply["type"].as_str(), reply["content"][0]["text"].as_str()), (Some("message"), Some("Hello")));
    assert_eq!((reply["usage"]["input_tokens"].as_u64(), reply["stop_reason"].as_str()), (Some(10), Some("end_turn")));
    assert_eq!(got.header("x-backstory-dropped"), "top_k");
}

#[tokio::test]
async fn a_chat_stream_comes_as_events() {
    let (stack, fake) = gpt(well_as_chat).await;
    let got = ask_messages(&stack, "ann", &with(hi("gpt"), &json!({"stream": true}))).await.must_be(200);
    let kinds: Vec<&str> = got.text().lines().filter_map(|line| line.strip_prefix("event: ")).collect();
    assert_eq!(
        kinds,
        [
            "message_start",
            "content_block_start",
            "content_block_delta",
            "content_block_stop",
            "message_delta",
            "message_stop"
        ]
    );
    assert!(got.text().contains(r#""input_tokens":12"#), "{}", got.text());
    assert_eq!(fake.last().json()["stream_options"]["include_usage"], true);
}

#[tokio::test]
async fn memory_is_one_over_both_dialects_and_both_kinds() {
    let (stack, fake) = both("", well).await;
    let said = json!({"model": "both", "max_tokens": 50, "messages": [{"role": "user", "content": "I'm allergic to peanuts."}]});
    ask_messages(&stack, "ann", &said).await.must_be(200);
    assert_eq!(fake.last().body, said.to_string().replace("\"both\"", "\"claude-sonnet-4-5\""), "as it came");
    stack.learned().await;
    let asked = json!({"model": "both", "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "What may I eat?"}]});
    let got = stack.chat(asked.to_string()).user("ann").send().await.must_be(200);
    assert!(got.header("x-backstory-memory").starts_with("hit"), "{}", got.header("x-backstory-memory"));
    assert!(fake.last().json()["system"][0]["text"].as_str().unwrap().contains("peanuts"));

    let (stack, fake) = gpt(well_as_chat).await;
    ask_messages(
        &stack,
        "bob",
        &with(hi("gpt"), &json!({"messages": [{"role": "user", "content": "I'm allergic to shrimp."}]})),
    )
    .await
    .must_be(200);
    stack.learned().await;
    ask_messages(&stack, "bob", &with(hi("gpt"), &json!({"stream": true}))).await.must_be(200);
    let system = fake.last().json()["messages"][0]["content"].to_string();
    assert!(system.starts_with("\"Be brief.") && system.contains("shrimp"), "{system}");
}

#[tokio::test]
async fn errors_of_openai_come_in_anthropics_envelope() {
    let (stack, _fake) = gpt(|_| {
        let error =
            r#"{"error":{"message":"Rate limit reached","type":"requests","param":null,"code":"rate_limit_exceeded"}}"#;
        (429, JSON, error.to_owned())
    })
    .await;
    let error = ask_messages(&stack, "ann", &hi("gpt")).await.must_be(429).json();
    assert_eq!(error, json!({"type": "error", "error": {"type": "rate_limit_error", "message": "Rate limit reached"}}));
}

#[tokio::test]
async fn tools_that_a_server_runs_are_refused_by_name() {
    let (stack, fake) = gpt(well_as_chat).await;
    let tools = json!({"tools": [{"type": "web_search_20250305", "name": "web_search"}]});
    let error = ask_messages(&stack, "ann", &with(hi("gpt"), &tools)).await.must_be(400).json();
    assert_eq!(
        (error["type"].as_str(), error["error"]["type"].as_str()),
        (Some("error"), Some("invalid_request_error"))
    );
    assert!(error["error"]["message"].as_str().unwrap().contains("web_search_20250305"), "{error}");
    assert_eq!(fake.asked().len(), 0);
}

#[tokio::test]
async fn a_stream_option_that_a_server_refuses_is_left_out_the_next_time() {
    let (stack, fake) = gpt(|asked| match asked.json().get("stream_options") {
        Some(_) => (
            400,
            JSON,
            r#"{"error":{"message":"Unknown parameter: stream_options","type":"invalid_request_error"}}"#.to_owned(),
        ),
        None => (200, SSE, CHAT_STREAM.to_owned()),
    })
    .await;
    for asked in [2, 3] {
        ask_messages(&stack, "ann", &with(hi("gpt"), &json!({"stream": true}))).await.must_be(200);
        assert_eq!(fake.asked().len(), asked);
    }
}
