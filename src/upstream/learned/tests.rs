use bytes::Bytes;
use http::HeaderMap;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::base::ManualClock;
use crate::memory::Sensitivity;
use crate::store::sql::{SqlStore, SqliteOptions};
use crate::store::{Store, TargetStore};
use crate::telemetry::Metrics;
use crate::tokens::{ModelTable, PriceChanges};
use crate::upstream::{Api, Auth, Provider, ProviderConfig, TargetConfig, When};

const NOW: Time = Time(1_750_000_000_000);
const DAY_MILLIS: i64 = 24 * 3_600_000;

fn learned() -> Learned {
    Learned::new(Arc::clone(&Metrics::new().targets))
}

fn target(model: &str, window: Option<usize>) -> Target {
    let provider = Provider::new(ProviderConfig {
        api: Api::default(),
        name: "p".to_owned(),
        base_url: "http://127.0.0.1:1/v1".to_owned(),
        auth: Auth::None,
        headers: HeaderMap::new(),
        max_sensitivity: Sensitivity::Sensitive,
        connect_timeout: std::time::Duration::from_secs(1),
    })
    .unwrap();
    let (provider, model) = (Arc::new(provider), model.to_owned());
    let config = TargetConfig {
        before: None,
        provider,
        model,
        window,
        max_output: None,
        price: PriceChanges::default(),
        order: 0,
        weight: 1,
        when: When::default(),
        params: None,
    };
    Target::configured(config, ModelTable::built_in())
}

fn request(content: Value) -> ChatRequest {
    let body = json!({"model": "m", "messages": [{"role": "user", "content": content}]});
    ChatRequest::decode(Bytes::from(body.to_string())).unwrap()
}

/// One exchange of `counted` tokens, of which upstream says what `usage` does.
fn exchange(learned: &Learned, target: &Target, content: Value, counted: usize, usage: Usage, at: i64) {
    let report = Report { sent: Some(counted), sent_uncorrected: Some(counted), ..Report::default() };
    let request = request(content);
    let _known = learned.known(target, NOW);
    learned.reported(&Reported { target: &target.label, request: &request, report: &report, usage, at: Time(at) });
}

fn usage(prompt_tokens: u64, cached_tokens: u64) -> Usage {
    Usage { prompt_tokens, cached_tokens, ..Usage::default() }
}

fn twenty(learned: &Learned, target: &Target) {
    for n in 1..=20 {
        exchange(learned, target, "text".into(), 100 * n, usage(150 * n as u64, 0), n as i64);
    }
}

fn overflow(window: usize, sent: Option<usize>) -> Overflow {
    Overflow { window: Some(window), sent }
}

#[test]
fn what_upstream_counts_is_learned_of_models_without_a_public_tokenizer() {
    let learned = learned();
    let (ours, openais) = (target("some-model", None), target("gpt-4o", None));
    for target in [&ours, &openais] {
        twenty(&learned, target);
    }
    let known = learned.known(&ours, NOW);
    assert!((known.correction.ratio - 1.5).abs() < 0.02, "{known:?}");
    assert_eq!(known.n_samples, 20);
    assert_eq!(learned.known(&openais, NOW), Known::default());
}

#[test]
fn images_and_requests_of_tools_teach_nothing() {
    let (learned, target) = (learned(), target("some-model", None));
    let image =
        json!([{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": "https://x.test/a.png"}}]);
    for n in 1..=9 {
        exchange(&learned, &target, image.clone(), 100 * n, usage(900, 0), n as i64);
        let report = Report { sent: Some(100), sent_uncorrected: Some(100), fixed: 60, ..Report::default() };
        let request = request("text".into());
        let exchange =
            Reported { target: &target.label, request: &request, report: &report, usage: usage(900, 0), at: NOW };
        learned.reported(&exchange);
    }
    assert_eq!(learned.known(&target, NOW), Known::default());
    let parts = json!([{"type": "text", "text": "only text"}]);
    exchange(&learned, &target, parts, 100, usage(150, 0), 1);
    assert_eq!(learned.known(&target, NOW).n_samples, 1);
}

/// OpenAI counts cached tokens in the prompt's; some providers leave them out.
#[test]
fn cached_tokens_do_not_mislead() {
    for leaves_out in [true, false] {
        let (learned, target) = (learned(), target("some-model", None));
        for n in 1..=30_u64 {
            let (whole, cached) = (150 * n, if n > 3 { 120 * n } else { 0 });
            let prompt = if leaves_out { whole - cached } else { whole };
            exchange(&learned, &target, "text".into(), 100 * n as usize, usage(prompt, cached), n as i64);
        }
        let known = learned.known(&target, NOW);
        assert!((known.correction.ratio - 1.5).abs() < 0.02, "{leaves_out}: {known:?}");
    }
}

#[test]
fn a_told_window_fills_an_unknown_one_and_lowers_a_known_one() {
    let learned = learned();
    let (unknown, known) = (target("some-model", None), target("gpt-4o", None));
    let told = |target: &Target, window| {
        learned.overflowed(target, &overflow(window, None), Some(300_000), NOW);
        target.window(learned.known(target, NOW).window)
    };
    assert_eq!(told(&unknown, 32_768), Some(32_768));
    assert_eq!(told(&unknown, 65_536), Some(32_768), "it only gets smaller");
    assert_eq!(told(&unknown, 16_384), Some(16_384));
    assert_eq!(told(&known, 200_000), Some(128_000), "the table says less");
    assert_eq!(told(&known, 64_000), Some(64_000));
    let later = NOW.plus_millis(8 * DAY_MILLIS);
    assert_eq!(unknown.window(learned.known(&unknown, later).window), None, "models grow");
}

#[test]
fn a_configured_window_stays_in_force() {
    let (learned, target) = (learned(), target("some-model", Some(100_000)));
    learned.overflowed(&target, &overflow(32_768, Some(40_000)), Some(40_000), NOW);
    assert_eq!(target.window(learned.known(&target, NOW).window), Some(100_000));
}

#[test]
fn a_window_that_cannot_be_is_not_believed() {
    let (learned, target) = (learned(), target("some-model", None));
    // A tiny request cannot have been too large.
    learned.overflowed(&target, &overflow(32_768, None), Some(50), NOW);
    assert_eq!(learned.known(&target, NOW).window, None);
    // It took more before.
    exchange(&learned, &target, "text".into(), 40_000, usage(40_000, 0), 1);
    learned.overflowed(&target, &overflow(32_768, None), Some(40_000), NOW);
    assert_eq!(learned.known(&target, NOW).window, None);
    // And a window is given up when more is taken.
    learned.overflowed(&target, &overflow(50_000, None), Some(60_000), NOW);
    assert_eq!(learned.known(&target, NOW).window, Some(50_000));
    exchange(&learned, &target, "text".into(), 55_000, usage(55_000, 0), 2);
    assert_eq!(learned.known(&target, NOW).window, None);
}

async fn kept(learned: &Learned, store: &Arc<SqlStore>) {
    let halt = CancellationToken::new();
    halt.cancel();
    keep(learned.clone(), Arc::clone(store) as Arc<dyn Store>, Arc::new(ManualClock::new(NOW)), halt).await;
}

#[tokio::test]
async fn what_was_learned_survives_a_restart_and_reaches_other_replicas() {
    let store = Arc::new(SqlStore::sqlite(SqliteOptions::default()).await.unwrap());
    let target = target("some-model", None);
    let (one, two) = (learned(), learned());
    twenty(&one, &target);
    exchange(&two, &target, "text".into(), 5_000, usage(7_500, 0), 77);
    two.overflowed(&target, &overflow(16_384, Some(20_000)), None, NOW);
    kept(&one, &store).await;
    // The second one meets the first one's row, merges, and writes.
    kept(&two, &store).await;
    kept(&one, &store).await;
    let restarted = learned();
    restarted.load(&*store).await.unwrap();
    for learned in [&one, &two, &restarted] {
        let known = learned.known(&target, NOW);
        assert_eq!((known.n_samples, known.window), (21, Some(16_384)));
        assert!((known.correction.ratio - 1.5).abs() < 0.02);
        assert_eq!(known, restarted.known(&target, NOW));
    }
    assert!(one.unwritten(NOW).is_empty());
}

#[tokio::test]
async fn a_write_that_lost_a_race_is_made_again() {
    let store = Arc::new(SqlStore::sqlite(SqliteOptions::default()).await.unwrap());
    let target = target("some-model", None);
    let (one, two) = (learned(), learned());
    twenty(&one, &target);
    twenty(&two, &target);
    for (learned, expected) in [(&one, true), (&two, false)] {
        for record in learned.unwritten(NOW) {
            let written = store.put_target(&record).await.unwrap();
            assert_eq!(written, expected);
            learned.written(&record, written);
        }
    }
    assert_eq!(two.unwritten(NOW).len(), 1);
}
