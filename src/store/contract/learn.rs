//! Storing what exchanges taught.

use super::fixtures::*;
use crate::base::{EpisodeId, ExchangeId, FactId};
use crate::memory::{Action, Scope, Speaker};
use crate::store::{EpisodeFilter, FactFilter, LearnOutcome, Page, ProposalStatus, ScopeState, Store};

pub(crate) async fn what_was_learned_is_stored_and_the_exchange_is_gone(store: &dyn Store) {
    let scope = scope("ann");
    leased(store, &scope, &[1]).await;
    let mut one = learned(1, &scope, 0);
    one.changes = vec![insert(10, "location.home", "Oslo")];
    one.episodes = vec![episode(20, Speaker::User, "I live in Oslo")];
    one.proposals = vec![proposal(30, ProposalStatus::Accepted, Some(10))];
    let outcomes = store.learn("me", &[one]).await.unwrap();
    assert_eq!(outcomes, [LearnOutcome::Applied { revision: 1 }]);
    assert_eq!(store.fact(&scope, FactId(10)).await.unwrap(), Some(fact(10, "location.home", "Oslo")));
    assert_eq!(store.episode(&scope, EpisodeId(20)).await.unwrap(), Some(episode(20, Speaker::User, "I live in Oslo")));
    assert_eq!(
        store.proposals(&scope, None, &Page::first(10)).await.unwrap(),
        [proposal(30, ProposalStatus::Accepted, Some(10))]
    );
    assert_eq!(store.scope_state(&scope).await.unwrap(), ScopeState { revision: 1, epoch: 0 });
    assert_eq!(store.depth().await.unwrap().waiting, 0);
}

pub(crate) async fn several_exchanges_of_one_scope_build_on_each_other(store: &dyn Store) {
    let (ann, bob) = (scope("ann"), scope("bob"));
    store.append(&[finished(1, &ann), finished(2, &bob), finished(3, &ann)]).await.unwrap();
    store.claim(&claim("me", 10)).await.unwrap();
    let mut first = learned(1, &ann, 0);
    first.changes = vec![insert(10, "location.home", "Oslo")];
    let mut other = learned(2, &bob, 0);
    other.changes = vec![insert(11, "location.home", "Bonn")];
    let mut second = learned(3, &ann, 1);
    second.changes = vec![edit(10, "location.home", "Rome", 1)];
    let outcomes = store.learn("me", &[first, other, second]).await.unwrap();
    let applied = |revision| LearnOutcome::Applied { revision };
    assert_eq!(outcomes, [applied(1), applied(1), applied(2)]);
    assert_eq!(store.fact(&ann, FactId(10)).await.unwrap().unwrap().value, "Rome");
    let history = store.history(&ann, FactId(10)).await.unwrap();
    assert_eq!(history.len(), 2);
    assert_eq!(history[1].previous_value, Some("Oslo".into()));
}

pub(crate) async fn a_decision_on_an_older_revision_is_stale_and_stores_nothing(store: &dyn Store) {
    let scope = scope("ann");
    leased(store, &scope, &[1]).await;
    store.apply(&scope, &[insert(5, "note.a", "x")]).await.unwrap();
    let mut one = learned(1, &scope, 0);
    one.changes = vec![insert(10, "location.home", "Oslo")];
    one.episodes = vec![episode(20, Speaker::User, "I live in Oslo")];
    assert_eq!(store.learn("me", &[one.clone()]).await.unwrap(), [LearnOutcome::Stale]);
    assert_eq!(store.fact(&scope, FactId(10)).await.unwrap(), None);
    assert_eq!(store.depth().await.unwrap().waiting, 1);
    // The lease still holds, so it can be decided again at once.
    one.revision = 1;
    assert_eq!(store.learn("me", &[one]).await.unwrap(), [LearnOutcome::Applied { revision: 2 }]);
}

pub(crate) async fn what_rests_on_a_result_that_was_not_stored_is_stale(store: &dyn Store) {
    let scope = scope("ann");
    leased(store, &scope, &[1, 2]).await;
    store.apply(&scope, &[insert(5, "note.a", "x")]).await.unwrap();
    // Decided on revision 0; the second on the first one's result, revision 1, which is what the scope has by chance.
    let mut first = learned(1, &scope, 0);
    first.changes = vec![insert(10, "location.home", "Oslo")];
    let mut second = learned(2, &scope, 1);
    second.changes = vec![insert(11, "work.role", "cook")];
    let outcomes = store.learn("me", &[first, second]).await.unwrap();
    assert_eq!(outcomes, [LearnOutcome::Stale, LearnOutcome::Stale]);
    assert_eq!(facts(store, &scope).await, ["note.a"]);
}

/// MemTensor/MemOS#881, netclaw-dev/netclaw#379: retries and replayed history make no second memory.
pub(crate) async fn a_user_turn_is_learned_once_in_ten_minutes(store: &dyn Store) {
    let scope = scope("ann");
    leased(store, &scope, &[1, 2, 3]).await;
    let statement = |n: u128, revision| {
        let mut learned = learned(n, &scope, revision);
        learned.turn_key = "the same turn".to_owned();
        learned.changes = vec![insert(n, "note.a", "x")];
        learned
    };
    let outcomes = store.learn("me", &[statement(1, 0), statement(2, 1)]).await.unwrap();
    assert_eq!(outcomes, [LearnOutcome::Applied { revision: 1 }, LearnOutcome::Seen { revision: 1 }]);
    assert_eq!(store.depth().await.unwrap().waiting, 1);
    let mut later = statement(3, 1);
    later.now = later.now.plus_seconds(600);
    assert_eq!(store.learn("me", &[later]).await.unwrap(), [LearnOutcome::Applied { revision: 2 }]);
}

pub(crate) async fn a_seen_turn_still_leaves_the_reply(store: &dyn Store) {
    let scope = scope("ann");
    leased(store, &scope, &[1, 2, 3]).await;
    let statement = |n: u128, revision| {
        let mut learned = learned(n, &scope, revision);
        learned.turn_key = "a turn with tool calls".to_owned();
        learned.episodes =
            vec![episode(n * 10, Speaker::User, "book it"), episode(n * 10 + 1, Speaker::Assistant, "ok")];
        learned
    };
    // A later exchange was decided on facts that are not there.
    let mut third = learned(3, &scope, 2);
    third.changes = vec![insert(5, "note.a", "x")];
    let outcomes = store.learn("me", &[statement(1, 0), statement(2, 1), third]).await.unwrap();
    assert_eq!(
        outcomes,
        [LearnOutcome::Applied { revision: 1 }, LearnOutcome::Seen { revision: 2 }, LearnOutcome::Stale]
    );
    let episodes = store.list_episodes(&scope, &EpisodeFilter::default(), &Page::first(10)).await.unwrap();
    assert_eq!(episodes.iter().map(|e| e.id.0).collect::<Vec<_>>(), [10, 11, 21]);
}

pub(crate) async fn a_lost_lease_stores_nothing(store: &dyn Store) {
    let scope = scope("ann");
    leased(store, &scope, &[1]).await;
    let mut later = claim("other", 10);
    later.now = later.now.plus_seconds(61);
    assert_eq!(store.claim(&later).await.unwrap().len(), 1);
    let mut one = learned(1, &scope, 0);
    one.changes = vec![insert(10, "location.home", "Oslo")];
    assert_eq!(store.learn("me", &[one.clone()]).await.unwrap(), [LearnOutcome::NotOurs]);
    assert_eq!(facts(store, &scope).await, [""; 0]);
    assert_eq!(store.learn("other", &[one]).await.unwrap(), [LearnOutcome::Applied { revision: 1 }]);
}

pub(crate) async fn nothing_is_learned_twice(store: &dyn Store) {
    let scope = scope("ann");
    leased(store, &scope, &[1]).await;
    let mut one = learned(1, &scope, 0);
    one.user_side = false;
    one.episodes = vec![episode(20, Speaker::Assistant, "ok")];
    let twice = [one.clone(), one.clone()];
    let outcomes = store.learn("me", &twice).await.unwrap();
    assert_eq!(outcomes, [LearnOutcome::Applied { revision: 1 }, LearnOutcome::NotOurs]);
    assert_eq!(store.learn("me", &[one]).await.unwrap(), [LearnOutcome::NotOurs]);
    assert_eq!(
        store.learn("me", &[learned(9, &super::fixtures::scope("nobody"), 0)]).await.unwrap(),
        [LearnOutcome::NotOurs]
    );
}

pub(crate) async fn an_exchange_that_teaches_nothing_leaves_the_revision(store: &dyn Store) {
    let scope = scope("ann");
    leased(store, &scope, &[1, 2]).await;
    let mut one = learned(1, &scope, 0);
    one.proposals = vec![proposal(30, ProposalStatus::Refused, None)];
    let outcomes = store.learn("me", &[one, learned(2, &scope, 0)]).await.unwrap();
    assert_eq!(outcomes, [LearnOutcome::Applied { revision: 0 }, LearnOutcome::Applied { revision: 0 }]);
    assert_eq!(store.depth().await.unwrap().waiting, 0);
    assert_eq!(store.proposals(&scope, None, &Page::first(10)).await.unwrap().len(), 1);
}

pub(crate) async fn episodes_are_marked_with_the_facts_they_mention_that_were_retired(store: &dyn Store) {
    let scope = scope("ann");
    store.put_episodes(&scope, &[episode(20, Speaker::User, "Oslo and Bergen")]).await.unwrap();
    leased(store, &scope, &[1, 2]).await;
    let mut one = learned(1, &scope, 1);
    one.episodes = vec![episode(21, Speaker::User, "Oslo again")];
    one.marks = vec![(EpisodeId(20), FactId(1)), (EpisodeId(20), FactId(2)), (EpisodeId(21), FactId(1))];
    let mut two = learned(2, &scope, 2);
    two.changes = vec![insert(5, "note.a", "x")];
    two.marks = vec![(EpisodeId(20), FactId(2)), (EpisodeId(20), FactId(3)), (EpisodeId(99), FactId(3))];
    store.learn("me", &[one, two]).await.unwrap();
    let marks = async |id| {
        let mut marks = store.episode(&scope, EpisodeId(id)).await.unwrap().unwrap().retired_facts;
        marks.sort_unstable();
        marks
    };
    assert_eq!(marks(20).await, [FactId(1), FactId(2), FactId(3)]);
    assert_eq!(marks(21).await, [FactId(1)]);
}

pub(crate) async fn a_version_that_differs_is_stale(store: &dyn Store) {
    let scope = scope("ann");
    leased(store, &scope, &[1]).await;
    store.apply(&scope, &[insert(10, "location.home", "Oslo")]).await.unwrap();
    let mut one = learned(1, &scope, 1);
    one.changes = vec![edit(10, "location.home", "Rome", 5)];
    assert_eq!(store.learn("me", &[one]).await.unwrap(), [LearnOutcome::Stale]);
    assert_eq!(store.fact(&scope, FactId(10)).await.unwrap().unwrap().value, "Oslo");
    assert_eq!(store.history(&scope, FactId(10)).await.unwrap()[0].action, Action::Insert);
}

pub(crate) async fn what_was_learned_at_once_is_stored_and_the_exchange_is_not(store: &dyn Store) {
    let (ann, bob) = (scope("ann"), scope("bob"));
    let mut group = [finished(1, &ann), finished(2, &bob), finished(3, &ann)];
    group[0].shown = Some(shown(1));
    group[0].state = Some(state(&ann, 7, 0));
    let mut first = learned(1, &ann, 0);
    first.changes = vec![insert(10, "location.home", "Oslo")];
    first.episodes = vec![episode(20, Speaker::User, "I live in Oslo"), episode(21, Speaker::Assistant, "ok")];
    let mut third = learned(3, &ann, 1);
    third.changes = vec![edit(10, "location.home", "Rome", 1)];
    let outcomes = store.append_learned(&group, &[Some(first), None, Some(third)]).await.unwrap();
    let applied = |revision| Some(LearnOutcome::Applied { revision });
    assert_eq!(outcomes, [applied(1), None, applied(2)]);
    assert_eq!(store.fact(&ann, FactId(10)).await.unwrap().unwrap().value, "Rome");
    assert!(store.episode(&ann, EpisodeId(21)).await.unwrap().is_some());
    assert_eq!(store.shown(&ann, ExchangeId(1)).await.unwrap(), Some(shown(1)));
    assert!(store.turn_state(&state(&ann, 7, 0).0, NOW).await.unwrap().is_some());
    assert_eq!(store.scope_state(&ann).await.unwrap(), ScopeState { revision: 2, epoch: 0 });
    let waiting = store.claim(&claim("me", 9)).await.unwrap();
    assert_eq!(waiting.iter().map(|c| c.turn.exchange.0).collect::<Vec<_>>(), [2]);
}

pub(crate) async fn what_was_learned_at_once_on_an_older_revision_waits(store: &dyn Store) {
    let scope = scope("ann");
    store.apply(&scope, &[insert(5, "note.a", "x")]).await.unwrap();
    let group = [finished(1, &scope), finished(2, &scope)];
    let learned = [1, 2].map(|n| {
        let mut learned = learned(n, &scope, n as i64 - 1);
        learned.episodes = vec![episode(n * 10, Speaker::User, "hello")];
        Some(learned)
    });
    let outcomes = store.append_learned(&group, &learned).await.unwrap();
    assert_eq!(outcomes, [Some(LearnOutcome::Stale); 2]);
    assert_eq!(store.claim(&claim("me", 9)).await.unwrap().len(), 2);
}

/// plastic-labs/honcho#725: where something was deleted, only the long way knows whether words are barred.
pub(crate) async fn where_something_was_deleted_nothing_is_learned_at_once(store: &dyn Store) {
    let scope = scope("ann");
    store.apply(&scope, &[insert(5, "note.a", "x")]).await.unwrap();
    store.delete_fact(&scope, FactId(5), NOW).await.unwrap();
    let mut again = learned(1, &scope, 2);
    again.changes = vec![insert(6, "note.a", "x")];
    let outcomes = store.append_learned(&[finished(1, &scope)], &[Some(again)]).await.unwrap();
    assert_eq!(outcomes, [Some(LearnOutcome::Stale)]);
    assert_eq!(store.claim(&claim("me", 9)).await.unwrap().len(), 1);
    assert_eq!(facts(store, &scope).await, [""; 0]);
}

/// Design, doubt 14; and MemTensor/MemOS#881 for a turn that is sent twice.
pub(crate) async fn what_was_learned_at_once_of_an_erased_scope_or_a_seen_turn_is_not_stored(store: &dyn Store) {
    let (ann, bob) = (scope("ann"), scope("bob"));
    store.erase(&ann, NOW).await.unwrap();
    let mut late = learned(1, &ann, 1);
    late.episodes = vec![episode(10, Speaker::User, "hello")];
    let twice = [2, 3].map(|n| {
        let mut learned = learned(n, &bob, n as i64 - 2);
        learned.turn_key = "the same turn".to_owned();
        learned.episodes =
            vec![episode(n * 10, Speaker::User, "book it"), episode(n * 10 + 1, Speaker::Assistant, "ok")];
        Some(learned)
    });
    let [second, third] = twice;
    let group = [finished(1, &ann), finished(2, &bob), finished(3, &bob)];
    let outcomes = store.append_learned(&group, &[Some(late), second, third]).await.unwrap();
    let expected =
        [LearnOutcome::Erased, LearnOutcome::Applied { revision: 1 }, LearnOutcome::Seen { revision: 2 }].map(Some);
    assert_eq!(outcomes, expected);
    assert_eq!(store.depth().await.unwrap().waiting, 0);
    let episodes = store.list_episodes(&bob, &EpisodeFilter::default(), &Page::first(10)).await.unwrap();
    assert_eq!(episodes.iter().map(|e| e.id.0).collect::<Vec<_>>(), [20, 21, 31]);
    assert_eq!(store.scope_state(&ann).await.unwrap(), ScopeState { revision: 1, epoch: 1 });
}

/// More than one script has room for.
pub(crate) async fn a_large_group_is_stored_whole(store: &dyn Store) {
    let scopes: Vec<_> = (0..50).map(|n| scope(&format!("subject-{n}"))).collect();
    let group: Vec<_> = (1..=100_u128).map(|n| finished(n, &scopes[n as usize % 50])).collect();
    let learned: Vec<_> = (1..=100_u128)
        .map(|n| {
            let mut learned = learned(n, &scopes[n as usize % 50], i64::from(n > 50));
            let said = |side| episode(n * 10 + side, Speaker::User, &format!("statement {n}"));
            learned.episodes = (0..3).map(said).collect();
            (n % 7 > 0).then_some(learned)
        })
        .collect();
    let outcomes = store.append_learned(&group, &learned).await.unwrap();
    let stored = outcomes.iter().filter(|o| matches!(o, Some(LearnOutcome::Applied { .. }))).count();
    let waiting = store.depth().await.unwrap().waiting as usize;
    assert_eq!(stored + waiting, 100);
    let mut episodes = 0;
    for scope in &scopes {
        episodes += store.list_episodes(scope, &EpisodeFilter::default(), &Page::first(99)).await.unwrap().len();
    }
    assert_eq!(episodes, stored * 3);
    assert!(stored > 70, "{stored}");
}

pub(crate) async fn an_empty_group_is_nothing(store: &dyn Store) {
    store.append(&[]).await.unwrap();
    assert_eq!(store.learn("me", &[]).await.unwrap(), []);
    assert_eq!(store.shown(&scope("ann"), ExchangeId(1)).await.unwrap(), None);
}

async fn facts(store: &dyn Store, scope: &Scope) -> Vec<String> {
    let facts = store.list_facts(scope, &FactFilter::default(), &Page::first(10)).await.unwrap();
    facts.into_iter().map(|f| f.key).collect()
}
