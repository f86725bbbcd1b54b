//! Providers, models and retries: what is read, and that every mistake is named at once, with its key, its value and what is allowed.

use std::path::Path;
use std::time::Duration;

use super::env::tests::MapEnv;
use super::*;
use crate::upstream::{On, Pick, Proxy, Then};

fn load(text: &str) -> Result<Config, ConfigErrors> {
    let mut env = MapEnv::with(&[("A", "sk-env-a")]);
    env.files.insert("/etc/b.key".into(), "sk-file-b\n".to_owned());
    env.files.insert("/etc/ca.pem".into(), "-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n".to_owned());
    env.files.insert("/etc/empty.pem".into(), "nothing\n".to_owned());
    Config::parse(text, Path::new("/etc/backstory.toml"), &env, &Overrides::default())
}

fn mistakes(text: &str) -> Vec<String> {
    load(text).expect_err("it has mistakes").errors.iter().map(ToString::to_string).collect()
}

#[track_caller]
fn assert_says(mistakes: &[String], path: &str, words: &[&str]) {
    let said = mistakes.iter().find(|mistake| mistake.starts_with(path));
    let said = said.unwrap_or_else(|| panic!("nothing about {path} in {mistakes:#?}"));
    for word in words {
        assert!(said.contains(word), "{word} in {said}");
    }
}

const PROVIDER: &str = "[[providers]]\nname = 'p'\nbase_url = 'http://h/v1'\n";

#[test]
fn a_provider_may_have_several_keys_a_proxy_and_a_ca() {
    let text = format!(
        "{PROVIDER}api_keys = ['${{A}}', '${{file:b.key}}']\nproxy = 'socks5h://u:pw@127.0.0.1:1080'\nca_file = 'ca.pem'\ndefault = true\n"
    );
    let config = load(&text).unwrap();
    let provider = &config.providers[0];
    let Auth::Keys(keys) = &provider.api_key else { panic!("{:?}", provider.api_key) };
    assert_eq!(keys.iter().map(|key| key.expose()).collect::<Vec<_>>(), ["sk-env-a", "sk-file-b"]);
    assert!(matches!(&provider.proxy, Proxy::Url(url) if url.expose().contains("pw@")));
    assert!(provider.ca.as_ref().is_some_and(|text| text.contains("CERTIFICATE")));
    assert!(!format!("{provider:?}").contains("sk-"), "no key in a debug text");
    let none = load(&format!("{PROVIDER}default = true\nproxy = 'none'\n")).unwrap();
    assert!(matches!(none.providers[0].proxy, Proxy::None));
}

#[test]
fn mistakes_of_a_provider_are_named_and_no_secret_is_shown() {
    let text = format!(
        "{PROVIDER}default = true\napi_key = 'sk-secret-1'\napi_keys = ['sk-secret-2', '']\nproxy = 'ftp://u:sk-secret-3@h'\nca_file = 'empty.pem'\n\
         [[providers]]\nname = 'q'\nbase_url = 'http://h/v1'\napi_keys = []\nca_file = 'not-there.pem'\n\
         [[providers]]\nname = 'r'\nbase_url = 'http://h/v1'\napi_keys = ['client', 'sk-secret-4']\ninsecure = true\n"
    );
    let mistakes = mistakes(&text);
    assert_says(&mistakes, "providers[0].api_keys: stands beside", &["api_key"]);
    assert_says(&mistakes, "providers[0].api_keys[1]", &["not empty"]);
    assert_says(&mistakes, "providers[0].proxy", &["socks5", "\"none\""]);
    assert_says(&mistakes, "providers[0].ca_file = \"empty.pem\"", &["BEGIN CERTIFICATE"]);
    assert_says(&mistakes, "providers[1].api_keys", &["from 1 to 64"]);
    assert_says(&mistakes, "providers[1].ca_file = \"not-there.pem\"", &["cannot be read"]);
    assert_says(&mistakes, "providers[2].api_keys", &["\"client\""]);
    assert_says(&mistakes, "providers[2].insecure", &["unknown key"]);
    assert_eq!(mistakes.len(), 8, "{mistakes:#?}");
    assert!(!mistakes.concat().contains("sk-secret"), "{mistakes:#?}");
}

#[test]
fn models_have_conditions_rules_and_aliases() {
    let text = format!(
        "{PROVIDER}[[models]]\nname = 'a'\npick = 'least-latency'\n[[models.targets]]\nprovider = 'p'\nmodel = 'x'\n\
         when = {{ tools = true, images = false, max_input_tokens = 900 }}\n[models.targets.params]\nset = {{ n = 2, 'r.effort' = '${{A}}', list = [1.5, {{ a = true, b = ['${{A}}'] }}] }}\n\
         rename = {{ max_tokens = 'max_completion_tokens' }}\ndefault = {{ max_completion_tokens = 5 }}\ndrop = ['seed']\n\
         [[models]]\nname = 'b'\nalias = 'c'\n[models.budget]\nmax_input_tokens = 7\n[[models]]\nname = 'c'\nalias = 'a'\n[routing]\nunknown_models = 'reject'\n"
    );
    let config = load(&text).unwrap();
    let target = &config.models[0].targets[0];
    assert_eq!(
        (target.when.tools, target.when.images, target.when.max_input_tokens),
        (Some(true), Some(false), Some(900))
    );
    assert_eq!((config.models[0].pick, config.routing.unknown_models), (Pick::LeastLatency, UnknownModels::Reject));
    assert_eq!(config.model("b").map(|model| model.name.as_str()), Some("a"));
    assert_eq!(config.model("nope"), None);
    let rules = target.params.as_ref().unwrap();
    let body = r#"{"max_tokens":1,"seed":3}"#;
    let changed = rules.patches(body).apply(&bytes::Bytes::from_static(body.as_bytes()));
    assert_eq!(
        changed,
        r#"{"max_completion_tokens":1,"list":[1.5,{"a":true,"b":["sk-env-a"]}],"n":2,"r":{"effort":"sk-env-a"}}"#
    );
}

/// Two models of one name, a circle of aliases, weight zero everywhere, an unknown provider: all in one run.
#[test]
fn mistakes_of_models_are_all_named_at_once() {
    let text = format!(
        "{PROVIDER}default = true\n[[models]]\nname = 'a'\nalias = 'b'\n[[models]]\nname = 'b'\nalias = 'c'\n[[models]]\nname = 'c'\nalias = 'b'\n\
         [[models]]\nname = 'd'\nalias = 'e2'\n[[models]]\nname = 'e'\n[[models.targets]]\nprovider = 'pp'\nmodel = 'x'\nweight = 0\n\
         [[models]]\nname = 'e'\npick = 'fastest'\n[[models.targets]]\nprovider = 'p'\nmodel = 'x'\nwhen = {{ tool = true, min_input_tokens = 9, max_input_tokens = 8 }}\n\
         [models.targets.params]\nset = {{ model = 'y', n = 1, when = 2026-01-01, deep = [{{ a = '${{UNSET}}', b = ['${{UNSET}}'] }}] }}\ndefault = {{ n = 2 }}\ndrop = ['messages', 'a..b']\nrename = {{ x = 5, stream = 'z' }}\n\
         [[models]]\nname = 'f'\nalias = 'e'\n[[models.targets]]\nprovider = 'p'\nmodel = 'x'\n[routing]\nunknown_models = 'maybe'\n"
    );
    let mistakes = mistakes(&text);
    assert_says(&mistakes, "models[0].alias = \"b\"", &["circle: a -> b -> c -> b"]);
    assert_says(&mistakes, "models[1].alias = \"c\"", &["circle: b -> c -> b"]);
    assert_says(&mistakes, "models[2].alias = \"b\"", &["circle: c -> b -> c"]);
    assert_says(&mistakes, "models[3].alias = \"e2\"", &["[[models]]", "did you mean \"e\"?"]);
    assert_says(&mistakes, "models[4].targets: ", &["weights are 0"]);
    assert_says(&mistakes, "models[4].targets[0].provider = \"pp\"", &["did you mean \"p\"?"]);
    assert_says(&mistakes, "models[5].name = \"e\"", &["already"]);
    assert_says(&mistakes, "models[5].pick = \"fastest\"", &["\"weighted\", \"least-latency\""]);
    assert_says(&mistakes, "models[5].targets[0].when.tool", &["did you mean `tools`?"]);
    assert_says(&mistakes, "models[5].targets[0].when.min_input_tokens = 9", &["larger than max_input_tokens"]);
    assert_says(&mistakes, "models[5].targets[0].params.set.model = \"y\"", &["`model`"]);
    assert_says(&mistakes, "models[5].targets[0].params.set.when", &["JSON"]);
    assert_says(&mistakes, "models[5].targets[0].params.set.deep[0].a", &["UNSET"]);
    assert_says(&mistakes, "models[5].targets[0].params.set.deep[0].b[0]", &["UNSET"]);
    assert_says(&mistakes, "models[5].targets[0].params.default.n = 2", &["another rule"]);
    assert_says(&mistakes, "models[5].targets[0].params.rename.x = 5", &["a string"]);
    assert_says(&mistakes, "models[5].targets[0].params.rename.stream = \"z\"", &["`stream`"]);
    assert_says(&mistakes, "models[5].targets[0].params.drop", &["`messages`"]);
    assert!(mistakes.iter().any(|mistake| mistake.contains("`a..b` is no name")), "{mistakes:#?}");
    assert_says(&mistakes, "models[6].targets: stands beside", &["alias"]);
    assert_says(&mistakes, "routing.unknown_models = \"maybe\"", &["\"pass\", \"reject\""]);
    assert_eq!(mistakes.len(), 21, "{mistakes:#?}");
}

#[test]
fn the_table_of_failures_is_read_and_a_status_goes_over_its_class() {
    let text = format!(
        "{PROVIDER}default = true\n[retry]\nmax_total = 5\nmax_seconds = 0\n[retry.on]\n\"503\" = 'next'\n\"5xx\" = 'stop'\ntimeout = 'same'\n"
    );
    let retry = load(&text).unwrap().retry;
    assert_eq!((retry.max_total, retry.max_time), (5, Duration::ZERO));
    for (on, then) in [
        (On::Timeout, Then::Same),
        (On::Status(500), Then::Stop),
        (On::Status(599), Then::Stop),
        (On::Status(503), Then::Next),
        (On::Status(429), Then::Same),
    ] {
        assert_eq!(retry.on.then(on, false), then, "{on:?}");
    }
    assert_eq!(Retry::default().max_time, Duration::from_secs(600));
    let mistakes = mistakes(&format!(
        "{PROVIDER}default = true\n[retry.on]\n\"200\" = 'next'\nconect = 'stop'\n\"429\" = 'nxt'\n\"500\" = 5\n"
    ));
    assert_says(&mistakes, "retry.on.200 = \"next\"", &["from 400 to 599", "timeout"]);
    assert_says(&mistakes, "retry.on.conect = \"stop\"", &["connect"]);
    assert_says(&mistakes, "retry.on.429 = \"nxt\"", &["did you mean \"next\"?"]);
    assert_says(&mistakes, "retry.on.500 = 5", &["\"same\", \"next\", \"stop\""]);
    assert_eq!(mistakes.len(), 4, "{mistakes:#?}");
}
