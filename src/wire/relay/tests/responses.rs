//! The relay by the events of OpenAI's responses.

use super::*;

const CREATED: &str = r#"event: response.created
data: {"type":"response.created","sequence_number":0,"response":{"id":"resp_1","status":"in_progress"}}"#;
const DELTA: &str = r#"event: response.output_text.delta
data: {"type":"response.output_text.delta","sequence_number":1,"delta":"你好 \"response.completed\" [DONE]"}"#;
const UNKNOWN: &str = r#"event: response.hologram
data: {"type":"response.hologram","x":[1e3]}"#;
const COMPLETED: &str = r#"event: response.completed
data: {"type":"response.completed","sequence_number":2,"response":{"id":"resp_1","status":"completed","usage":{"input_tokens":1234,"output_tokens":56}}}"#;
/// As vLLM writes it: the type comes last, and some proxies leave the name of the event out.
const UNNAMED: &str = r#"data: {"response":{"id":"resp_1","status":"completed","usage":{"input_tokens":1234,"output_tokens":56}},"sequence_number":2,"type":"response.completed"}"#;
const HOLD: RelayOptions =
    RelayOptions { dialect: Dialect::Responses, withhold_usage: false, hold_end: true, collect: true };
const PASS: RelayOptions = RelayOptions { hold_end: false, collect: false, ..HOLD };

fn interrupted(number: u64) -> String {
    text([crate::wire::fault::interrupted(Dialect::Responses, number)])
}

#[test]
fn the_last_event_is_held_and_booked_wherever_it_is_cut() {
    for end in [COMPLETED, UNNAMED, &COMPLETED.replace("completed", "incomplete")] {
        for tail in [vec![], vec![DONE]] {
            let held = stream(&[&[end], tail.as_slice()].concat());
            let came = stream(&[CREATED, DELTA, UNKNOWN]);
            let found = at_every_place(HOLD, &format!("{came}{held}"), StreamEnd::Clean);
            assert_eq!((found.passed, found.held), (came, held));
            assert_eq!((found.verdict, found.usage.map(Usage::total)), (Verdict::Complete, Some(1290)));
        }
    }
}

#[test]
fn without_a_hold_every_byte_passes() {
    let came = stream(&[CREATED, DELTA, UNKNOWN, COMPLETED]).replace('\n', "\r\n");
    let found = at_every_place(PASS, &came, StreamEnd::Clean);
    assert_eq!((found.passed, found.held.as_str(), found.verdict), (came, "", Verdict::Complete));
}

#[test]
fn a_cut_gives_an_error_event_and_no_completed() {
    for how in [StreamEnd::Clean, StreamEnd::Failed] {
        let came = stream(&[CREATED, DELTA]);
        let found = at_every_place(HOLD, &came, how);
        assert_eq!((found.passed, found.verdict), (format!("{came}{}", interrupted(2)), Verdict::Cut));
    }
}

#[test]
fn half_of_the_last_event_is_a_cut() {
    let came = stream(&[CREATED, DELTA]);
    let half = &COMPLETED[..COMPLETED.len() - 20];
    let found = at_every_place(HOLD, &format!("{came}{half}"), StreamEnd::Failed);
    assert_eq!((found.passed, found.verdict), (format!("{came}{}", interrupted(3)), Verdict::Cut));
}

#[test]
fn our_error_event_is_one_for_both_of_openais_sdks() {
    let event = interrupted(7);
    let data = event.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
    let json: serde_json::Value = serde_json::from_str(data).unwrap();
    assert!(event.starts_with("event: error\n") && event.ends_with("\n\n"));
    assert_eq!((json["type"].as_str(), json["code"].as_str()), (Some("error"), Some("stream_interrupted")));
    assert_eq!((json["sequence_number"].as_u64(), json["error"]["type"].as_str()), (Some(7), Some("upstream_error")));
}

#[test]
fn a_last_event_larger_than_what_is_held_of_others_is_held() {
    let large =
        COMPLETED.replace("\"usage\"", &format!("\"output\":[{{\"x\":\"{}\"}}],\"usage\"", "x".repeat(300_000)));
    let mut relay = StreamRelay::new(HOLD);
    let mut passed = Vec::new();
    for frame in stream(&[CREATED, &large]).as_bytes().chunks(16 * 1024) {
        passed.extend(relay.push(Bytes::copy_from_slice(frame)));
    }
    assert_eq!(text(passed), stream(&[CREATED]));
    assert!(relay.holds_end() && relay.verdict_now() == Verdict::Complete);
    assert_eq!(text([relay.take_held()]), stream(&[&large]));
}

#[test]
fn an_error_of_upstream_passes_alone_and_is_incomplete() {
    let error = r#"event: error
data: {"type":"error","code":"server_error","message":"x","param":null,"sequence_number":2}"#;
    let failed = r#"event: response.failed
data: {"type":"response.failed","response":{"status":"failed","error":{"code":"server_error","message":"x"}}}"#;
    for end in [error, failed] {
        let came = stream(&[CREATED, DELTA, end]);
        let found = at_every_place(HOLD, &came, StreamEnd::Clean);
        assert_eq!((format!("{}{}", found.passed, found.held), found.verdict), (came, Verdict::Error));
    }
}

#[test]
fn the_look_before_an_answer_is_the_clients() {
    let look = |events: &[&str]| first_event(stream(events).as_bytes());
    assert_eq!(look(&[CREATED]), FirstEvent::RoleOnly);
    assert_eq!(look(&[CREATED, DELTA]), FirstEvent::Content);
    assert_eq!(look(&[UNKNOWN]), FirstEvent::Content);
    let error = r#"data: {"type":"response.failed","response":{"error":{"code":"server_error","message":"x"}}}"#;
    assert!(matches!(look(&[CREATED, error]), FirstEvent::Error(error) if error.message == "x"));
}

proptest! {
    #[test]
    fn any_split_gives_the_same_bytes_and_verdict(
        picks in prop::collection::vec(0_usize..6, 0..8), cuts in prop::collection::vec(0_usize..4000, 0..20), hold in any::<bool>()
    ) {
        let all = [CREATED, DELTA, UNKNOWN, COMPLETED, UNNAMED, ": comment"];
        let came = stream(&picks.iter().map(|&at| all[at]).collect::<Vec<_>>());
        let options = if hold { HOLD } else { PASS };
        let expected = whole(options, &came, StreamEnd::Clean);
        prop_assert_eq!(format!("{}{}", &expected.passed, &expected.held).starts_with(&came), true);
        prop_assert_eq!(run(options, cut(came.as_bytes(), &cuts), StreamEnd::Clean), expected);
    }
}
