//! Opens the records that the configuration names: an SQLite file, or a PostgreSQL database.

use std::time::Duration;

use crate::config::{self, Config, Env, StoreUrl};
use crate::store::StoreError;
use crate::store::sql::{Durability, PostgresOptions, SqlStore, SqliteOptions};

/// So long a server that is not there yet is waited for at start: in which order servers start does not matter.
const PATIENCE: Duration = Duration::from_secs(60);

/// Pause between two tries.
const PAUSE: Duration = Duration::from_secs(1);

/// Opens the records; makes the folder of an embedded store.
///
/// # Errors
/// As [`SqlStore::sqlite`] and [`SqlStore::postgres`], and [`StoreError::Unusable`] where the folder cannot be made.
pub async fn open_records(config: &Config, env: &dyn Env) -> Result<SqlStore, StoreError> {
    if let StoreUrl::Postgres(url) = &config.store.url {
        let options = PostgresOptions { connections: config.store.connections, ..PostgresOptions::url(url.clone()) };
        return SqlStore::postgres(options).await;
    }
    let path = config.database(env);
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)
            .map_err(|error| StoreError::Unusable(format!("{} cannot be made: {error}", folder.display())))?;
    }
    let durability = match config.store.durability {
        config::Durability::Process => Durability::Process,
        config::Durability::Power => Durability::Power,
    };
    SqlStore::sqlite(SqliteOptions { durability, ..SqliteOptions::file(path) }).await
}

/// The same at the start of a gateway, which waits for a server that is not there yet.
pub(super) async fn open_patiently(config: &Config, env: &dyn Env) -> Result<SqlStore, StoreError> {
    let begun = tokio::time::Instant::now();
    loop {
        match open_records(config, env).await {
            Err(StoreError::Unavailable(reason))
                if matches!(config.store.url, StoreUrl::Postgres(_)) && begun.elapsed() < PATIENCE =>
            {
                tracing::warn!(reason, "the database is not there yet; waiting for it");
                tokio::time::sleep(PAUSE).await;
            }
            opened => return opened,
        }
    }
}

/// The records' place, without any secret, for people.
#[must_use]
pub fn name_of_records(config: &Config, env: &dyn Env) -> String {
    match &config.store.url {
        StoreUrl::Postgres(url) => {
            // USER:PASSWORD@ goes, and parameters, which may name a key's file.
            let address = url.expose().split_once("://").map_or("", |(_, rest)| rest);
            let address = address.rsplit_once('@').map_or(address, |(_, host)| host);
            format!("postgres://{}", address.split('?').next().unwrap_or_default())
        }
        _ => config.database(env).display().to_string(),
    }
}
