use std::path::{Path, PathBuf};

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/embed").join(name)
}

fn tokenizer(name: &str) -> Tokenizer {
    let json = std::fs::read(fixture(name).join("tokenizer.json")).unwrap();
    Tokenizer::parse(&json).unwrap()
}

/// The ids that the library `tokenizers` finds with the same file.
fn assert_as_expected(name: &str, limit: usize) {
    let tokenizer = tokenizer(name);
    for line in std::fs::read_to_string(fixture(name).join("expected.jsonl")).unwrap().lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        let text = row["text"].as_str().unwrap();
        assert_eq!(json!(tokenizer.encode(text, limit)), row["ids"], "{text:?}");
    }
}

#[test]
fn wordpiece_finds_the_tokens_that_the_reference_finds() {
    assert_as_expected("tiny-wordpiece", 24);
}

#[test]
fn unigram_finds_the_tokens_that_the_reference_finds() {
    assert_as_expected("tiny-unigram", 64);
}

#[test]
fn names_of_special_tokens_in_a_text_are_text() {
    for (name, text) in [("tiny-wordpiece", "[SEP] [PAD]"), ("tiny-unigram", "</s> <pad>")] {
        let tokenizer = tokenizer(name);
        let ids = tokenizer.encode(text, 64);
        let ends = [tokenizer.before[0], tokenizer.after[0]];
        assert!(ids[1..ids.len() - 1].iter().all(|id| !ends.contains(id)), "{ids:?}");
    }
}

#[test]
fn what_is_not_supported_is_an_error_that_names_it() {
    let read = |change: &dyn Fn(&mut Value)| {
        let text = std::fs::read(fixture("tiny-wordpiece").join("tokenizer.json")).unwrap();
        let mut json: Value = serde_json::from_slice(&text).unwrap();
        change(&mut json);
        Tokenizer::parse(json.to_string().as_bytes()).map(|_| ()).unwrap_err()
    };
    for (said, word) in [
        (read(&|json| json["model"]["type"] = "BPE".into()), "BPE"),
        (read(&|json| json["normalizer"] = json!({"type": "ByteLevel"})), "ByteLevel"),
        (read(&|json| json["pre_tokenizer"] = json!({"type": "Digits"})), "Digits"),
        (read(&|json| json["post_processor"] = json!({"type": "Other"})), "Other"),
        (read(&|json| json["model"]["unk_token"] = "[NONE]".into()), "[NONE]"),
        (
            read(&|json| json["normalizer"] = json!({"type": "Replace", "pattern": {"Regex": "a+"}, "content": "b"})),
            "a+",
        ),
    ] {
        assert!(said.contains(word), "{word}: {said}");
    }
    assert!(Tokenizer::parse(b"{}").is_err() && Tokenizer::parse(b"<html>").is_err());
}

proptest! {
    #[test]
    fn any_text_gives_tokens_of_the_vocabulary_and_never_too_many(text in "\\PC{0,300}|[ a-z\u{301}\t设备]{0,2000}", limit in 2..40_usize) {
        for name in ["tiny-wordpiece", "tiny-unigram"] {
            let tokenizer = tokenizer(name);
            let ids = tokenizer.encode(&text, limit);
            prop_assert!(ids.len() <= limit && ids.len() >= 2);
            prop_assert!(ids.iter().all(|id| (*id as usize) < tokenizer.vocabulary()));
        }
    }
}
