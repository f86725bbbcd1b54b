//! A new configuration in a running process: what is taken, what is refused, and that nobody who is being served notices.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use backstory::mock::{MockHandle, Raw, Script};
use backstory::telemetry::ReloadOutcome;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::support::sse::{DONE, healthy};
use crate::support::{ADMIN_KEY, Ask, Got, Live, eventually};

const KEY: &str = "bk-live-0123456789abcdef";
const OTHER: &str = "bk-next-0123456789abcdef";

async fn upstream(script: Script) -> MockHandle {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    backstory::mock::start(listener, script, &TaskTracker::new(), CancellationToken::new()).await
}

fn provider(mock: &MockHandle) -> String {
    format!("[[providers]]\nname = \"up\"\nbase_url = \"{}\"\ndefault = true\n", mock.base_url())
}

fn key(secret: &str, lines: &str) -> String {
    format!("[[keys]]\nname = \"app\"\nkey = \"{secret}\"\nmemory = \"off\"\n{lines}\n")
}

fn admin() -> String {
    format!("[admin]\nkey = \"{ADMIN_KEY}\"\n")
}

fn body(stream: bool) -> Value {
    json!({"model": "mock", "stream": stream, "messages": [{"role": "user", "content": "Hello there"}]})
}

fn ask(live: &Live, secret: &str, stream: bool) -> Ask {
    Ask::new(live.addr, "POST", "/v1/chat/completions").key(secret).json(&body(stream))
}

async fn chat(live: &Live, secret: &str) -> Got {
    ask(live, secret, false).send().await
}

async fn start(text: &str) -> Live {
    Live::start(tempfile::tempdir().unwrap(), text).await
}

// agentgateway/agentgateway#3029, #1774: a rejected reload leaves the last good configuration in force and says so.
#[tokio::test]
async fn a_configuration_with_mistakes_is_refused_whole_and_all_of_them_are_told() {
    let mock = upstream(Script::Model).await;
    let good = admin() + &provider(&mock) + &key(KEY, "");
    let live = start(&good).await;
    let bad = admin() + &provider(&mock) + &key(OTHER, "models = 7\nno_such = 1\n") + "[retry]\nattempts = \"x\"\n";
    live.write(&bad);
    let got = live.operator("POST", "/admin/v1/reload").send().await;
    let told = got.must_be(400).json();
    let message = told["error"]["message"].as_str().unwrap();
    assert!(message.contains("generation 1") && message.contains("keys[0].models"), "{message}");
    assert_eq!(told["errors"].as_array().unwrap().len(), 3, "{told}");
    assert!(!told.to_string().contains(OTHER), "a key is never told");
    chat(&live, KEY).await.must_be(200);
    chat(&live, OTHER).await.must_be(401);
    let ready = live.ready().await;
    assert_eq!((ready["config_generation"].as_u64(), &ready["config_reload"]["outcome"]), (Some(1), &json!("refused")));
    assert_eq!(live.metric("backstory_config_reloads_total{outcome=\"refused\"}").await, 1.0);
    assert_eq!(live.metric("backstory_config_last_reload_successful").await, 0.0);
    // Put right, it is taken.
    let report = live.reload(&(admin() + &provider(&mock) + &key(OTHER, ""))).await;
    assert_eq!((report.outcome, report.generation), (ReloadOutcome::Applied, 2));
    assert_eq!(report.applied, ["keys[app].key"]);
    chat(&live, OTHER).await.must_be(200);
    chat(&live, KEY).await.must_be(401);
    assert_eq!(live.metric("backstory_config_generation").await, 2.0);
    assert_eq!(live.metric("backstory_config_last_reload_successful").await, 1.0);
    let last = live.operator("GET", "/admin/v1/reload").send().await.must_be(200).json();
    assert_eq!((&last["outcome"], &last["generation"]), (&json!("applied"), &json!(2)));
    Ask::new(live.addr, "POST", "/admin/v1/reload").key(OTHER).send().await.must_be_error(401);
    live.stop().await;
}

// The same issues: a change that needs a restart is named.
#[tokio::test]
async fn what_waits_for_a_restart_is_named_and_all_else_is_taken() {
    let mock = upstream(Script::Model).await;
    let base = provider(&mock) + &key(KEY, "");
    let live = start(&base).await;
    let report = live
        .reload(&format!("[server]\nlisten = \"127.0.0.1:9\"\n[retry]\nattempts = 3\n[extract]\nrules = false\n{base}"))
        .await;
    assert_eq!(report.outcome, ReloadOutcome::Applied);
    assert_eq!(report.applied, ["retry.attempts"]);
    assert_eq!(report.restart, ["extract.rules", "server.listen"]);
    // They wait until they are put back, or the process is started again.
    let report = live.reload(&format!("[server]\nlisten = \"127.0.0.1:9\"\n{base}")).await;
    assert_eq!(
        (report.applied.as_slice(), report.restart.as_slice()),
        (&["retry.attempts".to_owned()][..], &["server.listen".to_owned()][..])
    );
    let report = live.reload(&base).await;
    assert!(report.restart.is_empty());
    let report = live.reload(&base).await;
    assert_eq!(report.outcome, ReloadOutcome::Unchanged);
    // Whoever loses the half of a file does not open the gateway to everyone.
    let report = live.reload("[server]\nmax_concurrency = 5\n").await;
    assert_eq!(report.outcome, ReloadOutcome::Refused);
    assert!(report.errors[0].contains("restart"), "{:?}", report.errors);
    chat(&live, KEY).await.must_be(200);
    live.stop().await;
}

#[tokio::test]
async fn use_and_health_and_connections_outlive_the_configuration() {
    let (broken, sound) = (upstream(Script::Raw(Raw::error(500, "no"))).await, upstream(Script::Model).await);
    let text = |limit: u32, level: &str| {
        format!(
            "[telemetry]\nlevel = \"{level}\"\n[retry]\ncooldown_seconds = 600\n\
             [[providers]]\nname = \"a\"\nbase_url = \"{}\"\n[[providers]]\nname = \"b\"\nbase_url = \"{}\"\n\
             [[models]]\nname = \"mock\"\n[[models.targets]]\nprovider = \"a\"\nmodel = \"mock\"\norder = 1\n\
             [[models.targets]]\nprovider = \"b\"\nmodel = \"mock\"\norder = 2\n{}",
            broken.base_url(),
            sound.base_url(),
            key(KEY, &format!("requests_per_minute = {limit}\n"))
        )
    };
    let live = start(&text(5, "info")).await;
    for _ in 0..3 {
        let got = chat(&live, KEY).await.must_be(200);
        assert_eq!(got.header("x-backstory-target"), "b/mock; attempts=2");
    }
    let got = chat(&live, KEY).await.must_be(200);
    assert_eq!(got.header("x-backstory-target"), "b/mock; attempts=1", "the first one cools");
    let connections = sound.connections();
    assert_eq!(live.reload(&text(6, "warn")).await.applied, ["keys[app].requests_per_minute", "telemetry.level"]);
    let got = chat(&live, KEY).await.must_be(200);
    assert_eq!(got.header("x-backstory-target"), "b/mock; attempts=1", "it still does");
    assert_eq!(sound.connections(), connections, "connections stay");
    // Five of six are used; the bucket drains too slowly to matter.
    chat(&live, KEY).await.must_be(200);
    chat(&live, KEY).await.must_be_error(429);
    live.stop().await;
}

#[tokio::test]
async fn a_stream_that_runs_ends_under_the_configuration_it_began_with() {
    let mut raw = Raw::stream(healthy());
    raw.pieces[2].0 = Duration::from_millis(400);
    let (slow, next) = (upstream(Script::Raw(raw)).await, upstream(Script::Model).await);
    let live = start(&(provider(&slow) + &key(KEY, ""))).await;
    let mut running = ask(&live, KEY, true).open().await;
    running.read_until("Grüße").await;
    // Its key and its provider are gone.
    live.reload(&(provider(&next) + &key(OTHER, ""))).await;
    chat(&live, OTHER).await.must_be(200);
    chat(&live, KEY).await.must_be(401);
    let rest = running.rest().await;
    assert!(rest.text().ends_with(DONE) && !rest.broken, "{}", rest.text());
    assert_eq!((slow.accepted(), next.accepted()), (1, 1));
    live.stop().await;
}

// Issue: rolling reload under load loses no request.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn under_load_with_broken_files_in_between_no_request_is_lost() {
    const SWAPS: usize = 24;
    const CLIENTS: usize = 12;
    let (one, two) = (upstream(Script::Model).await, upstream(Script::Model).await);
    let text = |mock: &MockHandle, more: &str| provider(mock) + &key(KEY, "") + more;
    let live = start(&text(&one, "")).await;
    let (over, served) = (AtomicBool::new(false), AtomicUsize::new(0));
    let client = async |stream: bool| {
        while !over.load(Ordering::SeqCst) {
            let got = ask(&live, KEY, stream).send().await.must_be(200);
            assert!(!got.broken && (!stream || got.text().ends_with(DONE)), "{}", got.text());
            served.fetch_add(1, Ordering::SeqCst);
        }
    };
    let swap = async {
        for n in 0..SWAPS {
            let before = served.load(Ordering::SeqCst);
            let bad = live.reload("[[keys]\nthis is no TOML").await;
            assert_eq!(bad.outcome, ReloadOutcome::Refused);
            let (mock, more) = if n % 2 == 0 {
                (&two, "[budget]\nmemory_tokens = 500\n")
            } else {
                (&one, "[server]\nmax_concurrency = 500\n")
            };
            let good = live.reload(&text(mock, more)).await;
            assert_eq!((good.outcome, good.generation), (ReloadOutcome::Applied, n as u64 + 2));
            // Some are served by each of them.
            eventually("requests go on", || async { (served.load(Ordering::SeqCst) > before + 5).then_some(()) }).await;
        }
        over.store(true, Ordering::SeqCst);
    };
    let clients = futures_util::future::join_all((0..CLIENTS).map(|n| client(n % 2 == 0)));
    tokio::join!(clients, swap);
    assert!(one.accepted() > 10 && two.accepted() > 10, "both were asked");
    assert_eq!(live.metric("backstory_panics_total").await, 0.0);
    assert_eq!(live.metric("backstory_requests_in_flight").await, 0.0);
    live.stop().await;
}

// Kubernetes swaps what a mounted file leads to; editors write anew; secrets live in files of their own.
#[tokio::test]
async fn a_file_that_changes_is_taken_by_itself_and_one_that_is_being_written_is_not() {
    let mock = upstream(Script::Model).await;
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("secret"), KEY).unwrap();
    let text = "[server]\nwatch_seconds = 1\n".to_owned() + &provider(&mock) + &key("${file:secret}", "");
    let live = Live::start(folder, &text).await;
    chat(&live, KEY).await.must_be(200);
    std::fs::write(live.path("secret"), OTHER).unwrap();
    eventually("the new key is known", || async { (chat(&live, OTHER).await.status == 200).then_some(()) }).await;
    chat(&live, KEY).await.must_be(401);
    // Emptied by whoever is about to write it.
    std::fs::write(live.path("backstory.toml"), "").unwrap();
    eventually("it was looked at", || async {
        (live.metric("backstory_config_reloads_total{outcome=\"refused\"}").await > 0.0).then_some(())
    })
    .await;
    chat(&live, OTHER).await.must_be(200);
    live.stop().await;
}

#[tokio::test]
async fn fewer_requests_at_a_time_hold_once_those_that_run_have_ended() {
    let mut raw = Raw::stream(healthy());
    raw.pieces[2].0 = Duration::from_millis(300);
    let mock = upstream(Script::Raw(raw)).await;
    let text = |n: usize| format!("[server]\nmax_concurrency = {n}\n{}{}", provider(&mock), key(KEY, ""));
    let live = start(&text(3)).await;
    let mut running = Vec::new();
    for _ in 0..3 {
        running.push(ask(&live, KEY, true).open().await);
    }
    live.reload(&text(1)).await;
    ask(&live, KEY, true).send().await.must_be_error(503);
    for one in running {
        assert!(one.rest().await.text().ends_with(DONE), "none that runs is cut");
    }
    eventually("one is let in", || async { (ask(&live, KEY, true).send().await.status == 200).then_some(()) }).await;
    let held = eventually("a place is free", || async {
        let one = ask(&live, KEY, true).open().await;
        (one.status == 200).then_some(one)
    });
    let held = held.await;
    ask(&live, KEY, true).send().await.must_be_error(503);
    drop(held);
    live.reload(&text(2)).await;
    let both = eventually("two are let in", || async {
        let both = (ask(&live, KEY, true).open().await, ask(&live, KEY, true).open().await);
        (both.0.status == 200 && both.1.status == 200).then_some(both)
    });
    drop(both.await);
    live.stop().await;
}
