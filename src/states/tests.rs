//! States of two replicas by one Redis. Each has a store of its own and an empty one, so that what is found was not there.

use tokio_util::task::TaskTracker;

use super::*;
use crate::shared::testing::{Replica, options, server, until};
use crate::store::HandedOut;
use crate::store::sql::{SqlStore, SqliteOptions};

const NOW: Time = Time(1_760_000_000_000);

async fn states(replica: &Replica) -> States {
    let store = SqlStore::sqlite(SqliteOptions::default()).await.unwrap();
    States::new(Arc::new(store)).among_replicas(Some(Arc::clone(&replica.shared)))
}

async fn two() -> Option<(Replica, Replica, States, States)> {
    let options = options(&server()?);
    let (a, b) = (Replica::start(&options).await, Replica::start(&options).await);
    let (one, other) = (states(&a).await, states(&b).await);
    Some((a, b, one, other))
}

fn ann() -> Scope {
    Scope::new("t", "n", "ann")
}

fn key(prefix: u8) -> StateKey {
    StateKey { scope: ann(), prefix: [prefix; 32] }
}

fn shown(recollection: &str) -> TurnState {
    TurnState { recollection: recollection.into(), expires_at: NOW.plus_seconds(60), ..TurnState::default() }
}

#[tokio::test]
async fn a_turns_state_is_found_by_the_other_replica_before_the_store_has_it() {
    let Some((_a, _b, one, other)) = two().await else { return };
    let epoch = one.epoch(&ann()).await.unwrap();
    assert_eq!(other.epoch(&ann()).await.unwrap(), epoch);
    assert!(other.get(&key(1), NOW).await.unwrap().is_none());
    one.put(key(1), epoch, shown("peanuts"));
    // Though it was not there a moment ago.
    until("it is found", async || other.get(&key(1), NOW).await.unwrap().is_some()).await;
    assert_eq!(*other.get(&key(1), NOW).await.unwrap().unwrap(), shown("peanuts"));
    one.forget_everywhere(&ann());
    other.forget_all();
    other.epoch(&ann()).await.unwrap();
    until("it is gone", async || {
        other.forget_all();
        other.epoch(&ann()).await.unwrap();
        other.get(&key(1), NOW).await.unwrap().is_none()
    })
    .await;
}

#[tokio::test]
async fn a_state_of_before_an_erasure_is_not_shown_after_it() {
    let Some((_a, _b, one, other)) = two().await else { return };
    let epoch = one.epoch(&ann()).await.unwrap();
    other.epoch(&ann()).await.unwrap();
    one.put(key(1), epoch, shown("peanuts"));
    until("it is found", async || other.get(&key(1), NOW).await.unwrap().is_some()).await;
    // Redis hears nothing of it.
    other.store.erase(&ann(), NOW).await.unwrap();
    assert_ne!(other.epoch(&ann()).await.unwrap(), epoch);
    assert!(other.get(&key(1), NOW).await.unwrap().is_none());
}

#[tokio::test]
async fn a_response_is_gone_on_from_at_another_replica_at_once_and_by_nobody_else() {
    let Some((_a, _b, one, other)) = two().await else { return };
    let epoch = one.epoch(&ann()).await.unwrap();
    let names = vec![[1; 32], [2; 32]];
    let expires_at = NOW.plus_seconds(60);
    let handed = HandedOut { scope: ann(), epoch: Some(epoch), names, shown: Some(shown("profile")), expires_at };
    one.hand_out(handed, &TaskTracker::new());
    until("it is known", async || other.handed_out(&key(1), NOW).await.unwrap().is_some()).await;
    assert_eq!(other.handed_out(&key(1), NOW).await.unwrap().unwrap().as_deref(), Some(&shown("profile")));
    assert_eq!(other.handed_out(&key(2), NOW).await.unwrap(), Some(None));
    assert_eq!(other.handed_out(&key(3), NOW).await.unwrap(), None);
    let bob = StateKey { scope: Scope::new("t", "n", "bob"), prefix: [1; 32] };
    assert_eq!(other.handed_out(&bob, NOW).await.unwrap(), None);
}
