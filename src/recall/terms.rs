//! The terms of a question, what each tells in an index, and the formula (BM25) by which it scores.

use std::collections::HashSet;
use std::hash::BuildHasherDefault;

use super::index::Index;
use super::lists::{List, Most, TermHasher};
use super::prune::Missing;
use super::score::Best;
use crate::memory::text::{Form, Term, TermId};

/// Saturation of repeats and weight of length, per channel. Short turns repeat little, so length matters less than in prose.
const TURN: Bm25 = Bm25 { k1: 1.2, b: 0.4 };
const WINDOW: Bm25 = Bm25 { k1: 1.2, b: 0.5 };
const SESSION: Bm25 = Bm25 { k1: 1.2, b: 0.5 };

/// At most so many terms of a question are scored: those that tell most.
pub(super) const MAX_TERMS: usize = 48;
/// A long message is about several things, and a memory need not cover them all: its floor is reckoned on its strongest terms.
pub(super) const FLOOR_TERMS: usize = 8;

#[derive(Clone, Copy)]
struct Bm25 {
    k1: f32,
    b: f32,
}

impl Bm25 {
    /// The formula for texts of this average length and a term of this weight.
    fn with(self, weight: f32, average: f32) -> Scorer {
        Scorer {
            weight: weight * (self.k1 + 1.0),
            flat: self.k1 * (1.0 - self.b),
            by_len: self.k1 * self.b / average.max(1.0),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Scorer {
    /// What no count can exceed.
    weight: f32,
    flat: f32,
    by_len: f32,
}

impl Scorer {
    pub(super) fn score(self, count: f32, len: u32) -> f32 {
        self.weight * count / (count + self.flat + self.by_len * len as f32)
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

/// A term of a question in one index.
#[derive(Clone, Copy, Debug)]
pub(super) struct Read<'a> {
    pub(super) list: &'a List,
    pub(super) turn: Scorer,
    pub(super) window: Scorer,
    pub(super) session: Scorer,
    /// What it tells.
    pub(super) information: f32,
    pub(super) telling: u32,
}

impl<'a> Read<'a> {
    pub(super) fn of(index: &'a Index, all: &[&Index], (term, information): (QueryTerm, f32)) -> Option<Self> {
        let list = index.list(term.id)?;
        let sum = |count: fn(&List) -> usize| all.iter().filter_map(|i| i.list(term.id)).map(count).sum::<usize>();
        let live: usize = all.iter().map(|index| index.len()).sum();
        let sessions: usize = all.iter().map(|index| index.live_sessions).sum();
        let turns = index.len() as f32;
        let per_session = index.total_len as f32 / index.live_sessions.max(1) as f32;
        Some(Self {
            list,
            turn: TURN.with(term.weight * idf(live, sum(List::turns)), index.total_len as f32 / turns),
            window: WINDOW
                .with(term.weight * idf(live, sum(|list| list.entries().len())), index.total_window as f32 / turns),
            session: SESSION.with(term.weight * idf(sessions, sum(|list| list.sessions().len())), per_session),
            // Never zero: by it an episode is known to be found.
            information: information.max(f32::MIN_POSITIVE),
            telling: u32::from(term.form.is_telling()),
        })
    }
}

impl Read<'_> {
    /// The most that entries within these bounds can score, as turns and with their neighbours.
    pub(super) fn most(&self, most: &Most) -> (f32, f32) {
        (self.turn.score(most.own.into(), most.turn), self.window.score(most.near.into(), most.window))
    }
}

/// How many of the last terms together tell less than `least`.
pub(super) fn common(reads: &[Read<'_>], least: f32) -> usize {
    let mut sum = 0.0;
    reads
        .iter()
        .rev()
        .take_while(|read| {
            sum += read.information;
            sum < least
        })
        .count()
}

impl Missing {
    /// Adds what one more term can.
    pub(super) fn add(&mut self, more: Self) {
        self.turn += more.turn;
        self.window += more.window;
        self.session += more.session;
        self.information += more.information;
    }

    /// The most that these terms can add.
    pub(super) fn of(rest: &[Read<'_>]) -> Self {
        let mut sum = Self::default();
        for read in rest {
            let (turn, window) = read.most(&read.list.most);
            let (count, shortest) = read.list.most_in_session;
            let session = read.session.score(count as f32, shortest);
            sum.add(Self { turn, window, session, information: read.information });
        }
        sum
    }
}

/// The most that an episode can score by these terms alone.
pub(super) fn beyond(common: &[Read<'_>]) -> Best {
    common.iter().fold(Best::default(), |sum, read| Best {
        turn: sum.turn + read.turn.weight,
        window: sum.window + read.window.weight,
        session: sum.session,
    })
}

/// The terms to score, strongest first, with the information that each carries here; at most [`MAX_TERMS`].
pub(super) fn strongest(all: &[&Index], terms: &[QueryTerm]) -> Vec<(QueryTerm, f32)> {
    let live = all.iter().map(|index| index.len()).sum();
    let holding = |term: TermId| all.iter().filter_map(|index| index.list(term)).map(List::turns).sum::<usize>();
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
    known.sort_by(|a, b| b.1.total_cmp(&a.1));
    if known.len() > MAX_TERMS {
        // What is not here cannot score, only weigh on the floor, and that reckons with the strongest few anyway.
        let (mut here, away): (Vec<_>, Vec<_>) = known.into_iter().partition(|(term, _)| holding(term.id) > 0);
        here.truncate(MAX_TERMS - FLOOR_TERMS);
        here.extend(away.into_iter().take(FLOOR_TERMS));
        here.sort_by(|a, b| b.1.total_cmp(&a.1));
        return here;
    }
    known
}

fn idf(all: usize, with: usize) -> f32 {
    let (all, with) = (all as f32, with as f32);
    (1.0 + (all - with + 0.5).max(0.0) / (with + 0.5)).ln()
}
