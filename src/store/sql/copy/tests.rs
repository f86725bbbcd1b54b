//! That every table is copied whole, and that a run takes up what was left.

use std::collections::BTreeSet;

use tempfile::TempDir;

use super::*;
use crate::base::FactId;
use crate::store::contract::fixtures::{NOW, insert, scope};
use crate::store::contract::scopes::fill;
use crate::store::sql::query::{query_as, query_scalar};
use crate::store::sql::tests::postgres::{Database, connect};
use crate::store::sql::text::Sql;
use crate::store::sql::{SqlStore, SqliteOptions};
use crate::store::{FactFilter, FactStore, Page, ScopeStore};

static NAMES: Sql = Sql::pair(
    "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite!_%' ESCAPE '!'",
    "SELECT table_name::text FROM information_schema.tables
     WHERE table_schema = current_schema() AND table_name <> 'schema_version'
       AND NOT (SELECT relispartition FROM pg_class WHERE oid = to_regclass(table_name))",
);

static COLUMNS: Sql = Sql::pair(
    "SELECT p.name, lower(p.type) FROM pragma_table_info(?1) p",
    "SELECT column_name::text, data_type::text FROM information_schema.columns
     WHERE table_schema = current_schema() AND table_name = ?1",
);

fn kind(is_sqlite: bool, told: &str) -> Kind {
    match told {
        "integer" | "bigint" => Kind::Int,
        "boolean" if !is_sqlite => Kind::Bool,
        "text" => Kind::Text,
        "blob" | "bytea" => Kind::Bytes,
        other => panic!("unknown type {other}"),
    }
}

async fn has_all(store: &SqlStore) {
    let is_sqlite = store.read.dialect() == Dialect::Sqlite;
    let names: Vec<String> = query_scalar(&NAMES).fetch_all(&store.read).await.unwrap();
    let known: BTreeSet<_> = TABLES.iter().map(|table| table.name.to_owned()).collect();
    assert_eq!(names.into_iter().collect::<BTreeSet<_>>(), known);
    for table in TABLES {
        let found: Vec<(String, String)> = query_as(&COLUMNS).bind(table.name).fetch_all(&store.read).await.unwrap();
        let found: BTreeSet<_> = found.into_iter().map(|(name, told)| (name, kind(is_sqlite, &told) as u8)).collect();
        // SQLite has no truth values of its own.
        let told = |kind: Kind| if is_sqlite && kind == Kind::Bool { Kind::Int } else { kind };
        let known = table.columns.iter().map(|(name, kind)| ((*name).to_owned(), told(*kind) as u8));
        assert_eq!(found, known.collect::<BTreeSet<_>>(), "{}", table.name);
    }
}

#[tokio::test]
async fn every_table_and_column_is_copied() {
    has_all(&SqlStore::sqlite(SqliteOptions::default()).await.unwrap()).await;
    let Some(database) = Database::fresh().await else { return };
    has_all(&connect(&database).await).await;
}

async fn source(folder: &TempDir) -> SqlStore {
    SqlStore::sqlite(SqliteOptions::file(folder.path().join("source.db"))).await.unwrap()
}

#[tokio::test]
async fn a_copy_is_the_same_and_later_runs_take_up_what_changed() {
    let Some(database) = Database::fresh().await else { return };
    let folder = TempDir::new().unwrap();
    let from = source(&folder).await;
    fill(&from, &scope("ann")).await;
    from.apply(&scope("bob"), &[insert(70, "profile.home", "Lima")]).await.unwrap();
    let to = connect(&database).await;
    let first = from.copy_to(&to, |_| {}).await.unwrap();
    assert!(first.iter().any(|table| table.table == "facts" && table.written > 0), "{first:?}");
    let again = from.copy_to(&to, |_| {}).await.unwrap();
    assert!(again.iter().all(Copied::was_same), "{again:?}");
    // The gateway on the source goes on.
    from.erase(&scope("bob"), NOW).await.unwrap();
    from.apply(&scope("ann"), &[insert(77, "profile.home", "Rome")]).await.unwrap();
    let third = from.copy_to(&to, |_| {}).await.unwrap();
    assert!(third.iter().any(|table| table.removed > 0), "{third:?}");
    assert!(from.copy_to(&to, |_| {}).await.unwrap().iter().all(Copied::was_same));
    for name in ["ann", "bob"] {
        assert_eq!(facts(&to, name).await, facts(&from, name).await);
    }
    // What was deleted is barred there, too, and new rows have numbers of their own.
    let to = connect(&database).await;
    assert_eq!(to.scope_state(&scope("ann")).await.unwrap(), from.scope_state(&scope("ann")).await.unwrap());
    to.apply(&scope("new"), &[insert(78, "profile.home", "Oslo")]).await.unwrap();
    assert!(to.fact(&scope("new"), FactId(78)).await.unwrap().is_some());
}

async fn facts(store: &SqlStore, name: &str) -> Vec<crate::memory::Fact> {
    store.list_facts(&scope(name), &FactFilter::default(), &Page::first(100)).await.unwrap()
}

#[tokio::test]
async fn a_database_with_memories_of_its_own_or_that_was_served_from_is_not_copied_into() {
    let Some(database) = Database::fresh().await else { return };
    let folder = TempDir::new().unwrap();
    let from = source(&folder).await;
    fill(&from, &scope("ann")).await;
    let to = connect(&database).await;
    to.apply(&scope("bob"), &[insert(70, "profile.home", "Lima")]).await.unwrap();
    let error = from.copy_to(&to, |_| {}).await.unwrap_err().to_string();
    assert!(error.contains("memories of its own"), "{error}");

    let Some(database) = Database::fresh().await else { return };
    let to = connect(&database).await;
    from.copy_to(&to, |_| {}).await.unwrap();
    to.say_served().await.unwrap();
    let error = from.copy_to(&to, |_| {}).await.unwrap_err().to_string();
    assert!(error.contains("has served from the target"), "{error}");
}
