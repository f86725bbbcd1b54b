//! Golden files: for each input in `tests/data/translate` what it becomes. `BACKSTORY_GOLDEN=write` writes them anew; then read the diff.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use proptest::prelude::*;

use super::value::Value;
use super::*;
use crate::wire::{ChatRequest, Dialect, scan};

const TO_CHAT: Back = Back::ToChat { created: 1_700_000_000, include_usage: true };

/// The inputs of one translation, by name.
fn inputs(folder: &str) -> Vec<(PathBuf, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/translate").join(folder);
    let mut found: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.retain(|path| path.extension().is_some_and(|extension| extension == "json" || extension == "sse"));
    found.sort();
    assert!(!found.is_empty());
    found.into_iter().map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect()
}

fn golden(folder: &str, translate: impl Fn(&str) -> String) {
    for (path, input) in inputs(folder) {
        let (told, out) = (translate(&input), path.with_extension("out"));
        if std::env::var_os("BACKSTORY_GOLDEN").is_some_and(|word| word == "write") {
            fs::write(&out, &told).unwrap();
        }
        assert_eq!(told, fs::read_to_string(&out).unwrap_or_default(), "{}", out.display());
    }
}

/// JSON with a line for each value, and no literal touched.
fn pretty(json: &str) -> String {
    let (mut out, mut depth, mut in_string, mut escaped) = (String::new(), 0, false, false);
    for c in json.chars() {
        match c {
            _ if in_string => {
                out.push(c);
                (in_string, escaped) = (c != '"' || escaped, c == '\\' && !escaped);
                continue;
            }
            ' ' | '\n' => continue,
            '{' | '[' => depth += 1,
            '}' | ']' => depth -= 1,
            _ => in_string = c == '"',
        }
        let line = format!("\n{}", "  ".repeat(depth));
        if matches!(c, '}' | ']') {
            let filled = out.trim_end();
            let is_empty = filled.ends_with(['{', '[']);
            out.truncate(filled.len());
            out.push_str(if is_empty { "" } else { &line });
        }
        out.push(c);
        if matches!(c, '{' | '[' | ',') {
            out.push_str(&line);
        }
    }
    out.push('\n');
    out
}

fn request(result: Result<Translated, Refusal>) -> String {
    match result {
        Ok(translated) => {
            let body = std::str::from_utf8(&translated.body).unwrap();
            scan::validate(body).unwrap();
            format!("{}dropped: {}\n", pretty(body), translated.dropped.join(", "))
        }
        Err(refusal) => format!("refused: {refusal}\n"),
    }
}

/// What it becomes with either policy.
fn both(translate: impl Fn(Untranslatable) -> Result<Translated, Refusal>) -> String {
    let (drop, refuse) = (request(translate(Untranslatable::Drop)), request(translate(Untranslatable::Refuse)));
    if drop == refuse { drop } else { format!("{drop}--- untranslatable = \"refuse\"\n{refuse}") }
}

fn translated(mut translator: Translator, pieces: &[&[u8]]) -> String {
    let mut out = Vec::new();
    for piece in pieces {
        out.extend_from_slice(&translator.push(Bytes::copy_from_slice(piece)));
    }
    out.extend_from_slice(&translator.end());
    String::from_utf8(out).unwrap()
}

#[test]
fn chat_requests_become_messages_requests() {
    golden("to_messages", |input| {
        let chat = ChatRequest::decode(Bytes::copy_from_slice(input.as_bytes())).unwrap();
        both(|untranslatable| to_messages(&chat, ToMessages { untranslatable, max_tokens: 4096 }))
    });
}

#[test]
fn messages_replies_become_chat_replies() {
    golden("reply_from_messages", |input| {
        let reply = translated(Translator::new(AnswerForm::Reply, TO_CHAT), &[input.as_bytes()]);
        let as_error = translated(Translator::new(AnswerForm::Error, TO_CHAT), &[input.as_bytes()]);
        let is_error = input.contains("error");
        assert_eq!(is_error, reply == as_error, "an error is one whatever its status");
        pretty(&reply)
    });
}

#[test]
fn messages_streams_become_chat_streams() {
    golden("stream_from_messages", |input| {
        translated(Translator::new(AnswerForm::Stream, TO_CHAT), &[input.as_bytes()])
    });
}

#[test]
fn messages_requests_become_chat_requests() {
    golden("to_chat", |input| {
        let messages = ChatRequest::decode_as(Dialect::Messages, Bytes::copy_from_slice(input.as_bytes())).unwrap();
        both(|untranslatable| to_chat(&messages, ToChat { untranslatable, completion_tokens: true, ask_usage: true }))
    });
}

#[test]
fn chat_replies_become_messages_replies() {
    golden("reply_from_chat", |input| {
        pretty(&translated(Translator::new(AnswerForm::Reply, Back::ToMessages), &[input.as_bytes()]))
    });
}

#[test]
fn chat_streams_become_messages_streams() {
    golden("stream_from_chat", |input| {
        translated(Translator::new(AnswerForm::Stream, Back::ToMessages), &[input.as_bytes()])
    });
}

/// Signed thoughts are taken back as they were given.
#[test]
fn a_thought_survives_the_way_to_a_client_and_back() {
    let thought = r#"{"type":"thinking","thinking":"a\u0062\/","signature":"Eo\/x=="}"#;
    let reply =
        format!(r#"{{"type":"message","content":[{thought},{{"type":"text","text":"b"}}],"stop_reason":"end_turn"}}"#);
    let told = translated(Translator::new(AnswerForm::Reply, TO_CHAT), &[reply.as_bytes()]);
    let message = Value::whole(&told).get("choices").unwrap().elements().next().unwrap().get("message").unwrap();
    let next = format!(
        r#"{{"model":"m","messages":[{{"role":"user","content":"a"}},{},{{"role":"user","content":"c"}}]}}"#,
        message.literal()
    );
    let next = ChatRequest::decode(Bytes::from(next)).unwrap();
    let how = ToMessages { untranslatable: Untranslatable::Refuse, max_tokens: 1 };
    let sent = to_messages(&next, how).unwrap();
    assert!(std::str::from_utf8(&sent.body).unwrap().contains(thought), "{sent:?}");
}

#[test]
fn usage_is_told_to_those_who_ask() {
    let all = inputs("stream_from_messages");
    let (_, input) = all.iter().find(|(path, _)| path.ends_with("text.sse")).unwrap();
    let back = Back::ToChat { created: 0, include_usage: false };
    let told = translated(Translator::new(AnswerForm::Stream, back), &[input.as_bytes()]);
    assert!(!told.contains("usage"), "{told}");
}

#[test]
fn what_is_not_in_the_dialect_passes_as_it_is() {
    for text in ["", "<b>bad gateway</b>", "{\"error\":", "\u{feff}{}", r#"{"error":{"message":"no"}}"#, "[1]", "7"] {
        for form in [AnswerForm::Reply, AnswerForm::Error] {
            assert_eq!(translated(Translator::new(form, TO_CHAT), &[text.as_bytes()]), text);
        }
    }
    let mut reply = Translator::new(AnswerForm::Reply, TO_CHAT);
    let block = Bytes::from(vec![b'['; 20 * 1024 * 1024]);
    assert_eq!([reply.push(block.clone()).len(), reply.push(block.clone()).len()], [0, 2 * block.len()]);
    assert_eq!((reply.push(block.clone()).len(), reply.end().len()), (block.len(), 0));
}

/// A body has room for a million of them.
#[test]
fn many_members_and_many_blocks_cost_no_more_than_their_bytes() {
    let members: String = (0..200_000).map(|n| format!(r#","m{n}":1"#)).collect();
    let blocks = vec![r#"{"type":"text","text":"a"}"#; 200_000].join(",");
    let text = format!(r#"{{"model":"m","messages":[{{"role":"user","content":[{blocks}]}}]{members}}}"#);
    let chat = ChatRequest::decode(Bytes::from(text.clone())).unwrap();
    let sent = to_messages(&chat, ToMessages { untranslatable: Untranslatable::Drop, max_tokens: 1 }).unwrap();
    assert_eq!((sent.dropped.len(), &*sent.dropped[19]), (20, "m19"));
    let messages = ChatRequest::decode_as(Dialect::Messages, Bytes::from(text)).unwrap();
    let how = ToChat { untranslatable: Untranslatable::Drop, completion_tokens: true, ask_usage: true };
    assert!(to_chat(&messages, how).unwrap().body.len() > 600_000);
}

#[test]
fn a_long_thought_passes_and_is_not_told_twice() {
    let start = r#"data: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":"s"}}"#;
    let piece = format!(
        r#"data: {{"type":"content_block_delta","index":0,"delta":{{"type":"thinking_delta","thinking":"{}"}}}}"#,
        "x".repeat(700 * 1024)
    );
    let stream = format!("{start}\n\n{piece}\n\n{piece}\n\ndata: {{\"type\":\"content_block_stop\",\"index\":0}}\n\n");
    let told = translated(Translator::new(AnswerForm::Stream, TO_CHAT), &[stream.as_bytes()]);
    assert_eq!((told.matches("reasoning_content").count(), told.matches("thinking_blocks").count()), (2, 0));
}

/// Cuts a text at these places.
fn pieces<'t>(text: &'t str, cuts: &[prop::sample::Index]) -> Vec<&'t [u8]> {
    let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
    at.extend([0, text.len()]);
    at.sort_unstable();
    at.windows(2).map(|pair| &text.as_bytes()[pair[0]..pair[1]]).collect()
}

proptest! {
    #[test]
    fn a_stream_reads_the_same_however_it_is_cut(
        (folder, back) in prop::sample::select(vec![("stream_from_messages", TO_CHAT), ("stream_from_chat", Back::ToMessages)]),
        which in any::<prop::sample::Index>(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        crlf in any::<bool>(),
    ) {
        let mut all = inputs(folder);
        let (_, mut input) = all.swap_remove(which.index(all.len()));
        let expected = translated(Translator::new(AnswerForm::Stream, back), &[input.as_bytes()]);
        if crlf {
            input = input.replace('\n', "\r\n");
        }
        prop_assert_eq!(translated(Translator::new(AnswerForm::Stream, back), &pieces(&input, &cuts)), expected);
    }

    #[test]
    fn any_reply_and_any_stream_is_read_without_panic(
        kinds in prop::collection::vec(prop::sample::select(vec![
            "message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta", "message_stop", "error", "x",
        ]), 0..12),
        inner in prop::sample::select(vec![
            "{}", "null", "7", r#"{"type":"tool_use"}"#, r#"{"type":"input_json_delta","partial_json":"{"}"#, r#"{"type":"thinking"}"#,
            r#"{"type":"text","text":1}"#, r#"{"stop_reason":[]}"#, r#"{"type":"signature_delta","signature":"\ud800"}"#,
        ]),
    ) {
        let mut stream = String::new();
        for kind in kinds {
            let _ = write!(stream, "data: {{\"type\":\"{kind}\",\"content_block\":{inner},\"delta\":{inner},\"message\":{inner},\"error\":{inner},\"usage\":{inner}}}\n\n");
        }
        translated(Translator::new(AnswerForm::Stream, TO_CHAT), &[stream.as_bytes()]);
        let reply = format!(r#"{{"type":"message","content":[{inner},{inner}],"usage":{inner},"stop_reason":{inner}}}"#);
        translated(Translator::new(AnswerForm::Reply, TO_CHAT), &[reply.as_bytes()]);
    }

    #[test]
    fn any_chat_answer_is_read_without_panic(
        inner in prop::collection::vec(prop::sample::select(vec![
            "{}", "null", "7", "[]", "[{}]", r#"[{"index":-1,"function":{"arguments":7}}]"#, r#""a""#, r#"[{"function":{"arguments":"{"}}]"#,
        ]), 4..12),
    ) {
        let mut stream = String::new();
        for four in inner.chunks_exact(4) {
            let choice = format!(r#"{{"delta":{{"content":{},"tool_calls":{}}},"message":{{"content":{},"tool_calls":{}}},"finish_reason":{}}}"#, four[0], four[1], four[0], four[1], four[2]);
            let _ = write!(stream, "data: {{\"choices\":[{choice}],\"usage\":{}}}\n\n", four[3]);
            let reply = format!(r#"{{"choices":[{choice}],"usage":{}}}"#, four[3]);
            translated(Translator::new(AnswerForm::Reply, Back::ToMessages), &[reply.as_bytes()]);
        }
        translated(Translator::new(AnswerForm::Stream, Back::ToMessages), &[stream.as_bytes(), b"data: [DONE]\n\n"]);
    }

    #[test]
    fn any_request_is_translated_or_refused_without_panic(
        inner in prop::collection::vec(prop::sample::select(vec![
            "{}", "null", "7", "[]", "[7]", r#""a""#, r#"[{"type":"text"}]"#, r#"[{"type":"tool_result","content":[{"type":"image"}]}]"#,
            r#"[{"type":"tool_use","input":7}]"#, r#"[{"function":{"arguments":"[1"}}]"#, r#"{"type":"tool"}"#, r#"[{"type":"image_url","image_url":7}]"#,
        ]), 6),
        role in prop::sample::select(vec!["user", "assistant", "tool", "system", "function", "x"]),
    ) {
        let [content, calls, tools, choice, system, stop] = <[&str; 6]>::try_from(inner).unwrap();
        let text = format!(r#"{{"model":"m","messages":[{{"role":"{role}","content":{content},"tool_calls":{calls},"function_call":{calls}}}],"tools":{tools},"tool_choice":{choice},"system":{system},"stop":{stop},"output_config":{choice},"response_format":{choice}}}"#);
        for dialect in [Dialect::Chat, Dialect::Messages] {
            let Ok(request) = ChatRequest::decode_as(dialect, Bytes::from(text.clone())) else { continue };
            let result = match dialect {
                Dialect::Chat => to_messages(&request, ToMessages { untranslatable: Untranslatable::Drop, max_tokens: 1 }),
                _ => to_chat(&request, ToChat { untranslatable: Untranslatable::Drop, completion_tokens: false, ask_usage: false }),
            };
            if let Ok(translated) = result {
                prop_assert!(scan::validate(std::str::from_utf8(&translated.body).unwrap()).is_ok());
            }
        }
    }
}
