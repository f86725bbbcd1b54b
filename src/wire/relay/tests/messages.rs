//! The same rules for streams in Anthropic's dialect.

use super::*;

const START: &str = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"usage\":{\"input_tokens\":9,\"output_tokens\":1}}}";
const PING: &str = "event: ping\ndata: {\"type\": \"ping\"}";
const BLOCK: &str = "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}";
const SAID: &str = "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"你好 \\\"message_stop\\\"\"}}";
const NEW: &str = "event: next_year\nid: 7\ndata: {\"type\":\"next_year\",\"x\":[1.10,null]}";
const END: &str = "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":5}}";
const STOPS: [&str; 3] = [
    "event: message_stop\ndata: {\"type\":\"message_stop\"}",
    "data:{\"type\": \"message_stop\" , \"x\":1}",
    "event: message_stop\ndata: {\"x\":1,\"type\":\"message_stop\"}",
];
const BROKEN: &str =
    "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}";

const MESSAGES: RelayOptions = RelayOptions { dialect: Dialect::Messages, hold_end: true, collect: true, ..NONE };

#[test]
fn every_byte_passes_and_the_end_is_held() {
    for stop in &STOPS[..2] {
        let came = stream(&[START, PING, BLOCK, SAID, NEW, END, stop]);
        let found = at_every_place(MESSAGES, &came, StreamEnd::Clean);
        assert_eq!(format!("{}{}", found.passed, found.held), came);
        assert_eq!(found.held, stream(&[stop]));
        assert_eq!(found.verdict, Verdict::Complete);
        assert_eq!(found.usage.map(|usage| (usage.prompt_tokens, usage.completion_tokens)), Some((9, 5)));
    }
    // Members in another order are only known when the event is there.
    let came = stream(&[START, SAID, END, STOPS[2]]);
    let found = whole(MESSAGES, &came, StreamEnd::Clean);
    assert_eq!((format!("{}{}", found.passed, found.held), found.verdict), (came, Verdict::Complete));
    let light = RelayOptions { collect: false, hold_end: false, ..MESSAGES };
    let came = stream(&[START, BLOCK, SAID, END, STOPS[0]]);
    let found = at_every_place(light, &came, StreamEnd::Clean);
    assert_eq!((found.passed, found.verdict, found.usage.map(Usage::total)), (came, Verdict::Complete, Some(14)));
}

/// Portkey-AI/gateway#1797 and dativo-io/talon#393 in this dialect.
#[test]
fn a_cut_ends_in_an_error_event_and_no_stop() {
    let came = stream(&[START, BLOCK, SAID]);
    let error = text([crate::wire::fault::interrupted(Dialect::Messages, 3)]);
    for how in [StreamEnd::Clean, StreamEnd::Failed] {
        let found = whole(MESSAGES, &came, how);
        assert_eq!((found.passed, found.verdict), (format!("{came}{error}"), Verdict::Cut));
    }
    let half = format!("{came}event: content_block_delta\ndata: {{\"type\":\"content_bl");
    let found = whole(MESSAGES, &half, StreamEnd::Failed);
    assert!(found.passed.starts_with(&came) && found.passed.ends_with(&format!("\n\n{error}")), "{}", found.passed);
    // Without `message_stop`, but after the reason why it ended, the message is whole.
    let found = whole(MESSAGES, &stream(&[START, SAID, END]), StreamEnd::Clean);
    assert_eq!(found.verdict, Verdict::Complete);
}

#[test]
fn an_error_event_passes_as_it_is() {
    let came = stream(&[START, SAID, BROKEN]);
    let found = at_every_place(MESSAGES, &came, StreamEnd::Clean);
    assert_eq!((found.passed, found.verdict), (came, Verdict::Error));
}

/// Portkey-AI/gateway#1047 in this dialect.
#[test]
fn what_a_stream_begins_with_is_told() {
    let first = |events: &[&str]| first_event(stream(events).as_bytes());
    assert_eq!(first(&[]), FirstEvent::NeedMore);
    assert_eq!(first(&[START, PING, BLOCK]), FirstEvent::RoleOnly);
    assert_eq!(first(&[START, BLOCK, SAID]), FirstEvent::Content);
    let call = "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"f\",\"input\":{}}}";
    assert_eq!(first(&[START, call]), FirstEvent::Content);
    assert_eq!(first(&[START, STOPS[0]]), FirstEvent::Done);
    let FirstEvent::Error(error) = first(&[START, BROKEN]) else { panic!("an error comes first") };
    assert_eq!((error.message.as_str(), error.kind.as_deref()), ("Overloaded", Some("overloaded_error")));
    assert_eq!(first(&[NEW]), FirstEvent::Other);
}

#[test]
fn a_whole_message_is_read_beside_its_bytes() {
    let body = r#"{"id":"msg_1","type":"message","content":[{"type":"text","text":"Hi."}],"stop_reason":"end_turn","usage":{"input_tokens":3,"output_tokens":2}}"#;
    let mut relay = JsonRelay::new(true, 1024).in_dialect(Dialect::Messages);
    let mut passed = text(relay.push(Bytes::from_static(body.as_bytes())));
    passed += &text(relay.end(StreamEnd::Clean));
    passed += &text([relay.take_held()]);
    assert_eq!(passed, body);
    assert_eq!((relay.verdict(), relay.reply().choices[0].text.as_str()), (Verdict::Complete, "Hi."));
    assert_eq!(relay.usage().map(Usage::total), Some(5));
}
