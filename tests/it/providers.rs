//! Targets of other kinds than OpenAI's: what they are sent, and what the client gets of their answers.

mod azure;
mod from_messages;

use backstory::mock::{Recorded, Script};
use serde_json::{Value, json};

use crate::support::fake::{Answer, Fake};
use crate::support::{Got, PROVIDER_KEY, Stack};

const JSON: &str = "application/json";
const SSE: &str = "text/event-stream";

const REPLY: &str = r#"{"id":"msg_1","type":"message","role":"assistant","model":"claude-sonnet-4-5-20250929","content":[{"type":"text","text":"Hello"}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":10,"cache_creation_input_tokens":200,"cache_read_input_tokens":3000,"output_tokens":7}}"#;

const STREAM: &str = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"claude-sonnet-4-5-20250929\",\"content\":[],\"stop_reason\":null,\"usage\":{\"input_tokens\":25,\"output_tokens\":1}}}\n\nevent: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\nevent: ping\ndata: {\"type\":\"ping\"}\n\nevent: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"Hello\"}}\n\nevent: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\nevent: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\",\"stop_sequence\":null},\"usage\":{\"output_tokens\":15}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";

const CLAUDE: &str = r#"
[[models]]
name = "claude"
[[models.targets]]
provider = "anthropic"
model = "claude-sonnet-4-5"
"#;

fn provider(url: &str, more: &str) -> String {
    format!(
        "[[providers]]\nname = \"anthropic\"\nkind = \"anthropic\"\nbase_url = \"{url}/v1\"\napi_key = \"${{PROVIDER_KEY}}\"\n{more}\n"
    )
}

/// A gateway in front of an upstream of Anthropic's kind, and that upstream.
async fn claude_with(more: &str, answer: impl Fn(&Recorded) -> Answer + Send + Sync + 'static) -> (Stack, Fake) {
    let fake = Fake::start(answer).await;
    let stack = Stack::of(Script::default()).providers(&provider(&fake.url, more)).with(CLAUDE).start().await;
    (stack, fake)
}

/// One that answers well, as it is asked to.
fn well(asked: &Recorded) -> Answer {
    match asked.json()["stream"].as_bool() {
        Some(true) => (200, SSE, STREAM.to_owned()),
        _ => (200, JSON, REPLY.to_owned()),
    }
}

async fn ask(stack: &Stack, body: &Value) -> Got {
    stack.chat(body.to_string()).send().await
}

fn hello() -> Value {
    json!({"model": "claude", "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]})
}

fn with(mut body: Value, more: &Value) -> Value {
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

#[tokio::test]
async fn a_chat_request_reaches_anthropic_in_its_own_dialect_and_comes_back_as_chat() {
    let (stack, fake) = claude_with("", well).await;
    let got = ask(&stack, &with(hello(), &json!({"max_tokens": 50, "seed": 7}))).await.must_be(200);
    let sent = fake.last();
    assert_eq!((sent.path(), sent.header("x-api-key")), ("/v1/messages", Some(PROVIDER_KEY)));
    assert_eq!((sent.header("anthropic-version"), sent.header("authorization")), (Some("2023-06-01"), None));
    assert_eq!(
        sent.json(),
        json!({"model": "claude-sonnet-4-5", "max_tokens": 50, "system": [{"type": "text", "text": "Be brief."}],
               "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]})
    );
    let reply = got.json();
    assert_eq!(reply["choices"][0]["message"]["content"], "Hello");
    assert_eq!(reply["usage"]["prompt_tokens"], 3210);
    assert_eq!(got.header("x-backstory-dropped"), "seed");
    assert_eq!(got.header("anthropic-ratelimit-requests-remaining"), "7");
    assert_eq!(got.header("x-upstream-request-id"), "req_up");
    assert_eq!(got.header("x-backstory-target"), "anthropic/claude-sonnet-4-5; attempts=1");
}

#[tokio::test]
async fn a_request_without_a_limit_gets_the_models_own() {
    let (stack, fake) = claude_with("", well).await;
    ask(&stack, &hello()).await.must_be(200);
    assert!(fake.last().json()["max_tokens"].as_u64().unwrap() > 4096, "{:?}", fake.last().json());
}

#[tokio::test]
async fn a_stream_comes_as_chunks_with_the_usage_that_the_client_asked_for() {
    let (stack, _fake) = claude_with("", well).await;
    for (asks, told) in [(true, true), (false, false)] {
        let more = json!({"stream": true, "stream_options": {"include_usage": asks}});
        let got = ask(&stack, &with(hello(), &more)).await.must_be(200);
        let text = got.text();
        assert!(text.contains(r#""content":"Hello""#) && text.contains(r#""finish_reason":"stop""#), "{text}");
        assert!(text.ends_with("data: [DONE]\n\n"), "{text}");
        assert_eq!(text.contains(r#""prompt_tokens":25"#), told, "{text}");
    }
}

#[tokio::test]
async fn memory_is_shown_and_learned_from_through_another_dialect() {
    let (stack, fake) = claude_with("", well).await;
    let said = json!({"model": "claude", "messages": [{"role": "user", "content": "I'm allergic to peanuts."}]});
    stack.chat(said.to_string()).user("ann").send().await.must_be(200);
    stack.learned().await;
    for stream in [false, true] {
        let asked = with(hello(), &json!({"stream": stream}));
        let got = stack.chat(asked.to_string()).user("ann").send().await.must_be(200);
        assert!(got.header("x-backstory-memory").starts_with("hit"), "{}", got.header("x-backstory-memory"));
        let system = fake.last().json()["system"][0]["text"].to_string();
        assert!(system.starts_with("\"Be brief.") && system.contains("peanuts"), "{system}");
    }
}

#[tokio::test]
async fn a_tool_loop_goes_round() {
    let calls = r#"{"id":"msg_1","type":"message","role":"assistant","model":"c","content":[{"type":"thinking","thinking":"hm","signature":"Sig=="},{"type":"tool_use","id":"toolu_1","name":"weather","input":{"city":"Oslo"}}],"stop_reason":"tool_use","usage":{"input_tokens":1,"output_tokens":1}}"#;
    let (stack, fake) = claude_with("", move |asked| {
        let n = asked.json()["messages"].as_array().map_or(0, Vec::len);
        (200, JSON, if n == 1 { calls.to_owned() } else { REPLY.to_owned() })
    })
    .await;
    let tools = json!([{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}]);
    let user = json!({"role": "user", "content": "Weather in Oslo?"});
    let first = ask(&stack, &json!({"model": "claude", "messages": [user], "tools": tools})).await.must_be(200).json();
    let message = &first["choices"][0]["message"];
    assert_eq!(message["tool_calls"][0]["function"]["arguments"], r#"{"city":"Oslo"}"#);
    let result = json!({"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "4 °C"});
    let second = json!({"model": "claude", "messages": [user, message, result], "tools": tools});
    ask(&stack, &second).await.must_be(200);
    assert_eq!(
        fake.last().json()["messages"],
        json!([{"role": "user", "content": [{"type": "text", "text": "Weather in Oslo?"}]},
               {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "Sig=="},
                                                 {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Oslo"}}]},
               {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "4 °C"}]}])
    );
}

#[tokio::test]
async fn errors_come_in_the_clients_envelope_with_status_and_words_and_without_keys() {
    let (stack, _fake) = claude_with("", |_| {
        let message = format!("invalid x-api-key {PROVIDER_KEY}");
        (401, JSON, json!({"type": "error", "error": {"type": "authentication_error", "message": message}}).to_string())
    })
    .await;
    let error = ask(&stack, &hello()).await.must_be(401).json();
    assert_eq!(
        error["error"],
        json!({"message": "invalid x-api-key ***", "type": "authentication_error", "param": null, "code": "authentication_error"})
    );
    let (stack, _fake) = claude_with("", |_| {
        (529, JSON, r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#.to_owned())
    })
    .await;
    assert_eq!(ask(&stack, &hello()).await.must_be(529).json()["error"]["type"], "overloaded_error");
}

#[tokio::test]
async fn a_window_that_is_too_small_is_learned_and_the_request_cut_anew() {
    let (stack, fake) = claude_with("", |asked| {
        if asked.body.len() > 20_000 {
            let error = r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 9000 tokens > 4000 maximum"}}"#;
            return (400, JSON, error.to_owned());
        }
        (200, JSON, REPLY.to_owned())
    })
    .await;
    let old = "word ".repeat(4_000);
    let messages: Vec<Value> =
        [("user", &*old), ("assistant", "ok"), ("user", &*old), ("assistant", "ok"), ("user", "and now?")]
            .map(|(role, content)| json!({"role": role, "content": content}))
            .to_vec();
    let got = ask(&stack, &json!({"model": "claude", "messages": messages, "max_tokens": 100})).await.must_be(200);
    assert_eq!((fake.asked().len(), got.header("x-backstory-target")), (2, "anthropic/claude-sonnet-4-5; attempts=2"));
}

const BOTH: &str = r#"
[[models]]
name = "both"
[[models.targets]]
provider = "anthropic"
model = "claude-sonnet-4-5"
order = 1
[[models.targets]]
provider = "openai"
model = "mock"
order = 2
"#;

/// A gateway with one model behind which stand both kinds.
async fn both(more: &str, answer: impl Fn(&Recorded) -> Answer + Send + Sync + 'static) -> (Stack, Fake) {
    let fake = Fake::start(answer).await;
    let providers = provider(&fake.url, more)
        + "[[providers]]\nname = \"openai\"\nbase_url = \"${UPSTREAM}\"\napi_key = \"${PROVIDER_KEY}\"\n";
    let stack = Stack::of(Script::default()).providers(&providers).with(BOTH).start().await;
    (stack, fake)
}

#[tokio::test]
async fn a_request_goes_on_to_a_target_of_another_kind_in_that_ones_dialect() {
    let overloaded = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n";
    for (status, kind, text) in [
        (529, JSON, r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#),
        // Inside a 200, before anything was said.
        (200, SSE, overloaded),
    ] {
        let (stack, fake) = both("", move |_| (status, kind, text.to_owned())).await;
        let body =
            json!({"model": "both", "stream": kind == SSE, "seed": 7, "messages": [{"role": "user", "content": "Hi"}]});
        let got = ask(&stack, &body).await.must_be(200);
        assert_eq!(got.header("x-backstory-target"), "openai/mock; attempts=2");
        assert_eq!((fake.asked().len(), got.header("x-backstory-dropped")), (1, ""));
        let sent = stack.sent();
        assert_eq!((sent.path(), sent.json()["seed"].as_u64()), ("/v1/chat/completions", Some(7)));
    }
}

#[tokio::test]
async fn what_one_target_cannot_be_told_goes_to_another_and_is_refused_where_there_is_none() {
    let (stack, fake) = both("untranslatable = \"refuse\"", well).await;
    let body = json!({"model": "both", "seed": 7, "messages": [{"role": "user", "content": "Hi"}]});
    let got = ask(&stack, &body).await.must_be(200);
    assert_eq!((got.header("x-backstory-target"), fake.asked().len()), ("openai/mock; attempts=1", 0));

    let (stack, fake) = claude_with("untranslatable = \"refuse\"", well).await;
    let error = ask(&stack, &with(hello(), &json!({"seed": 7}))).await.must_be_error(400);
    assert_eq!((error["param"].as_str(), error["code"].as_str()), (Some("seed"), Some("unsupported_by_target")));
    let audio =
        json!([{"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "x", "format": "wav"}}]}]);
    let error = ask(&stack, &with(hello(), &json!({"messages": audio}))).await.must_be_error(400);
    assert_eq!((error["param"].as_str(), fake.asked().len()), (Some("messages[0].content[0]"), 0));
}

#[tokio::test]
async fn embeddings_of_a_target_that_has_none_are_refused() {
    let (stack, fake) = claude_with("", well).await;
    let body = json!({"model": "claude", "input": "a"});
    let error = stack.ask("POST", "/v1/embeddings").json(&body).send().await.must_be_error(400);
    assert_eq!((error["code"].as_str(), fake.asked().len()), (Some("unsupported_by_target"), 0));
}

#[tokio::test]
async fn a_stream_that_breaks_off_ends_in_an_error_and_without_done() {
    let cut = STREAM.split("event: message_delta").next().unwrap().to_owned();
    let (stack, _fake) = claude_with("", move |_| (200, SSE, cut.clone())).await;
    let got = ask(&stack, &with(hello(), &json!({"stream": true}))).await.must_be(200);
    assert!(got.text().contains("stream_interrupted") && !got.text().contains("[DONE]"), "{}", got.text());
}
