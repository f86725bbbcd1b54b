//! Opens a database: pragmas, pools, migrations.

use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{Connection, SqliteConnection};
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use super::super::error::driver;
use super::super::scope::{READ_SECRET, TOMBSTONE_SALT, secret};
use super::super::text::Dialect;
use super::fold::{MAX_LOG_PAGES, Pace, keep_folding};
use super::presence::announce;
use super::{Durability, File, SqliteOptions};
use crate::store::StoreError;
use crate::store::sql::session::Pool;
use crate::store::sql::{Backend, SqlStore};

/// The schema, step by step. A step that was released is never changed again; `PRAGMA user_version` counts them.
const MIGRATIONS: &[&str] = &[
    include_str!("../../../../migrations/sqlite/0001_records.sql"),
    include_str!("../../../../migrations/sqlite/0002_turns.sql"),
    include_str!("../../../../migrations/sqlite/0003_targets.sql"),
    include_str!("../../../../migrations/sqlite/0004_windows.sql"),
    include_str!("../../../../migrations/sqlite/0005_digests.sql"),
    include_str!("../../../../migrations/sqlite/0006_changes.sql"),
    include_str!("../../../../migrations/sqlite/0010_keys.sql"),
    include_str!("../../../../migrations/sqlite/0011_vectors.sql"),
    include_str!("../../../../migrations/sqlite/0012_knowledge.sql"),
    include_str!("../../../../migrations/sqlite/0013_usage.sql"),
    include_str!("../../../../migrations/sqlite/0014_budgets.sql"),
    include_str!("../../../../migrations/sqlite/0016_changes_in_order.sql"),
    include_str!("../../../../migrations/sqlite/0017_parts.sql"),
    include_str!("../../../../migrations/sqlite/0018_raw_exchanges.sql"),
];

const SQLITE_BUSY: u32 = 5;

/// After so long it is tried again to open a file that another process has just made.
const TURN: Duration = Duration::from_millis(20);

/// How long a caller waits for a free connection.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(10);

/// How long an erasure waits for readers of an older state, all tries together.
const CHECKPOINT_WAIT: Duration = Duration::from_secs(2);

/// How long one try waits for them: writers are kept out meanwhile.
const MAINTENANCE_BUSY: Duration = Duration::from_millis(100);

const END_LEASES: &str = "UPDATE outbox SET owner = NULL, lease_until = NULL WHERE owner IS NOT NULL";

const END_VECTOR_LEASES: &str = "UPDATE generations SET owner = NULL, lease_until = NULL WHERE owner IS NOT NULL";

const FRESH_SECRET: &str =
    "INSERT INTO secrets (name, value) VALUES (?1, randomblob(32)) ON CONFLICT (name) DO NOTHING";

/// Opens a database, and brings its schema up to date.
pub(in crate::store::sql) async fn open(options: SqliteOptions) -> Result<SqlStore, StoreError> {
    let in_memory = options.path.is_none();
    let pace = Arc::new(Pace::default());
    let write = writer(&options, &pace).await?;
    let (presence, alone) = options.path.as_deref().map_or((None, true), announce);
    let salt = {
        let mut conn = write.acquire().await.map_err(driver("open the database"))?;
        migrate(&mut conn).await?;
        if alone {
            for sql in [END_LEASES, END_VECTOR_LEASES] {
                sqlx::query(sql).execute(&mut *conn).await.map_err(driver("end the leases of dead processes"))?;
            }
        }
        salt(&mut conn).await?
    };
    // A database in memory belongs to its connection: readers share it.
    let read = if in_memory { write.clone() } else { readers(&options) };
    let maintenance = if in_memory { write.clone() } else { maintainer(&options) };
    let folding = (!in_memory).then(|| {
        let folding = keep_folding(pace, maintenance.clone(), write.clone());
        Arc::new(AbortOnDropHandle::new(TaskTracker::new().spawn(folding)))
    });
    Ok(SqlStore {
        write: Pool::Sqlite(write),
        read: Pool::Sqlite(read),
        salt,
        backend: Backend::Sqlite(File {
            maintenance,
            checkpoint_wait: CHECKPOINT_WAIT,
            rewrite_below_bytes: options.rewrite_below_bytes,
            in_memory,
            _presence: presence.map(Arc::new),
            _folding: folding,
        }),
    })
}

/// Memory for pages of the connection that writes, in KiB as a negative number: what a group touches is neither read again
/// nor written before its commit.
const WRITER_CACHE: &str = "-8000";

async fn writer(options: &SqliteOptions, pace: &Arc<Pace>) -> Result<SqlitePool, StoreError> {
    let connect = connect_options(options)
        .create_if_missing(true)
        // All that is referred to is a scope's row: it was read in the same transaction, and none is ever deleted. To look it up again for each row,
        // and to keep a journal in case it were gone, is what little the check would do.
        .foreign_keys(false)
        .pragma("wal_autocheckpoint", MAX_LOG_PAGES.to_string())
        .pragma("cache_size", WRITER_CACHE);
    let connect = match options.max_pages {
        Some(pages) => connect.pragma("max_page_count", pages.to_string()),
        None => connect,
    };
    let until = Instant::now() + options.busy_timeout;
    // Whoever gives the connection back has written.
    let pace = Arc::clone(pace);
    let pool = pool_options(1).min_connections(1).after_release(move |_, _| {
        pace.written();
        Box::pin(std::future::ready(Ok(true)))
    });
    loop {
        match pool.clone().connect_with(connect.clone()).await {
            Err(error) if is_busy(&error) && Instant::now() < until => tokio::time::sleep(TURN).await,
            opened => return opened.map_err(driver("open the database")),
        }
    }
}

/// Whether another process has the file. Who turns on the log of a new file is told so at once: SQLite waits for it no time.
fn is_busy(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(|error| error.code());
    // The lowest byte is the kind (https://sqlite.org/rescode.html).
    code.and_then(|code| code.parse::<u32>().ok()).is_some_and(|code| code & 0xff == SQLITE_BUSY)
}

fn readers(options: &SqliteOptions) -> SqlitePool {
    pool_options(options.readers.max(1)).connect_lazy_with(connect_options(options).pragma("query_only", "on"))
}

fn maintainer(options: &SqliteOptions) -> SqlitePool {
    pool_options(1).connect_lazy_with(connect_options(options).busy_timeout(MAINTENANCE_BUSY))
}

fn pool_options(max: u32) -> SqlitePoolOptions {
    SqlitePoolOptions::new()
        .max_connections(max)
        .acquire_timeout(ACQUIRE_TIMEOUT)
        // A connection in this process does not go stale, and one in memory must never be replaced.
        .test_before_acquire(false)
        .idle_timeout(None)
        .max_lifetime(None)
}

fn connect_options(options: &SqliteOptions) -> SqliteConnectOptions {
    let base = match &options.path {
        Some(path) => SqliteConnectOptions::new().filename(path).journal_mode(SqliteJournalMode::Wal),
        None => {
            SqliteConnectOptions::from_str("sqlite::memory:").expect("the address of a database in memory is valid")
        }
    };
    let synchronous = match options.durability {
        Durability::Process => SqliteSynchronous::Normal,
        Durability::Power => SqliteSynchronous::Full,
    };
    base.busy_timeout(options.busy_timeout)
        .synchronous(synchronous)
        .foreign_keys(true)
        // What is deleted is overwritten with zeros (design, promise 10).
        .pragma("secure_delete", "on")
        .statement_cache_capacity(128)
}

/// Applies the missing steps in one transaction: two processes that start at once do not meet half-way.
async fn migrate(conn: &mut SqliteConnection) -> Result<(), StoreError> {
    let mut tx = conn.begin_with("BEGIN IMMEDIATE").await.map_err(driver("open the database"))?;
    let found: i64 = sqlx::query_scalar("PRAGMA user_version")
        .fetch_one(&mut *tx)
        .await
        .map_err(driver("read the schema version"))?;
    let ours = i64::try_from(MIGRATIONS.len()).expect("a handful of migrations");
    if found > ours {
        return Err(StoreError::Unusable(format!(
            "the database has schema version {found}, this program knows up to {ours}: it was written by a newer version"
        )));
    }
    let missing = MIGRATIONS.iter().skip(usize::try_from(found).unwrap_or_default());
    for step in missing {
        sqlx::raw_sql(*step).execute(&mut *tx).await.map_err(driver("migrate the database"))?;
    }
    if found < ours {
        // A pragma takes no bound value; `ours` is a number of our own.
        let pragma = format!("PRAGMA user_version = {ours}");
        sqlx::raw_sql(sqlx::AssertSqlSafe(pragma)).execute(&mut *tx).await.map_err(driver("migrate the database"))?;
    }
    tx.commit().await.map_err(driver("migrate the database"))
}

async fn salt(conn: &mut SqliteConnection) -> Result<[u8; 32], StoreError> {
    sqlx::query(FRESH_SECRET).bind(TOMBSTONE_SALT).execute(&mut *conn).await.map_err(driver("make a salt"))?;
    let value: Vec<u8> = sqlx::query_scalar(READ_SECRET.of(Dialect::Sqlite))
        .bind(TOMBSTONE_SALT)
        .fetch_one(&mut *conn)
        .await
        .map_err(driver("read a salt"))?;
    secret(TOMBSTONE_SALT, &value)
}
