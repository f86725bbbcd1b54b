//! BM25 over the three channels, exact, in one pass over the posting lists.

use std::cell::RefCell;
use std::collections::HashSet;
use std::hash::BuildHasherDefault;

use super::index::{Index, NONE, Place, TermHasher};
use crate::memory::text::{Form, Term, TermId};

/// Saturation of repeats and weight of length, per channel. Short turns repeat little, so length matters less than in prose.
const TURN: Bm25 = Bm25 { k1: 1.2, b: 0.4 };
const WINDOW: Bm25 = Bm25 { k1: 1.2, b: 0.5 };
const SESSION: Bm25 = Bm25 { k1: 1.2, b: 0.5 };

/// At most so many terms of a question are scored: those that tell most.
const MAX_TERMS: usize = 48;
/// A long message is about several things, and a memory need not cover them all: its floor is reckoned on its strongest terms.
const FLOOR_TERMS: usize = 8;

#[derive(Clone, Copy)]
struct Bm25 {
    k1: f32,
    b: f32,
}

impl Bm25 {
    fn score(self, count: f32, len: u32, average: f32) -> f32 {
        let norm = self.k1 * (1.0 - self.b + self.b * len as f32 / average);
        count * (self.k1 + 1.0) / (count + norm)
    }
}

/// One term of a question.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueryTerm {
    pub(super) id: TermId,
    pub(super) weight: f32,
    pub(super) form: Form,
}

impl QueryTerm {
    /// The distinct terms of an analysed text, each weight times `share`.
    pub(super) fn distinct(terms: &[Term], share: f32) -> Vec<Self> {
        let mut seen: HashSet<TermId, BuildHasherDefault<TermHasher>> = HashSet::default();
        let mut distinct = Vec::with_capacity(terms.len());
        for term in terms {
            if seen.insert(term.id) {
                distinct.push(Self { id: term.id, weight: term.weight() * share, form: term.form });
            }
        }
        distinct
    }
}

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

/// Accumulators, one slot a document; zero between two questions. One a thread, so that they are not made anew each time.
#[derive(Debug, Default)]
struct Scratch {
    turn: Vec<f32>,
    window: Vec<f32>,
    own: Vec<u64>,
    near: Vec<u64>,
    count: Vec<f32>,
    session: Vec<f32>,
    session_count: Vec<f32>,
    touched: Vec<u32>,
    touched_now: Vec<u32>,
    touched_sessions: Vec<u32>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// Scores every episode of `index` that holds a term of the question, or stands beside one that does. How rare a term is, is reckoned
/// over `all` indexes that are asked together, so that scores of a small scope can stand beside those of a large one.
pub(super) fn score(index: &Index, all: &[&Index], terms: &[QueryTerm]) -> Vec<Hit> {
    if index.len() == 0 || terms.is_empty() {
        return Vec::new();
    }
    let terms = strongest(all, terms);
    let others: Vec<&Index> = all.iter().copied().filter(|other| !std::ptr::eq(*other, index)).collect();
    SCRATCH.with_borrow_mut(|scratch| {
        scratch.fit(index.places.len(), index.sessions.len());
        for (bit, (term, _)) in terms.iter().enumerate() {
            scratch.add(index, &others, *term, 1 << bit);
        }
        scratch.take(index, &terms)
    })
}

/// The terms to score with the information that each carries here; at most [`MAX_TERMS`].
fn strongest(all: &[&Index], terms: &[QueryTerm]) -> Vec<(QueryTerm, f32)> {
    let live = all.iter().map(|index| index.len()).sum();
    let holding = |term: TermId| all.iter().map(|index| index.postings(term).len()).sum::<usize>();
    let mut known: Vec<(QueryTerm, f32)> = terms
        .iter()
        .map(|&term| {
            let found = holding(term.id);
            // A pair that no memory holds most likely spans two words ("猫叫"): it says less than a word that nobody said.
            let doubt = if found == 0 && term.form == Form::Pair { 0.4 } else { 1.0 };
            let form = match term.form {
                Form::Common => 0.5,
                Form::Code => 2.0,
                _ => 1.0,
            };
            // A word that no memory holds is reckoned as rare, not as rarer than any that one does.
            (term, doubt * form * term.weight * idf(live, found.max(1)))
        })
        .collect();
    if known.len() > MAX_TERMS {
        // What is not here cannot score, only weigh on the floor, and that reckons with the strongest few anyway.
        known.sort_by(|a, b| b.1.total_cmp(&a.1));
        let (mut here, away): (Vec<_>, Vec<_>) = known.into_iter().partition(|(term, _)| holding(term.id) > 0);
        here.truncate(MAX_TERMS - FLOOR_TERMS);
        here.extend(away.into_iter().take(FLOOR_TERMS));
        return here;
    }
    known
}

fn idf(all: usize, with: usize) -> f32 {
    let (all, with) = (all as f32, with as f32);
    (1.0 + (all - with + 0.5).max(0.0) / (with + 0.5)).ln()
}

/// How common a term is in the other scopes that are asked; for windows and sessions, which are not counted there, at most.
#[derive(Debug, Default)]
struct Elsewhere {
    turns: usize,
    holding: usize,
    near: usize,
    sessions: usize,
    sessions_holding: usize,
}

impl Elsewhere {
    fn of(others: &[&Index], term: TermId) -> Self {
        others.iter().fold(Self::default(), |sum, other| {
            let holding = other.postings(term).len();
            Self {
                turns: sum.turns + other.len(),
                holding: sum.holding + holding,
                near: sum.near + (3 * holding).min(other.len()),
                sessions: sum.sessions + other.live_sessions,
                sessions_holding: sum.sessions_holding + holding.min(other.live_sessions),
            }
        })
    }
}

impl Scratch {
    fn fit(&mut self, docs: usize, sessions: usize) {
        if self.turn.len() < docs {
            self.turn.resize(docs, 0.0);
            self.window.resize(docs, 0.0);
            self.own.resize(docs, 0);
            self.near.resize(docs, 0);
            self.count.resize(docs, 0.0);
        }
        if self.session.len() < sessions {
            self.session.resize(sessions, 0.0);
            self.session_count.resize(sessions, 0.0);
        }
    }

    fn add(&mut self, index: &Index, others: &[&Index], term: QueryTerm, bit: u64) {
        let list = index.postings(term.id);
        let live = index.len() as f32;
        let average = (index.total_len as f32 / live).max(1.0);
        let elsewhere = Elsewhere::of(others, term.id);
        let weight = term.weight * idf(index.len() + elsewhere.turns, list.len() + elsewhere.holding);
        for posting in list {
            let place = index.places[posting.doc as usize];
            let count = posting.count as f32;
            self.turn[posting.doc as usize] += weight * TURN.score(count, place.len, average);
            self.own[posting.doc as usize] |= bit;
            for doc in [posting.doc, place.prev, place.next] {
                self.spread(doc, count);
            }
            let session = place.session as usize;
            if self.session_count[session] == 0.0 {
                self.touched_sessions.push(place.session);
            }
            self.session_count[session] += count;
        }
        self.settle_windows(index, &elsewhere, term.weight, bit);
        self.settle_sessions(index, &elsewhere, term.weight);
    }

    fn spread(&mut self, doc: u32, count: f32) {
        if doc == NONE {
            return;
        }
        let slot = &mut self.count[doc as usize];
        if *slot == 0.0 {
            self.touched_now.push(doc);
        }
        *slot += count;
    }

    fn settle_windows(&mut self, index: &Index, elsewhere: &Elsewhere, weight: f32, bit: u64) {
        let average = (index.total_window as f32 / index.len() as f32).max(1.0);
        let weight = weight * idf(index.len() + elsewhere.turns, self.touched_now.len() + elsewhere.near);
        for doc in self.touched_now.drain(..) {
            let at = doc as usize;
            let Place { window, .. } = index.places[at];
            let count = std::mem::take(&mut self.count[at]);
            if self.near[at] == 0 {
                self.touched.push(doc);
            }
            self.near[at] |= bit;
            self.window[at] += weight * WINDOW.score(count, window, average);
        }
    }

    fn settle_sessions(&mut self, index: &Index, elsewhere: &Elsewhere, weight: f32) {
        let average = (index.total_len as f32 / index.live_sessions.max(1) as f32).max(1.0);
        let weight = weight
            * idf(index.live_sessions + elsewhere.sessions, self.touched_sessions.len() + elsewhere.sessions_holding);
        for session in self.touched_sessions.drain(..) {
            let at = session as usize;
            let count = std::mem::take(&mut self.session_count[at]);
            self.session[at] += weight * SESSION.score(count, index.sessions[at].len, average);
        }
    }

    /// Hands out the hits and leaves the accumulators as it found them.
    fn take(&mut self, index: &Index, terms: &[(QueryTerm, f32)]) -> Vec<Hit> {
        let mut information: Vec<f32> = terms.iter().map(|&(_, information)| information).collect();
        information.sort_by(|a, b| b.total_cmp(a));
        let whole: f32 = information.iter().take(FLOOR_TERMS).sum::<f32>().max(f32::MIN_POSITIVE);
        let telling = terms
            .iter()
            .enumerate()
            .fold(0_u64, |mask, (bit, (term, _))| mask | u64::from(term.form.is_telling()) << bit);
        let share = |mask: u64| (bits(mask).map(|bit| terms[bit].1).sum::<f32>() / whole).min(1.0);
        let mut hits = Vec::with_capacity(self.touched.len());
        for doc in self.touched.drain(..) {
            let at = doc as usize;
            let own = std::mem::take(&mut self.own[at]);
            let near = std::mem::take(&mut self.near[at]);
            hits.push(Hit {
                doc,
                turn: std::mem::take(&mut self.turn[at]),
                window: std::mem::take(&mut self.window[at]),
                session: self.session[index.places[at].session as usize],
                own: share(own),
                coverage: share(near),
                telling: (near & telling).count_ones(),
            });
        }
        self.session[..index.sessions.len()].fill(0.0);
        hits
    }
}

fn bits(mut mask: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        (mask != 0).then(|| {
            let bit = mask.trailing_zeros() as usize;
            mask &= mask - 1;
            bit
        })
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::memory::Episode;
    use crate::memory::text;
    use crate::recall::tests::episode;

    const WORDS: [&str; 6] = ["kite", "harbour", "violin", "pepper", "glacier", "lantern"];

    fn scores(index: &Index) -> BTreeMap<u128, [u32; 4]> {
        let terms = QueryTerm::distinct(&text::analyse("kite harbour violin"), 1.0);
        let hits = score(index, &[index], &terms);
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
        assert_eq!(score(&index, &[&index], &terms).len(), 1);
    }
}
