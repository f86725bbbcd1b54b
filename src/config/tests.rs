//! Whole files: what is read, and what is said about mistakes.

mod limits;

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::env::tests::MapEnv;
use super::*;
use crate::exchange::Limits;
use crate::store::qdrant::Quantization;
use crate::tokens::Rate;

const EVERY_KEY: &str = include_str!("../../config/backstory.toml");

fn load(text: &str) -> Result<Config, ConfigErrors> {
    load_with(text, &MapEnv::default(), &Overrides::default())
}

fn load_with(text: &str, env: &MapEnv, overrides: &Overrides) -> Result<Config, ConfigErrors> {
    Config::parse(text, Path::new("/etc/backstory.toml"), env, overrides)
}

/// The mistakes, one text each.
fn mistakes(text: &str) -> Vec<String> {
    load(text).expect_err("it has mistakes").errors.iter().map(ToString::to_string).collect()
}

fn assert_says(mistakes: &[String], path: &str, words: &[&str]) {
    let said = mistakes.iter().find(|mistake| mistake.starts_with(path));
    let said = said.unwrap_or_else(|| panic!("nothing about {path} in {mistakes:#?}"));
    for word in words {
        assert!(said.contains(word), "{word} in {said}");
    }
}

#[test]
fn the_example_file_holds_the_defaults() {
    let config = load(EVERY_KEY).unwrap();
    let default = Config::default();
    let shown = |c: &Config| {
        let place = (&c.server, &c.store, &c.vectors, &c.redis, &c.admin, &c.providers, &c.models, &c.keys, &c.routing);
        let limits = &c.limits;
        let rest = (&c.summary, &c.memory, &c.timeouts, &c.retry, &c.budget, &c.recall, &c.extract, &c.embeddings);
        format!("{place:#?}\n{limits:#?}\n{rest:#?}\n{:#?}\n{:#?}", c.rerank, c.telemetry)
    };
    assert_eq!(shown(&config), shown(&default));
    assert_eq!(config.unsupported(), Vec::<String>::new());
}

#[test]
fn an_empty_file_holds_the_defaults_apart_from_the_default_subject() {
    let config = load("").unwrap();
    assert_eq!(config.server, Server::default());
    assert!(config.providers[0].default && config.is_client_mode());
    assert_eq!(config.default_subject, None);
    assert_eq!(Config::default().default_subject.as_deref(), Some("me"));
}

/// The reader says what is allowed in each table; all of it is in the example file, and in the table that it belongs to.
#[test]
fn every_key_of_the_reader_is_in_the_example_file() {
    let probe = "zzzzzzzzzz = 1\n[[keys]]\nzzzzzzzzzz = 1\n[keys.budget]\nzzzzzzzzzz = 1\n[[providers]]\nzzzzzzzzzz = 1\n[[models]]\nzzzzzzzzzz = 1\n\
        [[models.targets]]\nzzzzzzzzzz = 1\n[models.targets.when]\nzzzzzzzzzz = 1\n[models.targets.params]\nzzzzzzzzzz = 1\n\
        [models.budget]\nzzzzzzzzzz = 1\n[models.limits]\nzzzzzzzzzz = 1\n[keys.each_subject]\nzzzzzzzzzz = 1\n\
        [limits]\nzzzzzzzzzz = 1\n[limits.each_tenant]\nzzzzzzzzzz = 1\n[limits.each_subject]\nzzzzzzzzzz = 1\n[limits.tenants.x]\nzzzzzzzzzz = 1\n[recall.weights]\nzzzzzzzzzz = 1\n[memory.namespaces.x]\nzzzzzzzzzz = 1\n"
        .to_owned()
        + &[
            "server", "store", "vectors", "redis", "admin", "summary", "memory", "timeouts", "retry", "budget",
            "recall", "routing",
        ]
        .iter()
        .chain(&["extract", "embeddings", "rerank", "telemetry"])
        .map(|section| format!("[{section}]\nzzzzzzzzzz = 1\n"))
        .collect::<String>();
    let mistakes = mistakes(&probe);
    let unknown: Vec<&String> = mistakes.iter().filter(|mistake| mistake.contains("zzzzzzzzzz: unknown key")).collect();
    assert_eq!(unknown.len(), 33, "{unknown:#?}");
    for mistake in unknown {
        let (path, allowed) = mistake.split_once(".zzzzzzzzzz: ").unwrap_or(("", mistake));
        let section: String = path
            .replace("[0]", "")
            .replace("memory.namespaces.x", "memory")
            .replace("limits.tenants.x", "limits.tenants.acme");
        let allowed = allowed.split_once("allowed: ").unwrap().1;
        for key in allowed.split(", ") {
            assert!(names_key(&section, key), "[{section}] {key} is not in config/backstory.toml");
        }
    }
}

/// Whether the example file sets the key in the table, or would without the comment sign, or has it as a table of its own.
fn names_key(section: &str, key: &str) -> bool {
    let full = if section.is_empty() { key.to_owned() } else { format!("{section}.{key}") };
    let mut current = String::new();
    for line in EVERY_KEY.lines() {
        let line = line.strip_prefix("# ").unwrap_or(line);
        if let Some(header) = line.strip_prefix('[') {
            current = header.trim_start_matches('[').split(']').next().unwrap_or_default().to_owned();
            if current == full || current.starts_with(&format!("{full}.")) {
                return true;
            }
        } else if current == section && line.split_once(" = ").is_some_and(|(name, _)| name == key) {
            return true;
        }
    }
    false
}

#[test]
fn every_commented_key_of_the_example_file_can_be_used() {
    let skip = [
        "# api_version = ",
        "# anthropic_version = ",
        "# url = ",
        "# [memory",
        "# admin_listen = ",
        "# provider = \"upstream\"  ",
        "# model = ",
        "# kind = ",
    ];
    let lines = EVERY_KEY.lines().map(|line| match line.strip_prefix("# ") {
        Some(rest) if rest.starts_with('[') || rest.contains(" = ") && !skip.iter().any(|s| line.starts_with(s)) => {
            rest
        }
        _ => line,
    });
    let mut text: String = lines.collect::<Vec<_>>().join("\n");
    // What excludes each other, and a file that is not there.
    text = text
        .replace("\napi_keys =", "\n#")
        .replace("\nca_file =", "\n#")
        .replace("\notlp_ca_file =", "\n#")
        .replace("\ntls_cert =", "\n#")
        .replace("\ntls_key =", "\n#")
        .replace("\nadmin_tls_cert =", "\n#")
        .replace("\nadmin_tls_key =", "\n#")
        .replace("\nalias =", "\n[[models.targets]]\nprice_input_per_million = 0.0\nprice_output_per_million = 0.0\n#");
    text = text.replace("\nkey_sha256 =", "\n#").replace("api_key = \"client\" ", "api_key = \"sk-1\" ");
    text = text.replace("api_key = \"${QDRANT_KEY}\"", "").replace("api_key = \"${RERANK_KEY}\"", "");
    let target = "[[models.targets]]\n";
    text = text.replace(target, &format!("{target}provider = \"upstream\"\nmodel = \"m\"\n"));
    text = text.replace("# provider = \"upstream\"", "#").replace("\nprovider = \"upstream\"   ", "\n#");
    let env = MapEnv::with(&[("TEAM_KEY", "k"), ("TEAM", "t"), ("BACKSTORY_ADMIN_KEY", "a"), ("OTLP_TOKEN", "o")]);
    let config = load_with(&text, &env, &Overrides::default()).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(config.keys.len(), 1);
    assert_eq!(config.models[0].targets[0].window, Some(128_000));
}

/// BerriAI/litellm#32962: an unknown key and a dangling name are both named at once.
#[test]
fn all_mistakes_are_reported_at_once() {
    let mistakes = mistakes(
        r#"
        [server]
        lisen = "127.0.0.1:1"
        drain_seconds = -5
        [[providers]]
        name = "main"
        base_url = "ftp://x"
        api_key = "sk-1"
        [[models]]
        name = "m"
        [[models.targets]]
        provider = "mian"
        model = "gpt"
        weight = 0
        [[models]]
        name = "m"
        [[keys]]
        key = "k1"
        tenant = ""
        models = ["n"]
        memory = "onn"
        subject_from = ["header", "usr"]
        [[keys]]
        key = "k1"
        [budget]
        low_water = 7
        [telemetry]
        level = "inof"
        "#,
    );
    assert_says(&mistakes, "server.lisen", &["unknown key", "did you mean `listen`?"]);
    assert_says(&mistakes, "server.drain_seconds = -5", &["from 0 to 86400"]);
    assert_says(&mistakes, "providers[0].base_url = \"ftp://x\"", &["http"]);
    assert_says(&mistakes, "models[0].targets[0].provider = \"mian\"", &["[[providers]]", "did you mean \"main\"?"]);
    assert_says(&mistakes, "models[0].targets: ", &["weights are 0"]);
    assert_says(&mistakes, "models[1].name = \"m\"", &["already"]);
    assert_says(&mistakes, "models[1].targets", &["at least one"]);
    assert_says(&mistakes, "keys[0].tenant = \"\"", &["empty"]);
    assert_says(&mistakes, "keys[0].models[0] = \"n\"", &["[[models]]", "\"m\""]);
    assert_says(&mistakes, "keys[0].memory = \"onn\"", &["\"on\", \"off\"", "did you mean \"on\"?"]);
    assert_says(&mistakes, "keys[0].subject_from", &["\"usr\"", "did you mean \"user\"?"]);
    assert_says(&mistakes, "keys[1].key: ", &["twice"]);
    assert_says(&mistakes, "budget.low_water = 7", &["0.1 to 1"]);
    assert_says(&mistakes, "telemetry.level = \"inof\"", &["info"]);
    assert_eq!(mistakes.len(), 14, "{mistakes:#?}");
}

/// mozilla-ai/any-llm#838: an unset variable is an error at start that names it, not an empty key.
#[test]
fn an_unset_variable_is_an_error_that_names_it() {
    let mistakes = mistakes(
        "[[keys]]\nkey = \"${NOT_SET_A}\"\n[admin]\nkey = \"${file:/not/there}\"\n[redis]\nprefix = \"${NOT_SET_B}\"",
    );
    assert_says(&mistakes, "keys[0].key", &["NOT_SET_A", "not set"]);
    assert_says(&mistakes, "admin.key", &["/not/there"]);
    assert_says(&mistakes, "redis.prefix", &["NOT_SET_B"]);
}

#[test]
fn variables_and_files_fill_any_string() {
    let mut env = MapEnv::with(&[("PORT", "9000"), ("TEAM", "blue")]);
    env.files.insert("/etc/secrets/key".into(), "sk-from-file\n".to_owned());
    let text = "[server]\nlisten = \"127.0.0.1:${PORT}\"\n[[providers]]\nname=\"p\"\nbase_url=\"http://h/v1/\"\napi_key=\"${file:secrets/key}\"\n\
        [[keys]]\nkey=\"k\"\nread_namespaces=[\"${TEAM}\"]";
    let config = load_with(text, &env, &Overrides::default()).unwrap();
    assert_eq!(config.server.listen.port(), 9000);
    assert_eq!(config.providers[0].base_url, "http://h/v1");
    assert!(matches!(&config.providers[0].api_key, Auth::Keys(keys) if keys[0].expose() == "sk-from-file"));
    assert_eq!(config.keys[0].read_namespaces, ["blue"]);
    assert_eq!(config.keys[0].sha256, Key::hash("k"));
}

/// BerriAI/litellm#18731: no key in an error.
#[test]
fn a_secret_is_in_no_message_and_no_debug_text() {
    let wrong = r#"
        [store]
        url = "postgres//user:canary@host/db"
        [[providers]]
        name = "p"
        base_url = "https://user:canary@host/v1?key=canary"
        api_kye = "canary"
        headers = { "bad name" = "canary", "x" = 5 }
        [[keys]]
        key = ["canary"]
        [[keys]]
        key_sha256 = "canary"
        [admin]
        key = """canary
        two"""
        [redis]
        url = "http://:canary@host"
    "#;
    let error = load(wrong).unwrap_err().to_string();
    assert!(error.contains("user") && !error.replace("postgres//user:canary@host", "").contains("canary"), "{error}");
    assert!(!ConfigErrors::to_string(&load("[admin]\nkey = \"canary\nx = \"").unwrap_err()).contains("canary"));

    let right = "[[providers]]\nname='p'\nbase_url='http://h'\napi_key='canary'\nheaders={a='canary'}\n[[keys]]\nkey='canary'\n\
        [admin]\nkey='canary'\n[redis]\nurl='redis://canary'\n[store]\nurl='postgres://canary'";
    assert!(!format!("{:?}", load(right).unwrap()).contains("canary"));
}

#[test]
fn broken_toml_says_where() {
    let error = load("[server]\nlisten = ").unwrap_err().to_string();
    assert!(error.contains("/etc/backstory.toml") && error.contains("line 2"), "{error}");
}

#[test]
fn the_clients_key_goes_to_one_provider_only_and_never_to_our_own_calls() {
    let two = "[[providers]]\nname='a'\nbase_url='http://a'\napi_key='client'\ndefault=true\n[[providers]]\nname='b'\nbase_url='http://b'\napi_key='client'\ndefault=true\n";
    let all = mistakes(&format!(
        "{two}[extract]\nprovider='a'\nmodel='m'\n[summary]\nprovider='a'\nmodel='m'\n[embeddings]\nengine='openai'\nprovider='a'\nmodel='m'"
    ));
    assert_says(&all, "providers[1].api_key", &["one provider only"]);
    assert_says(&all, "providers[1].default", &["providers[0]"]);
    for path in ["extract.provider", "summary.provider", "embeddings.provider"] {
        assert_says(&all, path, &["client's own key"]);
    }
    let keyed = mistakes("[[providers]]\nname='a'\nbase_url='http://a'\napi_key='client'\n[[keys]]\nkey='k'");
    assert_says(&keyed, "providers[0].api_key = \"client\"", &["[[keys]]"]);
    assert_says(&mistakes("[[keys]]\nkey='k'"), "providers[0].api_key", &["needs a key"]);
}

/// BerriAI/litellm#1851: no keys and not loopback: it refuses to start, and says why.
#[test]
fn an_open_address_without_keys_must_be_meant() {
    let overrides = |allow_open| Overrides { listen: Some("0.0.0.0:8080".into()), allow_open, ..Overrides::default() };
    let env = MapEnv::default();
    let error = Config::load_with(None, &env, &overrides(false)).unwrap_err().to_string();
    for word in ["0.0.0.0:8080", "[[keys]]", "127.0.0.1", "--allow-open", "anyone"] {
        assert!(error.contains(word), "{word} in {error}");
    }
    let open = Config::load_with(None, &env, &overrides(true)).unwrap();
    assert_eq!(open.default_subject, None, "never a shared default for strangers");
    let keyed = "[server]\nlisten='[::]:1'\n[[providers]]\nname='p'\nbase_url='http://h'\n[[keys]]\nkey='k'";
    assert!(load(keyed).is_ok());
    assert!(load("[server]\nlisten='[::1]:1'").is_ok());
}

#[test]
fn the_command_line_wins_and_is_checked() {
    let overrides = Overrides {
        listen: Some("127.0.0.1:1".into()),
        upstream: Some("http://127.0.0.1:2/v1/".into()),
        data: Some("/d".into()),
        allow_open: false,
    };
    let config =
        load_with("[server]\nlisten='127.0.0.1:9'\n[store]\ndata='/x'", &MapEnv::default(), &overrides).unwrap();
    assert_eq!(config.server.listen.port(), 1);
    assert_eq!(config.providers[0].base_url, "http://127.0.0.1:2/v1");
    assert!(matches!(config.store.url, StoreUrl::Embedded));
    assert_eq!(config.data_folder(&MapEnv::default()), Path::new("/d"));

    for url in ["sqlite:///x", "postgres://h/d"] {
        let both = Overrides { data: Some("/d".into()), ..Overrides::default() };
        let text = format!("[store]\nurl='{url}'");
        let error = load_with(&text, &MapEnv::default(), &both).unwrap_err().to_string();
        assert!(error.contains("--data") && error.contains("store.url"), "{error}");
    }

    let bad = Overrides { listen: Some("here".into()), upstream: Some("there".into()), ..Overrides::default() };
    let error = Config::load_with(None, &MapEnv::default(), &bad).unwrap_err();
    assert_eq!(error.errors.iter().map(|e| e.path.as_str()).collect::<Vec<_>>(), ["--listen", "--upstream"]);
}

#[test]
fn the_file_is_named_by_argument_or_variable() {
    let mut env = MapEnv::with(&[("BACKSTORY_CONFIG", "/b.toml")]);
    env.files.insert("/a.toml".into(), "[retry]\nattempts = 2".to_owned());
    env.files.insert("/b.toml".into(), "[retry]\nattempts = 3".to_owned());
    assert_eq!(Config::load(None, &env).unwrap().retry.attempts, 3);
    assert_eq!(Config::load(Some(Path::new("/a.toml")), &env).unwrap().retry.attempts, 2);
    let error = Config::load(Some(Path::new("/c.toml")), &env).unwrap_err().to_string();
    assert!(error.contains("/c.toml") && error.contains("cannot be read"), "{error}");
}

#[test]
fn namespaces_inherit_what_they_leave_out() {
    let config = load("[memory]\nmax_facts = 5\n[memory.namespaces.support]\nepisode_ttl_days = 3").unwrap();
    let rules = config.memory.of("support");
    assert_eq!((rules.max_facts, rules.episode_ttl), (5, Some(std::time::Duration::from_secs(3 * 86_400))));
    assert_eq!(config.memory.of("sales"), &config.memory.rules);
}

#[test]
fn what_this_build_cannot_do_is_named() {
    let text = "[store]\nurl='postgres://h/d'\n[vectors]\nengine='pgvector'\n\
        [redis]\nurl='redis://h'\n[extract]\nprovider='p'\nmodel='m'\nkeep_exchanges_days=1\nwindow_seconds=1\n[summary]\nprovider='p'\nmodel='m'\n\
        [embeddings]\nengine='local'\npath='x'\n[telemetry]\notlp_endpoint='http://h'\n\
        [[providers]]\nname='p'\nkind='anthropic'\nbase_url='http://h'\n";
    let said = load(text).unwrap().unsupported();
    assert_eq!(said, [""; 0]);
    let said = load("[extract]\nwindow_seconds=1").unwrap().unsupported();
    assert_eq!(said.len(), 1, "{said:#?}");
}

#[test]
fn what_tls_shows_is_read_and_checked_with_everything_else() {
    let mut env = MapEnv::default();
    for name in ["good.pem", "good.key", "expired.key"] {
        let path = format!("{}/tests/data/tls/{name}", env!("CARGO_MANIFEST_DIR"));
        env.files.insert(format!("/etc/{name}").into(), std::fs::read_to_string(path).unwrap());
    }
    let server = |lines: &str| load_with(&format!("[server]\n{lines}"), &env, &Overrides::default());
    let good = server("tls_cert='good.pem'\ntls_key='good.key'\n").unwrap();
    assert!(good.server.tls.is_some() && good.server.tls == good.server.tls_of_admin().cloned());
    let wrong = server(
        "tls_cert='good.pem'\ntls_key='expired.key'\nadmin_tls_cert='gone.pem'\nadmin_tls_key='good.key'\nadmin_listen='0.0.0.0:8080'\n",
    );
    let wrong: Vec<String> = wrong.unwrap_err().errors.iter().map(ToString::to_string).collect();
    assert_says(&wrong, "server.tls_key = \"expired.key\"", &["does not belong to the certificate"]);
    assert_says(&wrong, "server.admin_tls_cert = \"gone.pem\"", &["cannot be read"]);
    assert_says(&wrong, "server.admin_listen = \"0.0.0.0:8080\"", &["[admin] key", "--allow-open"]);
    let same = server("admin_listen='127.0.0.1:8080'\n").unwrap_err();
    assert!(same.to_string().contains("the same address"), "{same}");
}

#[test]
fn keys_and_models_have_budgets_of_their_own() {
    let text = "[[providers]]\nname='p'\nbase_url='http://h'\n[[models]]\nname='m'\n[[models.targets]]\nprovider='p'\nmodel='x'\n\
        [models.budget]\nmemory_tokens=0\n[[keys]]\nkey='k'\nmax_input_tokens=900\n[keys.budget]\nmax_input_tokens=1000\nprofile='task'\nlow_water=0.5\n";
    let config = load(text).unwrap();
    let (key, model) = (&config.keys[0].budget, &config.models[0].budget);
    assert_eq!((key.max_input_tokens, key.profile, key.low_water), (Some(900), Some(Profile::Task), Some(0.5)));
    assert_eq!((key.memory_tokens, model.memory_tokens, model.low_water), (None, Some(0), None));
    let wrong = mistakes("[[keys]]\nkey='k'\n[keys.budget]\nlow_water=7\noverflow='cut'\nmax_input_tokens=0");
    assert_says(&wrong, "keys[0].budget.low_water", &["0.1"]);
    assert_says(&wrong, "keys[0].budget.overflow", &["\"trim\""]);
    assert_says(&wrong, "keys[0].budget.max_input_tokens", &["1"]);
}

#[test]
fn weights_that_are_all_zero_are_refused() {
    let all = mistakes("[recall.weights]\nturn=0\nneighbours_long=0.0\nsession_long=0\n");
    assert_says(&all, "recall.weights", &["neighbours_long", "all 0"]);
    assert_eq!(all.len(), 1);
}

#[test]
fn pairs_that_need_each_other_are_checked() {
    let all = mistakes(
        "[server]\ntls_cert='c'\n[extract]\nmodel='m'\n[embeddings]\nengine='local'\n[vectors]\nengine='qdrant'\n[rerank]\nmodel='m'",
    );
    for path in ["server.tls_cert", "extract.model", "embeddings.engine", "vectors.engine", "rerank.model"] {
        assert_says(&all, path, &["needs"]);
    }
    assert_says(&mistakes("[vectors]\nengine='pgvector'"), "vectors.engine", &["postgres://"]);
}

#[test]
fn a_qdrant_server_is_named_with_its_port() {
    let config = load("[vectors]\nengine='qdrant'\nurl='http://h:6334/'\nhnsw_ef=64\nquantization='scalar'").unwrap();
    let options = config.vectors.qdrant().unwrap();
    assert_eq!((options.url.as_str(), options.hnsw_ef), ("http://h:6334", Some(64)));
    assert_eq!(options.quantization, Quantization::Scalar);
    assert!(load("").unwrap().vectors.qdrant().is_none());
    let wrong = mistakes("[vectors]\nengine='qdrant'\nurl='http://h'\ncollection_prefix='a/b'\nquantization='int8'");
    assert_says(&wrong, "vectors.url", &["6334"]);
    assert_says(&wrong, "vectors.collection_prefix", &["64 letters"]);
    assert_says(&wrong, "vectors.quantization", &["\"scalar\""]);
    assert_says(&mistakes("[vectors]\nurl='http://h:6334'"), "vectors.url", &["engine = \"qdrant\""]);
}

/// Keys of the example file and a few others, so that random files reach deep.
fn any_toml() -> impl Strategy<Value = String> {
    let keys: BTreeSet<String> = EVERY_KEY
        .lines()
        .filter_map(|line| line.trim_start_matches("# ").split_once(" = ").map(|(key, _)| key.to_owned()))
        .filter(|key| key.chars().all(|c| c.is_ascii_lowercase() || c == '_'))
        .collect();
    let headers: BTreeSet<String> = EVERY_KEY
        .lines()
        .map(|line| line.trim_start_matches("# "))
        .filter(|line| line.starts_with('['))
        .map(|line| line.split_inclusive(']').take_while(|part| part.ends_with(']')).collect())
        .collect();
    let value = prop_oneof![
        any::<i64>().prop_map(|n| n.to_string()),
        any::<f64>().prop_map(|n| format!("{n:?}").replace("inf", "inf").to_lowercase()),
        any::<bool>().prop_map(|b| b.to_string()),
        "[ -~]{0,12}".prop_map(|text| format!("{text:?}")),
        Just("[1, 'x', {}]".to_owned()),
        Just("{ a = 1 }".to_owned()),
        Just("'${X}$${file:/y}'".to_owned()),
        Just("1979-05-27".to_owned()),
        Just("'upstream'".to_owned()),
    ];
    let line = prop_oneof![
        4 => (proptest::sample::select(keys.into_iter().collect::<Vec<_>>()), value).prop_map(|(k, v)| format!("{k} = {v}")),
        1 => proptest::sample::select(headers.into_iter().collect::<Vec<_>>()),
    ];
    proptest::collection::vec(line, 0..30).prop_map(|lines| lines.join("\n"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn no_file_makes_the_loader_panic(text in any_toml()) {
        if let Err(error) = load(&text) {
            prop_assert!(!error.errors.is_empty() && !error.to_string().is_empty());
        }
    }

    #[test]
    fn no_text_makes_the_loader_panic(text in "\\PC{0,200}") {
        let _ = load(&text).map_err(|error| error.to_string());
    }

    #[test]
    fn no_bytes_make_the_loader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = load(&String::from_utf8_lossy(&bytes)).map_err(|error| error.to_string());
    }
}

#[test]
fn a_namespace_may_add_keys_and_mistakes_in_them_are_named() {
    let keys = |text: &str| format!("[memory.namespaces.support]\nkeys = '''\n{text}'''\n");
    let config = load(&keys("[[keys]]\nname = \"ticket.priority\"\ncritical = true\n")).unwrap();
    let schemas = config.memory.schemas();
    assert!(schemas.of("support").get("ticket.priority").is_some_and(|rule| rule.critical));
    assert!(schemas.of("support").get("diet.allergy").is_some(), "the built-in keys stay");
    assert!(schemas.of("sales").get("ticket.priority").is_none());

    let wrong = mistakes(&keys("[[keys]]\nname = \"identity.name\"\n[[keys]]\nname = \"a\"\ncolour = 3\n"));
    assert_says(&wrong, "memory.namespaces.support.keys", &["identity.name", "two of this name"]);
    assert_says(&wrong[1..], "memory.namespaces.support.keys", &["colour", "cardinality"]);
}
