//! What was used of limits of the day and the month.

use super::fixtures::NOW;
use crate::base::MAX_SUM;
use crate::store::{BudgetTotal, BudgetUse, Store};

fn used(account: &str, period: &str, tokens: i64) -> BudgetUse {
    let (account, period) = (account.to_owned(), period.to_owned());
    BudgetUse { account, period, ends_at: NOW.plus_seconds(60), tokens, nanos: tokens * 3 }
}

fn total(tokens: u64) -> BudgetTotal {
    BudgetTotal { tokens, nanos: tokens * 3 }
}

/// This day and month of an account.
fn periods_of(account: &str) -> [(String, String); 2] {
    ["2026-11-30", "2026-11"].map(|period| (account.to_owned(), period.to_owned()))
}

pub(crate) async fn what_was_used_adds_up_and_is_told_at_once(store: &dyn Store) {
    let uses = [used("key:1", "2026-11", 5), used("key:1", "2026-11-30", 5), used("key:2", "2026-11-30", 7)];
    assert_eq!(store.add_budget_use(&uses, NOW).await.unwrap(), [total(5), total(5), total(7)]);
    // The order is that of the question, whatever it is in the store.
    let uses = [used("key:2", "2026-11-30", 1), used("key:1", "2026-11-30", -2)];
    assert_eq!(store.add_budget_use(&uses, NOW).await.unwrap(), [total(8), total(3)]);
    assert_eq!(store.budget_totals(&periods_of("key:1")).await.unwrap(), [total(3), total(5)]);
    assert_eq!(store.budget_totals(&periods_of("key:3")).await.unwrap(), [total(0), total(0)]);
}

pub(crate) async fn what_was_used_never_reads_as_less_than_nothing(store: &dyn Store) {
    assert_eq!(store.add_budget_use(&[used("key:1", "2026-11", -5)], NOW).await.unwrap(), [total(0)]);
    assert_eq!(store.budget_totals(&periods_of("key:1")).await.unwrap()[1], total(0));
    // What was taken back too early is made up for when the rest comes.
    assert_eq!(store.add_budget_use(&[used("key:1", "2026-11", 9)], NOW).await.unwrap(), [total(4)]);
}

pub(crate) async fn no_sum_is_too_large_to_be_kept(store: &dyn Store) {
    let add = async |n: i64| {
        let added = BudgetUse { tokens: n, nanos: n, ..used("key:1", "2026-11", 0) };
        store.add_budget_use(&[added], NOW).await.unwrap()[0].tokens
    };
    for _ in 0..12 {
        assert_eq!(add(i64::MAX).await, MAX_SUM.unsigned_abs());
    }
    assert_eq!(add(-7).await, MAX_SUM.unsigned_abs() - 7);
    for _ in 0..12 {
        add(i64::MIN).await;
    }
    assert_eq!(add(1 << 50).await, 0);
}

pub(crate) async fn it_is_known_when_use_was_written_last(store: &dyn Store) {
    assert_eq!(store.budgets_written_at().await.unwrap(), None);
    for seconds in [9, 4] {
        store
            .add_budget_use(&[used("key:1", &format!("2026-0{seconds}"), 1)], NOW.plus_seconds(seconds))
            .await
            .unwrap();
    }
    assert_eq!(store.budgets_written_at().await.unwrap(), Some(NOW.plus_seconds(9)));
}

pub(crate) async fn what_is_over_is_forgotten_and_no_more_than_asked(store: &dyn Store) {
    let uses: Vec<BudgetUse> = (0..5).map(|n| used(&format!("key:{n}"), "2026-11", 1)).collect();
    store.add_budget_use(&uses, NOW).await.unwrap();
    assert_eq!(store.forget_budgets(NOW.plus_seconds(59), 9).await.unwrap(), 0);
    assert_eq!(store.forget_budgets(NOW.plus_seconds(60), 3).await.unwrap(), 3);
    assert_eq!(store.forget_budgets(NOW.plus_seconds(60), 3).await.unwrap(), 2);
}
