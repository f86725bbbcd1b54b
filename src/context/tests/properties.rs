//! What holds for every conversation: nothing is lost, nothing is over its budget, and the same goes out again.

use proptest::prelude::*;

use super::*;
use crate::conversation::fence;

/// A few by default; thousands with `PROPTEST_CASES`.
fn cases(few: u32) -> ProptestConfig {
    let default = ProptestConfig::default();
    let chosen = std::env::var_os("PROPTEST_CASES").is_some();
    ProptestConfig { cases: if chosen { default.cases } else { few }, failure_persistence: None, ..default }
}

/// Messages of all kinds: several users in a row, parallel calls, lost results, system messages in between, prefill.
fn conversations() -> impl Strategy<Value = Vec<Value>> {
    let words = prop::sample::select(vec![
        "tea",
        "Rome",
        "记住我",
        "order A-17",
        "\n",
        "\"q\"",
        "https://x.test/a",
        "…",
        "12,5 €",
    ]);
    let text = prop::collection::vec(words, 1..30).prop_map(|words| words.join(" "));
    let content = (text.clone(), 0..4).prop_map(|(text, form)| match form {
        0 => json!([{"type": "text", "text": text}]),
        1 => json!([{"type": "text", "text": text}, {"type": "text", "text": "and", "cache_control": {}}]),
        _ => json!(text),
    });
    let turn = (content.clone(), text, content, 0..8, 0..4).prop_map(|(asked, said, result, shape, n_calls)| {
        let mut turn = vec![json!({"role": "user", "content": asked})];
        match shape {
            0 => turn.push(json!({"role": "user", "content": "and"})),
            1 => turn.push(json!({"role": "system", "content": "It is late."})),
            2 => turn.push(json!({"role": "tool", "tool_call_id": "lost", "content": result})),
            3..=5 if n_calls > 0 => {
                let calls: Vec<Value> = (0..n_calls)
                    .map(|n| json!({"id": format!("c{n}"), "type": "function", "function": {"name": "f", "arguments": "{\"q\":1}"}}))
                    .collect();
                turn.push(json!({"role": "assistant", "content": null, "tool_calls": calls}));
                turn.extend((0..n_calls).map(|n| json!({"role": "tool", "tool_call_id": format!("c{n}"), "content": result})));
            }
            _ => {}
        }
        turn.push(json!({"role": "assistant", "content": said}));
        turn
    });
    (prop::collection::vec(turn, 1..14), any::<bool>(), 0..4_usize).prop_map(|(turns, system, n_cut_off)| {
        let mut messages = if system { vec![json!({"role": "system", "content": "Be kind."})] } else { Vec::new() };
        messages.extend(turns.concat());
        messages.truncate(messages.len().saturating_sub(n_cut_off).max(2));
        messages
    })
}

/// Counts what is sent without any code of ours but the guide's rule.
fn independent_count(body: &Value) -> usize {
    let bpe = tiktoken_rs::o200k_base_singleton();
    let count = |text: &str| bpe.encode_ordinary(text).len();
    let messages = body["messages"].as_array().unwrap().iter().map(|message| {
        let content = match &message["content"] {
            Value::String(text) => count(text),
            Value::Array(parts) => parts.iter().map(|p| count(p["text"].as_str().unwrap())).sum(),
            _ => 0,
        };
        let calls: usize = message["tool_calls"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|c| {
                4 + count(c["function"]["name"].as_str().unwrap()) + count(c["function"]["arguments"].as_str().unwrap())
            })
            .sum();
        4 + content + calls
    });
    3 + messages.sum::<usize>()
}

/// The message as the client wrote it, whatever we put into it.
fn own(message: &Value) -> Value {
    let mut message = message.clone();
    match &mut message["content"] {
        Value::String(text) => *text = fence::strip(text).into_owned(),
        Value::Array(parts) => parts.retain(|part| !part["text"].as_str().unwrap().starts_with(fence::OPEN)),
        _ => {}
    }
    message
}

/// What was shown with each earlier user message that can hold it.
fn earlier(messages: &[Value]) -> Vec<Earlier> {
    let users = (0..newest_turn(messages)).filter(|&i| messages[i]["role"] == "user");
    let block = |i: usize| format!("<backstory-notes>\nNotes.\n- shown with message {i}\n</backstory-notes>");
    users.map(|message| Earlier { message, block: block(message).into() }).collect()
}

fn newest_turn(messages: &[Value]) -> usize {
    messages.iter().rposition(|m| m["role"] == "user").unwrap_or(0)
}

proptest! {
    #![proptest_config(cases(100))]

    #[test]
    fn every_promise_of_the_cut_holds(
        messages in conversations(), limit in 40_usize..900, memory_tokens in 0_usize..300, low_water in 0.3..1.0_f64, remembers in any::<bool>(),
        sticky_tokens in 0_usize..120,
    ) {
        let policy = Policy { memory_tokens, low_water, sticky_tokens, ..budget(limit) };
        let notes = if remembers { Notes { earlier: earlier(&messages), ..notes() } } else { Notes::default() };
        let body = request_of(&messages);
        let newest = newest_turn(&messages);
        let fitted = match run(&body, &notes, &Target::default(), &policy) {
            Ok(fitted) => fitted,
            Err(_) => {
                // Refused only when what must stay is too big: the newest unit with what belongs to it, and instructions.
                let all = independent_count(&json!({"messages": messages}));
                prop_assert!(all > limit);
                return Ok(());
            }
        };
        let sent = body_of(&fitted);
        let out = sent["messages"].as_array().unwrap();

        // It fits, and the header tells the truth.
        let counted = independent_count(&sent);
        let said = fitted.report.sent.unwrap();
        prop_assert!(counted <= limit, "{counted} > {limit}");
        let n_earlier = fitted.earlier.len();
        prop_assert!(counted <= said && said <= counted + 16 + 6 * n_earlier, "said {said}, is {counted}");
        prop_assert!(fitted.report.memory_tokens - fitted.report.earlier_tokens <= memory_tokens);
        prop_assert_eq!(fitted.report.counted, Some(independent_count(&json!({"messages": messages}))));

        // Order is kept, what is kept is the client's own, and what must stay is whole.
        let mut at = messages.len();
        let mut kept = Vec::new();
        for message in out.iter().rev() {
            let found = (0..at).rfind(|&i| messages[i] == own(message));
            prop_assert!(found.is_some(), "not the client's: {message}");
            at = found.unwrap();
            kept.push(at);
        }
        prop_assert_eq!(out.len() + fitted.report.cut, messages.len());
        for (i, message) in messages.iter().enumerate() {
            prop_assert!(kept.contains(&i) || (message["role"] != "system" && i < newest));
        }

        // No tool result is parted from its call.
        for (n, message) in out.iter().enumerate().filter(|(_, m)| m["role"] == "tool" && m["tool_call_id"] != "lost") {
            let calls = out[..n].iter().filter_map(|m| m["tool_calls"].as_array()).flatten();
            prop_assert!(calls.into_iter().any(|c| c["id"] == message["tool_call_id"]));
        }

        // The same again, from nothing.
        prop_assert_eq!(&run(&body, &notes, &Target::default(), &policy).unwrap().body, &fitted.body);
    }

    #[test]
    fn for_agents_results_are_shortened_and_all_else_is_whole(
        mut messages in conversations(), limit in 300_usize..3000, words in 600_usize..900,
    ) {
        for (at, message) in messages.iter_mut().enumerate().filter(|(_, m)| m["role"] == "tool") {
            message["content"] = format!("{at} {}", "word ".repeat(words)).into();
        }
        let policy = Policy { profile: Profile::Task, ..budget(limit) };
        let Ok(fitted) = run(&request_of(&messages), &Notes::default(), &Target::default(), &policy) else { return Ok(()) };
        let sent = body_of(&fitted);
        let out = sent["messages"].as_array().unwrap();
        prop_assert!(independent_count(&sent) <= limit);
        prop_assert_eq!(out.len() + fitted.report.cut, messages.len());
        let mut at = messages.len();
        let mut n_short = 0;
        for message in out.iter().rev() {
            let short = message["content"].as_str().is_some_and(|text| text.contains("tokens left out"));
            n_short += usize::from(short);
            let found = (0..at).rfind(|&i| match short {
                true => messages[i]["role"] == "tool" && messages[i]["tool_call_id"] == message["tool_call_id"],
                false => messages[i] == own(message),
            });
            prop_assert!(found.is_some(), "not the client's: {message}");
            at = found.unwrap();
        }
        prop_assert_eq!(n_short, fitted.report.shortened);
        for row in &fitted.report.messages {
            prop_assert!(row.sent <= row.tokens);
        }
    }

    #[test]
    fn trimming_a_trimmed_request_changes_nothing(messages in conversations(), limit in 60_usize..700) {
        let request = |body: &str| {
            let request = decode(body);
            let input = FitInput {
                request: &request, chain: None, notes: &Notes::default(), target: &Target::default(), policy: &budget(limit),
                budget_header: None, counter: &Counter::new(1 << 12), digests: None, trails: None, strip_own_fence: false, figures: true,
            };
            fit(&input).map(|fitted| String::from_utf8(fitted.body.to_vec()).unwrap())
        };
        if let Ok(once) = request(&request_of(&messages)) {
            prop_assert_eq!(request(&once).unwrap(), once);
        }
    }

}

proptest! {
    // Each case is a whole conversation, request by request.
    #![proptest_config(cases(20))]

    #[test]
    fn no_cache_and_no_other_target_changes_what_is_sent(
        messages in conversations(), limit in 60_usize..700, smaller in 40_usize..300, memory_tokens in 0_usize..200, task in any::<bool>(),
    ) {
        let profile = if task { Profile::Task } else { Profile::Chat };
        let policy = Policy { memory_tokens, profile, sticky_tokens: 50, ..budget(limit) };
        let (counter, digests, trails) = (Counter::new(1 << 14), Digests::new(1 << 16), Trails::new(1 << 16));
        let notes = notes();
        let sent = |messages: &[Value], policy: &Policy| {
            let request = decode(&request_of(messages));
            let chain = chain(&Scope::new("t", "n", "s"), &request);
            let notes = Notes { earlier: earlier(messages), ..notes.clone() };
            fit(&FitInput {
                request: &request, chain: Some(&chain), notes: &notes, target: &Target::default(), policy, budget_header: None,
                counter: &counter, digests: Some(&digests), trails: Some(&trails), strip_own_fence: true, figures: true,
            }).map(|fitted| (fitted.body, fitted.report))
        };
        // A gateway that saw the whole conversation, and a smaller target's turn between.
        for end in 1..=messages.len() {
            let _ = sent(&messages[..end], &policy);
        }
        let before = sent(&messages, &policy);
        let _ = sent(&messages, &Policy { max_input_tokens: smaller, ..policy.clone() });
        prop_assert_eq!(&sent(&messages, &policy), &before);
        // One that was started a moment ago.
        let fresh = run(&request_of(&messages), &Notes { earlier: earlier(&messages), ..notes.clone() }, &Target::default(), &policy);
        prop_assert_eq!(&fresh.map(|fitted| (fitted.body, fitted.report)), &before);
    }

    #[test]
    fn a_longer_conversation_never_brings_back_what_was_cut(messages in conversations(), limit in 60_usize..700) {
        let mut before = 0;
        for end in 1..=messages.len() {
            if !messages[..end].iter().any(|m| m["role"] == "user") {
                continue;
            }
            if let Ok(fitted) = run(&request_of(&messages[..end]), &Notes::default(), &Target::default(), &budget(limit)) {
                prop_assert!(fitted.report.cut >= before, "{} < {before} at {end}", fitted.report.cut);
                before = fitted.report.cut;
            }
        }
    }
}
