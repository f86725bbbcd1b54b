//! One text for both databases, where they agree; two beside each other where they do not.
//!
//! A text is written in what both understand. What differs only in its spelling is spelled for each when a statement is used for the first
//! time:
//!
//! | written | SQLite | PostgreSQL |
//! |---|---|---|
//! | `?1` | as it is | `$1` |
//! | `each_text(?1)`, `each_row(?1)` | `json_each(?1)` | functions of our schema, over an array of texts or of rows |
//! | `greatest(a, b)`, `least(a, b)` | `max(a, b)`, `min(a, b)` | as it is |
//! | `rowid` | as it is | `ctid` |
//! | `CROSS JOIN` (SQLite then keeps this order) | as it is | `JOIN`, so it needs its `ON` |
//!
//! Numbers that come out of JSON are cast (`CAST(j.value ->> 1 AS BIGINT)`): PostgreSQL has them as text.

use std::sync::OnceLock;

/// Which database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    Sqlite,
    Postgres,
}

/// A statement's text.
#[derive(Debug)]
pub(super) struct Sql {
    sqlite: &'static str,
    postgres: &'static str,
    spelled: [OnceLock<String>; 2],
}

impl Sql {
    /// One text for both.
    pub(super) const fn new(text: &'static str) -> Self {
        Self::pair(text, text)
    }

    /// A text for each.
    pub(super) const fn pair(sqlite: &'static str, postgres: &'static str) -> Self {
        Self { sqlite, postgres, spelled: [OnceLock::new(), OnceLock::new()] }
    }

    /// As it is said to a database.
    pub(super) fn of(&'static self, dialect: Dialect) -> &'static str {
        match dialect {
            Dialect::Sqlite => self.spelled[0].get_or_init(|| for_sqlite(self.sqlite)),
            Dialect::Postgres => self.spelled[1].get_or_init(|| for_postgres(self.postgres)),
        }
    }
}

fn for_sqlite(text: &str) -> String {
    text.replace("each_text(", "json_each(")
        .replace("each_row(", "json_each(")
        .replace("greatest(", "max(")
        .replace("least(", "min(")
}

/// Writes a text in PostgreSQL's spelling.
pub(super) fn for_postgres(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut left = text;
    let mut number = 0;
    while let Some(at) = left.find('?') {
        out.push_str(&left[..at]);
        out.push('$');
        left = &left[at + 1..];
        if !left.starts_with(|c: char| c.is_ascii_digit()) {
            number += 1;
            out.push_str(&number.to_string());
        }
    }
    out.push_str(left);
    out.replace("CROSS JOIN", "JOIN").replace("rowid", "ctid")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_text_is_spelled_for_each() {
        static TEXT: Sql = Sql::new("SELECT greatest(a, ?2) FROM each_row(?1) j CROSS JOIN t ON t.id = j.value ->> 0");
        assert_eq!(
            TEXT.of(Dialect::Sqlite),
            "SELECT max(a, ?2) FROM json_each(?1) j CROSS JOIN t ON t.id = j.value ->> 0"
        );
        assert_eq!(
            TEXT.of(Dialect::Postgres),
            "SELECT greatest(a, $2) FROM each_row($1) j JOIN t ON t.id = j.value ->> 0"
        );
    }

    #[test]
    fn places_without_a_number_are_numbered() {
        assert_eq!(for_postgres("a = ? AND b = ? LIMIT ? + 0"), "a = $1 AND b = $2 LIMIT $3 + 0");
    }
}
