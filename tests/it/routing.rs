//! Which target answers, and what passes in the headers.

use std::time::Duration;

use backstory::mock::{End, Raw, Script};
use serde_json::{Value, json};

use crate::support::sse::{event, healthy, joined};
use crate::support::{Got, KEY, PROVIDER_KEY, Stack, log};

async fn two(first: Script, second: Script) -> Stack {
    Stack::of(first).upstream(second).chain(2).with("[timeouts]\nheader_ms = 400\nfirst_token_ms = 400").start().await
}

async fn ask(stack: &Stack, stream: bool) -> Got {
    let body = json!({"model": "chain", "stream": stream, "messages": [{"role": "user", "content": "Hello there"}]});
    stack.chat(body.to_string()).user("ann").send().await
}

#[track_caller]
fn answered_by(got: &Got, target: &str, attempts: u32) {
    assert_eq!(got.status.as_u16(), 200, "{:?}", got.body);
    assert_eq!(got.header("x-backstory-target"), format!("{target}/mock; attempts={attempts}"));
}

// BerriAI/litellm#6957, #5512, #1226.
#[tokio::test]
async fn after_a_500_of_the_first_target_the_second_answers_streamed_and_not() {
    let stack = two(Script::As("mock-error-500"), Script::Model).await;
    for stream in [false, true] {
        let got = ask(&stack, stream).await;
        answered_by(&got, "p2", 2);
        assert!(got.text().contains("there"), "{}", got.text());
    }
}

// maximhq/bifrost#7034.
#[tokio::test]
async fn after_the_header_timeout_of_a_silent_first_target_the_second_answers() {
    let stack = two(Script::As("mock-stall-header"), Script::Model).await;
    for stream in [false, true] {
        answered_by(&ask(&stack, stream).await, "p2", 2);
    }
}

// Design: before the first content nothing is decided.
#[tokio::test]
async fn a_stream_that_is_silent_after_its_role_or_ends_before_it_begins_falls_back() {
    let stack = two(Script::As("mock-role-only-stall"), Script::Model).await;
    answered_by(&ask(&stack, true).await, "p2", 2);
    for end in [End::Reset, End::Polite] {
        let stack = two(Script::Raw(Raw::stream(Vec::<String>::new()).ending(end)), Script::Model).await;
        answered_by(&ask(&stack, true).await, "p2", 2);
    }
}

// Design: a closed port is an answer, too.
#[tokio::test]
async fn behind_a_closed_port_the_next_target_answers() {
    let stack = Stack::of(Script::Model)
        .providers(
            "[[providers]]\nname = \"closed\"\nbase_url = \"${CLOSED}\"\n[[providers]]\nname = \"open\"\nbase_url = \"${UPSTREAM}\"\n",
        )
        .with(
            "[[models]]\nname = \"chain\"\n[[models.targets]]\nprovider = \"closed\"\nmodel = \"mock\"\norder = 1\n[[models.targets]]\nprovider = \"open\"\nmodel = \"mock\"\norder = 2",
        )
        .start()
        .await;
    for stream in [false, true] {
        answered_by(&ask(&stack, stream).await, "open", 2);
    }
}

// Portkey-AI/gateway#1047.
#[tokio::test]
async fn an_error_inside_a_200_falls_back_streamed_and_not() {
    let stack = two(Script::As("mock-error-200"), Script::Model).await;
    for stream in [true, false] {
        answered_by(&ask(&stack, stream).await, "p2", 2);
    }
}

// maximhq/bifrost#3261; mozilla-ai/otari#173.
#[tokio::test]
async fn some_statuses_go_on_to_the_next_target_and_others_stop_in_upstreams_own_words() {
    for status in [401_u16, 403, 404, 408, 409, 429, 500, 502, 503] {
        let stack = two(Script::Raw(Raw::error(status, "no")), Script::Model).await;
        answered_by(&ask(&stack, false).await, "p2", 2);
    }
    for status in [400, 422] {
        let raw = Raw::error(status, "in my own words");
        let stack = two(Script::Raw(raw.clone()), Script::Model).await;
        let got = ask(&stack, false).await.must_be(status);
        assert_eq!(got.body, raw.pieces[0].1);
        assert_eq!(stack.upstreams[1].accepted(), 0);
    }
}

// maximhq/bifrost#4005.
#[tokio::test]
async fn when_the_third_target_answers_the_header_says_which_and_how_many_attempts() {
    let stack = Stack::of(Script::As("mock-error-500"))
        .upstream(Script::As("mock-error-429"))
        .upstream(Script::Model)
        .chain(3)
        .start()
        .await;
    answered_by(&ask(&stack, false).await, "p3", 3);
    let metrics = stack.ask("GET", "/metrics").send().await;
    assert!(metrics.text().contains("backstory_upstream_attempts_total{outcome=\"429\"} 1"));
}

// Design, doubt 6.
#[tokio::test]
async fn a_target_is_tried_as_often_as_the_config_says() {
    let stack = Stack::of(Script::Sequence(vec![Script::As("mock-error-500"), Script::Model]))
        .with("[retry]\nattempts = 2")
        .start()
        .await;
    let body = json!({"model": "mock", "messages": [{"role": "user", "content": "Hello there"}]});
    let got = stack.chat(body.to_string()).send().await.must_be(200);
    assert_eq!(got.header("x-backstory-target"), "upstream/mock; attempts=2");
}

// Design, doubt 7: an upstream's own error is worth more than ours.
#[tokio::test]
async fn when_all_targets_fail_the_client_gets_an_upstreams_own_error() {
    let odd = r#"{"error":{"message":"the second one","type":"x","param":null,"code":"y"}, "n":1.10}"#;
    let stack = two(Script::As("mock-error-500"), Script::Raw(Raw::json(503, odd))).await;
    for stream in [false, true] {
        let got = ask(&stack, stream).await.must_be(503);
        assert_eq!(got.text(), odd);
    }
    // Also when the last one says nothing at all.
    let stack = two(Script::Raw(Raw::json(503, odd)), Script::As("mock-stall-header")).await;
    let got = ask(&stack, false).await.must_be(503);
    assert_eq!(got.text(), odd);
}

// Design, doubt 7.
#[tokio::test]
async fn when_no_target_answers_it_is_502_or_504_in_our_envelope() {
    let stack = Stack::of(Script::As("mock-stall-header")).with("[timeouts]\nheader_ms = 200").start().await;
    let error = ask(&stack, false).await.must_be_error(504);
    assert_eq!(error["code"], "upstream_timeout");
    let stack = Stack::of(Script::Model)
        .providers("[[providers]]\nname = \"closed\"\nbase_url = \"${CLOSED}\"\n")
        .start()
        .await;
    let got = ask(&stack, false).await;
    assert!(!got.text().contains("127.0.0.1"), "no address of ours inside: {}", got.text());
    assert_eq!(got.must_be_error(502)["code"], "upstream_unreachable");
}

// Design: once content was sent there is no way back.
#[tokio::test]
async fn after_the_first_content_there_is_no_fallback() {
    let first = Raw::stream([
        healthy()[0].clone(),
        healthy()[1].clone(),
        event(r#"{"error":{"message":"late","type":"server_error"}}"#),
    ]);
    let stack = two(Script::Raw(first), Script::Model).await;
    let got = ask(&stack, true).await;
    answered_by(&got, "p1", 1);
    assert!(got.text().starts_with(&healthy()[..2].concat()), "{}", got.text());
    assert!(!got.text().contains("[DONE]"));
    assert_eq!(stack.upstreams[1].accepted(), 0);
}

// BerriAI/litellm#32202; NVIDIA-NeMo/Switchyard#410; agentgateway/agentgateway#3098; BerriAI/litellm PR#37058.
#[tokio::test]
async fn the_gateway_key_and_private_headers_never_go_upstream() {
    let stack = Stack::new(Script::Model).await;
    let body = json!({"model": "mock", "messages": [{"role": "user", "content": "Hello there"}]});
    let paths = [
        ("/v1/chat/completions", body),
        ("/v1/embeddings", json!({"model": "m", "input": "x"})),
        ("/v1/audio/x", json!({})),
    ];
    for (path, body) in paths {
        let mut ask = stack.ask("POST", path).json(&body).user("ann");
        for (name, value) in [
            ("api-key", "bk-other"),
            ("x-api-key", "bk-other"),
            ("cookie", "session=1"),
            ("x-internal-token", "t"),
            ("x-forwarded-for", "10.0.0.1"),
            ("proxy-authorization", "Basic x"),
            ("openai-organization", "org"),
            ("accept-encoding", "gzip, br, zstd"),
            ("x-backstory-budget", "5000"),
        ] {
            ask = ask.header(name, value);
        }
        ask.send().await.must_be(200);
        let sent = stack.sent();
        assert_eq!(sent.header("authorization"), Some(format!("Bearer {PROVIDER_KEY}").as_str()), "{path}");
        assert_eq!(sent.header("accept-encoding"), Some("identity"), "{path}");
        for (name, value) in &sent.headers {
            let allowed =
                ["accept", "accept-encoding", "authorization", "content-length", "content-type", "host", "user-agent"];
            assert!(allowed.contains(&name.as_str()), "{path}: {name}: {value:?}");
        }
    }
}

// Design, section 3: the client's own key goes to one provider only.
#[tokio::test]
async fn the_clients_own_key_never_goes_to_a_fallback_elsewhere() {
    let stack = Stack::of(Script::As("mock-error-500"))
        .upstream(Script::Model)
        .keys("")
        .providers(
            "[[providers]]\nname = \"p1\"\nbase_url = \"${UPSTREAM}\"\napi_key = \"client\"\n[[providers]]\nname = \"p2\"\nbase_url = \"${UPSTREAM_2}\"\napi_key = \"sk-second-0123456789\"\n",
        )
        .with("[[models]]\nname = \"chain\"\n[[models.targets]]\nprovider = \"p1\"\nmodel = \"mock\"\norder = 1\n[[models.targets]]\nprovider = \"p2\"\nmodel = \"mock\"\norder = 2")
        .start()
        .await;
    let body = json!({"model": "chain", "messages": [{"role": "user", "content": "Hello there"}]});
    let send = || stack.chat(body.to_string()).key("sk-client-0123456789").send();
    answered_by(&send().await, "p2", 2);
    assert_eq!(stack.upstreams[0].last_request().unwrap().header("authorization"), Some("Bearer sk-client-0123456789"));
    assert_eq!(stack.upstreams[1].last_request().unwrap().header("authorization"), Some("Bearer sk-second-0123456789"));
    // What is about the client's own key is the client's to know.
    stack.upstreams[0].set_script(Script::As("mock-error-401"));
    let got = send().await.must_be(401);
    assert!(!got.text().contains("sk-client-0123456789"), "{}", got.text());
}

// BerriAI/litellm#18731, PR#39964; librefang/librefang#5872.
#[tokio::test]
async fn no_key_is_in_an_error_in_the_log_or_in_metrics() {
    let stack = Stack::new(Script::As("mock-error-401")).await;
    let body = json!({"model": "mock", "messages": [{"role": "user", "content": "Hello there"}]});
    let upstreams = stack.chat(body.to_string()).send().await.must_be(401);
    assert!(upstreams.text().contains("Incorrect API key provided: ***"), "{}", upstreams.text());
    let wrong = "bk-wrong-canary-0123456789";
    let ours = stack.chat(body.to_string()).key(wrong).send().await;
    let metrics = stack.ask("GET", "/metrics").send().await;
    for key in [KEY, PROVIDER_KEY, wrong] {
        for got in [&upstreams, &ours, &metrics] {
            assert!(!got.text().contains(key), "{key} in {}", got.text());
        }
        assert!(!log::contains(key), "{key} in the log");
    }
    assert_eq!(ours.must_be_error(401)["code"], "invalid_api_key");
    // A path that is passed through is answered by upstream alone, and masked all the same.
    let quoting = Raw::error(401, &format!("Incorrect API key provided: {PROVIDER_KEY}"));
    stack.upstream().set_script(Script::Raw(quoting));
    let got = stack.ask("GET", "/v1/audio/voices").send().await.must_be(401);
    assert!(got.text().contains("***") && !got.text().contains(PROVIDER_KEY), "{}", got.text());
}

// Design, doubt 22: some providers take their key in a header of its own.
#[tokio::test]
async fn no_secret_of_a_configured_header_is_in_an_error() {
    let (plain, bearer) = ("header-canary-0123456789", "bearer-canary-0123456789");
    let quoting = Script::Raw(Raw::error(401, &format!("wrong: {plain}, {bearer}")));
    let stack = Stack::of(quoting)
        .providers(&format!("[[providers]]\nname = \"p\"\nbase_url = \"${{UPSTREAM}}\"\ndefault = true\nheaders = {{ api-key = \"{plain}\", x-auth = \"Bearer {bearer}\" }}\n"))
        .start()
        .await;
    let body = json!({"model": "mock", "messages": [{"role": "user", "content": "Hello there"}]});
    let got = stack.chat(body.to_string()).send().await.must_be(401);
    assert!(got.text().contains("wrong: ***, ***"), "{}", got.text());
}

// Design, doubt 19.
#[tokio::test]
async fn rate_limit_and_timing_headers_reach_the_client_and_cookies_do_not() {
    let stack = Stack::new(Script::Model).await;
    for stream in [false, true] {
        let body = json!({"model": "mock", "stream": stream, "messages": [{"role": "user", "content": "Hello there"}]});
        let got = stack.chat(body.to_string()).user("ann").send().await.must_be(200);
        assert_eq!(got.header("openai-processing-ms"), "7");
        assert_eq!(got.header("x-ratelimit-remaining-requests"), "99");
        assert!(got.header("x-upstream-request-id").starts_with("req_mock_"));
        assert_eq!((got.header("set-cookie"), got.header("server")), ("", ""));
    }
    stack.upstream().set_script(Script::As("mock-error-429"));
    let body = json!({"model": "mock", "messages": [{"role": "user", "content": "Hello there"}]});
    let got = stack.chat(body.to_string()).user("ann").send().await.must_be(429);
    assert_eq!(got.header("retry-after"), "1");
}

// BerriAI/litellm#38761, #10572; design, doubt 11.
#[tokio::test]
async fn model_in_the_reply_is_what_upstream_sent_streamed_and_not() {
    let stack = Stack::of(Script::Model).chain(1).start().await;
    let got = ask(&stack, false).await;
    assert_eq!(got.json()["model"], "mock");
    let got = ask(&stack, true).await;
    assert!(got.text().contains(r#""model":"mock""#) && !got.text().contains(r#""model":"chain""#));
}

// Design: a name that leads nowhere goes nowhere.
#[tokio::test]
async fn an_unknown_model_is_404_and_goes_nowhere() {
    let stack = Stack::of(Script::Model).chain(1).start().await;
    for stream in [false, true] {
        let body =
            json!({"model": "gpt-nope", "stream": stream, "messages": [{"role": "user", "content": "Hello there"}]});
        let error = stack.chat(body.to_string()).user("ann").send().await.must_be_error(404);
        assert_eq!((error["code"].as_str(), error["param"].as_str()), (Some("model_not_found"), Some("model")));
    }
    let ask = stack.ask("POST", "/v1/embeddings").json(&json!({"model": "gpt-nope", "input": "x"}));
    assert_eq!(ask.send().await.must_be_error(404)["code"], "model_not_found");
    assert_eq!(stack.upstream().accepted(), 0);
}

// Design, section 10.
#[tokio::test]
async fn models_lists_the_names_a_client_may_ask_for_and_404_for_others() {
    let limited =
        format!("[[keys]]\nkey = \"{KEY}\"\n[[keys]]\nkey = \"bk-limited-0123456789\"\nmodels = [\"other\"]\n");
    let stack = Stack::of(Script::Model)
        .chain(1)
        .keys(&limited)
        .with("[[models]]\nname = \"other\"\n[[models.targets]]\nprovider = \"p1\"\nmodel = \"mock\"")
        .start()
        .await;
    let names = |got: Got| -> Vec<String> {
        let body: Value = got.must_be(200).json();
        assert_eq!(body["object"], "list");
        body["data"].as_array().unwrap().iter().map(|m| m["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(stack.ask("GET", "/v1/models").send().await), ["chain", "other"]);
    assert_eq!(names(stack.ask("GET", "/v1/models").key("bk-limited-0123456789").send().await), ["other"]);
    assert_eq!(stack.ask("GET", "/v1/models/chain").send().await.must_be(200).json()["id"], "chain");
    for (key, path) in [(KEY, "/v1/models/nope"), ("bk-limited-0123456789", "/v1/models/chain")] {
        assert_eq!(stack.ask("GET", path).key(key).send().await.must_be_error(404)["code"], "model_not_found");
    }
    stack.ask("GET", "/v1/models").without("authorization").send().await.must_be_error(401);
    assert_eq!(stack.upstream().accepted(), 0);
}

// Design, section 5: on fallback the request is made again from the original.
#[tokio::test]
async fn a_fallback_gets_the_clients_own_bytes_with_its_own_model() {
    let stack = two(Script::As("mock-error-500"), Script::Raw(Raw::stream(healthy()))).await;
    let body = r#"{ "model":"chain","stream":true,"stream_options":{"include_usage":true}, "x":1.10,"messages":[{"role":"user","content":"Hello there"}]}"#;
    let got = stack.chat(body).user("ann").send().await.must_be(200);
    assert_eq!(got.body, joined(&healthy()));
    for upstream in &stack.upstreams {
        assert_eq!(upstream.last_request().unwrap().body, body.replace("\"chain\"", "\"mock\""));
    }
}

// Design, doubt 2: a target that refuses `stream_options` is asked once more without, and remembered.
#[tokio::test]
async fn a_target_that_refuses_stream_options_is_asked_once_more_and_remembered() {
    let stack = Stack::new(Script::from_fn(|request| {
        if request.json()["stream_options"].is_object() {
            Script::Raw(Raw::error(400, "unknown parameter: stream_options"))
        } else {
            Script::Raw(Raw::stream(healthy()))
        }
    }))
    .await;
    for asked in [2, 3] {
        assert_eq!(stack.stream().await.must_be(200).body, joined(&healthy()));
        assert_eq!(stack.upstream().accepted(), asked);
    }
}

// Several requests to one host run side by side, and connections are used again.
#[tokio::test]
async fn requests_to_one_host_run_side_by_side() {
    let mut raw = Raw::json(200, "{}");
    raw.header_delay = Duration::from_millis(150);
    let stack = Stack::new(Script::Raw(raw)).await;
    let body = json!({"model": "mock", "messages": [{"role": "user", "content": "Hello there"}]}).to_string();
    let before = std::time::Instant::now();
    futures_util::future::join_all((0..20).map(|_| stack.chat(body.clone()).send())).await;
    assert!(before.elapsed() < Duration::from_millis(20 * 150), "one after the other: {:?}", before.elapsed());
}
