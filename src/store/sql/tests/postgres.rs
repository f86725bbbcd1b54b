//! The contract suite on PostgreSQL; and what only a server can get wrong.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection};

use super::super::{PostgresOptions, SqlStore};
use crate::base::testing::server;
use crate::base::{EpisodeId, FactId, Secret, Time};
use crate::memory::Speaker;
use crate::store::contract::fixtures::{claim, episode, finished, insert, learned, scope};
use crate::store::contract::{Opened, contract_suite};
use crate::store::{EpisodeStore, FactStore, LearnOutcome, OutboxStore, ScopeStore, StoreError};

/// A database of its own, dropped with the value.
pub(in crate::store::sql) struct Database {
    admin: String,
    name: String,
}

impl Database {
    /// Makes one; `None` where there is no server.
    pub(in crate::store::sql) async fn fresh() -> Option<Self> {
        let admin = server("BACKSTORY_TEST_POSTGRES")?;
        let name = format!("backstory_{:032x}", rand::random::<u128>());
        let mut conn = PgConnection::connect(&admin).await.unwrap();
        sqlx::raw_sql(AssertSqlSafe(format!("CREATE DATABASE {name}"))).execute(&mut conn).await.unwrap();
        Some(Self { admin, name })
    }

    pub(in crate::store::sql) fn url(&self) -> String {
        let (server, _) = self.admin.rsplit_once('/').unwrap();
        format!("{server}/{}", self.name)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let (admin, name) = (self.admin.clone(), self.name.clone());
        let dropped = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let mut conn = PgConnection::connect(&admin).await?;
                sqlx::raw_sql(AssertSqlSafe(format!("DROP DATABASE {name} WITH (FORCE)"))).execute(&mut conn).await
            })
        });
        // What stays goes with the server, which is there for the tests alone.
        drop(dropped.join());
    }
}

/// A store over it, brought up to date.
pub(in crate::store::sql) async fn connect(database: &Database) -> SqlStore {
    SqlStore::postgres(PostgresOptions::url(Secret::from(database.url()))).await.unwrap()
}

async fn fresh() -> Option<Opened> {
    let database = Database::fresh().await?;
    Some(Opened { store: Arc::new(connect(&database).await), keep: Box::new(database) })
}

contract_suite!(server, crate::store::sql::tests::postgres::fresh);

/// mem0ai/mem0#7196 and its like on a server: what cannot be reached is a health state, said in words that help.
#[tokio::test]
async fn what_keeps_a_server_from_being_used_is_said() {
    let Some(database) = Database::fresh().await else { return };
    let url = database.url();
    let open = async |url: String| {
        let options =
            PostgresOptions { acquire_timeout: Duration::from_secs(2), ..PostgresOptions::url(Secret::from(url)) };
        SqlStore::postgres(options).await.unwrap_err().to_string()
    };
    let (server, _) = url.rsplit_once('/').unwrap();
    let error = open(format!("{server}/there_is_no_such_database")).await;
    assert!(error.contains("there is no such database"), "{error}");
    let error = open("postgres://sesame:secret@127.0.0.1:1/d".to_owned()).await;
    assert!(error.contains("connect to PostgreSQL") && !error.contains("secret"), "{error}");
    let error = open("postgres://[".to_owned()).await;
    assert!(error.contains("not an address"), "{error}");
    let error = open(format!("{url}?options=-cdefault_transaction_read_only=on")).await;
    assert!(error.contains("only reads"), "{error}");
}

#[tokio::test]
async fn a_database_of_a_newer_version_is_refused_and_an_equal_one_is_opened_by_many_at_once() {
    let Some(database) = Database::fresh().await else { return };
    let stores = futures_util::future::join_all((0..4).map(|_| connect(&database))).await;
    assert_eq!(stores.len(), 4);
    let mut conn = PgConnection::connect(&database.url()).await.unwrap();
    sqlx::raw_sql("UPDATE schema_version SET version = 99").execute(&mut conn).await.unwrap();
    let error = SqlStore::postgres(PostgresOptions::url(Secret::from(database.url()))).await.unwrap_err();
    assert!(matches!(&error, StoreError::Unusable(text) if text.contains("newer version")), "{error}");
}

/// A server's time zone is nobody's business: times are numbers, and days are reckoned in UTC.
#[tokio::test]
async fn the_time_zone_of_a_server_changes_nothing() {
    let Some(database) = Database::fresh().await else { return };
    let mut conn = PgConnection::connect(&database.url()).await.unwrap();
    let set = format!("ALTER DATABASE {} SET timezone = 'Asia/Kathmandu'", database.name);
    sqlx::raw_sql(AssertSqlSafe(set)).execute(&mut conn).await.unwrap();
    crate::store::contract::usage::what_was_booked_is_summed_up_in_order(&connect(&database).await).await;
}

/// Where scopes stand is asked by many at once: each is told what was true after it asked, also beside those who give up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_that_ask_where_scopes_stand_are_told_what_was_written_before() {
    let Some(database) = Database::fresh().await else { return };
    let store = connect(&database).await;
    let mut asking = tokio::task::JoinSet::new();
    for subject in 0..8_u128 {
        let store = store.clone();
        asking.spawn(async move {
            let own = scope(&format!("subject {subject}"));
            assert_eq!(store.scope_state(&own).await.unwrap().revision, 0);
            for n in 1..=20_i64 {
                // One that asks and leaves at once holds up nobody.
                drop(futures_util::poll!(std::pin::pin!(store.scope_state(&own))));
                let said = episode(subject << 64 | u128::from(n.unsigned_abs()), Speaker::User, "hello");
                assert_eq!(store.put_episodes(&own, &[said]).await.unwrap(), n);
                let states = tokio::join!(store.scope_state(&own), store.scope_state(&own));
                assert_eq!((states.0.unwrap().revision, states.1.unwrap().revision), (n, n));
            }
        });
    }
    while let Some(done) = asking.join_next().await {
        done.unwrap();
    }
}

/// A connection that dies in the middle of a write leaves nothing of it, and the next one works.
#[tokio::test]
async fn what_was_cut_off_leaves_nothing_and_the_next_write_works() {
    let Some(database) = Database::fresh().await else { return };
    let store = connect(&database).await;
    let mut conn = PgConnection::connect(&database.url()).await.unwrap();
    store.append(&[finished(1, &scope("ann"))]).await.unwrap();
    // Holds the scope's row, so that the write waits in the middle.
    sqlx::raw_sql("BEGIN; SELECT 1 FROM scopes FOR UPDATE").execute(&mut conn).await.unwrap();
    let other = store.clone();
    let writing = async move { other.append(&[finished(2, &scope("ann"))]).await };
    let cutting = async {
        let kill = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
                    WHERE datname = current_database() AND pid <> pg_backend_pid() AND wait_event_type = 'Lock'";
        loop {
            let n: i64 = sqlx::query_scalar(kill).fetch_one(&mut conn).await.unwrap();
            if n > 0 {
                break;
            }
            tokio::task::yield_now().await;
        }
        sqlx::raw_sql("ROLLBACK").execute(&mut conn).await.unwrap();
    };
    // It is tried again by itself: what was cut off was not committed.
    let (written, ()) = tokio::join!(writing, cutting);
    written.unwrap();
    assert_eq!(store.claim(&claim("me", 10)).await.unwrap().len(), 2);
}

/// Fails twice of three times, as a transaction does that another one was in the way of; a sequence goes on where the transaction is undone.
const CROSSED: &str = "
    CREATE SEQUENCE tries;
    CREATE FUNCTION crossed() RETURNS trigger LANGUAGE plpgsql AS $$
        DECLARE n bigint := nextval('tries') % 3;
        BEGIN
            IF n > 0 THEN RAISE EXCEPTION 'crossed' USING ERRCODE = CASE n WHEN 1 THEN '40001' ELSE '40P01' END; END IF;
            RETURN NULL;
        END $$;
    CREATE TRIGGER crossed AFTER UPDATE ON scopes FOR EACH ROW EXECUTE FUNCTION crossed()";

/// Issue 8, point 1: who writes by the API need not know of serialisation failures and deadlocks.
#[tokio::test]
async fn a_write_that_another_transaction_was_in_the_way_of_is_made_again_and_once() {
    let Some(database) = Database::fresh().await else { return };
    let store = connect(&database).await;
    let mut conn = PgConnection::connect(&database.url()).await.unwrap();
    sqlx::raw_sql(CROSSED).execute(&mut conn).await.unwrap();
    let ann = scope("ann");
    assert_eq!(store.apply(&ann, &[insert(1, "note.a", "x")]).await.unwrap(), 1);
    assert_eq!(store.history(&ann, FactId(1)).await.unwrap().len(), 1);
    store.put_episodes(&ann, &[episode(1, Speaker::User, "told")]).await.unwrap();
    assert!(store.delete_fact(&ann, FactId(1), Time(0)).await.unwrap());
    assert!(store.delete_episode(&ann, EpisodeId(1), Time(0)).await.unwrap());
    assert_eq!(store.erase(&ann, Time(0)).await.unwrap().epoch, 1);
    // It is not tried for ever.
    sqlx::raw_sql("ALTER SEQUENCE tries INCREMENT 3 RESTART 1").execute(&mut conn).await.unwrap();
    let error = store.apply(&ann, &[insert(2, "note.a", "x")]).await.unwrap_err();
    assert!(matches!(error, StoreError::Crossed(_)) && error.is_outage(), "{error}");
}

/// Whoever has lost a lease cannot commit, however late it comes back.
#[tokio::test]
async fn of_many_workers_each_exchange_is_learned_by_one() {
    let Some(database) = Database::fresh().await else { return };
    let stores = futures_util::future::join_all((0..4).map(|_| connect(&database))).await;
    let people = ["ann", "bob", "cid", "dan", "eve"];
    for n in 0..60 {
        let person = people[n as usize % people.len()];
        stores[0].append(&[finished(n + 1, &scope(person))]).await.unwrap();
    }
    let work = stores.iter().zip(["a", "b", "c", "d"]).map(|(store, owner)| async move {
        let mut mine = Vec::new();
        loop {
            let claimed = store.claim(&claim(owner, 3)).await.unwrap();
            if claimed.is_empty() && store.depth().await.unwrap().waiting == 0 {
                return mine;
            }
            for one in claimed {
                let scope = one.turn.scope.clone();
                let revision = store.scope_state(&scope).await.unwrap().revision;
                let result = learned(one.turn.exchange.0, &scope, revision);
                let done = store.learn(owner, &[result]).await.unwrap();
                assert!(matches!(done[0], LearnOutcome::Applied { .. } | LearnOutcome::Seen { .. }), "{done:?}");
                mine.push(one.turn.exchange);
            }
            tokio::task::yield_now().await;
        }
    });
    let all = futures_util::future::join_all(work).await.concat();
    assert_eq!(all.len(), 60);
    assert_eq!(all.iter().collect::<std::collections::HashSet<_>>().len(), 60);
}
