//! The driver's errors, by what a caller can do about them.

use crate::store::StoreError;

/// Primary result codes of SQLite that a later attempt may pass.
/// <https://www.sqlite.org/rescode.html>
const TRANSIENT: [(i32, &str); 6] = [
    (5, "the database is locked by another process"),
    (6, "a table is locked"),
    (8, "the database is read-only"),
    (10, "the disk cannot be read or written"),
    (13, "the disk is full"),
    (14, "the database file cannot be opened"),
];

/// Primary result codes that say the file is not ours to work with.
const UNUSABLE: [(i32, &str); 2] = [(11, "the database file is damaged"), (26, "the file is not a database")];

/// Returns a function that sorts a driver's error; `doing` says what failed, as in `append exchanges`.
pub(super) fn driver(doing: &'static str) -> impl Fn(sqlx::Error) -> StoreError {
    move |error| sort(doing, error)
}

fn sort(doing: &'static str, error: sqlx::Error) -> StoreError {
    match &error {
        sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed | sqlx::Error::WorkerCrashed => {
            return StoreError::Unavailable(format!("{doing}: no connection"));
        }
        sqlx::Error::Io(io) => return StoreError::Unavailable(format!("{doing}: {io}")),
        sqlx::Error::Database(database) => {
            // The extended code carries the primary one in its lowest byte.
            let code = database.code().and_then(|c| c.parse::<i32>().ok()).unwrap_or_default() & 0xff;
            if let Some((_, text)) = TRANSIENT.iter().find(|(c, _)| *c == code) {
                return StoreError::Unavailable(format!("{doing}: {text}"));
            }
            if let Some((_, text)) = UNUSABLE.iter().find(|(c, _)| *c == code) {
                return StoreError::Unusable(format!("{doing}: {text}"));
            }
        }
        _ => {}
    }
    StoreError::Driver { doing, source: Box::new(error) }
}
