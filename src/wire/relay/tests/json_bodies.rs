//! Replies that are no streams.

use super::*;

const BODY: &str = r#"{"id":"c","choices":[{"index":0,"message":{"content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":2}}"#;

fn run(mut relay: JsonRelay, body: &str, size: usize, how: StreamEnd) -> (String, String, JsonRelay) {
    let mut passed = Vec::new();
    for frame in body.as_bytes().chunks(size) {
        passed.extend(relay.push(Bytes::copy_from_slice(frame)));
    }
    passed.extend(relay.end(how));
    let held = text([relay.take_held()]);
    (text(passed), held, relay)
}

#[test]
fn the_last_byte_waits_and_all_else_passes() {
    for size in 1..BODY.len() + 1 {
        let (passed, held, relay) = run(JsonRelay::new(true, 1024), BODY, size, StreamEnd::Clean);
        assert_eq!((passed.as_str(), held.as_str()), (&BODY[..BODY.len() - 1], "}"));
        assert_eq!((relay.verdict(), relay.reply().choices[0].text.as_str()), (Verdict::Complete, "hi"));
        assert_eq!(relay.usage().map(|u| u.prompt_tokens), Some(2));
    }
}

#[test]
fn with_a_known_length_only_the_last_frame_waits() {
    let relay = JsonRelay::new(true, 1024).with_content_length(Some(BODY.len() as u64));
    let (passed, held, relay) = run(relay, BODY, 10, StreamEnd::Clean);
    assert_eq!(passed.len(), BODY.len() / 10 * 10);
    assert_eq!((passed + &held, relay.verdict()), (BODY.to_owned(), Verdict::Complete));
}

#[test]
fn without_hold_every_frame_passes_at_once() {
    let (passed, held, _) = run(JsonRelay::new(false, 1024), BODY, 3, StreamEnd::Clean);
    assert_eq!((passed.as_str(), held.as_str()), (BODY, ""));
}

#[test]
fn a_body_over_the_limit_passes_and_is_not_kept() {
    let (passed, _, relay) = run(JsonRelay::new(false, 20), BODY, 7, StreamEnd::Clean);
    assert_eq!((passed.as_str(), relay.verdict()), (BODY, Verdict::Complete));
    assert!(relay.reply().truncated && relay.reply().choices.is_empty());
}

#[test]
fn a_cut_or_an_error_is_not_complete() {
    let (.., relay) = run(JsonRelay::new(true, 1024), &BODY[..40], 7, StreamEnd::Failed);
    assert_eq!(relay.verdict(), Verdict::Cut);
    let (.., relay) = run(JsonRelay::new(true, 1024), &BODY[..40], 7, StreamEnd::Clean);
    assert_eq!(relay.verdict(), Verdict::Cut, "half a body is cut, even when the connection ended politely");
    let (.., relay) = run(JsonRelay::new(true, 1024), r#"{"error":{"message":"x"}}"#, 7, StreamEnd::Clean);
    assert_eq!(relay.verdict(), Verdict::Error);
}
