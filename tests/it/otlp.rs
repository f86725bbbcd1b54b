//! Traces and metrics for an OpenTelemetry collector: what is told, what never is, and what happens when nobody listens.
//!
//! A process has one listener to its spans, so what is traced here is the program itself.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use backstory::app::export;
use backstory::base::SystemRandom;
use backstory::config::{Config, Overrides, SystemEnv};
use backstory::mock::{self, MockHandle, Raw, Recorded, Script};
use backstory::telemetry::otlp::Traces;
use opentelemetry_proto::tonic::metrics::v1::{NumberDataPoint, metric, number_data_point};
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use serde_json::json;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::support::collector::{Collector, Speaks, attribute};
use crate::support::{Ask, Binary, KEY, PATIENCE, PROVIDER_KEY, Stack, eventually, until};

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const REQUEST: &str = "POST /v1/chat/completions";

/// The program with a collector behind it, and upstreams that the name `chain` leads to, in order.
struct Traced {
    program: Binary,
    upstreams: Vec<MockHandle>,
    _folder: TempDir,
    serving: (TaskTracker, CancellationToken),
}

impl Traced {
    async fn start(scripts: Vec<Script>, endpoint: &str, lines: &str) -> Self {
        let (tracker, stop) = (TaskTracker::new(), CancellationToken::new());
        let folder = tempfile::tempdir().unwrap();
        let mut text = format!(
            "[store]\ndata = \"{}\"\nacknowledge_wait_ms = 30000\n[recall]\ndeadline_ms = 30000\n\
             [[keys]]\nkey = \"{KEY}\"\ntenant = \"one\"\n[telemetry]\notlp_endpoint = \"{endpoint}\"\n{lines}\n",
            folder.path().display()
        );
        let (mut providers, mut targets, mut upstreams) = (String::new(), String::new(), Vec::new());
        for (at, script) in (1..).zip(scripts) {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let mock = mock::start(listener, script, &tracker, stop.clone()).await;
            let url = mock.base_url();
            providers +=
                &format!("[[providers]]\nname = \"p{at}\"\nbase_url = \"{url}\"\napi_key = \"{PROVIDER_KEY}\"\n");
            targets += &format!("[[models.targets]]\nprovider = \"p{at}\"\nmodel = \"mock\"\norder = {at}\n");
            upstreams.push(mock);
        }
        text += &format!("{providers}[[models]]\nname = \"chain\"\n{targets}");
        let config = folder.path().join("backstory.toml");
        std::fs::write(&config, text).unwrap();
        let program = Binary::serve(&["--config", config.to_str().unwrap()]).await;
        Self { program, upstreams, _folder: folder, serving: (tracker, stop) }
    }

    /// A request in the client's trace.
    fn chat(&self, text: &str, stream: bool) -> Ask {
        let body = json!({"model": "chain", "stream": stream, "messages": [{"role": "user", "content": text}]});
        let ask = Ask::new(self.program.addr, "POST", "/v1/chat/completions").json(&body).key(KEY).user("ann");
        ask.header("traceparent", PARENT).header("tracestate", "v=1")
    }

    /// What the first upstream got last.
    fn sent(&self) -> Recorded {
        self.upstreams[0].last_request().unwrap()
    }

    /// Nobody answers any more.
    async fn lose_upstreams(&self) {
        let (tracker, stop) = &self.serving;
        stop.cancel();
        tracker.close();
        tracker.wait().await;
    }

    async fn metrics(&self) -> String {
        let got = Ask::new(self.program.addr, "GET", "/metrics").send().await;
        String::from_utf8(got.body.to_vec()).unwrap()
    }

    /// Ends it as an operator does: all that there is was sent then. Returns its log.
    async fn stop(mut self) -> String {
        self.program.terminate();
        assert!(self.program.ended().await.success());
        self.program.log()
    }
}

async fn over_http(scripts: Vec<Script>, lines: &str) -> (Traced, Collector) {
    let collector = Collector::start(Speaks::Http).await;
    let lines = format!("otlp_protocol = \"http\"\n{lines}");
    (Traced::start(scripts, &format!("http://{}", collector.addr), &lines).await, collector)
}

fn hex(id: &[u8]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn says(span: &Span, key: &str) -> String {
    attribute(&span.attributes, key)
}

/// How long a span lasted, in nanoseconds.
fn lasted(span: &Span) -> u64 {
    span.end_time_unix_nano - span.start_time_unix_nano
}

#[tokio::test]
async fn a_request_is_a_tree_of_spans_in_the_clients_trace() {
    let (traced, collector) = over_http(vec![Script::Model], "").await;
    traced.chat("Where do I live?", true).send().await.must_be(200);
    let sent = traced.sent();
    traced.stop().await;

    let (request, recall, attempt) = (collector.span(REQUEST), collector.span("recall"), collector.span("chat mock"));
    for span in [&request, &recall, &attempt] {
        assert_eq!(hex(&span.trace_id), TRACE, "{}", span.name);
        assert!(span.events.is_empty(), "{}", span.name);
    }
    assert_eq!(hex(&request.parent_span_id), "b7ad6b7169203331");
    assert_eq!((&recall.parent_span_id, &attempt.parent_span_id), (&request.span_id, &request.span_id));
    assert_eq!((request.kind, attempt.kind), (SpanKind::Server as i32, SpanKind::Client as i32));
    let read = collector.look(|got| got.spans.iter().any(|span| span.parent_span_id == recall.span_id));
    assert!(read, "what recall asked of the store, in {:?}", collector.names());

    // Upstream goes on with the trace, below the attempt.
    assert_eq!(sent.header("traceparent"), Some(format!("00-{TRACE}-{}-01", hex(&attempt.span_id)).as_str()));
    assert_eq!(sent.header("tracestate"), Some("v=1"));

    for (key, value) in [
        ("http.request.method", "POST"),
        ("http.route", "/v1/chat/completions"),
        ("url.path", "/v1/chat/completions"),
        ("http.response.status_code", "200"),
    ] {
        assert_eq!(says(&request, key), value, "{key}");
    }
    assert!(says(&request, "backstory.request.id").starts_with("req_"));
    for (key, value) in [
        ("gen_ai.operation.name", "chat"),
        ("gen_ai.provider.name", "openai"),
        ("gen_ai.request.model", "mock"),
        ("gen_ai.response.model", "mock"),
        ("gen_ai.response.finish_reasons", "stop"),
        ("server.address", "127.0.0.1"),
        ("http.response.status_code", "200"),
        ("backstory.target", "p1/mock"),
        ("backstory.outcome", "ok"),
        ("error.type", ""),
    ] {
        assert_eq!(says(&attempt, key), value, "{key}");
    }
    assert_ne!(says(&attempt, "gen_ai.usage.input_tokens"), "");
    assert_ne!(says(&attempt, "gen_ai.usage.output_tokens"), "");
    collector.look(|got| assert_eq!(attribute(&got.resource, "service.name"), "backstory"));
}

#[tokio::test]
async fn the_spans_of_request_and_attempt_end_with_the_reply() {
    let (traced, collector) = over_http(vec![Script::As("mock-stall")], "").await;
    let mut reply = traced.chat("Tell me a lot", true).open().await;
    let begun = Instant::now();
    reply.read_until("data:").await;
    // The client waits for more, then leaves.
    let more = tokio::time::timeout(Duration::from_millis(50), reply.read_until("never"));
    assert!(more.await.is_err());
    let open = begun.elapsed();
    drop(reply);
    until("its spans come", || !collector.spans(REQUEST).is_empty() && !collector.spans("chat mock").is_empty()).await;
    traced.stop().await;
    for name in [REQUEST, "chat mock"] {
        let span = collector.span(name);
        assert!(u128::from(lasted(&span)) >= open.as_nanos(), "{name}: {} ns", lasted(&span));
    }
    let attempt = collector.span("chat mock");
    assert_eq!(
        (says(&attempt, "backstory.outcome"), says(&attempt, "error.type")),
        ("cancelled".into(), String::new())
    );
}

#[tokio::test]
async fn what_is_learned_later_points_back_to_its_request() {
    let (traced, collector) = over_http(vec![Script::Model], "").await;
    traced.chat("I live in Oslo", false).send().await.must_be(200);
    // Too long to be learned from at once: a row of the outbox, and the worker.
    let long = format!("I moved to Bergen. {}", "word ".repeat(5_000));
    traced.chat(&long, false).send().await.must_be(200);
    until("the worker learned from it", || !collector.spans("learn").is_empty()).await;
    traced.stop().await;

    let requests: Vec<_> = collector.spans(REQUEST).into_iter().map(|span| span.span_id).collect();
    let linked = |name: &str| -> Vec<_> {
        let spans = collector.spans(name);
        assert!(spans.iter().all(|span| hex(&span.trace_id) != TRACE), "{name} is no part of the request");
        spans.into_iter().flat_map(|span| span.links).map(|link| (hex(&link.trace_id), link.span_id)).collect()
    };
    let cause = |at: usize| (TRACE.to_owned(), requests[at].clone());
    assert_eq!(linked("commit"), [cause(0), cause(1)]);
    assert!(linked("learn").contains(&cause(1)), "the row kept it");
    assert!(linked("extract").contains(&cause(0)) && linked("extract").contains(&cause(1)));
}

#[tokio::test]
async fn nothing_that_is_asked_answered_or_remembered_leaves_for_the_collector() {
    let answer = json!({
        "id": "chatcmpl-1", "object": "chat.completion", "model": "mock",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "canary-reply"}}],
        "usage": {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
    });
    let (traced, collector) = over_http(vec![Script::Raw(Raw::json(200, answer.to_string()))], "").await;
    for text in ["My name is Canaryname and I live in canary-town", "What is my name?"] {
        let ask = traced.chat(text, false).user("canary-subject").header("x-canary", "canary-header");
        ask.send().await.must_be(200);
    }
    let list =
        Ask::new(traced.program.addr, "GET", "/memory/v1/facts?key=canary-query").key(KEY).user("canary-subject");
    let listed = list.send().await;
    traced.stop().await;
    assert_eq!(says(&collector.span("GET /memory/v1/facts"), "backstory.request.id"), listed.header("x-request-id"));
    assert!(collector.spans(REQUEST).len() == 2 && !collector.spans("extract").is_empty(), "{:?}", collector.names());
    collector.look(|got| {
        let sent = String::from_utf8_lossy(&got.bytes).to_lowercase();
        for never in ["canary", "what is my", "bk-virtual", "sk-provider"] {
            assert!(!sent.contains(never), "{never} was exported");
        }
    });
}

#[tokio::test]
async fn a_share_of_the_traces_is_kept_and_a_client_decides_on_its_own() {
    let (traced, collector) = over_http(vec![Script::Model], "sample = 0\notlp_metrics_seconds = 0\n").await;
    traced.chat("Hello", false).without("traceparent").send().await.must_be(200);
    traced.chat("Hello", false).header("traceparent", &PARENT.replace("-01", "-00")).send().await.must_be(200);
    // Upstream is told that nobody keeps it.
    assert!(traced.sent().header("traceparent").unwrap().ends_with("-00"));
    traced.chat("Hello", false).send().await.must_be(200);
    traced.stop().await;
    assert_eq!(hex(&collector.span(REQUEST).trace_id), TRACE);
    collector.look(|got| assert!(got.metrics.is_empty(), "none are wanted"));
}

#[tokio::test]
async fn a_malformed_traceparent_begins_a_new_trace() {
    let (traced, collector) = over_http(vec![Script::Model], "").await;
    traced.chat("Hello", false).header("traceparent", &format!("{PARENT}-and-more")).send().await.must_be(200);
    let sent = traced.sent();
    traced.stop().await;
    let request = collector.span(REQUEST);
    assert!(request.parent_span_id.is_empty() && hex(&request.trace_id) != TRACE);
    assert!(sent.header("traceparent").unwrap().contains(&hex(&request.trace_id)));
    assert_eq!(sent.header("tracestate"), None, "it belonged to the trace that nobody could read");
}

// Promise 1: without a collector the gateway has no part in a trace that goes through it.
#[tokio::test]
async fn without_a_collector_the_headers_of_a_trace_pass_as_they_came() {
    let stack = Stack::new(Script::Model).await;
    let body = json!({"model": "mock", "messages": [{"role": "user", "content": "Hello"}]}).to_string();
    for parent in [PARENT, "what nobody could read"] {
        stack.chat(body.clone()).header("traceparent", parent).header("tracestate", "v=1").send().await.must_be(200);
        assert_eq!(stack.sent().header("traceparent"), Some(parent));
        assert_eq!(stack.sent().header("tracestate"), Some("v=1"));
    }
    stack.chat(body).send().await.must_be(200);
    assert_eq!(stack.sent().header("traceparent"), None);
}

#[tokio::test]
async fn each_attempt_has_a_span_and_says_why_it_failed() {
    let (traced, collector) = over_http(vec![Script::Raw(Raw::error(503, "busy")), Script::Model], "").await;
    traced.chat("Hello", false).send().await.must_be(200);
    traced.stop().await;
    let attempts = collector.spans("chat mock");
    let [first, .., last] = &attempts[..] else { panic!("{:?}", collector.names()) };
    assert_eq!((says(first, "backstory.target"), says(first, "error.type")), ("p1/mock".into(), "503".into()));
    assert_eq!(first.status.as_ref().map(|status| status.code), Some(StatusCode::Error as i32));
    assert_eq!((says(last, "backstory.target"), says(last, "error.type")), ("p2/mock".into(), String::new()));
    assert_eq!(says(last, "backstory.attempt"), attempts.len().to_string());
    let request = collector.span(REQUEST);
    assert_eq!(
        (says(&request, "http.response.status_code"), says(&request, "error.type")),
        ("200".into(), String::new())
    );
}

#[tokio::test]
async fn the_collector_gets_the_numbers_of_metrics_and_those_of_the_conventions() {
    let (traced, collector) = over_http(vec![Script::Model], "").await;
    traced.chat("Hello", false).send().await.must_be(200);
    traced.stop().await;
    collector.look(|got| {
        let found =
            |name: &str| got.metrics.iter().find(|metric| metric.name == name).unwrap_or_else(|| panic!("{name}"));
        let Some(metric::Data::Sum(requests)) = &found("backstory_requests").data else { panic!("a counter") };
        let is_chat = |point: &&NumberDataPoint| {
            attribute(&point.attributes, "route") == "chat" && attribute(&point.attributes, "outcome") == "2xx"
        };
        let chat = requests.data_points.iter().find(is_chat).unwrap();
        assert_eq!(chat.value, Some(number_data_point::Value::AsInt(1)));
        let duration = found("gen_ai.client.operation.duration");
        assert_eq!(duration.unit, "s");
        let Some(metric::Data::Histogram(duration)) = &duration.data else { panic!("a histogram") };
        let [point] = &duration.data_points[..] else { panic!("{duration:?}") };
        assert_eq!(point.count, 1);
        for (key, value) in
            [("gen_ai.operation.name", "chat"), ("gen_ai.provider.name", "openai"), ("gen_ai.request.model", "mock")]
        {
            assert_eq!(attribute(&point.attributes, key), value);
        }
        let Some(metric::Data::Histogram(tokens)) = &found("gen_ai.client.token.usage").data else {
            panic!("a histogram")
        };
        let kinds: Vec<_> =
            tokens.data_points.iter().map(|point| attribute(&point.attributes, "gen_ai.token.type")).collect();
        assert!(kinds.contains(&"input".to_owned()) && kinds.contains(&"output".to_owned()), "{kinds:?}");
    });
}

#[tokio::test]
async fn a_dead_collector_costs_spans_and_nothing_else() {
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let traced = Traced::start(vec![Script::Model], &format!("http://{closed}"), "").await;
    for _ in 0..3 {
        traced.chat("Hello", false).send().await.must_be(200);
    }
    eventually("the spans are given up", || async {
        let metrics = traced.metrics().await;
        let failed = metrics
            .lines()
            .find_map(|l| l.strip_prefix("backstory_otlp_spans_total{outcome=\"failed\"} ")?.parse().ok());
        failed.filter(|failed: &u64| *failed > 3)
    })
    .await;
    let log = traced.stop().await;
    assert_eq!(log.matches("does not take what is sent").count(), 1, "said once: {log}");
}

// The collector takes the connection and says nothing: the end is not waited for.
#[tokio::test]
async fn a_collector_that_hangs_keeps_nobody_from_ending() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let text = format!("[telemetry]\notlp_endpoint = \"http://{}\"\n", silent.local_addr().unwrap());
    let config = Config::parse(&text, Path::new("otlp.toml"), &SystemEnv, &Overrides::default()).unwrap();
    let stack = Stack::new(Script::Model).await;
    let traces = Traces::new(1.0, Arc::new(SystemRandom));
    let exporting = export(&stack.app, &config.telemetry.otlp.unwrap(), &traces).unwrap();
    let begun = Instant::now();
    assert!(!exporting.finish(Duration::from_millis(50)).await);
    assert!(begun.elapsed() < PATIENCE);
}

#[tokio::test]
async fn all_of_it_goes_over_grpc_as_well_and_the_log_names_the_trace() {
    let collector = Collector::start(Speaks::Grpc).await;
    let lines = "log = \"json\"\nservice_name = \"edge\"\notlp_headers = { authorization = \"Bearer collector-token\" }\n\
                 resource = { \"deployment.environment.name\" = \"test\" }\n";
    let traced = Traced::start(vec![Script::Model], &format!("http://{}", collector.addr), lines).await;
    traced.lose_upstreams().await;
    let got = traced.chat("Hello", false).send().await;
    assert_eq!(got.status, 502);
    let id = got.header("x-request-id");
    let log = traced.stop().await;

    let request = collector.span(REQUEST);
    assert_eq!((says(&request, "error.type"), says(&request, "backstory.request.id")), ("502".into(), id.to_owned()));
    let attempts = collector.spans("chat mock");
    assert!(!attempts.is_empty() && attempts.iter().all(|attempt| says(attempt, "error.type") == "connect"));
    collector.look(|got| {
        assert_eq!(attribute(&got.resource, "service.name"), "edge");
        assert_eq!(attribute(&got.resource, "deployment.environment.name"), "test");
        assert!(got.headers.iter().all(|headers| headers["authorization"] == "Bearer collector-token"));
        assert!(got.metrics.iter().any(|metric| metric.name == "backstory_requests"), "numbers came, too");
    });
    let line = log.lines().find(|line| line.contains("request failed")).unwrap_or_else(|| panic!("{log}"));
    let line: serde_json::Value = serde_json::from_str(line).unwrap();
    assert_eq!((line["request_id"].as_str(), line["trace_id"].as_str()), (Some(id), Some(TRACE)));
    assert_eq!(line["span_id"].as_str(), Some(hex(&request.span_id).as_str()));
    assert!(!log.contains("collector-token") && !log.contains(KEY) && !log.contains(PROVIDER_KEY));
}
