//! Recall by words and vectors, over a store of vectors made by hand.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures_util::FutureExt;

use super::testing::{embed, space, space_named};
use crate::base::EpisodeId;
use crate::embed::Packed;
use crate::memory::{Recollection, Scope, Sensitivity};
use crate::recall::tests::{NOW, episode, scope};
use crate::recall::{Exclude, Query, Recall, RecallConfig, ScopeData, Source, Space};
use crate::store::{Learned, StoreError};

/// Stored vectors, by generation.
type Stored = HashMap<String, Vec<(EpisodeId, Vec<u8>)>>;

/// Texts of one scope, with the vectors that are stored for them, by generation.
#[derive(Default)]
struct Shelf {
    texts: Mutex<Vec<&'static str>>,
    vectors: Mutex<Stored>,
    fails: bool,
}

#[async_trait]
impl Source for Shelf {
    async fn load(&self, _: &Scope, _: usize) -> Result<ScopeData, StoreError> {
        let texts = self.texts.lock().unwrap().clone();
        let episodes = texts.iter().zip(0..).map(|(text, n)| episode(n, "s", 10 * n as i64, text)).collect();
        Ok(ScopeData { revision: 1, episodes, ..ScopeData::default() })
    }

    async fn load_vectors(&self, _: &Scope, generation: &str) -> Result<Vec<(EpisodeId, Vec<u8>)>, StoreError> {
        if self.fails {
            return Err(StoreError::Unavailable("as told".to_owned()));
        }
        Ok(self.vectors.lock().unwrap().get(generation).cloned().unwrap_or_default())
    }
}

const TEXTS: &[&str] = &[
    "we mended the flat tire of my old bike behind the barn",
    "the risotto turned out far too salty",
    "our cat hid behind the washing machine",
    "the wooden pier at lake inari was broken",
];

fn sealed(n: usize, generation: &str) -> (EpisodeId, Vec<u8>) {
    let text = TEXTS[n];
    (EpisodeId(n as u128), Packed::of(&embed(text)).unwrap().seal(generation, text))
}

fn shelf() -> Shelf {
    let vectors = (0..TEXTS.len()).map(|n| sealed(n, "one")).collect();
    Shelf {
        texts: Mutex::new(TEXTS.to_vec()),
        vectors: Mutex::new(HashMap::from([("one".to_owned(), vectors)])),
        fails: false,
    }
}

fn recall(shelf: Shelf, space: Option<Space>) -> Recall {
    let recall = Recall::from_source(Arc::new(shelf), RecallConfig::default());
    recall.set_space(space.map(Arc::new));
    recall
}

fn ask(text: &str) -> Query {
    Query {
        scopes: vec![scope()],
        text: text.to_owned(),
        before: None,
        now: NOW,
        max_sensitivity: Sensitivity::Sensitive,
        exclude: Exclude::default(),
        said: Arc::default(),
        max_episodes: 5,
        vector: Some(embed(text).into()),
    }
}

fn found(recollection: &Recollection) -> Vec<u128> {
    recollection.episodes.iter().map(|hit| hit.episode.id.0).collect()
}

/// Shares no word with the memory of the bike that says anything.
const IN_OTHER_WORDS: &str = "what happened to my bicycle, a puncture in the tyre?";

#[tokio::test]
async fn what_is_meant_is_found_without_a_word_in_common() {
    let with = recall(shelf(), Some(space()));
    let hits = with.recall(&ask(IN_OTHER_WORDS)).await.unwrap();
    assert_eq!(found(&hits), [0]);
    let scores = hits.episodes[0].scores;
    assert!(scores.coverage < 0.1 && scores.dense_turn.unwrap() > 0.3, "{scores:?}");
    let without = recall(shelf(), None);
    assert_eq!(found(&without.recall(&ask(IN_OTHER_WORDS)).await.unwrap()), [] as [u128; 0]);
    let no_vector = Query { vector: None, ..ask(IN_OTHER_WORDS) };
    assert_eq!(found(&with.recall(&no_vector).await.unwrap()), [] as [u128; 0]);
}

#[tokio::test]
async fn what_is_written_is_found_as_well_and_scored_by_both() {
    let recall = recall(shelf(), Some(space()));
    let hits = recall.search(&ask("was my wooden pier broken at lake inari")).await.unwrap().episodes;
    let scores = hits[0].scores;
    assert!(hits[0].episode.id.0 == 3 && scores.coverage > 0.5 && scores.dense_turn.unwrap() > 0.3, "{scores:?}");
    let mut private = ask("was my wooden pier broken at lake inari");
    private.exclude = Exclude::of(&[crate::recall::tests::message(3)]);
    assert!(
        recall.search(&private).await.unwrap().episodes.iter().all(|hit| hit.episode.id.0 != 3),
        "it is in the request already"
    );
}

// mnemosyne-oss/mnemosyne#24; NousResearch/hermes-agent#22563.
#[tokio::test]
async fn nonsense_and_the_world_recall_nothing_though_something_is_always_nearest() {
    let recall = recall(shelf(), Some(space()));
    for text in ["xqzvk jwpft mmrrg", "good morning", "write a function that sorts a list", "a", "☃", "explain osmosis"]
    {
        assert_eq!(found(&recall.recall(&ask(text)).await.unwrap()), [] as [u128; 0], "{text}");
    }
}

// ruvnet/RuVector#973; mem0ai/mem0#3065.
#[tokio::test]
async fn vectors_of_two_generations_are_never_compared() {
    let recall = recall(shelf(), Some(space()));
    assert_eq!(found(&recall.recall(&ask(IN_OTHER_WORDS)).await.unwrap()), [0]);
    recall.set_space(Some(Arc::new(space_named("two"))));
    let hits = recall.recall(&ask(IN_OTHER_WORDS)).await.unwrap();
    assert_eq!(found(&hits), [] as [u128; 0], "those in memory are of the old one");
    let one = Packed::of(&embed(TEXTS[0])).unwrap();
    recall.embedded(&scope(), "one", &[(EpisodeId(0), one.clone())]);
    assert_eq!(found(&recall.recall(&ask(IN_OTHER_WORDS)).await.unwrap()), [] as [u128; 0]);
    recall.embedded(&scope(), "two", &[(EpisodeId(0), one)]);
    assert_eq!(found(&recall.recall(&ask(IN_OTHER_WORDS)).await.unwrap()), [0]);
    let short = Query { vector: Some([0.5, 0.5].into()), ..ask("the risotto was salty") };
    assert_eq!(found(&recall.recall(&short).await.unwrap()), [1], "a vector of another size is no error");
}

// "A corrupt vector row", issue 5.
#[tokio::test]
async fn a_damaged_vector_counts_as_none_and_is_told_to_be_made_again() {
    let shelf = shelf();
    {
        let mut vectors = shelf.vectors.lock().unwrap();
        let rows = vectors.get_mut("one").unwrap();
        rows[0].1[9] ^= 0x40;
        rows[1].1.truncate(5);
        rows[2] = sealed(2, "another");
    }
    let recall = recall(shelf, Some(space()));
    assert_eq!(found(&recall.recall(&ask(IN_OTHER_WORDS)).await.unwrap()), [] as [u128; 0]);
    assert_eq!(found(&recall.recall(&ask("was the risotto too salty")).await.unwrap()), [1], "words find it");
    assert_eq!(recall.damaged_vectors(), 3);
    let mut lacking = recall.take_lacking(10).remove(&scope()).unwrap();
    lacking.sort_unstable();
    assert_eq!(lacking, [EpisodeId(0), EpisodeId(1), EpisodeId(2)]);
    assert!(recall.take_lacking(10).is_empty(), "they were taken");
    recall.still_lacking(&scope(), &lacking);
    recall.embedded(&scope(), "one", &[(EpisodeId(0), Packed::of(&embed(TEXTS[0])).unwrap())]);
    assert_eq!(recall.take_lacking(10)[&scope()].len(), 2, "what has one by now is not asked for");
    assert_eq!(found(&recall.recall(&ask(IN_OTHER_WORDS)).await.unwrap()), [0]);
}

#[tokio::test]
async fn vectors_that_cannot_be_read_are_no_reason_not_to_recall() {
    let recall = recall(Shelf { fails: true, ..shelf() }, Some(space()));
    assert_eq!(found(&recall.recall(&ask("was the risotto too salty")).await.unwrap()), [1]);
}

#[tokio::test]
async fn what_is_learned_is_found_by_words_at_once_and_by_vectors_when_it_has_one() {
    let recall = recall(Shelf::default(), Some(space()));
    recall.recall(&ask("anything")).await.unwrap();
    let learned = Learned {
        exchange: crate::base::ExchangeId(1),
        keep: false,
        scope: scope(),
        epoch: 0,
        turn_key: String::new(),
        user_side: true,
        revision: 1,
        now: NOW,
        changes: Vec::new(),
        episodes: vec![episode(7, "s", 0, TEXTS[0])],
        proposals: Vec::new(),
        marks: Vec::new(),
    };
    recall.learned(&scope(), 2, &learned);
    assert_eq!(found(&recall.recall(&ask("the flat tire of my old bike")).await.unwrap()), [7]);
    assert_eq!(found(&recall.recall(&ask(IN_OTHER_WORDS)).await.unwrap()), [] as [u128; 0]);
    assert_eq!(recall.take_lacking(9)[&scope()], [EpisodeId(7)]);
    recall.embedded(&scope(), "one", &[(EpisodeId(7), Packed::of(&embed(TEXTS[0])).unwrap())]);
    assert_eq!(found(&recall.recall(&ask(IN_OTHER_WORDS)).await.unwrap()), [7]);
    // Its place is taken by another one, whose vector is still to come.
    let again = Learned { revision: 2, episodes: vec![episode(7, "s", 0, "something else")], ..learned };
    recall.learned(&scope(), 3, &again);
    assert_eq!(found(&recall.recall(&ask(IN_OTHER_WORDS)).await.unwrap()), [] as [u128; 0]);
}

#[tokio::test]
async fn scopes_in_memory_are_given_their_vectors_when_a_space_comes_into_use() {
    let recall = recall(shelf(), None);
    assert_eq!(found(&recall.recall(&ask(IN_OTHER_WORDS)).await.unwrap()), [] as [u128; 0]);
    recall.set_space(Some(Arc::new(space())));
    recall.warm().await;
    assert_eq!(found(&recall.recall(&ask(IN_OTHER_WORDS)).await.unwrap()), [0]);
}

// Promise 10: what was erased is not recalled, whatever was on its way.
#[tokio::test]
async fn a_scope_that_is_erased_while_it_is_given_vectors_does_not_come_back() {
    let recall = recall(shelf(), None);
    recall.recall(&ask("anything")).await.unwrap();
    recall.set_space(Some(Arc::new(space())));
    let entry = recall.hot.get(&scope()).unwrap();
    let mut warming = Box::pin(recall.warm());
    {
        let _reading = entry.read().unwrap();
        assert!((&mut warming).now_or_never().is_none(), "its vectors are being placed");
        recall.invalidate(&scope());
    }
    warming.await;
    assert!(recall.hot.get(&scope()).is_none());
}

#[tokio::test]
async fn a_scope_that_is_erased_while_new_vectors_come_in_does_not_come_back() {
    let recall = recall(Shelf { vectors: Mutex::default(), ..shelf() }, Some(space()));
    recall.recall(&ask("anything")).await.unwrap();
    let made: Vec<_> =
        (0..TEXTS.len()).map(|n| (EpisodeId(n as u128), Packed::of(&embed(TEXTS[n])).unwrap())).collect();
    let entry = recall.hot.get(&scope()).unwrap();
    let known = Arc::strong_count(&entry);
    std::thread::scope(|threads| {
        let reading = entry.read().unwrap();
        let embedded = threads.spawn(|| recall.embedded(&scope(), "one", &made));
        while Arc::strong_count(&entry) == known {
            std::thread::yield_now();
        }
        recall.invalidate(&scope());
        drop(reading);
        embedded.join().unwrap();
    });
    assert!(recall.hot.get(&scope()).is_none());
}
