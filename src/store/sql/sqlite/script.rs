//! Several statements in one go.
//!
//! A statement is run on the connection's own thread: handing it over and waking up again costs more than most statements.
//! So a group of exchanges is two scripts: one opens the transaction and reads what it needs, one writes and commits.
//!
//! Values are bound in the order of the statements, each through a plain `?`. A numbered one would be looked for among the values of *all*
//! statements, and looking up its name takes as long as there are parameters.

use std::fmt::Write as _;

use futures_util::TryStreamExt;
use sqlx::pool::PoolConnection;
use sqlx::query::Query;
use sqlx::sqlite::{Sqlite, SqliteArguments, SqlitePool, SqliteRow};
use sqlx::{Either, Executor, SqliteConnection};

use crate::store::StoreError;
use crate::store::sql::error::driver;
use crate::store::sql::query::Value;

/// A script with the values bound so far.
pub(in crate::store::sql) type Bound = Query<'static, Sqlite, SqliteArguments>;

/// A transaction that a script opened. Dropped before it was committed it takes its connection with it, which undoes it.
pub(in crate::store::sql) struct Open {
    conn: PoolConnection<Sqlite>,
    in_memory: bool,
    committed: bool,
}

/// Runs a script that begins a transaction; returns it with the rows that the script selected.
pub(in crate::store::sql) async fn begin_script(
    pool: &SqlitePool,
    script: Bound,
    doing: &'static str,
    in_memory: bool,
) -> Result<(Open, Vec<SqliteRow>), StoreError> {
    let conn = pool.acquire().await.map_err(driver(doing))?;
    let mut open = Open { conn, in_memory, committed: false };
    match script.fetch_all(&mut *open.conn).await {
        Ok(rows) => Ok((open, rows)),
        Err(error) => {
            open.undo().await;
            Err(driver(doing)(error))
        }
    }
}

impl Open {
    /// The connection, to do more in the same transaction. When that fails, [`Open::undo`] it.
    pub(in crate::store::sql) fn conn(&mut self) -> &mut SqliteConnection {
        &mut self.conn
    }

    /// Says that a script committed it.
    pub(in crate::store::sql) fn committed(mut self) {
        self.committed = true;
    }

    /// Commits it.
    pub(in crate::store::sql) async fn commit(mut self) -> Result<(), sqlx::Error> {
        sqlx::raw_sql("COMMIT").execute(&mut *self.conn).await?;
        self.committed = true;
        Ok(())
    }

    /// Undoes what was done.
    pub(in crate::store::sql) async fn undo(mut self) {
        // Fails where the script did not come as far as to begin; then the connection is made anew, which is as good.
        self.committed = sqlx::raw_sql("ROLLBACK").execute(&mut *self.conn).await.is_ok();
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        // A database in memory would be gone with its only connection.
        if !self.committed && !self.in_memory {
            self.conn.close_on_drop();
        }
    }
}

/// Runs a script; returns how many rows each of its statements changed (for one that changes nothing by its nature, any number).
pub(in crate::store::sql) async fn run(
    conn: &mut SqliteConnection,
    script: Bound,
    doing: &'static str,
) -> Result<Vec<u64>, StoreError> {
    let results = conn.fetch_many(script).try_filter_map(async |step| {
        Ok(match step {
            Either::Left(done) => Some(done.rows_affected()),
            Either::Right(_) => None,
        })
    });
    results.try_collect().await.map_err(driver(doing))
}

/// How a table takes up to a fixed number of rows in one statement.
#[derive(Debug)]
pub(in crate::store::sql) struct Table {
    /// `INSERT INTO … SELECT …`, up to the rows, which are called `column1`, `column2`, …
    pub(in crate::store::sql) head: &'static str,
    /// How many columns a row has.
    pub(in crate::store::sql) columns: usize,
    /// Rows for each exchange that the script has room for.
    pub(in crate::store::sql) rows: usize,
    /// What stands behind the rows.
    pub(in crate::store::sql) tail: &'static str,
}

/// Writes a script that takes rows of several tables: for `size` exchanges, unused rows left empty.
pub(in crate::store::sql) fn script(tables: &[Table], size: usize, end: &str) -> String {
    let mut sql = String::new();
    for table in tables {
        let row = format!("({})", vec!["?"; table.columns].join(","));
        let rows = vec![row.as_str(); table.rows * size].join(",");
        writeln!(sql, "{} FROM (VALUES {rows}) WHERE column1 IS NOT NULL {};", table.head, table.tail)
            .expect("a string takes all that is written to it");
    }
    sql + end
}

/// Binds a value to a script.
pub(in crate::store::sql) fn bind_value(bound: Bound, value: Value) -> Bound {
    match value {
        Value::Int(n) => bound.bind(n),
        Value::Bool(is) => bound.bind(is),
        Value::Text(text) => bound.bind(text),
        Value::Json(json) => bound.bind(json),
        Value::Bytes(bytes) => bound.bind(bytes),
    }
}
