//! Chooses what is shown of what was found: few, strong, and no two alike.

use super::rank::Found;
use super::sketch::Sketch;
use crate::memory::RecalledEpisode;

/// What scores less than this share of the best is not shown beside it.
const SHARE_OF_BEST: f64 = 0.6;

/// The first `max` of `found` (strongest first) that are worth their tokens.
pub(super) fn pack(found: Vec<Found>, max: usize) -> Vec<RecalledEpisode> {
    let least = found.first().map_or(0.0, |best| best.strength * SHARE_OF_BEST);
    let mut shown: Vec<RecalledEpisode> = Vec::with_capacity(max);
    let mut sketches: Vec<Sketch> = Vec::with_capacity(max);
    for Found { hit, sketch, strength } in found {
        if shown.len() == max {
            break;
        }
        if strength >= least && !sketches.iter().any(|known| known.is_like(&sketch)) {
            sketches.push(sketch);
            shown.push(hit);
        }
    }
    shown
}
