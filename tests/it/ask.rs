//! Questions of our own to a model: what goes over the wire, and what comes of every answer.

use std::sync::Arc;
use std::time::Duration;

use backstory::ask::{Answer, Ask, AskError, Format, Question};
use backstory::base::SystemClock;
use backstory::memory::Sensitivity;
use backstory::mock::{self, End, MockHandle, Raw, Script};
use backstory::telemetry::{AskOutcome, AskPurpose, AskTokens, Metrics};
use backstory::upstream::{Api, Auth, ModelAsker, Provider, ProviderConfig};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

const KEY: &str = "sk-extraction-0123456789";

struct Asked {
    asker: ModelAsker,
    mock: MockHandle,
    metrics: Arc<Metrics>,
    _stop: tokio_util::sync::DropGuard,
}

async fn ask_with(script: Script) -> Asked {
    let stop = CancellationToken::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mock = mock::start(listener, script, &TaskTracker::new(), stop.clone()).await;
    let provider = Provider::new(ProviderConfig {
        api: Api::default(),
        name: "helper".to_owned(),
        base_url: mock.base_url(),
        auth: Auth::Keys(vec![KEY.into()]),
        headers: [("x-team".parse().unwrap(), "memory".parse().unwrap())].into_iter().collect(),
        max_sensitivity: Sensitivity::Sensitive,
        connect_timeout: Duration::from_secs(30),
    })
    .unwrap();
    let metrics = Arc::new(Metrics::new());
    let (clock, provider) = (Arc::new(SystemClock), Arc::new(provider));
    let asker = ModelAsker::new(provider, "small", AskPurpose::Extract, clock, Arc::clone(&metrics));
    Asked { asker, mock, metrics, _stop: stop.drop_guard() }
}

fn question(format: Format) -> Question {
    Question {
        system: "You sum up.".to_owned(),
        user: "A long talk.".to_owned(),
        format,
        max_output_tokens: 300,
        timeout: Duration::from_secs(60),
    }
}

fn schema() -> Format {
    Format::JsonSchema { name: "sum", schema: json!({"type": "object"}) }
}

fn completion(message: Value, finish: &str) -> Script {
    let body = json!({
        "object": "chat.completion",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {"prompt_tokens": 11, "completion_tokens": 7},
    });
    Script::Raw(Raw::json(200, body.to_string()))
}

#[tokio::test]
async fn a_question_goes_out_with_our_own_key_and_comes_back_with_its_tokens() {
    let asked = ask_with(completion(json!({"role": "assistant", "content": "Short."}), "stop")).await;
    let answer = asked.asker.ask(&question(schema())).await.unwrap();
    assert_eq!(answer, Answer { text: "Short.".to_owned(), input_tokens: 11, output_tokens: 7, finished: true });
    let sent = asked.mock.last_request().unwrap();
    assert_eq!(sent.path(), "/v1/chat/completions");
    assert_eq!(sent.header("authorization"), Some(&*format!("Bearer {KEY}")));
    assert_eq!((sent.header("x-team"), sent.header("x-backstory-memory")), (Some("memory"), Some("off")));
    let body = sent.json();
    assert_eq!((&body["model"], &body["max_tokens"], &body["stream"]), (&json!("small"), &json!(300), &json!(false)));
    assert_eq!(body["response_format"]["json_schema"]["strict"], true);
    assert_eq!(body["messages"].as_array().unwrap().len(), 2);
    assert_eq!(asked.metrics.asks.get(AskPurpose::Extract, AskOutcome::Ok), 1);
    assert_eq!(asked.metrics.ask_tokens.get(AskPurpose::Extract, AskTokens::Output), 7);
}

// Reasoning models refuse what all others take; a client of ours must not have to know.
#[tokio::test]
async fn a_member_that_the_model_does_not_take_is_left_out_from_then_on() {
    let asked = ask_with(Script::from_fn(|request| {
        let body = request.json();
        if body.get("max_tokens").is_some() {
            return Script::Raw(Raw::error(400, "Unsupported parameter: use 'max_completion_tokens' instead."));
        }
        if body.get("temperature").is_some() {
            return Script::Raw(Raw::error(400, "Unsupported value: 'temperature' does not support 0."));
        }
        Script::Fixed("Short.".to_owned())
    }))
    .await;
    assert_eq!(asked.asker.ask(&question(Format::Text)).await.unwrap().text, "Short.");
    assert_eq!(asked.mock.accepted(), 3);
    asked.asker.ask(&question(Format::Text)).await.unwrap();
    assert_eq!(asked.mock.accepted(), 4);
    assert_eq!(asked.mock.last_request().unwrap().json()["max_completion_tokens"], 300);
}

#[tokio::test]
async fn reasoning_is_ignored_and_a_cut_answer_says_so() {
    let message = json!({"role": "assistant", "reasoning_content": "hm", "content": "<think>hm</think>Sho"});
    let asked = ask_with(completion(message, "length")).await;
    let answer = asked.asker.ask(&question(Format::Text)).await.unwrap();
    assert_eq!((answer.text.as_str(), answer.finished), ("Sho", false));
    assert_eq!(asked.metrics.asks.get(AskPurpose::Extract, AskOutcome::Unfinished), 1);
}

#[tokio::test]
async fn each_kind_of_failure_has_its_name() {
    let refusal = json!({"role": "assistant", "content": null, "refusal": "I cannot help with that."});
    let broken = Raw::json(200, r#"{"choices":[{"message":{"content":"Sh"#).ending(End::Reset);
    let error = Raw::json(200, r#"{"error":{"message":"overloaded"}}"#);
    let unsupported = Raw::error(400, "'response_format' of this type is not supported");
    let endless = Raw::json(200, format!("{}{}", " ".repeat(1 << 20), r#"{"choices":[]}"#));
    let cases = [
        (Script::Raw(unsupported), AskOutcome::Format),
        (Script::Raw(Raw::error(429, "slow down")), AskOutcome::Later),
        (Script::Raw(Raw::error(503, "busy")), AskOutcome::Later),
        (Script::Raw(broken), AskOutcome::Later),
        (Script::Raw(error), AskOutcome::Later),
        (Script::Raw(Raw::error(401, "no such key")), AskOutcome::Refused),
        (completion(refusal, "stop"), AskOutcome::Refused),
        (Script::Raw(endless), AskOutcome::Refused),
    ];
    for (script, outcome) in cases {
        let name = format!("{script:?} {outcome:?}");
        let asked = ask_with(script).await;
        let error = asked.asker.ask(&question(schema())).await.expect_err(&name);
        assert_eq!(asked.metrics.asks.get(AskPurpose::Extract, outcome), 1, "{name}: {error}");
        assert!(!error.to_string().contains("sk-"), "{error}");
    }
}

#[tokio::test]
async fn a_limit_says_how_long_to_wait() {
    let asked = ask_with(Script::Raw(Raw::error(429, "slow down"))).await;
    let Err(AskError::Later { retry_after, .. }) = asked.asker.ask(&question(Format::Text)).await else {
        panic!("a limit is no refusal");
    };
    assert_eq!(retry_after, Some(Duration::from_secs(1)));
}

#[tokio::test]
async fn a_silent_model_is_left_when_its_time_is_up() {
    let asked = ask_with(Script::As("mock-stall-header")).await;
    let question = Question { timeout: Duration::from_millis(30), ..question(Format::Text) };
    assert!(matches!(asked.asker.ask(&question).await, Err(AskError::Later { .. })));
}
