//! What was used of limits that last longer than a process: [`BudgetStore`].

use async_trait::async_trait;

use super::StoreError;
use crate::base::Time;

/// What came to an account in one day or month.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BudgetUse {
    /// The account's name: a salted hash, of nobody knows whom.
    pub account: String,
    /// The day or month, as in `2026-11-30` and `2026-11`.
    pub period: String,
    /// When it is over.
    pub ends_at: Time,
    /// Tokens; fewer than none where an estimate was too high.
    pub tokens: i64,
    /// Money, in billionths of a US dollar.
    pub nanos: i64,
}

/// What an account has used in one day or month, in all processes together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BudgetTotal {
    /// Tokens.
    pub tokens: u64,
    /// Money, in billionths of a US dollar.
    pub nanos: u64,
}

/// What was used of limits of the day and the month. It belongs to no scope.
#[async_trait]
pub trait BudgetStore: Send + Sync {
    /// Returns what was used of each of these (account, period), in their order; nothing where nothing was written.
    async fn budget_totals(&self, of: &[(String, String)]) -> Result<Vec<BudgetTotal>, StoreError>;

    /// Adds to what was used, in one transaction, and returns what it is then, in the order of `uses`. Each account and
    /// period comes once; what is below nothing reads as nothing, and no sum is above [`MAX_SUM`](crate::base::MAX_SUM).
    async fn add_budget_use(&self, uses: &[BudgetUse], now: Time) -> Result<Vec<BudgetTotal>, StoreError>;

    /// Returns when something was written last, by the clock of who wrote it.
    async fn budgets_written_at(&self) -> Result<Option<Time>, StoreError>;

    /// Drops at most `limit` rows of periods that were over at `ended_before`; returns how many.
    async fn forget_budgets(&self, ended_before: Time, limit: u32) -> Result<u64, StoreError>;
}
