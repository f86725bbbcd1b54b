//! What only PostgreSQL has: connecting, writing groups as many rows a statement, and tables in parts.
//!
//! It never decides what is stored: that is written once, for both databases, in the modules above.
//!
//! Start with [`open()`], then `write.rs`, through which every exchange goes.

mod episode;
mod open;
mod parts;
mod together;
mod write;

use std::time::Duration;

use crate::base::Secret;

pub(super) use episode::put_one;
pub use open::PostgresServer;
pub(super) use open::{about, open};
pub(super) use parts::divide;
pub(super) use together::Together;
pub(super) use write::write;

/// How a database is connected to.
#[derive(Clone, Debug)]
pub struct PostgresOptions {
    /// `postgres://USER:PASSWORD@HOST:PORT/DATABASE`, with libpq's parameters behind it (`?sslmode=verify-full&sslrootcert=…`).
    pub url: Secret,
    /// Most connections of this process.
    pub connections: u32,
    /// How long a caller waits for a free connection, or for a new one.
    pub acquire_timeout: Duration,
    /// After so long the server gives a statement up.
    pub statement_timeout: Duration,
    /// After so long it gives up waiting for another transaction.
    pub lock_timeout: Duration,
}

impl PostgresOptions {
    /// Options for an address, all else by default.
    #[must_use]
    pub fn url(url: impl Into<Secret>) -> Self {
        Self {
            url: url.into(),
            connections: 16,
            acquire_timeout: Duration::from_secs(5),
            statement_timeout: Duration::from_secs(30),
            lock_timeout: Duration::from_secs(10),
        }
    }
}
