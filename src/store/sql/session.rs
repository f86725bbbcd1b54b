//! Connections: pools of them, and transactions.

use sqlx::postgres::{PgPool, Postgres};
use sqlx::sqlite::{Sqlite, SqlitePool};
use sqlx::{Error, Transaction};

use super::query::On;
use super::sqlite::Open;
use super::text::Dialect;

/// Connections to a database.
#[derive(Clone, Debug)]
pub(super) enum Pool {
    Sqlite(SqlitePool),
    Postgres(PgPool),
}

impl Pool {
    pub(super) fn dialect(&self) -> Dialect {
        match self {
            Self::Sqlite(_) => Dialect::Sqlite,
            Self::Postgres(_) => Dialect::Postgres,
        }
    }

    /// Starts a transaction that reads one state of the database throughout.
    pub(super) async fn begin_reading(&self) -> Result<Tx, Error> {
        Ok(match self {
            Self::Sqlite(pool) => Tx::Sqlite(pool.begin().await?),
            Self::Postgres(pool) => {
                Tx::Postgres(pool.begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?)
            }
        })
    }

    /// Starts a write. In SQLite it is immediate, so that nobody else writes before it is over. In PostgreSQL it sees what others commit, so what
    /// is to stay as it was read has to be locked: mostly a scope's row, which everything below the scope waits for.
    pub(super) async fn begin_writing(&self) -> Result<Tx, Error> {
        Ok(match self {
            Self::Sqlite(pool) => Tx::Sqlite(pool.begin_with("BEGIN IMMEDIATE").await?),
            Self::Postgres(pool) => Tx::Postgres(pool.begin().await?),
        })
    }

    pub(super) async fn close(&self) {
        match self {
            Self::Sqlite(pool) => pool.close().await,
            Self::Postgres(pool) => pool.close().await,
        }
    }
}

impl<'c> From<&'c Pool> for On<'c> {
    fn from(pool: &'c Pool) -> Self {
        match pool {
            Pool::Sqlite(pool) => Self::SqlitePool(pool),
            Pool::Postgres(pool) => Self::PostgresPool(pool),
        }
    }
}

/// A transaction. Dropped before it was committed it is undone.
pub(super) enum Tx {
    Sqlite(Transaction<'static, Sqlite>),
    /// Begun by a script, and mostly committed by one.
    Script(Open),
    Postgres(Transaction<'static, Postgres>),
}

impl Tx {
    pub(super) fn dialect(&self) -> Dialect {
        match self {
            Self::Sqlite(_) | Self::Script(_) => Dialect::Sqlite,
            Self::Postgres(_) => Dialect::Postgres,
        }
    }

    pub(super) async fn commit(self) -> Result<(), Error> {
        match self {
            Self::Sqlite(tx) => tx.commit().await,
            Self::Script(open) => open.commit().await,
            Self::Postgres(tx) => tx.commit().await,
        }
    }

    /// Undoes what was done, at once.
    pub(super) async fn undo(self) {
        // What cannot be undone by a word is by the end of the connection.
        match self {
            Self::Sqlite(tx) => drop(tx.rollback().await),
            Self::Script(open) => open.undo().await,
            Self::Postgres(tx) => drop(tx.rollback().await),
        }
    }
}

impl<'c> From<&'c mut Tx> for On<'c> {
    fn from(tx: &'c mut Tx) -> Self {
        match tx {
            Tx::Sqlite(tx) => Self::Sqlite(&mut *tx),
            Tx::Script(open) => Self::Sqlite(open.conn()),
            Tx::Postgres(tx) => Self::Postgres(&mut *tx),
        }
    }
}
