//! Days and months, in a store that others use too, and that fails.

use super::*;

/// BerriAI/litellm#6288; maximhq/bifrost#3547: limits over replicas are shared, with a stated accuracy, and kept over a restart.
#[tokio::test]
async fn budgets_outlive_the_process_and_are_shared_with_each_write() {
    let store = sqlite().await;
    let limits = Limits { tokens_per_month: Some(1_000), ..per_day(500) };
    let place = |store| Place::over(limits, LimitRules::default(), Some(store));
    let first = place(Arc::clone(&store));
    first.spend(300).await.unwrap();
    first.table.write(first.at).await.unwrap();

    let second = place(Arc::clone(&store));
    assert!(second.spend(201).await.is_err());
    second.spend(150).await.unwrap();
    second.table.write(second.at).await.unwrap();
    // For a while each knows its own.
    first.spend(50).await.unwrap();
    first.table.write(first.at).await.unwrap();
    assert!(first.spend(1).await.is_err());

    let mut third = place(store);
    third.at = Time::parse("2026-11-29T23:00:00Z").unwrap();
    third.table.read_latest(third.at).await.unwrap();
    // Nor does a clock that jumped back meanwhile make it whole.
    assert!(third.spend(1).await.is_err());
    third.at = Time::parse("2026-12-01T12:00:00Z").unwrap();
    third.spend(500).await.unwrap();
}

#[tokio::test]
async fn what_another_process_used_is_seen_after_a_second_by_who_is_near_a_limit() {
    let store = sqlite().await;
    let place = || Place::over(per_day(500), LimitRules::default(), Some(Arc::clone(&store)));
    let (mut near, busy) = (place(), place());
    near.spend(260).await.unwrap();
    busy.spend(200).await.unwrap();
    busy.table.write(busy.at).await.unwrap();
    near.now += Duration::from_secs(1);
    assert!(near.spend(50).await.is_err());
    // Nor has who thinks that little was used more than half of it to give.
    let mut calm = place();
    calm.accounts("ann").await.unwrap();
    calm.now += Duration::from_secs(1);
    near.table.write(near.at).await.unwrap();
    let mut given = 0;
    while calm.spend(20).await.is_ok() {
        given += 20;
    }
    assert!(given <= 260, "{given}");
}

/// Who is far from a limit need not ask so often, nor be written.
#[tokio::test]
async fn an_account_that_has_used_little_is_written_after_a_while() {
    let store = sqlite().await;
    let place = Place::over(per_day(500), LimitRules::default(), Some(store));
    place.spend(100).await.unwrap();
    place.table.write_due(place.at).await.unwrap();
    assert_eq!(place.table.held.books.n_listed(), 1, "it can wait");
    place.spend(200).await.unwrap();
    place.table.write_due(place.at).await.unwrap();
    assert_eq!(place.table.held.books.n_listed(), 0, "more than half");
}

/// Who spends nothing learns of it too, though the store went away in between; so does who has not asked for long.
#[tokio::test]
async fn what_another_process_used_is_seen_after_a_while_by_who_only_asks() {
    let store = sqlite().await;
    let place = || Place::over(per_day(500), LimitRules::default(), Some(Arc::clone(&store)));
    let (mut idle, busy) = (place(), place());
    idle.accounts("ann").await.unwrap();
    busy.spend(500).await.unwrap();
    busy.table.write(busy.at).await.unwrap();
    idle.now += Duration::from_secs(14);
    idle.set_store(Some(Arc::new(Unreachable::new("down".to_owned()))));
    let left = idle.accounts("ann").await.unwrap().lock().standing().tokens.unwrap().remaining;
    assert_eq!(left, 500);
    idle.set_store(Some(Arc::clone(&store)));
    assert!(idle.spend(1).await.is_err());
}

/// kill -9: what runs counts as it was reserved.
#[tokio::test]
async fn what_runs_is_in_the_store_as_it_was_reserved() {
    let store = sqlite().await;
    let place = Place::over(per_day(500), LimitRules::default(), Some(Arc::clone(&store)));
    let mut running = place.take(300).await.unwrap();
    place.table.write(place.at).await.unwrap();
    let after_a_crash = Place::over(per_day(500), LimitRules::default(), Some(Arc::clone(&store)));
    assert!(after_a_crash.spend(201).await.is_err());
    running.settle(spent(10));
    place.table.write(place.at).await.unwrap();
    let accounts = place.accounts("ann").await.unwrap();
    let today = [(accounts.iter().next().unwrap().meter.name.clone(), "2026-11-30".to_owned())];
    let totals = store.budget_totals(&today);
    assert_eq!(totals.await.unwrap(), [BudgetTotal { tokens: 10, nanos: 0 }]);
}

/// Design, doubt 23.
#[tokio::test]
async fn without_a_store_only_what_lasts_is_refused_and_minutes_go_on() {
    let down: Arc<dyn BudgetStore> = Arc::new(Unreachable::new("down".to_owned()));
    let place = Place::over(per_day(100), LimitRules::default(), Some(Arc::clone(&down)));
    let refused = place.take(1).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Overloaded);
    assert!(refused.retry_after.is_some());
    let place = Place::over(per_minute(10), LimitRules::default(), Some(down));
    place.spend(1).await.unwrap();
}

/// Design, doubt 23: budgets that cannot be written are given out for a while, and no longer.
#[tokio::test]
async fn budgets_that_cannot_be_written_are_refused_after_a_minute_and_given_out_again_after_that() {
    let store = sqlite().await;
    let mut place = Place::over(per_day(100), LimitRules::default(), Some(Arc::clone(&store)));
    place.spend(1).await.unwrap();
    place.set_store(Some(Arc::new(Unreachable::new("down".to_owned()))));
    place.table.write(place.at).await.unwrap_err();
    place.spend(1).await.unwrap();
    place.table.held.books.fail_for(Duration::from_secs(61));
    assert_eq!(place.spend(1).await.unwrap_err().kind, ErrorKind::Overloaded);
    place.set_store(Some(store));
    place.table.write(place.at).await.unwrap();
    place.spend(1).await.unwrap();
    place.table.write(place.at).await.unwrap();
    let again = Place::over(per_day(100), LimitRules::default(), place.table.held.store.clone());
    assert!(again.spend(98).await.is_err());
    again.spend(97).await.unwrap();
}

/// Upstream may say anything, and so may a client of the reply that it wants.
#[tokio::test]
async fn figures_that_cannot_be_true_stop_nobodys_books() {
    let store = sqlite().await;
    let limits = Limits { usd_per_day: Some(u64::MAX), ..Limits::default() };
    let place = Place::over(limits, LimitRules::default(), Some(Arc::clone(&store)));
    let accounts = place.accounts("ann").await.unwrap();
    let need = Need { output: i64::MAX.unsigned_abs(), price: Some(Price::default()), ..Need::default() };
    for _ in 0..3 {
        for tokens in [u64::MAX, 5] {
            let mut taken = place.table.take(&accounts, &need).unwrap();
            place.table.write(place.at).await.unwrap();
            taken.settle(Spent { tokens, cost: Some(Cost::from_nanos(tokens)) });
            place.table.write(place.at).await.unwrap();
        }
    }
    let used = accounts.iter().next().unwrap().meter.lock().ledger.used(accounts.when.day);
    assert_eq!((used.tokens, used.nanos), (3 * MAX_FIGURE + 15, 3 * MAX_FIGURE + 15));
}

/// A store that refuses the first group, for a reason that is no outage.
struct Picky(Arc<dyn BudgetStore>, AtomicBool);

#[async_trait::async_trait]
impl BudgetStore for Picky {
    async fn budget_totals(&self, of: &[(String, String)]) -> Result<Vec<BudgetTotal>, StoreError> {
        self.0.budget_totals(of).await
    }

    async fn add_budget_use(&self, uses: &[BudgetUse], now: Time) -> Result<Vec<BudgetTotal>, StoreError> {
        if !self.1.swap(true, Ordering::Relaxed) {
            return Err(StoreError::Conflict { what: "a sum".to_owned() });
        }
        self.0.add_budget_use(uses, now).await
    }

    async fn budgets_written_at(&self) -> Result<Option<Time>, StoreError> {
        self.0.budgets_written_at().await
    }

    async fn forget_budgets(&self, ended_before: Time, limit: u32) -> Result<u64, StoreError> {
        self.0.forget_budgets(ended_before, limit).await
    }
}

#[tokio::test]
async fn what_is_wrong_with_one_group_is_no_outage_and_keeps_no_other_back() {
    let picky = Arc::new(Picky(sqlite().await, AtomicBool::new(false)));
    let rules = LimitRules { each_subject: per_day(100), ..LimitRules::default() };
    let place = Place::over(Limits::default(), rules, Some(picky));
    for n in 0..600 {
        place.table.take(&place.accounts(&format!("p{n}")).await.unwrap(), &need(1)).unwrap().settle(spent(1));
    }
    place.table.write(place.at).await.unwrap_err();
    let n_left = place.table.held.books.n_listed();
    assert!((1..=250).contains(&n_left), "{n_left} are left");
    assert!(!place.table.held.books.is_failing());
    place.table.write(place.at).await.unwrap();
    assert_eq!(place.table.held.books.n_listed(), 0);
}
