//! Drops what has run out, a bounded number of rows at a time.

use std::slice;

use super::SqlStore;
use super::error::driver;
use super::query::{Value, query};
use super::text::{Dialect, Sql};
use crate::base::Time;
use crate::store::StoreError;

static STATES: Sql = Sql::new(
    "
    DELETE FROM turn_states WHERE rowid IN (SELECT rowid FROM turn_states WHERE expires_at <= ?1 LIMIT ?2)",
);

static DIGESTS: Sql = Sql::new(
    "
    DELETE FROM digests WHERE (scope, kind, prefix) IN
        (SELECT scope, kind, prefix FROM digests WHERE expires_at <= ?1 LIMIT ?2)",
);

/// A statement that deletes rows of a table that are older than a time, so many at once.
macro_rules! older {
    ($table:literal) => {
        Sql::new(concat!(
            "DELETE FROM ",
            $table,
            " WHERE rowid IN (SELECT rowid FROM ",
            $table,
            " WHERE at < ?1 LIMIT ?2)"
        ))
    };
}
pub(super) use older;

static EXCHANGES: Sql = older!("exchanges");

/// What is in parts goes with them; these are before and beyond all parts.
static OUTER_EXCHANGES: [Sql; 2] = [older!("exchanges_before"), older!("exchanges_beyond")];

/// Only what changed no fact: the others are part of a fact's history and go with it.
static PROPOSALS: Sql = Sql::new(
    "
    DELETE FROM proposals WHERE rowid IN (SELECT rowid FROM proposals WHERE at < ?1 AND fact IS NULL LIMIT ?2)",
);

static DEAD_LETTERS: Sql = Sql::new(
    "
    DELETE FROM dead_letters WHERE rowid IN (SELECT rowid FROM dead_letters WHERE dead_at < ?1 LIMIT ?2)",
);

/// Turns that waited in vain for a model: it was taken out of the configuration, or is always behind.
static WINDOW_TURNS: Sql = Sql::new(
    "
    DELETE FROM window_turns WHERE rowid IN (
        SELECT t.rowid FROM window_turns t JOIN windows w ON w.id = t.window_id WHERE w.opened_at < ?1 LIMIT ?2)",
);

static WINDOWS: Sql = Sql::new(
    "
    DELETE FROM windows WHERE id IN (
        SELECT w.id FROM windows w WHERE w.opened_at < ?1
          AND NOT EXISTS (SELECT 1 FROM window_turns t WHERE t.window_id = w.id) LIMIT ?2)",
);

/// So long turns wait for a model at most, in seconds: 30 days.
const WINDOW_SECONDS: i64 = 30 * 24 * 3600;

impl SqlStore {
    pub(super) async fn sweep_rows(&self, now: Time, trace_before: Time, max_rows: u32) -> Result<u64, StoreError> {
        let exchanges = match self.write.dialect() {
            Dialect::Sqlite => slice::from_ref(&EXCHANGES),
            Dialect::Postgres => &OUTER_EXCHANGES[..],
        };
        let steps = [(&STATES, now), (&DIGESTS, now)]
            .into_iter()
            .chain(exchanges.iter().map(|sql| (sql, trace_before)))
            .chain([
                (&PROPOSALS, trace_before),
                (&DEAD_LETTERS, trace_before),
                (&WINDOW_TURNS, now.plus_seconds(-WINDOW_SECONDS)),
                (&WINDOWS, now.plus_seconds(-WINDOW_SECONDS)),
            ]);
        self.sweep_pieces(steps.map(|(sql, before)| (sql, before.0.into())), max_rows).await
    }

    /// Runs statements that delete what is below a value, `max_rows` rows in all; returns how many went.
    pub(super) async fn sweep_pieces(
        &self,
        steps: impl Iterator<Item = (&'static Sql, Value)>,
        max_rows: u32,
    ) -> Result<u64, StoreError> {
        let mut left = u64::from(max_rows);
        for (sql, below) in steps {
            if left == 0 {
                break;
            }
            // One statement, one transaction: the writer is free for others in between.
            let done = query(sql)
                .bind(below)
                .bind(u32::try_from(left).unwrap_or(u32::MAX))
                .execute(&self.write)
                .await
                .map_err(driver("sweep"))?;
            left = left.saturating_sub(done.rows_affected());
        }
        Ok(u64::from(max_rows) - left)
    }
}
