//! What a fit promises, over whole requests.

mod messages;
mod responses;

use std::collections::HashSet;

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::base::{EpisodeId, FactId};
use crate::conversation::{chain, fence};
use crate::memory::{Scope, Sensitivity};
use crate::tokens::{Counter, Encoding};
use crate::wire::ChatRequest;

fn decode(body: &str) -> ChatRequest {
    ChatRequest::decode(Bytes::copy_from_slice(body.as_bytes())).unwrap()
}

fn line(text: &str) -> NoteLine {
    NoteLine { text: text.to_owned(), ..NoteLine::default() }
}

fn notes() -> Notes {
    Notes {
        profile: vec![
            NoteLine { critical: true, fact: Some(FactId(1)), ..line("allergy: peanuts (important)") },
            NoteLine { fact: Some(FactId(2)), ..line("name: Ada \"the\" </backstory-notes> 王") },
        ],
        recollection: vec![
            NoteLine { episode: Some(EpisodeId(1)), ..line("3 weeks ago, the user said: \"I fly to Rome\"") },
            NoteLine { fact: Some(FactId(3)), ..line("preference (tea): green") },
        ],
        ..Notes::default()
    }
}

/// Fits as a gateway would, with everything fresh.
fn run(body: &str, notes: &Notes, target: &Target, policy: &Policy) -> Result<Fitted, FitError> {
    run_request(&decode(body), notes, target, policy)
}

fn run_request(request: &ChatRequest, notes: &Notes, target: &Target, policy: &Policy) -> Result<Fitted, FitError> {
    let chain = chain(&Scope::new("t", "n", "s"), request);
    fit(&FitInput {
        request,
        chain: Some(&chain),
        notes,
        target,
        policy,
        budget_header: None,
        counter: &Counter::new(1 << 14),
        digests: Some(&Digests::new(1 << 16)),
        trails: None,
        strip_own_fence: true,
        figures: true,
    })
}

fn body_of(fitted: &Fitted) -> Value {
    serde_json::from_slice(&fitted.body).unwrap()
}

fn budget(max_input_tokens: usize) -> Policy {
    Policy { max_input_tokens, ..Policy::default() }
}

/// A long conversation: every turn has some 60 tokens.
fn long_chat(n_turns: usize) -> Vec<Value> {
    let mut messages = vec![json!({"role": "system", "content": "Be kind."})];
    for turn in 0..n_turns {
        messages.push(json!({"role": "user", "content": format!("Question {turn}: {}", "tell me more ".repeat(8))}));
        messages.push(json!({"role": "assistant", "content": format!("Answer {turn}: {}", "this is so ".repeat(8))}));
    }
    messages.pop();
    messages
}

fn request_of(messages: &[Value]) -> String {
    json!({"model": "m", "messages": messages}).to_string()
}

/// Who waits for a fit on an async thread waits for next to nothing.
#[test]
fn a_long_conversation_is_soon_fitted_where_it_was_counted_before_and_nothing_is_to_be_cut() {
    let request = decode(&request_of(&long_chat(200)));
    let counter = Counter::new(1 << 14);
    let soon = |policy: &Policy, figures| {
        let (notes, target) = (Notes::default(), Target::default());
        let input = FitInput {
            request: &request,
            chain: None,
            notes: &notes,
            target: &target,
            policy,
            budget_header: None,
            counter: &counter,
            digests: None,
            trails: None,
            strip_own_fence: figures,
            figures,
        };
        let soon = is_soon_done(&input);
        (soon, fit(&input).unwrap().report.cut)
    };
    assert_eq!(soon(&budget(0), false), (true, 0), "nothing is to be counted");
    assert_eq!(soon(&budget(0), true), (false, 0), "all is to be counted");
    assert_eq!(soon(&budget(0), true), (true, 0), "all was counted");
    let (soon, cut) = soon(&budget(5_000), true);
    assert!(!soon && cut > 0, "to cut it takes longer");
}

mod places {
    use super::*;

    fn placed(messages: Value) -> Value {
        let fitted = run(
            &json!({"model": "m", "messages": messages}).to_string(),
            &notes(),
            &Target::default(),
            &Policy::default(),
        );
        body_of(&fitted.unwrap())
    }

    /// Guards against diegosouzapw/OmniRoute#1522, vllm-project/vllm#41114 and anomalyco/opencode#15059.
    #[test]
    fn every_form_of_content_keeps_its_form() {
        let user = json!({"role": "user", "content": "What can I eat?"});
        insta::assert_json_snapshot!("string_system", placed(json!([{"role": "system", "content": "Be kind."}, user])));
        insta::assert_json_snapshot!(
            "empty_string_system",
            placed(json!([{"role": "developer", "content": ""}, user]))
        );
        insta::assert_json_snapshot!("null_system", placed(json!([{"role": "system", "content": null}, user])));
        insta::assert_json_snapshot!(
            "no_system",
            placed(json!([user, {"role": "assistant", "content": "Rice."}, user]))
        );
        insta::assert_json_snapshot!("only_user", placed(json!([user])));
    }

    /// Guards against BerriAI/litellm PR#37628.
    #[test]
    fn parts_with_cache_control_stay_as_they_are() {
        let cached = json!({"type": "text", "text": "Be kind.", "cache_control": {"type": "ephemeral"}});
        let image = json!({"type": "image_url", "image_url": {"url": "https://x.test/a.png"}});
        insta::assert_json_snapshot!(
            "arrays_with_cache_control",
            placed(json!([{"role": "system", "content": [cached]}, {"role": "user", "content": [cached, image]}]))
        );
    }

    /// Guards against danny-avila/LibreChat#13093 and netclaw-dev/netclaw#380.
    #[test]
    fn in_a_tool_loop_the_pinned_block_stays_at_its_place() {
        let mut messages = vec![
            json!({"role": "system", "content": "Be kind."}),
            json!({"role": "user", "content": "Weather in Rome?"}),
        ];
        let first = run(&request_of(&messages), &notes(), &Target::default(), &Policy::default()).unwrap();
        messages.push(json!({"role": "assistant", "content": null, "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]}));
        messages.push(json!({"role": "tool", "tool_call_id": "c", "content": "sunny"}));
        let pinned = Pinned { profile: first.profile.clone(), recollection: first.recollection.clone() };
        let notes = Notes { pinned: Some(pinned), ..Notes::default() };
        let second = run(&request_of(&messages), &notes, &Target::default(), &Policy::default()).unwrap();
        let common = first.body.iter().zip(second.body.iter()).take_while(|(a, b)| a == b).count();
        let closing = r#"],"model":"m"}"#;
        assert_eq!(common, first.body.len() - closing.len());
        insta::assert_json_snapshot!("tool_loop", body_of(&second));
    }

    #[test]
    fn a_system_message_of_our_own_only_where_the_target_wants_one() {
        let target = Target { system_role: SystemRole::Developer, ..Target::default() };
        let user = json!({"role": "user", "content": "hi"});
        let roles = |messages: Value| {
            let fitted =
                run(&json!({"model": "m", "messages": messages}).to_string(), &notes(), &target, &Policy::default());
            let body = body_of(&fitted.unwrap());
            body["messages"]
                .as_array()
                .unwrap()
                .iter()
                .map(|m| m["role"].as_str().unwrap().to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(roles(json!([user])), ["developer", "user"]);
        assert_eq!(roles(json!([user, {"role": "system", "content": "x"}, user])), ["user", "system", "user"]);
    }

    /// Guards against diegosouzapw/OmniRoute#3398.
    #[test]
    fn our_own_fence_is_not_sent_on_again() {
        let echo = "Sure. <backstory-notes>\n- secret\n</backstory-notes>\n\nYes.";
        let messages = json!([{"role": "user", "content": "a"}, {"role": "assistant", "content": echo}, {"role": "user", "content": "b"}]);
        let fitted = run(
            &json!({"model": "m", "messages": messages}).to_string(),
            &Notes::default(),
            &Target::default(),
            &budget(1000),
        )
        .unwrap();
        assert_eq!(body_of(&fitted)["messages"][1]["content"], "Sure. Yes.");
        assert!(fitted.report.sent < fitted.report.counted);
    }

    #[test]
    fn the_first_profile_stays_and_newer_facts_go_to_the_tail() {
        let body = r#"{"model":"m","messages":[{"role":"system","content":"s"},{"role":"user","content":"u"}]}"#;
        let first = run(body, &notes(), &Target::default(), &Policy::default()).unwrap();
        let mut newer = Notes { keep_profile: Some(first.profile.clone()), ..notes() };
        newer.profile.push(NoteLine { fact: Some(FactId(9)), ..line("works for: Acme") });
        let second = run(body, &newer, &Target::default(), &Policy::default()).unwrap();
        assert_eq!(second.profile, first.profile);
        assert!(second.recollection.contains("- works for: Acme\n"));
        assert_eq!(second.facts_shown.iter().collect::<HashSet<_>>().len(), 4);
        let none = Notes { keep_profile: Some("".into()), ..notes() };
        let third = run(body, &none, &Target::default(), &Policy::default()).unwrap();
        assert_eq!(&*third.profile, "");
        assert!(third.recollection.contains("allergy: peanuts"));
    }
}

mod bytes_that_stay {
    use super::*;

    const ODD: &str = "{ \"model\":\"m\", \"x\":1e3,\"messages\":[ {\"role\":\"user\",\"content\":\"\\u4f60\\ud800 hi\"} ],\n \"stream\":true }";

    #[test]
    fn with_nothing_to_do_the_body_is_the_clients_own() {
        for policy in [budget(0), budget(500)] {
            let fitted = run(ODD, &Notes::default(), &Target::default(), &policy).unwrap();
            assert_eq!(fitted.body, ODD);
            assert_eq!((fitted.first_change, fitted.report.cut, fitted.report.memory_tokens), (None, 0, 0));
            assert_eq!(fitted.report.counted, fitted.report.sent);
        }
    }

    #[test]
    fn an_alias_and_usage_change_only_themselves() {
        let target = Target { model: Some("up".to_owned()), ask_usage: true, ..Target::default() };
        let fitted = run(ODD, &Notes::default(), &target, &Policy::default()).unwrap();
        let want =
            ODD.replace("\"m\"", "\"up\"").replace("true }", "true,\"stream_options\":{\"include_usage\":true} }");
        assert_eq!(fitted.body, want);
    }

    #[test]
    fn nothing_is_counted_where_nobody_asks_and_bytes_prove_it() {
        let request = decode(ODD);
        let (target, policy, notes) =
            (Target { window: Some(8192), ..Target::default() }, Policy::default(), Notes::default());
        let input = FitInput {
            request: &request,
            chain: None,
            notes: &notes,
            target: &target,
            policy: &policy,
            budget_header: None,
            counter: &Counter::new(1 << 10),
            digests: None,
            trails: None,
            strip_own_fence: true,
            figures: false,
        };
        let fitted = fit(&input).unwrap();
        assert_eq!((fitted.body, fitted.report.counted), (Bytes::from_static(ODD.as_bytes()), None));
        let tight = fit(&FitInput { budget_header: Some(20), ..input }).unwrap();
        assert_eq!(tight.report.counted, Some(10));
    }

    #[test]
    fn all_but_our_blocks_is_the_clients_own() {
        let body = ODD.replace("[ {", "[ {\"role\" : \"system\", \"content\": \"\\/\", \"n\":1.10},\n{");
        let fitted = run(&body, &notes(), &Target::default(), &Policy::default()).unwrap();
        let sent = String::from_utf8(fitted.body.to_vec()).unwrap();
        let block = |text: &str| serde_json::to_string(text).unwrap().trim_matches('"').to_owned();
        let rest = sent
            .replace(&format!("\\n\\n{}", block(&fitted.profile)), "")
            .replace(&format!("{}\\n\\n", block(&fitted.recollection)), "");
        assert_eq!(rest, body);
    }
}

mod budgets {
    use super::*;

    /// Guards against headroomlabs-ai/headroom PR#2942 and tontinton/maki PR#407.
    #[test]
    fn a_growing_chat_is_cut_rarely_and_keeps_its_prefix_between_cuts() {
        let all = long_chat(120);
        let policy = Policy { memory_tokens: 0, ..budget(1500) };
        let mut last: Option<(usize, Bytes)> = None;
        let (mut n_cuts, mut n_stable) = (0, 0);
        for end in (2..=all.len()).step_by(2) {
            let body = format!(r#"{{"messages":{},"model":"m"}}"#, Value::from(all[..end].to_vec()));
            let fitted = run(&body, &Notes::default(), &Target::default(), &policy).unwrap();
            assert!(fitted.report.sent.unwrap() <= 1500);
            if let Some((cut, before)) = &last {
                if *cut == fitted.report.cut {
                    n_stable += 1;
                    let common = before.len() - r#"],"model":"m"}"#.len();
                    assert_eq!(before[..common], fitted.body[..common]);
                } else {
                    n_cuts += 1;
                    assert!(fitted.report.sent.unwrap() <= 1500 * 7 / 10);
                }
            }
            last = Some((fitted.report.cut, fitted.body));
        }
        assert!(n_cuts <= 16 && n_stable > 100, "{n_cuts} cuts, {n_stable} turns without");
    }

    #[test]
    fn key_data_of_what_was_cut_stays_word_for_word() {
        let mut messages = long_chat(40);
        messages[1]["content"] = "My order is A-2291 for $49.90 of 2026-02-03, see https://x.test/o v2.4.1".into();
        let fitted = run(&request_of(&messages), &notes(), &Target::default(), &budget(1200)).unwrap();
        assert!(fitted.report.cut > 20);
        let system = body_of(&fitted)["messages"][0]["content"].as_str().unwrap().to_owned();
        for datum in ["order is A-2291", "$49.90", "2026-02-03", "https://x.test/o", "v2.4.1"] {
            assert!(system.contains(datum), "{datum} in {system}");
        }
        // The digest stands behind the profile.
        assert!(system.find(&*fitted.profile) < system.find(&*fitted.report.digest));
    }

    /// Guards against BerriAI/litellm#3329 and #742.
    #[test]
    fn what_cannot_fit_is_refused_and_says_what_is_large() {
        let body = request_of(&[json!({"role": "user", "content": "word ".repeat(500)})]);
        let FitError::ContextLength { counted, budget: limit, largest, message } =
            run(&body, &notes(), &Target::default(), &budget(100)).unwrap_err();
        assert!(counted > 500 && limit == 100);
        assert_eq!(largest[0].0, "messages[0] (user)");
        assert!(message.starts_with("This request has 50"), "{message}");
        let reject = Policy { overflow: Overflow::Reject, ..budget(500) };
        assert!(run(&request_of(&long_chat(30)), &Notes::default(), &Target::default(), &reject).is_err());
    }

    #[test]
    fn the_largest_text_is_shortened_where_the_policy_wants_it() {
        let body = request_of(&[json!({"role": "user", "content": "word ".repeat(900)})]);
        for limit in (200..800).step_by(97) {
            let shorten = Policy { overflow: Overflow::Shorten, ..budget(limit) };
            let fitted = run(&body, &notes(), &Target::default(), &shorten).unwrap();
            assert_eq!(fitted.report.shortened, 1);
            let sent =
                Counter::new(0).request(Encoding::O200k, &decode(std::str::from_utf8(&fitted.body).unwrap())).total;
            assert!(sent <= limit, "{sent} > {limit}");
        }
    }

    #[test]
    fn memory_gives_way_first_and_critical_lines_last() {
        let body = request_of(&[json!({"role": "system", "content": "s"}), json!({"role": "user", "content": "hi"})]);
        let shown = |limit| {
            let fitted = run(&body, &notes(), &Target::default(), &budget(limit)).unwrap();
            assert!(fitted.report.sent.unwrap() <= limit);
            fitted.facts_shown
        };
        assert_eq!(shown(13), []);
        assert_eq!(shown(64), [FactId(1)]);
        assert_eq!(shown(500).len(), 3);
        assert!(run(&body, &notes(), &Target::default(), &budget(5)).is_err());
    }

    #[test]
    fn for_agents_old_results_of_tools_are_shortened_before_anything_is_cut() {
        let call = |n: usize| json!({"role": "assistant", "content": null, "tool_calls": [{"id": format!("c{n}"), "type": "function", "function": {"name": "f", "arguments": "{}"}}]});
        let result = |n: usize| json!({"role": "tool", "tool_call_id": format!("c{n}"), "content": format!("begin{n} {}", "row ".repeat(1000))});
        let messages: Vec<Value> = [json!({"role": "user", "content": "go"})]
            .into_iter()
            .chain((0..4).flat_map(|n| [call(n), result(n)]))
            .collect();
        let task = Policy { profile: Profile::Task, ..budget(2500) };
        let fitted = run(&request_of(&messages), &Notes::default(), &Target::default(), &task).unwrap();
        assert_eq!((fitted.report.cut, fitted.report.shortened), (0, 3));
        let body = body_of(&fitted);
        assert!(body["messages"][2]["content"].as_str().unwrap().starts_with("begin0 row"));
        assert_eq!(body["messages"][8], messages[8]);
        let counted =
            Counter::new(0).request(Encoding::O200k, &decode(std::str::from_utf8(&fitted.body).unwrap())).total;
        assert_eq!(fitted.report.sent, Some(counted));
        assert!(run(&request_of(&messages), &Notes::default(), &Target::default(), &budget(2500)).is_err());
    }

    #[test]
    fn a_target_gets_nothing_more_sensitive_than_it_may() {
        let body = request_of(&[json!({"role": "user", "content": "hi"})]);
        let mut secret = notes();
        secret.profile[0].sensitivity = Sensitivity::Sensitive;
        let target = Target { max_sensitivity: Sensitivity::Personal, ..Target::default() };
        let shown = |notes: &Notes| run(&body, notes, &target, &Policy::default()).unwrap().facts_shown;
        assert_eq!(shown(&secret), [FactId(2), FactId(3)]);
        let pinned = Some(Pinned { profile: "<backstory-notes>x</backstory-notes>".into(), recollection: "".into() });
        assert_eq!(shown(&Notes { pinned, ..Notes::default() }), []);
    }

    #[test]
    fn what_is_too_much_for_the_profile_goes_to_the_recollection() {
        let body = request_of(&[json!({"role": "system", "content": "s"}), json!({"role": "user", "content": "hi"})]);
        let many = |n: u128| NoteLine {
            fact: Some(FactId(n)),
            critical: true,
            ..line(&format!("allergy ({n}): {}", "nut ".repeat(20)))
        };
        let notes = Notes { profile: (0..12).map(many).collect(), ..Notes::default() };
        let fitted = run(&body, &notes, &Target::default(), &Policy::default()).unwrap();
        assert_eq!(fitted.facts_shown.len(), 12);
        assert!(Counter::new(0).text(Encoding::O200k, &fitted.profile) <= 200);
        assert!(!fitted.profile.contains("allergy (11)") && fitted.recollection.contains("allergy (11)"));
    }

    #[test]
    fn a_learned_correction_scales_every_figure() {
        let body = request_of(&long_chat(3));
        let plain = run(&body, &Notes::default(), &Target::default(), &Policy::default()).unwrap();
        let target = Target { correction: 1.5, ..Target::default() };
        let scaled = run(&body, &Notes::default(), &target, &Policy::default()).unwrap();
        assert_eq!(scaled.report.counted, plain.report.counted.map(|n| (n * 3).div_ceil(2)));
        assert!(run(&body, &Notes::default(), &target, &budget(plain.report.counted.unwrap())).unwrap().report.cut > 0);
        for odd in [f64::NAN, f64::INFINITY, 0.0, -1.0] {
            assert!(
                run(&body, &Notes::default(), &Target { correction: odd, ..Target::default() }, &budget(300)).is_ok()
            );
        }
    }
}

mod properties {
    use super::*;

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
                    4 + count(c["function"]["name"].as_str().unwrap())
                        + count(c["function"]["arguments"].as_str().unwrap())
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
}
