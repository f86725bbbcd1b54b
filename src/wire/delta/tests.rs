//! The accumulator by what real upstreams send.

use super::*;
use proptest::prelude::*;
use serde_json::json;

fn read(chunks: &[&str]) -> Reply {
    let mut books = Accumulator::new();
    for chunk in chunks {
        books.chunk(chunk);
    }
    books.into_reply()
}

fn delta(delta: &str) -> String {
    format!(r#"{{"choices":[{{"index":0,"delta":{delta},"finish_reason":null}}]}}"#)
}

fn calls(deltas: &[&str]) -> Vec<(String, String, String)> {
    let chunks: Vec<String> = deltas.iter().map(|d| delta(&format!(r#"{{"tool_calls":{d}}}"#))).collect();
    let reply = read(&chunks.iter().map(String::as_str).collect::<Vec<_>>());
    reply.choices[0].tool_calls.iter().map(|c| (c.id.clone(), c.name.clone(), c.arguments.clone())).collect()
}

fn expected(calls: &[(&str, &str, &str)]) -> Vec<(String, String, String)> {
    calls.iter().map(|(a, b, c)| ((*a).to_owned(), (*b).to_owned(), (*c).to_owned())).collect()
}

#[test]
fn text_refusal_finish_and_usage_are_put_together() {
    let reply = read(&[
        r#"{"id":"c1","model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}],"usage":null}"#,
        r#"{"id":"c1","model":"m","choices":[{"index":0,"delta":{"content":"He\u006clo "},"finish_reason":null}]}"#,
        r#"{"id":"c1","choices":[{"index":0,"delta":{"content":null,"refusal":"no"},"finish_reason":null}]}"#,
        r#"{"id":"c1","choices":[{"index":0,"delta":{"content":[{"type":"text","text":"wor"},{"type":"x"},{"text":"ld\ud800"}]}}]}"#,
        r#"{"id":"c1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#,
        r#"{"id":"c1","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}"#,
        "[DONE]",
    ]);
    assert_eq!((reply.id.as_deref(), reply.model.as_deref()), (Some("c1"), Some("m")));
    assert_eq!(reply.choices[0].text, "Hello world\u{fffd}");
    assert_eq!(reply.choices[0].refusal, "no");
    assert_eq!(reply.choices[0].finish_reason.as_deref(), Some("stop"));
    assert_eq!(reply.usage.map(Usage::total), Some(5));
    assert!(!reply.truncated);
}

#[test]
fn choices_are_kept_apart_and_a_reply_is_finished_when_all_are() {
    let mut books = Accumulator::new();
    assert!(!books.finished());
    books.chunk(r#"{"choices":[{"index":1,"delta":{"content":"b"}},{"index":0,"delta":{"content":"a"}}]}"#);
    books.chunk(r#"{"choices":[{"index":1,"delta":{"content":"B"},"finish_reason":"length"}]}"#);
    assert!(!books.finished());
    books.chunk(r#"{"choices":[{"index":0,"delta":{"content":"A"},"finish_reason":"stop"}]}"#);
    assert!(books.finished());
    let texts: Vec<_> = books.reply().choices.iter().map(|c| (c.index, c.text.as_str())).collect();
    assert_eq!(texts, [(0, "aA"), (1, "bB")]);
}

/// BerriAI/litellm#40404.
#[test]
fn a_malformed_chunk_is_skipped_and_counted() {
    let mut books = Accumulator::new();
    books.chunk(&delta(r#"{"content":"a"}"#));
    for bad in ["{\"choices\":[{", "no json", "[1]", "{]}", "null"] {
        assert!(books.chunk(bad).malformed, "{bad}");
    }
    books.chunk(&delta(r#"{"content":"b"}"#));
    assert_eq!((books.reply().choices[0].text.as_str(), books.malformed()), ("ab", 5));
}

/// maximhq/bifrost#1961, #1829.
#[test]
fn parallel_calls_with_interleaved_pieces_keep_apart() {
    let found = calls(&[
        r#"[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":""}}]"#,
        r#"[{"index":1,"id":"b","type":"function","function":{"name":"g","arguments":""}}]"#,
        r#"[{"index":0,"function":{"arguments":"{\"x\""}}]"#,
        r#"[{"index":1,"function":{"arguments":"{\"y\""}}]"#,
        r#"[{"index":0,"function":{"arguments":":1}"}},{"index":1,"function":{"arguments":":2}"}}]"#,
    ]);
    assert_eq!(found, expected(&[("a", "f", r#"{"x":1}"#), ("b", "g", r#"{"y":2}"#)]));
}

/// maximhq/bifrost PR#7235.
#[test]
fn two_calls_in_one_chunk_both_arrive_even_with_the_same_index() {
    let both = expected(&[("a", "f", "{}"), ("b", "f", "[]")]);
    let first = r#"{"id":"a","index":0,"function":{"name":"f","arguments":"{}"}}"#;
    for second in ["0", "1"] {
        let second = format!(r#"{{"id":"b","index":{second},"function":{{"name":"f","arguments":"[]"}}}}"#);
        assert_eq!(calls(&[&format!("[{first},{second}]")]), both);
    }
}

/// BerriAI/litellm#5231.
#[test]
fn calls_without_index_or_counted_from_one_are_read() {
    let found = calls(&[
        r#"[{"id":"a","function":{"name":"f","arguments":"{"}}]"#,
        r#"[{"function":{"arguments":"}"}}]"#,
        r#"[{"id":"b","function":{"name":"g","arguments":""}}]"#,
        r#"[{"id":"b","function":{"arguments":"{}"}}]"#,
        r#"[{"function":{"name":"h","arguments":{"k": 1}}}]"#,
    ]);
    assert_eq!(found, expected(&[("a", "f", "{}"), ("b", "g", "{}"), ("", "h", r#"{"k": 1}"#)]));
    let found = calls(&[
        r#"[{"index":1,"id":"a","function":{"name":"f","arguments":"1"}}]"#,
        r#"[{"index":2,"id":"b","function":{"name":"g","arguments":"2"}}]"#,
        r#"[{"index":1,"id":"a","function":{"name":"f","arguments":"1"}}]"#,
    ]);
    assert_eq!(found, expected(&[("a", "f", "11"), ("b", "g", "2")]));
}

#[test]
fn a_whole_body_is_read_like_a_stream() {
    let body = json!({"id": "c", "model": "m", "choices": [{"index": 0, "message": {
        "role": "assistant", "content": "hi", "refusal": null,
        "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
    }, "finish_reason": "tool_calls"}], "usage": {"prompt_tokens": 1, "completion_tokens": 1}});
    let mut books = Accumulator::new();
    books.body(body.to_string().as_bytes());
    assert!(books.finished());
    let reply = books.into_reply();
    assert_eq!((reply.choices[0].text.as_str(), reply.choices[0].tool_calls[0].name.as_str()), ("hi", "f"));
    assert_eq!(reply.usage.map(Usage::total), Some(2));
}

#[test]
fn text_is_bounded_and_says_so() {
    let mut books = Accumulator::new();
    let piece = "你".repeat(10_000);
    for _ in 0..20 {
        books.chunk(&delta(&json!({ "content": piece }).to_string()));
    }
    let reply = books.into_reply();
    assert!(reply.truncated && reply.choices[0].text.len() <= MAX_REPLY_BYTES);
    assert!(reply.choices[0].text.len() > MAX_REPLY_BYTES - 3);
}

#[test]
fn choices_and_calls_are_bounded_and_say_so() {
    let mut books = Accumulator::new();
    for index in 0..1_000 {
        books.chunk(&json!({"choices": [{"index": index, "delta": {}}]}).to_string());
    }
    assert!(books.reply().truncated && books.reply().choices.len() == MAX_ITEMS);
}

#[test]
fn the_light_one_follows_without_text() {
    let mut books = Accumulator::light();
    books.chunk(&delta(r#"{"content":"secret"}"#));
    assert!(!books.finished());
    books.chunk(r#"{"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":9}}"#);
    assert!(books.finished());
    let reply = books.into_reply();
    assert_eq!((reply.choices[0].text.as_str(), reply.id), ("", None));
    assert_eq!(reply.usage.map(|u| u.prompt_tokens), Some(9));
}

fn odd_chunk() -> impl Strategy<Value = String> {
    let finish = prop::sample::select(vec!["null", " null", "\"stop\"", " \"length\"", "\"null\""]);
    let index = prop::sample::select(vec!["0", " 0 ", "1", "10", "\"0\""]);
    let delta = prop::sample::select(vec![
        "{}",
        r#"{"content":"\"finish_reason\":\"stop\" \"index\":1"}"#,
        r#"{"tool_calls":[{"index":1,"function":{"arguments":"\"usage\":{}"}}]}"#,
    ]);
    let tail = prop::sample::select(vec![
        "",
        r#","usage":null"#,
        r#","usage" : {"prompt_tokens":3}"#,
        r#","error":null"#,
        r#","error":{"message":"x"}"#,
        r#","x":{"finish_reason":"stop","index":4}"#,
        ",",
    ]);
    (finish, index, delta, tail).prop_map(|(finish, index, delta, tail)| {
        format!(r#"{{"choices":[{{"index":{index},"delta":{delta},"finish_reason":{finish}}}]{tail}}}"#)
    })
}

#[test]
fn the_events_that_say_something_are_counted_whether_the_text_is_kept_or_not() {
    let (mut full, mut light) = (Accumulator::new(), Accumulator::light());
    for books in [&mut full, &mut light] {
        books.chunk(&delta(r#"{"role":"assistant","content":""}"#));
        assert_eq!(books.reply().events, 0);
        books.chunk(&delta(r#"{"reasoning_content":"Hm"}"#));
    }
    for _ in 0..5 {
        for books in [&mut full, &mut light] {
            books.chunk(r#"{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}"#);
        }
    }
    for books in [&mut full, &mut light] {
        books.chunk(r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#);
        books.chunk(r#"{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":5}}"#);
    }
    assert_eq!((full.reply().events, light.reply().events), (6, 6));
}

proptest! {
    #[test]
    fn the_light_one_knows_what_the_full_one_knows(chunks in prop::collection::vec(odd_chunk(), 0..8)) {
        let (mut full, mut light) = (Accumulator::new(), Accumulator::light());
        for chunk in &chunks {
            let (seen, quick) = (full.chunk(chunk), light.chunk(chunk));
            prop_assert_eq!((seen.no_choices, seen.usage, seen.error), (quick.no_choices, quick.usage, quick.error));
        }
        let known = |it: &Accumulator| {
            let finishes: Vec<_> = it.reply().choices.iter().map(|c| (c.index, c.finish_reason.clone())).collect();
            (finishes, it.finished(), it.is_chat(), it.has_error(), it.reply().usage)
        };
        prop_assert_eq!(known(&full), known(&light));
    }

    #[test]
    fn any_chunk_is_taken_without_panic(text in ".*", delta_text in r#"[\[\]{}":,a-z0-9\\]{0,40}"#) {
        let mut books = Accumulator::new();
        books.chunk(&text);
        books.chunk(&delta(&delta_text));
        books.body(text.as_bytes());
    }

    #[test]
    fn text_comes_back_however_it_was_cut(pieces in prop::collection::vec(".*", 0..10)) {
        let chunks: Vec<String> = pieces.iter().map(|p| delta(&json!({ "content": p }).to_string())).collect();
        let reply = read(&chunks.iter().map(String::as_str).collect::<Vec<_>>());
        let text = reply.choices.first().map_or("", |c| &c.text);
        prop_assert_eq!(text, pieces.concat());
    }
}
