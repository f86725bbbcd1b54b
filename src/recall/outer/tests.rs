//! Recall through an exact index, held against recall from memory, and an index that fails.

use std::sync::LazyLock;
use std::sync::atomic::Ordering;

use async_trait::async_trait;
use proptest::prelude::*;

use super::*;
use crate::base::ManualClock;
use crate::embed::Packed;
use crate::memory::{Episode, Recollection, Sensitivity};
use crate::recall::dense::testing::{embed, space};
use crate::recall::dense::{Space, ranked};
use crate::recall::rank::tests::any_episodes;
use crate::recall::rank::{Found, Purpose};
use crate::recall::tests::{NOW, ask, episode, scope};
use crate::recall::{RecallConfig, ScopeData, Source, Weights, terms_of};
use crate::store::{Faulty, IndexPoint, MemoryIndex};

fn point(space: &Space, episode: &Episode) -> IndexPoint {
    let vector = Packed::of(&embed(&episode.text)).and_then(|packed| space.placed(&packed)).unwrap();
    IndexPoint {
        scope: scope(),
        episode: episode.id,
        session: episode.session.clone(),
        role: episode.role,
        at: episode.said_at,
        sensitivity: episode.sensitivity,
        vector,
        terms: terms_of(episode),
    }
}

/// Texts of which some share words with the question, each with its vector in memory.
fn held(episodes: &[Episode], space: &Space) -> Index {
    let mut index = Index::default();
    for episode in episodes {
        index.insert(Arc::new(episode.clone()));
        let number = index.number(episode.id).unwrap();
        assert!(index.put_vector(number, space, &Packed::of(&embed(&episode.text)).unwrap()));
    }
    index
}

async fn nearest(episodes: &[Episode], space: &Space, question: &str, limit: u32) -> Nearest {
    let index = MemoryIndex::default();
    index.prepare("one", 128).await.unwrap();
    index.put("one", &episodes.iter().map(|episode| point(space, episode)).collect::<Vec<_>>()).await.unwrap();
    let vector = Near::placed(space, &embed(question));
    let query = IndexQuery {
        scope: &scope(),
        vector: vector.as_deref(),
        terms: &[],
        max_sensitivity: Sensitivity::Sensitive,
        role: None,
        from: None,
        to: None,
        limit,
    };
    let hits = index.search("one", &query).await.unwrap();
    Nearest { is_cut: hits.near.len() >= limit as usize, cosines: hits.near.into_iter().collect() }
}

fn told(found: &[Found]) -> Vec<(u128, f64)> {
    let mut told: Vec<_> = found.iter().map(|found| (found.hit.episode.id.0, found.hit.scores.fused)).collect();
    told.sort_by_key(|&(id, _)| id);
    told
}

/// As long as a sum of vectors is not compared: how long it is, is reckoned there and known here.
fn by_turns() -> RecallConfig {
    RecallConfig { weights: Weights { dense_neighbours: 0.0, ..Weights::default() }, ..RecallConfig::default() }
}

/// Measured once: that takes longer than what is asked of it.
static SPACE: LazyLock<Space> = LazyLock::new(space);

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn what_an_exact_index_finds_is_ranked_as_what_is_in_memory(
        episodes in any_episodes(),
        question in prop::collection::vec(0..100_usize, 1..6),
        personal in any::<bool>(),
    ) {
        let space = &*SPACE;
        let index = held(&episodes, space);
        let words: Vec<&str> = question.iter().filter_map(|&n| episodes.get(n)).filter_map(|e| e.text.split(' ').next()).collect();
        let text = format!("where is {} {}", if personal { "my" } else { "the" }, words.join(" "));
        let query = ask(&text);
        let (asked, vector) = (Asked::new(&query), embed(&text));
        let Some(near) = Near::of(space, &vector) else { return Ok(()) };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let outside = runtime.block_on(nearest(&episodes, space, &text, 1_000));
        let [inside, outside] = [near.channel(&index), Near::channel_of(&index, &outside)].map(|channel| {
            told(&ranked(&[&index], vec![channel], &asked, &near, &by_turns(), Purpose::Show, 1_000).unwrap_or_default())
        });
        // One byte a number in memory, and the whole number there: what is at the edge may fall to either side, and all that says the same
        // with it.
        let most = inside.len().max(outside.len());
        prop_assert!(inside.len().abs_diff(outside.len()) <= 1 + most / 10, "{} {}", inside.len(), outside.len());
        for (id, score) in &inside {
            if let Some((_, other)) = outside.iter().find(|(other, _)| other == id) {
                prop_assert!((score - other).abs() <= 0.05 * score.abs(), "{id}: {score} {other}");
            }
        }
    }
}

#[tokio::test]
async fn beyond_what_was_asked_for_the_rest_counts_as_unrelated() {
    let space = space();
    let texts = ["the violin is out of tune", "a violin case of oak", "pepper soup", "the harbour at night"];
    let episodes: Vec<_> = (0..).zip(texts).map(|(n, text)| episode(n, "s", 10 * n as i64, text)).collect();
    let index = held(&episodes, &space);
    let question = "violin violin tune";
    let all = nearest(&episodes, &space, question, 9).await;
    let two = nearest(&episodes, &space, question, 2).await;
    assert!(!all.is_cut && two.is_cut && two.cosines.len() == 2);
    let channel = Near::channel_of(&index, &two).unwrap();
    let turn = |id: u128| channel.closeness(index.number(EpisodeId(id)).unwrap()).unwrap().turn();
    let (near, far): (Vec<u128>, Vec<u128>) = (0..4).partition(|n| two.cosines.contains_key(&EpisodeId(*n)));
    assert!(near.contains(&0) && near.iter().all(|&n| turn(n) > turn(far[0])), "{channel:?}");
    assert!((turn(far[0]) - turn(far[1])).abs() < f32::EPSILON && turn(far[0]) <= 0.0);
    assert!(Near::channel_of(&Index::default(), &all).is_none());
}

/// The records: of all that they hold, the newest are read into memory.
struct Records {
    episodes: Mutex<Vec<Episode>>,
}

#[async_trait]
impl Source for Records {
    async fn load(&self, _: &Scope, max: usize) -> Result<ScopeData, StoreError> {
        let all = self.episodes.lock().unwrap();
        let newest = all[all.len().saturating_sub(max)..].to_vec();
        Ok(ScopeData { revision: 1, episodes: newest, ..ScopeData::default() })
    }

    async fn episodes_of(&self, _: &Scope, ids: &[EpisodeId]) -> Result<Vec<Episode>, StoreError> {
        Ok(self.episodes.lock().unwrap().iter().filter(|episode| ids.contains(&episode.id)).cloned().collect())
    }
}

const TEXTS: [&str; 5] = [
    "my bicycle has a puncture",
    "the wooden pier at lake inari was broken",
    "the risotto turned out far too salty",
    "our cat hid behind the washing machine",
    "the harbour is closed at night",
];

struct World {
    recall: Recall,
    records: Arc<Records>,
    index: Arc<Faulty>,
    clock: Arc<ManualClock>,
    metrics: Arc<Metrics>,
}

impl World {
    /// Five episodes, of which the newest two are held in memory, and all are in the index.
    async fn new() -> Self {
        let space = Arc::new(space());
        let episodes: Vec<_> = (0..).zip(TEXTS).map(|(n, text)| episode(n, "s", 10 * n as i64, text)).collect();
        let index = Arc::new(Faulty::default());
        index.prepare("one", 128).await.unwrap();
        index.put("one", &episodes.iter().map(|episode| point(&space, episode)).collect::<Vec<_>>()).await.unwrap();
        let records = Arc::new(Records { episodes: Mutex::new(episodes) });
        let (clock, metrics) = (Arc::new(ManualClock::new(NOW)), Arc::new(Metrics::new()));
        let config = RecallConfig { max_episodes_per_scope: 2, ..RecallConfig::default() };
        let asks = Outer::new(
            Arc::clone(&index) as Arc<_>,
            Duration::from_millis(200),
            Arc::clone(&clock) as Arc<_>,
            Arc::clone(&metrics),
        );
        asks.serve("one");
        let recall = Recall::from_source(Arc::clone(&records) as Arc<_>, config).through(Some(Arc::new(asks)));
        recall.set_space(Some(space));
        Self { recall, records, index, clock, metrics }
    }

    async fn asked(&self, text: &str) -> Recollection {
        let query = Query { vector: Some(embed(text).into()), ..ask(text) };
        self.recall.recall(&query).await.unwrap()
    }

    async fn finds(&self, text: &str) -> Vec<u128> {
        self.asked(text).await.episodes.iter().map(|hit| hit.episode.id.0).collect()
    }
}

#[tokio::test]
async fn what_is_older_than_memory_is_found_by_words_and_by_meaning() {
    let world = World::new().await;
    assert_eq!(world.finds("was my pier at lake inari broken").await, [1]);
    assert_eq!(world.finds("did my velocipede get a flat").await, [0], "no word in common");
    assert_eq!(world.finds("where did our cat hide").await, [3], "in memory");
    assert!(world.metrics.index_older.get() > 0);
    assert!(world.metrics.index_searches.get(IndexOutcome::Ok) == 3);
    let listed = world.recall.search(&Query { max_episodes: 9, ..ask("the pier at lake inari") }).await.unwrap();
    assert_eq!(listed.episodes.first().map(|hit| hit.episode.id.0), Some(1));
}

#[tokio::test]
async fn what_the_records_do_not_hold_is_never_shown() {
    let world = World::new().await;
    world.records.episodes.lock().unwrap().retain(|episode| episode.id.0 != 1);
    assert!(world.finds("was my pier at lake inari broken").await.is_empty());
    world.records.episodes.lock().unwrap()[0].status = EpisodeStatus::Archived;
    assert!(world.finds("did my bicycle get a puncture").await.is_empty());
}

#[tokio::test]
async fn an_index_that_fails_or_hangs_costs_what_only_it_finds_and_is_left_alone() {
    let world = World::new().await;
    world.index.hangs.store(true, Ordering::SeqCst);
    let late = world.asked("where did our cat hide behind the machine").await;
    assert_eq!((late.episodes.len(), late.degraded), (1, Some("index")));
    world.index.hangs.store(false, Ordering::SeqCst);
    world.index.is_away.store(true, Ordering::SeqCst);
    for _ in 0..9 {
        let failed = world.asked("where did our cat hide behind the machine").await;
        assert_eq!((failed.episodes.len(), failed.degraded), (1, Some("index")));
    }
    assert!(world.index.searches.load(Ordering::SeqCst) < 5, "it is left alone after some failures");
    assert_eq!(world.metrics.index_searches.get(IndexOutcome::Late), 1);
    assert!(world.metrics.index_searches.get(IndexOutcome::Skipped) >= 5);
    world.index.is_away.store(false, Ordering::SeqCst);
    world.clock.advance_millis(30_000);
    assert_eq!(world.asked("was my pier at lake inari broken").await.degraded, None);
}

#[tokio::test]
async fn what_was_shown_from_beyond_memory_holds_as_long_as_the_records_hold_it() {
    let world = World::new().await;
    let holds = async |id| world.recall.still_hold(&[scope()], &[], &[EpisodeId(id)], NOW).await.unwrap();
    assert!(holds(1).await && holds(4).await && !holds(77).await);
    world.records.episodes.lock().unwrap()[1].retired_facts = vec![crate::base::FactId(3)];
    assert!(!holds(1).await);
}

#[tokio::test]
async fn without_a_vector_words_find_beyond_memory() {
    let world = World::new().await;
    let found = world.recall.recall(&ask("was my pier at lake inari broken")).await.unwrap();
    assert_eq!(found.episodes.iter().map(|hit| hit.episode.id.0).collect::<Vec<_>>(), [1]);
    world.recall.set_space(None);
    let found = world.recall.recall(&ask("was my pier at lake inari broken")).await.unwrap();
    assert_eq!(found.episodes.len(), 1);
}
