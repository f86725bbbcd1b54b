//! The driver's errors, by what a caller can do about them.

use sqlx::error::DatabaseError;
use sqlx::postgres::PgDatabaseError;

use crate::store::StoreError;

/// Primary result codes of SQLite that a later attempt may pass.
/// <https://www.sqlite.org/rescode.html>
const TRANSIENT: [(i32, &str); 6] = [
    (5, "the database is locked by another process"),
    (6, "a table is locked"),
    (8, "the database is read-only"),
    (10, "the disk cannot be read or written"),
    (13, "the disk is full: make room on it, and all goes on"),
    (14, "the database file cannot be opened"),
];

/// Primary result codes that say the file is not ours to work with.
const UNUSABLE: [(i32, &str); 2] = [(11, "the database file is damaged"), (26, "the file is not a database")];

/// The same of PostgreSQL, by the beginnings of its codes, the longer ones first.
/// <https://www.postgresql.org/docs/current/errcodes-appendix.html>
const POSTGRES_TRANSIENT: [(&str, &str); 8] = [
    ("55P03", "another transaction holds what was waited for too long"),
    ("57014", "the statement took too long"),
    ("57P", "the server is shutting down or starting up"),
    ("25006", "the server only reads: it is a replica now, or was made read-only"),
    ("25P03", "the session was idle for too long"),
    ("53100", "the server's disk is full: make room on it, and all goes on"),
    ("53", "the server has no room for more (connections, memory or disk)"),
    ("08", "the connection broke"),
];

/// Those after which nothing of the transaction is written.
const POSTGRES_CROSSED: [(&str, &str); 2] =
    [("40001", "another transaction was in the way"), ("40P01", "two transactions waited for each other")];

const POSTGRES_UNUSABLE: [(&str, &str); 4] = [
    ("28", "user or password is wrong, or this host may not connect (pg_hba.conf)"),
    ("3D000", "there is no such database: create it, or correct store.url"),
    ("42501", "the database's user may not do this: grant it CREATE on the schema, and all on its tables"),
    ("XX001", "the server's data is damaged"),
];

/// Returns a function that sorts a driver's error; `doing` says what failed, as in `append exchanges`.
pub(in crate::store) fn driver(doing: &'static str) -> impl Fn(sqlx::Error) -> StoreError {
    move |error| sort(doing, error)
}

fn sort(doing: &'static str, error: sqlx::Error) -> StoreError {
    match &error {
        sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed | sqlx::Error::WorkerCrashed => {
            return StoreError::Unavailable(format!("{doing}: no connection"));
        }
        sqlx::Error::Io(io) => return StoreError::Unavailable(format!("{doing}: {io}")),
        sqlx::Error::Tls(tls) => return StoreError::Unusable(format!("{doing}: TLS: {tls}")),
        sqlx::Error::Database(database) => {
            let found = match database.try_downcast_ref::<PgDatabaseError>() {
                Some(database) => of_postgres(database.code()),
                None => of_sqlite(database.as_ref()),
            };
            match found {
                Some((Worth::AtOnce, text)) => return StoreError::Crossed(format!("{doing}: {text}")),
                Some((Worth::Later, text)) => return StoreError::Unavailable(format!("{doing}: {text}")),
                Some((Worth::Never, text)) => return StoreError::Unusable(format!("{doing}: {text}")),
                None => {}
            }
        }
        _ => {}
    }
    StoreError::Driver { doing, source: Box::new(error) }
}

/// When it is worth to try again.
enum Worth {
    AtOnce,
    Later,
    Never,
}

fn of_sqlite(error: &dyn DatabaseError) -> Option<(Worth, &'static str)> {
    // The extended code carries the primary one in its lowest byte.
    let code = error.code().and_then(|c| c.parse::<i32>().ok()).unwrap_or_default() & 0xff;
    let of = |list: &[(i32, &'static str)]| list.iter().find(|(c, _)| *c == code).map(|(_, text)| *text);
    of(&TRANSIENT).map(|text| (Worth::Later, text)).or_else(|| of(&UNUSABLE).map(|text| (Worth::Never, text)))
}

fn of_postgres(code: &str) -> Option<(Worth, &'static str)> {
    let of = |list: &[(&str, &'static str)]| list.iter().find(|(c, _)| code.starts_with(c)).map(|(_, text)| *text);
    of(&POSTGRES_CROSSED)
        .map(|text| (Worth::AtOnce, text))
        .or_else(|| of(&POSTGRES_TRANSIENT).map(|text| (Worth::Later, text)))
        .or_else(|| of(&POSTGRES_UNUSABLE).map(|text| (Worth::Never, text)))
}
