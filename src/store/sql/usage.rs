//! The books: rows by exchange, and sums over them.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::sync::LazyLock;

use async_trait::async_trait;
use sqlx::sqlite::SqliteRow;
use sqlx::{AssertSqlSafe, Row, SqliteConnection};
use tracing::instrument;

use super::error::driver;
use super::row::{hex, rows};
use super::scope::key;
use super::script::Bound;
use super::{SqliteStore, commit};
use crate::base::{ExchangeId, MAX_FIGURE, Time};
use crate::memory::Scope;
use crate::store::{
    StoreError, UsageBy, UsageGroup, UsageOutcome, UsageQuery, UsageRow, UsageStore, UsageSums, UsageTokens,
};
use crate::tokens::Cost;

/// The columns, in the order of [`bind`].
macro_rules! columns {
    () => {
        "exchange, at, tenant, namespace, key, subject, conversation, operation, model, target, attempts, stream, status, \
         outcome, estimated, input, cached, cache_write, reasoning, output, memory, cut, cost, memory_cost, saved, \
         total_us, first_us, overhead_us"
    };
}
/// The beginning of a statement in the form of `script`.
pub(super) const HEAD: &str = concat!("INSERT OR FAIL INTO usage (", columns!(), ") SELECT *");
/// How many columns there are.
pub(super) const N_COLUMNS: usize = 28;

/// Of a row that is like most, all else has its default. Fewer values to bind cost that much less, and there is one row for each
/// request that the gateway answers.
const ORDINARY: &str = "exchange, at, tenant, namespace, key, operation, model, target, stream, input, output, cost, \
     total_us, first_us, overhead_us";
/// How many columns that are.
const N_ORDINARY: usize = 15;

/// How many rows one statement takes: as many as possible of the largest, then of the next. Each statement is prepared once.
const SIZES: [usize; 4] = [64, 16, 4, 1];

static INSERTS: LazyLock<[String; 4]> = LazyLock::new(|| inserts(columns!(), N_COLUMNS));
static ORDINARY_INSERTS: LazyLock<[String; 4]> = LazyLock::new(|| inserts(ORDINARY, N_ORDINARY));

fn inserts(columns: &str, n_columns: usize) -> [String; 4] {
    SIZES.map(|size| {
        let row = format!("({})", vec!["?"; n_columns].join(","));
        let rows = vec![row; size].join(",");
        format!("INSERT INTO usage ({columns}) VALUES {rows} ON CONFLICT (exchange) DO NOTHING")
    })
}

const ERASED: &str = "
    SELECT s.key, s.erased_at FROM json_each(?1) j CROSS JOIN scopes s ON s.key = unhex(j.value)
    WHERE s.erased_at IS NOT NULL";

const SWEEP: &str = "
    DELETE FROM usage WHERE exchange IN (SELECT exchange FROM usage WHERE exchange < ?1 LIMIT ?2 + 0)";

/// What rows add up to, in the order of [`sums`].
const SUMS: &str = "count(*), sum(outcome IN ('cut', 'aborted')), sum(outcome IN ('failed', 'refused')), sum(estimated), \
    sum(cost IS NULL), sum(attempts), sum(input), sum(cached), sum(cache_write), sum(output), sum(reasoning), \
    sum(memory), sum(cut), sum(cost), sum(memory_cost), sum(saved), sum(total_us), sum(first_us), count(first_us), \
    sum(overhead_us)";

/// Binds one row.
pub(super) fn bind(bound: Bound, row: &UsageRow) -> Bound {
    let cost = |cost: Option<Cost>| cost.map(|cost| whole(cost.nanos));
    let (tokens, times) = (&row.tokens, &row.times);
    bound
        .bind(row.exchange.to_string())
        .bind(row.at.0)
        .bind(row.tenant.to_string())
        .bind(row.namespace.to_string())
        .bind(row.key.to_string())
        .bind(row.subject.as_deref().map(str::to_owned))
        .bind(row.conversation.clone())
        .bind(row.operation)
        .bind(row.model.clone())
        .bind(row.target.clone())
        .bind(row.attempts)
        .bind(row.stream)
        .bind(row.status)
        .bind(row.outcome.text())
        .bind(tokens.estimated)
        .bind(whole(tokens.input))
        .bind(whole(tokens.cached))
        .bind(whole(tokens.cache_write))
        .bind(whole(tokens.reasoning))
        .bind(whole(tokens.output))
        .bind(whole(tokens.memory))
        .bind(whole(tokens.cut))
        .bind(cost(row.cost))
        .bind(cost(row.memory_cost))
        .bind(cost(row.saved))
        .bind(whole(times.total_us))
        .bind(times.first_us.map(whole))
        .bind(whole(times.overhead_us))
}

/// Whether all but the columns of [`ORDINARY`] have their default.
fn is_ordinary(row: &UsageRow) -> bool {
    let nothing = Some(Cost::default());
    let tokens = UsageTokens { input: row.tokens.input, output: row.tokens.output, ..UsageTokens::default() };
    row.tokens == tokens
        && (row.attempts, row.status, row.outcome) == (1, 200, UsageOutcome::Complete)
        && (row.memory_cost, row.saved) == (nothing, nothing)
        && row.subject.is_none()
        && row.conversation.is_none()
}

/// Binds a row that [`is_ordinary`].
fn bind_ordinary(bound: Bound, row: &UsageRow) -> Bound {
    bound
        .bind(row.exchange.to_string())
        .bind(row.at.0)
        .bind(row.tenant.to_string())
        .bind(row.namespace.to_string())
        .bind(row.key.to_string())
        .bind(row.operation)
        .bind(row.model.clone())
        .bind(row.target.clone())
        .bind(row.stream)
        .bind(whole(row.tokens.input))
        .bind(whole(row.tokens.output))
        .bind(row.cost.map(|cost| whole(cost.nanos)))
        .bind(whole(row.times.total_us))
        .bind(row.times.first_us.map(whole))
        .bind(whole(row.times.overhead_us))
}

fn whole(figure: u64) -> i64 {
    i64::try_from(figure.min(MAX_FIGURE)).expect("50 bits fit into 64")
}

/// Takes out of a row who it was for.
pub(super) fn forget_subject(row: &mut UsageRow) {
    row.subject = None;
    row.conversation = None;
}

#[async_trait]
impl UsageStore for SqliteStore {
    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = "sqlite", db.operation.name = "book"))]
    async fn book(&self, rows: &[UsageRow]) -> Result<(), StoreError> {
        if rows.iter().any(|row| row.subject.is_some()) {
            let mut tx = self.begin().await?;
            let rows = without_erased(&mut tx, rows).await?;
            insert(&mut tx, &rows).await?;
            return commit(tx).await;
        }
        // What is booked twice changes nothing, so that half of a group may be booked: no transaction is needed.
        let mut conn = self.write.acquire().await.map_err(driver("book usage"))?;
        insert(&mut conn, rows).await
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = "sqlite", db.operation.name = "usage"))]
    async fn usage(&self, query: &UsageQuery) -> Result<Vec<UsageGroup>, StoreError> {
        let (sql, values) = select(query);
        let mut bound = sqlx::query(AssertSqlSafe(sql));
        for value in values {
            bound = bound.bind(value);
        }
        let found = bound.bind(query.limit).fetch_all(&self.read).await.map_err(driver("sum up usage"))?;
        found.iter().map(|row| group(row, query.by.len())).collect()
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = "sqlite", db.operation.name = "sweep_usage"))]
    async fn sweep_usage(&self, before: Time, max_rows: u32) -> Result<u64, StoreError> {
        let done = sqlx::query(SWEEP)
            .bind(first_of(before))
            .bind(max_rows)
            .execute(&self.write)
            .await
            .map_err(driver("sweep usage"))?;
        Ok(done.rows_affected())
    }
}

async fn insert(conn: &mut SqliteConnection, rows: &[UsageRow]) -> Result<(), StoreError> {
    let (ordinary, others): (Vec<_>, Vec<_>) = rows.iter().partition(|row| is_ordinary(row));
    insert_all(conn, &ordinary, &ORDINARY_INSERTS, bind_ordinary).await?;
    insert_all(conn, &others, &INSERTS, bind).await
}

async fn insert_all(
    conn: &mut SqliteConnection,
    rows: &[&UsageRow],
    inserts: &'static [String; 4],
    bind: fn(Bound, &UsageRow) -> Bound,
) -> Result<(), StoreError> {
    let mut left = rows;
    for (size, sql) in SIZES.into_iter().zip(inserts) {
        while left.len() >= size {
            let (now, later) = left.split_at(size);
            let bound = now.iter().fold(sqlx::query(sql.as_str()), |bound, row| bind(bound, row));
            bound.execute(&mut *conn).await.map_err(driver("book usage"))?;
            left = later;
        }
    }
    Ok(())
}

/// The rows, without the subjects that were erased since: what began before an erasure leaves nothing of them.
async fn without_erased(conn: &mut SqliteConnection, all: &[UsageRow]) -> Result<Vec<UsageRow>, StoreError> {
    let scope = |row: &UsageRow| {
        row.subject.clone().map(|subject| key(&Scope::new(row.tenant.clone(), row.namespace.clone(), subject)))
    };
    let keys: HashSet<String> = all.iter().filter_map(scope).map(|key| hex(&key)).collect();
    let found: Vec<(Vec<u8>, i64)> = sqlx::query_as(ERASED)
        .bind(rows(&keys.into_iter().collect::<Vec<_>>()))
        .fetch_all(conn)
        .await
        .map_err(driver("book usage"))?;
    let erased: HashMap<Vec<u8>, i64> = found.into_iter().collect();
    let mut all = all.to_vec();
    for row in &mut all {
        if scope(row).and_then(|key| erased.get(&key[..]).copied()).is_some_and(|at| row.at.0 <= at) {
            forget_subject(row);
        }
    }
    Ok(all)
}

/// The id that stands before all of a moment's.
fn first_of(at: Time) -> String {
    ExchangeId(u128::from(at.0.clamp(0, (1 << 48) - 1).unsigned_abs()) << 80).to_string()
}

/// What a row has of this; an empty text for nothing, so that every value has its place in the order.
fn expression(by: UsageBy) -> &'static str {
    match by {
        UsageBy::Day => "date(at / 1000, 'unixepoch')",
        UsageBy::Subject => "coalesce(subject, '')",
        UsageBy::Conversation => "coalesce(conversation, '')",
        UsageBy::Target => "coalesce(target, '')",
        UsageBy::Exchange
        | UsageBy::Tenant
        | UsageBy::Namespace
        | UsageBy::Key
        | UsageBy::Operation
        | UsageBy::Model
        | UsageBy::Outcome => by.name(),
    }
}

/// Writes the query, with the values that it takes but for the limit. All of its words are ours.
fn select(query: &UsageQuery) -> (String, Vec<String>) {
    let mut values = Vec::new();
    let mut conditions = vec!["true".to_owned()];
    for (bound, sign) in [(query.from, ">="), (query.to, "<")] {
        if let Some(at) = bound {
            conditions.push(format!("exchange {sign} ?"));
            values.push(first_of(at));
        }
    }
    for (by, value) in &query.only {
        conditions.push(format!("{} = ?", expression(*by)));
        values.push(value.clone());
    }
    let of: Vec<&str> = query.by.iter().map(|by| expression(*by)).collect();
    let of = of.join(", ");
    if let Some(after) = query.after.as_ref().filter(|after| !query.by.is_empty() && after.len() == query.by.len()) {
        conditions.push(format!("({of}) > ({})", vec!["?"; after.len()].join(", ")));
        values.extend(after.iter().cloned());
    }
    let mut sql = String::from("SELECT ");
    if !of.is_empty() {
        write!(sql, "{of}, ").expect("a string takes all that is written to it");
    }
    write!(sql, "{SUMS} FROM usage WHERE {}", conditions.join(" AND "))
        .expect("a string takes all that is written to it");
    if !of.is_empty() {
        write!(sql, " GROUP BY {of} ORDER BY {of}").expect("a string takes all that is written to it");
    }
    (sql + " LIMIT ? + 0", values)
}

fn group(row: &SqliteRow, n_by: usize) -> Result<UsageGroup, StoreError> {
    let failed = driver("sum up usage");
    let of = (0..n_by)
        .map(|i| row.try_get::<String, _>(i).map(|text| Some(text).filter(|text| !text.is_empty())).map_err(&failed))
        .collect::<Result<_, _>>()?;
    Ok(UsageGroup { of, sums: sums(row, n_by)? })
}

fn sums(row: &SqliteRow, from: usize) -> Result<UsageSums, StoreError> {
    let mut at = from;
    // A sum over no rows is NULL.
    let mut next = || {
        at += 1;
        let figure = row.try_get::<Option<i64>, _>(at - 1).map_err(driver("sum up usage"))?;
        Ok::<u64, StoreError>(figure.unwrap_or_default().max(0).unsigned_abs())
    };
    Ok(UsageSums {
        exchanges: next()?,
        incomplete: next()?,
        failed: next()?,
        estimated: next()?,
        unpriced: next()?,
        attempts: next()?,
        input: next()?,
        cached: next()?,
        cache_write: next()?,
        output: next()?,
        reasoning: next()?,
        memory: next()?,
        cut: next()?,
        cost: Cost::from_nanos(next()?),
        memory_cost: Cost::from_nanos(next()?),
        saved: Cost::from_nanos(next()?),
        total_us: next()?,
        first_us: next()?,
        n_first: next()?,
        overhead_us: next()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_binds_as_many_values_as_there_are_columns() {
        assert_eq!(columns!().split(',').count(), N_COLUMNS);
        assert_eq!(ORDINARY.split(',').count(), N_ORDINARY);
        assert!(SIZES[0] * N_COLUMNS < 32_766, "more values than a statement takes");
    }

    #[test]
    fn what_people_ask_for_is_bound_and_not_written_into_the_query() {
        let query = UsageQuery {
            by: vec![UsageBy::Day, UsageBy::Key],
            from: Some(Time(5)),
            only: vec![(UsageBy::Tenant, "x' OR 1=1".to_owned())],
            after: Some(vec!["2026-01-01".to_owned(), "a".to_owned()]),
            ..UsageQuery::default()
        };
        let (sql, values) = select(&query);
        assert!(!sql.contains("OR 1"), "{sql}");
        assert_eq!(sql.matches('?').count(), values.len() + 1, "{sql}");
    }
}
