//! The books: rows by exchange, and sums over them.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::slice;

use async_trait::async_trait;
use tracing::instrument;

use super::error::driver;
use super::insert::Rows;
use super::query::{On, Row, Value, query_as, query_built};
use super::row::rows;
use super::scope::key;
use super::session::Tx;
use super::text::{Dialect, Sql, for_postgres};
use super::{SqlStore, commit};
use crate::base::{ExchangeId, MAX_FIGURE, Time, hex};
use crate::memory::Scope;
use crate::store::{
    StoreError, UsageBy, UsageGroup, UsageOutcome, UsageQuery, UsageRow, UsageStore, UsageSums, UsageTokens,
};
use crate::tokens::Cost;

/// The columns, in the order of [`values`].
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
macro_rules! ordinary {
    () => {
        "exchange, at, tenant, namespace, key, subject, operation, model, target, stream, input, output, cost, \
     total_us, first_us, overhead_us"
    };
}
/// How many columns that are.
const N_ORDINARY: usize = 16;

static ERASED: Sql = Sql::new(
    "
    SELECT s.key, s.erased_at FROM each_text(?1) j CROSS JOIN scopes s ON s.key = unhex(j.value)
    WHERE s.erased_at IS NOT NULL",
);

static SWEEP: Sql = Sql::new(
    "
    DELETE FROM usage WHERE exchange IN (SELECT exchange FROM usage WHERE exchange < ?1 LIMIT ?2 + 0)",
);

/// What is in parts goes with them; these are before and beyond all parts.
static SWEEP_OUTER: [Sql; 2] = [
    Sql::new(
        "
    DELETE FROM usage_before WHERE exchange IN (SELECT exchange FROM usage_before WHERE exchange < ?1 LIMIT ?2 + 0)",
    ),
    Sql::new(
        "
    DELETE FROM usage_beyond WHERE exchange IN (SELECT exchange FROM usage_beyond WHERE exchange < ?1 LIMIT ?2 + 0)",
    ),
];

/// What rows add up to, in the order of [`sums`].
const SUMS: &str = "count(*), count(*) FILTER (WHERE outcome IN ('cut', 'aborted')), \
    count(*) FILTER (WHERE outcome IN ('failed', 'refused')), count(*) FILTER (WHERE estimated), \
    count(*) FILTER (WHERE cost IS NULL), CAST(sum(attempts) AS BIGINT), CAST(sum(input) AS BIGINT), \
    CAST(sum(cached) AS BIGINT), CAST(sum(cache_write) AS BIGINT), CAST(sum(output) AS BIGINT), \
    CAST(sum(reasoning) AS BIGINT), CAST(sum(memory) AS BIGINT), CAST(sum(cut) AS BIGINT), CAST(sum(cost) AS BIGINT), \
    CAST(sum(memory_cost) AS BIGINT), CAST(sum(saved) AS BIGINT), CAST(sum(total_us) AS BIGINT), \
    CAST(sum(first_us) AS BIGINT), count(first_us), CAST(sum(overhead_us) AS BIGINT)";

/// All rows of a kind go in with the same columns.
/// All columns, in the form of `insert`.
pub(super) const INTO: &str = concat!("INSERT INTO usage (", columns!(), ")");
static ROWS: Rows = Rows::new(INTO, N_COLUMNS, KEEP);
static ORDINARY_ROWS: Rows = Rows::new(concat!("INSERT INTO usage (", ordinary!(), ")"), N_ORDINARY, KEEP);
const KEEP: &str = "ON CONFLICT (exchange) DO NOTHING";

/// The values of one row.
pub(super) fn values(row: &UsageRow) -> [Value; N_COLUMNS] {
    let cost = |cost: Option<Cost>| cost.map(|cost| whole(cost.nanos)).into();
    let (tokens, times) = (&row.tokens, &row.times);
    [
        row.exchange.to_string().into(),
        row.at.0.into(),
        row.tenant.to_string().into(),
        row.namespace.to_string().into(),
        row.key.to_string().into(),
        row.subject.as_deref().into(),
        row.conversation.clone().into(),
        row.operation.into(),
        row.model.clone().into(),
        row.target.clone().into(),
        row.attempts.into(),
        row.stream.into(),
        row.status.into(),
        row.outcome.text().into(),
        tokens.estimated.into(),
        whole(tokens.input).into(),
        whole(tokens.cached).into(),
        whole(tokens.cache_write).into(),
        whole(tokens.reasoning).into(),
        whole(tokens.output).into(),
        whole(tokens.memory).into(),
        whole(tokens.cut).into(),
        cost(row.cost),
        cost(row.memory_cost),
        cost(row.saved),
        whole(times.total_us).into(),
        times.first_us.map(whole).into(),
        whole(times.overhead_us).into(),
    ]
}

/// Whether all but the columns of `ordinary` have their default.
fn is_ordinary(row: &UsageRow) -> bool {
    let nothing = Some(Cost::default());
    let tokens = UsageTokens { input: row.tokens.input, output: row.tokens.output, ..UsageTokens::default() };
    row.tokens == tokens
        && (row.attempts, row.status, row.outcome) == (1, 200, UsageOutcome::Complete)
        && (row.memory_cost, row.saved) == (nothing, nothing)
        && row.conversation.is_none()
}

/// The values of a row that [`is_ordinary`].
fn ordinary_values(row: &UsageRow) -> [Value; N_ORDINARY] {
    [
        row.exchange.to_string().into(),
        row.at.0.into(),
        row.tenant.to_string().into(),
        row.namespace.to_string().into(),
        row.key.to_string().into(),
        row.subject.as_deref().into(),
        row.operation.into(),
        row.model.clone().into(),
        row.target.clone().into(),
        row.stream.into(),
        whole(row.tokens.input).into(),
        whole(row.tokens.output).into(),
        row.cost.map(|cost| whole(cost.nanos)).into(),
        whole(row.times.total_us).into(),
        row.times.first_us.map(whole).into(),
        whole(row.times.overhead_us).into(),
    ]
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
impl UsageStore for SqlStore {
    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "book"))]
    async fn book(&self, rows: &[UsageRow]) -> Result<(), StoreError> {
        if rows.iter().any(|row| row.subject.is_some()) {
            let mut tx = self.begin().await?;
            let rows = without_erased(&mut tx, rows).await?;
            insert(&mut tx, &rows).await?;
            return commit(tx).await;
        }
        // What is booked twice changes nothing, so that half of a group may be booked: no transaction is needed.
        insert(&self.write, rows).await
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "usage"))]
    async fn usage(&self, query: &UsageQuery) -> Result<Vec<UsageGroup>, StoreError> {
        let dialect = self.read.dialect();
        let (sql, values) = select(query, dialect);
        let mut bound = query_built(if dialect == Dialect::Postgres { for_postgres(&sql) } else { sql });
        for value in values {
            bound = bound.bind(value);
        }
        let found = bound.bind(query.limit).fetch_all(&self.read).await.map_err(driver("sum up usage"))?;
        found.iter().map(|row| group(row, query.by.len())).collect()
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "sweep_usage"))]
    async fn sweep_usage(&self, before: Time, max_rows: u32) -> Result<u64, StoreError> {
        let steps = match self.write.dialect() {
            Dialect::Sqlite => slice::from_ref(&SWEEP),
            Dialect::Postgres => &SWEEP_OUTER[..],
        };
        self.sweep_pieces(steps.iter().map(|sql| (sql, first_of(before).into())), max_rows).await
    }
}

async fn insert<'c>(on: impl Into<On<'c>>, rows: &[UsageRow]) -> Result<(), StoreError> {
    let (ordinary, others): (Vec<_>, Vec<_>) = rows.iter().partition(|row| is_ordinary(row));
    let mut on = on.into();
    let failed = driver("book usage");
    ORDINARY_ROWS.insert(&mut on, ordinary.into_iter().map(ordinary_values)).await.map_err(&failed)?;
    ROWS.insert(&mut on, others.into_iter().map(values)).await.map_err(&failed)?;
    Ok(())
}

/// The rows, without the subjects that were erased since: what began before an erasure leaves nothing of them.
async fn without_erased<'r>(conn: &mut Tx, all: &'r [UsageRow]) -> Result<Cow<'r, [UsageRow]>, StoreError> {
    let scope_of = |row: &UsageRow| {
        row.subject.clone().map(|subject| Scope::new(row.tenant.clone(), row.namespace.clone(), subject))
    };
    // The rows of a group are of few people.
    let scopes: HashSet<Scope> = all.iter().filter_map(scope_of).collect();
    let mut keyed: HashMap<_, _> = scopes.into_iter().map(|scope| (key(&scope), scope)).collect();
    let found: Vec<(Vec<u8>, i64)> = query_as(&ERASED)
        .bind(rows(&keyed.keys().map(|key| hex(key)).collect::<Vec<_>>()))
        .fetch_all(conn)
        .await
        .map_err(driver("book usage"))?;
    if found.is_empty() {
        return Ok(Cow::Borrowed(all));
    }
    let erased: HashMap<Scope, i64> =
        found.into_iter().filter_map(|(key, at)| Some((keyed.remove(&key[..])?, at))).collect();
    let mut all = all.to_vec();
    for row in &mut all {
        if scope_of(row).and_then(|scope| erased.get(&scope)).is_some_and(|at| row.at.0 <= *at) {
            forget_subject(row);
        }
    }
    Ok(Cow::Owned(all))
}

/// The id that stands before all of a moment's.
pub(super) fn first_of(at: Time) -> String {
    ExchangeId(u128::from(at.0.clamp(0, (1 << 48) - 1).unsigned_abs()) << 80).to_string()
}

/// What a row has of this; an empty text for nothing, so that every value has its place in the order.
fn expression(by: UsageBy, dialect: Dialect) -> &'static str {
    match by {
        UsageBy::Day if dialect == Dialect::Postgres => {
            "to_char(to_timestamp(at / 1000) AT TIME ZONE 'UTC', 'YYYY-MM-DD')"
        }
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
fn select(query: &UsageQuery, dialect: Dialect) -> (String, Vec<String>) {
    let mut values = Vec::new();
    let mut conditions = vec!["true".to_owned()];
    for (bound, sign) in [(query.from, ">="), (query.to, "<")] {
        if let Some(at) = bound {
            conditions.push(format!("exchange {sign} ?"));
            values.push(first_of(at));
        }
    }
    for (by, value) in &query.only {
        conditions.push(format!("{} = ?", expression(*by, dialect)));
        values.push(value.clone());
    }
    let of: Vec<&str> = query.by.iter().map(|by| expression(*by, dialect)).collect();
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

fn group(row: &Row, n_by: usize) -> Result<UsageGroup, StoreError> {
    let failed = driver("sum up usage");
    let of = (0..n_by)
        .map(|i| row.get::<String>(i).map(|text| Some(text).filter(|text| !text.is_empty())).map_err(&failed))
        .collect::<Result<_, _>>()?;
    Ok(UsageGroup { of, sums: sums(row, n_by)? })
}

fn sums(row: &Row, from: usize) -> Result<UsageSums, StoreError> {
    let mut at = from;
    // A sum over no rows is NULL.
    let mut next = || {
        at += 1;
        let figure = row.get::<Option<i64>>(at - 1).map_err(driver("sum up usage"))?;
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
        assert_eq!(ordinary!().split(',').count(), N_ORDINARY);
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
        let (sql, values) = select(&query, Dialect::Sqlite);
        assert!(!sql.contains("OR 1"), "{sql}");
        assert_eq!(sql.matches('?').count(), values.len() + 1, "{sql}");
    }
}
