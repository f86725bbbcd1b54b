//! Files that are damaged, of another version, locked, read-only or full.

use std::time::Duration;

use tempfile::TempDir;

use super::{open, options, pool};
use crate::base::EpisodeId;
use crate::memory::Speaker;
use crate::store::contract::fixtures::{claim, episode, finished, insert, scope};
use crate::store::sql::{SqlStore, SqliteOptions};
use crate::store::{EpisodeStore, FactStore, OutboxStore, ScopeStore, StoreError, VectorStore};

#[tokio::test]
async fn a_file_that_is_no_database_is_unusable() {
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("backstory.db"), "this is a shopping list".repeat(400)).unwrap();
    let error = SqlStore::sqlite(options(&folder)).await.unwrap_err();
    assert!(matches!(&error, StoreError::Unusable(text) if text.contains("not a database")), "{error:?}");
}

#[tokio::test]
async fn a_damaged_file_is_unusable() {
    let folder = TempDir::new().unwrap();
    let store = open(&folder).await;
    store.apply(&scope("ann"), &[insert(1, "note.a", "x")]).await.unwrap();
    store.close().await;
    // All after the header page is overwritten.
    let path = folder.path().join("backstory.db");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[4096..].fill(0x5a);
    std::fs::write(&path, bytes).unwrap();
    let error = SqlStore::sqlite(options(&folder)).await.unwrap_err();
    assert!(matches!(&error, StoreError::Unusable(text) if text.contains("damaged")), "{error:?}");
}

#[tokio::test]
async fn a_database_of_a_newer_version_is_unusable_and_stays_as_it_is() {
    let folder = TempDir::new().unwrap();
    let store = open(&folder).await;
    sqlx::query("PRAGMA user_version = 99").execute(pool(&store)).await.unwrap();
    store.close().await;
    for _ in 0..2 {
        let error = SqlStore::sqlite(options(&folder)).await.unwrap_err();
        assert!(
            matches!(&error, StoreError::Unusable(text) if text.contains("99") && text.contains("newer")),
            "{error:?}"
        );
    }
}

#[tokio::test]
async fn a_file_that_cannot_be_opened_is_unavailable() {
    let folder = TempDir::new().unwrap();
    let missing = SqliteOptions::file(folder.path().join("no such folder").join("backstory.db"));
    let error = SqlStore::sqlite(missing).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
}

#[tokio::test]
async fn a_database_that_may_not_be_written_is_unavailable() {
    let folder = TempDir::new().unwrap();
    let store = open(&folder).await;
    // File modes do not bind every user that runs tests; this does.
    sqlx::query("PRAGMA query_only = on").execute(pool(&store)).await.unwrap();
    let error = store.append(&[finished(1, &scope("ann"))]).await.unwrap_err();
    assert!(matches!(&error, StoreError::Unavailable(text) if text.contains("read-only")), "{error:?}");
}

/// mem0ai/mem0#7196, AVIDS2/memorix#291: a lock is a health state, not an error of the driver.
#[tokio::test]
async fn a_locked_database_is_unavailable_until_the_lock_is_gone() {
    let folder = TempDir::new().unwrap();
    let patient = open(&folder).await;
    let hasty = SqliteOptions { busy_timeout: Duration::ZERO, ..options(&folder) };
    let hasty = SqlStore::sqlite(hasty).await.unwrap();
    let lock = patient.begin().await.unwrap();
    let error = hasty.append(&[finished(1, &scope("ann"))]).await.unwrap_err();
    assert!(matches!(&error, StoreError::Unavailable(text) if text.contains("locked")), "{error:?}");
    let error = hasty.claim(&claim("me", 1)).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
    // Readers are not held up.
    assert_eq!(hasty.depth().await.unwrap().waiting, 0);
    lock.undo().await;
    hasty.append(&[finished(1, &scope("ann"))]).await.unwrap();
}

#[tokio::test]
async fn a_full_disk_is_unavailable_and_loses_nothing_that_was_there() {
    let folder = TempDir::new().unwrap();
    open(&folder).await.close().await;
    let full = SqlStore::sqlite(SqliteOptions { max_pages: Some(200), ..options(&folder) }).await.unwrap();
    let mut kept = 0;
    let error = loop {
        let mut next = finished(kept + 1, &scope("ann"));
        next.turn.as_mut().unwrap().user[0].text = "x".repeat(20_000);
        match full.append(&[next]).await {
            Ok(()) => kept += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(&error, StoreError::Unavailable(text) if text.contains("full")), "{error:?}");
    assert!(kept > 0);
    assert_eq!(u128::from(full.depth().await.unwrap().waiting), kept);
    full.ping().await.unwrap();
    // There is room again: it goes on.
    full.close().await;
    open(&folder).await.append(&[finished(900, &scope("ann"))]).await.unwrap();
}

#[tokio::test]
async fn a_row_that_cannot_be_read_is_a_dead_letter_and_holds_nothing_up() {
    let folder = TempDir::new().unwrap();
    let store = open(&folder).await;
    store.append(&[finished(1, &scope("ann")), finished(2, &scope("bob"))]).await.unwrap();
    sqlx::query("UPDATE outbox SET turn = '{\"secret words\": 1}' WHERE seq = 1").execute(pool(&store)).await.unwrap();
    let claimed = store.claim(&claim("me", 10)).await.unwrap();
    assert_eq!(claimed.len(), 1);
    let depth = store.depth().await.unwrap();
    assert_eq!((depth.waiting, depth.dead), (1, 1));
    let why: String = sqlx::query_scalar("SELECT error FROM dead_letters").fetch_one(pool(&store)).await.unwrap();
    assert!(why.contains("table outbox, column body") && !why.contains("secret"), "{why}");
}

#[tokio::test]
async fn a_body_that_cannot_be_read_names_its_row_and_not_its_text() {
    let folder = TempDir::new().unwrap();
    let store = open(&folder).await;
    store.apply(&scope("ann"), &[insert(1, "note.a", "x")]).await.unwrap();
    sqlx::query("UPDATE facts SET body = '{\"value\": \"secret words\"}'").execute(pool(&store)).await.unwrap();
    let error = store.fact(&scope("ann"), crate::base::FactId(1)).await.unwrap_err().to_string();
    assert!(error.contains("table facts") && error.contains("fact_0") && !error.contains("secret"), "{error}");
}

// One row would stop the vectors of everybody, for good.
#[tokio::test]
async fn an_episode_that_cannot_be_read_does_not_hold_up_the_vectors_of_others() {
    let folder = TempDir::new().unwrap();
    let store = open(&folder).await;
    let ann = scope("ann");
    store.put_episodes(&ann, &[1, 2].map(|n| episode(n, Speaker::User, "told"))).await.unwrap();
    sqlx::query("UPDATE episodes SET body = '{}' WHERE id = ?")
        .bind(EpisodeId(1).to_string())
        .execute(pool(&store))
        .await
        .unwrap();
    let due = store.due_episodes("none", 0, 10).await.unwrap();
    assert_eq!((due.episodes.len(), due.unreadable, due.is_last), (1, 1, true));
    assert_eq!(store.vectors_of(&ann, "none", &[EpisodeId(1), EpisodeId(2)]).await.unwrap().len(), 1);
}
