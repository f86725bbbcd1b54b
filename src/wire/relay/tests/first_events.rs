//! What a stream begins with.

use super::*;

fn first(events: &[&str]) -> FirstEvent {
    first_event(stream(events).as_bytes())
}

/// Portkey-AI/gateway#1047.
#[test]
fn an_error_before_any_content_is_seen() {
    for before in [vec![], vec![": hi"], vec![ROLE], vec![": hi", "event: x", FILTER, ROLE]] {
        let FirstEvent::Error(error) = first(&[before.as_slice(), &[ERROR]].concat()) else {
            panic!("an error comes first");
        };
        assert_eq!((error.message.as_str(), error.code.as_deref()), ("overloaded", Some("529")));
    }
}

#[test]
fn a_role_is_no_content_and_comments_do_not_count() {
    assert_eq!(first(&[]), FirstEvent::NeedMore);
    assert_eq!(first(&[": keep-alive"]), FirstEvent::NeedMore);
    assert_eq!(first_event(HELLO.as_bytes()), FirstEvent::NeedMore);
    assert_eq!(first(&[": hi", ROLE]), FirstEvent::RoleOnly);
    assert_eq!(first(&[FILTER]), FirstEvent::RoleOnly);
    assert_eq!(first(&[ROLE, HELLO]), FirstEvent::Content);
    assert_eq!(first(&[STOP]), FirstEvent::Content);
    assert_eq!(first(&[ROLE, DONE]), FirstEvent::Done);
}

#[test]
fn every_kind_of_content_counts() {
    for delta in [
        r#"{"role":"assistant","content":"x"}"#,
        r#"{"refusal":"no"}"#,
        r#"{"tool_calls":[{"index":0}]}"#,
        r#"{"content":"","reasoning_content":"hm"}"#,
    ] {
        let event = format!(r#"data: {{"choices":[{{"index":0,"delta":{delta},"finish_reason":null}}]}}"#);
        assert_eq!(first(&[&event]), FirstEvent::Content, "{delta}");
    }
    for delta in [r#"{"role":"assistant","content":null,"tool_calls":[]}"#, "{}"] {
        let event = format!(r#"data: {{"choices":[{{"index":0,"delta":{delta}}}]}}"#);
        assert_eq!(first(&[&event]), FirstEvent::RoleOnly, "{delta}");
    }
}

#[test]
fn another_shape_is_other() {
    for event in [r#"data: {"type":"thread.created"}"#, "data: hello", "data: [1]"] {
        assert_eq!(first(&[event]), FirstEvent::Other, "{event}");
    }
}
