//! Tells early which episodes cannot be among the best, so that the common terms need not be looked up for them.
//!
//! Exact: what is missing of a score is no more than the weights of the terms that were not read yet, and the best of a channel, which it is
//! divided by, is at least the best so far and at most that much more. Where too little is known to tell, nothing is left out.

use super::index::{Index, Place};
use super::rank::{Asked, Shares, clears, may_show};
use super::score::Sum;

/// Below so many episodes for each that is wanted or kept, there is nothing to gain.
const WORTH: usize = 4;
/// Leaves room for the rounding of sums.
const ALMOST: f32 = 0.999;

/// The most that the terms which were not read yet can add to one score.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Missing {
    pub(super) turn: f32,
    pub(super) window: f32,
    pub(super) session: f32,
    /// To what an episode covers of the question.
    pub(super) information: f32,
}

/// What is known when the telling terms were read, and the common ones were not.
#[derive(Clone, Copy, Debug)]
pub(super) struct Partial<'a> {
    /// The episodes that hold a telling term.
    pub(super) found: &'a [u32],
    /// The best turn and window among them.
    pub(super) best: (f32, f32),
    /// By document.
    pub(super) sums: &'a [Sum],
    /// By session.
    pub(super) sessions: &'a [f32],
    /// The information of the whole question.
    pub(super) whole: f32,
    pub(super) missing: Missing,
}

/// What the best are wanted for, as far as it decides which those are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prune<'a> {
    pub(super) index: &'a Index,
    pub(super) asked: &'a Asked<'a>,
    pub(super) shares: Shares,
    /// The most that a boost adds, as a share.
    pub(super) boost: f32,
    /// What one episode at least must cover, and whether one telling word is enough for that.
    pub(super) floor: f64,
    pub(super) lenient: bool,
    /// What each must cover.
    pub(super) beside: f32,
    /// Whether each must share a telling word.
    pub(super) telling: bool,
    /// How many are wanted.
    pub(super) limit: usize,
}

/// A score is a sum over the channels of `share × score ÷ best`; this has `share ÷ best` for the best as it can be at least and at most.
struct Bounds {
    high: [f32; 3],
    low: [f32; 3],
}

impl Prune<'_> {
    /// The episodes that may be among the best, or score best in a channel; `None` when that would be nearly all, or cannot be told.
    pub(super) fn keep(&self, partial: &Partial<'_>) -> Option<Vec<u32>> {
        if self.limit == 0 || partial.found.len() <= self.limit * WORTH || !self.shares.only_add() {
            return None;
        }
        // What weighs so much may make a best one of any.
        if partial.missing.turn >= partial.best.0 * ALMOST || partial.missing.window >= partial.best.1 * ALMOST {
            return None;
        }
        let sums = |doc: u32| &partial.sums[doc as usize];
        // That anything is known at all must be certain already, and stay visible.
        let known = partial.found.iter().copied().find(|&doc| {
            let Sum { own, near, telling, .. } = *sums(doc);
            clears(own / partial.whole, (near / partial.whole).min(1.0), telling, self.floor, self.lenient)
        })?;
        let bounds = self.bounds(partial);
        let threshold = self.threshold(partial, &bounds)? * ALMOST;
        let Missing { turn, window, session, information } = partial.missing;
        let covered = self.beside * partial.whole * ALMOST - information;
        let (best_turn, best_window) = (partial.best.0 * ALMOST - turn, partial.best.1 * ALMOST - window);
        let most = (1.0 + self.boost) * self.shares.role(true).max(1.0);
        let rest = bounds.high[0] * turn + bounds.high[1] * window + self.shares.session;

        let mut kept = Vec::with_capacity(64);
        for &doc in partial.found {
            let sum = sums(doc);
            let is_best = sum.turn >= best_turn || sum.window >= best_window;
            let cheap = (bounds.high[0] * sum.turn + bounds.high[1] * sum.window + rest) * most;
            if !is_best && doc != known {
                if cheap < threshold || sum.near < covered {
                    continue;
                }
                let place = &self.index.places[doc as usize];
                let session = partial.sessions[place.session as usize] + session;
                let session = (bounds.high[2] * session).min(self.shares.session);
                let exact = cheap / most - self.shares.session + session;
                if exact * self.shares.role(place.is_reply) * (1.0 + self.boost) < threshold {
                    continue;
                }
            }
            kept.push(doc);
        }
        (kept.len() * WORTH <= partial.found.len()).then_some(kept)
    }

    fn bounds(&self, partial: &Partial<'_>) -> Bounds {
        let session = partial.sessions.iter().copied().fold(0.0, f32::max);
        let Shares { turn: a, window: b, session: c, .. } = self.shares;
        let Missing { turn, window, session: more, .. } = partial.missing;
        let share = |share: f32, best: f32| share / best.max(f32::MIN_POSITIVE);
        Bounds {
            high: [share(a, partial.best.0), share(b, partial.best.1), share(c, session)],
            low: [share(a, partial.best.0 + turn), share(b, partial.best.1 + window), share(c, session + more)],
        }
    }

    /// What the weakest of the wanted ones scores at least; `None` when so many are not certain.
    fn threshold(&self, partial: &Partial<'_>, bounds: &Bounds) -> Option<f32> {
        let role = self.shares.role(true).max(1.0);
        let covered = self.beside * partial.whole;
        let mut least: Vec<f32> = Vec::with_capacity(self.limit + 1);
        let mut weakest = f32::NEG_INFINITY;
        for &doc in partial.found {
            let sum = &partial.sums[doc as usize];
            let words = bounds.low[0] * sum.turn + bounds.low[1] * sum.window;
            if (words + self.shares.session) * role <= weakest
                || sum.near * ALMOST < covered
                || (self.telling && sum.telling == 0)
            {
                continue;
            }
            let place: &Place = &self.index.places[doc as usize];
            let session = bounds.low[2] * partial.sessions[place.session as usize];
            let score = (words + session) * self.shares.role(place.is_reply);
            if score > weakest && may_show(place, self.asked) {
                let at = least.partition_point(|&known| known >= score);
                least.insert(at, score);
                least.truncate(self.limit);
                weakest = least.get(self.limit - 1).copied().unwrap_or(f32::NEG_INFINITY);
            }
        }
        least.get(self.limit - 1).copied()
    }
}
