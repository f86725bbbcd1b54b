//! The pruned ranking against the exhaustive one.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::base::FactId;
use crate::memory::{Episode, first_score};
use crate::recall::tests::{NOW, episode, message, scope};

const WORDS: [&str; 10] =
    ["ticket", "harbour", "violin", "pepper", "glacier", "lantern", "saddle", "walnut", "compass", "orchard"];

const SPEAKERS: [&str; 3] = ["Ann", "Bob", "Zoe"];

/// The low ones often, the high ones seldom, as words are.
fn word(drawn: usize) -> &'static str {
    WORDS[drawn * drawn / 1_000]
}

fn text(drawn: &[usize]) -> String {
    drawn.iter().map(|&drawn| word(drawn)).collect::<Vec<_>>().join(" ")
}

pub(in crate::recall) fn any_episodes() -> impl Strategy<Value = Vec<Episode>> {
    let odd = (0..10, -0.9..0.4_f64, 0..6_usize);
    let any = (0..8, 0_i64..40, prop::collection::vec(0..100_usize, 1..7), odd, 0..40_i64);
    prop::collection::vec(any, 20..160).prop_map(|drawn| {
        let made = drawn.into_iter().zip(0..).map(|((session, position, words, (odd, moved, speaker), days), id)| {
            let mut made = episode(id, &format!("s{session}"), position, &text(&words));
            made.said_at = NOW.plus_seconds(-86_400 * days);
            made.speaker = SPEAKERS.get(speaker).map(|&name| name.to_owned());
            match odd {
                0 => made.retired_facts.push(FactId(1)),
                1 => made.sensitivity = Sensitivity::Sensitive,
                // People thought well or ill of answers that it was shown for.
                2..=5 => made.score = (first_score(made.role) + moved).clamp(0.1, 1.0),
                _ => {}
            }
            made
        });
        made.collect()
    })
}

fn index_of(episodes: Vec<Episode>) -> Index {
    let mut index = Index::default();
    for episode in episodes {
        index.insert(Arc::new(episode));
    }
    index
}

pub(in crate::recall) fn ask(text: String, exclude: Exclude) -> Query {
    Query {
        scopes: vec![scope()],
        text,
        before: None,
        now: NOW,
        max_sensitivity: Sensitivity::Normal,
        exclude,
        said: Arc::default(),
        max_episodes: 5,
        vector: None,
    }
}

/// Bit by bit.
fn told(found: &[Found]) -> Vec<String> {
    found.iter().map(|found| format!("{:?} {:?} {}", found.hit.episode.id, found.hit.scores, found.strength)).collect()
}

proptest! {
    #[test]
    fn the_pruned_ranking_is_the_exhaustive_one(
        episodes in any_episodes(),
        question in prop::collection::vec(0..100_usize, 2..9),
        personal in any::<bool>(),
        about in 0..6_usize,
        when in prop_oneof![3 => Just(""), 1 => Just(" last week"), 1 => Just(" three days ago")],
        listed in any::<bool>(),
        limit in 1..7_usize,
        held in 0..20_u128,
    ) {
        let index = index_of(episodes);
        let about = SPEAKERS.get(about).copied().unwrap_or_default();
        let question = format!("{about} {} {}{when}", if personal { "my" } else { "the" }, text(&question));
        let query = ask(question, Exclude::of([&message(held)]));
        let (asked, config) = (Asked::new(&query), RecallConfig::default());
        let purpose = if listed { Purpose::List } else { Purpose::Show };
        let [pruned, exhaustive] =
            [true, false].map(|prune| told(&ranked(&[&index], &asked, &config, purpose, limit, prune)));
        prop_assert_eq!(pruned, exhaustive);
    }
}

/// What so many are wanted for.
pub(in crate::recall) fn prune_for<'a>(
    index: &'a Index,
    asked: &'a Asked<'a>,
    config: &RecallConfig,
    limit: usize,
) -> Prune<'a> {
    let shares = Shares::new(index, &config.weights);
    Prune { index, asked, shares, boost: (0.0, 0.1), floor: 0.2, lenient: true, beside: 0.16, telling: true, limit }
}

/// How many episodes are scored to the end without pruning, and with it.
fn scored_to_the_end(index: &Index, asked: &Asked<'_>, config: &RecallConfig, limit: usize) -> [usize; 2] {
    let prune = prune_for(index, asked, config, limit);
    [None, Some(&prune)].map(|prune| reads(index, &[index], asked).unwrap().score(0.16, prune).hits.len())
}

#[test]
fn most_of_what_holds_one_of_many_words_is_left_out() {
    let places = ["lisbon", "oslo", "ghent", "porto", "bergen", "turin", "graz", "basel"];
    let matters = ["delay", "refund", "berth", "ferry", "luggage"];
    let episodes = (0..240_u128).map(|id| {
        let text = format!("The travel ticket: {} {}", places[id as usize % 8], matters[id as usize % 5]);
        episode(id, &format!("s{id}"), 0, &text)
    });
    let index = index_of(episodes.collect());
    let query = ask("my travel ticket with the refund for oslo".to_owned(), Exclude::default());
    let (asked, config) = (Asked::new(&query), RecallConfig::default());
    let [all, few] = scored_to_the_end(&index, &asked, &config, 4);
    assert!(few * 2 < all, "{few} of {all}");
    assert!(few >= 4);
}

#[test]
fn of_a_question_that_was_asked_by_the_hundred_few_are_scored_to_the_end() {
    let places = ["lisbon", "oslo", "ghent", "porto", "bergen", "turin", "graz", "basel"];
    let subjects = ["night train", "window seat", "bicycle ticket", "season pass", "dining car", "group fare", "ferry"];
    let asked = |n: usize| {
        let (place, subject) = (places[n % 8], subjects[n / 8 % 7]);
        format!("I wrote to you about the {subject} to {place} some time ago, under number {n}. What did we find out?")
    };
    let trips = (0..1_200_usize).map(|n| {
        let text = format!("On trip {n} I learned that the {} to {} was late.", subjects[n * 5 % 7], places[n * 3 % 8]);
        episode(n as u128, &format!("trip {}", n / 8), n as i64, &text)
    });
    let copies = (0..400_usize).map(|n| episode(5_000 + n as u128, &format!("copy {n}"), 0, &asked(n)));
    let index = index_of(trips.chain(copies).collect());
    let query = ask(asked(9_001), Exclude::default());
    let (asked, config) = (Asked::new(&query), RecallConfig::default());
    let [all, few] = scored_to_the_end(&index, &asked, &config, 20);
    assert!(few * 5 < all, "{few} of {all}");
    let [pruned, exhaustive] =
        [true, false].map(|prune| told(&ranked(&[&index], &asked, &config, Purpose::Show, 20, prune)));
    assert_eq!(pruned, exhaustive);
}
