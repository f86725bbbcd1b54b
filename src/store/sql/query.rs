//! Statements, with the values that they take, run on either database.
//!
//! The names are sqlx's. What is bound is one of few kinds ([`Value`]): whole numbers, texts, bytes, truth values.

use std::borrow::Cow;
use std::marker::PhantomData;

use futures_util::stream::BoxStream;
use futures_util::{StreamExt, TryStreamExt};
use sqlx::postgres::{PgArguments, PgPool, PgRow, Postgres};
use sqlx::sqlite::{Sqlite, SqliteArguments, SqlitePool, SqliteRow};
use sqlx::{Arguments, Error, PgConnection, Row as _, SqliteConnection};

use super::row::JsonRows;
use super::sqlite::bind_value;
use super::text::{Dialect, Sql};

/// Where a statement is run: on any connection of a pool, or on the one of a transaction.
#[derive(Debug)]
pub(super) enum On<'c> {
    SqlitePool(&'c SqlitePool),
    Sqlite(&'c mut SqliteConnection),
    PostgresPool(&'c PgPool),
    Postgres(&'c mut PgConnection),
}

impl On<'_> {
    /// The same place for another statement.
    pub(super) fn again(&mut self) -> On<'_> {
        match self {
            Self::SqlitePool(pool) => On::SqlitePool(pool),
            Self::Sqlite(conn) => On::Sqlite(conn),
            Self::PostgresPool(pool) => On::PostgresPool(pool),
            Self::Postgres(conn) => On::Postgres(conn),
        }
    }

    pub(super) fn dialect(&self) -> Dialect {
        match self {
            Self::SqlitePool(_) | Self::Sqlite(_) => Dialect::Sqlite,
            Self::PostgresPool(_) | Self::Postgres(_) => Dialect::Postgres,
        }
    }
}

/// A value.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Int(Option<i64>),
    Bool(bool),
    Text(Option<String>),
    /// Taken apart by the database.
    Json(String),
    Bytes(Option<Vec<u8>>),
}

macro_rules! values {
    ($($from:ty, $value:ident => $make:expr;)*) => {
        $(impl From<$from> for Value {
            fn from($value: $from) -> Self {
                $make
            }
        })*
    };
}

values! {
    i64, n => Self::Int(Some(n));
    u32, n => Self::Int(Some(n.into()));
    u16, n => Self::Int(Some(n.into()));
    Option<i64>, n => Self::Int(n);
    bool, is => Self::Bool(is);
    &str, text => Self::Text(Some(text.to_owned()));
    &String, text => Self::Text(Some(text.clone()));
    String, text => Self::Text(Some(text));
    Option<String>, text => Self::Text(text);
    Option<&str>, text => Self::Text(text.map(str::to_owned));
    JsonRows, rows => Self::Json(rows.0);
    &[u8], bytes => Self::Bytes(Some(bytes.to_vec()));
    Vec<u8>, bytes => Self::Bytes(Some(bytes));
}

/// How many rows a statement changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Done(u64);

impl Done {
    pub(super) fn rows_affected(self) -> u64 {
        self.0
    }
}

/// A row of either database.
#[derive(Debug)]
pub(super) enum Row {
    Sqlite(SqliteRow),
    Postgres(PgRow),
}

impl Row {
    /// Reads a column.
    pub(super) fn get<T: Column>(&self, index: usize) -> Result<T, Error> {
        T::read(self, index)
    }
}

/// What a column may be read as.
pub(super) trait Column: Sized {
    fn read(row: &Row, index: usize) -> Result<Self, Error>;
}

macro_rules! columns {
    ($($column:ty)*) => {
        $(impl Column for $column {
            fn read(row: &Row, index: usize) -> Result<Self, Error> {
                match row {
                    Row::Sqlite(row) => row.try_get(index),
                    Row::Postgres(row) => row.try_get(index),
                }
            }
        })*
    };
}

columns! { i64 Option<i64> bool String Option<String> Vec<u8> Option<Vec<u8>> }

macro_rules! whole_columns {
    ($($column:ty)*) => {
        $(impl Column for $column {
            fn read(row: &Row, index: usize) -> Result<Self, Error> {
                let number = i64::read(row, index)?;
                number.try_into().map_err(|_| Error::ColumnDecode {
                    index: index.to_string(),
                    source: format!("{number} is out of range").into(),
                })
            }
        })*
    };
}

whole_columns! { u32 u64 }

/// What a whole row may be read as.
pub(super) trait FromRow: Sized {
    fn from_row(row: &Row) -> Result<Self, Error>;
}

macro_rules! tuples {
    ($($($name:ident $index:tt)*;)*) => {
        $(impl<$($name: Column),*> FromRow for ($($name,)*) {
            fn from_row(row: &Row) -> Result<Self, Error> {
                Ok(($($name::read(row, $index)?,)*))
            }
        })*
    };
}

tuples! {
    A 0 B 1;
    A 0 B 1 C 2;
    A 0 B 1 C 2 D 3;
    A 0 B 1 C 2 D 3 E 4;
    A 0 B 1 C 2 D 3 E 4 F 5;
    A 0 B 1 C 2 D 3 E 4 F 5 G 6;
    A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7;
    A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8;
}

/// A statement with the values bound so far.
#[must_use]
pub(super) struct Query {
    sql: Text,
    values: Vec<Value>,
}

/// A statement of ours, or one that was put together of words of ours.
enum Text {
    Fixed(&'static Sql),
    Built(Cow<'static, str>),
}

/// Begins a statement.
pub(super) fn query(sql: &'static Sql) -> Query {
    Query { sql: Text::Fixed(sql), values: Vec::new() }
}

/// Begins a statement that was put together, in the spelling of the database that it is run on. All of its words are ours; what
/// people sent is bound.
pub(super) fn query_built(sql: impl Into<Cow<'static, str>>) -> Query {
    Query { sql: Text::Built(sql.into()), values: Vec::new() }
}

/// Begins a statement whose rows are read as tuples.
pub(super) fn query_as<T: FromRow>(sql: &'static Sql) -> QueryAs<T> {
    QueryAs { query: query(sql), read: T::from_row, of: PhantomData }
}

/// Begins a statement of whose rows the first column is read.
pub(super) fn query_scalar<T: Column>(sql: &'static Sql) -> QueryAs<T> {
    QueryAs { query: query(sql), read: |row| T::read(row, 0), of: PhantomData }
}

impl Query {
    pub(super) fn bind(mut self, value: impl Into<Value>) -> Self {
        self.values.push(value.into());
        self
    }

    pub(super) async fn execute<'c>(self, on: impl Into<On<'c>>) -> Result<Done, Error> {
        Ok(Done(match on.into() {
            On::SqlitePool(pool) => self.sqlite().execute(pool).await?.rows_affected(),
            On::Sqlite(conn) => self.sqlite().execute(conn).await?.rows_affected(),
            On::PostgresPool(pool) => self.postgres()?.execute(pool).await?.rows_affected(),
            On::Postgres(conn) => self.postgres()?.execute(conn).await?.rows_affected(),
        }))
    }

    pub(super) async fn fetch_all<'c>(self, on: impl Into<On<'c>>) -> Result<Vec<Row>, Error> {
        Ok(match on.into() {
            On::SqlitePool(pool) => rows(self.sqlite().fetch_all(pool).await?, Row::Sqlite),
            On::Sqlite(conn) => rows(self.sqlite().fetch_all(conn).await?, Row::Sqlite),
            On::PostgresPool(pool) => rows(self.postgres()?.fetch_all(pool).await?, Row::Postgres),
            On::Postgres(conn) => rows(self.postgres()?.fetch_all(conn).await?, Row::Postgres),
        })
    }

    async fn fetch_optional<'c>(self, on: impl Into<On<'c>>) -> Result<Option<Row>, Error> {
        Ok(match on.into() {
            On::SqlitePool(pool) => self.sqlite().fetch_optional(pool).await?.map(Row::Sqlite),
            On::Sqlite(conn) => self.sqlite().fetch_optional(conn).await?.map(Row::Sqlite),
            On::PostgresPool(pool) => self.postgres()?.fetch_optional(pool).await?.map(Row::Postgres),
            On::Postgres(conn) => self.postgres()?.fetch_optional(conn).await?.map(Row::Postgres),
        })
    }

    fn sqlite(self) -> sqlx::query::Query<'static, Sqlite, SqliteArguments> {
        let query = match self.sql {
            Text::Fixed(sql) => sqlx::query::<Sqlite>(sql.of(Dialect::Sqlite)),
            Text::Built(sql) => sqlx::query::<Sqlite>(sqlx::AssertSqlSafe(sql)),
        };
        self.values.into_iter().fold(query, bind_value)
    }

    fn postgres(self) -> Result<sqlx::query::Query<'static, Postgres, PgArguments>, Error> {
        let mut arguments = PgArguments::default();
        for value in self.values {
            let added = match value {
                Value::Int(n) => arguments.add(n),
                Value::Bool(is) => arguments.add(is),
                Value::Text(text) => arguments.add(text.map(without_nul)),
                Value::Json(json) => arguments.add(without_escaped_nul(json)),
                Value::Bytes(bytes) => arguments.add(bytes),
            };
            added.map_err(Error::Encode)?;
        }
        Ok(match self.sql {
            Text::Fixed(sql) => sqlx::query_with(sql.of(Dialect::Postgres), arguments),
            Text::Built(sql) => sqlx::query_with(sqlx::AssertSqlSafe(sql), arguments),
        })
    }
}

fn rows<T>(found: Vec<T>, as_row: fn(T) -> Row) -> Vec<Row> {
    found.into_iter().map(as_row).collect()
}

/// PostgreSQL's texts hold any character but this one, which stands for nothing that people write. (A body is JSON, which escapes it.)
fn without_nul(text: String) -> String {
    if text.contains('\0') { text.replace('\0', "\u{fffd}") } else { text }
}

/// The same for JSON that is taken apart, where it would come up.
fn without_escaped_nul(json: String) -> String {
    if !json.contains("\\u0000") {
        return json;
    }
    let mut out = String::with_capacity(json.len());
    let mut left = json.as_str();
    while let Some(at) = left.find('\\') {
        out.push_str(&left[..at]);
        left = &left[at..];
        // Escapes are passed over whole: behind an escaped backslash it is none.
        let taken = if left.starts_with("\\u0000") {
            out.push_str("\\ufffd");
            6
        } else {
            let end = left.char_indices().nth(2).map_or(left.len(), |(end, _)| end);
            out.push_str(&left[..end]);
            end
        };
        left = &left[taken..];
    }
    out + left
}

/// A statement whose rows are read as `T`.
#[must_use]
pub(super) struct QueryAs<T> {
    query: Query,
    read: fn(&Row) -> Result<T, Error>,
    of: PhantomData<fn() -> T>,
}

impl<T> QueryAs<T> {
    pub(super) fn bind(mut self, value: impl Into<Value>) -> Self {
        self.query = self.query.bind(value);
        self
    }

    pub(super) async fn fetch_all<'c>(self, on: impl Into<On<'c>>) -> Result<Vec<T>, Error> {
        self.query.fetch_all(on).await?.iter().map(self.read).collect()
    }

    pub(super) async fn fetch_optional<'c>(self, on: impl Into<On<'c>>) -> Result<Option<T>, Error> {
        self.query.fetch_optional(on).await?.as_ref().map(self.read).transpose()
    }

    pub(super) async fn fetch_one<'c>(self, on: impl Into<On<'c>>) -> Result<T, Error> {
        self.fetch_optional(on).await?.ok_or(Error::RowNotFound)
    }

    /// The rows as they come.
    pub(super) fn fetch<'c>(self, on: impl Into<On<'c>>) -> BoxStream<'c, Result<T, Error>>
    where
        T: Send + 'c,
    {
        let read = self.read;
        let query = self.query;
        let rows = match on.into() {
            On::SqlitePool(pool) => query.sqlite().fetch(pool).map_ok(Row::Sqlite).boxed(),
            On::Sqlite(conn) => query.sqlite().fetch(conn).map_ok(Row::Sqlite).boxed(),
            On::PostgresPool(pool) => match query.postgres() {
                Ok(query) => query.fetch(pool).map_ok(Row::Postgres).boxed(),
                Err(error) => futures_util::stream::iter([Err(error)]).boxed(),
            },
            On::Postgres(conn) => match query.postgres() {
                Ok(query) => query.fetch(conn).map_ok(Row::Postgres).boxed(),
                Err(error) => futures_util::stream::iter([Err(error)]).boxed(),
            },
        };
        rows.and_then(move |row| std::future::ready(read(&row))).boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nul_is_replaced_and_what_only_looks_like_it_is_not() {
        assert_eq!(without_nul("a\0b".to_owned()), "a\u{fffd}b");
        assert_eq!(without_escaped_nul(r#"["\u0000"]"#.to_owned()), r#"["\ufffd"]"#);
        assert_eq!(without_escaped_nul(r#"["\\u0000\u00001"]"#.to_owned()), r#"["\\u0000\ufffd1"]"#);
        assert_eq!(without_escaped_nul(r"\é\u0000".to_owned()), r"\é\ufffd");
    }
}
