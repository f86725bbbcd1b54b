//! Erased is erased (design, promise 10): afterwards no file holds the words, the write-ahead log included.
//!
//! MemOS#2331, semantica-agi/semantica#1018, Significant-Gravitas/AutoGPT PR#12720.

use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;

use super::super::Backend;
use super::{open, options, pool};
use crate::base::{EpisodeId, ExchangeId, FactId, Random, SeededRandom};
use crate::embed::Generation;
use crate::memory::{Scope, Speaker};
use crate::store::contract::fixtures::*;
use crate::store::sql::{SqlStore, SqliteOptions};
use crate::store::{
    EpisodeStore, ExchangeStore, FactStore, JobFailure, LearnOutcome, NewVector, OutboxStore, ProposalStatus,
    ScopeStore, VectorStore,
};

const CANARY: &str = "canary-7f3a91";

#[tokio::test]
async fn after_an_erasure_no_file_holds_a_word_of_it() {
    let folder = TempDir::new().unwrap();
    let store = open(&folder).await;
    let victim = Scope::new("acme", "support", format!("{CANARY}@example.org"));
    let bystander = scope("bob");
    // Much, interleaved, with deletions all along, so that pages split, merge and are used again.
    for round in 0..5 {
        fill(&store, &victim, round, CANARY).await;
        fill(&store, &bystander, round + 100, "bystander").await;
    }
    churn(&store, &[&victim, &bystander]).await;
    assert!(found(folder.path(), CANARY) > 0, "the canary was never there");
    let erased = store.erase(&victim, NOW).await.unwrap();
    assert!(erased.complete);
    assert!(erased.counts.values().all(|count| *count > 0), "{:?}", erased.counts);
    assert_eq!(found(folder.path(), CANARY), 0);
    assert!(found(folder.path(), "bystander") > 0);
    assert!(store.fact(&bystander, FactId(100 * 1000 + 1)).await.unwrap().is_some());
    assert!(store.shown(&bystander, ExchangeId(100 * 1000)).await.unwrap().is_some());
    store.close().await;
    assert_eq!(found(folder.path(), CANARY), 0);
}

#[tokio::test]
async fn an_erasure_that_a_reader_holds_up_says_that_it_is_not_complete() {
    let folder = TempDir::new().unwrap();
    let mut store = open(&folder).await;
    let Backend::Sqlite(file) = &mut store.backend else { unreachable!("opened as a file") };
    file.checkpoint_wait = Duration::ZERO;
    let victim = scope("ann");
    fill(&store, &victim, 1, CANARY).await;
    // Another process, in the middle of reading an older state.
    let other = SqlStore::sqlite(options(&folder)).await.unwrap();
    let mut reading = pool(&other).begin().await.unwrap();
    let _: i64 = sqlx::query_scalar("SELECT count(*) FROM facts").fetch_one(&mut *reading).await.unwrap();
    assert!(!store.erase(&victim, NOW).await.unwrap().complete);
    reading.rollback().await.unwrap();
    assert!(store.erase(&victim, NOW).await.unwrap().complete, "asking again finishes it");
    assert_eq!(found(folder.path(), CANARY), 0);
}

#[tokio::test]
async fn an_erasure_in_a_database_too_large_to_rewrite_says_that_it_is_not_complete() {
    let folder = TempDir::new().unwrap();
    let store = SqlStore::sqlite(SqliteOptions { rewrite_below_bytes: 0, ..options(&folder) }).await.unwrap();
    fill(&store, &scope("ann"), 1, CANARY).await;
    let erased = store.erase(&scope("ann"), NOW).await.unwrap();
    assert!(!erased.complete && erased.counts["facts"] > 0);
}

/// Puts a word everywhere that words go, with some of it learned, given up and deleted.
async fn fill(store: &SqlStore, scope: &Scope, round: u128, word: &str) {
    let base = round * 1000;
    let text = |what: &str| format!("{word} {what} {}", "and so on ".repeat((round as usize * 37) % 90));
    let group: Vec<_> = (0..40)
        .map(|n| {
            let mut finished = finished(base + n, scope);
            let turn = finished.turn.as_mut().unwrap();
            turn.user[0].text = text("user");
            turn.reply.as_mut().unwrap().text = text("reply");
            let mut shown = shown(base + n);
            shown.detail = serde_json::json!({ "block": text("shown") });
            finished.shown = Some(shown);
            let (mut key, mut state) = state(scope, n as u8, i64::MAX);
            key.prefix[1] = round as u8;
            state.profile = text("profile").into();
            finished.state = Some((key, state));
            let used = crate::store::contract::usage::row_of(0, scope);
            finished.usage = Some(Box::new(crate::store::UsageRow { exchange: finished.exchange, ..used }));
            finished
        })
        .collect();
    store.append(&group).await.unwrap();
    keep_digest(store, scope, [round as u8; 32], [round as u8 + 1; 32], &text("digest")).await;
    let mut revision = store.scope_state(scope).await.unwrap().revision;
    // Half of it is learned, one is given up, the rest goes on waiting.
    let mut all = claim("me", 1000);
    all.now = NOW.plus_seconds(100_000);
    let claimed = store.claim(&all).await.unwrap();
    let (mine, others): (Vec<_>, Vec<_>) =
        claimed.into_iter().map(|c| c.turn).partition(|turn| (base..base + 20).contains(&turn.exchange.0));
    for turn in others {
        let failure = JobFailure { retry_at: Some(NOW), error: String::new(), now: NOW };
        store.fail("me", turn.exchange, &failure).await.unwrap();
    }
    for turn in &mine[..5] {
        crate::store::contract::windows::queue_one(store, turn.exchange.0).await;
    }
    let mut results = Vec::new();
    for turn in &mine[..19] {
        let n = turn.exchange.0;
        let mut learned = learned(n, scope, revision);
        learned.keep = true;
        let mut change = insert(n + 1, "note.a", &text("fact"));
        change.fact.evidence = vec![evidence(&text("quote"))];
        learned.changes = vec![change];
        learned.episodes = vec![episode(n + 1, Speaker::User, &text("episode"))];
        let mut proposal = proposal(n + 1, ProposalStatus::Accepted, Some(n + 1));
        proposal.candidate.evidence = evidence(&text("proposal"));
        learned.proposals = vec![proposal];
        revision += 1;
        results.push(learned);
    }
    let outcomes = store.learn("me", &results).await.unwrap();
    assert!(outcomes.iter().all(|o| matches!(o, LearnOutcome::Applied { .. })), "{outcomes:?}");
    put_vectors(store, scope, (1..15).map(|n| EpisodeId(base + n)), &text("vector")).await;
    let last = mine[19].exchange;
    let failure = JobFailure { retry_at: None, error: "no".to_owned(), now: NOW };
    store.fail("me", last, &failure).await.unwrap();
    for n in [3, 5, 8] {
        store.delete_fact(scope, FactId(base + n), NOW).await.unwrap();
    }
}

/// Vectors of two generations. They are bytes to a store; here they are words, so that they can be looked for.
async fn put_vectors(store: &SqlStore, scope: &Scope, episodes: impl Iterator<Item = EpisodeId> + Clone, body: &str) {
    for model in ["one", "two"] {
        let generation = Generation {
            model: model.to_owned(),
            dimension: None,
            query_prefix: String::new(),
            document_prefix: String::new(),
        };
        let id = store.use_generation(&generation, NOW).await.unwrap().id;
        assert!(store.lease_generation(&id, "me", NOW, Duration::from_secs(60)).await.unwrap());
        let made: Vec<_> = episodes
            .clone()
            .map(|episode| NewVector { scope: scope.clone(), episode, body: body.as_bytes().to_vec() })
            .collect();
        assert!(store.put_vectors(&id, "me", &made, None).await.unwrap());
    }
}

/// Puts and deletes episodes of two scopes in no order. Where pages merge, SQLite leaves copies of moved rows behind,
/// which `secure_delete` does not overwrite: without a rewrite of the file the test fails here.
async fn churn(store: &SqlStore, scopes: &[&Scope; 2]) {
    let random = SeededRandom::new(7);
    for _ in 0..30 {
        for (scope, word) in scopes.iter().zip([CANARY, "bystander"]) {
            let batch = (0..100).map(|_| {
                let text = format!("{word} {}", "x".repeat((random.next_u64() % 900) as usize));
                episode(u128::from(random.next_u64()), Speaker::User, &text)
            });
            let batch: Vec<_> = batch.collect();
            store.put_episodes(scope, &batch).await.unwrap();
            put_vectors(store, scope, batch.iter().map(|episode| episode.id), &format!("{word} vector")).await;
        }
        let thinned = sqlx::query("DELETE FROM episodes WHERE abs(rowid * 2654435761 + ?1) % 10 < 2")
            .bind(random.next_u64() as i64 >> 32);
        thinned.execute(pool(store)).await.unwrap();
    }
}

/// How often a word occurs in the files of a folder.
fn found(folder: &Path, word: &str) -> usize {
    let files = std::fs::read_dir(folder).unwrap();
    files
        .map(|file| {
            let bytes = std::fs::read(file.unwrap().path()).unwrap();
            memchr::memmem::find_iter(&bytes, word.as_bytes()).count()
        })
        .sum()
}
