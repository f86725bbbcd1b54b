//! Scopes: how they are read, follow what is written, and stay apart.

use super::*;

#[tokio::test]
async fn what_was_just_learned_is_there_for_the_next_question() {
    let recall = recall_of(Vec::new(), home());
    let new = episode(9, "s9", 0, "The accordion was sold to Bruno for 300 euros.");
    recall.learned(&scope(), 2, &learned(vec![inserted(fact(1, "device.piano", "Yamaha"))], vec![new], Vec::new()));
    assert_eq!(shown(&recall.recall_now(&ask("Who got the accordion?")).unwrap()), [9]);
    let (revision, facts) = recall.facts(&scope()).await.unwrap();
    assert_eq!((revision, facts.len()), (2, 1));
}

#[test]
fn a_write_that_was_missed_drops_the_scope() {
    let recall = recall_of(Vec::new(), home());
    recall.learned(&scope(), 3, &learned(Vec::new(), Vec::new(), Vec::new()));
    assert!(recall.recall_now(&ask("boiler")).is_none());
}

#[test]
fn a_scope_that_is_not_in_memory_is_left_to_recall() {
    let recall = Recall::from_source(Arc::new(Shelf::default()), RecallConfig::default());
    assert!(recall.recall_now(&ask("boiler")).is_none());
}

#[tokio::test]
async fn scopes_are_walls_and_granted_ones_are_read_beside_the_own() {
    let shelf = Shelf::default();
    let other = scope().in_namespace("sales");
    let data = |episodes| ScopeData { revision: 4, ..read_of(episodes) };
    shelf.data.lock().unwrap().insert(scope(), data(home()));
    shelf
        .data
        .lock()
        .unwrap()
        .insert(other.clone(), data(vec![episode(50, "z", 0, "Quote for a new boiler: 2,400 euros.")]));
    let recall = Recall::from_source(Arc::new(shelf), RecallConfig::default());
    let mut query = ask("the boiler quote");
    assert!(!shown(&recall.recall(&query).await.unwrap()).contains(&50));
    query.scopes.push(other);
    let found = recall.recall(&query).await.unwrap();
    assert_eq!((shown(&found)[0], found.revision), (50, 4));
}

#[tokio::test]
async fn many_that_ask_for_a_cold_scope_wait_for_one_reading() {
    let gate = Arc::new(Gate::default());
    let shelf = Arc::new(Shelf { gate: Some(Arc::clone(&gate)), ..Shelf::default() });
    shelf.data.lock().unwrap().insert(scope(), read_of(home()));
    let recall = Recall::from_source(Arc::clone(&shelf) as Arc<dyn Source>, RecallConfig::default());
    let query = ask("the boiler in the cellar");
    let (a, b, ()) = tokio::join!(recall.recall(&query), recall.recall(&query), async {
        gate.reading.notified().await;
        gate.open.notify_one();
    });
    assert_eq!((shown(&a.unwrap())[0], shown(&b.unwrap())[0]), (1, 1));
    assert_eq!(shelf.readings.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_reading_goes_on_when_the_one_that_asked_gives_up() {
    let gate = Arc::new(Gate::default());
    let shelf = Arc::new(Shelf { gate: Some(Arc::clone(&gate)), ..Shelf::default() });
    shelf.data.lock().unwrap().insert(scope(), read_of(home()));
    let recall = Arc::new(Recall::from_source(Arc::clone(&shelf) as Arc<dyn Source>, RecallConfig::default()));
    let tasks = TaskTracker::new();
    let query = ask("the boiler in the cellar");
    tokio::select! {
        biased;
        _ = recall.recall_behind(&query, std::time::Instant::now(), &tasks) => panic!("nothing was read yet"),
        () = gate.reading.notified() => {}
    }
    gate.open.notify_one();
    tasks.close();
    tasks.wait().await;
    assert_eq!(shown(&recall.recall_now(&query).unwrap())[0], 1);
    assert_eq!(shelf.readings.load(Ordering::SeqCst), 1);
}

#[test]
fn a_scope_holds_no_more_than_it_may_and_the_oldest_give_way() {
    let config = RecallConfig { max_episodes_per_scope: 3, ..RecallConfig::default() };
    let recall = Recall::from_source(Arc::new(Shelf::default()), config);
    recall.fill(&scope(), read_of(home()));
    let boiler = ask("what was wrong with the boiler?");
    assert_eq!(shown(&recall.recall_now(&boiler).unwrap()), [2], "the first was one too many");
    let new = episode(9, "s9", 0, "The accordion was sold to Bruno for 300 euros.");
    recall.learned(&scope(), 2, &learned(Vec::new(), vec![new], Vec::new()));
    assert!(recall.recall_now(&boiler).unwrap().is_empty());
    assert_eq!(shown(&recall.recall_now(&ask("Who got the accordion?")).unwrap()), [9]);
}

#[tokio::test]
async fn a_write_while_the_scope_is_read_is_not_lost() {
    let gate = Arc::new(Gate::default());
    let shelf = Shelf { gate: Some(Arc::clone(&gate)), ..Shelf::default() };
    shelf.data.lock().unwrap().insert(scope(), read_of(home()));
    let recall = Recall::from_source(Arc::new(shelf), RecallConfig::default());
    let query = ask("Who got the accordion?");
    let (found, ()) = tokio::join!(recall.recall(&query), async {
        gate.reading.notified().await;
        let new = episode(9, "s9", 0, "The accordion was sold to Bruno.");
        recall.learned(&scope(), 2, &learned(Vec::new(), vec![new], Vec::new()));
        gate.open.notify_one();
    });
    assert_eq!(shown(&found.unwrap()), [9]);
}

#[tokio::test]
async fn a_scope_that_is_dropped_while_it_is_read_is_read_again() {
    let gate = Arc::new(Gate::default());
    let shelf = Arc::new(Shelf { gate: Some(Arc::clone(&gate)), ..Shelf::default() });
    shelf.data.lock().unwrap().insert(scope(), read_of(home()));
    let recall = Recall::from_source(Arc::clone(&shelf) as Arc<dyn Source>, RecallConfig::default());
    let query = ask("the boiler in the cellar");
    let (found, ()) = tokio::join!(recall.recall(&query), async {
        gate.reading.notified().await;
        // Erased while it is being read: what was read before must not be shown.
        shelf.data.lock().unwrap().clear();
        recall.invalidate(&scope());
        gate.open.notify_one();
        gate.reading.notified().await;
        gate.open.notify_one();
    });
    assert!(found.unwrap().is_empty());
}
