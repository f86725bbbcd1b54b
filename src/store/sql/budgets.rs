//! What was used of limits of the day and the month.

use std::collections::HashMap;

use async_trait::async_trait;
use tracing::instrument;

use super::error::driver;
use super::query::{query, query_as, query_scalar};
use super::row::rows;
use super::text::Sql;
use super::{SqlStore, commit};
use crate::base::{MAX_SUM, Time};
use crate::store::{BudgetStore, BudgetTotal, BudgetUse, StoreError};

static TOTALS: Sql = Sql::new(
    "
    SELECT coalesce(b.tokens, 0), coalesce(b.nanos, 0)
    FROM each_row(?1) j LEFT JOIN budgets b ON b.account = j.value ->> 0 AND b.period = j.value ->> 1 ORDER BY j.key",
);

/// A sum stays within `?3`, whatever comes to it.
static ADD: Sql = Sql::new("
    INSERT INTO budgets (account, period, ends_at, tokens, nanos, at)
    SELECT j.value ->> 0, j.value ->> 1, 
           CAST(j.value ->> 2 AS BIGINT), CAST(j.value ->> 3 AS BIGINT), CAST(j.value ->> 4 AS BIGINT), ?2 FROM each_row(?1) j WHERE true
    ON CONFLICT (account, period) DO UPDATE SET
        tokens = least(greatest(budgets.tokens + excluded.tokens, -?3), ?3),
        nanos = least(greatest(budgets.nanos + excluded.nanos, -?3), ?3),
        at = excluded.at
    RETURNING account, period, tokens, nanos");

static WRITTEN_AT: Sql = Sql::new("SELECT max(at) FROM budgets");

static FORGET: Sql = Sql::new(
    "
    DELETE FROM budgets WHERE (account, period) IN (
        SELECT account, period FROM budgets WHERE ends_at <= ?1 ORDER BY ends_at LIMIT ?2)",
);

/// What runs elsewhere and was not written yet may come back below nothing for a moment; nobody is told so.
fn total(tokens: i64, nanos: i64) -> BudgetTotal {
    let whole = |n: i64| u64::try_from(n).unwrap_or(0);
    BudgetTotal { tokens: whole(tokens), nanos: whole(nanos) }
}

#[async_trait]
impl BudgetStore for SqlStore {
    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "budget_totals"))]
    async fn budget_totals(&self, of: &[(String, String)]) -> Result<Vec<BudgetTotal>, StoreError> {
        let found: Vec<(i64, i64)> = query_as(&TOTALS)
            .bind(rows(of))
            .fetch_all(&self.read)
            .await
            .map_err(driver("read what was used of a limit"))?;
        Ok(found.into_iter().map(|(tokens, nanos)| total(tokens, nanos)).collect())
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "add_budget_use"))]
    async fn add_budget_use(&self, uses: &[BudgetUse], now: Time) -> Result<Vec<BudgetTotal>, StoreError> {
        let sum = |n: i64| n.clamp(-MAX_SUM, MAX_SUM);
        let added: Vec<_> =
            uses.iter().map(|u| (&u.account, &u.period, u.ends_at.0, sum(u.tokens), sum(u.nanos))).collect();
        let mut tx = self.begin().await?;
        let found: Vec<(String, String, i64, i64)> = query_as(&ADD)
            .bind(rows(&added))
            .bind(now.0)
            .bind(MAX_SUM)
            .fetch_all(&mut tx)
            .await
            .map_err(driver("write what was used of limits"))?;
        commit(tx).await?;
        let totals: HashMap<(&str, &str), BudgetTotal> = found
            .iter()
            .map(|(account, period, tokens, nanos)| ((account.as_str(), period.as_str()), total(*tokens, *nanos)))
            .collect();
        let of = |u: &BudgetUse| totals.get(&(u.account.as_str(), u.period.as_str())).copied().unwrap_or_default();
        Ok(uses.iter().map(of).collect())
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "budgets_written_at"))]
    async fn budgets_written_at(&self) -> Result<Option<Time>, StoreError> {
        let at: Option<i64> =
            query_scalar(&WRITTEN_AT).fetch_one(&self.read).await.map_err(driver("read when limits were written"))?;
        Ok(at.map(Time))
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "forget_budgets"))]
    async fn forget_budgets(&self, ended_before: Time, limit: u32) -> Result<u64, StoreError> {
        let done = query(&FORGET)
            .bind(ended_before.0)
            .bind(limit)
            .execute(&self.write)
            .await
            .map_err(driver("forget limits of days that are over"))?;
        Ok(done.rows_affected())
    }
}
