//! Rules on whole requests, and what they leave alone.

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// `set a.b=1`, `default a=1`, `drop a`, `rename a b`, a rule a line.
fn rules(lines: &[&str]) -> ParamRules {
    let mut rules = ParamRules::default();
    for line in lines {
        add(&mut rules, line).unwrap();
    }
    rules
}

fn add(rules: &mut ParamRules, line: &str) -> Result<(), ParamError> {
    let (verb, rest) = line.split_once(' ').unwrap();
    match verb {
        "set" | "default" => {
            let (path, json) = rest.split_once('=').unwrap();
            if verb == "set" { rules.set(path, json) } else { rules.default_to(path, json) }
        }
        "drop" => rules.drop_member(rest),
        _ => {
            let (from, to) = rest.split_once(' ').unwrap();
            rules.rename(from, to)
        }
    }
}

fn apply(lines: &[&str], body: &str) -> String {
    let out = rules(lines).patches(body).apply(&Bytes::from(body.to_owned()));
    let out = String::from_utf8(out.to_vec()).unwrap();
    assert!(scan::validate(&out).is_ok(), "{out}");
    out
}

#[test]
fn each_rule_is_a_splice() {
    let body = r#"{ "model":"m", "max_tokens" : 1e3,"top_p":1.10, "messages":[ ] , "seed":null }"#;
    for (lines, expected) in [
        (
            &["rename max_tokens max_completion_tokens"][..],
            r#"{ "model":"m", "max_completion_tokens" : 1e3,"top_p":1.10, "messages":[ ] , "seed":null }"#,
        ),
        (&["drop top_p"], r#"{ "model":"m", "max_tokens" : 1e3, "messages":[ ] , "seed":null }"#),
        (&["drop seed"], r#"{ "model":"m", "max_tokens" : 1e3,"top_p":1.10, "messages":[ ] }"#),
        (&["set top_p=0.5"], r#"{ "model":"m", "max_tokens" : 1e3,"top_p":0.5, "messages":[ ] , "seed":null }"#),
        (&["set n=2"], r#"{ "model":"m", "max_tokens" : 1e3,"top_p":1.10, "messages":[ ] , "seed":null,"n":2 }"#),
        (
            &["default top_p=0.5", "default n=2"],
            r#"{ "model":"m", "max_tokens" : 1e3,"top_p":1.10, "messages":[ ] , "seed":null,"n":2 }"#,
        ),
        (&["drop seed", "set n=2", "drop max_tokens"], r#"{ "model":"m","top_p":1.10, "messages":[ ],"n":2 }"#),
        (&["drop nothing", "default seed=1"], body),
    ] {
        assert_eq!(apply(lines, body), expected, "{lines:?}");
    }
}

#[test]
fn what_a_client_says_under_both_names_holds_under_the_new_one() {
    let rename = ["rename max_tokens max_completion_tokens", "default max_completion_tokens=9"];
    assert_eq!(apply(&rename, r#"{"max_tokens":5,"max_completion_tokens":7}"#), r#"{"max_completion_tokens":7}"#);
    assert_eq!(apply(&rename, r#"{"max_tokens":5}"#), r#"{"max_completion_tokens":5}"#);
    assert_eq!(apply(&rename, "{}"), r#"{"max_completion_tokens":9}"#);
}

#[test]
fn a_number_is_what_the_changed_request_says() {
    for (lines, asked) in [
        (&[][..], Some(5)),
        (&["set max_tokens=7"], Some(7)),
        (&["default max_tokens=7"], Some(5)),
        (&["default max_completion_tokens=7"], Some(7)),
        (&["drop max_tokens"], None),
        (&["rename max_tokens max_completion_tokens", "default max_completion_tokens=9"], Some(5)),
        (&["rename max_tokens limit"], None),
        (&["set max_completion_tokens=null"], Some(5)),
    ] {
        let text = r#"{"model":"m","messages":[{"role":"user","content":"x"}],"max_tokens":5}"#;
        let request = ChatRequest::decode(Bytes::from(text)).unwrap();
        let changed = ChatRequest::decode(Bytes::from(apply(lines, text))).unwrap();
        assert_eq!(rules(lines).max_output(&request), asked, "{lines:?}");
        assert_eq!(changed.max_output(), asked, "{lines:?}");
    }
}

#[test]
fn paths_reach_into_objects_and_make_those_that_are_missing() {
    let lines = ["set reasoning.effort=\"low\"", "default reasoning.max=1", "drop reasoning.old"];
    assert_eq!(apply(&lines, r#"{"a":1}"#), r#"{"a":1,"reasoning":{"effort":"low","max":1}}"#);
    assert_eq!(
        apply(&lines, r#"{"reasoning":{"old":[1], "max":2 },"a":1}"#),
        r#"{"reasoning":{"max":2,"effort":"low" },"a":1}"#
    );
    assert_eq!(apply(&lines, r#"{"reasoning":{}}"#), r#"{"reasoning":{"effort":"low","max":1}}"#);
    assert_eq!(apply(&lines, r#"{"reasoning":null}"#), r#"{"reasoning":{"effort":"low","max":1}}"#);
    assert_eq!(apply(&["default a.b=1"], r#"{"a":"word"}"#), r#"{"a":"word"}"#);
    assert_eq!(apply(&["drop a.b"], r#"{"c":1}"#), r#"{"c":1}"#);
}

#[test]
fn repeated_and_escaped_names_are_all_meant() {
    assert_eq!(apply(&["drop a"], r#"{"a":1,"b":2,"\u0061":3,"a":4}"#), r#"{"b":2}"#);
    assert_eq!(apply(&["set a=0"], r#"{"a":1,"a":4}"#), r#"{"a":0,"a":0}"#);
    assert_eq!(apply(&["drop a", "drop b"], r#"{ "a":1 , "b":2 }"#), "{  }");
    assert_eq!(apply(&["drop a", "set c=1"], r#"{"a":1}"#), r#"{"c":1}"#);
}

#[test]
fn rules_that_contradict_each_other_or_touch_what_is_not_theirs_cannot_be_made() {
    for name in RESERVED_PARAMS {
        assert_eq!(
            add(&mut ParamRules::default(), &format!("drop {name}")),
            Err(ParamError::Reserved(name.to_owned()))
        );
    }
    assert!(matches!(add(&mut ParamRules::default(), "rename a model"), Err(ParamError::Reserved(_))));
    assert!(matches!(add(&mut ParamRules::default(), "set stream_options.x=1"), Err(ParamError::Reserved(_))));
    for (first, second) in [
        ("set a=1", "default a=1"),
        ("set a=1", "drop a"),
        ("set a.b=1", "set a=1"),
        ("drop a", "set a.b=1"),
        ("rename a b", "drop a"),
        ("rename a b", "set b=1"),
        ("set b=1", "rename a b"),
        ("default a=1", "rename a b"),
        ("rename a b", "rename b c"),
        ("rename a b", "rename c b"),
    ] {
        let mut rules = rules(&[first]);
        assert!(matches!(add(&mut rules, second), Err(ParamError::Twice(_))), "{first}, {second}");
    }
    assert!(matches!(add(&mut ParamRules::default(), "rename a.b c"), Err(ParamError::Nested(_))));
    assert!(matches!(add(&mut ParamRules::default(), "drop a..b"), Err(ParamError::Path(_))));
    assert!(matches!(add(&mut ParamRules::default(), "set a=nan"), Err(ParamError::Value(_))));
}

/// What rules mean, on parsed values; the text form must agree.
fn expected(lines: &[String], body: &Value) -> Value {
    let mut object = body.as_object().unwrap().clone();
    for line in lines {
        let (verb, rest) = line.split_once(' ').unwrap();
        match verb {
            "rename" => {
                let (from, to) = rest.split_once(' ').unwrap();
                if let Some(value) = object.remove(from) {
                    object.entry(to.to_owned()).or_insert(value);
                }
            }
            "drop" => drop(object.remove(rest)),
            _ => {
                let (name, value) = rest.split_once('=').unwrap();
                let value: Value = serde_json::from_str(value).unwrap();
                match verb {
                    "set" => drop(object.insert(name.to_owned(), value)),
                    _ => drop(object.entry(name.to_owned()).or_insert(value)),
                }
            }
        }
    }
    Value::Object(object)
}

fn member() -> impl Strategy<Value = (String, Value)> {
    let value = prop_oneof![Just(json!(1)), Just(json!(null)), Just(json!("x")), Just(json!({"in": [1, {"a": 2}]}))];
    ("[a-f]", value)
}

fn line() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-f]".prop_map(|name| format!("set {name}=7")),
        "[a-f]".prop_map(|name| format!("default {name}=8")),
        "[a-f]".prop_map(|name| format!("drop {name}")),
        ("[a-f]", "[g-i]").prop_map(|(from, to)| format!("rename {from} {to}")),
    ]
}

proptest! {
    #[test]
    fn the_splices_mean_what_the_rules_say(members in prop::collection::vec(member(), 0..6), lines in prop::collection::vec(line(), 0..5), pretty in any::<bool>()) {
        let body = Value::Object(members.into_iter().collect());
        let mut kept = Vec::new();
        let mut rules = ParamRules::default();
        for line in lines {
            if add(&mut rules, &line).is_ok() {
                kept.push(line);
            }
        }
        kept.sort_by_key(|line| !line.starts_with("rename"));
        let text = if pretty { serde_json::to_string_pretty(&body) } else { serde_json::to_string(&body) }.unwrap();
        let out = rules.patches(&text).apply(&Bytes::from(text.clone()));
        let read: Value = serde_json::from_slice(&out).unwrap();
        prop_assert_eq!(read, expected(&kept, &body));
    }
}
