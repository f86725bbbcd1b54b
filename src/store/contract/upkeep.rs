//! What the sweep does, marks and audit rows.

use serde_json::json;

use super::fixtures::*;
use crate::base::{EpisodeId, FactId, Time};
use crate::memory::{Action, Actor, EpisodeStatus, FactStatus, Scope, Speaker};
use crate::store::{Audit, EpisodeFilter, Forgetting, Page, Store, StoreError, SubjectUse};

pub(crate) async fn scopes_are_listed_in_pieces_and_erased_ones_are_not(store: &dyn Store) {
    for (n, subject) in (1..).zip(["ann", "bob", "cid"]) {
        store.apply(&scope(subject), &[insert(n, "note.a", "x")]).await.unwrap();
    }
    store.erase(&scope("bob"), NOW).await.unwrap();
    let first = store.scopes_after(0, 1).await.unwrap();
    let rest = store.scopes_after(first[0].0, 10).await.unwrap();
    let names: Vec<_> = first.iter().chain(&rest).map(|(_, scope)| scope.subject.to_string()).collect();
    assert_eq!(names, ["ann", "cid"]);
    assert!(store.scopes_after(rest[0].0, 10).await.unwrap().is_empty());
}

pub(crate) async fn active_episodes_of_all_tenants_are_counted(store: &dyn Store) {
    assert_eq!(store.count_episodes().await.unwrap(), 0);
    let mut aside = episode(2, Speaker::User, "put aside");
    aside.status = EpisodeStatus::Archived;
    store.put_episodes(&scope("ann"), &[episode(1, Speaker::User, "a"), aside]).await.unwrap();
    store.put_episodes(&Scope::new("globex", "support", "ann"), &[episode(3, Speaker::User, "b")]).await.unwrap();
    assert_eq!(store.count_episodes().await.unwrap(), 2);
    store.erase(&scope("ann"), NOW).await.unwrap();
    assert_eq!(store.count_episodes().await.unwrap(), 1);
}

fn forgetting(revision: i64) -> Forgetting {
    Forgetting { revision, now: NOW, max_rows: 10, ..Forgetting::default() }
}

pub(crate) async fn what_is_forgotten_goes_in_one_step(store: &dyn Store) {
    let scope = scope("ann");
    store.apply(&scope, &[insert(1, "note.a", "x"), insert(2, "note.b", "y")]).await.unwrap();
    let episodes = [1, 2, 3].map(|n| episode(n, Speaker::User, &n.to_string()));
    store.put_episodes(&scope, &episodes).await.unwrap();
    let mut expired = fact(1, "note.a", "x");
    (expired.status, expired.version) = (FactStatus::Expired, 2);
    let mut run_out = change(Action::Expire, expired, Some(1));
    run_out.actor = Actor::Sweep;
    let done = store
        .forget(
            &scope,
            &Forgetting {
                changes: vec![run_out],
                drop_facts: vec![FactId(2), FactId(99)],
                archive: vec![EpisodeId(1), EpisodeId(99)],
                drop_episodes: vec![EpisodeId(2)],
                ..forgetting(2)
            },
        )
        .await
        .unwrap();
    assert_eq!((done.expired, done.dropped_facts, done.archived, done.dropped_episodes), (1, 1, 1, 1));
    assert_eq!(done.revision, 3);
    assert_eq!(store.fact(&scope, FactId(1)).await.unwrap().unwrap().status, FactStatus::Expired);
    let history = store.history(&scope, FactId(1)).await.unwrap();
    assert_eq!((history[1].action, history[1].actor), (Action::Expire, Actor::Sweep));
    assert_eq!(store.fact(&scope, FactId(2)).await.unwrap(), None);
    assert!(store.history(&scope, FactId(2)).await.unwrap().is_empty());
    let archived = EpisodeFilter { status: Some(EpisodeStatus::Archived), ..EpisodeFilter::default() };
    let listed = store.list_episodes(&scope, &archived, &Page::first(9)).await.unwrap();
    assert_eq!(listed.iter().map(|e| (e.id.0, e.status)).collect::<Vec<_>>(), [(1, EpisodeStatus::Archived)]);
    assert_eq!(store.episode(&scope, EpisodeId(2)).await.unwrap(), None);
    // Nothing to do is no new revision.
    assert!(store.forget(&scope, &forgetting(3)).await.unwrap().is_empty());
    assert_eq!(store.scope_state(&scope).await.unwrap().revision, 3);
}

/// Else a sweep would bring back what was deleted while it was thinking.
pub(crate) async fn forgetting_on_an_older_revision_does_nothing(store: &dyn Store) {
    let scope = scope("ann");
    store.put_episodes(&scope, &[episode(1, Speaker::User, "a")]).await.unwrap();
    let late = Forgetting { archive: vec![EpisodeId(1)], ..forgetting(0) };
    assert!(matches!(store.forget(&scope, &late).await, Err(StoreError::Conflict { .. })));
    assert_eq!(store.episode(&scope, EpisodeId(1)).await.unwrap().unwrap().status, EpisodeStatus::Active);
}

pub(crate) async fn what_was_archived_long_ago_goes_and_no_more_than_asked(store: &dyn Store) {
    let scope = scope("ann");
    let episodes = [1, 2, 3].map(|n| episode(n, Speaker::User, &n.to_string()));
    store.put_episodes(&scope, &episodes).await.unwrap();
    let put_aside = Forgetting { archive: vec![EpisodeId(1), EpisodeId(2)], ..forgetting(1) };
    store.forget(&scope, &put_aside).await.unwrap();
    let later = |revision, before: Time, max_rows| Forgetting {
        drop_archived_before: before,
        max_rows,
        ..forgetting(revision)
    };
    assert!(store.forget(&scope, &later(2, NOW, 10)).await.unwrap().is_empty(), "not before its time");
    assert_eq!(store.forget(&scope, &later(2, NOW.plus_millis(1), 1)).await.unwrap().dropped_episodes, 1);
    assert_eq!(store.forget(&scope, &later(3, NOW.plus_millis(1), 10)).await.unwrap().dropped_episodes, 1);
    let left = store.list_episodes(&scope, &EpisodeFilter::default(), &Page::first(9)).await.unwrap();
    assert_eq!(left.iter().map(|e| e.id.0).collect::<Vec<_>>(), [3]);
}

pub(crate) async fn what_is_dropped_may_be_told_again(store: &dyn Store) {
    let scope = scope("ann");
    store.apply(&scope, &[insert(1, "note.a", "x")]).await.unwrap();
    store.put_episodes(&scope, &[episode(1, Speaker::User, "we met Bob")]).await.unwrap();
    let all = Forgetting { drop_facts: vec![FactId(1)], drop_episodes: vec![EpisodeId(1)], ..forgetting(2) };
    store.forget(&scope, &all).await.unwrap();
    let words = ["I said that note.a is x.", "we met Bob"];
    assert_eq!(store.tombstoned(&scope, &words).await.unwrap(), [false, false]);
}

pub(crate) async fn a_mark_is_kept(store: &dyn Store) {
    assert_eq!(store.mark("sweep").await.unwrap(), None);
    for value in ["1", "2"] {
        store.set_mark("sweep", value).await.unwrap();
        assert_eq!(store.mark("sweep").await.unwrap().as_deref(), Some(value));
    }
}

pub(crate) async fn audit_rows_belong_to_their_scope_and_go_with_it(store: &dyn Store) {
    let audit = Audit { at: NOW, action: "copied_in".into(), actor: "api".into(), detail: json!({ "facts": 1 }) };
    store.audit(&scope("ann"), &audit).await.unwrap();
    store.audit(&scope("ann"), &audit).await.unwrap();
    let found = store.audited(&scope("ann"), 0, 10).await.unwrap();
    assert_eq!(found.iter().map(|a| &a.audit).collect::<Vec<_>>(), [&audit, &audit]);
    assert_eq!(store.audited(&scope("ann"), found[0].seq, 10).await.unwrap(), found[1..]);
    assert!(store.audited(&scope("bob"), 0, 10).await.unwrap().is_empty());
    store.erase(&scope("ann"), NOW).await.unwrap();
    assert!(store.audited(&scope("ann"), 0, 10).await.unwrap().is_empty());
}

pub(crate) async fn subject_use_adds_up_and_goes_with_the_subject(store: &dyn Store) {
    let used = |subject: &str, begun| SubjectUse {
        tenant: "acme".into(),
        namespace: "support".into(),
        source: "user".into(),
        subject: subject.into(),
        begun,
    };
    store.add_subject_use(&[used("ann", 2), used("bob", 5)], NOW).await.unwrap();
    store.add_subject_use(&[used("ann", 7)], NOW).await.unwrap();
    let found = store.subject_use(NOW, 10).await.unwrap();
    assert_eq!(found.iter().map(|u| u.begun).collect::<Vec<_>>(), [9, 5]);
    assert!(found.iter().all(|u| u.subject.len() == 64), "a hash, not a name");
    assert!(store.subject_use(NOW.plus_millis(1), 10).await.unwrap().is_empty());
    store.erase(&scope("ann"), NOW).await.unwrap();
    assert_eq!(store.subject_use(NOW, 10).await.unwrap().iter().map(|u| u.begun).collect::<Vec<_>>(), [5]);
    // Bounded: the rare ones are summed up, and none is lost.
    let many: Vec<_> = (0..200).map(|n| used(&format!("user {n}"), 1)).chain([used("", 3)]).collect();
    store.add_subject_use(&many, NOW).await.unwrap();
    let found = store.subject_use(NOW, 1000).await.unwrap();
    assert!(found.len() <= 65, "{}", found.len());
    assert_eq!(found.iter().map(|u| u.begun).sum::<u64>(), 5 + 200 + 3);
    assert!(found.iter().any(|u| u.subject.is_empty()) && found.iter().any(|u| u.begun == 5));
}
