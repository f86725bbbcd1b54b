//! Tells early which episodes cannot be among the best, so that the common terms need not be looked up for them.
//!
//! Exact. When some terms of a question were read and the rest were not, what is missing of a score is no more than the rest can add. The
//! most promising episodes are scored to the end first (the probes): each of the others has to come up with the weakest of those. Scores
//! are compared channel by channel, since what they will be divided by, the best of the channel, is the same for both and known within
//! bounds only. Where too little is known to tell, nothing is left out.

use super::index::{Index, Place};
use super::rank::{Asked, Shares, clears, may_show};
use super::score::Sum;
use super::terms::Read;

/// Below so many episodes for each that is wanted or kept, there is nothing to gain.
const WORTH: usize = 4;
/// Leaves room for the rounding of sums.
const ALMOST: f32 = 0.999;
/// For so many episodes that are wanted one more is scored to the end: some turn out not to count.
const SPARE: usize = 4;
/// So many times as many begin: with every term that is looked up for them the lesser half falls out, until none is left too many.
const CANDIDATES: usize = 8;

/// The most that the terms which were not read yet can add to one score.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Missing {
    pub(super) turn: f32,
    pub(super) window: f32,
    pub(super) session: f32,
    /// To what an episode covers of the question.
    pub(super) information: f32,
}

/// What is known when some terms were read, and the rest were not.
#[derive(Clone, Copy, Debug)]
pub(super) struct Partial<'a> {
    /// The episodes that hold a term that was read.
    pub(super) found: &'a [u32],
    /// The best turn and window among them.
    pub(super) best: (f32, f32),
    /// By document.
    pub(super) sums: &'a [Sum],
    /// By session.
    pub(super) sessions: &'a [f32],
    /// The information of the whole question.
    pub(super) whole: f32,
    /// The terms that were not read.
    pub(super) rest: &'a [Read<'a>],
}

/// What the best are wanted for, as far as it decides which those are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prune<'a> {
    pub(super) index: &'a Index,
    pub(super) asked: &'a Asked<'a>,
    pub(super) shares: Shares,
    /// The least and the most that a boost adds for this question, as a share.
    pub(super) boost: (f32, f32),
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

/// The best turn and window that some episodes have when all terms are read, as far as that is known before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hope {
    pub(super) turn: f32,
    pub(super) window: f32,
}

/// What an episode has to come up with to be among the best.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bar {
    /// By channel, what each of as many episodes as are wanted scores at least, roles and boosts taken into account.
    least: [f32; 3],
    /// The same fused, with the channels divided by the most that their best can be.
    fused: f32,
    /// Share of a channel ÷ its best, for the best as it can be at most and at least.
    low: [f32; 3],
    high: [f32; 3],
    /// The best score of each channel is at least this.
    pub(super) best: [f32; 3],
    /// No session scores more than this.
    most_session: f32,
    /// What each must cover, in information.
    covered: f32,
    /// An episode that makes certain that anything is known at all: it stays visible.
    known: u32,
}

/// An episode scored to the end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probe {
    doc: u32,
    pub(super) sum: Sum,
    /// What its session scores.
    session: f32,
    /// What it is multiplied by at least.
    weight: f32,
}

impl Probe {
    /// Turn, window and session.
    fn scores(&self) -> [f32; 3] {
        [self.sum.turn, self.sum.window, self.session]
    }
}

impl Prune<'_> {
    /// Whether there is anything to gain where so many episodes were found.
    pub(super) fn is_worth(&self, found: usize) -> bool {
        self.limit > 0 && found > self.limit * WORTH && self.shares.only_add()
    }

    /// The episodes that may be among the best, or score best in a channel, and what that takes; `None` when that would be nearly all, or
    /// cannot be told. With `closed`, an episode that holds no term that was read is of no interest anyway; without, it has to be certain
    /// that none of these matters either. `hope` is told what scores there are in the end.
    pub(super) fn keep(&self, partial: &Partial<'_>, closed: bool, hope: &mut Option<Hope>) -> Option<(Vec<u32>, Bar)> {
        if !self.is_worth(partial.found.len()) {
            return None;
        }
        let missing = Missing::of(partial.rest);
        let bar = self.bar(partial, &missing, hope)?;
        // What weighs so much may make a best one of any that was not found.
        if bar.may_be_best(missing.turn, missing.window) || !closed && self.may_reach(&bar, &missing) {
            return None;
        }
        let mut kept = Vec::with_capacity(64);
        for &doc in partial.found {
            if self.may_matter(&bar, &missing, doc, &partial.sums[doc as usize], partial.sessions, missing.session) {
                kept.push(doc);
            }
        }
        (kept.len() * WORTH <= partial.found.len()).then_some((kept, bar))
    }

    /// Whether an episode may be among the best or the best of a channel, once it gets at most what is `missing` of its own scores and
    /// `of_session` of its session's.
    #[inline]
    pub(super) fn may_matter(
        &self,
        bar: &Bar,
        missing: &Missing,
        doc: u32,
        sum: &Sum,
        sessions: &[f32],
        of_session: f32,
    ) -> bool {
        let (turn, window) = (sum.turn + missing.turn, sum.window + missing.window);
        if bar.may_be_best(turn, window) || doc == bar.known {
            return true;
        }
        if !self.may_reach(bar, &Missing { turn, window, information: sum.near + missing.information, ..*missing }) {
            return false;
        }
        // Only now what takes another look into memory.
        let place = &self.index.places[doc as usize];
        let session = (sessions[place.session as usize] + of_session).min(bar.most_session);
        bar.is_reached([turn, window, session], self.shares.role(place.is_reply) * (1.0 + self.boost.1))
    }

    /// Whether any episode that scores at most this, in whatever session, may be among the best.
    pub(super) fn may_reach(&self, bar: &Bar, most: &Missing) -> bool {
        most.information >= bar.covered
            && bar.is_reached([most.turn, most.window, bar.most_session], self.most_weight())
    }

    /// What the session at least scores of an episode that scores at most this itself and may be among the best.
    pub(super) fn least_session(&self, bar: &Bar, most: &Missing) -> f32 {
        let [turn, window, session] = bar.high;
        let missing = bar.fused / self.most_weight() - turn * most.turn - window * most.window;
        if session > 0.0 { missing / session * ALMOST } else { 0.0 }
    }

    /// What no episode is multiplied by more than.
    fn most_weight(&self) -> f32 {
        self.most_role() * (1.0 + self.boost.1)
    }

    /// Scores the most promising to the end and sees what they come up with; `None` when not as many as are wanted are certain to count.
    fn bar(&self, partial: &Partial<'_>, missing: &Missing, hope: &mut Option<Hope>) -> Option<Bar> {
        let probes = self.probes(partial);
        let mut best = [partial.best.0, partial.best.1, partial.sessions.iter().copied().fold(0.0, f32::max)];
        let most = [best[0] + missing.turn, best[1] + missing.window, best[2] + missing.session];
        for probe in &probes {
            for (best, score) in best.iter_mut().zip(probe.scores()) {
                *best = best.max(score);
            }
        }
        *hope = Some(Hope { turn: best[0], window: best[1] });
        self.bar_of(&probes, best, most, partial.whole)
    }

    /// What these come up with, where the best score of each channel is at least and at most this; `None` when not as many as are wanted are
    /// certain to count.
    pub(super) fn bar_of(&self, probes: &[Probe], best: [f32; 3], most: [f32; 3], whole: f32) -> Option<Bar> {
        let shares = [self.shares.turn, self.shares.window, self.shares.session];
        let divided = |by: [f32; 3]| [0, 1, 2].map(|channel| shares[channel] / by[channel].max(f32::MIN_POSITIVE));
        let (low, high) = (divided(most), divided(best));

        let share = |information: f32| (information / whole).min(1.0);
        let known = probes.iter().find(|Probe { sum, .. }| {
            clears(share(sum.own), share(sum.near) * ALMOST, sum.telling, self.floor, self.lenient)
        })?;
        let mut certain: Vec<(f32, &Probe)> = probes
            .iter()
            .filter(|Probe { sum, .. }| share(sum.near) * ALMOST >= self.beside && (sum.telling > 0 || !self.telling))
            .map(|probe| (fused(&low, &probe.scores()) * probe.weight, probe))
            .collect();
        certain.sort_unstable_by(|a, b| b.0.total_cmp(&a.0));
        certain.truncate(self.limit);
        let weakest = certain.get(self.limit - 1)?.0;
        let least = certain.iter().fold([f32::INFINITY; 3], |least, (_, probe)| {
            let scores = probe.scores();
            [0, 1, 2].map(|channel| least[channel].min(scores[channel] * probe.weight))
        });
        Some(Bar {
            least: least.map(|score| score * ALMOST),
            fused: weakest * ALMOST,
            low,
            high,
            best,
            most_session: most[2],
            covered: self.beside * whole * ALMOST,
            known: known.doc,
        })
    }

    /// The most promising by what was read, scored to the end.
    ///
    /// Those that hold most of the question hold little more than others of the few terms that were read first, so more are begun with
    /// than are wanted, and the terms that come next tell which of them to go on with.
    fn probes(&self, partial: &Partial<'_>) -> Vec<Probe> {
        let session = partial.sessions.iter().copied().fold(f32::MIN_POSITIVE, f32::max);
        let by = [
            self.shares.turn / partial.best.0.max(f32::MIN_POSITIVE),
            self.shares.window / partial.best.1.max(f32::MIN_POSITIVE),
            self.shares.session / session,
        ];
        let wanted = self.limit + self.limit.div_ceil(SPARE);
        let mut probes: Vec<Probe> = self
            .candidates(partial, by, wanted * CANDIDATES)
            .into_iter()
            .filter_map(|doc| self.probe(doc, partial.sums[doc as usize], partial.sessions))
            .collect();
        let promise = |probe: &Probe| fused(&by, &probe.scores()) * probe.weight;
        let mut rest = partial.rest.iter();
        while probes.len() > wanted {
            let half = if rest.len() == 0 { wanted } else { wanted.max(probes.len() / 2) };
            probes.select_nth_unstable_by(half - 1, |a, b| promise(b).total_cmp(&promise(a)));
            probes.truncate(half);
            if let Some(read) = rest.next() {
                probes.iter_mut().for_each(|probe| self.add(read, probe));
            }
        }
        rest.for_each(|read| probes.iter_mut().for_each(|probe| self.add(read, probe)));
        probes
    }

    /// An episode with these scores, beside those of sessions; `None` when it may not be shown.
    pub(super) fn probe(&self, doc: u32, sum: Sum, sessions: &[f32]) -> Option<Probe> {
        let place: &Place = &self.index.places[doc as usize];
        let weight = self.shares.role(place.is_reply) * (1.0 + self.boost.0);
        may_show(place, self.asked).then(|| Probe { doc, sum, session: sessions[place.session as usize], weight })
    }

    /// What the words of the one who said an episode weigh.
    pub(super) fn role(&self, doc: u32) -> f32 {
        self.shares.role(self.index.places[doc as usize].is_reply)
    }

    /// What nobody's words weigh more than.
    pub(super) fn most_role(&self) -> f32 {
        self.shares.role(true).max(1.0)
    }

    /// How promising an episode is by its own words and its neighbours', in no unit.
    pub(super) fn words(&self, turn: f32, window: f32) -> f32 {
        self.shares.turn * turn + self.shares.window * window
    }

    /// The episodes that look most promising by their own words and their neighbours', at most so many.
    fn candidates(&self, partial: &Partial<'_>, by: [f32; 3], most: usize) -> Vec<u32> {
        let words = |doc: u32| {
            let sum = &partial.sums[doc as usize];
            by[0] * sum.turn + by[1] * sum.window
        };
        let mut candidates: Vec<(f32, u32)> = partial.found.iter().map(|&doc| (words(doc), doc)).collect();
        if candidates.len() > most {
            candidates.select_nth_unstable_by(most - 1, |a, b| b.0.total_cmp(&a.0));
            candidates.truncate(most);
        }
        candidates.into_iter().map(|(_, doc)| doc).collect()
    }

    /// Looks a term up for a probe.
    fn add(&self, read: &Read<'_>, probe: &mut Probe) {
        let session = self.index.places[probe.doc as usize].session;
        read.add_to(&mut probe.sum, &mut probe.session, probe.doc, session, self.index);
    }
}

impl Bar {
    /// Whether an episode that scores at most this may be the best turn, or the best with its neighbours.
    pub(super) fn may_be_best(&self, turn: f32, window: f32) -> bool {
        turn >= self.best[0] * ALMOST || window >= self.best[1] * ALMOST
    }

    /// Whether an episode that scores at most this may come up with the weakest of the best, at this weight.
    #[inline]
    fn is_reached(&self, scores: [f32; 3], weight: f32) -> bool {
        if fused(&self.high, &scores) * weight < self.fused {
            return false;
        }
        // However large the best of a channel is within its bounds, it divides both.
        let ahead = |channel: usize| {
            let ahead = self.least[channel] - scores[channel] * weight;
            ahead * if ahead > 0.0 { self.low[channel] } else { self.high[channel] }
        };
        ahead(0) + ahead(1) + ahead(2) <= 0.0
    }
}

fn fused(by: &[f32; 3], scores: &[f32; 3]) -> f32 {
    by[0] * scores[0] + by[1] * scores[1] + by[2] * scores[2]
}
