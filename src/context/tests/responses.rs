//! The same promises for OpenAI's responses, as far as they are written another way there.

use super::*;
use crate::wire::Dialect;

fn request(body: &Value) -> ChatRequest {
    ChatRequest::decode_as(Dialect::Responses, Bytes::from(body.to_string())).unwrap()
}

fn fitted(body: &Value, notes: &Notes, policy: &Policy) -> Result<Fitted, FitError> {
    run_request(&request(body), notes, &Target::default(), policy)
}

fn placed(body: &Value) -> Value {
    body_of(&fitted(body, &notes(), &Policy::default()).unwrap())
}

fn message(role: &str, text: &str) -> Value {
    let kind = if role == "assistant" { "output_text" } else { "input_text" };
    json!({"type": "message", "role": role, "content": [{"type": kind, "text": text}]})
}

/// A conversation of an agent: it thinks, asks for two tools at once, and answers.
fn agent(n_turns: usize) -> Vec<Value> {
    let mut items = vec![message("developer", "Be kind.")];
    for turn in 0..n_turns {
        items.push(message("user", &format!("Question {turn}: {}", "tell me more ".repeat(8))));
        items.push(
            json!({"type": "reasoning", "id": format!("rs_{turn}"), "summary": [], "encrypted_content": "gAAA=="}),
        );
        for call in 0..2 {
            let (id, name) = (format!("c{turn}_{call}"), "look");
            items.push(json!({"type": "function_call", "call_id": id, "name": name, "arguments": "{\"turn\": 1.0}"}));
        }
        for call in 0..2 {
            let output = "and so on ".repeat(8);
            items.push(json!({"type": "function_call_output", "call_id": format!("c{turn}_{call}"), "output": output}));
        }
        items.push(message("assistant", &"this is so ".repeat(8)));
    }
    items.push(message("user", "And now?"));
    items
}

#[test]
fn the_profile_goes_where_the_client_instructs_or_into_instructions_of_its_own() {
    let own = placed(&json!({"model": "m", "instructions": "Be kind.", "input": "What can I eat?"}));
    let instructions = own["instructions"].as_str().unwrap();
    assert!(instructions.starts_with("Be kind.\n\n<backstory-notes>") && instructions.contains("peanuts"));
    let input = own["input"].as_str().unwrap();
    assert!(input.ends_with("\n\nWhat can I eat?") && input.contains("Rome"), "{input}");

    let item = placed(&json!({"model": "m", "input": [message("developer", "Be kind."), message("user", "Hi")]}));
    assert!(item.get("instructions").is_none());
    assert_eq!(item["input"][0]["content"][1]["type"], "input_text");
    assert_eq!(item["input"][1]["content"].as_array().unwrap().len(), 2);

    let added = placed(&json!({"input": "hi", "model": "m"}));
    assert!(added["instructions"].as_str().unwrap().contains("peanuts"));
    // A prompt that upstream keeps may have some; `null` is the client's word.
    for body in [
        json!({"input": "hi", "model": "m", "prompt": {"id": "p"}}),
        json!({"input": "hi", "model": "m", "instructions": null}),
    ] {
        let sent = placed(&body);
        assert_eq!(sent.get("instructions"), body.get("instructions"));
        assert!(sent["input"].as_str().unwrap().contains("peanuts"), "{sent}");
    }
}

/// Guards against BerriAI/litellm#4931, #6505 and #8261 in this dialect.
#[test]
fn whatever_the_budget_no_output_is_parted_from_its_call_nor_reasoning_from_what_follows() {
    for (n_turns, limit) in (2..9).flat_map(|n| [200, 300, 500, 900].map(|limit| (n, limit))) {
        let items = agent(n_turns);
        let Ok(fitted) = fitted(&json!({"input": items, "model": "m"}), &Notes::default(), &budget(limit)) else {
            continue;
        };
        let sent = body_of(&fitted);
        let out = sent["input"].as_array().unwrap();
        assert_eq!((out[0]["role"].as_str(), out.last()), (Some("developer"), items.last()));
        let of = |kind: &str| out.iter().filter(|i| i["type"] == kind).map(|i| &i["call_id"]).collect::<Vec<_>>();
        assert_eq!(of("function_call"), of("function_call_output"), "{n_turns} turns in {limit}: {out:#?}");
        assert_eq!(2 * of("reasoning").len(), of("function_call").len());
        assert!(out[1..].iter().all(|item| items.contains(item)), "what stays keeps its bytes");
    }
}

/// Without any message of the user a unit begins with the model's first piece, never within what it did at once.
#[test]
fn calls_made_at_once_stay_together() {
    let items: Vec<Value> = agent(6).into_iter().filter(|item| item["role"] != "user").collect();
    for limit in [150, 250, 400] {
        let Ok(fitted) = fitted(&json!({"input": items, "model": "m"}), &Notes::default(), &budget(limit)) else {
            continue;
        };
        let sent = body_of(&fitted);
        let out = sent["input"].as_array().unwrap();
        let count = |kind: &str| out.iter().filter(|item| item["type"] == kind).count();
        assert_eq!(
            (count("function_call"), count("reasoning") * 2),
            (count("function_call_output"), count("function_call"))
        );
    }
}

#[test]
fn nothing_is_cut_where_upstream_keeps_what_stands_before() {
    let mut body = json!({"input": agent(6), "model": "m"});
    assert!(fitted(&body, &Notes::default(), &budget(500)).unwrap().report.cut > 0);
    body["previous_response_id"] = "resp_1".into();
    let FitError::ContextLength { largest, .. } = fitted(&body, &Notes::default(), &budget(500)).unwrap_err();
    assert!(largest.iter().all(|(name, _)| name.starts_with("input[")), "{largest:?}");
    let whole = fitted(&body, &Notes::default(), &budget(5000)).unwrap();
    assert_eq!((whole.report.partial, whole.report.cut), (Some("previous_response_id"), 0));
}

#[test]
fn schemas_images_and_formats_are_counted() {
    let tokens = |more: Value| {
        let mut body = json!({"input": "hi", "model": "gpt-4o"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        fitted(&body, &Notes::default(), &Policy::default()).unwrap().report.counted.unwrap()
    };
    let plain = tokens(json!({}));
    let tool = json!({"type": "function", "name": "look", "parameters": {"type": "object", "properties": {"x": {"type": "string"}}}});
    assert!(tokens(json!({ "tools": [tool] })) > plain + 12);
    let schema = json!({"type": "json_schema", "name": "n", "schema": {"type": "object", "properties": {}}});
    assert!(tokens(json!({"text": {"format": schema}})) > plain + 5);
    assert_eq!(tokens(json!({"text": {"format": {"type": "text"}, "verbosity": "low"}})), plain);
    let image = |detail: &str| {
        let part = json!({"type": "input_image", "image_url": "https://x.test/a.png", "detail": detail});
        tokens(json!({"input": [{"role": "user", "content": [{"type": "input_text", "text": "hi"}, part]}]}))
    };
    assert_eq!(image("low") - plain, 85);
    let shot =
        json!({"type": "computer_screenshot", "image_url": format!("data:image/png;base64,{}", "QUJD".repeat(50_000))});
    let shot = tokens(json!({"input": [{"type": "computer_call_output", "call_id": "c", "output": shot}]}));
    assert!(shot < 5_000, "a picture is no text: {shot}");
}

#[test]
fn a_block_in_a_tool_loop_stays_at_its_place() {
    let body = |items: &[Value]| json!({"input": items, "model": "m", "instructions": "Be kind."});
    let mut items = vec![message("user", "Weather in Rome?")];
    let first = fitted(&body(&items), &notes(), &Policy::default()).unwrap();
    items.extend(agent(1)[2..7].iter().cloned());
    let pinned = Pinned { profile: first.profile.clone(), recollection: first.recollection.clone() };
    let notes = Notes { pinned: Some(pinned), ..Notes::default() };
    let second = body_of(&fitted(&body(&items), &notes, &Policy::default()).unwrap());
    let first = body_of(&first);
    assert_eq!((&first["instructions"], &first["input"][0]), (&second["instructions"], &second["input"][0]));
    assert_eq!(second["input"].as_array().unwrap()[1..], items[1..]);
}

/// Each request brings its instructions; the recollection stands with the user's message, which upstream keeps.
#[test]
fn without_a_message_of_the_user_the_profile_alone_stands_again() {
    let output = json!({"type": "function_call_output", "call_id": "c", "output": "42"});
    let body = json!({"input": [output], "model": "m", "previous_response_id": "resp_1"});
    let pinned = Pinned { profile: "<backstory-notes>\n- x\n</backstory-notes>".into(), recollection: "".into() };
    let notes = Notes { pinned: Some(pinned), ..Notes::default() };
    let sent = body_of(&fitted(&body, &notes, &Policy::default()).unwrap());
    assert_eq!(sent["instructions"], "<backstory-notes>\n- x\n</backstory-notes>");
    assert_eq!(sent["input"], body["input"]);
}
