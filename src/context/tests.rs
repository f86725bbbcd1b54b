//! What a fit promises, over whole requests.

mod messages;
mod properties;
mod responses;

use std::collections::HashSet;

use bytes::Bytes;
use serde_json::{Value, json};

use super::*;
use crate::base::{EpisodeId, FactId};
use crate::conversation::chain;
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
