//! A sketch of a text's terms, small enough to keep for every episode, by which near-duplicates are told.

use crate::memory::text::TermId;

const SLOTS: usize = 16;
/// Sketches of texts that share nine terms in ten agree in about this many slots or more.
const ALIKE: usize = 13;

/// The smallest hash of the terms under each of 16 orders (MinHash), cut to 16 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sketch([u16; SLOTS]);

impl Sketch {
    pub(super) fn of(terms: impl Iterator<Item = TermId>) -> Self {
        let mut least = [u64::MAX; SLOTS];
        for term in terms {
            let mut order = term.0;
            for slot in &mut least {
                order = order.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23) ^ 0x5851_f42d_4c95_7f2d;
                *slot = order.min(*slot);
            }
        }
        Self(least.map(|value| (value >> 13) as u16))
    }

    /// Whether the texts are as good as the same.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).filter(|(a, b)| a == b).count() >= ALIKE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::text::analyse;

    fn sketch(text: &str) -> Sketch {
        Sketch::of(analyse(text).into_iter().map(|term| term.id))
    }

    #[test]
    fn near_duplicates_are_told_from_texts_on_one_subject() {
        let a = sketch("Booked the Lisbon flight for Tuesday, seat 14C, with the small suitcase only.");
        assert!(a.is_like(&sketch("booked the Lisbon flight for tuesday - seat 14C with the small suitcase only")));
        assert!(
            !a.is_like(&sketch("Cancelled the Lisbon flight, took the night train on Friday with both suitcases."))
        );
    }
}
