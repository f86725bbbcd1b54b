//! How near the episodes of a scope are to a question, and what of that stands out.

use std::collections::HashMap;

use super::super::index::Index;
use super::rows::Asked;
use super::space::Space;
use crate::base::EpisodeId;

/// Nothing is nearer than the nearest, but of a question that nothing is near to, the nearest is nothing either: a channel is measured from no
/// less than this, in spreads of unrelated texts.
const LEAST_BEST: f32 = 3.0;
/// And from so far below what is unrelated, so that a share says how much nearer one is than another, not how many times.
const BELOW: f32 = 5.0;
/// What must be stood out from, in the same measure, to be shown to a model, and to be listed.
const SHOWN_FROM: f32 = 4.0;
const LISTED_FROM: f32 = 3.6;
/// What a memory below one that stands out must be near by, to be listed: a second one often holds just the other half of the answer.
const BESIDE: f32 = 1.0;
/// How much a question's leaning adds, which is bounded there, and from where on it may be about one's own past at all.
const LEANING: f32 = 1.5;
const MOST_LEANING: f32 = 1.0;
const LEAST_LEANING: f32 = -0.3;
/// A question that speaks of the one who asks.
const PERSONAL: f32 = 1.0;

/// The usual cosine of two texts that stand within a turn or two of each other in a conversation: 0.22 in LoCoMo with e5, within 0.15 mostly. By it
/// is reckoned how long the sum of such vectors is where these are not at hand.
const USUAL_BESIDE: f32 = 0.22;

/// A question's vector in its space.
#[derive(Debug)]
pub(in crate::recall) struct Near<'a> {
    space: &'a Space,
    asked: Asked,
    leaning: f32,
}

/// How near one episode is: cosines, without what all texts have in common.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(in crate::recall) struct Closeness {
    pub(super) turn: f32,
    /// Of the sum of its vector and its neighbours'.
    pub(super) neighbours: f32,
}

/// How near the episodes of one index are, by document; `NaN` where there is no vector.
#[derive(Debug)]
pub(in crate::recall) struct Channel {
    turns: Vec<f32>,
    neighbours: Vec<f32>,
    /// The nearest of each; never below zero.
    pub(super) nearest: Closeness,
}

/// What an index elsewhere found nearest in a scope.
#[derive(Clone, Debug, Default)]
pub(in crate::recall) struct Nearest {
    /// Cosines, as of vectors in memory.
    pub(in crate::recall) cosines: HashMap<EpisodeId, f32>,
    /// Whether there are more than it was asked for: what is not among them has a vector all the same.
    pub(in crate::recall) is_cut: bool,
}

impl Closeness {
    #[cfg(test)]
    pub(in crate::recall) fn turn(self) -> f32 {
        self.turn
    }

    /// The nearest of both, by each channel.
    pub(super) fn max(self, other: Self) -> Self {
        Self { turn: self.turn.max(other.turn), neighbours: self.neighbours.max(other.neighbours) }
    }
}

impl<'a> Near<'a> {
    /// Of a question's vector; `None` when it is none of this space.
    pub(in crate::recall) fn of(space: &'a Space, vector: &[f32]) -> Option<Self> {
        let placed = space.place_question(vector)?;
        Some(Self { space, asked: Asked::of(&placed)?, leaning: space.leaning(&placed) })
    }

    /// How near the episodes of an index are; `None` when none of them has a vector of this space.
    pub(in crate::recall) fn channel(&self, index: &Index) -> Option<Channel> {
        if index.dense.len(self.space) == 0 {
            return None;
        }
        let mut turns = Vec::new();
        index.dense.cosines(&self.asked, &mut turns);
        Some(Channel::of(index, turns, |doc, _| index.dense.length(doc)))
    }

    /// The same where an index elsewhere has said which are nearest; `None` when it said nothing of any episode here.
    pub(in crate::recall) fn channel_of(index: &Index, nearest: &Nearest) -> Option<Channel> {
        let mut turns = vec![f32::NAN; index.places.len()];
        let mut known = false;
        for (id, &cosine) in &nearest.cosines {
            if let Some(doc) = index.number(*id) {
                turns[doc as usize] = cosine;
                known = true;
            }
        }
        if !known && !nearest.is_cut {
            return None;
        }
        if nearest.is_cut {
            // It has a vector, and is no nearer than the last of those: it is taken for unrelated.
            let least = nearest.cosines.values().copied().fold(0.0, f32::min);
            for (doc, turn) in (0..).zip(&mut turns) {
                if turn.is_nan() && index.doc(doc).is_some() {
                    *turn = least;
                }
            }
        }
        Some(Channel::of(index, turns, |_, n| (n + n * (n - 1.0) * USUAL_BESIDE).sqrt()))
    }

    /// The question's vector, to be compared with placed ones elsewhere.
    pub(in crate::recall) fn placed(space: &Space, vector: &[f32]) -> Option<Vec<f32>> {
        space.place_question(vector)
    }

    /// Whether an episode, or it together with its neighbours, is near enough to be listed below one that stands out.
    pub(super) fn is_beside(&self, close: Closeness) -> bool {
        close.turn.max(close.neighbours) >= BESIDE * self.space.spread()
    }

    /// What a cosine is as a share, when `best` is the best of its channel.
    pub(super) fn share(&self, cosine: f32, best: f32) -> f64 {
        let spread = self.space.spread();
        let from = |cosine: f32| cosine + BELOW * spread;
        f64::from((from(cosine) / from(best.max(LEAST_BEST * spread))).max(0.0))
    }

    /// Whether an episode stands out so far that it may be shown, or listed, without a word in common.
    ///
    /// By how far it is from unrelated texts, and by what is asked: a question about the world is near to a memory of the same subject, too, and
    /// not answered by it.
    pub(super) fn stands_out(&self, turn: f32, is_personal: bool, is_shown: bool) -> bool {
        let standing = turn / self.space.spread()
            + LEANING * self.leaning.min(MOST_LEANING)
            + if is_personal { PERSONAL } else { 0.0 };
        let may = !is_shown || is_personal || self.leaning > LEAST_LEANING;
        may && standing >= if is_shown { SHOWN_FROM } else { LISTED_FROM }
    }
}

impl Channel {
    /// Of the cosine of each document by number. `length` says how long the sum of the vectors of so many documents is: of this one and those
    /// beside it, as far as they have vectors.
    fn of(index: &Index, turns: Vec<f32>, length: impl Fn(u32, f32) -> f32) -> Self {
        let mut channel = Self { neighbours: Vec::with_capacity(turns.len()), turns, nearest: Closeness::default() };
        for (doc, &turn) in (0..).zip(&channel.turns) {
            let [prev, next] = index.beside(doc).map(|beside| channel.turn(beside));
            let n = 1.0 + f32::from(u8::from(prev.is_some()) + u8::from(next.is_some()));
            let neighbours = (turn + (prev.unwrap_or(0.0) + next.unwrap_or(0.0))) / length(doc, n);
            channel.nearest.turn = channel.nearest.turn.max(turn);
            channel.nearest.neighbours = channel.nearest.neighbours.max(neighbours);
            channel.neighbours.push(neighbours);
        }
        channel
    }

    /// How near a document is; `None` when it has no vector.
    pub(in crate::recall) fn closeness(&self, doc: u32) -> Option<Closeness> {
        let turn = self.turn(doc)?;
        Some(Closeness { turn, neighbours: self.neighbours[doc as usize] })
    }

    /// How near all documents are, by number; `NaN` where there is no vector.
    pub(super) fn all(&self) -> impl Iterator<Item = Closeness> {
        self.turns.iter().zip(&self.neighbours).map(|(&turn, &neighbours)| Closeness { turn, neighbours })
    }

    fn turn(&self, doc: u32) -> Option<f32> {
        self.turns.get(doc as usize).copied().filter(|turn| !turn.is_nan())
    }
}
