//! Inserts many rows of one table with few statements.

use std::sync::OnceLock;

use sqlx::Error;

use super::query::{On, Value, query_built};
use super::text::{Dialect, for_postgres};

/// How many rows one statement takes: as many as possible of the largest, then of the next. Each statement is prepared once.
const SIZES: [usize; 4] = [64, 16, 4, 1];

/// The statements of one table.
#[derive(Debug)]
pub(super) struct Rows {
    /// `INSERT INTO … (…)`.
    head: &'static str,
    columns: usize,
    /// What stands behind the rows.
    tail: &'static str,
    written: [OnceLock<[String; 4]>; 2],
}

impl Rows {
    pub(super) const fn new(head: &'static str, columns: usize, tail: &'static str) -> Self {
        Self { head, columns, tail, written: [OnceLock::new(), OnceLock::new()] }
    }

    /// Inserts rows; returns how many of them are new or changed.
    pub(super) async fn insert<const N: usize>(
        &'static self,
        on: &mut On<'_>,
        rows: impl ExactSizeIterator<Item = [Value; N]>,
    ) -> Result<u64, Error> {
        debug_assert_eq!(N, self.columns, "{}", self.head);
        let mut left = rows;
        let mut changed = 0;
        for (size, at) in SIZES.into_iter().zip(0..) {
            while left.len() >= size {
                let values = left.by_ref().take(size).flatten();
                let bound = values.fold(query_built(self.sql(on.dialect(), at)), |query, value| query.bind(value));
                changed += bound.execute(on.again()).await?.rows_affected();
            }
        }
        Ok(changed)
    }

    fn sql(&'static self, dialect: Dialect, size: usize) -> &'static str {
        let written = &self.written[usize::from(dialect == Dialect::Postgres)];
        &written.get_or_init(|| {
            SIZES.map(|size| {
                let row = format!("({})", vec!["?"; self.columns].join(","));
                let sql = format!("{} VALUES {} {}", self.head, vec![row; size].join(","), self.tail);
                if dialect == Dialect::Postgres { for_postgres(&sql) } else { sql }
            })
        })[size]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_takes_as_many_values_as_its_rows_have() {
        static ROWS: Rows = Rows::new("INSERT INTO t (a, b)", 2, "ON CONFLICT (a) DO NOTHING");
        assert_eq!(ROWS.sql(Dialect::Sqlite, 3), "INSERT INTO t (a, b) VALUES (?,?) ON CONFLICT (a) DO NOTHING");
        assert!(ROWS.sql(Dialect::Postgres, 2).ends_with("($7,$8) ON CONFLICT (a) DO NOTHING"));
    }
}
