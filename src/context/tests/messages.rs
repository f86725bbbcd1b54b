//! The same promises for Anthropic's messages, as far as they are written another way there.

use super::*;
use crate::wire::{Dialect, Role};

fn fitted(body: &str, notes: &Notes, policy: &Policy) -> Fitted {
    let request = ChatRequest::decode_as(Dialect::Messages, Bytes::copy_from_slice(body.as_bytes())).unwrap();
    run_request(&request, notes, &Target::default(), policy).unwrap()
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn placed(body: &Value) -> Value {
    body_of(&fitted(&body.to_string(), &notes(), &Policy::default()))
}

#[test]
fn the_profile_goes_behind_what_the_client_has_in_system() {
    let user = json!([{"role": "user", "content": "What can I eat?"}]);
    let string = placed(&json!({"model": "m", "system": "Be kind.", "messages": user}));
    let system = string["system"].as_str().unwrap();
    assert!(system.starts_with("Be kind.\n\n<backstory-notes>") && system.contains("peanuts"), "{system}");
    let cached = json!({"type": "text", "text": "Be kind.", "cache_control": {"type": "ephemeral"}});
    let blocks = placed(&json!({"model": "m", "system": [cached], "messages": user}));
    assert_eq!(blocks["system"][0], cached);
    assert_eq!(blocks["system"].as_array().unwrap().len(), 2);
    assert!(blocks["system"][1]["text"].as_str().unwrap().contains("peanuts"));
    assert!(blocks["messages"][0]["content"].as_str().unwrap().ends_with("\n\nWhat can I eat?"));
}

#[test]
fn without_system_one_is_added_behind_all_members() {
    let body = r#"{"model":"m", "messages":[{"role":"user","content":"hi"}], "max_tokens":10 }"#;
    let sent = fitted(body, &notes(), &Policy::default());
    let sent = String::from_utf8(sent.body.to_vec()).unwrap();
    assert!(sent.contains(r#""max_tokens":10,"system":"<backstory-notes>"#) && sent.ends_with("\" }"), "{sent}");
    // `null` is the client's word: it is not said twice.
    let null = placed(&json!({"model": "m", "system": null, "messages": [{"role": "user", "content": "hi"}]}));
    assert_eq!(null["system"], Value::Null);
    assert!(null["messages"][0]["content"].as_str().unwrap().contains("peanuts"));
}

/// Guards against BerriAI/litellm PR#37628 and headroomlabs-ai/headroom#2438 in this dialect.
#[test]
fn blocks_of_the_client_stay_byte_for_byte() {
    let assistant = r#"{"role":"assistant","content":[{"type":"thinking","thinking":"h\u006dm","signature":"c2\/ln=="},{"type":"redacted_thinking","data":"x+/="},{"type":"tool_use","id":"t1","name":"f","input":{ "n": 1.10, "m":1e3 }},{"type":"next_year","x":null}]}"#;
    let results = r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aGk="}}],"cache_control":{"type":"ephemeral"}}]}"#;
    let body = format!(
        r#"{{"max_tokens":9,"messages":[{{"role":"user","content":"go"}},{assistant},{results}],"model":"m","system":[{{"type":"text","text":"s","cache_control":{{"type":"ephemeral"}}}}],"metadata":{{"user_id":"u"}}}}"#
    );
    let sent = String::from_utf8(fitted(&body, &notes(), &Policy::default()).body.to_vec()).unwrap();
    assert!(sent.contains(assistant) && sent.contains(results), "{sent}");
    assert!(
        sent.contains(r#""cache_control":{"type":"ephemeral"}},{"type":"text","text":"<backstory-notes>"#),
        "{sent}"
    );
}

#[test]
fn the_recollection_stands_behind_results_of_tools() {
    let result = json!({"type": "tool_result", "tool_use_id": "t1", "content": "42"});
    let sent = placed(&json!({"model": "m", "messages": [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "f", "input": {}}]},
        {"role": "user", "content": [result, text("And what can I eat?")]}]}));
    let blocks = sent["messages"][2]["content"].as_array().unwrap();
    assert_eq!((blocks.len(), &blocks[0], &blocks[2]), (3, &result, &text("And what can I eat?")));
    assert!(blocks[1]["text"].as_str().unwrap().contains("Rome"));
}

#[test]
fn a_block_in_a_tool_loop_stays_at_its_place() {
    let mut messages = vec![json!({"role": "user", "content": [text("Weather in Rome?")]})];
    let body = |messages: &[Value]| json!({"messages": messages, "model": "m", "system": "Be kind."}).to_string();
    let first = fitted(&body(&messages), &notes(), &Policy::default());
    messages.push(json!({"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {}}]}));
    messages.push(json!({"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": "t", "content": "sunny"}, text("<system-reminder>x</system-reminder>")]}));
    let pinned = Pinned { profile: first.profile.clone(), recollection: first.recollection.clone() };
    let second = fitted(&body(&messages), &Notes { pinned: Some(pinned), ..Notes::default() }, &Policy::default());
    let (first, second) = (body_of(&first), body_of(&second));
    assert_eq!(first["messages"][0], second["messages"][0]);
    assert_eq!(first["system"], second["system"]);
    assert_eq!(second["messages"][2], messages[2]);
}

/// A conversation of an agent: each turn asks for a tool, and every third one goes on in the message that has the result.
fn agent(n_turns: usize) -> Vec<Value> {
    let mut messages = Vec::new();
    let mut behind: Option<Value> = None;
    for turn in 0..n_turns {
        let words = format!("Question {turn}: {}", "tell me more ".repeat(8));
        match behind.take() {
            Some(result) => messages.push(json!({"role": "user", "content": [result, text(&words)]})),
            None => messages.push(json!({"role": "user", "content": words})),
        }
        let id = format!("t{turn}");
        messages.push(json!({"role": "assistant", "content": [
            {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
            {"type": "tool_use", "id": id, "name": "look", "input": {"turn": turn}}]}));
        let result = json!({"type": "tool_result", "tool_use_id": id, "content": "and so on ".repeat(8)});
        if turn % 3 == 2 {
            behind = Some(result);
        } else {
            messages.push(json!({"role": "user", "content": [result]}));
            messages.push(json!({"role": "assistant", "content": [text(&"this is so ".repeat(8))]}));
        }
    }
    messages.push(json!({"role": "user", "content": [behind.unwrap_or_else(|| text("Well.")), text("And now?")]}));
    messages
}

/// Guards against BerriAI/litellm#4931, #6505 and #8261 in this dialect.
#[test]
fn whatever_the_budget_no_result_is_parted_from_its_call() {
    for (n_turns, limit) in (3..12).flat_map(|n| [150, 260, 400, 700].map(|limit| (n, limit))) {
        let messages = agent(n_turns);
        let body = json!({"max_tokens": 5, "messages": messages, "model": "m", "system": "Be kind."}).to_string();
        let sent = body_of(&fitted(&body, &Notes::default(), &budget(limit)));
        let out = sent["messages"].as_array().unwrap();
        assert_eq!(out[0]["role"], "user", "{n_turns} turns in {limit}: {out:#?}");
        assert_eq!(out.last(), messages.last(), "the newest words stay");
        let mut open: Vec<&Value> = Vec::new();
        for message in out {
            let blocks = message["content"].as_array().map(Vec::as_slice).unwrap_or_default();
            let of = |kind: &str, key: &str| {
                blocks.iter().filter(|b| b["type"] == kind).map(|b| &b[key]).collect::<Vec<_>>()
            };
            assert_eq!(of("tool_result", "tool_use_id"), open, "{n_turns} turns in {limit}: {out:#?}");
            open = of("tool_use", "id");
            let is_clients = messages.iter().any(|own| own["content"] == message["content"]);
            let is_half = messages.iter().any(|own| {
                let own = own["content"].as_array().map(Vec::as_slice).unwrap_or_default();
                !blocks.is_empty() && own.ends_with(blocks)
            });
            // The digest is in `system`, so that messages are the client's own.
            assert!(is_clients || is_half, "{message}");
        }
    }
}

#[test]
fn a_message_is_cut_in_two_where_a_turn_begins_within_it() {
    let messages = agent(12);
    let body = json!({"messages": messages, "model": "m"}).to_string();
    let first = (100..900).step_by(20).find_map(|limit| {
        let sent = body_of(&fitted(&body, &Notes::default(), &budget(limit)));
        let blocks = sent["messages"][0]["content"].as_array()?;
        (blocks.len() == 1 && blocks[0]["text"].as_str()?.starts_with("Question")).then(|| blocks[0].clone())
    });
    assert!(first.is_some(), "at some budget the first turn that is kept began behind a result");
}

#[test]
fn what_is_counted_is_what_is_sent_and_trails_are_told_in_the_order_of_the_prompt() {
    let body = json!({"max_tokens": 5, "messages": agent(4), "model": "m", "system": "Be kind."}).to_string();
    let request = ChatRequest::decode_as(Dialect::Messages, Bytes::from(body.clone())).unwrap();
    assert_eq!(request.messages()[0].role, Role::System);
    let report = fitted(&body, &Notes::default(), &Policy::default()).report;
    assert_eq!(report.counted, report.sent);
    assert_eq!(report.messages.len(), request.messages().len());
}
