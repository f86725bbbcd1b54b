//! The program itself: its start, its end, and what outlives it.

use std::io::Write as _;

use backstory::mock::{MockHandle, Raw, Script, start};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::support::client::Ask;
use crate::support::sse::{DONE, healthy};
use crate::support::{Binary, Got, binary, eventually};

async fn upstream(script: Script) -> MockHandle {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    start(listener, script, &TaskTracker::new(), CancellationToken::new()).await
}

async fn serve(mock: &MockHandle, data: &TempDir) -> Binary {
    Binary::serve(&["--upstream", &mock.base_url(), "--data", data.path().to_str().unwrap()]).await
}

const OWN: &str = "sk-own-0123456789";

/// A chat request of a client that knows nothing of us.
async fn chat(binary: &Binary, messages: Value, stream: bool) -> Got {
    let body = json!({"model": "mock", "stream": stream, "messages": messages});
    Ask::new(binary.addr, "POST", "/v1/chat/completions").key(OWN).json(&body).send().await.must_be(200)
}

fn user(text: &str) -> Value {
    json!([{"role": "user", "content": text}])
}

async fn facts(binary: &Binary) -> Vec<String> {
    let ask = Ask::new(binary.addr, "GET", "/memory/v1/facts?current=true&limit=200").key(OWN);
    let got = ask.send().await.must_be(200).json();
    got["data"].as_array().unwrap().iter().map(|fact| fact["value"].to_string()).collect()
}

async fn metric(binary: &Binary, name: &str) -> f64 {
    let got = Ask::new(binary.addr, "GET", "/metrics").send().await.must_be(200);
    let line = got.text().lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("no {name}")).to_owned();
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

// Design, section 10: the first command of the README.
#[tokio::test]
async fn with_no_config_it_starts_on_loopback_passes_the_clients_key_and_says_who_me_is() {
    let mock = upstream(Script::Model).await;
    let data = tempfile::tempdir().unwrap();
    let gateway = serve(&mock, &data).await;
    assert_eq!(gateway.banner.lines().count(), 5, "{}", gateway.banner);
    for part in ["127.0.0.1", "`me`", "base_url", data.path().to_str().unwrap(), &mock.base_url()] {
        assert!(gateway.banner.contains(part), "{part} in {}", gateway.banner);
    }
    chat(&gateway, user("Hello there"), false).await;
    assert_eq!(mock.last_request().unwrap().header("authorization"), Some("Bearer sk-own-0123456789"));
}

// Design: the main promise, with no header at all.
#[tokio::test]
async fn with_no_config_what_was_told_in_one_conversation_is_shown_in_the_next() {
    let mock = upstream(Script::Model).await;
    let data = tempfile::tempdir().unwrap();
    let gateway = serve(&mock, &data).await;
    chat(&gateway, user("I'm allergic to peanuts."), true).await;
    eventually("it is learned", || async { (!facts(&gateway).await.is_empty()).then_some(()) }).await;
    let got = chat(&gateway, user("What should I cook tonight?"), false).await;
    assert!(got.memory().starts_with("hit; facts=1"), "{}", got.memory());
    assert!(got.text().contains("peanuts"), "the model was told: {}", got.text());
}

// Design, promise 7.
#[tokio::test]
async fn after_kill_9_every_acknowledged_exchange_is_learned_at_the_next_start() {
    let mock = upstream(Script::Fixed("I see.".to_owned())).await;
    let data = tempfile::tempdir().unwrap();
    // Patient: how soon a busy machine commits is not what is tested.
    let file = config(&format!(
        "[store]\nacknowledge_wait_ms = 30000\n[[providers]]\nname = \"up\"\nbase_url = \"{}\"\n[[keys]]\nkey = \"{OWN}\"\ndefault_subject = \"me\"\n",
        mock.base_url()
    ));
    let args = ["--config", file.path().to_str().unwrap(), "--data", data.path().to_str().unwrap()];
    let mut gateway = Binary::serve(&args).await;
    let tell = |n: usize| {
        let gateway = &gateway;
        async move {
            let text = format!("Remember that locker {n} opens with zebra{n}x.");
            let got = chat(gateway, user(&text), n.is_multiple_of(2)).await;
            assert!(!got.broken);
        }
    };
    futures_util::future::join_all((0..20).map(tell)).await;
    let released = metric(&gateway, "backstory_outbox_released").await;
    gateway.kill();
    assert!(released == 0.0, "{released} ends were released before they were durable");
    let gateway = Binary::serve(&args).await;
    eventually("all of it is learned", || async {
        let facts = facts(&gateway).await.join("\n");
        (0..20).all(|n| facts.contains(&format!("zebra{n}x"))).then_some(())
    })
    .await;
    assert_eq!(facts(&gateway).await.len(), 20, "each is there once");
}

// PostHog/posthog PR#73863; langwatch/langwatch#6941.
#[tokio::test]
async fn sigterm_in_a_stream_lets_it_end_as_it_should_and_the_exit_code_is_0() {
    let mut raw = Raw::stream(healthy());
    raw.pieces[2].0 = std::time::Duration::from_millis(500);
    let mock = upstream(Script::Raw(raw)).await;
    let data = tempfile::tempdir().unwrap();
    let mut gateway = serve(&mock, &data).await;
    let body = json!({"model": "mock", "stream": true, "messages": user("Hello there")});
    let ask = Ask::new(gateway.addr, "POST", "/v1/chat/completions").json(&body);
    let mut running = ask.open().await;
    running.read_until("Grüße").await;
    gateway.terminate();
    let rest = running.rest().await;
    assert!(rest.text().ends_with(DONE) && !rest.broken, "{}", rest.text());
    let status = gateway.ended().await;
    assert_eq!(status.code(), Some(0));
    let log = gateway.log();
    assert!(log.contains("stopping"), "{log}");
}

// Issue 7, point 3; through the real process, as `systemctl reload` does it.
#[cfg(unix)]
#[tokio::test]
async fn sighup_takes_a_new_configuration_and_keeps_the_old_one_for_a_broken_file() {
    let mock = upstream(Script::Model).await;
    let data = tempfile::tempdir().unwrap();
    let text = |key: &str| {
        format!(
            "[server]\nwatch_seconds = 0\n[[providers]]\nname = \"up\"\nbase_url = \"{}\"\n[[keys]]\nkey = \"{key}\"\nmemory = \"off\"\n",
            mock.base_url()
        )
    };
    let file = config(&text("bk-first-0123456789"));
    let args = ["--config", file.path().to_str().unwrap(), "--data", data.path().to_str().unwrap()];
    let mut gateway = Binary::serve(&args).await;
    let (binary, pid) = (&gateway, gateway.child.id().to_string());
    let hang_up = || assert!(std::process::Command::new("kill").args(["-HUP", &pid]).status().unwrap().success());
    let status = async |key: &str| {
        let body = json!({"model": "mock", "messages": user("Hello there")});
        Ask::new(binary.addr, "POST", "/v1/chat/completions").key(key).json(&body).send().await.status.as_u16()
    };
    assert_eq!(status("bk-first-0123456789").await, 200);
    std::fs::write(file.path(), "[[keys]]\nkey = 7\n").unwrap();
    hang_up();
    eventually("it was refused", || async {
        (metric(binary, "backstory_config_reloads_total{outcome=\"refused\"}").await == 1.0).then_some(())
    })
    .await;
    assert_eq!(status("bk-first-0123456789").await, 200);
    std::fs::write(file.path(), text("bk-second-0123456789")).unwrap();
    hang_up();
    eventually("it was taken", || async { (status("bk-second-0123456789").await == 200).then_some(()) }).await;
    assert_eq!(status("bk-first-0123456789").await, 401);
    gateway.terminate();
    assert_eq!(gateway.ended().await.code(), Some(0));
}

// BerriAI/litellm#1851.
#[tokio::test]
async fn without_keys_and_not_on_loopback_it_refuses_to_start_and_says_why() {
    let data = tempfile::tempdir().unwrap();
    let args = ["serve", "--listen", "0.0.0.0:0", "--data", data.path().to_str().unwrap()];
    let (code, _, said) = binary::run(&args, &[]).await;
    assert_ne!(code, 0);
    assert!(said.contains("keys") && said.contains("--allow-open"), "{said}");
}

fn config(text: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::with_suffix(".toml").unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

// mozilla-ai/any-llm#838.
#[tokio::test]
async fn an_unset_variable_is_an_error_at_start_that_names_it() {
    let file = config(
        "[[keys]]\nkey = \"${NOT_SET_ANYWHERE}\"\n[[providers]]\nname = \"up\"\nbase_url = \"http://127.0.0.1:1/v1\"\n",
    );
    let path = file.path().to_str().unwrap();
    for command in ["serve", "check"] {
        let (code, _, said) = binary::run(&[command, "--config", path], &[]).await;
        assert_ne!(code, 0, "{command}");
        assert!(said.contains("NOT_SET_ANYWHERE"), "{command}: {said}");
    }
    let (code, _, said) =
        binary::run(&["check", "--config", path], &[("NOT_SET_ANYWHERE", "bk-0123456789abcdef")]).await;
    assert_eq!(code, 0, "{said}");
}

// BerriAI/litellm#32962.
#[tokio::test]
async fn check_names_an_unknown_key_and_a_dangling_name_at_once() {
    let file = config(
        "[server]\nlisen = \"x\"\n[[models]]\nname = \"a\"\n[[models.targets]]\nprovider = \"nobody\"\nmodel = \"m\"\n",
    );
    let (code, _, said) = binary::run(&["check", "--config", file.path().to_str().unwrap()], &[]).await;
    assert_ne!(code, 0);
    assert!(said.contains("lisen") && said.contains("nobody"), "{said}");
}

// Design, section 10: no prompt, no memory and no key in what the program writes, however much it is asked to.
#[tokio::test]
async fn at_the_loudest_level_the_log_holds_no_prompt_memory_or_key() {
    let mock = upstream(Script::Fixed("canaryreply".to_owned())).await;
    let data = tempfile::tempdir().unwrap();
    let file = config(&format!(
        "[[providers]]\nname = \"up\"\nbase_url = \"{}\"\napi_key = \"sk-canaryprovider0123\"\n[[keys]]\nkey = \"bk-canarykey0123456789\"\n[telemetry]\nlevel = \"trace\"\n",
        mock.base_url()
    ));
    let args = ["--config", file.path().to_str().unwrap(), "--data", data.path().to_str().unwrap()];
    let mut gateway = Binary::serve(&args).await;
    let body = json!({"model": "mock", "messages": user("Remember that my canarymemory is blue.")});
    let ask = Ask::new(gateway.addr, "POST", "/v1/chat/completions").key("bk-canarykey0123456789").json(&body);
    ask.user("canarysubject").send().await.must_be(200);
    gateway.terminate();
    // A full pipe would hold the process up, so it is read while it ends.
    let mut stderr = gateway.child.stderr.take().unwrap();
    let log = tokio::task::spawn_blocking(move || {
        let mut text = String::new();
        std::io::Read::read_to_string(&mut stderr, &mut text).unwrap();
        text
    });
    let log = log.await.unwrap();
    assert!(gateway.ended().await.success());
    assert!(!log.is_empty());
    for canary in ["canarymemory", "canaryreply", "canarykey", "canaryprovider", "canarysubject"] {
        let line = log.lines().find(|line| line.contains(canary));
        assert!(line.is_none(), "{line:?}");
    }
}
