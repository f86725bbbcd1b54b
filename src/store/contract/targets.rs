//! What was learned about upstream targets.

use super::fixtures::NOW;
use crate::store::{MAX_TARGETS, Store, TargetRecord};

fn record(target: &str, revision: i64, millis: i64) -> TargetRecord {
    TargetRecord {
        target: target.to_owned(),
        revision,
        at: NOW.plus_millis(millis),
        body: format!("{{\"n\":{millis}}}"),
    }
}

pub(crate) async fn a_target_is_found_as_it_was_put_with_the_next_revision(store: &dyn Store) {
    assert!(store.put_target(&record("p/one", 0, 1)).await.unwrap());
    assert!(store.put_target(&record("p/two", 0, 5)).await.unwrap());
    assert!(store.put_target(&record("p/one", 1, 3)).await.unwrap());
    let all = store.targets(NOW).await.unwrap();
    let expected =
        [TargetRecord { revision: 1, ..record("p/two", 0, 5) }, TargetRecord { revision: 2, ..record("p/one", 0, 3) }];
    assert_eq!(all, expected);
    let newest = store.targets(NOW.plus_millis(4)).await.unwrap();
    assert_eq!(newest.iter().map(|r| r.target.as_str()).collect::<Vec<_>>(), ["p/two"]);
}

pub(crate) async fn a_target_of_another_revision_is_not_overwritten(store: &dyn Store) {
    assert!(store.put_target(&record("p/one", 0, 1)).await.unwrap());
    for stale in [0, 2] {
        assert!(!store.put_target(&record("p/one", stale, 9)).await.unwrap());
    }
    // Nor is one brought back that was forgotten meanwhile.
    assert!(!store.put_target(&record("p/gone", 4, 9)).await.unwrap());
    assert_eq!(store.targets(NOW).await.unwrap(), [TargetRecord { revision: 1, ..record("p/one", 0, 1) }]);
}

pub(crate) async fn of_very_many_targets_the_oldest_are_forgotten(store: &dyn Store) {
    for n in 0..i64::from(MAX_TARGETS) + 3 {
        assert!(store.put_target(&record(&format!("p/{n}"), 0, n)).await.unwrap());
    }
    let all = store.targets(NOW).await.unwrap();
    assert_eq!(all.len(), MAX_TARGETS as usize);
    assert!(all.iter().all(|record| record.at >= NOW.plus_millis(3)));
}
