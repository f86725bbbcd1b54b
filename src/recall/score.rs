//! Scores over the three channels, by the terms of a question (`terms`). Exact, but common terms are read only where they can matter.
//!
//! Terms are read from the most telling to the least. Once those that are left could not lift an episode to the least coverage that the
//! caller looks at, an episode that holds none of the terms read so far need not be found any more (MaxScore): the common terms are
//! looked up for those that were found, and for no other. [`Scored::beyond`] says what the others could have scored at most. Of those that
//! were found, most can often be told not to be among the best before the common terms are looked up at all, and that none that was not
//! found can be, before all telling terms were read (`prune`).

mod together;

use std::cell::RefCell;

use super::index::{Index, Size};
use super::lists::Entry;
use super::prune::{Bar, Hope, Missing, Partial, Prune};
use super::terms::{FLOOR_TERMS, QueryTerm, Read, beyond, common, strongest};

/// Leaves room for the rounding of sums.
const ALMOST: f32 = 0.999;
/// A list this many times longer than there are episodes to look up in it is searched, not read.
const SEARCH_FROM: usize = 16;
/// Where more than one in so many accumulators was used, all are cleared in one go.
const FILL_FROM: usize = 3;
/// How often it is looked before the last telling term was read whether the rest can be left to a few.
const TRIES: usize = 3;
// The scopes of the tests are small, and are to come this way too.
/// It takes so many entries to read, and so many for each episode that was found, to make that pay.
const MIN_LEFT: usize = if cfg!(test) { 0 } else { 8_000 };
const LEFT_FOR_EACH: usize = if cfg!(test) { 1 } else { 4 };
/// What is left, as a share of the best turn so far, with which nothing can be told yet.
const TOO_MUCH: f32 = 6.0;
/// The same as a share of what the best are known to score in the end.
const TOO_MUCH_OF_ALL: f32 = 0.85;
/// So many episodes are scored to the end without another look.
const FEW: usize = if cfg!(test) { 1 } else { 64 };

/// An episode that shares something with the question, raw scores per channel.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Hit {
    pub(super) doc: u32,
    pub(super) turn: f32,
    pub(super) window: f32,
    pub(super) session: f32,
    /// Share of the question's information in the turn itself, 0 to 1.
    pub(super) own: f32,
    /// The same with its neighbours.
    pub(super) coverage: f32,
    /// How many telling terms the turn and its neighbours share with the question.
    pub(super) telling: u32,
}

impl Hit {
    /// A document with all its terms, of a question of so much information.
    fn of(doc: u32, sum: &Sum, session: f32, whole: f32) -> Self {
        Self {
            doc,
            turn: sum.turn,
            window: sum.window,
            session,
            own: (sum.own / whole).min(1.0),
            coverage: (sum.near / whole).min(1.0),
            telling: sum.telling,
        }
    }
}

/// Raw scores of the channels: the best of them is what others are measured by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Best {
    pub(super) turn: f32,
    pub(super) window: f32,
    pub(super) session: f32,
}

impl Default for Best {
    /// Never zero: it divides.
    fn default() -> Self {
        Self { turn: f32::MIN_POSITIVE, window: f32::MIN_POSITIVE, session: f32::MIN_POSITIVE }
    }
}

impl Best {
    pub(super) fn max(self, other: Self) -> Self {
        Self {
            turn: self.turn.max(other.turn),
            window: self.window.max(other.window),
            session: self.session.max(other.session),
        }
    }
}

/// What one index has to say.
#[derive(Clone, Debug, Default)]
pub(super) struct Scored {
    /// Every episode that covers the least share asked for.
    pub(super) hits: Vec<Hit>,
    /// The best of all episodes that were looked at.
    pub(super) best: Best,
    /// No episode that was not looked at scores more than this.
    pub(super) beyond: Best,
}

impl Scored {
    /// Whether an episode that was not looked at might be the best of a channel after all.
    pub(super) fn is_short_of(&self, best: &Best) -> bool {
        self.beyond.turn > best.turn || self.beyond.window > best.window
    }
}

/// The accumulator of one episode.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sum {
    pub(super) turn: f32,
    pub(super) window: f32,
    pub(super) own: f32,
    /// Zero until the episode is found.
    pub(super) near: f32,
    pub(super) telling: u32,
}

/// Accumulators, one a document; zero between two questions. One set a thread, so that they are not made anew each time.
#[derive(Debug, Default)]
struct Scratch {
    sums: Vec<Sum>,
    found: Vec<u32>,
    sessions: Vec<f32>,
    /// The best turn and window of those that were found.
    best: (f32, f32),
    /// For the short way, which leaves the accumulators alone.
    holders: Vec<(u32, Sum)>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// What one index knows of the terms of a question.
///
/// How rare a term is, is reckoned over all indexes that are asked together, so that scores of a small scope can stand beside those of a
/// large one.
#[derive(Debug)]
pub(super) struct Reads<'a> {
    index: &'a Index,
    /// Strongest first.
    reads: Vec<Read<'a>>,
    /// The information of the whole question.
    whole: f32,
}

impl<'a> Reads<'a> {
    /// `None` when there is nothing to be found.
    pub(super) fn of(index: &'a Index, all: &[&Index], terms: &[QueryTerm]) -> Option<Self> {
        if index.len() == 0 || terms.is_empty() {
            return None;
        }
        let terms = strongest(all, terms);
        let whole: f32 = terms.iter().take(FLOOR_TERMS).map(|&(_, information)| information).sum();
        let reads = terms.iter().filter_map(|&term| Read::of(index, all, term)).collect();
        Some(Self { index, reads, whole: whole.max(f32::MIN_POSITIVE) })
    }

    /// Scores the episodes that cover at least `least` of the question, by themselves or with their neighbours.
    ///
    /// With `prune`, of these only such as can be among the best: of the others it is not known how they score.
    pub(super) fn score(&self, least: f32, prune: Option<&Prune<'_>>) -> Scored {
        let Self { index, ref reads, whole } = *self;
        let must = reads.len() - common(reads, least * whole * ALMOST);
        SCRATCH.with_borrow_mut(|scratch| {
            if let Some(scored) = prune.and_then(|prune| self.score_together(scratch, least, prune)) {
                return scored;
            }
            scratch.fit(index);
            let (mut tries, mut hope) = (TRIES, None);
            for (at, read) in reads[..must].iter().enumerate() {
                scratch.find(&index.sizes, read);
                read.add_to_sessions(&mut scratch.sessions, index);
                let rest = &reads[at + 1..];
                let closed = at + 1 == must;
                let looks = |prune: &&Prune<'_>| {
                    prune.is_worth(scratch.found.len()) && (closed || tries > 0 && scratch.is_short_beside(rest, hope))
                };
                if let Some(prune) = prune.filter(looks) {
                    tries -= usize::from(!closed);
                    if let Some((kept, bar)) = prune.keep(&scratch.partial(index, whole, rest), closed, &mut hope) {
                        let kept = scratch.finish(index, rest, kept, prune, &bar);
                        let (hits, best) = scratch.take(index, whole, least, Some(&kept));
                        // What was not looked at is known to score less than the best.
                        return Scored { hits, best, beyond: Best::default() };
                    }
                }
            }
            let common = &reads[must..];
            if scratch.found.is_empty() {
                return Scored { beyond: beyond(common), ..Scored::default() };
            }
            for read in common {
                scratch.look_up(&index.sizes, read);
                read.add_to_sessions(&mut scratch.sessions, index);
            }
            // Nothing is missing any more: most can be told not to be among the best for less than it takes to rank them.
            let kept = prune.and_then(|prune| prune.keep(&scratch.partial(index, whole, &[]), true, &mut hope));
            let (hits, best) = scratch.take(index, whole, least, kept.as_ref().map(|(kept, _)| kept.as_slice()));
            Scored { hits, best, beyond: beyond(common) }
        })
    }

    /// How all sessions score, by number.
    pub(super) fn sessions(&self) -> Vec<f32> {
        let mut sums = vec![0.0; self.index.sessions.len()];
        self.reads.iter().for_each(|read| read.add_to_sessions(&mut sums, self.index));
        sums
    }
}

impl Read<'_> {
    /// Adds the term to one episode and to its session.
    pub(super) fn add_to(&self, sum: &mut Sum, of_session: &mut f32, doc: u32, session: u32, index: &Index) {
        if let Some(entry) = self.list.entry(doc) {
            sum.add(self, entry, index.sizes[doc as usize]);
        }
        if let Some(count) = self.list.in_session(session) {
            *of_session += self.session.score(count as f32, index.sessions[session as usize].len);
        }
    }

    /// Adds the term to all sessions that hold it.
    fn add_to_sessions(&self, sums: &mut [f32], index: &Index) {
        for &(session, count) in self.list.sessions() {
            let at = session as usize;
            sums[at] += self.session.score(count as f32, index.sessions[at].len);
        }
    }
}

impl Sum {
    fn add(&mut self, read: &Read<'_>, entry: Entry, size: Size) {
        self.near += read.information;
        self.telling += read.telling;
        self.window += read.window.score(entry.near.into(), size.window);
        if entry.own > 0 {
            self.own += read.information;
            self.turn += read.turn.score(entry.own.into(), size.turn);
        }
    }
}

impl Scratch {
    fn fit(&mut self, index: &Index) {
        if self.sums.len() < index.sizes.len() {
            self.sums.resize(index.sizes.len(), Sum::default());
        }
        if self.sessions.len() < index.sessions.len() {
            self.sessions.resize(index.sessions.len(), 0.0);
        }
    }

    /// Adds a term to all episodes that hold it.
    fn find(&mut self, sizes: &[Size], read: &Read<'_>) {
        let (mut turn, mut window) = self.best;
        for &entry in read.list.entries() {
            let sum = &mut self.sums[entry.doc as usize];
            if sum.near == 0.0 {
                self.found.push(entry.doc);
            }
            sum.add(read, entry, sizes[entry.doc as usize]);
            turn = turn.max(sum.turn);
            window = window.max(sum.window);
        }
        self.best = (turn, window);
    }

    /// Adds a term to those episodes that were found already.
    fn look_up(&mut self, sizes: &[Size], read: &Read<'_>) {
        if read.list.entries().len() > self.found.len() * SEARCH_FROM {
            self.found.sort_unstable();
            let mut list = read.list.cursor();
            for &doc in &self.found {
                if let Some(entry) = list.seek(doc) {
                    let sum = &mut self.sums[doc as usize];
                    sum.add(read, entry, sizes[doc as usize]);
                    self.best = (self.best.0.max(sum.turn), self.best.1.max(sum.window));
                }
            }
            return;
        }
        for &entry in read.list.entries() {
            let sum = &mut self.sums[entry.doc as usize];
            if sum.near > 0.0 {
                sum.add(read, entry, sizes[entry.doc as usize]);
                self.best = (self.best.0.max(sum.turn), self.best.1.max(sum.window));
            }
        }
    }

    /// Whether it pays to look which of the episodes that were found matter: there are few of them beside what is left to read, and what is
    /// left does not decide everything.
    fn is_short_beside(&self, rest: &[Read<'_>], hope: Option<Hope>) -> bool {
        let left: usize = rest.iter().map(|read| read.list.entries().len()).sum();
        if left <= self.found.len() * LEFT_FOR_EACH + MIN_LEFT {
            return false;
        }
        let missing = Missing::of(rest);
        match hope {
            None => missing.turn < self.best.0 * TOO_MUCH,
            Some(Hope { turn, window }) => {
                missing.turn < turn * TOO_MUCH_OF_ALL && missing.window < window * TOO_MUCH_OF_ALL
            }
        }
    }

    fn partial<'a>(&'a self, index: &Index, whole: f32, rest: &'a [Read<'a>]) -> Partial<'a> {
        let sessions = &self.sessions[..index.sessions.len()];
        Partial { found: &self.found, best: self.best, sums: &self.sums, sessions, whole, rest }
    }

    /// Adds the rest of the terms to the episodes that were kept, and to the sessions that matter: theirs, and those that may score best.
    /// Each term tells more of which episodes matter: returns those that still do.
    fn finish(
        &mut self,
        index: &Index,
        rest: &[Read<'_>],
        mut kept: Vec<u32>,
        prune: &Prune<'_>,
        bar: &Bar,
    ) -> Vec<u32> {
        kept.sort_unstable();
        let Missing { session: of_session, .. } = Missing::of(rest);
        for (at, read) in rest.iter().enumerate() {
            let mut list = read.list.cursor();
            for &doc in &kept {
                if let Some(entry) = list.seek(doc) {
                    self.sums[doc as usize].add(read, entry, index.sizes[doc as usize]);
                }
            }
            if kept.len() > FEW {
                let missing = Missing::of(&rest[at + 1..]);
                let (sums, sessions) = (&self.sums, &self.sessions);
                kept.retain(|&doc| prune.may_matter(bar, &missing, doc, &sums[doc as usize], sessions, of_session));
            }
        }
        self.finish_sessions(index, rest, &kept, bar.best[2], of_session);
        kept
    }

    fn finish_sessions(&mut self, index: &Index, rest: &[Read<'_>], kept: &[u32], best: f32, missing: f32) {
        let live = &self.sessions[..index.sessions.len()];
        let mut wanted: Vec<u32> = kept.iter().map(|&doc| index.places[doc as usize].session).collect();
        // One that holds terms of the rest alone may be the best only where these weigh more than all that was read.
        wanted.extend(live.iter().zip(0..).filter(|&(&sum, _)| sum + missing >= best * ALMOST).map(|(_, at)| at));
        wanted.sort_unstable();
        wanted.dedup();
        for read in rest {
            if wanted.len() * SEARCH_FROM > read.list.sessions().len() {
                read.add_to_sessions(&mut self.sessions, index);
                continue;
            }
            for &session in &wanted {
                if let Some(count) = read.list.in_session(session) {
                    let at = session as usize;
                    self.sessions[at] += read.session.score(count as f32, index.sessions[at].len);
                }
            }
        }
    }

    /// Hands out the hits, of `kept` where there is such, and leaves the accumulators as it found them.
    fn take(&mut self, index: &Index, whole: f32, least: f32, kept: Option<&[u32]>) -> (Vec<Hit>, Best) {
        let mut best = Best::default();
        let mut hits = Vec::with_capacity(64);
        // Those that score best in a channel are among the kept.
        for &doc in kept.unwrap_or(&self.found) {
            let sum = &self.sums[doc as usize];
            best.turn = best.turn.max(sum.turn);
            best.window = best.window.max(sum.window);
            if (sum.near / whole).min(1.0) >= least {
                hits.push(Hit::of(doc, sum, self.sessions[index.places[doc as usize].session as usize], whole));
            }
        }
        let sums = &mut self.sums[..index.sizes.len()];
        if self.found.len() > sums.len() / FILL_FROM {
            sums.fill(Sum::default());
        } else {
            self.found.iter().for_each(|&doc| sums[doc as usize] = Sum::default());
        }
        self.found.clear();
        self.best = (0.0, 0.0);
        best.session = self.sessions[..index.sessions.len()].iter().copied().fold(best.session, f32::max);
        self.clear_sessions(index);
        (hits, best)
    }

    fn clear_sessions(&mut self, index: &Index) {
        self.sessions[..index.sessions.len()].fill(0.0);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::memory::Episode;
    use crate::memory::text;
    use crate::recall::terms::MAX_TERMS;
    use crate::recall::tests::episode;

    const WORDS: [&str; 6] = ["kite", "harbour", "violin", "pepper", "glacier", "lantern"];

    fn scores(index: &Index) -> BTreeMap<u128, [u32; 4]> {
        let terms = QueryTerm::distinct(&text::analyse("kite harbour violin"), 1.0);
        let hits = Reads::of(index, &[index], &terms).map_or(Vec::new(), |reads| reads.score(0.0, None).hits);
        let round = |value: f32| (value * 1e4).round() as u32;
        hits.iter()
            .filter_map(|hit| Some((index.doc(hit.doc)?.episode.id.0, hit)))
            .map(|(id, hit)| (id, [round(hit.turn), round(hit.window), round(hit.session), round(hit.coverage)]))
            .collect()
    }

    fn any_episode() -> impl Strategy<Value = Episode> {
        (0_u128..12, 0..3, 0_i64..12, prop::collection::vec(0..WORDS.len(), 1..6)).prop_map(
            |(id, session, position, words)| {
                let text: Vec<&str> = words.into_iter().map(|word| WORDS[word]).collect();
                episode(id, &format!("s{session}"), position, &text.join(" "))
            },
        )
    }

    proptest! {
        #[test]
        fn an_index_that_grew_and_shrank_scores_like_one_made_anew(
            inserts in prop::collection::vec((any_episode(), any::<bool>()), 1..40),
        ) {
            let mut index = Index::default();
            for (episode, remove) in inserts {
                if remove {
                    index.remove(episode.id);
                } else {
                    index.insert(Arc::new(episode));
                }
            }
            for term in text::analyse(&WORDS.join(" ")) {
                prop_assert!(index.list(term.id).is_none_or(|list| list.is_bounded(&index.sizes)));
            }
            let mut anew = Index::default();
            for episode in index.episodes() {
                anew.insert(Arc::clone(episode));
            }
            prop_assert_eq!(scores(&index), scores(&anew));
            prop_assert_eq!(scores(&index), scores(&index), "one question leaves nothing behind for the next");
        }
    }

    #[test]
    fn a_neighbour_is_found_by_what_stands_beside_it() {
        let mut index = Index::default();
        for (id, position, text) in [(1, 0, "kite"), (2, 1, "pepper"), (3, 9, "glacier")] {
            index.insert(Arc::new(episode(id, "s", position, text)));
        }
        let scores = scores(&index);
        assert!(scores[&2][0] == 0 && scores[&2][1] > 0, "beside the kite");
        assert!(!scores.contains_key(&3), "too far from it");
    }

    #[test]
    fn a_question_of_very_many_words_is_scored_by_those_that_tell_most() {
        let mut index = Index::default();
        index.insert(Arc::new(episode(1, "s", 0, "violin")));
        let long: String = (0..5_000).map(|n| format!("word{n}x ")).collect::<String>() + "violin";
        let terms = QueryTerm::distinct(&text::analyse(&long), 1.0);
        assert!(terms.len() > MAX_TERMS);
        assert_eq!(Reads::of(&index, &[&index], &terms).unwrap().score(0.0, None).hits.len(), 1);
    }
}
