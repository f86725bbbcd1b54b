//! Scopes that others change: what is held follows, and is what a fresh reading would be.

use super::*;
use crate::base::{Random as _, SeededRandom};
use crate::recall::Since;
use crate::recall::scoped::{Scoped, study};
use crate::store::Store;
use crate::store::contract::fixtures;
use crate::store::sql::{SqlStore, SqliteOptions};

/// A store that others write to, and how often a whole scope was read of it.
struct Elsewhere {
    store: Arc<dyn Store>,
    /// Whether nobody says what they write, as among replicas.
    silent: bool,
    readings: AtomicUsize,
}

#[async_trait]
impl Source for Elsewhere {
    async fn load(&self, scope: &Scope, max_episodes: usize) -> Result<ScopeData, StoreError> {
        self.readings.fetch_add(1, Ordering::SeqCst);
        self.store.load(scope, max_episodes).await
    }

    async fn revision(&self, scope: &Scope) -> Result<Option<i64>, StoreError> {
        Ok(if self.silent { Some(self.store.scope_state(scope).await?.revision) } else { None })
    }

    async fn since(
        &self,
        scope: &Scope,
        change: i64,
        revision: Option<i64>,
        limit: u32,
    ) -> Result<Option<Since>, StoreError> {
        self.store.since(scope, change, revision, limit).await
    }
}

struct Bench {
    source: Arc<Elsewhere>,
    recall: Recall,
}

impl Bench {
    async fn new(silent: bool) -> Self {
        let store = SqlStore::sqlite(SqliteOptions::default()).await.unwrap();
        let source = Arc::new(Elsewhere { store: Arc::new(store), silent, readings: AtomicUsize::new(0) });
        let recall = Recall::from_source(Arc::clone(&source) as Arc<dyn Source>, RecallConfig::default());
        Self { source, recall }
    }

    /// One write of any kind. Returns whether it was an erasure.
    async fn write(&self, n: u128, random: &SeededRandom, made: &mut Made) -> bool {
        let store = &self.source.store;
        let any = |of: &[u128]| (!of.is_empty()).then(|| of[random.next_u64() as usize % of.len()]);
        match random.next_u64() % 20 {
            0..6 => {
                let text = format!("{} number {n}", TEXTS[random.next_u64() as usize % TEXTS.len()]);
                store.put_episodes(&scope(), &[episode(n, &format!("s{}", n % 3), n as i64, &text)]).await.unwrap();
                made.episodes.push(n);
            }
            6..9 => {
                store.apply(&scope(), &[fixtures::insert(n, &format!("note.n{n}"), "a value")]).await.unwrap();
                made.facts.push((n, 1));
            }
            9..12 => {
                if !made.facts.is_empty() {
                    let at = random.next_u64() as usize % made.facts.len();
                    let (id, version) = made.facts[at];
                    let change = fixtures::edit(id, &format!("note.n{id}"), &format!("value {n}"), version);
                    store.apply(&scope(), &[change]).await.unwrap();
                    made.facts[at].1 += 1;
                }
            }
            12..14 => {
                if let Some(id) = any(&made.episodes) {
                    store.delete_episode(&scope(), EpisodeId(id), NOW).await.unwrap();
                    made.episodes.retain(|known| *known != id);
                }
            }
            14..16 => {
                if let Some(id) = any(&made.episodes) {
                    let retired = random.next_u64().is_multiple_of(2);
                    store.mark_episodes(&scope(), &[EpisodeId(id)], FactId(7), retired).await.unwrap();
                }
            }
            16..18 => {
                if let Some(id) = any(&made.episodes) {
                    let mut changed = store.episode(&scope(), EpisodeId(id)).await.unwrap().unwrap();
                    changed.tags = vec![format!("violin{n}")];
                    assert!(store.update_episode(&scope(), &changed).await.unwrap());
                }
            }
            18 => {
                if let Some((id, _)) = made.facts.pop() {
                    assert!(store.delete_fact(&scope(), FactId(id), NOW).await.unwrap());
                }
            }
            _ => {
                store.erase(&scope(), NOW).await.unwrap();
                *made = Made::default();
                return true;
            }
        }
        false
    }

    async fn seen(&self, recall: &Recall) -> (i64, Vec<Arc<Fact>>, Vec<Vec<EpisodeId>>) {
        let (revision, facts) = recall.facts(&scope()).await.unwrap();
        let mut found = Vec::new();
        for question in ["the boiler in the cellar", "beans and tomatoes", "violin3 violin12 violin17", "number 5"] {
            let listed = recall.search(&ask(question)).await.unwrap();
            let mut ids: Vec<_> = listed.episodes.iter().map(|hit| hit.episode.id).collect();
            ids.sort_unstable();
            found.push(ids);
        }
        (revision, facts, found)
    }
}

/// What a run has made so far: episodes, and facts with their versions.
#[derive(Default)]
struct Made {
    episodes: Vec<u128>,
    facts: Vec<(u128, i64)>,
}

const TEXTS: [&str; 4] = [
    "The plumber fixed the boiler in the cellar",
    "Our tomatoes got blight this summer",
    "The beans gave four kilos",
    "Good to hear that the boiler works",
];

#[tokio::test]
async fn what_others_write_is_followed_and_is_what_a_fresh_reading_shows() {
    for (seed, silent) in (0..6).map(|seed| (seed, seed % 2 == 0)) {
        let bench = Bench::new(silent).await;
        let random = SeededRandom::new(seed);
        let (mut made, mut erasures) = (Made::default(), 0);
        bench.recall.facts(&scope()).await.unwrap();
        for step in 1..80_u128 {
            let is_erased = bench.write(step, &random, &mut made).await;
            erasures += usize::from(is_erased);
            if !silent && is_erased {
                bench.recall.invalidate(&scope());
            } else if !silent {
                bench.recall.changed(&scope());
            }
            // Now and then several writes come between two questions.
            if step % 3 == 0 {
                continue;
            }
            let fresh = Recall::from_source(Arc::new(Arc::clone(&bench.source.store)), RecallConfig::default());
            assert_eq!(bench.seen(&bench.recall).await, bench.seen(&fresh).await, "seed {seed}, step {step}");
        }
        let readings = bench.source.readings.load(Ordering::SeqCst);
        assert!(readings <= 1 + erasures, "{readings} readings, {erasures} erasures, seed {seed}");
    }
}

#[tokio::test]
async fn after_a_great_many_changes_a_scope_is_read_again() {
    let bench = Bench::new(true).await;
    bench.recall.facts(&scope()).await.unwrap();
    for n in 1..=600 {
        bench
            .source
            .store
            .put_episodes(&scope(), &[episode(n, "s", n as i64, "the boiler in the cellar")])
            .await
            .unwrap();
    }
    assert!(!bench.recall.search(&ask("boiler")).await.unwrap().episodes.is_empty());
    assert_eq!(bench.source.readings.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn until_a_change_is_followed_nothing_is_answered_from_memory_at_once() {
    let bench = Bench::new(false).await;
    bench.source.store.put_episodes(&scope(), &home()).await.unwrap();
    let query = ask("what was wrong with the boiler?");
    assert_eq!(shown(&bench.recall.recall(&query).await.unwrap()), [1, 2]);
    bench.source.store.delete_episode(&scope(), EpisodeId(1), NOW).await.unwrap();
    bench.recall.changed(&scope());
    assert!(bench.recall.recall_now(&query).is_none() && bench.recall.facts_now(&scope()).is_none());
    assert_eq!(shown(&bench.recall.recall(&query).await.unwrap()), [2]);
    assert_eq!(shown(&bench.recall.recall_now(&query).unwrap()), [2]);
}

/// A revision is read before the changes: what was learned in between and deleted at once is not taken in for good.
#[tokio::test]
async fn what_is_gone_before_it_is_taken_in_does_not_stay() {
    let bench = Bench::new(true).await;
    let store = &bench.source.store;
    bench.recall.facts(&scope()).await.unwrap();
    let said = episode(1, "s", 0, "The plumber fixed the boiler in the cellar");
    assert_eq!(store.put_episodes(&scope(), std::slice::from_ref(&said)).await.unwrap(), 1);
    store.delete_episode(&scope(), EpisodeId(1), NOW).await.unwrap();
    // As it is read while both are written: the revision of before, and the changes of after.
    let changes = store.changes(&scope(), 0, 10).await.unwrap();
    let mut scoped = Scoped::build(ScopeData { change: Some(0), ..ScopeData::default() }, 10);
    assert!(scoped.catch_up(Since { revision: 0, changes: changes.clone() }, 0).is_some());
    let first = learned(Vec::new(), vec![said], Vec::new());
    assert!(scoped.follow(1, &first, study(first.episodes.clone())));
    assert_eq!(scoped.index.episodes().count(), 1);
    let again = changes.into_iter().filter(|change| change.seq > scoped.change.unwrap()).collect();
    assert!(scoped.catch_up(Since { revision: 2, changes: again }, 0).is_some());
    assert_eq!((scoped.index.episodes().count(), scoped.revision), (0, 2));
}

#[tokio::test]
async fn a_store_that_is_behind_what_it_said_is_read_again() {
    let bench = Bench::new(true).await;
    let store = &bench.source.store;
    store.put_episodes(&scope(), &home()).await.unwrap();
    bench.recall.facts(&scope()).await.unwrap();
    // It knows of a revision that the store, restored, has lost.
    let lost = episode(9, "s9", 0, "The accordion was sold to Bruno");
    bench.recall.learned(&scope(), 2, &learned(Vec::new(), vec![lost], Vec::new()));
    assert!(shown(&bench.recall.recall(&ask("Who got the accordion?")).await.unwrap()).is_empty());
    assert_eq!(bench.source.readings.load(Ordering::SeqCst), 2);
}
