//! The relays by their rules: see the section *Stream* of the reports that we guard against.

mod first_events;
mod json_bodies;
mod messages;
mod responses;

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::wire::{Dialect, Usage};

const ROLE: &str =
    r#"data: {"id":"c","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}"#;
const HELLO: &str =
    r#"data: {"id":"c","choices":[{"index":0,"delta":{"content":"你好 \"usage\" [DONE] "},"finish_reason":null}]}"#;
const STOP: &str = r#"data: {"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;
const USAGE: &str = r#"data: {"id":"c","choices":[],"usage":{"prompt_tokens":1234,"completion_tokens":56}}"#;
const BOTH: &str = r#"data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":1}}"#;
const FILTER: &str = r#"data: {"choices":[],"prompt_filter_results":[{"usage":{}}],"usage":null}"#;
const ERROR: &str = r#"data: {"error":{"message":"overloaded","type":"server_error","code":529}}"#;
const DONE: &str = "data: [DONE]";

const ALL: RelayOptions = RelayOptions { dialect: Dialect::Chat, withhold_usage: true, hold_end: true, collect: true };
const NONE: RelayOptions =
    RelayOptions { dialect: Dialect::Chat, withhold_usage: false, hold_end: false, collect: false };
const WITHHOLD: RelayOptions = RelayOptions { withhold_usage: true, ..NONE };
const HOLD: RelayOptions = RelayOptions { hold_end: true, ..NONE };

fn stream(events: &[&str]) -> String {
    events.iter().flat_map(|event| [event, "\n\n"]).collect()
}

/// What became of a stream.
#[derive(Debug, PartialEq)]
struct Outcome {
    passed: String,
    held: String,
    verdict: Verdict,
    usage: Option<Usage>,
}

fn text(pieces: impl IntoIterator<Item = Bytes>) -> String {
    String::from_utf8_lossy(&pieces.into_iter().flatten().collect::<Vec<u8>>()).into_owned()
}

fn run<'a>(options: RelayOptions, frames: impl IntoIterator<Item = &'a [u8]>, how: StreamEnd) -> Outcome {
    let mut relay = StreamRelay::new(options);
    let mut passed = Vec::new();
    for frame in frames {
        passed.extend(relay.push(Bytes::copy_from_slice(frame)));
    }
    passed.extend(relay.end(how));
    let held = text([relay.take_held()]);
    Outcome { passed: text(passed), held, verdict: relay.verdict(), usage: relay.usage() }
}

fn whole(options: RelayOptions, stream: &str, how: StreamEnd) -> Outcome {
    run(options, [stream.as_bytes()], how)
}

/// Every single cut, and byte by byte.
fn at_every_place(options: RelayOptions, stream: &str, how: StreamEnd) -> Outcome {
    let expected = whole(options, stream, how);
    let bytes = stream.as_bytes();
    for at in 0..bytes.len() {
        assert_eq!(run(options, [&bytes[..at], &bytes[at..]], how), expected, "cut at {at}");
    }
    assert_eq!(run(options, bytes.chunks(1), how), expected, "byte by byte");
    expected
}

fn error_event() -> String {
    text([crate::wire::fault::interrupted(Dialect::Chat, 0)])
}

/// entrius/gittensor#1749, BerriAI/litellm#5632, gpustack/gpustack#6155, envoyproxy/ai-gateway#2162: alone, in one write with
/// its neighbours, cut within a number.
#[test]
fn usage_that_we_asked_for_is_taken_out_and_booked() {
    let came = stream(&[ROLE, HELLO, STOP, USAGE, DONE]);
    let found = at_every_place(ALL, &came, StreamEnd::Clean);
    assert_eq!(found.passed, stream(&[ROLE, HELLO, STOP]));
    assert_eq!(found.held, stream(&[DONE]));
    assert_eq!(found.usage.map(|u| u.prompt_tokens), Some(1234));
    assert_eq!(found.verdict, Verdict::Complete);
    let found = at_every_place(WITHHOLD, &came, StreamEnd::Clean);
    assert_eq!(found.passed, stream(&[ROLE, HELLO, STOP, DONE]));
}

#[test]
fn usage_is_taken_out_in_every_spelling() {
    for usage in [
        USAGE.replace("data: ", "data:"),
        USAGE.replace("\"choices\":[],", "\"choices\" : [ ] ,\ndata:  "),
        USAGE.replacen("data: ", "event: chunk\nid: 4\ndata: ", 1),
        USAGE
            .replace("\"choices\":[],\"usage\"", "\"x\":{\"choices\":[1]},\"usage\"")
            .replace("}}", "},\"choices\":[]}"),
    ] {
        for end in ["\n", "\r\n", "\r"] {
            let came = [STOP, &usage, DONE].map(|e| format!("{e}\n\n").replace('\n', end));
            let found = at_every_place(WITHHOLD, &came.concat(), StreamEnd::Clean);
            assert_eq!(found.passed, [came[0].clone(), came[2].clone()].concat(), "{usage}");
        }
    }
}

/// BerriAI/litellm#8450, #9657: who asked gets it once, as it came.
#[test]
fn usage_that_the_client_asked_for_passes() {
    let came = stream(&[ROLE, STOP, USAGE, DONE]);
    let found = at_every_place(NONE, &came, StreamEnd::Clean);
    assert_eq!((found.passed, found.usage.is_some()), (came, true));
}

/// BerriAI/litellm#23847: none is invented.
#[test]
fn no_usage_stays_no_usage() {
    let came = stream(&[ROLE, STOP, DONE]);
    assert_eq!(whole(WITHHOLD, &came, StreamEnd::Clean).usage, None);
    assert_eq!(whole(WITHHOLD, &came, StreamEnd::Clean).passed, came);
}

#[test]
fn usage_beside_choices_passes_and_is_booked() {
    for event in [BOTH, FILTER] {
        let came = stream(&[ROLE, event, STOP, DONE]);
        let found = at_every_place(WITHHOLD, &came, StreamEnd::Clean);
        assert_eq!(found.passed, came);
        assert_eq!(found.usage.is_some(), event == BOTH);
    }
}

/// Portkey-AI/gateway#1035.
#[test]
fn comments_around_and_in_a_withheld_event_pass() {
    let came = format!(
        "{STOP}\n\n: before\n\n: near\n{}\n: within\n\n: after\n\n{DONE}\n\n",
        USAGE.replace(",\"usage", ",\n: first\ndata: \"usage")
    );
    let found = at_every_place(WITHHOLD, &came, StreamEnd::Clean);
    assert_eq!(found.passed, format!("{STOP}\n\n: before\n\n: near\n: first\n: within\n: after\n\n{DONE}\n\n"));
}

/// Kong/kong#14425: an event is not held longer than it may be the one that is looked for.
#[test]
fn bytes_pass_as_soon_as_they_cannot_be_what_is_looked_for() {
    let mut relay = StreamRelay::new(ALL);
    let mut push = |frame: &'static str| text(relay.push(Bytes::from_static(frame.as_bytes())));
    assert_eq!(push(": ke"), ": ke");
    assert_eq!(push("ep\n\n"), "ep\n\n");
    assert_eq!(push("data: {\"id\":\"c\",\"choices\":["), "");
    assert_eq!(push("{"), "data: {\"id\":\"c\",\"choices\":[{");
    assert_eq!(push("\"index\":0}]"), "\"index\":0}]");
    assert_eq!(push(",\"usage\":{}}\n\n"), ",\"usage\":{}}\n\n");
    assert_eq!(push("data: no json"), "data: no json");
    assert_eq!(push("\n\n"), "\n\n");
    let mut relay = StreamRelay::new(HOLD);
    assert_eq!(text(relay.push(Bytes::from_static(b"data: {"))), "data: {");
}

#[test]
fn an_event_that_stays_undecided_passes_at_the_limit() {
    let mut relay = StreamRelay::new(WITHHOLD);
    let long = Bytes::from(format!("data: {{\"padding\":\"{}", "x".repeat(60 * 1024)));
    assert!(relay.push(long.clone()).is_empty());
    assert_eq!(text(relay.push(Bytes::from("y".repeat(8 * 1024)))).len(), long.len() + 8 * 1024);
    let big = USAGE.replace("\"id\":\"c\"", &format!("\"id\":\"{}\"", "x".repeat(70 * 1024)));
    let came = stream(&[STOP, &big, DONE]);
    assert_eq!(whole(WITHHOLD, &came, StreamEnd::Clean).passed, came);
}

#[test]
fn nothing_is_copied_when_nothing_is_held() {
    let mut relay = StreamRelay::new(ALL);
    let frame = Bytes::from(stream(&[ROLE, HELLO]));
    let passed = relay.push(frame.clone());
    assert_eq!((passed.len(), passed[0].as_ptr(), passed[0].len()), (1, frame.as_ptr(), frame.len()));
}

/// envoyproxy/ai-gateway PR#2177, alibaba/higress#4146.
#[test]
fn the_end_is_known_and_held_in_every_spelling() {
    for done in
        ["data: [DONE]\n\n", "data:[DONE]\r\n\r\n", "event: x\rdata: [DONE]\r\r", "data: [DONE]\n", "data: [DONE]"]
    {
        for after in ["", ": bye\n\n"] {
            let came = format!("{ROLE}\n\n{done}{after}");
            let found = at_every_place(HOLD, &came, StreamEnd::Clean);
            assert_eq!(found.passed, format!("{ROLE}\n\n"), "{done:?}");
            assert_eq!(found.held, format!("{done}{after}"));
            assert_eq!(found.verdict, Verdict::Complete);
        }
    }
}

/// An empty frame once made the relay forget that an LF was still to come.
#[test]
fn an_empty_frame_changes_nothing() {
    let usage = format!("{USAGE}\r\n\r");
    let frames: [&[u8]; 4] = [usage.as_bytes(), b"", b"\n", b": c\n"];
    assert_eq!(run(WITHHOLD, frames, StreamEnd::Failed).passed, format!(": c\n{}", error_event()));
}

#[test]
fn without_an_end_nothing_is_held() {
    let came = stream(&[ROLE, STOP]);
    let found = at_every_place(HOLD, &came, StreamEnd::Clean);
    assert_eq!((found.passed, found.held.as_str(), found.verdict), (came, "", Verdict::Complete));
}

#[test]
fn what_follows_the_end_is_held_up_to_a_bound() {
    let mut relay = StreamRelay::new(HOLD);
    relay.push(Bytes::from(stream(&[DONE])));
    assert!(relay.holds_end());
    let block = Bytes::from(vec![b'x'; 600 * 1024]);
    assert!(relay.push(block.clone()).is_empty());
    assert_eq!(relay.push(block.clone()).iter().map(Bytes::len).sum::<usize>(), 14 + 2 * block.len());
    assert_eq!(relay.push(block.clone()), [block]);
}

/// Portkey-AI/gateway#1797: by a reset, and politely.
#[test]
fn a_cut_gives_an_error_event_and_no_done() {
    for how in [StreamEnd::Clean, StreamEnd::Failed] {
        let came = stream(&[ROLE, HELLO]);
        let found = at_every_place(ALL, &came, how);
        assert_eq!((found.passed, found.verdict), (format!("{came}{}", error_event()), Verdict::Cut));
    }
}

/// dativo-io/talon#393: whatever the place, a client that reads our bytes finds our event whole.
#[test]
fn a_cut_anywhere_leaves_our_error_readable() {
    for end in ["\n", "\r\n", "\r"] {
        let came = format!("{}: c\n\nevent: e\n{HELLO}\n\n", stream(&[ROLE, HELLO])).replace('\n', end);
        for options in [NONE, ALL] {
            for at in 1..came.len() {
                let found = run(options, came.as_bytes()[..at].chunks(7), StreamEnd::Failed);
                let mut parser = crate::wire::sse::SseParser::new();
                let mut rest = found.passed.as_bytes();
                let mut last = None;
                while let Some(event) = parser.next(&mut rest) {
                    last = event.data.map(|d| text([Bytes::copy_from_slice(d)]));
                }
                let last = last.unwrap_or_default();
                assert_eq!(format!("data: {last}\n\n"), error_event(), "cut at {at}");
                assert!(!found.passed.contains("data: [DONE]") && parser.pending().is_none());
            }
        }
    }
}

#[test]
fn what_is_held_of_an_undecided_event_is_dropped_at_a_cut() {
    let came = format!("{}data: {{\"id\":\"c\",\"cho", stream(&[ROLE]));
    let found = at_every_place(WITHHOLD, &came, StreamEnd::Failed);
    assert_eq!(found.passed, format!("{}{}", stream(&[ROLE]), error_event()));
}

#[test]
fn a_failure_after_every_finish_reason_is_complete_and_nothing_is_invented() {
    let came = stream(&[ROLE, STOP]);
    let found = at_every_place(ALL, &came, StreamEnd::Failed);
    assert_eq!((found.passed, found.verdict), (came, Verdict::Complete));
    let two = STOP.replace("\"index\":0", "\"index\":1");
    let came = stream(&[ROLE, &two]);
    assert_eq!(whole(ALL, &came, StreamEnd::Clean).verdict, Verdict::Cut, "choice 0 did not finish");
}

#[test]
fn a_last_event_without_its_blank_line_counts() {
    let came = format!("{}{STOP}", stream(&[ROLE]));
    let found = at_every_place(ALL, &came, StreamEnd::Clean);
    assert_eq!((found.passed, found.verdict), (came, Verdict::Complete));
    let came = format!("{}{USAGE}\n", stream(&[ROLE, STOP]));
    let found = at_every_place(WITHHOLD, &came, StreamEnd::Clean);
    assert_eq!((found.passed, found.usage.is_some()), (stream(&[ROLE, STOP]), true));
}

#[test]
fn an_error_of_upstream_passes_alone_and_is_incomplete() {
    for tail in [vec![], vec![DONE]] {
        let came = stream(&[&[ROLE, HELLO, ERROR], tail.as_slice()].concat());
        let found = at_every_place(NONE, &came, StreamEnd::Clean);
        assert_eq!((found.passed, found.verdict), (came, Verdict::Error));
    }
}

#[test]
fn another_api_that_ends_cleanly_is_complete() {
    let came = "event: response.created\ndata: {\"type\":\"response.created\"}\n\n";
    for (how, verdict) in [(StreamEnd::Clean, Verdict::Complete), (StreamEnd::Failed, Verdict::Cut)] {
        assert_eq!(at_every_place(ALL, came, how).verdict, verdict);
    }
}

/// BerriAI/litellm#40404, Portkey-AI/gateway#722 and #949, headroomlabs-ai/headroom#2438.
#[test]
fn malformed_lines_and_unknown_fields_and_members_pass() {
    let came = format!(
        "{ROLE}\n\ndata: {{\"choices\":[{{\n\nid: 3\nretry: 10\nfoo: bar\nevent: x\n{}\n\n{STOP}\n\n{DONE}\n\n",
        HELLO.replace("\"content\"", "\"reasoning_content\":\"r\",\"new_block\":[{\"type\":\"z\"}],\"content\"")
    );
    let mut relay = StreamRelay::new(ALL);
    let mut passed = relay.push(Bytes::from(came.clone()));
    passed.extend(relay.end(StreamEnd::Clean));
    passed.push(relay.take_held());
    assert_eq!(text(passed), came);
    assert_eq!((relay.malformed(), relay.verdict()), (1, Verdict::Complete));
    assert_eq!(relay.reply().choices[0].text, "你好 \"usage\" [DONE] ");
}

#[test]
fn a_keepalive_waits_for_the_start_of_a_line() {
    let mut relay = StreamRelay::new(NONE);
    assert_eq!(relay.keepalive(), Some(Bytes::from_static(b": keep-alive\n")));
    for (frame, fits) in [("data: {", false), ("}", false), ("\r", false), ("\n", true), ("\r\n", true)] {
        relay.push(Bytes::from_static(frame.as_bytes()));
        assert_eq!(relay.keepalive().is_some(), fits, "behind {frame:?}");
    }
    let mut relay = StreamRelay::new(ALL);
    relay.push(Bytes::from_static(b"data: [DO"));
    assert!(relay.keepalive().is_some(), "the half line is held");
}

#[test]
fn a_client_that_leaves_after_the_finish_reason_has_it_all() {
    let mut relay = StreamRelay::new(NONE);
    relay.push(Bytes::from(stream(&[ROLE, HELLO])));
    assert_eq!(relay.verdict_now(), Verdict::Cut);
    relay.push(Bytes::from(stream(&[STOP])));
    assert_eq!((relay.verdict_now(), relay.verdict()), (Verdict::Complete, Verdict::Open));
}

fn events() -> impl Strategy<Value = String> {
    let event = prop_oneof![
        4 => prop::sample::select(vec![ROLE, HELLO, STOP, BOTH, FILTER, ERROR]).prop_map(str::to_owned),
        3 => Just(USAGE.to_owned()),
        1 => Just(DONE.to_owned()),
        1 => prop::sample::select(vec![": comment", "event: x", "id", "retry: 3", "data: no json", "data", "\u{feff}", ""]).prop_map(str::to_owned),
        1 => Just(USAGE.replace(",\"usage", ",\n: c\ndata: \"usage")),
        1 => "[\\[\\]{}\":,a-zA-Z \n\r]{0,20}",
    ];
    let line_end = prop::sample::select(vec!["\n\n", "\r\n\r\n", "\r\r", "\n", "\r\n", "\r"]);
    prop::collection::vec((event, line_end), 0..12).prop_map(|events| {
        events
            .into_iter()
            .map(|(event, end)| {
                format!(
                    "{}{end}",
                    event.replace('\n', end.get(..end.len() / 2).filter(|e| !e.is_empty()).unwrap_or(end))
                )
            })
            .collect()
    })
}

/// What a client may see of a stream, found without the relay: only the data of whole events is looked at.
fn without_usage(stream: &str) -> String {
    let mut parser = crate::wire::sse::SseParser::new();
    let (mut rest, mut out, mut at) = (stream.as_bytes(), String::new(), 0);
    while let Some(event) = parser.next(&mut rest) {
        let data = text([Bytes::copy_from_slice(event.data.unwrap_or_default())]);
        let Ok(json) = serde_json::from_str::<serde_json::Value>(&data) else { continue };
        if json["choices"].as_array().is_some_and(Vec::is_empty) && json["usage"].is_object() {
            out.push_str(&stream[at..event.range.start as usize]);
            for comment in event.comments {
                out.push_str(&stream[comment.start as usize..comment.end as usize]);
            }
            at = event.range.end as usize;
        }
    }
    out.push_str(&stream[at..]);
    out
}

/// The data of the events, as a client sees them.
fn read(stream: &str) -> Vec<Option<String>> {
    let mut parser = crate::wire::sse::SseParser::new();
    let mut rest = stream.as_bytes();
    std::iter::from_fn(|| parser.next(&mut rest).map(|e| e.data.map(|d| String::from_utf8_lossy(d).into_owned())))
        .collect()
}

fn options() -> impl Strategy<Value = RelayOptions> {
    (any::<bool>(), any::<bool>(), any::<bool>()).prop_map(|(withhold_usage, hold_end, collect)| RelayOptions {
        dialect: Dialect::Chat,
        withhold_usage,
        hold_end,
        collect,
    })
}

fn cut<'a>(bytes: &'a [u8], cuts: &[usize]) -> Vec<&'a [u8]> {
    let mut places: Vec<usize> = cuts.iter().map(|c| c % (bytes.len() + 1)).collect();
    places.extend([0, bytes.len()]);
    places.sort_unstable();
    places.windows(2).map(|w| &bytes[w[0]..w[1]]).collect()
}

proptest! {
    /// BerriAI/litellm#18842, musistudio/claude-code-router#1672, envoyproxy/ai-gateway#2162.
    #[test]
    fn any_split_gives_the_same_bytes_and_verdict(
        stream in events(), cuts in prop::collection::vec(0_usize..4000, 0..30), options in options(), clean in any::<bool>()
    ) {
        let how = if clean { StreamEnd::Clean } else { StreamEnd::Failed };
        let expected = whole(options, &stream, how);
        prop_assert_eq!(run(options, cut(stream.as_bytes(), &cuts), how), expected);
    }

    #[test]
    fn collecting_changes_neither_bytes_nor_books(stream in events(), options in options()) {
        let light = whole(RelayOptions { collect: false, ..options }, &stream, StreamEnd::Clean);
        prop_assert_eq!(whole(RelayOptions { collect: true, ..options }, &stream, StreamEnd::Clean), light);
    }

    #[test]
    fn only_the_usage_event_is_ever_missing(stream in events()) {
        // With an end there is no cut, whatever came before.
        let stream = format!("{stream}\n\n{DONE}\n\n");
        let found = whole(RelayOptions { hold_end: false, ..ALL }, &stream, StreamEnd::Clean);
        prop_assert_eq!(found.passed, without_usage(&stream));
    }

    /// BerriAI/litellm#34819, theopenco/llmgateway#1541: whenever upstream falls silent, a comment changes no event.
    #[test]
    fn a_keepalive_changes_no_event(
        stream in events(), cuts in prop::collection::vec(0_usize..4000, 0..30), options in options()
    ) {
        // A byte order mark counts only as the first thing of a stream, which a comment before it changes.
        let stream = stream.replace('\u{feff}', "");
        let mut relay = StreamRelay::new(options);
        let (mut with, mut without) = (Vec::new(), Vec::new());
        for frame in cut(stream.as_bytes(), &cuts) {
            with.extend(relay.keepalive());
            let passed = relay.push(Bytes::copy_from_slice(frame));
            with.extend(passed.iter().cloned());
            without.extend(passed);
        }
        prop_assert_eq!(read(&text(with)), read(&text(without)));
    }

    #[test]
    fn any_bytes_pass_unchanged(bytes in prop::collection::vec(any::<u8>(), 0..300), size in 1_usize..9) {
        let mut relay = StreamRelay::new(NONE);
        let passed: Vec<u8> = bytes.chunks(size).flat_map(|f| relay.push(Bytes::copy_from_slice(f))).flatten().collect();
        prop_assert_eq!(&passed, &bytes);
        let mut relay = StreamRelay::new(ALL);
        for frame in bytes.chunks(size) {
            relay.push(Bytes::copy_from_slice(frame));
        }
        relay.end(StreamEnd::Clean);
        let _ = first_event(&bytes);
    }
}
