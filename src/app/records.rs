//! Opens the records that the configuration names: an SQLite file, or a PostgreSQL database.

use crate::base::Random;
use crate::config::{self, Config, Env, StoreUrl};
use crate::store::sql::{Durability, PostgresOptions, SqlStore, SqliteOptions};
use crate::store::{ScopeStore, StoreError};

/// The records, as a gateway works with them.
pub(super) struct Opened {
    pub(super) store: SqlStore,
    /// Names tenants and accounts. One that is not the store's would file memories where nobody finds them.
    pub(super) salt: [u8; 32],
}

/// Opens the records for a gateway.
pub(super) fn open(
    config: &Config,
    env: &dyn Env,
    random: &dyn Random,
) -> impl Future<Output = Result<Opened, StoreError>> + Send {
    let (opening, fresh) = (open_records(config, env), fresh_salt(random));
    async move {
        let store = opening.await?;
        let salt = store.shared_secret("tenant-salt", &fresh).await?;
        Ok(Opened { store, salt })
    }
}

/// A salt that nobody has yet.
pub(super) fn fresh_salt(random: &dyn Random) -> [u8; 32] {
    std::array::from_fn(|_| random.next_u64() as u8)
}

/// Opens the records; makes the folder of an embedded store.
///
/// # Errors
/// As [`SqlStore::sqlite`] and [`SqlStore::postgres`], and [`StoreError::Unusable`] where the folder cannot be made.
pub fn open_records(config: &Config, env: &dyn Env) -> impl Future<Output = Result<SqlStore, StoreError>> + Send {
    // What is needed of the environment is read at once: it may not be held while the store is waited for.
    let path = config.database(env);
    async move {
        if let StoreUrl::Postgres(url) = &config.store.url {
            let connections = config.store.connections;
            return SqlStore::postgres(PostgresOptions { connections, ..PostgresOptions::url(url.clone()) }).await;
        }
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
