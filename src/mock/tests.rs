//! The mock over a real socket, read by a bare HTTP client.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{End, MockHandle, Raw, Script, start};
use crate::wire::{Accumulator, RelayOptions, Reply, StreamEnd, StreamRelay, Verdict};

struct Running {
    mock: MockHandle,
    tracker: TaskTracker,
    stop: CancellationToken,
}

struct Got {
    status: StatusCode,
    headers: HeaderMap,
    frames: Vec<Bytes>,
    failed: bool,
}

impl Got {
    fn text(&self) -> String {
        String::from_utf8(self.frames.concat()).unwrap()
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.text()).unwrap()
    }

    fn relay(&self) -> (Reply, Verdict) {
        let mut relay = StreamRelay::new(RelayOptions { collect: true, ..RelayOptions::default() });
        for frame in &self.frames {
            relay.push(frame.clone());
        }
        relay.end(if self.failed { StreamEnd::Failed } else { StreamEnd::Clean });
        (relay.reply().clone(), relay.verdict())
    }
}

async fn run(script: Script) -> Running {
    let (tracker, stop) = (TaskTracker::new(), CancellationToken::new());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mock = start(listener, script, &tracker, stop.clone()).await;
    Running { mock, tracker, stop }
}

impl Running {
    async fn connect(&self) -> http1::SendRequest<Full<Bytes>> {
        let stream = TcpStream::connect(self.mock.addr).await.unwrap();
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        self.tracker.spawn(connection);
        sender
    }

    async fn send(&self, method: &str, target: &str, body: impl Into<Bytes>) -> Got {
        let request = Request::builder()
            .method(method)
            .uri(target)
            .header("host", "mock")
            .header("authorization", "Bearer sk-mock-secret-key")
            .body(Full::new(body.into()))
            .unwrap();
        let response = self.connect().await.send_request(request).await.unwrap();
        let (head, mut body) = response.into_parts();
        let mut got = Got { status: head.status, headers: head.headers, frames: Vec::new(), failed: false };
        while let Some(frame) = body.frame().await {
            match frame {
                Ok(frame) => got.frames.extend(frame.into_data().ok()),
                Err(_) => {
                    got.failed = true;
                    break;
                }
            }
        }
        got
    }

    async fn chat(&self, body: Value) -> Got {
        self.send("POST", "/v1/chat/completions", body.to_string()).await
    }

    async fn say(&self, model: &str, text: &str, stream: bool) -> Got {
        self.chat(json!({"model": model, "stream": stream, "messages": [{"role": "user", "content": text}]})).await
    }

    async fn shut_down(self) {
        self.stop.cancel();
        self.tracker.close();
        self.tracker.wait().await;
    }
}

fn text_of(body: &Value) -> &str {
    body["choices"][0]["message"]["content"].as_str().unwrap()
}

#[tokio::test]
async fn it_tells_what_it_was_told() {
    let it = run(Script::Model).await;
    let got = it.say("mock", "<backstory-notes>\n- diet: vegan\n</backstory-notes>\nWhat shall I cook?", false).await;
    assert_eq!(text_of(&got.json()), "I was told: diet: vegan. You said: What shall I cook?");
    let got = it.say("mock", "Hi", false).await;
    assert_eq!(text_of(&got.json()), "Nothing was remembered. You said: Hi");
    assert!(got.json()["usage"]["prompt_tokens"].as_u64().unwrap() > 0);
    it.shut_down().await;
}

#[tokio::test]
async fn a_stream_says_the_same_as_a_body_for_every_choice() {
    let it = run(Script::Model).await;
    let ask = |stream: bool| {
        json!({"model": "mock-echo", "n": 2, "stream": stream, "stream_options": {"include_usage": true},
            "messages": [{"role": "user", "content": "one two\nthree 你好"}]})
    };
    let (streamed, verdict) = it.chat(ask(true)).await.relay();
    let mut body = Accumulator::new();
    body.body(it.chat(ask(false)).await.text().as_bytes());
    assert_eq!(verdict, Verdict::Complete);
    assert_eq!(streamed.choices, body.reply().choices);
    assert_eq!(streamed.choices[1].text, "one two\nthree 你好");
    assert_eq!(streamed.usage, body.reply().usage);
    it.shut_down().await;
}

#[tokio::test]
async fn usage_comes_only_when_it_is_asked_for() {
    let it = run(Script::Model).await;
    assert!(!it.say("mock-fixed", "Hi", true).await.text().contains("usage"));
    let asked = json!({"model": "mock-fixed-no-usage", "stream": true, "stream_options": {"include_usage": true},
        "messages": [{"role": "user", "content": "Hi"}]});
    assert_eq!(it.chat(asked).await.relay().0.usage, None);
    it.shut_down().await;
}

#[tokio::test]
async fn every_spelling_of_a_stream_is_the_same_reply() {
    let it = run(Script::Model).await;
    let expected = it.say("mock-fixed", "Hi", true).await.relay().0.choices;
    for model in
        ["split-1", "crlf", "cr-split-1", "no-space", "comments", "malformed", "one-write", "no-done", "slow-0"]
    {
        let got = it.say(&format!("mock-fixed-{model}"), "Hi", true).await;
        let (reply, verdict) = got.relay();
        assert_eq!((reply.choices, verdict), (expected.clone(), Verdict::Complete), "{model}");
        assert_eq!(got.text().contains("[DONE]"), model != "no-done");
    }
    it.shut_down().await;
}

#[tokio::test]
async fn a_reset_fails_and_a_polite_cut_does_not() {
    let it = run(Script::Model).await;
    for (model, failed) in [("mock-fixed-cut", true), ("mock-fixed-cut-line", true), ("mock-fixed-cut-polite", false)] {
        let got = it.say(model, "Hi", true).await;
        assert_eq!(got.failed, failed, "{model}");
        let (reply, verdict) = got.relay();
        assert_eq!((reply.choices[0].text.as_str(), verdict), ("Hello from the ", Verdict::Cut), "{model}");
        assert_eq!(it.say(model, "Hi", false).await.failed, failed, "{model}, not streamed");
    }
    assert_eq!(it.mock.cancelled(), 0);
    it.shut_down().await;
}

#[tokio::test]
async fn a_client_that_leaves_is_counted_in_every_phase() {
    let it = run(Script::Model).await;
    for (model, stream) in [("mock-stall", true), ("mock-stall-header", true), ("mock-stall", false)] {
        let before = it.mock.cancelled();
        let body = json!({"model": model, "stream": stream, "messages": [{"role": "user", "content": "a b c d e f"}]});
        let request =
            Request::post("/v1/chat/completions").header("host", "x").body(Full::new(Bytes::from(body.to_string())));
        let stream = TcpStream::connect(it.mock.addr).await.unwrap();
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        let accepted = it.mock.accepted();
        let exchange = async {
            let response = sender.send_request(request.unwrap()).await.unwrap();
            response.into_body().collect().await.map(|_| ())
        };
        tokio::select! {
            _ = exchange => panic!("{model} must not end"),
            _ = connection => panic!("{model} must not close"),
            () = wait_until(|| it.mock.accepted() > accepted) => {}
        }
        // The connection future is dropped here, and the socket with it.
        wait_until(|| it.mock.cancelled() == before + 1).await;
    }
    it.shut_down().await;
}

async fn wait_until(mut holds: impl FnMut() -> bool) {
    let poll = async {
        while !holds() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), poll).await.expect("it must come to pass");
}

#[tokio::test]
async fn a_tool_is_called_once_and_its_result_is_told() {
    let it = run(Script::Model).await;
    let tools = json!([{"type": "function", "function": {"name": "weather", "parameters": {}}}]);
    let user = json!({"role": "user", "content": "Weather?"});
    let first = it.chat(json!({"model": "mock", "messages": [user], "tools": tools})).await.json();
    let call = &first["choices"][0]["message"]["tool_calls"][0];
    assert_eq!(
        (call["function"]["name"].as_str(), call["function"]["arguments"].as_str()),
        (Some("weather"), Some("{}"))
    );
    assert_eq!(first["choices"][0]["finish_reason"], "tool_calls");
    let result = json!({"role": "tool", "tool_call_id": call["id"], "content": "rain"});
    let messages = json!([user, first["choices"][0]["message"], result]);
    let second = it.chat(json!({"model": "mock", "messages": messages, "tools": tools})).await.json();
    assert_eq!(text_of(&second), "Nothing was remembered. The tool said: rain");
    it.shut_down().await;
}

#[tokio::test]
async fn parallel_calls_are_interleaved_and_still_two_calls() {
    let it = run(Script::Model).await;
    let (reply, _) = it.say("mock-parallel-tools", "Go", true).await.relay();
    let calls = &reply.choices[0].tool_calls;
    let found: Vec<_> = calls.iter().map(|c| (c.name.as_str(), c.arguments.as_str())).collect();
    assert_eq!(found, [("first_tool", r#"{"call":"first"}"#), ("second_tool", r#"{"call":"second"}"#)]);
    assert_eq!(reply.choices[0].finish_reason.as_deref(), Some("tool_calls"));
    it.shut_down().await;
}

#[tokio::test]
async fn json_mode_answers_an_object_of_the_schema() {
    let it = run(Script::Model).await;
    let schema = json!({"type": "object", "properties": {"name": {"type": "string"}, "tags": {"type": "array"}}});
    for (format, key) in [
        (json!({"type": "json_object"}), "answer"),
        (json!({"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}), "tags"),
    ] {
        let got = it
            .chat(json!({"model": "mock", "response_format": format, "messages": [{"role": "user", "content": "Hi"}]}))
            .await;
        let answer: Value = serde_json::from_str(text_of(&got.json())).unwrap();
        assert!(answer.get(key).is_some(), "{answer}");
    }
    it.shut_down().await;
}

#[tokio::test]
async fn errors_have_their_status_and_openai_shape() {
    let it = run(Script::Model).await;
    let got = it.say("mock-error-429", "Hi", true).await;
    assert_eq!((got.status.as_u16(), got.headers["retry-after"].to_str().unwrap()), (429, "1"));
    assert_eq!(got.json()["error"]["type"], "rate_limit_error");
    let got = it.say("mock-error-401", "Hi", false).await;
    assert!(got.json()["error"]["message"].as_str().unwrap().contains("sk-mock-secret-key"));
    let got = it.say("mock-error-200", "Hi", true).await;
    assert_eq!(got.status, 200);
    assert!(matches!(crate::wire::first_event(got.text().as_bytes()), crate::wire::FirstEvent::Error(_)));
    let got = it.send("POST", "/v1/chat/completions", "{").await;
    assert_eq!(got.status, 400);
    it.shut_down().await;
}

#[tokio::test]
async fn a_compressed_stream_says_so_and_json_may_answer_a_stream() {
    use async_compression::tokio::write::GzipDecoder;
    use tokio::io::AsyncWriteExt;
    let it = run(Script::Model).await;
    let got = it.say("mock-fixed-gzip", "Hi", true).await;
    assert_eq!(got.headers["content-encoding"], "gzip");
    let mut decoder = GzipDecoder::new(Vec::new());
    decoder.write_all(&got.frames.concat()).await.unwrap();
    decoder.shutdown().await.unwrap();
    assert!(String::from_utf8(decoder.into_inner()).unwrap().ends_with("data: [DONE]\n\n"));
    let got = it.say("mock-json-to-stream", "Hi", true).await;
    assert_eq!(got.headers["content-type"], "application/json");
    assert_eq!(got.json()["object"], "chat.completion");
    it.shut_down().await;
}

#[tokio::test]
async fn other_paths_answer_and_are_recorded() {
    let it = run(Script::Model).await;
    let got = it.send("PUT", "/v1/files/7?purpose=x%20y", "raw body").await;
    let expected = json!({"method": "PUT", "path": "/v1/files/7", "query": "purpose=x%20y", "body": "raw body"});
    assert_eq!(got.json(), expected);
    let last = it.mock.last_request().unwrap();
    assert_eq!((last.target.as_str(), last.query()), ("/v1/files/7?purpose=x%20y", Some("purpose=x%20y")));
    assert_eq!((last.header("authorization"), &last.body[..]), (Some("Bearer sk-mock-secret-key"), &b"raw body"[..]));
    assert_eq!(it.send("GET", "/v1/models", "").await.json()["data"][0]["id"], "mock");
    assert_eq!(it.send("GET", "/v1/models/any", "").await.json()["id"], "any");
    assert_eq!(it.send("GET", "/other", "").await.status, 404);
    it.shut_down().await;
}

#[tokio::test]
async fn embeddings_come_as_floats_and_as_base64() {
    let it = run(Script::Model).await;
    let ask = |format: &str| json!({"model": "m", "input": ["a b", "c"], "dimensions": 8, "encoding_format": format});
    let got = it.send("POST", "/v1/embeddings", ask("float").to_string()).await.json();
    assert_eq!(got["data"][1]["embedding"].as_array().unwrap().len(), 8);
    let got = it.send("POST", "/v1/embeddings", ask("base64").to_string()).await.json();
    assert_eq!(got["data"][0]["embedding"].as_str().unwrap().len(), 44);
    let failing = json!({"model": "mock-error-503", "input": "x"}).to_string();
    assert_eq!(it.send("POST", "/v1/embeddings", failing).await.status, 503);
    it.shut_down().await;
}

#[tokio::test]
async fn a_script_answers_to_the_byte_and_can_change() {
    let raw = Raw::stream(["data: a\n", "\ndata"]).with_header("x-own", "1").ending(End::Reset);
    let by_path = Script::from_fn(|request| match request.path() {
        "/v1/chat/completions" => Script::Fixed("scripted".to_owned()),
        _ => Script::Model,
    });
    let it = run(Script::Sequence(vec![Script::Raw(raw), Script::As("mock-error-500"), by_path])).await;
    let got = it.say("m", "Hi", true).await;
    assert_eq!((got.text().as_str(), got.failed), ("data: a\n\ndata", true));
    assert_eq!(got.headers["x-own"], "1");
    assert_eq!(it.say("m", "Hi", false).await.status, 500);
    assert_eq!(text_of(&it.say("m", "Hi", false).await.json()), "scripted");
    it.mock.set_script(Script::Model);
    assert_eq!(text_of(&it.say("mock-echo", "back", false).await.json()), "back");
    assert_eq!((it.mock.requests().len(), it.mock.accepted(), it.mock.connections()), (4, 4, 4));
    it.shut_down().await;
}
