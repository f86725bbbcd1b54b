//! The books.

use super::fixtures::{self, NOW, scope};
use crate::base::{ExchangeId, Time};
use crate::memory::Scope;
use crate::store::{
    Store, UsageBy, UsageGroup, UsageOutcome, UsageQuery, UsageRow, UsageSums, UsageTimes, UsageTokens,
};
use crate::tokens::Cost;

const DAY_MILLIS: i64 = 24 * 3_600 * 1_000;

/// Row `n`, which began `n` days after [`NOW`].
pub(crate) fn row(n: u32, key: &str, subject: Option<&str>) -> UsageRow {
    let at = NOW.plus_millis(i64::from(n) * DAY_MILLIS);
    UsageRow {
        exchange: ExchangeId((at.0 as u128) << 80 | u128::from(n)),
        at,
        tenant: "acme".into(),
        namespace: "default".into(),
        key: key.into(),
        subject: subject.map(Into::into),
        conversation: subject.map(|_| "c".to_owned()),
        operation: "chat",
        model: "small".to_owned(),
        target: Some("main/small-1".to_owned()),
        attempts: 2,
        stream: true,
        status: 200,
        outcome: UsageOutcome::Complete,
        tokens: UsageTokens {
            estimated: false,
            input: 100,
            cached: 40,
            cache_write: 3,
            output: 10,
            reasoning: 5,
            memory: 20,
            cut: 7,
        },
        cost: Some(Cost::from_nanos(1_500)),
        memory_cost: Some(Cost::from_nanos(20)),
        saved: Some(Cost::from_nanos(7)),
        times: UsageTimes { total_us: 9_000, first_us: Some(3_000), overhead_us: 50 },
    }
}

/// Row `n`, of a scope.
pub(crate) fn row_of(n: u32, scope: &Scope) -> UsageRow {
    UsageRow { tenant: scope.tenant.clone(), namespace: scope.namespace.clone(), ..row(n, "k", Some(&scope.subject)) }
}

fn by(by: &[UsageBy]) -> UsageQuery {
    UsageQuery { by: by.to_vec(), limit: 100, ..UsageQuery::default() }
}

fn names(groups: &[UsageGroup]) -> Vec<(Vec<&str>, u64)> {
    groups.iter().map(|g| (g.of.iter().map(|v| v.as_deref().unwrap_or("-")).collect(), g.sums.exchanges)).collect()
}

pub(crate) async fn what_was_booked_is_summed_up_in_order(store: &dyn Store) {
    let mut cut = row(2, "b", None);
    cut.outcome = UsageOutcome::Cut;
    cut.tokens.estimated = true;
    cut.times.first_us = None;
    let mut failed = row(2, "a", None);
    failed.exchange = ExchangeId(failed.exchange.0 + 1_000);
    failed.outcome = UsageOutcome::Failed;
    store.book(&[row(0, "b", Some("ann")), row(1, "a", None), cut, failed]).await.unwrap();
    let keys = store.usage(&by(&[UsageBy::Key])).await.unwrap();
    assert_eq!(names(&keys), [(vec!["a"], 2), (vec!["b"], 2)]);
    let b = UsageSums {
        exchanges: 2,
        incomplete: 1,
        failed: 0,
        estimated: 1,
        unpriced: 0,
        attempts: 4,
        input: 200,
        cached: 80,
        cache_write: 6,
        output: 20,
        reasoning: 10,
        memory: 40,
        cut: 14,
        cost: Cost::from_nanos(3_000),
        memory_cost: Cost::from_nanos(40),
        saved: Cost::from_nanos(14),
        total_us: 18_000,
        first_us: 3_000,
        n_first: 1,
        overhead_us: 100,
    };
    assert_eq!(keys[1].sums, b);
    assert_eq!(keys[0].sums.failed, 1);
    let days = store.usage(&by(&[UsageBy::Day, UsageBy::Subject])).await.unwrap();
    let day = |n: i64| NOW.plus_millis(n * DAY_MILLIS).to_rfc3339()[..10].to_owned();
    let expected =
        [(vec![day(0), "ann".to_owned()], 1), (vec![day(1), "-".to_owned()], 1), (vec![day(2), "-".to_owned()], 2)];
    let found: Vec<_> =
        names(&days).into_iter().map(|(of, n)| (of.into_iter().map(str::to_owned).collect::<Vec<_>>(), n)).collect();
    assert_eq!(found, expected);
    let all = store.usage(&by(&[])).await.unwrap();
    assert_eq!((all.len(), all[0].of.len(), all[0].sums.exchanges, all[0].sums.input), (1, 0, 4, 400));
}

pub(crate) async fn a_row_is_booked_once(store: &dyn Store) {
    store.book(&[row(1, "a", None)]).await.unwrap();
    let mut again = row(1, "a", None);
    again.tokens.input = 999;
    store.book(&[again, row(2, "a", Some("ann"))]).await.unwrap();
    assert_eq!(store.usage(&by(&[])).await.unwrap()[0].sums.input, 200);
    // More rows than one statement takes, and no more statements than rows.
    let many: Vec<UsageRow> = (10..100).map(|n| row(n, "many", None)).collect();
    store.book(&many).await.unwrap();
    store.book(&many).await.unwrap();
    store.book(&[]).await.unwrap();
    assert_eq!(store.usage(&by(&[])).await.unwrap()[0].sums.exchanges, 92);
}

pub(crate) async fn groups_come_in_pieces_and_only_of_what_was_asked(store: &dyn Store) {
    let rows: Vec<UsageRow> = (0..6).map(|n| row(n, if n % 2 == 0 { "even" } else { "odd" }, None)).collect();
    store.book(&rows).await.unwrap();
    let mut query = UsageQuery { limit: 4, ..by(&[UsageBy::Key, UsageBy::Exchange]) };
    let first = store.usage(&query).await.unwrap();
    let last = first.last().unwrap().of.iter().map(|v| v.clone().unwrap_or_default()).collect();
    query.after = Some(last);
    let second = store.usage(&query).await.unwrap();
    let ids: Vec<String> = first
        .iter()
        .chain(&second)
        .map(|g| format!("{} {}", g.of[0].clone().unwrap(), g.of[1].clone().unwrap()))
        .collect();
    let expected: Vec<String> =
        [0, 2, 4, 1, 3, 5].map(|n: usize| format!("{} {}", rows[n].key, rows[n].exchange)).to_vec();
    assert_eq!(ids, expected);

    let span = UsageQuery { from: Some(rows[1].at), to: Some(rows[4].at), ..by(&[UsageBy::Key]) };
    assert_eq!(names(&store.usage(&span).await.unwrap()), [(vec!["even"], 1), (vec!["odd"], 2)]);
    let only = UsageQuery { only: vec![(UsageBy::Key, "odd".to_owned())], ..by(&[UsageBy::Model]) };
    assert_eq!(names(&store.usage(&only).await.unwrap()), [(vec!["small"], 3)]);
    let nobody = UsageQuery { only: vec![(UsageBy::Tenant, "other".to_owned())], ..by(&[UsageBy::Model]) };
    assert_eq!(store.usage(&nobody).await.unwrap(), []);
    let nothing = UsageQuery { from: Some(Time(i64::MAX)), ..by(&[]) };
    assert_eq!(store.usage(&nothing).await.unwrap()[0].sums, UsageSums::default());
}

/// Most rows tell less than the others.
pub(crate) async fn a_row_like_most_is_booked_as_it_is(store: &dyn Store) {
    let full = row(0, "a", None);
    let ordinary = UsageRow {
        attempts: 1,
        tokens: UsageTokens { input: 7, output: 3, ..UsageTokens::default() },
        memory_cost: Some(Cost::default()),
        saved: Some(Cost::default()),
        ..row(1, "a", None)
    };
    store.book(&[full, ordinary.clone(), UsageRow { cost: None, ..row(2, "a", None) }]).await.unwrap();
    let query = UsageQuery { only: vec![(UsageBy::Exchange, ordinary.exchange.to_string())], ..by(&UsageBy::ALL) };
    let found = store.usage(&query).await.unwrap().remove(0);
    let expected = UsageSums {
        exchanges: 1,
        attempts: 1,
        input: 7,
        output: 3,
        cost: Cost::from_nanos(1_500),
        total_us: 9_000,
        first_us: 3_000,
        n_first: 1,
        overhead_us: 50,
        ..UsageSums::default()
    };
    assert_eq!(found.sums, expected);
    assert_eq!(found.of[UsageBy::ALL.len() - 1].as_deref(), Some("complete"));
}

pub(crate) async fn what_has_no_price_is_in_no_amount(store: &dyn Store) {
    let unpriced = UsageRow { cost: None, memory_cost: None, saved: None, ..row(1, "a", None) };
    store.book(&[row(0, "a", None), unpriced]).await.unwrap();
    let sums = store.usage(&by(&[])).await.unwrap().remove(0).sums;
    assert_eq!((sums.exchanges, sums.unpriced, sums.cost), (2, 1, Cost::from_nanos(1_500)));
}

pub(crate) async fn what_was_learned_from_is_booked_with_it(store: &dyn Store) {
    let ann = scope("ann");
    let group: Vec<_> = (0..40)
        .map(|n| {
            let mut finished = fixtures::finished(u128::from(n), &ann);
            finished.usage = Some(Box::new(row(n, "a", Some("ann"))));
            finished
        })
        .collect();
    store.append(&group).await.unwrap();
    store.append(&group).await.unwrap();
    let alone = fixtures::finished(99, &ann);
    store
        .append(&[crate::store::Finished { turn: None, usage: Some(Box::new(row(50, "a", None))), ..alone }])
        .await
        .unwrap();
    assert_eq!(store.depth().await.unwrap().waiting, 40);
    let subjects = store.usage(&by(&[UsageBy::Subject])).await.unwrap();
    assert_eq!(names(&subjects), [(vec!["-"], 1), (vec!["ann"], 40)]);
}

pub(crate) async fn an_erased_subject_is_taken_out_and_does_not_come_back(store: &dyn Store) {
    let ann = scope("ann");
    let of = |n, subject| row_of(n, &scope(subject));
    store.book(&[of(0, "ann"), of(0, "ann"), of(1, "bob")]).await.unwrap();
    let erased = store.erase(&ann, NOW.plus_millis(3 * DAY_MILLIS)).await.unwrap();
    assert_eq!(erased.counts["usage"], 1);
    // These began before the erasure; the last one after it.
    store.book(&[of(2, "ann")]).await.unwrap();
    let mut late = fixtures::finished(7, &ann);
    late.usage = Some(Box::new(of(3, "ann")));
    store.append(&[late]).await.unwrap();
    let who = by(&[UsageBy::Subject, UsageBy::Conversation]);
    assert_eq!(names(&store.usage(&who).await.unwrap()), [(vec!["-", "-"], 3), (vec!["bob", "c"], 1)]);
    store.book(&[of(4, "ann")]).await.unwrap();
    assert_eq!(store.usage(&who).await.unwrap().len(), 3);
}

pub(crate) async fn old_rows_are_swept_and_no_more_than_asked(store: &dyn Store) {
    let rows: Vec<UsageRow> = (0..5).map(|n| row(n, "a", None)).collect();
    store.book(&rows).await.unwrap();
    assert_eq!(store.sweep_usage(rows[3].at, 2).await.unwrap(), 2);
    assert_eq!(store.sweep_usage(rows[3].at, 9).await.unwrap(), 1);
    assert_eq!(store.sweep_usage(rows[3].at, 9).await.unwrap(), 0);
    assert_eq!(store.usage(&by(&[])).await.unwrap()[0].sums.exchanges, 2);
}
