//! Facts and their history.

use super::fixtures::*;
use crate::base::FactId;
use crate::memory::{Action, FactStatus, Scope};
use crate::store::{FactFilter, LearnOutcome, Page, ProposalStatus, ScopeState, Store, StoreError};

pub(crate) async fn changes_are_listed_in_order_and_by_page(store: &dyn Store) {
    let scope = scope("ann");
    let changes = [3, 1, 5, 2, 4].map(|n| insert(n, "note.a", &n.to_string()));
    assert_eq!(store.apply(&scope, &changes).await.unwrap(), 1);
    let mut page = Page::first(2);
    let mut seen = Vec::new();
    loop {
        let facts = store.list_facts(&scope, &FactFilter::default(), &page).await.unwrap();
        let Some(last) = facts.last() else { break };
        page.after = Some(last.id.to_string());
        seen.extend(facts.iter().map(|f| f.id.0));
    }
    assert_eq!(seen, [1, 2, 3, 4, 5]);
}

pub(crate) async fn facts_are_filtered_by_key_and_status(store: &dyn Store) {
    let scope = scope("ann");
    let with = |n, key: &str, status| {
        let mut change = insert(n, key, "x");
        change.fact.status = status;
        change
    };
    let changes = [
        with(1, "diet.allergy", FactStatus::Active),
        with(2, "diet.restriction", FactStatus::Contested),
        with(3, "diet", FactStatus::Superseded),
        with(4, "diet_other", FactStatus::Quarantined),
        with(5, "diet.allergy", FactStatus::Expired),
    ];
    store.apply(&scope, &changes).await.unwrap();
    let list = async |key: Option<&str>, status, current| {
        let filter = FactFilter { key: key.map(str::to_owned), status, current };
        let facts = store.list_facts(&scope, &filter, &Page::first(10)).await.unwrap();
        facts.iter().map(|f| f.id.0).collect::<Vec<_>>()
    };
    assert_eq!(list(None, None, false).await, [1, 2, 3, 4, 5]);
    assert_eq!(list(None, None, true).await, [1, 2]);
    assert_eq!(list(Some("diet.allergy"), None, false).await, [1, 5]);
    assert_eq!(list(Some("diet.*"), None, false).await, [1, 2, 5]);
    assert_eq!(list(Some("diet.*"), Some(FactStatus::Expired), false).await, [5]);
    assert_eq!(list(Some("diet%"), None, false).await, [0; 0]);
}

pub(crate) async fn every_change_is_in_the_history_with_the_value_before(store: &dyn Store) {
    let scope = scope("ann");
    store.apply(&scope, &[insert(1, "location.home", "Oslo")]).await.unwrap();
    // Twice in one call: the second rests on the first.
    let changes = [edit(1, "location.home", "Bergen", 1), edit(1, "location.home", "Rome", 2)];
    store.apply(&scope, &changes).await.unwrap();
    let history = store.history(&scope, FactId(1)).await.unwrap();
    let told: Vec<_> = history.iter().map(|h| (h.version, h.action, h.previous_value.clone())).collect();
    assert_eq!(
        told,
        [(1, Action::Insert, None), (2, Action::Edit, Some("Oslo".into())), (3, Action::Edit, Some("Bergen".into())),]
    );
    assert_eq!(history[2].fact, changes[1].fact);
    assert_eq!(history[2].reason, changes[1].reason);
    assert_eq!(store.fact(&scope, FactId(1)).await.unwrap(), Some(changes[1].fact.clone()));
    assert!(store.history(&scope, FactId(2)).await.unwrap().is_empty());
}

/// odysseus-dev/odysseus#1940: compare-and-set per row.
pub(crate) async fn a_change_of_another_version_is_refused_whole(store: &dyn Store) {
    let scope = scope("ann");
    store.apply(&scope, &[insert(1, "location.home", "Oslo")]).await.unwrap();
    let changes = [insert(2, "note.a", "x"), edit(1, "location.home", "Rome", 7)];
    let refused = store.apply(&scope, &changes).await;
    assert!(matches!(refused, Err(StoreError::Conflict { .. })), "{refused:?}");
    let missing = store.apply(&scope, &[edit(9, "location.home", "Rome", 1)]).await;
    assert!(matches!(missing, Err(StoreError::Conflict { .. })), "{missing:?}");
    assert_eq!(count(store, &scope).await, 1);
    assert_eq!(store.fact(&scope, FactId(1)).await.unwrap().unwrap().value, "Oslo");
    assert_eq!(store.scope_state(&scope).await.unwrap().revision, 1);
}

pub(crate) async fn a_fact_cannot_be_inserted_twice(store: &dyn Store) {
    let scope = scope("ann");
    store.apply(&scope, &[insert(1, "location.home", "Oslo")]).await.unwrap();
    let again = store.apply(&scope, &[insert(1, "location.home", "Rome")]).await;
    assert!(matches!(again, Err(StoreError::Conflict { .. })), "{again:?}");
    let twice = store.apply(&scope, &[insert(2, "note.a", "x"), insert(2, "note.a", "y")]).await;
    assert!(matches!(twice, Err(StoreError::Conflict { .. })), "{twice:?}");
    assert_eq!(count(store, &scope).await, 1);
}

/// mem0ai/mem0#3245: a deleted fact is gone, the others stay.
/// odysseus-dev/odysseus#1940: two that insert a value of one key at once do not both get their way.
pub(crate) async fn a_key_of_one_value_gets_no_second_one(store: &dyn Store) {
    let scope = scope("ann");
    store.apply(&scope, &[insert(1, "location.home", "Oslo")]).await.unwrap();
    let second = store.apply(&scope, &[insert(2, "location.home", "Rome")]).await;
    assert!(matches!(second, Err(StoreError::Conflict { .. })), "{second:?}");
    let mut about_bob = insert(3, "location.home", "Rome");
    about_bob.fact.about = Some("brother Bob".to_owned());
    store.apply(&scope, &[about_bob]).await.unwrap();
    let mut retired = edit(1, "location.home", "Oslo", 1);
    retired.fact.status = FactStatus::Superseded;
    store.apply(&scope, &[retired, insert(4, "location.home", "Rome")]).await.unwrap();
    store.apply(&scope, &[insert(5, "note.a", "x"), insert(6, "note.a", "y")]).await.unwrap();
}

pub(crate) async fn a_deleted_fact_is_gone_and_its_words_are_barred(store: &dyn Store) {
    let scope = scope("ann");
    leased(store, &scope, &[1]).await;
    let mut one = learned(1, &scope, 0);
    one.changes = vec![insert(1, "location.home", "Oslo"), insert(2, "work.role", "cook")];
    one.proposals =
        vec![proposal(30, ProposalStatus::Accepted, Some(1)), proposal(31, ProposalStatus::Accepted, Some(2))];
    assert_eq!(store.learn("me", &[one]).await.unwrap(), [LearnOutcome::Applied { revision: 1 }]);
    let mut edited = edit(1, "location.home", "Rome", 1);
    edited.fact.evidence = vec![evidence("I moved to Rome")];
    store.apply(&scope, &[edited]).await.unwrap();

    assert!(store.delete_fact(&scope, FactId(1), NOW).await.unwrap());
    assert!(!store.delete_fact(&scope, FactId(1), NOW).await.unwrap());
    assert_eq!(store.fact(&scope, FactId(1)).await.unwrap(), None);
    assert!(store.history(&scope, FactId(1)).await.unwrap().is_empty());
    assert_eq!(store.proposals(&scope, None, &Page::first(9)).await.unwrap().len(), 1);
    assert_eq!(count(store, &scope).await, 1);
    assert_eq!(store.scope_state(&scope).await.unwrap().revision, 3);
    let texts = [
        "I said that location.home is Oslo.",
        "i moved  to ROME",
        "I'm allergic to peanuts",
        "I said that work.role is cook.",
        "I have moved to Rome",
    ];
    // The words of the older value are barred as well; those of other facts and new words are not.
    assert_eq!(store.tombstoned(&scope, &texts).await.unwrap(), [true, true, true, false, false]);
}

pub(crate) async fn revisions_grow_by_one_with_each_change(store: &dyn Store) {
    let scope = scope("ann");
    assert_eq!(store.apply(&scope, &[]).await.unwrap(), 0);
    assert_eq!(store.apply(&scope, &[insert(1, "note.a", "x"), insert(2, "note.a", "y")]).await.unwrap(), 1);
    assert_eq!(store.apply(&scope, &[edit(1, "note.a", "z", 1)]).await.unwrap(), 2);
    assert!(!store.delete_fact(&scope, FactId(9), NOW).await.unwrap());
    assert_eq!(store.scope_state(&scope).await.unwrap(), ScopeState { revision: 2, epoch: 0 });
}

async fn count(store: &dyn Store, scope: &Scope) -> usize {
    store.list_facts(scope, &FactFilter::default(), &Page::first(100)).await.unwrap().len()
}
