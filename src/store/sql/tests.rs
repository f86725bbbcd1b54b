//! The contract suite on SQLite, in memory and on file; and what only a database in a file can get wrong.

mod canary;
mod faults;
pub(super) mod postgres;

use std::sync::Arc;

use sqlx::SqlitePool;
use tempfile::TempDir;

use super::session::Pool;
use super::{Durability, SqlStore, SqliteOptions};
use crate::memory::Scope;
use crate::store::contract::fixtures::{claim, finished, insert, scope, turn};
use crate::store::contract::{Opened, contract_suite};
use crate::store::{FactFilter, FactStore, OutboxStore, Page, ScopeStore, UpkeepStore};

async fn in_memory() -> Option<Opened> {
    let store = SqlStore::sqlite(SqliteOptions::default()).await.unwrap();
    Some(Opened { store: Arc::new(store), keep: Box::new(()) })
}

async fn on_file() -> Option<Opened> {
    let folder = TempDir::new().unwrap();
    Some(Opened { store: Arc::new(open(&folder).await), keep: Box::new(folder) })
}

contract_suite!(memory, crate::store::sql::tests::in_memory);
contract_suite!(file, crate::store::sql::tests::on_file);

fn options(folder: &TempDir) -> SqliteOptions {
    SqliteOptions::file(folder.path().join("backstory.db"))
}

async fn open(folder: &TempDir) -> SqlStore {
    SqlStore::sqlite(options(folder)).await.unwrap()
}

fn pool(store: &SqlStore) -> &SqlitePool {
    match &store.write {
        Pool::Sqlite(pool) => pool,
        Pool::Postgres(_) => unreachable!("opened as a file"),
    }
}

#[tokio::test]
async fn the_log_is_folded_in_while_others_write() {
    let folder = TempDir::new().unwrap();
    let store = open(&folder).await;
    // SQLite itself is not to do it.
    sqlx::query("PRAGMA wal_autocheckpoint = 0").execute(pool(&store)).await.unwrap();
    // Ten pages each.
    let text = "x".repeat(40_000);
    let mut folded = 0;
    for n in 0..4_000 {
        let mut exchange = finished(n, &scope("me"));
        exchange.turn.as_mut().unwrap().user[0].text.clone_from(&text);
        store.append(&[exchange]).await.unwrap();
        folded = std::fs::metadata(folder.path().join("backstory.db")).unwrap().len();
        if folded > 20 << 20 {
            break;
        }
    }
    assert!(folded > 20 << 20, "{folded} bytes are folded in, and nobody has closed the file");
}

#[tokio::test]
async fn a_database_is_durable_as_asked_and_overwrites_what_is_deleted() {
    for (durability, synchronous) in [(Durability::Process, 1), (Durability::Power, 2)] {
        let folder = TempDir::new().unwrap();
        let store = SqlStore::sqlite(SqliteOptions { durability, ..options(&folder) }).await.unwrap();
        let write = pool(&store);
        let pragma = async |sql: &'static str| sqlx::query_scalar::<_, i64>(sql).fetch_one(write).await.unwrap();
        assert_eq!(pragma("PRAGMA synchronous").await, synchronous);
        assert_eq!(pragma("PRAGMA secure_delete").await, 1);
        let journal: String = sqlx::query_scalar("PRAGMA journal_mode").fetch_one(write).await.unwrap();
        assert_eq!(journal, "wal");
    }
}

#[tokio::test]
async fn what_was_appended_is_there_after_the_store_is_gone_without_a_word() {
    let folder = TempDir::new().unwrap();
    let store = open(&folder).await;
    store.append(&[finished(1, &scope("ann"))]).await.unwrap();
    // As a killed process leaves it: nothing is closed, the write-ahead log is not folded in.
    std::mem::forget(store);
    let again = open(&folder).await;
    let claimed = again.claim(&claim("me", 10)).await.unwrap();
    assert_eq!(claimed[0].turn, turn(1, &scope("ann")));
}

/// TrueMemory#256, ruvnet/ruflo#2878, mem0ai/mem0#7196: eight writers with ten statements each, none is lost, and
/// "database is locked" never surfaces.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_writers_in_two_processes_lose_nothing() {
    let folder = TempDir::new().unwrap();
    let stores = [open(&folder).await, open(&folder).await];
    let ann = scope("ann");
    let writers = (0..8_u128).map(|writer| {
        let (store, ann) = (stores[writer as usize % 2].clone(), ann.clone());
        async move {
            for n in 0..10 {
                let id = writer * 10 + n + 1;
                store.apply(&ann, &[insert(id, "note.a", &format!("statement {id}"))]).await.unwrap();
                store.append(&[finished(id, &ann)]).await.unwrap();
            }
        }
    });
    let tracker = tokio_util::task::TaskTracker::new();
    let handles: Vec<_> = writers.map(|writer| tracker.spawn(writer)).collect();
    for handle in handles {
        handle.await.unwrap();
    }
    let facts = stores[0].list_facts(&ann, &FactFilter::default(), &Page::first(1000)).await.unwrap();
    assert_eq!(facts.len(), 80);
    assert_eq!(stores[1].scope_state(&ann).await.unwrap().revision, 80);
    assert_eq!(stores[1].depth().await.unwrap().waiting, 80);
}

#[tokio::test]
async fn processes_that_start_at_once_on_a_new_file_all_get_in() {
    let folder = TempDir::new().unwrap();
    let opened = futures_util::future::join_all((0..4).map(|_| SqlStore::sqlite(options(&folder)))).await;
    let mut secrets = std::collections::HashSet::new();
    for store in opened {
        let store = store.unwrap();
        store.ping().await.unwrap();
        secrets.insert(store.salt);
    }
    assert_eq!(secrets.len(), 1, "all know the same tombstones");
}

/// Each exchange is claimed by one of two processes, never by both.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_never_claim_the_same_exchange() {
    let folder = TempDir::new().unwrap();
    let stores = [open(&folder).await, open(&folder).await];
    let group: Vec<_> = (1..=200).map(|n| finished(n, &Scope::new("acme", "support", format!("s{n}")))).collect();
    stores[0].append(&group).await.unwrap();
    let drain = async |store: &SqlStore, owner: &str| {
        let mut mine = Vec::new();
        loop {
            let claimed = store.claim(&claim(owner, 7)).await.unwrap();
            if claimed.is_empty() {
                return mine;
            }
            mine.extend(claimed.into_iter().map(|c| c.turn.exchange));
        }
    };
    let (mut all, more) = tokio::join!(drain(&stores[0], "a"), drain(&stores[1], "b"));
    all.extend(more);
    all.sort_unstable();
    assert_eq!(all, group.iter().map(|f| f.exchange).collect::<Vec<_>>());
}

/// What a killed process had leased does not wait for the end of the lease, unless its owner may be alive.
#[tokio::test]
async fn leases_of_dead_processes_end_when_the_next_one_starts() {
    let folder = TempDir::new().unwrap();
    let store = open(&folder).await;
    store.append(&[finished(1, &scope("ann"))]).await.unwrap();
    assert_eq!(store.claim(&claim("dead", 10)).await.unwrap().len(), 1);
    let beside = open(&folder).await;
    assert_eq!(beside.claim(&claim("other", 10)).await.unwrap().len(), 0, "its owner is alive");
    store.close().await;
    beside.close().await;
    drop((store, beside));
    let next = open(&folder).await;
    assert_eq!(next.claim(&claim("next", 10)).await.unwrap().len(), 1);
}

#[tokio::test]
async fn who_has_ended_writing_can_be_read_still() {
    let folder = TempDir::new().unwrap();
    let store = open(&folder).await;
    store.append(&[finished(1, &scope("ann"))]).await.unwrap();
    store.end_writing().await;
    assert!(store.append(&[finished(2, &scope("ann"))]).await.is_err());
    assert_eq!(store.depth().await.unwrap().waiting, 1);
}

#[test]
fn each_step_of_the_schema_is_there_for_both_databases() {
    let steps = |database: &str| -> std::collections::BTreeSet<_> {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations").join(database);
        std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name()).collect()
    };
    assert_eq!(steps("sqlite"), steps("postgres"));
    assert!(steps("sqlite").len() > 10);
}
