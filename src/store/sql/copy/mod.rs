//! Copies one database into another, while the first is in use.
//!
//! Both are read table by table in the order of the key, a batch at a time, and what differs is written: rows that are missing or other than in the
//! source, and rows that the source has no more. So one run copies, the next one takes up what was left (a run that was broken off, or what changed
//! meanwhile), and one in which nothing differs proves that both are the same. Nobody may write to the target meanwhile.

mod tables;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;

use super::error::driver;
use super::query::{Row, Value, query_built};
use super::session::{Pool, Tx};
use super::text::{Dialect, for_postgres};
use super::{SqlStore, commit};
use crate::store::{StoreError, UpkeepStore};
use tables::{Kind, TABLES, Table};

/// Rows that are read and compared at once.
const BATCH: usize = 500;

/// Who copied into a database, and who served from it since.
const MARK: &str = "copied-from";
const SERVED: &str = "served";

/// How far a copy is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copying {
    /// The table.
    pub table: &'static str,
    /// Rows of the source that were looked at, of all tables so far.
    pub done: u64,
    /// How many there were when it began.
    pub all: u64,
}

/// What became of one table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copied {
    /// The table.
    pub table: &'static str,
    /// Rows in the source.
    pub rows: u64,
    /// Rows that were missing in the target, or other than in the source.
    pub written: u64,
    /// Rows of the target that the source has no more.
    pub removed: u64,
    /// BLAKE3 over all rows of the source in the order of the key.
    pub checksum: [u8; 32],
}

impl Copied {
    /// Whether the table was the same in both before this run.
    #[must_use]
    pub fn was_same(&self) -> bool {
        self.written == 0 && self.removed == 0
    }
}

/// A row by its columns.
type Values = Vec<Value>;

impl SqlStore {
    /// Makes `target` the same as this database; `tell` hears of it now and then.
    ///
    /// # Errors
    /// [`StoreError::Unusable`] when the target is no PostgreSQL database, has something of its own, or was served from since it was copied to.
    pub async fn copy_to(&self, target: &Self, mut tell: impl FnMut(&Copying)) -> Result<Vec<Copied>, StoreError> {
        self.claim_target(target).await?;
        let mut state = Copying { table: "", done: 0, all: 0 };
        for table in TABLES {
            state.all += count(&self.read, table).await?;
        }
        let mut copied = Vec::with_capacity(TABLES.len());
        for table in TABLES {
            state.table = table.name;
            copied.push(self.copy_table(target, table, &mut state, &mut tell).await?);
        }
        Ok(copied)
    }

    /// Says that a gateway serves from this database: nothing is copied into it any more.
    ///
    /// # Errors
    /// The database cannot be written.
    pub async fn say_served(&self) -> Result<(), StoreError> {
        if self.write.dialect() == Dialect::Postgres && self.mark(MARK).await?.is_some() {
            self.set_mark(SERVED, "1").await?;
        }
        Ok(())
    }

    async fn claim_target(&self, target: &Self) -> Result<(), StoreError> {
        if target.write.dialect() != Dialect::Postgres {
            return Err(StoreError::Unusable("only a PostgreSQL database can be copied into".to_owned()));
        }
        let source = crate::base::hex(blake3::hash(&self.salt).as_bytes());
        if target.mark(SERVED).await?.is_some() {
            return Err(StoreError::Unusable(
                "a gateway has served from the target since it was copied to: to copy again would undo what it learned. \
                 Empty the database first if that is what you want"
                    .to_owned(),
            ));
        }
        match target.mark(MARK).await? {
            Some(of) if of == source => Ok(()),
            Some(_) => Err(StoreError::Unusable("another database was copied into the target".to_owned())),
            None if count(&target.read, scopes()).await? > 0 => Err(StoreError::Unusable(
                "the target has memories of its own: copying would erase them. Take an empty database".to_owned(),
            )),
            None => target.set_mark(MARK, &source).await,
        }
    }

    async fn copy_table(
        &self,
        target: &Self,
        table: &'static Table,
        state: &mut Copying,
        tell: &mut impl FnMut(&Copying),
    ) -> Result<Copied, StoreError> {
        let mut copied = Copied { table: table.name, rows: 0, written: 0, removed: 0, checksum: [0; 32] };
        let mut checksum = blake3::Hasher::new();
        let mut after: Option<Values> = None;
        loop {
            let wanted = read(&self.read, table, after.as_deref(), None).await?;
            let is_last = wanted.len() < BATCH;
            let until = if is_last { None } else { wanted.last().map(|row| key(table, row)) };
            let found = read_all(&target.read, table, after.as_deref(), until.as_deref()).await?;
            for row in &wanted {
                checksum.update(&encoded(row));
            }
            copied.rows += wanted.len() as u64;
            state.done += wanted.len() as u64;
            let difference = compare(table, wanted, found);
            copied.written += difference.write.len() as u64;
            copied.removed += difference.remove.len() as u64;
            difference.apply(target, table).await?;
            tell(state);
            if is_last {
                break;
            }
            after = until;
        }
        if let Some(column) = table.numbered() {
            go_on_behind(target, table.name, column).await?;
        }
        copied.checksum = *checksum.finalize().as_bytes();
        Ok(copied)
    }
}

fn scopes() -> &'static Table {
    TABLES.iter().find(|table| table.name == "scopes").expect("scopes are a table")
}

async fn count(pool: &Pool, table: &Table) -> Result<u64, StoreError> {
    let found = query_built(format!("SELECT count(*) FROM {}", table.name)).fetch_all(pool).await;
    let rows = found.map_err(driver("count rows"))?;
    let count: Option<u64> = rows.first().map(|row| row.get(0)).transpose().map_err(driver("count rows"))?;
    Ok(count.unwrap_or_default())
}

/// Reads a batch of rows in the order of the key, behind `after` and up to `until`. Rows that say how far a copy is are no part of it.
async fn read(
    pool: &Pool,
    table: &'static Table,
    after: Option<&[Value]>,
    until: Option<&[Value]>,
) -> Result<Vec<Values>, StoreError> {
    let key = table.key.join(", ");
    let places = vec!["?"; table.key.len()].join(", ");
    let mut conditions = vec!["true".to_owned()];
    if after.is_some() {
        conditions.push(format!("({key}) > ({places})"));
    }
    if until.is_some() {
        conditions.push(format!("({key}) <= ({places})"));
    }
    if table.name == "marks" {
        conditions.push(format!("name NOT IN ('{MARK}', '{SERVED}')"));
    }
    let sql = format!(
        "SELECT {} FROM {} WHERE {} ORDER BY {key} LIMIT {BATCH}",
        table.names(),
        table.name,
        conditions.join(" AND ")
    );
    let values = after.into_iter().flatten().chain(until.into_iter().flatten()).cloned();
    let bound = values.fold(built(sql, pool.dialect()), |query, value| query.bind(value));
    let found = bound.fetch_all(pool).await.map_err(driver("read rows to copy"))?;
    found.iter().map(|row| values_of(row, table).map_err(driver("read rows to copy"))).collect()
}

/// The same, however many there are.
async fn read_all(
    pool: &Pool,
    table: &'static Table,
    after: Option<&[Value]>,
    until: Option<&[Value]>,
) -> Result<Vec<Values>, StoreError> {
    let mut all = read(pool, table, after, until).await?;
    let mut n_read = all.len();
    while n_read == BATCH {
        let after = all.last().map(|row| key(table, row));
        let more = read(pool, table, after.as_deref(), until).await?;
        n_read = more.len();
        all.extend(more);
    }
    Ok(all)
}

fn values_of(row: &Row, table: &Table) -> Result<Values, sqlx::Error> {
    let value = |(index, (_, kind)): (usize, &(&str, Kind))| {
        Ok(match kind {
            Kind::Int => Value::Int(row.get(index)?),
            Kind::Bool => Value::Bool(row.get(index)?),
            Kind::Text => Value::Text(row.get(index)?),
            Kind::Bytes => Value::Bytes(row.get(index)?),
        })
    };
    table.columns.iter().enumerate().map(value).collect()
}

fn key(table: &Table, row: &[Value]) -> Values {
    table.key_places().filter_map(|place| row.get(place).cloned()).collect()
}

/// A row as bytes: no two rows are written alike.
fn encoded(row: &[Value]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut add = |kind: u8, part: &[u8]| {
        bytes.push(kind);
        bytes.extend((part.len() as u64).to_le_bytes());
        bytes.extend(part);
    };
    for value in row {
        match value {
            Value::Int(Some(n)) => add(1, &n.to_le_bytes()),
            Value::Bool(is) => add(2, &[u8::from(*is)]),
            // As PostgreSQL keeps it.
            Value::Text(Some(text)) => add(3, text.replace('\0', "\u{fffd}").as_bytes()),
            Value::Json(text) => add(3, text.as_bytes()),
            Value::Bytes(Some(part)) => add(4, part),
            Value::Int(None) | Value::Text(None) | Value::Bytes(None) => add(0, &[]),
        }
    }
    bytes
}

/// Compares keys as both databases order them.
fn order(a: &[Value], b: &[Value]) -> Ordering {
    let by_part = a.iter().zip(b).map(|(a, b)| match (a, b) {
        (Value::Int(a), Value::Int(b)) => a.cmp(b),
        (Value::Text(a), Value::Text(b)) => a.cmp(b),
        (Value::Bytes(a), Value::Bytes(b)) => a.cmp(b),
        _ => Ordering::Equal,
    });
    by_part.into_iter().find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

/// What makes a batch of the target the same as one of the source.
#[derive(Debug, Default)]
struct Difference {
    write: Vec<Values>,
    remove: Vec<Values>,
}

/// Both in the order of the key.
fn compare(table: &Table, wanted: Vec<Values>, found: Vec<Values>) -> Difference {
    let mut difference = Difference::default();
    let mut found = found.into_iter().peekable();
    for row in wanted {
        let name = key(table, &row);
        while let Some(other) = found.next_if(|other| order(&key(table, other), &name).is_lt()) {
            difference.remove.push(key(table, &other));
        }
        let same = found.next_if(|other| order(&key(table, other), &name).is_eq());
        if same.is_none_or(|same| encoded(&same) != encoded(&row)) {
            difference.write.push(row);
        }
    }
    difference.remove.extend(found.map(|other| key(table, &other)));
    difference
}

impl Difference {
    async fn apply(self, target: &SqlStore, table: &Table) -> Result<(), StoreError> {
        if self.write.is_empty() && self.remove.is_empty() {
            return Ok(());
        }
        let failed = driver("copy rows");
        let mut tx = target.begin().await?;
        // What follows changes (triggers) was copied as well.
        query_built("SET LOCAL backstory.copying = 'on'").execute(&mut tx).await.map_err(&failed)?;
        let places = vec!["?"; table.key.len()].join(", ");
        for name in self.remove {
            let sql = format!("DELETE FROM {} WHERE ({}) = ({places})", table.name, table.key.join(", "));
            bound(sql, name, &tx).execute(&mut tx).await.map_err(&failed)?;
        }
        let names = table.columns.iter().map(|(name, _)| *name).filter(|name| !table.key.contains(name));
        let set: Vec<_> = names.map(|name| format!("{name} = excluded.{name}")).collect();
        let row = format!("({})", vec!["?"; table.columns.len()].join(","));
        for rows in self.write.chunks(ROWS) {
            let sql = format!(
                "INSERT INTO {} ({}) VALUES {} ON CONFLICT ({}) DO UPDATE SET {}",
                table.name,
                table.names(),
                vec![row.as_str(); rows.len()].join(","),
                table.key.join(", "),
                set.join(", ")
            );
            bound(sql, rows.iter().flatten().cloned(), &tx).execute(&mut tx).await.map_err(&failed)?;
        }
        commit(tx).await
    }
}

/// Rows of one statement.
const ROWS: usize = 100;

fn bound(sql: String, values: impl IntoIterator<Item = Value>, tx: &Tx) -> super::query::Query {
    values.into_iter().fold(built(sql, tx.dialect()), |query, value| query.bind(value))
}

fn built(sql: String, dialect: Dialect) -> super::query::Query {
    query_built(if dialect == Dialect::Postgres { for_postgres(&sql) } else { sql })
}

/// Has new rows numbered behind those that were copied.
async fn go_on_behind(target: &SqlStore, table: &str, column: &str) -> Result<(), StoreError> {
    let sql = format!(
        "SELECT setval(pg_get_serial_sequence('{table}', '{column}'), (SELECT coalesce(max({column}), 0) + 1 FROM {table}), false)"
    );
    query_built(sql).fetch_all(&target.write).await.map_err(driver("number rows"))?;
    Ok(())
}
