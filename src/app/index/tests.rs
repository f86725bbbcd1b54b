//! Two processes over one store and one index.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::super::build::build_with;
use super::super::{App, Parts};
use super::*;
use crate::base::{EpisodeId, SystemClock, SystemRandom, Time};
use crate::config::{Config, Overrides, SystemEnv};
use crate::jobs::VectorPhase;
use crate::memory::{Episode, Recollection, Scope, Sensitivity, Speaker};
use crate::recall::{Exclude, Query};
use crate::store::{Faulty, ScopeKey};

const TEXTS: [&str; 5] = [
    "My bicycle has a puncture.",
    "The wooden pier at lake Inari was broken.",
    "The risotto turned out far too salty.",
    "Our cat hid behind the washing machine.",
    "The harbour is closed at night.",
];

/// A process that holds two episodes of each person.
async fn process<I: VectorIndex + 'static>(data: &Path, index: &Arc<I>, embeddings: &str) -> Arc<App> {
    let text = format!(
        "[store]\ndata='{}'\n[vectors]\nengine='qdrant'\nurl='http://127.0.0.1:1'\n[recall]\ndeadline_ms=2000\nheld_episodes=2\n{embeddings}",
        data.display()
    );
    let config = Config::parse(&text, Path::new("t.toml"), &SystemEnv, &Overrides::default()).unwrap();
    let parts = Parts { clock: Arc::new(SystemClock), random: Arc::new(SystemRandom) };
    build_with(&config, &SystemEnv, parts, Some(Arc::clone(index) as Arc<_>)).await.unwrap()
}

fn local() -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/embed/tiny-wordpiece");
    format!("[embeddings]\nengine='local'\npath='{folder}'")
}

fn ann() -> Scope {
    Scope::new("local", "main", "ann")
}

fn told(ids: std::ops::Range<u128>) -> Vec<Episode> {
    let episode = |n: u128| Episode {
        session: "s".to_owned(),
        position: 10 * n as i64,
        ..Episode::said(EpisodeId(n), TEXTS[n as usize], Speaker::User, Time(1_000_000))
    };
    ids.map(episode).collect()
}

/// Waits until something holds; it does within moments.
async fn until(mut holds: impl AsyncFnMut() -> bool) {
    tokio::time::timeout(Duration::from_secs(20), async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .expect("it comes to hold");
}

async fn serves(app: &App) {
    until(async || app.vectors.as_ref().is_some_and(|status| status.phase() == VectorPhase::Ready)).await;
}

async fn asked(app: &App, text: &str) -> Recollection {
    let query = Query {
        scopes: vec![ann()],
        text: text.to_owned(),
        before: None,
        now: Time(2_000_000),
        max_sensitivity: Sensitivity::Sensitive,
        exclude: Exclude::default(),
        said: Arc::default(),
        max_episodes: 5,
        vector: None,
    };
    app.recall.recall(&query).await.unwrap()
}

async fn finds(app: &App, text: &str) -> bool {
    !asked(app, text).await.episodes.is_empty()
}

const PIER: &str = "was my wooden pier at lake Inari broken";

#[tokio::test]
async fn what_is_older_than_memory_is_found_and_what_another_process_stored_too() {
    let folder = tempfile::tempdir().unwrap();
    let index = Arc::new(Faulty::default());
    let one = process(folder.path(), &index, &local()).await;
    one.store.put_episodes(&ann(), &told(0..4)).await.unwrap();
    serves(&one).await;
    until(async || finds(&one, PIER).await).await;
    let two = process(folder.path(), &index, &local()).await;
    serves(&two).await;
    assert!(finds(&two, PIER).await);
    let harbour = "is my harbour closed at night";
    assert!(!finds(&one, harbour).await && !finds(&two, harbour).await);
    // Neither is told that the other one wrote.
    two.store.put_episodes(&ann(), &told(4..5)).await.unwrap();
    until(async || finds(&one, harbour).await && finds(&two, harbour).await).await;
}

#[tokio::test]
async fn what_was_erased_is_shown_by_nobody_while_the_index_is_away_and_goes_when_it_is_back() {
    let folder = tempfile::tempdir().unwrap();
    let index = Arc::new(Faulty::default());
    let app = process(folder.path(), &index, "").await;
    app.store.put_episodes(&ann(), &told(0..5)).await.unwrap();
    serves(&app).await;
    until(async || finds(&app, PIER).await).await;
    index.is_away.store(true, Ordering::SeqCst);
    assert_eq!(asked(&app, PIER).await.degraded, Some("index"));
    assert!(app.readiness().1.contains("as told"), "it is said after one question: {}", app.readiness().1);
    app.store.erase(&ann(), app.clock.now()).await.unwrap();
    app.recall.invalidate(&ann());
    assert!(!finds(&app, PIER).await);
    index.is_away.store(false, Ordering::SeqCst);
    assert!(!finds(&app, PIER).await, "whatever the index still holds");
    until(async || index.erased.load(Ordering::SeqCst) == 5).await;
    assert_eq!(index.erase("local", ScopeKey::of(&ann())).await.unwrap(), 0);
}

#[tokio::test]
async fn memories_are_found_in_postgresql_and_erased_there() {
    let Some(index) = crate::store::pgvector::tests::fresh().await else { return };
    let folder = tempfile::tempdir().unwrap();
    let app = process(folder.path(), &index, &local()).await;
    app.store.put_episodes(&ann(), &told(0..5)).await.unwrap();
    serves(&app).await;
    until(async || finds(&app, PIER).await).await;
    assert!(asked(&app, PIER).await.degraded.is_none());
    app.store.erase(&ann(), app.clock.now()).await.unwrap();
    app.recall.invalidate(&ann());
    assert!(!finds(&app, PIER).await);
    let left = async || index.erase("local", ScopeKey::of(&ann())).await.unwrap();
    until(async || left().await == 0).await;
}

#[test]
fn the_index_is_the_one_that_is_configured() {
    let of = |text: &str| {
        let config = Config::parse(text, Path::new("t.toml"), &SystemEnv, &Overrides::default()).unwrap();
        index_of(&config).unwrap().map(|index| index.engine())
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let _inside = runtime.enter();
    assert_eq!(of(""), None);
    assert_eq!(of("[vectors]\nengine='qdrant'\nurl='http://127.0.0.1:1'"), Some("qdrant"));
    assert_eq!(of("[store]\nurl='postgres://ann@127.0.0.1:1/x'\n[vectors]\nengine='pgvector'"), Some("pgvector"));
}
