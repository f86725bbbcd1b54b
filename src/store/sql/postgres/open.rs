//! Connects to a database: session settings, what is asked of the server, migrations.

use std::str::FromStr;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};
use sqlx::{Connection, PgConnection};

use super::{PostgresOptions, Together};
use crate::store::StoreError;
use crate::store::sql::error::driver;
use crate::store::sql::query::{query, query_scalar};
use crate::store::sql::scope::{READ_SECRET, TOMBSTONE_SALT, secret};
use crate::store::sql::session::Pool;
use crate::store::sql::text::Sql;
use crate::store::sql::{Backend, SqlStore};

/// The schema, step by step, as that of SQLite. A step that was released is never changed again; `schema_version` counts them.
const MIGRATIONS: &[&str] = &[
    include_str!("../../../../migrations/postgres/0001_records.sql"),
    include_str!("../../../../migrations/postgres/0002_turns.sql"),
    include_str!("../../../../migrations/postgres/0003_targets.sql"),
    include_str!("../../../../migrations/postgres/0004_windows.sql"),
    include_str!("../../../../migrations/postgres/0005_digests.sql"),
    include_str!("../../../../migrations/postgres/0006_changes.sql"),
    include_str!("../../../../migrations/postgres/0010_keys.sql"),
    include_str!("../../../../migrations/postgres/0011_vectors.sql"),
    include_str!("../../../../migrations/postgres/0012_knowledge.sql"),
    include_str!("../../../../migrations/postgres/0013_usage.sql"),
    include_str!("../../../../migrations/postgres/0014_budgets.sql"),
    include_str!("../../../../migrations/postgres/0016_changes_in_order.sql"),
    include_str!("../../../../migrations/postgres/0017_parts.sql"),
    include_str!("../../../../migrations/postgres/0018_raw_exchanges.sql"),
];

/// The oldest server that has all that is used.
const OLDEST_SERVER: i32 = 130_000;

/// Processes that start at once migrate one after the other.
const MIGRATION_LOCK: i64 = 7_234_500;

/// A connection that was idle for longer is asked whether it is still there before it is used: one question more to the server. One that
/// was used a moment ago is not, so that under load nothing is asked twice.
const TRUSTED: Duration = Duration::from_millis(250);

/// A session that was forgotten in a transaction would hold up whoever follows the changes.
const IDLE_IN_TRANSACTION: &str = "60s";

const ASK: &str = "
    SELECT current_setting('server_version_num')::int, current_setting('server_encoding'),
           current_setting('transaction_read_only') = 'on' OR pg_is_in_recovery()";

static FRESH_SECRET: Sql = Sql::new(
    "
    INSERT INTO secrets (name, value) VALUES (?1, uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()))
    ON CONFLICT (name) DO NOTHING",
);

/// Connects to a database, and brings its schema up to date.
pub(in crate::store::sql) async fn open(options: PostgresOptions) -> Result<SqlStore, StoreError> {
    let pool = connect(&options).await?;
    {
        let mut conn = pool.acquire().await.map_err(unreachable)?;
        ask(&mut conn).await?;
        migrate(&mut conn).await?;
    }
    let together = Together::new(pool.clone());
    let pool = Pool::Postgres(pool);
    query(&FRESH_SECRET).bind(TOMBSTONE_SALT).execute(&pool).await.map_err(driver("make a salt"))?;
    let value: Vec<u8> =
        query_scalar(&READ_SECRET).bind(TOMBSTONE_SALT).fetch_one(&pool).await.map_err(driver("read a salt"))?;
    let salt = secret(TOMBSTONE_SALT, &value)?;
    Ok(SqlStore { write: pool.clone(), read: pool, salt, backend: Backend::Postgres(together) })
}

async fn connect(options: &PostgresOptions) -> Result<PgPool, StoreError> {
    let connect = PgConnectOptions::from_str(options.url.expose()).map_err(|_| {
        // The error's own text may quote the address, password and all.
        StoreError::Unusable(
            "store.url: not an address of PostgreSQL: postgres://USER:PASSWORD@HOST/DATABASE".to_owned(),
        )
    })?;
    let connect = connect.application_name("backstory").statement_cache_capacity(512).options([
        ("statement_timeout", options.statement_timeout.as_millis().to_string()),
        ("lock_timeout", options.lock_timeout.as_millis().to_string()),
        ("idle_in_transaction_session_timeout", IDLE_IN_TRANSACTION.to_owned()),
        ("TimeZone", "UTC".to_owned()),
    ]);
    let pool = PgPoolOptions::new()
        .max_connections(options.connections.max(2))
        .acquire_timeout(options.acquire_timeout)
        .test_before_acquire(false)
        .before_acquire(|conn, known| {
            Box::pin(async move {
                if known.idle_for > TRUSTED {
                    conn.ping().await?;
                }
                Ok(true)
            })
        });
    pool.connect_with(connect).await.map_err(unreachable)
}

fn unreachable(error: sqlx::Error) -> StoreError {
    driver("connect to PostgreSQL")(error)
}

/// Looks whether the server is one that can be worked with.
async fn ask(conn: &mut PgConnection) -> Result<(), StoreError> {
    let (version, encoding, reads_only): (i32, String, bool) =
        sqlx::query_as(ASK).fetch_one(conn).await.map_err(driver("ask the server about itself"))?;
    if version < OLDEST_SERVER {
        return Err(StoreError::Unusable(format!(
            "the server is PostgreSQL {}; at least version {} is needed",
            version / 10_000,
            OLDEST_SERVER / 10_000
        )));
    }
    if encoding != "UTF8" {
        return Err(StoreError::Unusable(format!(
            "the database's encoding is {encoding}; make one with ENCODING 'UTF8' (TEMPLATE template0)"
        )));
    }
    if reads_only {
        return Err(StoreError::Unusable(
            "the server only reads (a replica, or default_transaction_read_only is on); store.url must name the primary"
                .to_owned(),
        ));
    }
    Ok(())
}

/// Applies the missing steps in one transaction.
async fn migrate(conn: &mut PgConnection) -> Result<(), StoreError> {
    let failed = driver("migrate the database");
    let mut tx = conn.begin().await.map_err(&failed)?;
    // Another process may need longer for its steps than a statement may wait otherwise.
    sqlx::raw_sql("SET LOCAL lock_timeout = 0; SET LOCAL statement_timeout = 0")
        .execute(&mut *tx)
        .await
        .map_err(&failed)?;
    sqlx::query("SELECT pg_advisory_xact_lock($1)").bind(MIGRATION_LOCK).execute(&mut *tx).await.map_err(&failed)?;
    sqlx::raw_sql("CREATE TABLE IF NOT EXISTS schema_version (version bigint NOT NULL)")
        .execute(&mut *tx)
        .await
        .map_err(&failed)?;
    let found: Option<i64> =
        sqlx::query_scalar("SELECT max(version) FROM schema_version").fetch_one(&mut *tx).await.map_err(&failed)?;
    let (found, ours) = (found.unwrap_or(0), i64::try_from(MIGRATIONS.len()).expect("a handful of migrations"));
    if found > ours {
        return Err(StoreError::Unusable(format!(
            "the database has schema version {found}, this program knows up to {ours}: it was written by a newer version"
        )));
    }
    for step in MIGRATIONS.iter().skip(usize::try_from(found).unwrap_or_default()) {
        sqlx::raw_sql(*step).execute(&mut *tx).await.map_err(&failed)?;
    }
    if found < ours {
        sqlx::raw_sql("DELETE FROM schema_version").execute(&mut *tx).await.map_err(&failed)?;
        sqlx::query("INSERT INTO schema_version VALUES ($1)").bind(ours).execute(&mut *tx).await.map_err(&failed)?;
    }
    tx.commit().await.map_err(failed)
}

const ABOUT: &str =
    "SELECT current_setting('server_version'), now_millis(), current_setting('max_connections')::bigint";

/// What a server says of itself.
#[derive(Clone, Debug)]
pub struct PostgresServer {
    /// Its version, as in `15.4`.
    pub version: String,
    /// Its clock, in milliseconds since 1970.
    pub clock_millis: i64,
    /// The most connections that it takes, of all clients together.
    pub max_connections: i64,
}

/// Asks a server about itself.
pub(in crate::store::sql) async fn about(pool: &PgPool) -> Result<PostgresServer, StoreError> {
    let (version, clock_millis, max_connections) =
        sqlx::query_as(ABOUT).fetch_one(pool).await.map_err(driver("ask the server about itself"))?;
    Ok(PostgresServer { version, clock_millis, max_connections })
}
