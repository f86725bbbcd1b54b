//! What can go wrong in a store.

/// A store error, by what the caller can do about it.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Someone else changed the row in between; read again and decide again.
    #[error("{what} was changed by someone else in between")]
    Conflict {
        /// The row, as in `fact fact_01…`.
        what: String,
    },
    /// The store cannot be reached, is locked, full or read-only right now; trying again later may help.
    #[error("store is not available: {0}")]
    Unavailable(String),
    /// Another transaction was in the way, and this one was undone: nothing of it is written, and the same may pass at the next try.
    #[error("store is not available: {0}")]
    Crossed(String),
    /// A row cannot be read as what it should be.
    #[error("table {table}, column {column}, row {id}: {problem}")]
    Inconsistent {
        /// The table.
        table: &'static str,
        /// The column.
        column: &'static str,
        /// The row.
        id: String,
        /// What is wrong.
        problem: String,
    },
    /// The database is of a newer version, corrupt, or otherwise not what we can work with.
    #[error("{0}")]
    Unusable(String),
    /// Any other error of the driver.
    #[error("{doing}: {source}")]
    Driver {
        /// What was being done.
        doing: &'static str,
        /// The driver's error.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl StoreError {
    /// Whether the store as a whole fails, so that the same may pass later; else something is wrong with what was asked.
    #[must_use]
    pub fn is_outage(&self) -> bool {
        matches!(self, Self::Unavailable(_) | Self::Crossed(_) | Self::Unusable(_))
    }
}
