//! Values as pgvector reads them from text, and the numbers that stand for what points are filtered by.

use std::fmt::Write as _;

use crate::memory::{Sensitivity, Speaker};
use crate::store::WeightedTerm;

/// How many numbers a sparse vector may be of; a term's number is folded into it. Two words of one scope that fall together are as rare as 1 in 10^9 pairs.
const TERMS: u32 = 1_000_000_000;

/// The most words that a sparse vector may have; of more the heaviest are kept.
const MAX_WORDS: usize = 16_000;

/// The direction of a vector. Its length goes: 16-bit floats are most exact around 1. None for one without a direction.
pub(super) fn direction(vector: &[f32]) -> Option<String> {
    let length = vector.iter().map(|x| f64::from(*x) * f64::from(*x)).sum::<f64>().sqrt();
    if !length.is_normal() {
        return None;
    }
    let mut text = String::with_capacity(vector.len() * 12 + 2);
    text.push('[');
    for (i, x) in vector.iter().enumerate() {
        let comma = if i == 0 { "" } else { "," };
        write!(text, "{comma}{:.6}", f64::from(*x) / length).expect("a string takes all");
    }
    text.push(']');
    Some(text)
}

/// Terms under the numbers that they have in the database, each once, in their order.
pub(super) fn folded(terms: &[WeightedTerm]) -> Vec<(i32, f32)> {
    let mut folded: Vec<(i32, f32)> = terms
        .iter()
        .filter(|(_, weight)| weight.is_finite() && *weight > 0.0)
        .map(|(term, weight)| (i32::try_from(term % TERMS).expect("below 10^9") + 1, *weight))
        .collect();
    folded.sort_by(|a, b| b.1.total_cmp(&a.1));
    folded.truncate(MAX_WORDS);
    folded.sort_by_key(|(term, _)| *term);
    folded.dedup_by(|next, first| {
        let same = next.0 == first.0;
        if same {
            first.1 += next.1;
        }
        same
    });
    folded
}

/// A sparse vector of folded terms.
pub(super) fn sparse(folded: &[(i32, f32)]) -> String {
    let mut text = String::with_capacity(folded.len() * 20 + 16);
    text.push('{');
    for (i, (term, weight)) in folded.iter().enumerate() {
        let comma = if i == 0 { "" } else { "," };
        write!(text, "{comma}{term}:{weight}").expect("a string takes all");
    }
    write!(text, "}}/{TERMS}").expect("a string takes all");
    text
}

pub(super) fn role(speaker: Speaker) -> i16 {
    match speaker {
        Speaker::User => 0,
        Speaker::Assistant => 1,
        Speaker::Tool => 2,
        Speaker::Other => 3,
    }
}

/// In the order of how private it is.
pub(super) fn sensitivity(sensitivity: Sensitivity) -> i16 {
    match sensitivity {
        Sensitivity::Normal => 0,
        Sensitivity::Personal => 1,
        Sensitivity::Sensitive => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vector_keeps_its_direction_alone() {
        assert_eq!(direction(&[30.0, -40.0]).unwrap(), "[0.600000,-0.800000]");
        assert_eq!(direction(&[1e-30, 0.0]).unwrap(), "[1.000000,0.000000]");
        assert_eq!(direction(&[3e38, 0.0]).unwrap(), "[1.000000,0.000000]");
        for none in [vec![0.0, 0.0], vec![f32::NAN, 1.0], vec![f32::INFINITY], vec![]] {
            assert_eq!(direction(&none), None);
        }
    }

    #[test]
    fn terms_are_folded_sorted_and_each_is_there_once() {
        let terms = [(7, 1.0), (u32::MAX, 0.5), (7 + TERMS, 2.0), (3, 0.0), (4, f32::NAN)];
        assert_eq!(folded(&terms), [(8, 3.0), (294_967_296, 0.5)]);
        assert_eq!(sparse(&folded(&terms)), "{8:3,294967296:0.5}/1000000000");
        assert_eq!(sparse(&[]), "{}/1000000000");
        let many: Vec<_> = (0..20_000).map(|n| (n, 1.0 + n as f32)).collect();
        assert_eq!(folded(&many).len(), MAX_WORDS);
        assert_eq!(folded(&many)[0].0, 4_001, "the heaviest stay");
    }
}
