//! Tables that grow with every exchange are divided by time: what is over goes as a whole, which costs nothing however much it is.
//!
//! A part is a range of ids, which begin with the time. Before the first part is `TABLE_before`; what no part takes goes to `TABLE_beyond`, so
//! that no row is ever refused. Between them are parts of a twelfth of the time that rows are kept, made ahead: so much longer a row may stay. What lies
//! in the outer two is deleted in pieces (`sweep.rs`, `usage.rs`), as in SQLite.
//!
//! It goes by the server's clock, so that one gateway whose clock is wrong drops nothing, and by what the catalogue says of the parts, so
//! that replicas with other settings agree. Nobody waits for it for longer than [`LOCK_WAIT_MILLIS`]: what it does not get by then is done the next time.

use sqlx::postgres::{PgPool, Postgres};
use sqlx::{AssertSqlSafe, PgConnection, Transaction};

use crate::base::{ExchangeId, Time};
use crate::store::sql::error::driver;
use crate::store::sql::usage::first_of;
use crate::store::{Aging, Divided, StoreError};

/// So long a change waits for what others hold, and others behind it.
const LOCK_WAIT_MILLIS: u32 = 250;

/// Parts are changed by one replica at a time.
const ALONE: &str = "SELECT pg_try_advisory_xact_lock(7234503)";

/// SQLSTATE `lock_not_available`.
const NOT_NOW: &str = "55P03";

const HOUR_MILLIS: i64 = 3_600_000;

/// Parts of the time that rows are kept.
const PARTS: i64 = 12;

/// Rows that came before their part was made: so many are moved into it while others wait.
const MOVED_AT_ONCE: i64 = 20_000;

/// The parts with bounds, the server's estimate of their rows along.
const LIST: &str = "
    SELECT c.relname::text, pg_get_expr(c.relpartbound, c.oid), greatest(c.reltuples, 0)::bigint
    FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = to_regclass($1) AND pg_get_expr(c.relpartbound, c.oid) <> 'DEFAULT'";

/// The table, and its column of ids.
fn place(what: Aging) -> (&'static str, &'static str) {
    match what {
        Aging::Shown => ("exchanges", "id"),
        Aging::Usage => ("usage", "exchange"),
        Aging::Raw => ("raw_exchanges", "id"),
    }
}

/// A part: its rows are from a moment on, and until another one.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Part {
    name: String,
    from: Time,
    until: Time,
    rows: u64,
}

/// Makes room for what comes, and drops one part that is over.
pub(in crate::store::sql) async fn divide(pool: &PgPool, what: Aging, days: u32) -> Result<Divided, StoreError> {
    let now = sqlx::query_scalar("SELECT now_millis()").fetch_one(pool).await.map_err(driver("ask for the time"))?;
    divide_at(pool, what, days, Time(now)).await
}

async fn divide_at(pool: &PgPool, what: Aging, days: u32, now: Time) -> Result<Divided, StoreError> {
    let kept = i64::from(days) * 24 * HOUR_MILLIS;
    let span = (kept / PARTS / HOUR_MILLIS).max(1) * HOUR_MILLIS;
    if days > 0 {
        // The one that is written to, and the next one.
        for moment in [now, now.plus_millis(span)] {
            make(pool, what, moment, span).await?;
        }
    }
    drop_one(pool, what, now.plus_millis(-kept)).await
}

/// Makes the part that a moment belongs to, where there is none.
async fn make(pool: &PgPool, what: Aging, moment: Time, span: i64) -> Result<(), StoreError> {
    let failed = driver("make a part of a table");
    let wanted = |parts: Vec<Part>| missing(&parts, moment, span);
    let Some((mut tx, bounds)) = alone(pool, what, wanted, &failed).await? else { return Ok(()) };
    match attach(&mut tx, what, bounds).await {
        Ok(true) => tx.commit().await.map_err(failed),
        Ok(false) => tx.rollback().await.map_err(failed),
        Err(error) => put_off(error, what).map_err(failed),
    }
}

/// Makes a part; `false` where that cannot be, and nothing of it is to stay.
async fn attach(tx: &mut PgConnection, what: Aging, (from, until): (Time, Time)) -> Result<bool, sqlx::Error> {
    let (table, id) = place(what);
    let (lowest, highest) = (first_of(from), first_of(until));
    let name = format!("{table}_{}", hour(from));
    // To attach a table lets others write to all parts meanwhile; to make it as a part would not.
    run(tx, format!("CREATE TABLE {name} (LIKE {table} INCLUDING DEFAULTS)")).await?;
    run(tx, format!("LOCK TABLE {table}_beyond IN ACCESS EXCLUSIVE MODE")).await?;
    let early = format!("FROM {table}_beyond WHERE {id} >= '{lowest}' AND {id} < '{highest}'");
    let count = format!("SELECT count(*) FROM (SELECT 1 {early} LIMIT {MOVED_AT_ONCE} + 1) early");
    let n_early: i64 = sqlx::query_scalar(AssertSqlSafe(count)).fetch_one(&mut *tx).await?;
    if n_early > MOVED_AT_ONCE {
        tracing::warn!(table, %from, %until, "too many rows came before there was a part for them: they are deleted in pieces");
        return Ok(false);
    }
    if n_early > 0 {
        let moves = format!("WITH early AS (DELETE {early} RETURNING *) INSERT INTO {name} SELECT * FROM early");
        run(tx, moves).await?;
    }
    run(tx, format!("ALTER TABLE {table} ATTACH PARTITION {name} FOR VALUES FROM ('{lowest}') TO ('{highest}')"))
        .await?;
    Ok(true)
}

/// Drops a part all of whose rows are older than `before`.
async fn drop_one(pool: &PgPool, what: Aging, before: Time) -> Result<Divided, StoreError> {
    let (table, _) = place(what);
    let failed = driver("drop a part of a table");
    let over = |parts: Vec<Part>| {
        let over = parts.into_iter().filter(|part| part.until <= before && part.from > Time(i64::MIN));
        over.min_by_key(|part| part.until)
    };
    let Some((mut tx, part)) = alone(pool, what, over, &failed).await? else { return Ok(Divided::default()) };
    // Its file is deleted after the locks are let go.
    let drops = format!("ALTER TABLE {table} DETACH PARTITION {name}; DROP TABLE {name}", name = part.name);
    match run(&mut tx, drops).await {
        Ok(()) => {
            tx.commit().await.map_err(failed)?;
            tracing::info!(part = part.name, rows = part.rows, "a part of a table was over and is gone");
            Ok(Divided { parts: 1, rows: part.rows })
        }
        Err(error) => put_off(error, what).map(|()| Divided::default()).map_err(failed),
    }
}

/// Asks whether there is something to do, and if so, begins a transaction in which nobody else changes parts, and asks again.
async fn alone<T>(
    pool: &PgPool,
    what: Aging,
    ask: impl Fn(Vec<Part>) -> Option<T>,
    failed: impl Fn(sqlx::Error) -> StoreError,
) -> Result<Option<(Transaction<'static, Postgres>, T)>, StoreError> {
    let mut conn = pool.acquire().await.map_err(&failed)?;
    if ask(list(&mut conn, what).await?).is_none() {
        return Ok(None);
    }
    drop(conn);
    let mut tx = pool.begin().await.map_err(&failed)?;
    run(&mut tx, format!("SET LOCAL lock_timeout = {LOCK_WAIT_MILLIS}")).await.map_err(&failed)?;
    let is_alone: bool = sqlx::query_scalar(ALONE).fetch_one(&mut *tx).await.map_err(&failed)?;
    if !is_alone {
        return Ok(None);
    }
    Ok(ask(list(&mut tx, what).await?).map(|found| (tx, found)))
}

/// Takes a lock that was not to be had for no error.
fn put_off(error: sqlx::Error, what: Aging) -> Result<(), sqlx::Error> {
    let is_busy = error.as_database_error().and_then(|error| error.code()).is_some_and(|code| code == NOT_NOW);
    if is_busy {
        tracing::debug!(?what, "others hold the table: its parts are seen to the next time");
        return Ok(());
    }
    Err(error)
}

/// Runs a statement all of whose words are ours.
async fn run(conn: &mut PgConnection, sql: String) -> Result<(), sqlx::Error> {
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(conn).await?;
    Ok(())
}

async fn list(conn: &mut PgConnection, what: Aging) -> Result<Vec<Part>, StoreError> {
    let (table, _) = place(what);
    let found: Vec<(String, String, i64)> =
        sqlx::query_as(LIST).bind(table).fetch_all(conn).await.map_err(driver("list the parts of a table"))?;
    let part = |(name, bound, rows): (String, String, i64)| {
        let (from, until) = range(&bound).ok_or_else(|| StoreError::Inconsistent {
            table,
            column: "the bounds of a part",
            id: name.clone(),
            problem: format!("{bound} is no range of ids"),
        })?;
        Ok(Part { name, from, until, rows: rows.unsigned_abs() })
    };
    found.into_iter().map(part).collect()
}

/// Reads the bounds of a part as the catalogue has them: `FOR VALUES FROM (MINVALUE) TO ('ex_…')`.
fn range(bound: &str) -> Option<(Time, Time)> {
    let (from, until) = bound.strip_prefix("FOR VALUES FROM (")?.strip_suffix(')')?.split_once(") TO (")?;
    let moment = |text: &str| {
        let id: ExchangeId = text.strip_prefix('\'')?.strip_suffix('\'')?.parse().ok()?;
        i64::try_from(id.0 >> 80).ok().map(Time)
    };
    let from = if from == "MINVALUE" { Time(i64::MIN) } else { moment(from)? };
    let until = if until == "MAXVALUE" { Time(i64::MAX) } else { moment(until)? };
    Some((from, until))
}

/// The part that a moment wants, of `span` milliseconds at most, so that it fits between those that are there; `None` where one has it.
fn missing(parts: &[Part], moment: Time, span: i64) -> Option<(Time, Time)> {
    if parts.iter().any(|part| part.from <= moment && moment < part.until) {
        return None;
    }
    let below = parts.iter().map(|part| part.until).filter(|until| *until <= moment).max();
    let above = parts.iter().map(|part| part.from).filter(|from| *from > moment).min();
    // Right behind the last one, unless nobody was here for long.
    let from = below
        .filter(|below| moment.since(*below) < span)
        .unwrap_or(Time(moment.0 - moment.0.rem_euclid(HOUR_MILLIS)).max(below.unwrap_or(Time(i64::MIN))));
    let until = from.plus_millis(span);
    Some((from, above.map_or(until, |above| above.min(until))))
}

/// An hour in UTC, as the name of a part has it: `2026113019`.
fn hour(at: Time) -> String {
    at.to_rfc3339().chars().filter(char::is_ascii_digit).take(10).collect()
}

#[cfg(test)]
mod tests;
