//! Chooses what is shown of what was found: few, strong, and no two alike.

use super::rank::Found;
use super::sketch::Sketch;
use crate::memory::RecalledEpisode;

/// What scores less than this share of the best is not shown beside it.
const SHARE_OF_BEST: f64 = 0.6;

/// The first `max` of `found` (strongest first) that are worth their tokens. What `is_said` already counts for nothing; it is asked last, and of few.
pub(super) fn pack(found: Vec<Found>, max: usize, is_said: impl Fn(&Found) -> bool) -> Vec<RecalledEpisode> {
    let mut least = None;
    let mut shown: Vec<RecalledEpisode> = Vec::with_capacity(max);
    let mut sketches: Vec<Sketch> = Vec::with_capacity(max);
    for found in found {
        if shown.len() == max {
            break;
        }
        let is_weak = least.is_some_and(|least| found.strength < least);
        if is_weak || sketches.iter().any(|known| known.is_like(&found.sketch)) || is_said(&found) {
            continue;
        }
        // By the first that is not said.
        least.get_or_insert(found.strength * SHARE_OF_BEST);
        sketches.push(found.sketch);
        shown.push(found.hit);
    }
    shown
}
