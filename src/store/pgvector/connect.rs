//! Connections, and what is asked of the server before it is used.

use std::str::FromStr;

use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};
use sqlx::{Connection, PgConnection};

use super::generations::{LOCK, REGISTRY};
use super::{Pgvector, PgvectorOptions};
use crate::store::StoreError;
use crate::store::sql::driver;

/// The first version whose scans go on until a filtered search has found enough, and that has 16-bit vectors.
const OLDEST: (u32, u32) = (0, 8);

/// What a search through the graph keeps in view, at least: hits of others are left out of it.
const EF_SEARCH: &str = "100";

/// After so many rows a scan of the graph gives up; what is missing is then searched for exactly.
const MAX_SCAN_TUPLES: &str = "20000";

/// `PgConnectOptions` does not keep what it could not read, so that no password gets into a text of ours.
pub(super) fn pool(options: &PgvectorOptions) -> Result<PgPool, StoreError> {
    let connect = PgConnectOptions::from_str(options.url.expose()).map_err(|_| {
        StoreError::Unusable("not an address of PostgreSQL: postgres://USER:PASSWORD@HOST/DATABASE".to_owned())
    })?;
    let connect = connect.application_name("backstory-index").options([
        ("statement_timeout", options.statement_timeout.as_millis().to_string()),
        ("idle_in_transaction_session_timeout", "60s".to_owned()),
        // How many points a scope has decides how it is searched best: no plan for all of them.
        ("plan_cache_mode", "force_custom_plan".to_owned()),
        ("hnsw.iterative_scan", "relaxed_order".to_owned()),
        ("hnsw.ef_search", EF_SEARCH.to_owned()),
        ("hnsw.max_scan_tuples", MAX_SCAN_TUPLES.to_owned()),
    ]);
    Ok(PgPoolOptions::new()
        .max_connections(options.connections.max(2))
        .acquire_timeout(options.acquire_timeout)
        .connect_lazy_with(connect))
}

impl Pgvector {
    /// Sees to it that extension and registry are there; asked once, until it was found to be so.
    pub(super) async fn ready(&self) -> Result<(), StoreError> {
        let ask = || async {
            let mut conn = self.pool.acquire().await.map_err(driver("connect to PostgreSQL"))?;
            let found = extension(&mut conn).await?;
            let mut tx = conn.begin().await.map_err(driver("prepare the index"))?;
            // Processes that start at once would make the same table.
            sqlx::query(LOCK).execute(&mut *tx).await.map_err(driver("prepare the index"))?;
            sqlx::raw_sql(REGISTRY).execute(&mut *tx).await.map_err(driver("prepare the index"))?;
            tx.commit().await.map_err(driver("prepare the index"))?;
            Ok(found)
        };
        self.ready.get_or_try_init(ask).await.map(|_| ())
    }

    /// The versions of the server and of the extension.
    pub(super) async fn version(&self) -> Result<String, StoreError> {
        let version = "SELECT current_setting('server_version') || ' (pgvector ' || extversion || ')'
                       FROM pg_extension WHERE extname = 'vector'";
        sqlx::query_scalar(version).fetch_one(&self.pool).await.map_err(driver("ask the server for its version"))
    }
}

/// Finds the extension, or makes it where this user may; returns its version.
async fn extension(conn: &mut PgConnection) -> Result<String, StoreError> {
    // (version, whether its schema is one that names are looked up in)
    let installed = "SELECT extversion, nspname = ANY (current_schemas(true)), quote_ident(nspname)
                     FROM pg_extension JOIN pg_namespace n ON n.oid = extnamespace WHERE extname = 'vector'";
    let failed = driver("look for the extension vector");
    let mut found: Option<(String, bool, String)> =
        sqlx::query_as(installed).fetch_optional(&mut *conn).await.map_err(&failed)?;
    if found.is_none() {
        create(conn).await?;
        found = sqlx::query_as(installed).fetch_optional(&mut *conn).await.map_err(&failed)?;
    }
    let (version, visible, schema) = found.ok_or_else(|| {
        StoreError::Unusable("the extension vector went away again: CREATE EXTENSION vector".to_owned())
    })?;
    if older(&version) {
        return Err(StoreError::Unusable(format!(
            "the database has pgvector {version}, {}.{} or later is needed: install it on the server, then ALTER EXTENSION vector UPDATE",
            OLDEST.0, OLDEST.1
        )));
    }
    if !visible {
        return Err(StoreError::Unusable(format!(
            "the extension vector is in schema {schema}, which this user's search_path does not have: \
             ALTER EXTENSION vector SET SCHEMA public, or put {schema} on the search_path"
        )));
    }
    Ok(version)
}

async fn create(conn: &mut PgConnection) -> Result<(), StoreError> {
    // Where others make it at the same time, one of them is told that it is there already.
    let made = sqlx::raw_sql("CREATE EXTENSION IF NOT EXISTS vector").execute(conn).await;
    let Err(error) = made else { return Ok(()) };
    let code = error.as_database_error().and_then(|e| e.code().map(|code| code.into_owned()));
    match code.as_deref() {
        Some("23505" | "42710") => Ok(()),
        Some("42501") => Err(StoreError::Unusable(
            "the extension vector is not in the database and this user may not make it: have a superuser run \
             CREATE EXTENSION vector there"
                .to_owned(),
        )),
        Some("0A000" | "58P01") => Err(StoreError::Unusable(
            "the server does not have pgvector: install it (Debian: postgresql-NN-pgvector; or the image pgvector/pgvector), \
             or use another vectors.engine"
                .to_owned(),
        )),
        _ => Err(driver("make the extension vector")(error)),
    }
}

fn older(version: &str) -> bool {
    let mut parts = version.split('.').map(|part| part.parse().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) < OLDEST
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        assert!(older("0.7.4") && older("0.4") && older(""));
        assert!(!older("0.8.0") && !older("0.10.1") && !older("1.0"));
    }
}
