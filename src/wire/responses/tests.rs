//! The view by what real clients send.

use bytes::Bytes;
use serde_json::{Value, json};

use super::*;

fn decode(text: &str) -> Result<ChatRequest, DecodeError> {
    ChatRequest::decode_as(Dialect::Responses, Bytes::copy_from_slice(text.as_bytes()))
}

fn of(body: &Value) -> ChatRequest {
    decode(&body.to_string()).unwrap()
}

fn roles(request: &ChatRequest) -> Vec<Role> {
    request.messages().iter().map(|message| message.role).collect()
}

#[test]
fn instructions_come_first_and_a_text_is_one_message_of_the_user() {
    let request =
        decode(r#"{"input":"caf\u00e9","model":"m","instructions":"be kind","max_output_tokens":9}"#).unwrap();
    assert_eq!(roles(&request), [Role::System, Role::User]);
    let texts: Vec<_> = request.messages().iter().map(|message| request.message_text(message)).collect();
    assert_eq!(texts, ["be kind", "café"]);
    assert_eq!((request.newest_user(), request.max_output()), (Some(1), Some(9)));
}

#[test]
fn items_are_messages_of_whoever_made_them() {
    let request = of(&json!({"model": "m", "input": [
        {"role": "developer", "content": "short answers"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"},
            {"type": "input_image", "image_url": "data:,", "detail": "low"}]},
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"},
        {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": "hello", "annotations": []}]},
        {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
        {"type": "custom_tool_call", "call_id": "c2", "name": "patch", "input": "*"},
        {"type": "function_call_output", "call_id": "c1", "output": "42"},
        {"type": "custom_tool_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "ok"}]},
        {"type": "web_search_call", "id": "ws_1", "status": "completed"},
        {"type": "computer_call", "call_id": "c3", "action": {"type": "click"}},
        {"type": "computer_call_output", "call_id": "c3", "output": {"type": "computer_screenshot"}},
        {"type": "mcp_approval_request", "id": "mr_1", "name": "drop", "arguments": "{}"},
        {"type": "mcp_approval_response", "approval_request_id": "mr_1", "approve": true},
        {"type": "item_reference", "id": "msg_2"},
        {"type": "hologram", "x": 1.10},
        {"type": "compaction", "encrypted_content": "gAAA"},
    ]}));
    use Role::{Assistant, Developer, Other, Tool, User};
    assert_eq!(
        roles(&request),
        [
            Developer, User, Assistant, Assistant, Assistant, Assistant, Tool, Tool, Assistant, Assistant, Tool,
            Assistant, Tool, Other, Other, Developer
        ]
    );
    let text = |at: usize| request.message_text(&request.messages()[at]).into_owned();
    assert_eq!([text(1), text(3), text(6), text(7)], ["hi", "hello", "42", "ok"]);
    let calls: Vec<Option<&str>> = request
        .messages()
        .iter()
        .flat_map(|message| message.calls(request.text()))
        .map(|call| call.id.map(|id| id.of(request.text())))
        .collect();
    assert_eq!(calls, [Some(r#""c1""#), Some(r#""c2""#), Some(r#""c3""#), Some(r#""mr_1""#)]);
    assert!(!request.messages()[8].calls_tools(), "upstream made it itself");
}

#[test]
fn what_upstream_keeps_is_told() {
    let partial = |more: Value| {
        let mut body = json!({"model": "m", "input": "hi"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let request = of(&body);
        (request.partial(), request.kept_upstream().is_some())
    };
    assert_eq!(partial(json!({})), (None, false));
    assert_eq!(partial(json!({"previous_response_id": null, "conversation": null, "prompt": null})), (None, false));
    assert_eq!(partial(json!({"previous_response_id": "resp_1"})), (Some("previous_response_id"), true));
    assert_eq!(partial(json!({"conversation": {"id": "conv_1"}})), (Some("conversation"), true));
    assert_eq!(partial(json!({"conversation": "conv_1"})), (Some("conversation"), true));
    assert_eq!(partial(json!({"prompt": {"id": "pmpt_1"}})), (Some("prompt"), false));
    let bare = of(&json!({"model": "m", "input": [{"id": "msg_1"}, {"type": "hologram", "id": "h"}]}));
    assert_eq!(bare.partial(), Some("item_reference"));
    assert_eq!(bare.references().collect::<Vec<_>>(), ["msg_1"]);
}

#[test]
fn input_may_be_absent_where_upstream_has_something_to_go_on() {
    for body in [r#"{"model":"m","prompt":{"id":"p"}}"#, r#"{"model":"m","input":null,"instructions":null}"#] {
        assert!(decode(body).unwrap().messages().is_empty(), "{body}");
    }
}

#[test]
fn faults_name_the_place() {
    let text = |body: &str| decode(body).unwrap_err().to_string();
    assert_eq!(text(r#"{"input":"hi"}"#), "`model` is required");
    assert_eq!(text(r#"{"model":"m","input":7}"#), "`input` must be a string or an array of items");
    assert_eq!(text(r#"{"model":"m","input":["hi"]}"#), "`input[0]` must be an object");
}
