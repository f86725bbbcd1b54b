//! What every index outside of the process must do, as functions over `&dyn VectorIndex`.
//!
//! An index joins with one line, `index_suite!(name, opener)`, where the opener is an async function, named by its full path, that returns
//! a fresh and empty index; or none where its server is not at hand. Words are weighed in tests of one scope only: whether a word is rare in a scope or
//! in the whole index is for the index to say.

use futures_util::future::try_join_all;

use super::fixtures::{NOW, scope};
use crate::base::{EpisodeId, Random, SeededRandom, Time};
use crate::memory::{Scope, Sensitivity, Speaker};
use crate::store::{IndexHits, IndexPoint, IndexQuery, ScopeKey, StoreError, VectorIndex};

/// The generations that tests use, and that are dropped after each.
pub(crate) const GENERATIONS: [&str; 3] = [A, B, "model-c/3/words"];
const A: &str = "model-a/3/x";
const B: &str = "model-b/4/y";

/// Runs every function of the suite on an index, each on a fresh one.
macro_rules! index_suite {
    ($index:ident, $open:path) => {
        $crate::store::contract::index::index_suite! { @all $index, $open:
            what_was_put_is_found_by_the_next_search
            the_nearest_come_first_with_their_cosine
            a_point_is_put_whole_in_place_of_the_one_before
            a_question_has_a_vector_or_words_or_both
            a_rare_word_beats_a_frequent_one
            no_more_is_found_than_asked_for_and_no_less
            what_is_too_private_is_not_found
            a_question_may_be_about_one_speaker_or_some_time
            nothing_is_found_across_scopes
            names_that_run_together_are_different_scopes
            what_was_removed_is_not_found_in_any_generation
            erasure_takes_a_scope_out_of_every_generation_and_counts
            points_are_listed_in_order_and_by_page
            a_generation_has_one_dimension
            a_vector_of_another_dimension_is_refused
            a_generation_is_prepared_by_several_at_once
            the_serving_generation_is_switched
            a_generation_that_is_not_there_says_so
            a_generation_may_be_of_words_alone
            a_point_may_be_of_words_alone
            very_many_points_are_put_at_once
            a_ping_is_answered_with_a_version
        }
    };
    (@all $index:ident, $open:path: $($test:ident)*) => {
        mod $index {
            $(#[tokio::test]
            async fn $test() {
                let Some(index) = $open().await else { return };
                let index: &dyn $crate::store::VectorIndex = index.as_ref();
                $crate::store::contract::index::$test(index).await;
                for generation in $crate::store::contract::index::GENERATIONS {
                    index.drop_generation(generation).await.unwrap();
                }
            })*
        }
    };
}
pub(crate) use index_suite;

async fn erase(index: &dyn VectorIndex, scope: &Scope) -> Result<u64, StoreError> {
    index.erase(&scope.tenant, ScopeKey::of(scope)).await
}

/// A point of no words.
pub(crate) fn point(scope: &Scope, n: u128, vector: [f32; 3]) -> IndexPoint {
    IndexPoint {
        scope: scope.clone(),
        episode: EpisodeId(n),
        session: "session-1".to_owned(),
        role: Speaker::User,
        at: NOW.plus_millis(n as i64),
        sensitivity: Sensitivity::Normal,
        vector: vector.to_vec(),
        terms: Vec::new(),
    }
}

fn with_terms(scope: &Scope, n: u128, terms: &[(u32, f32)]) -> IndexPoint {
    IndexPoint { terms: terms.to_vec(), ..point(scope, n, [1.0, 0.0, 0.0]) }
}

/// Asks for whatever is near a vector.
pub(crate) fn near<'a>(scope: &'a Scope, vector: &'a [f32]) -> IndexQuery<'a> {
    IndexQuery {
        scope,
        vector: Some(vector),
        terms: &[],
        max_sensitivity: Sensitivity::Sensitive,
        role: None,
        from: None,
        to: None,
        limit: 100,
    }
}

fn words<'a>(scope: &'a Scope, terms: &'a [(u32, f32)]) -> IndexQuery<'a> {
    IndexQuery { vector: None, terms, ..near(scope, &[]) }
}

pub(crate) fn ids(hits: &[(EpisodeId, f32)]) -> Vec<u128> {
    hits.iter().map(|(id, _)| id.0).collect()
}

fn sorted(hits: &[(EpisodeId, f32)]) -> Vec<u128> {
    let mut ids = ids(hits);
    ids.sort_unstable();
    ids
}

#[track_caller]
fn assert_unusable<T: std::fmt::Debug>(result: Result<T, StoreError>, names: &str) {
    match result {
        Err(StoreError::Unusable(text)) => assert!(text.contains(names), "{text:?} does not name {names:?}"),
        other => panic!("{other:?}"),
    }
}

const X: [f32; 3] = [1.0, 0.0, 0.0];

pub(crate) async fn what_was_put_is_found_by_the_next_search(index: &dyn VectorIndex) {
    let ann = scope("ann");
    index.prepare(A, 3).await.unwrap();
    assert_eq!(index.search(A, &near(&ann, &X)).await.unwrap(), IndexHits::default(), "an empty index finds nothing");
    index.put(A, &[]).await.unwrap();
    for n in 1..=20 {
        index.put(A, &[IndexPoint { terms: vec![(7, 1.0)], ..point(&ann, n, X) }]).await.unwrap();
        let hits = index.search(A, &IndexQuery { terms: &[(7, 1.0)], ..near(&ann, &X) }).await.unwrap();
        assert_eq!(sorted(&hits.near), (1..=n).collect::<Vec<_>>());
        assert_eq!(sorted(&hits.words), (1..=n).collect::<Vec<_>>());
        assert_eq!(index.count(A).await.unwrap(), n as u64);
    }
}

pub(crate) async fn the_nearest_come_first_with_their_cosine(index: &dyn VectorIndex) {
    let ann = scope("ann");
    index.prepare(A, 3).await.unwrap();
    // Of any length: a point has a direction.
    let points = [[0.0, 1.0, 0.0], [30.0, 40.0, 0.0], [0.002, 0.0, 0.0], [-5.0, 0.0, 0.0]];
    let points: Vec<_> = (1..).zip(points).map(|(n, vector)| point(&ann, n, vector)).collect();
    index.put(A, &points).await.unwrap();
    let hits = index.search(A, &near(&ann, &[4.0, 0.0, 0.0])).await.unwrap().near;
    assert_eq!(ids(&hits), [3, 2, 1, 4]);
    for ((_, cosine), expected) in hits.iter().zip([1.0, 0.6, 0.0, -1.0]) {
        assert!((cosine - expected).abs() < 0.001, "{hits:?}");
    }
}

pub(crate) async fn a_point_is_put_whole_in_place_of_the_one_before(index: &dyn VectorIndex) {
    let ann = scope("ann");
    index.prepare(A, 3).await.unwrap();
    index.put(A, &[with_terms(&ann, 1, &[(1, 1.0), (2, 1.0)])]).await.unwrap();
    let later = IndexPoint { vector: vec![0.0, 1.0, 0.0], role: Speaker::Tool, ..with_terms(&ann, 1, &[(3, 1.0)]) };
    for _ in 0..2 {
        index.put(A, std::slice::from_ref(&later)).await.unwrap();
    }
    assert_eq!(index.count(A).await.unwrap(), 1);
    let hits = index.search(A, &IndexQuery { terms: &[(1, 1.0), (2, 1.0)], ..near(&ann, &X) }).await.unwrap();
    assert!(hits.near[0].1.abs() < 0.001 && hits.words.is_empty(), "{hits:?}");
    assert_eq!(ids(&index.search(A, &words(&ann, &[(3, 1.0)])).await.unwrap().words), [1]);
    let by_user = IndexQuery { role: Some(Speaker::User), ..near(&ann, &X) };
    assert!(index.search(A, &by_user).await.unwrap().near.is_empty());
}

pub(crate) async fn a_question_has_a_vector_or_words_or_both(index: &dyn VectorIndex) {
    let ann = scope("ann");
    index.prepare(A, 3).await.unwrap();
    index.put(A, &[with_terms(&ann, 1, &[(1, 1.0)]), with_terms(&ann, 2, &[(u32::MAX, 2.0)])]).await.unwrap();
    let by_vector = index.search(A, &near(&ann, &X)).await.unwrap();
    assert_eq!((sorted(&by_vector.near), by_vector.words.len()), (vec![1, 2], 0));
    let by_words = index.search(A, &words(&ann, &[(u32::MAX, 1.0)])).await.unwrap();
    assert_eq!((by_words.near.len(), ids(&by_words.words)), (0, vec![2]));
    let nothing = index.search(A, &words(&ann, &[])).await.unwrap();
    assert_eq!(nothing, IndexHits::default());
    let unknown = index.search(A, &words(&ann, &[(5, 1.0)])).await.unwrap();
    assert_eq!(unknown, IndexHits::default());
}

pub(crate) async fn a_rare_word_beats_a_frequent_one(index: &dyn VectorIndex) {
    let ann = scope("ann");
    index.prepare(A, 3).await.unwrap();
    let mut points: Vec<_> = (1..=20).map(|n| with_terms(&ann, n, &[(1, 1.0)])).collect();
    points.push(with_terms(&ann, 21, &[(2, 1.0)]));
    points.push(with_terms(&ann, 22, &[(1, 1.0), (2, 0.5)]));
    index.put(A, &points).await.unwrap();
    let hits = index.search(A, &words(&ann, &[(1, 1.0), (2, 1.0)])).await.unwrap().words;
    assert_eq!((ids(&hits[..2]), hits.len()), (vec![21, 22], 22));
    assert!(hits.windows(2).all(|pair| pair[0].1 >= pair[1].1) && hits[21].1 > 0.0, "{hits:?}");
    // What the question weighs counts as well.
    let hits = index.search(A, &words(&ann, &[(1, 100.0), (2, 1.0)])).await.unwrap().words;
    assert_eq!(hits[0].0, EpisodeId(22));
}

pub(crate) async fn no_more_is_found_than_asked_for_and_no_less(index: &dyn VectorIndex) {
    let (ann, bob) = (scope("ann"), scope("bob"));
    index.prepare(A, 3).await.unwrap();
    // All that is nearest is another's: a filter behind the search would leave nothing of it.
    let others = (1..=300).map(|n| IndexPoint { terms: vec![(1, 9.0)], ..point(&bob, n, X) });
    let own = (301..=310).map(|n| IndexPoint { terms: vec![(1, 1.0)], ..point(&ann, n, [0.1, 1.0, n as f32 / 100.0]) });
    let points: Vec<_> = others.chain(own).collect();
    index.put(A, &points).await.unwrap();
    for limit in [1, 7, 10, 11] {
        let query = IndexQuery { terms: &[(1, 1.0)], limit, ..near(&ann, &X) };
        let hits = index.search(A, &query).await.unwrap();
        let expected = limit.min(10) as usize;
        assert_eq!((hits.near.len(), hits.words.len()), (expected, expected));
        assert!(sorted(&hits.near).iter().chain(&sorted(&hits.words)).all(|n| *n > 300), "{hits:?}");
    }
}

pub(crate) async fn what_is_too_private_is_not_found(index: &dyn VectorIndex) {
    let ann = scope("ann");
    index.prepare(A, 3).await.unwrap();
    let levels = [Sensitivity::Normal, Sensitivity::Personal, Sensitivity::Sensitive];
    for (n, sensitivity) in (1..).zip(levels) {
        let private = IndexPoint { sensitivity, terms: vec![(1, 1.0)], ..point(&ann, n, X) };
        index.put(A, &[private]).await.unwrap();
    }
    for (n, max_sensitivity) in (1..).zip(levels) {
        let query = IndexQuery { terms: &[(1, 1.0)], max_sensitivity, ..near(&ann, &X) };
        let hits = index.search(A, &query).await.unwrap();
        assert_eq!(sorted(&hits.near), (1..=n).collect::<Vec<_>>());
        assert_eq!(sorted(&hits.words), (1..=n).collect::<Vec<_>>());
    }
}

pub(crate) async fn a_question_may_be_about_one_speaker_or_some_time(index: &dyn VectorIndex) {
    let ann = scope("ann");
    index.prepare(A, 3).await.unwrap();
    let said = [
        (Speaker::User, Time(-5)),
        (Speaker::Assistant, Time(0)),
        (Speaker::User, NOW),
        (Speaker::Tool, NOW.plus_millis(1)),
        (Speaker::Other, NOW.plus_seconds(86_400 * 365 * 100)),
    ];
    let points: Vec<_> = (1..)
        .zip(said)
        .map(|(n, (role, at))| IndexPoint { role, at, terms: vec![(1, 1.0)], ..point(&ann, n, X) })
        .collect();
    index.put(A, &points).await.unwrap();
    let found = async |query: IndexQuery<'_>| {
        let hits = index.search(A, &query).await.unwrap();
        assert_eq!(sorted(&hits.near), sorted(&hits.words));
        sorted(&hits.near)
    };
    let all = IndexQuery { terms: &[(1, 1.0)], ..near(&ann, &X) };
    assert_eq!(found(all).await, [1, 2, 3, 4, 5]);
    assert_eq!(found(IndexQuery { role: Some(Speaker::User), ..all }).await, [1, 3]);
    assert_eq!(found(IndexQuery { role: Some(Speaker::Tool), ..all }).await, [4]);
    assert_eq!(found(IndexQuery { from: Some(NOW), ..all }).await, [3, 4, 5], "from is at that time or later");
    assert_eq!(found(IndexQuery { to: Some(NOW), ..all }).await, [1, 2], "to is before that time");
    let moment = IndexQuery { from: Some(NOW.plus_millis(1)), to: Some(NOW.plus_millis(2)), ..all };
    assert_eq!(found(moment).await, [4]);
    let both = IndexQuery { role: Some(Speaker::User), from: Some(NOW), ..all };
    assert_eq!(found(both).await, [3]);
    assert_eq!(found(IndexQuery { from: Some(Time(i64::MIN)), to: Some(Time(i64::MAX)), ..all }).await.len(), 5);
}

/// getzep/graphiti#1659, mem0ai/mem0#3746: a search, a list or an erasure of one scope sees that scope alone, whatever they are called.
pub(crate) async fn nothing_is_found_across_scopes(index: &dyn VectorIndex) {
    index.prepare(A, 3).await.unwrap();
    let random = SeededRandom::new(8);
    let mut scopes: Vec<Scope> = (0..12)
        .map(|_| {
            let name = || {
                let parts = ["", "a", "b", "/", "*", "\u{0}", "租", "\"", "a b", "null"];
                let pick = || parts[(random.next_u64() % parts.len() as u64) as usize];
                format!("{}{}", pick(), pick())
            };
            Scope::new(name(), name(), name())
        })
        .collect();
    scopes.sort();
    scopes.dedup();
    let mut points = Vec::new();
    for (s, scope) in scopes.iter().enumerate() {
        // Ids of all scopes run through one another.
        let of_scope = (0..1 + random.next_u64() % 9).map(|n| u128::from(n) * 100 + s as u128);
        points.extend(of_scope.map(|n| IndexPoint { terms: vec![(1, 1.0)], ..point(scope, n, X) }));
    }
    index.put(A, &points).await.unwrap();
    let mut erased = 0;
    for scope in &scopes {
        let expected: Vec<_> = points.iter().filter(|p| p.scope == *scope).map(|p| p.episode.0).collect();
        let hits = index.search(A, &IndexQuery { terms: &[(1, 1.0)], ..near(scope, &X) }).await.unwrap();
        assert_eq!((sorted(&hits.near), sorted(&hits.words)), (expected.clone(), expected.clone()), "{scope:?}");
        let listed = index.list(A, scope, None, 100).await.unwrap();
        assert_eq!(listed.iter().map(|id| id.0).collect::<Vec<_>>(), expected, "{scope:?}");
        assert_eq!(erase(index, scope).await.unwrap(), expected.len() as u64, "{scope:?}");
        erased += expected.len() as u64;
        assert_eq!(index.count(A).await.unwrap(), points.len() as u64 - erased);
    }
}

pub(crate) async fn names_that_run_together_are_different_scopes(index: &dyn VectorIndex) {
    let scopes = [
        Scope::new("a", "b", "cd"),
        Scope::new("a", "bc", "d"),
        Scope::new("ab", "", "cd"),
        Scope::new("a", "b/cd", ""),
        Scope::new("A", "b", "cd"),
        Scope::new("a b", "", "c d"),
        Scope::new("a b c", "", "c d"),
        Scope::new("b a", "", "c d"),
    ];
    index.prepare(A, 3).await.unwrap();
    let points: Vec<_> = (1..).zip(&scopes).map(|(n, scope)| point(scope, n, X)).collect();
    index.put(A, &points).await.unwrap();
    for (n, scope) in (1..).zip(&scopes) {
        assert_eq!(ids(&index.search(A, &near(scope, &X)).await.unwrap().near), [n]);
    }
}

pub(crate) async fn what_was_removed_is_not_found_in_any_generation(index: &dyn VectorIndex) {
    let (ann, bob) = (scope("ann"), scope("bob"));
    index.prepare(A, 3).await.unwrap();
    index.prepare(B, 4).await.unwrap();
    for n in 1..=3 {
        index.put(A, &[point(&ann, n, X)]).await.unwrap();
        let longer = IndexPoint { vector: vec![1.0, 0.0, 0.0, 0.0], ..point(&ann, n, X) };
        index.put(B, &[longer]).await.unwrap();
    }
    index.remove(&bob, &[EpisodeId(1), EpisodeId(2)]).await.unwrap();
    assert_eq!(index.count(A).await.unwrap(), 3, "another's ids remove nothing");
    index.remove(&ann, &[]).await.unwrap();
    index.remove(&ann, &[EpisodeId(1), EpisodeId(3), EpisodeId(99)]).await.unwrap();
    index.remove(&ann, &[EpisodeId(1)]).await.unwrap();
    assert_eq!(ids(&index.search(A, &near(&ann, &X)).await.unwrap().near), [2]);
    assert_eq!(ids(&index.search(B, &near(&ann, &[1.0, 0.0, 0.0, 0.0])).await.unwrap().near), [2]);
}

pub(crate) async fn erasure_takes_a_scope_out_of_every_generation_and_counts(index: &dyn VectorIndex) {
    let others = [scope("bob"), scope("ann").in_namespace("sales"), Scope::new("globex", "support", "ann")];
    let ann = scope("ann");
    assert_eq!(erase(index, &ann).await.unwrap(), 0, "there need not be any generation");
    index.prepare(A, 3).await.unwrap();
    index.prepare(B, 4).await.unwrap();
    let points: Vec<_> = (1..=5).map(|n| point(&ann, n, X)).collect();
    index.put(A, &points).await.unwrap();
    let longer = IndexPoint { vector: vec![0.0, 0.0, 0.0, 1.0], ..point(&ann, 1, X) };
    index.put(B, &[longer]).await.unwrap();
    let beside: Vec<_> = (10..).zip(&others).map(|(n, other)| point(other, n, X)).collect();
    index.put(A, &beside).await.unwrap();
    assert_eq!(erase(index, &ann).await.unwrap(), 6);
    assert_eq!(erase(index, &ann).await.unwrap(), 0);
    assert!(index.search(A, &near(&ann, &X)).await.unwrap().near.is_empty());
    assert_eq!((index.count(A).await.unwrap(), index.count(B).await.unwrap()), (3, 0));
    for (n, other) in (10..).zip(&others) {
        assert_eq!(ids(&index.search(A, &near(other, &X)).await.unwrap().near), [n]);
    }
}

pub(crate) async fn points_are_listed_in_order_and_by_page(index: &dyn VectorIndex) {
    let ann = scope("ann");
    index.prepare(A, 3).await.unwrap();
    assert!(index.list(A, &ann, None, 10).await.unwrap().is_empty());
    // Ids as they are made, the lowest and the highest one.
    let random = SeededRandom::new(3);
    let mut all: Vec<_> = (0..40).map(|n| EpisodeId::generate(NOW.plus_seconds(n % 7), &random)).collect();
    all.extend([EpisodeId(0), EpisodeId(u128::MAX)]);
    let points: Vec<_> = all.iter().map(|id| IndexPoint { at: NOW, ..point(&ann, id.0, X) }).collect();
    index.put(A, &points).await.unwrap();
    index.put(A, &[point(&scope("bob"), 5, X)]).await.unwrap();
    all.sort_unstable();
    let (mut listed, mut after) = (Vec::<EpisodeId>::new(), None);
    loop {
        let page = index.list(A, &ann, after, 9).await.unwrap();
        listed.extend(&page);
        assert!(page.len() == 9 || listed.len() == all.len(), "only the last page is short");
        after = page.last().copied();
        if page.len() < 9 {
            break;
        }
    }
    assert_eq!(listed, all);
    assert!(index.list(A, &ann, Some(EpisodeId(u128::MAX)), 9).await.unwrap().is_empty());
}

pub(crate) async fn a_generation_has_one_dimension(index: &dyn VectorIndex) {
    index.prepare(A, 3).await.unwrap();
    index.prepare(A, 3).await.unwrap();
    assert_unusable(index.prepare(A, 4).await, A);
    assert_unusable(index.prepare(A, 0).await, A);
    index.put(A, &[point(&scope("ann"), 1, X)]).await.unwrap();
}

pub(crate) async fn a_vector_of_another_dimension_is_refused(index: &dyn VectorIndex) {
    let ann = scope("ann");
    index.prepare(A, 3).await.unwrap();
    let longer = IndexPoint { vector: vec![1.0; 4], ..point(&ann, 2, X) };
    assert_unusable(index.put(A, &[point(&ann, 1, X), longer]).await, "");
    assert_unusable(index.search(A, &near(&ann, &[1.0; 4])).await, "");
    assert_eq!(index.count(A).await.unwrap(), 0, "a group is put whole or not at all");
}

pub(crate) async fn a_generation_is_prepared_by_several_at_once(index: &dyn VectorIndex) {
    try_join_all((0..8).map(|_| index.prepare(A, 3))).await.unwrap();
    index.put(A, &[point(&scope("ann"), 1, X)]).await.unwrap();
    index.prepare(A, 3).await.unwrap();
    assert_eq!(index.count(A).await.unwrap(), 1, "what is there stays");
}

pub(crate) async fn the_serving_generation_is_switched(index: &dyn VectorIndex) {
    let ann = scope("ann");
    index.prepare(A, 3).await.unwrap();
    index.prepare(B, 4).await.unwrap();
    index.put(A, &[point(&ann, 1, X)]).await.unwrap();
    for generation in [A, B, B, A] {
        index.serve(generation).await.unwrap();
        assert_eq!(ids(&index.search(A, &near(&ann, &X)).await.unwrap().near), [1], "both are there all the while");
        assert!(index.search(B, &near(&ann, &[1.0; 4])).await.unwrap().near.is_empty());
    }
    index.drop_generation(A).await.unwrap();
    assert_eq!(index.count(B).await.unwrap(), 0);
    index.serve(B).await.unwrap();
}

pub(crate) async fn a_generation_that_is_not_there_says_so(index: &dyn VectorIndex) {
    let ann = scope("ann");
    index.drop_generation(A).await.unwrap();
    for round in 0..2 {
        assert_unusable(index.put(A, &[point(&ann, 1, X)]).await, A);
        assert_unusable(index.search(A, &near(&ann, &X)).await, A);
        assert_unusable(index.list(A, &ann, None, 9).await, A);
        assert_unusable(index.count(A).await, A);
        assert_unusable(index.serve(A).await, A);
        if round == 0 {
            index.prepare(A, 3).await.unwrap();
            index.put(A, &[point(&ann, 1, X)]).await.unwrap();
            index.serve(A).await.unwrap();
            index.drop_generation(A).await.unwrap();
        }
    }
    index.prepare(A, 4).await.unwrap();
    assert_eq!(index.count(A).await.unwrap(), 0, "what was dropped does not come back");
}

pub(crate) async fn a_generation_may_be_of_words_alone(index: &dyn VectorIndex) {
    let ann = scope("ann");
    let generation = GENERATIONS[2];
    index.prepare(generation, 0).await.unwrap();
    index.prepare(generation, 0).await.unwrap();
    assert_unusable(index.prepare(generation, 3).await, generation);
    let points = [(1, 1.0), (2, 2.0)]
        .map(|(n, weight)| IndexPoint { vector: Vec::new(), ..with_terms(&ann, n, &[(n as u32, 1.0), (9, weight)]) });
    index.put(generation, &points).await.unwrap();
    let hits = index.search(generation, &words(&ann, &[(9, 1.0)])).await.unwrap();
    assert_eq!((hits.near.len(), ids(&hits.words)), (0, vec![2, 1]));
    assert_unusable(index.search(generation, &near(&ann, &X)).await, "");
    assert_eq!(erase(index, &ann).await.unwrap(), 2);
}

pub(crate) async fn a_point_may_be_of_words_alone(index: &dyn VectorIndex) {
    let ann = scope("ann");
    index.prepare(A, 3).await.unwrap();
    let of_words = IndexPoint { vector: Vec::new(), ..with_terms(&ann, 2, &[(7, 1.0)]) };
    let of_neither = IndexPoint { vector: Vec::new(), ..point(&ann, 3, X) };
    index.put(A, &[point(&ann, 1, X), of_words, of_neither]).await.unwrap();
    assert_eq!(ids(&index.search(A, &near(&ann, &X)).await.unwrap().near), [1]);
    assert_eq!(ids(&index.search(A, &words(&ann, &[(7, 1.0)])).await.unwrap().words), [2]);
    assert_eq!(index.list(A, &ann, None, 9).await.unwrap().len(), 3);
    // What a vector was put for, and is put without one, has none any more.
    index.put(A, &[IndexPoint { vector: Vec::new(), ..point(&ann, 1, X) }]).await.unwrap();
    assert!(index.search(A, &near(&ann, &X)).await.unwrap().near.is_empty());
}

pub(crate) async fn very_many_points_are_put_at_once(index: &dyn VectorIndex) {
    let ann = scope("ann");
    index.prepare(A, 3).await.unwrap();
    let points: Vec<_> = (0..2500_u128)
        .map(|n| IndexPoint { session: "s".repeat(500), ..with_terms(&ann, n, &[(n as u32, 1.0)]) })
        .collect();
    index.put(A, &points).await.unwrap();
    assert_eq!(index.count(A).await.unwrap(), 2500);
    let hits = index.search(A, &words(&ann, &[(2499, 1.0), (0, 2.0)])).await.unwrap().words;
    assert_eq!(ids(&hits), [0, 2499]);
    let all: Vec<_> = points.iter().map(|point| point.episode).collect();
    index.remove(&ann, &all).await.unwrap();
    assert_eq!(index.count(A).await.unwrap(), 0);
}

pub(crate) async fn a_ping_is_answered_with_a_version(index: &dyn VectorIndex) {
    let version = index.ping().await.unwrap();
    assert!(version.starts_with(|c: char| c.is_ascii_digit()), "{version}");
    assert!(!index.engine().is_empty());
}
