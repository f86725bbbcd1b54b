//! What the parts of a table are, and that no row is refused, lost or kept by them.

use proptest::prelude::*;
use sqlx::Connection;

use super::*;
use crate::memory::Scope;
use crate::store::contract::fixtures::{NOW, finished, scope, shown};
use crate::store::contract::usage as contract;
use crate::store::sql::SqlStore;
use crate::store::sql::session::Pool;
use crate::store::sql::tests::postgres::{Database, connect};
use crate::store::{ExchangeStore, OutboxStore, ScopeStore, UsageQuery, UsageRow, UsageStore};

const DAY_MILLIS: i64 = 24 * HOUR_MILLIS;

/// Days that rows are kept in these tests: parts of two days.
const DAYS: u32 = 24;

fn day(n: i64) -> Time {
    NOW.plus_millis(n * DAY_MILLIS)
}

proptest! {
    #[test]
    fn a_moment_gets_one_part_that_meets_no_other(
        visits in prop::collection::vec((-2_000_i64..2_000, 1_i64..60), 1..60),
    ) {
        let mut parts = vec![Part { name: String::new(), from: Time(i64::MIN), until: Time(0), rows: 0 }];
        for (minutes, hours) in visits {
            let (moment, span) = (Time(minutes * 40 * 60_000), hours * HOUR_MILLIS);
            if let Some((from, until)) = missing(&parts, moment, span) {
                prop_assert!(from <= moment && moment < until && until.since(from) <= span);
                prop_assert!(parts.iter().all(|part| part.until <= from || until <= part.from));
                parts.push(Part { name: String::new(), from, until, rows: 0 });
            }
            prop_assert!(missing(&parts, moment, span).is_none());
        }
    }
}

#[test]
fn parts_follow_one_another_while_somebody_is_there_to_make_them() {
    let span = 10 * HOUR_MILLIS;
    let part = |from, until| Part { name: String::new(), from: Time(from), until: Time(until), rows: 0 };
    let parts = [part(i64::MIN, 0), part(0, span)];
    assert_eq!(missing(&parts, Time(span + 5), span), Some((Time(span), Time(2 * span))));
    let late = Time(9 * span + HOUR_MILLIS + 5);
    assert_eq!(missing(&parts, late, span), Some((Time(late.0 - 5), Time(late.0 - 5 + span))), "nobody was there");
}

#[test]
fn bounds_are_read_as_the_catalogue_writes_them() {
    let (from, until) = (first_of(day(0)), first_of(day(2)));
    assert_eq!(range(&format!("FOR VALUES FROM ('{from}') TO ('{until}')")), Some((day(0), day(2))));
    assert_eq!(range(&format!("FOR VALUES FROM (MINVALUE) TO ('{until}')")), Some((Time(i64::MIN), day(2))));
    assert_eq!(range(&format!("FOR VALUES FROM ('{from}') TO (MAXVALUE)")), Some((day(0), Time(i64::MAX))));
    assert_eq!(range("FOR VALUES IN ('a')"), None);
    assert_eq!(hour(NOW), "2025100908");
}

fn pool(store: &SqlStore) -> &PgPool {
    match &store.write {
        Pool::Postgres(pool) => pool,
        Pool::Sqlite(_) => unreachable!("opened on a server"),
    }
}

/// A database whose first part may be as early as the tests' times.
async fn early() -> Option<(Database, SqlStore)> {
    let database = Database::fresh().await?;
    let store = connect(&database).await;
    for table in ["usage", "exchanges"] {
        let sql = format!(
            "ALTER TABLE {table} DETACH PARTITION {table}_before;
             ALTER TABLE {table} ATTACH PARTITION {table}_before FOR VALUES FROM (MINVALUE) TO ('{}')",
            first_of(day(0))
        );
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(pool(&store)).await.unwrap();
    }
    Some((database, store))
}

async fn names(store: &SqlStore, what: Aging) -> Vec<String> {
    let mut conn = pool(store).acquire().await.unwrap();
    let mut parts = list(&mut conn, what).await.unwrap();
    parts.sort_by_key(|part| part.from);
    parts.into_iter().map(|part| part.name).collect()
}

/// Where the rows of the books are.
async fn places(store: &SqlStore) -> Vec<(String, i64)> {
    let sql = "SELECT tableoid::regclass::text, count(*) FROM usage GROUP BY 1 ORDER BY 1";
    sqlx::query_as(sql).fetch_all(pool(store)).await.unwrap()
}

fn row(n: u64, at: Time) -> UsageRow {
    UsageRow {
        exchange: ExchangeId((u128::from(at.0.unsigned_abs()) << 80) + u128::from(n)),
        at,
        ..contract::row(0, "a", None)
    }
}

async fn n_booked(store: &SqlStore) -> u64 {
    store.usage(&UsageQuery { limit: 10, ..UsageQuery::default() }).await.unwrap()[0].sums.exchanges
}

#[tokio::test]
async fn rows_before_in_and_beyond_all_parts_are_taken_and_move_into_theirs() {
    let Some((_database, store)) = early().await else { return };
    let rows = [row(1, day(-9)), row(2, day(0)), row(3, day(3)), row(4, day(5)), row(5, day(4000))];
    divide_at(pool(&store), Aging::Usage, DAYS, day(0)).await.unwrap();
    store.book(&rows).await.unwrap();
    assert_eq!(names(&store, Aging::Usage).await, ["usage_before", "usage_2025100908", "usage_2025101108"]);
    let placed = |name: &str, n| (name.to_owned(), n);
    let inside = [placed("usage_2025100908", 1), placed("usage_2025101108", 1), placed("usage_before", 1)];
    assert_eq!(places(&store).await, [&inside[..], &[placed("usage_beyond", 2)]].concat());

    // Nobody was here for a while; what came meanwhile was stored.
    divide_at(pool(&store), Aging::Usage, DAYS, day(4)).await.unwrap();
    let moved = [&inside[..2], &[placed("usage_2025101308", 1)], &inside[2..], &[placed("usage_beyond", 1)]].concat();
    assert_eq!(places(&store).await, moved);
    store.book(&rows).await.unwrap();
    assert_eq!(n_booked(&store).await, 5, "each once");
}

#[tokio::test]
async fn a_part_that_is_over_goes_as_a_whole_and_what_is_in_none_goes_in_pieces() {
    let Some((_database, store)) = early().await else { return };
    for n in [0, 2, 4] {
        divide_at(pool(&store), Aging::Usage, DAYS, day(n)).await.unwrap();
    }
    let rows: Vec<_> = [-3, -2, 0, 1, 2, 5].iter().zip(1..).map(|(n, id)| row(id, day(*n))).collect();
    store.book(&rows).await.unwrap();
    let divide = async |n| divide_at(pool(&store), Aging::Usage, DAYS, day(n)).await.unwrap().parts;
    assert_eq!(divide(25).await, 0, "the oldest row of the first part is over, its newest is not");
    assert_eq!(n_booked(&store).await, 6);
    assert_eq!(divide(28).await, 1);
    assert_eq!(n_booked(&store).await, 4);
    assert_eq!(divide(28).await, 1, "one at a time");
    assert_eq!(divide(28).await, 0);
    assert_eq!(n_booked(&store).await, 3);
    assert_eq!(store.sweep_usage(day(4), 1).await.unwrap(), 1);
    assert_eq!(store.sweep_usage(day(4), 9).await.unwrap(), 1);
    assert_eq!(n_booked(&store).await, 1);
}

#[tokio::test]
async fn who_writes_is_not_held_up_by_a_drop_and_a_drop_comes_later() {
    let Some((database, store)) = early().await else { return };
    divide_at(pool(&store), Aging::Usage, DAYS, day(0)).await.unwrap();
    store.book(&[row(1, day(0)), row(2, day(1))]).await.unwrap();
    let mut writer = PgConnection::connect(&database.url()).await.unwrap();
    let mut writing = writer.begin().await.unwrap();
    sqlx::raw_sql("UPDATE usage SET attempts = 2").execute(&mut *writing).await.unwrap();
    assert_eq!(divide_at(pool(&store), Aging::Usage, DAYS, day(26)).await.unwrap(), Divided::default());
    store.book(&[row(3, day(1))]).await.unwrap();
    writing.commit().await.unwrap();
    assert_eq!(n_booked(&store).await, 3);
    assert_eq!(divide_at(pool(&store), Aging::Usage, DAYS, day(26)).await.unwrap().parts, 1);
    assert_eq!(n_booked(&store).await, 0);
}

#[tokio::test]
async fn replicas_that_look_at_once_make_and_drop_each_part_once() {
    let Some((database, store)) = early().await else { return };
    let others = futures_util::future::join_all((0..3).map(|_| connect(&database))).await;
    for n in [0, 0, 26] {
        let all = others.iter().map(|one| divide_at(pool(one), Aging::Shown, DAYS, day(n)));
        let parts: u64 = futures_util::future::join_all(all).await.into_iter().map(|gone| gone.unwrap().parts).sum();
        assert_eq!(parts, u64::from(n == 26));
    }
    // Some of them may have found another one at it.
    divide_at(pool(&store), Aging::Shown, DAYS, day(26)).await.unwrap();
    let names = names(&store, Aging::Shown).await;
    assert_eq!(names, ["exchanges_before", "exchanges_2025101108", "exchanges_2025110408", "exchanges_2025110608"]);
}

#[tokio::test]
async fn what_was_shown_is_found_erased_and_dropped_in_whatever_part_it_is() {
    let Some((_database, store)) = early().await else { return };
    for n in [0, 2, 4] {
        divide_at(pool(&store), Aging::Shown, DAYS, day(n)).await.unwrap();
    }
    let id = |at: Time| ExchangeId(u128::from(at.0.unsigned_abs()) << 80);
    let of = |at: Time, of: &Scope| {
        let shown = crate::store::Shown { exchange: id(at), ..shown(1) };
        crate::store::Finished { exchange: id(at), at, turn: None, shown: Some(shown), ..finished(1, of) }
    };
    let (ann, bob) = (scope("ann"), scope("bob"));
    let days = [-4, 0, 3, 5, 900];
    for n in days {
        store.append(&[of(day(n), &ann), of(day(n).plus_millis(1), &bob)]).await.unwrap();
    }
    for n in days {
        assert!(store.shown(&ann, id(day(n))).await.unwrap().is_some(), "day {n}");
    }
    assert_eq!(store.erase(&ann, day(6)).await.unwrap().counts["exchanges"], 5);
    for n in days {
        assert!(store.shown(&ann, id(day(n))).await.unwrap().is_none(), "day {n}");
    }
    divide_at(pool(&store), Aging::Shown, DAYS, day(26)).await.unwrap();
    assert!(store.shown(&bob, id(day(0).plus_millis(1))).await.unwrap().is_none());
    assert!(store.shown(&bob, id(day(3).plus_millis(1))).await.unwrap().is_some());
}

/// The books read and erase the same over parts; and the server's own time begins where the tests' do not.
#[tokio::test]
async fn the_books_are_the_same_in_parts() {
    let Some((_database, store)) = early().await else { return };
    for n in [0, 1, 2, 3, 4] {
        divide_at(pool(&store), Aging::Usage, 12, day(n)).await.unwrap();
    }
    contract::an_erased_subject_is_taken_out_and_does_not_come_back(&store).await;
    assert!(places(&store).await.len() > 2, "{:?}", places(&store).await);
    let now = divide(pool(&store), Aging::Usage, DAYS).await.unwrap();
    assert_eq!(now.parts, 1, "the server's clock is a year ahead of these rows");
}

#[tokio::test]
async fn what_is_not_kept_gets_no_parts() {
    let Some(database) = Database::fresh().await else { return };
    let store = connect(&database).await;
    divide(pool(&store), Aging::Raw, 0).await.unwrap();
    assert_eq!(names(&store, Aging::Raw).await, ["raw_exchanges_before"]);
    divide(pool(&store), Aging::Raw, DAYS).await.unwrap();
    assert_eq!(names(&store, Aging::Raw).await.len(), 3);
}

/// A database that was in use before its tables were divided.
#[tokio::test]
async fn rows_that_are_there_already_stay_when_their_table_is_divided() {
    let Some(database) = Database::fresh().await else { return };
    let mut conn = PgConnection::connect(&database.url()).await.unwrap();
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations/postgres");
    let mut steps: Vec<_> = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    steps.sort();
    let older = steps.iter().take_while(|path| !path.ends_with("0017_parts.sql"));
    let older: Vec<_> = older.map(|path| std::fs::read_to_string(path).unwrap()).collect();
    for step in &older {
        sqlx::raw_sql(AssertSqlSafe(step.clone())).execute(&mut conn).await.unwrap();
    }
    // One of them has a time that no clock should have told.
    let sql = format!(
        "CREATE TABLE schema_version (version bigint NOT NULL); INSERT INTO schema_version VALUES ({});
         INSERT INTO usage (exchange, at, tenant, namespace, key, operation, model, stream, input, output, total_us, overhead_us)
         SELECT id, 0, 'a', 'b', 'c', 'chat', 'm', true, 1, 1, 1, 1 FROM unnest(ARRAY['{}', '{}']) id",
        older.len(),
        first_of(day(0)),
        first_of(day(90_000))
    );
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut conn).await.unwrap();
    let store = connect(&database).await;
    assert_eq!(n_booked(&store).await, 2);
    assert_eq!(places(&store).await, [("usage_before".to_owned(), 1), ("usage_beyond".to_owned(), 1)]);
    divide(pool(&store), Aging::Usage, DAYS).await.unwrap();
    assert_eq!(store.sweep_usage(day(1), 9).await.unwrap(), 1);
}
