//! Promises 1 and 2 as properties, through the whole gateway.

use backstory::mock::{Raw, Script};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use crate::support::Stack;

/// White space that JSON allows.
fn space() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["", "", " ", "\n", "\t \r\n"])
}

/// A number as no serialiser would write it.
fn number() -> impl Strategy<Value = String> {
    prop_oneof![
        "-?(0|[1-9][0-9]{0,30})",
        "-?(0|[1-9][0-9]{0,4})\\.[0-9]{1,20}",
        "-?(0|[1-9][0-9]{0,4})(\\.[0-9]{1,4})?[eE][+-]?[0-9]{1,3}",
    ]
}

/// A string literal: plain text, escapes that need not be, and surrogate pairs.
fn string() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "[a-zA-Z é世🌍.,:{}\\[\\]]{0,8}",
        prop::sample::select(vec![r"\/", r"\u0041", r"\ud83d\ude00", r"\n", r#"\""#, r"\\", r"\u0000", "<", "</x>"])
            .prop_map(str::to_owned),
    ];
    prop::collection::vec(piece, 0..5).prop_map(|pieces| format!("\"{}\"", pieces.concat()))
}

/// Any JSON value with any spacing.
fn value() -> impl Strategy<Value = String> {
    let leaf =
        prop_oneof![prop::sample::select(vec!["null", "true", "false"]).prop_map(str::to_owned), number(), string(),];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            (prop::collection::vec(inner.clone(), 0..4), space(), space())
                .prop_map(|(items, a, b)| format!("[{a}{}{b}]", items.join(&format!("{b},{a}")))),
            (prop::collection::vec((string(), inner), 0..4), space(), space())
                .prop_map(|(members, a, b)| object(members, a, b)),
        ]
    })
}

fn object(members: Vec<(String, String)>, a: &str, b: &str) -> String {
    let members: Vec<String> = members.into_iter().map(|(key, value)| format!("{key}{b}:{a}{value}")).collect();
    format!("{{{a}{}{b}}}", members.join(&format!("{a},{b}")))
}

/// A member that we do not know.
fn unknown() -> impl Strategy<Value = (String, String)> {
    ("\"x_[a-z]{1,6}\"", value())
}

/// A message with text or parts, and unknown members around them.
fn message() -> impl Strategy<Value = String> {
    let content = prop_oneof![
        string(),
        Just("null".to_owned()),
        (string(), value()).prop_map(|(text, odd)| {
            format!(r#"[{{"type":"text","text":{text}}},{{"type":"x_new","data":{odd}}}]"#)
        }),
    ];
    let role = prop::sample::select(vec!["user", "assistant", "system", "developer"]);
    (role, content, prop::collection::vec(unknown(), 0..3), space(), space()).prop_map(
        |(role, content, mut members, a, b)| {
            members.insert(members.len() / 2, ("\"role\"".to_owned(), format!("\"{role}\"")));
            members.push(("\"content\"".to_owned(), content));
            object(members, a, b)
        },
    )
}

/// A chat request.
fn request() -> impl Strategy<Value = String> {
    let messages = prop::collection::vec(message(), 1..5);
    (messages, prop::collection::vec(unknown(), 0..5), any::<bool>(), space(), space()).prop_map(
        |(messages, mut members, stream, a, b)| {
            members.insert(members.len() / 2, ("\"messages\"".to_owned(), format!("[{a}{}{b}]", messages.join(","))));
            members.insert(0, ("\"model\"".to_owned(), "\"mock\"".to_owned()));
            if stream {
                members.push(("\"stream\"".to_owned(), "true".to_owned()));
            }
            format!("{b}{}{a}", object(members, a, b))
        },
    )
}

/// A reply: its pieces, and whether they are a stream.
fn reply() -> impl Strategy<Value = (bool, Vec<String>)> {
    let event = prop_oneof![
        value().prop_map(|value| format!("data: {}\n\n", value.replace(['\n', '\r'], " "))),
        Just(": comment\n\n".to_owned()),
        string().prop_map(|text| format!(
            "id: 1\ndata:{{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":{text}}}}}]}}\r\n\r\n"
        )),
    ];
    let end = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    prop_oneof![
        prop::collection::vec(value(), 1..4).prop_map(|pieces| (false, pieces)),
        prop::collection::vec(event, 0..6).prop_map(move |mut events| {
            events.push(end.to_owned());
            (true, events)
        }),
    ]
}

fn cases(n: u32) -> TestRunner {
    TestRunner::new(ProptestConfig { cases: n, failure_persistence: None, ..ProptestConfig::default() })
}

// Promises 1 and 2 of the design: off means invisible, and what nobody touched leaves byte for byte.
#[test]
fn with_memory_off_every_request_and_every_reply_passes_to_the_byte() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let stack = runtime.block_on(Stack::new(Script::Model));
    let stack = &stack;
    let run = |request: String, stream: bool, pieces: Vec<String>| async move {
        let body = pieces.concat();
        let raw = if stream { Raw::stream(pieces) } else { Raw::json(200, body.clone()) };
        stack.upstream().set_script(Script::Raw(raw));
        let got = stack.chat(request.clone()).header("x-backstory-memory", "off").user("ann").send().await;
        (stack.sent().body, got.body, body)
    };
    cases(300)
        .run(&(request(), reply()), |(request, (stream, pieces))| {
            let (sent, got, body) = runtime.block_on(run(request.clone(), stream, pieces));
            prop_assert_eq!(sent, request);
            prop_assert_eq!(got, body);
            Ok(())
        })
        .unwrap();
}

// Promise 2 of the design: with memory shown, what is sent is the client's bytes with one insertion.
#[test]
fn with_memory_shown_every_request_leaves_with_insertions_only() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let stack = runtime.block_on(async {
        let stack = Stack::new(Script::Fixed("Fine.".to_owned())).await;
        stack.tell("ann", "I'm allergic to peanuts.").await;
        stack
    });
    cases(200)
        .run(&request(), |request| {
            let got =
                runtime.block_on(stack.chat(request.clone()).user("ann").header("x-backstory-memory", "read").send());
            prop_assert_eq!(got.status.as_u16(), 200, "{}", got.text());
            let sent = stack.sent().body;
            let sent = std::str::from_utf8(&sent).unwrap();
            prop_assert!(sent == request || serde_json::from_str::<serde::de::IgnoredAny>(sent).is_ok(), "{}", sent);
            prop_assert!(is_subsequence(request.as_bytes(), sent.as_bytes()), "{} -> {}", request, sent);
            Ok(())
        })
        .unwrap();
}

/// Whether `whole` is `part` with bytes put in.
fn is_subsequence(part: &[u8], whole: &[u8]) -> bool {
    let mut rest = part.iter().peekable();
    for byte in whole {
        rest.next_if_eq(&byte);
    }
    rest.peek().is_none()
}
