//! The accumulator by the events of responses.

use serde_json::{Value, json};

use super::super::{Accumulator, Reply, Seen};
use crate::wire::{Dialect, Usage};

fn books() -> Accumulator {
    Accumulator::new().in_dialect(Dialect::Responses)
}

fn usage() -> Value {
    json!({"input_tokens": 20, "input_tokens_details": {"cached_tokens": 5}, "output_tokens": 9,
        "output_tokens_details": {"reasoning_tokens": 4}, "total_tokens": 29})
}

fn read(events: &[Value]) -> (Reply, Vec<Seen>) {
    let mut books = books();
    let seen = events.iter().map(|event| books.chunk(&event.to_string())).collect();
    (books.into_reply(), seen)
}

#[test]
fn words_calls_and_usage_are_put_together() {
    let (reply, seen) = read(&[
        json!({"type": "response.created", "response": {"id": "resp_1", "model": "m", "output": [], "usage": null, "error": null}}),
        json!({"type": "response.output_item.added", "output_index": 0, "item": {"id": "rs_1", "type": "reasoning"}}),
        json!({"type": "response.reasoning_summary_text.delta", "delta": "Hm"}),
        json!({"type": "response.output_item.added", "output_index": 1, "item": {"id": "msg_1", "type": "message", "content": []}}),
        json!({"type": "response.output_text.delta", "output_index": 1, "delta": "Hel"}),
        json!({"type": "response.output_text.delta", "output_index": 1, "delta": "lo"}),
        json!({"type": "response.output_item.added", "output_index": 2,
            "item": {"id": "fc_1", "type": "function_call", "call_id": "c1", "name": "look", "arguments": ""}}),
        json!({"type": "response.output_item.added", "output_index": 3,
            "item": {"id": "ct_1", "type": "custom_tool_call", "call_id": "c2", "name": "patch", "input": ""}}),
        json!({"type": "response.function_call_arguments.delta", "output_index": 2, "delta": "{\"x\""}),
        json!({"type": "response.custom_tool_call_input.delta", "output_index": 3, "delta": "***"}),
        json!({"type": "response.function_call_arguments.delta", "output_index": 2, "delta": ":1}"}),
        json!({"type": "response.hologram.delta", "delta": {"z": 1}}),
        json!({"type": "response.completed", "response": {"id": "resp_1", "status": "completed", "error": null, "usage": usage(),
            "output": [{"id": "msg_1", "type": "message", "content": [{"type": "output_text", "text": "Hello"}]}]}}),
    ]);
    assert_eq!((reply.id.as_deref(), reply.model.as_deref()), (Some("resp_1"), Some("m")));
    let choice = &reply.choices[0];
    assert_eq!((choice.text.as_str(), choice.finish_reason.as_deref()), ("Hello", Some("completed")));
    let calls: Vec<_> =
        choice.tool_calls.iter().map(|c| (c.id.as_str(), c.name.as_str(), c.arguments.as_str())).collect();
    assert_eq!(calls, [("c1", "look", r#"{"x":1}"#), ("c2", "patch", "***")]);
    assert_eq!(reply.items, ["rs_1", "msg_1", "fc_1", "ct_1"]);
    let counted =
        Usage { prompt_tokens: 20, completion_tokens: 9, cached_tokens: 5, cache_write_tokens: 0, reasoning_tokens: 4 };
    assert_eq!(reply.usage, Some(counted));
    let last: Vec<bool> = seen.iter().map(|seen| seen.end).collect();
    assert_eq!(last.iter().filter(|last| **last).count(), 1);
    assert!(last[12] && seen.iter().all(|seen| !seen.error));
}

#[test]
fn words_that_only_the_last_event_has_are_read_there() {
    let output = json!([
        {"id": "msg_1", "type": "message", "content": [{"type": "output_text", "text": "Hi"}, {"type": "refusal", "refusal": "no"}]},
        {"id": "fc_1", "type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"}
    ]);
    let response = json!({"id": "resp_1", "status": "completed", "output": output, "usage": usage()});
    let (reply, _) = read(&[json!({"type": "response.completed", "response": response.clone()})]);
    let mut whole = books();
    whole.body(response.to_string().as_bytes());
    assert!(whole.finished() && whole.is_chat());
    for choice in [&reply.choices[0], &whole.reply().choices[0]] {
        assert_eq!((choice.text.as_str(), choice.refusal.as_str()), ("Hi", "no"));
        assert_eq!(choice.tool_calls[0].name, "look");
    }
}

#[test]
fn failures_are_errors_and_an_answer_cut_short_by_its_limit_is_none() {
    let failed = json!({"type": "response.failed", "response": {"status": "failed", "error": {"code": "server_error", "message": "x"}}});
    let incomplete = json!({"type": "response.incomplete", "response": {"status": "incomplete", "error": null,
        "incomplete_details": {"reason": "max_output_tokens"}}});
    let error = json!({"type": "error", "code": "x", "message": "y", "param": null, "sequence_number": 1});
    let told = |event: &Value| {
        let (_, seen) = read(std::slice::from_ref(event));
        (seen[0].end, seen[0].error)
    };
    assert_eq!(told(&failed), (true, true));
    assert_eq!(told(&incomplete), (true, false));
    assert_eq!(told(&error), (false, true));
}

#[test]
fn what_is_made_in_the_background_has_not_finished() {
    let mut books = books();
    let seen =
        books.body(br#"{"id":"resp_1","object":"response","status":"queued","output":[],"error":null,"usage":null}"#);
    assert!(!books.finished() && !seen.error && books.reply().id.as_deref() == Some("resp_1"));
}

#[test]
fn broken_events_are_counted_and_skipped() {
    let mut books = books();
    for bad in ["{\"type\":", "no json", "[1]"] {
        assert!(books.chunk(bad).malformed, "{bad}");
    }
    books.chunk(&json!({"type": "response.output_text.delta", "delta": "a"}).to_string());
    assert_eq!((books.reply().choices[0].text.as_str(), books.malformed()), ("a", 3));
}

#[test]
fn the_light_one_follows_without_text() {
    let mut books = Accumulator::light().in_dialect(Dialect::Responses);
    books.chunk(r#"{"type":"response.created","response":{"id":"resp_1"}}"#);
    books.chunk(r#"{"type":"response.output_text.delta","delta":"secret"}"#);
    let seen = books.chunk(
        &json!({"type": "response.completed", "response": {"status": "completed", "usage": usage(),
        "output": [{"id": "msg_1", "type": "message", "content": [{"text": "secret"}]}]}})
        .to_string(),
    );
    assert!(seen.end && books.finished());
    let reply = books.into_reply();
    assert_eq!((reply.choices[0].text.as_str(), reply.events, reply.usage.map(Usage::total)), ("", 1, Some(29)));
    assert_eq!((reply.id.as_deref(), reply.items.as_slice()), (Some("resp_1"), ["msg_1".to_owned()].as_slice()));
}
