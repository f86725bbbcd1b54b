//! An embedding server behind the engine `openai`: what goes over the wire, and what comes of every answer.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use backstory::app::{Parts, embedder};
use backstory::base::{SeededRandom, SystemClock};
use backstory::config::{Config, Overrides, SystemEnv};
use backstory::embed::{Embed, EmbedError, Side};
use backstory::mock::{MockHandle, Raw, Script, start};
use backstory::telemetry::{EmbedOutcome, EmbedSide};
use serde_json::json;
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::support::Stack;

const KEY: &str = "sk-embeddings-0123456789";

struct Asked {
    embedder: Arc<dyn Embed>,
    mock: MockHandle,
    stop: DropGuard,
}

impl Asked {
    async fn error(&self, side: Side, texts: &[&str]) -> EmbedError {
        self.embedder.embed(side, texts).await.expect_err("the answer cannot be used")
    }
}

/// An embedder as the configuration makes it, `more` in its section.
async fn with(script: Script, more: &str) -> Asked {
    let stop = CancellationToken::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mock = start(listener, script, &TaskTracker::new(), stop.clone()).await;
    let text = format!(
        "[[providers]]\nname = \"chat\"\nbase_url = \"http://127.0.0.1:9/v1\"\napi_key = \"sk-chat-0123456789\"\ndefault = true\n\
         [[providers]]\nname = \"vectors\"\nbase_url = \"{}\"\napi_key = \"{KEY}\"\n\
         [embeddings]\nengine = \"openai\"\nprovider = \"vectors\"\nmodel = \"small\"\n{more}",
        mock.base_url()
    );
    let config = Config::parse(&text, Path::new("it.toml"), &SystemEnv, &Overrides::default()).unwrap();
    let parts = Parts { clock: Arc::new(SystemClock), random: Arc::new(SeededRandom::new(1)) };
    let embedder = embedder(&config, &parts).await.unwrap().unwrap();
    Asked { embedder, mock, stop: stop.drop_guard() }
}

fn length(vector: &[f32]) -> f32 {
    vector.iter().map(|x| x * x).sum::<f32>().sqrt()
}

/// BerriAI/litellm#32202: its own key, never the client's nor another provider's.
#[tokio::test]
async fn texts_go_out_with_the_key_of_their_provider_their_prefix_and_the_dimension() {
    let asked =
        with(Script::As("mock-reversed"), "dimension = 32\nquery_prefix = \"q: \"\ndocument_prefix = \"d: \"").await;
    let vectors = asked.embedder.embed(Side::Document, &["one", "two"]).await.unwrap();
    let sent = asked.mock.last_request().unwrap();
    assert_eq!((sent.path(), sent.header("authorization")), ("/v1/embeddings", Some(&*format!("Bearer {KEY}"))));
    assert_eq!(sent.header("x-backstory-memory"), Some("off"));
    let wanted = json!({"model": "small", "input": ["d: one", "d: two"], "encoding_format": "float", "dimensions": 32});
    assert_eq!(sent.json(), wanted);
    assert!(vectors.iter().all(|v| v.len() == 32 && (length(v) - 1.0).abs() < 1e-5));
    let question = asked.embedder.embed(Side::Query, &["one"]).await.unwrap();
    assert_eq!(asked.mock.last_request().unwrap().json()["input"], json!(["q: one"]));
    // The mock's vectors are near where words are shared: each text has its own, whatever the order of the answer.
    let near = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
    assert!(near(&question[0], &vectors[0]) > near(&question[0], &vectors[1]));
}

#[tokio::test]
async fn many_texts_are_asked_in_requests_of_bounded_size_and_none_of_them_twice() {
    let asked = with(Script::As("mock"), "").await;
    let texts: Vec<String> = (0..100).map(|number| format!("text {number}")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let all = asked.embedder.embed(Side::Document, &texts).await.unwrap();
    assert_eq!((all.len(), asked.mock.accepted()), (100, 4));
    assert_eq!(asked.embedder.embed(Side::Document, &texts[10..20]).await.unwrap(), all[10..20]);
    assert_eq!(asked.mock.accepted(), 4);
}

/// The issue's bad answers, each by its name.
#[tokio::test]
async fn an_answer_that_cannot_be_used_is_an_error_that_says_why() {
    for (model, word) in [
        ("mock-few-vectors", "0 vectors for 1 texts"),
        ("mock-nan", "numbers that are none"),
        ("mock-null", "numbers that are none"),
        ("mock-zeros", "zeros"),
        ("mock-html", "HTML"),
    ] {
        for side in [Side::Query, Side::Document] {
            let asked = with(Script::As(model), "").await;
            let error = asked.error(side, &["I live in Oslo"]).await;
            assert!(matches!(&error, EmbedError::Unusable(reason) if reason.contains(word)), "{model}: {error}");
            // A stored text may be the reason: whether it is, is told by another one.
            let requests = if side == Side::Query { 1 } else { 2 };
            assert_eq!((error.to_string().contains("Oslo"), asked.mock.accepted()), (false, requests));
        }
    }
}

#[tokio::test]
async fn a_dimension_other_than_configured_or_learned_is_never_mixed_in() {
    let asked = with(Script::As("mock-other-dimension"), "dimension = 64").await;
    let error = asked.error(Side::Query, &["one"]).await;
    assert!(
        matches!(&error, EmbedError::Unusable(reason) if reason.contains("63") && reason.contains("64")),
        "{error}"
    );
    let script = Script::Sequence(vec![Script::As("mock"), Script::As("mock-other-dimension")]);
    let asked = with(script, "").await;
    assert_eq!(asked.embedder.embed(Side::Query, &["one"]).await.unwrap()[0].len(), 64);
    let error = asked.error(Side::Document, &["two"]).await;
    assert!(matches!(&error, EmbedError::Unusable(reason) if reason.contains("came before")), "{error}");
    // The model was exchanged: what it makes now is another generation, of which nothing of before is a part.
    assert_eq!(asked.embedder.embed(Side::Query, &["one"]).await.unwrap()[0].len(), 63);
    assert_eq!(asked.embedder.embed(Side::Document, &["two"]).await.unwrap()[0].len(), 63);
}

#[tokio::test]
async fn stored_texts_are_asked_again_and_a_question_is_not() {
    let busy = Script::Raw(Raw::error(429, "slow down").with_header("retry-after-ms", "1"));
    let script = Script::Sequence(vec![busy.clone(), Script::Raw(Raw::error(503, "busy")), Script::As("mock")]);
    let asked = with(script, "").await;
    assert_eq!(asked.embedder.embed(Side::Document, &["one"]).await.unwrap().len(), 1);
    assert_eq!(asked.mock.accepted(), 3);
    let asked = with(busy, "").await;
    assert!(matches!(asked.error(Side::Query, &["one"]).await, EmbedError::Later { retry_after: Some(_), .. }));
    assert_eq!(asked.mock.accepted(), 1);
}

#[tokio::test]
async fn a_server_that_asks_for_a_long_wait_is_not_waited_for() {
    let asked =
        with(Script::Raw(Raw::error(429, "come back later").with_header("retry-after-ms", "3000000")), "").await;
    let error = asked.error(Side::Document, &["one"]).await;
    assert!(matches!(error, EmbedError::Later { retry_after: Some(wait), .. } if wait > Duration::from_secs(60)));
    assert_eq!(asked.mock.accepted(), 1);
}

#[tokio::test]
async fn a_refused_text_does_not_sink_its_neighbours() {
    let script = Script::from_fn(|request| {
        if request.json()["input"].to_string().contains("bad") {
            Script::Raw(Raw::error(400, "'$.input' is invalid."))
        } else {
            Script::As("mock")
        }
    });
    let asked = with(script, "").await;
    let texts = ["one", "two", "bad", "four", "five"];
    let vectors = asked.embedder.embed_each(Side::Document, &texts).await.unwrap();
    let there: Vec<bool> = vectors.iter().map(Option::is_some).collect();
    assert_eq!(there, [true, true, false, true, true]);
    assert!(matches!(asked.error(Side::Document, &texts).await, EmbedError::Refused(_)));
}

/// ollama/ollama#15582, ggml-org/llama.cpp#26044: 500 for one text, or numbers that are none.
#[tokio::test]
async fn a_text_that_a_model_has_no_vector_for_does_not_sink_its_neighbours() {
    let broken = r#"{"error":{"message":"failed to encode response: json: unsupported value: NaN"}}"#;
    for bad in [
        Script::Raw(Raw::error(500, broken)),
        Script::As("mock-zeros"),
        Script::As("mock-nan"),
        Script::Raw(Raw::error(400, "'$.input' is invalid.")),
        Script::Raw(Raw::error(400, "the input is too long")),
    ] {
        let name = format!("{bad:?}");
        let script = Script::from_fn(move |request| {
            if request.json()["input"].to_string().contains("bad") { bad.clone() } else { Script::As("mock") }
        });
        let asked = with(script, "").await;
        // Three at the head: the server takes others, so it is about them.
        for texts in [&["bad 1", "bad 2", "bad 3", "four", "five"][..], &["one", "two", "bad 3", "four"], &["bad"]] {
            let vectors = asked.embedder.embed_each(Side::Document, texts).await.unwrap();
            let wanted: Vec<bool> = texts.iter().map(|text| !text.starts_with("bad")).collect();
            assert_eq!(vectors.iter().map(Option::is_some).collect::<Vec<_>>(), wanted, "{name}");
        }
    }
}

/// FastAPI's 422 repeats what was sent, and a memory may say anything.
#[tokio::test]
async fn what_a_memory_says_in_an_error_teaches_nothing() {
    let script = Script::from_fn(|request| {
        let input = request.json()["input"].to_string();
        if input.contains("bad") {
            let said = json!({"detail": [{"loc": ["body", "input"], "msg": "wrong", "input": input}]});
            return Script::Raw(Raw::json(422, said.to_string()));
        }
        Script::As("mock")
    });
    let asked = with(script, "dimension = 64").await;
    let long = format!("bad: it was too long in every dimension, must have less than 9 tokens {}", "x".repeat(4_000));
    assert_eq!(asked.embedder.embed_each(Side::Document, &[&long]).await.unwrap(), [None]);
    let whole = "y".repeat(4_000);
    asked.embedder.embed(Side::Query, &[&whole]).await.unwrap();
    let sent = asked.mock.last_request().unwrap().json();
    assert_eq!((sent["dimensions"].clone(), sent["input"][0].as_str().unwrap().len()), (json!(64), 4_000));
}

/// A sentence of upstream itself is believed when asking as it wants helps.
#[tokio::test]
async fn what_does_not_help_is_not_remembered() {
    let script = Script::from_fn(|request| {
        if request.json()["input"].to_string().contains("bad") {
            return Script::Raw(Raw::error(400, "the input is too long, or has the wrong dimension"));
        }
        Script::As("mock")
    });
    let asked = with(script, "dimension = 64").await;
    assert_eq!(asked.embedder.embed_each(Side::Document, &[&"bad ".repeat(300)]).await.unwrap(), [None]);
    asked.embedder.embed(Side::Query, &[&"y".repeat(4_000)]).await.unwrap();
    let sent = asked.mock.last_request().unwrap().json();
    assert_eq!((sent["dimensions"].clone(), sent["input"][0].as_str().unwrap().len()), (json!(64), 4_000));
}

#[tokio::test]
async fn a_server_that_refuses_everything_is_not_asked_for_each_text() {
    let asked = with(Script::Raw(Raw::error(400, "no such model")), "").await;
    let texts: Vec<String> = (0..32).map(|number| format!("text {number}")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    assert!(matches!(asked.embedder.embed_each(Side::Document, &texts).await, Err(EmbedError::Refused(_))));
    assert!(asked.mock.accepted() < 12, "{}", asked.mock.accepted());
    let asked = with(Script::Raw(Raw::error(401, "wrong key")), "").await;
    assert!(matches!(asked.error(Side::Document, &texts).await, EmbedError::Refused(_)));
    assert_eq!(asked.mock.accepted(), 1);
}

#[tokio::test]
async fn a_text_longer_than_the_model_reads_gives_its_beginning() {
    let asked = with(Script::As("mock-window-300"), "").await;
    let long = "I like long walks on the beach. ".repeat(4_000);
    let vectors = asked.embedder.embed(Side::Document, &["short", &long, "short too"]).await.unwrap();
    assert_eq!(vectors.len(), 3);
    let before = asked.mock.accepted();
    // What it reads was learned: the next one fits at once.
    asked.embedder.embed(Side::Query, &[&long[1..]]).await.unwrap();
    assert_eq!(asked.mock.accepted(), before + 1);
}

#[tokio::test]
async fn members_that_a_server_does_not_take_are_left_out_from_then_on() {
    let script = Script::from_fn(|request| {
        let body = request.json();
        if body.get("dimensions").is_some() {
            return Script::Raw(Raw::error(400, "Model does not support changing the output dimensions."));
        }
        if body.get("encoding_format").is_some() {
            return Script::Raw(Raw::error(422, "extra fields not permitted: encoding_format"));
        }
        Script::As("mock")
    });
    let asked = with(script, "dimension = 64").await;
    assert_eq!(asked.embedder.embed(Side::Query, &["one"]).await.unwrap()[0].len(), 64);
    asked.embedder.embed(Side::Query, &["two"]).await.unwrap();
    assert_eq!(asked.mock.accepted(), 4);
}

#[tokio::test]
async fn nothing_listens_and_that_is_said_without_the_key() {
    let asked = with(Script::As("mock"), "").await;
    let Asked { embedder, mock, stop } = asked;
    drop(stop);
    // The listener goes with its task.
    while tokio::net::TcpStream::connect(mock.addr).await.is_ok() {
        tokio::task::yield_now().await;
    }
    let error = embedder.embed(Side::Query, &["one"]).await.unwrap_err();
    assert!(matches!(error, EmbedError::Later { .. }) && !error.to_string().contains(KEY), "{error}");
}

#[tokio::test]
async fn a_gateway_with_a_local_model_starts_and_has_its_metrics() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/embed/tiny-wordpiece");
    let section = format!("[embeddings]\nengine = \"local\"\npath = {:?}\n", folder.display().to_string());
    let stack = Stack::of(Script::Model).with(&section).start().await;
    let embedder = stack.app.embedder.clone().unwrap();
    assert_eq!(embedder.embed(Side::Query, &["the lazy dog"]).await.unwrap()[0].len(), 24);
    assert!(embedder.embed(Side::Query, &["the lazy dog"]).await.is_ok());
    let metrics = stack.app.metrics.render();
    // The space of the model is measured at start, so there may be more of them.
    for name in [
        r#"backstory_embed_total{side="query",outcome="ok"}"#,
        r#"backstory_embed_total{side="query",outcome="cached"}"#,
        r#"backstory_embed_seconds_count{side="query"}"#,
    ] {
        let found = metrics.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
        assert!(found.is_some_and(|n| n > 0), "{name} in\n{metrics}");
    }
    stack.stop().await;
}

/// Erased is erased: the vector of what was said says much of it.
#[tokio::test]
async fn no_vector_is_kept_in_memory_when_a_subject_is_erased() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/embed/tiny-wordpiece");
    let section = format!("[embeddings]\nengine = \"local\"\npath = {:?}\n", folder.display().to_string());
    let stack = Stack::of(Script::Model).with(&section).start().await;
    let embedder = stack.app.embedder.clone().unwrap();
    let made = || stack.app.metrics.embeds.get(EmbedSide::Document, EmbedOutcome::Ok);
    embedder.embed(Side::Document, &["my locker's word is quokka"]).await.unwrap();
    stack.ask("DELETE", "/memory/v1/subject").user("ann").send().await.must_be(200);
    let before = made();
    embedder.embed(Side::Document, &["my locker's word is quokka"]).await.unwrap();
    assert!(made() > before);
    stack.stop().await;
}
