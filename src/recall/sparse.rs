//! Terms with weights, as an index outside of the process takes them: BM25 in two halves.
//!
//! What a text weighs by a term, saturated and by its length, is written down with the text; what a question weighs by it, with the question; how
//! rare the term is, the index knows. Their product, summed up, is the score. The terms are those of the index in memory, so that both
//! find by the same words, in every language.

use super::index::add_labels;
use super::rank::Asked;
use crate::memory::Episode;
use crate::memory::text::{self, TermId};
use crate::store::WeightedTerm;

/// Saturation of repeats and weight of length: those of turns in memory.
const K1: f32 = 1.2;
const B: f32 = 0.4;
/// What a text of a usual length has of terms. The mean of a scope would be right, but changes with every text, and what is written down stays.
const USUAL_LEN: f32 = 25.0;

/// The terms of an episode, each once, in order, with what it weighs by them.
#[must_use]
pub fn terms_of(episode: &Episode) -> Vec<WeightedTerm> {
    let mut terms = text::analyse(&episode.text);
    add_labels(&mut terms, episode);
    let len = terms.iter().filter(|term| term.counts()).count() as f32;
    let flat = K1 * (1.0 - B + B * len / USUAL_LEN);
    let mut counts = merged(terms.iter().map(|term| (number(term.id), 1.0)));
    counts.iter_mut().for_each(|(_, count)| *count = *count * (K1 + 1.0) / (*count + flat));
    counts
}

/// The terms of a question, each once, in order, with what they tell by their form.
pub(super) fn asked_for(asked: &Asked<'_>) -> Vec<WeightedTerm> {
    merged(asked.terms.iter().map(|term| (number(term.id), term.weight)))
}

/// The same number in every process and version. Of two terms that share one, either finds what the other does, at a weight of its own: with some
/// thousand terms in a scope that is one in a million.
fn number(TermId(id): TermId) -> u32 {
    (id ^ (id >> 32)) as u32
}

/// Adds up what stands for the same term.
fn merged(terms: impl Iterator<Item = WeightedTerm>) -> Vec<WeightedTerm> {
    let mut all: Vec<WeightedTerm> = terms.collect();
    all.sort_by_key(|&(term, _)| term);
    all.dedup_by(|next, kept| {
        let same = next.0 == kept.0;
        if same {
            kept.1 += next.1;
        }
        same
    });
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recall::tests::{ask, episode};

    fn of(text: &str) -> Vec<WeightedTerm> {
        terms_of(&episode(1, "s", 0, text))
    }

    fn asked(text: &str) -> Vec<WeightedTerm> {
        asked_for(&Asked::new(&ask(text)))
    }

    fn score(question: &str, text: &str) -> f32 {
        let terms = of(text);
        let weight = |term| terms.iter().find(|(known, _)| *known == term).map_or(0.0, |(_, weight)| *weight);
        asked(question).iter().map(|(term, share)| share * weight(*term)).sum()
    }

    #[test]
    fn each_term_stands_once_and_in_order() {
        let terms = of("the kite, the kite and 一只风筝 v1.2.3 beside the kite");
        assert!(terms.windows(2).all(|pair| pair[0].0 < pair[1].0));
        assert!(terms.iter().all(|(_, weight)| *weight > 0.0 && *weight < K1 + 1.0));
        assert!(of("").is_empty() && of("the and of").is_empty());
    }

    #[test]
    fn repeats_tell_more_and_less_each_time_and_long_texts_less_than_short_ones() {
        let of_kite = |text: &str| score("kite", text);
        let [once, twice, thrice] = ["kite", "kite kite", "kite kite kite"].map(of_kite);
        assert!(once < twice && twice < thrice && thrice - twice < twice - once, "{once} {twice} {thrice}");
        let long = format!("kite {}", "harbour lantern violin ".repeat(40));
        assert!(of_kite(&long) < once);
    }

    #[test]
    fn a_question_finds_by_stems_pairs_and_labels() {
        assert!(score("who was running", "she runs at night") > 0.0);
        assert!(score("设备在哪里", "仓库的设备清单") > 0.0);
        assert!((score("violin", "pepper soup")).abs() < f32::EPSILON);
        let mut labelled = episode(1, "s", 0, "pepper soup");
        labelled.tags = vec!["dinner".to_owned(), "pepper".to_owned()];
        assert_eq!(terms_of(&labelled).len(), of("pepper soup dinner").len());
    }

    // What is written down is found by later versions of the program, too.
    #[test]
    fn a_term_has_the_same_number_for_good() {
        assert_eq!(asked("kite").len(), 1);
        assert_eq!(number(TermId(0x0123_4567_89ab_cdef)), 0x8888_8888);
    }
}
