//! The short way to the best, where a person has spoken of the same things by the thousand, so that telling terms have long lists.
//!
//! Block by block of documents, the lists know what their entries score at most. The strongest terms (the members) are read only in blocks
//! where something can come of it, and the others only for what may still be among the best. A few of the most promising are scored to the
//! end first: they say what the rest has to come up with. Then whatever may come up with that is scored as well, until there is no more.
//!
//! Exact, as `prune` is.

use std::ops::Range;

use super::{Best, Hit, Reads, Scored, Scratch, Sum};
use crate::recall::lists::BLOCK;
use crate::recall::prune::{Bar, Missing, Probe, Prune};
use crate::recall::terms::Read;

/// Less is soon ranked as it is.
const MIN_EPISODES: usize = if cfg!(test) { 1 } else { 2_048 };
/// A shorter list is soon read.
const LONG: usize = if cfg!(test) { 8 } else { 512 };
/// A term that more than one in so many episodes hold is no member.
const RARE: usize = 5;
/// At most so many terms are members.
const MEMBERS: usize = 3;
/// So many times as many are scored first as are wanted, since some do not count.
const FEW: usize = 4;
/// What a block scores at most, as a share of the best block, for its episodes to be among those.
const PROMISING: f32 = 0.8;
/// More are too many to be scored to the end.
const MOST: usize = if cfg!(test) { 64 } else { 2_048 };
/// In so many blocks what holds no member is looked at, as long as these are no more than three quarters of all.
const OPEN: usize = 64;
/// How often what was scored may call for more.
const ROUNDS: usize = 3;

/// What the episodes of one block score at most.
#[derive(Clone, Copy, Debug, Default)]
struct Block {
    /// By the terms that are no members and have long lists.
    rest: Missing,
    /// With the members.
    all: Missing,
}

/// A document with a member, and what it scores by the members.
type Holder = (u32, Sum);

/// The documents with a member, block by block, as far as they were asked for.
struct Holders<'a> {
    read: &'a mut Vec<Holder>,
    /// Where those of a block stand; `None` when it was not read.
    blocks: Vec<Option<Range<usize>>>,
}

/// Documents that were scored to the end.
#[derive(Debug, Default)]
struct Judged {
    docs: Vec<u32>,
    /// As many, of these documents.
    sums: Vec<Sum>,
    probes: Vec<Probe>,
    best: Best,
}

/// A question on the short way.
struct Way<'a> {
    reads: &'a Reads<'a>,
    prune: &'a Prune<'a>,
    members: Vec<&'a Read<'a>>,
    blocks: Vec<Block>,
    /// What the terms that were not read add to a session at most.
    of_session: f32,
}

impl Reads<'_> {
    /// Scores as [`Reads::score`] does; `None`, and nothing is changed, where this way is none.
    pub(super) fn score_together(&self, scratch: &mut Scratch, least: f32, prune: &Prune<'_>) -> Option<Scored> {
        let way = Way::of(self, prune)?;
        scratch.fit(self.index);
        let Scratch { holders, sessions, .. } = scratch;
        holders.clear();
        let scored = way.go(Holders { read: holders, blocks: vec![None; way.blocks.len()] }, sessions, least);
        scratch.clear_sessions(self.index);
        scored
    }
}

impl<'a> Way<'a> {
    fn of(reads: &'a Reads<'a>, prune: &'a Prune<'a>) -> Option<Self> {
        let episodes = reads.index.len();
        if episodes < MIN_EPISODES || !prune.is_worth(episodes) {
            return None;
        }
        let long = || reads.reads.iter().filter(|read| read.list.blocks().is_some());
        let is_rare = |read: &&Read<'_>| read.list.entries().len() * RARE <= episodes;
        let members: Vec<&Read<'_>> = long().take_while(is_rare).take(MEMBERS).collect();
        if members.first()?.list.entries().len() < LONG {
            return None;
        }
        let rest: Vec<Read<'_>> = long().skip(members.len()).copied().collect();
        let mut blocks = vec![Block::default(); reads.index.sizes.len().div_ceil(BLOCK as usize)];
        for read in &rest {
            each_block(read, |block, most| blocks[block].rest.add(most));
        }
        blocks.iter_mut().for_each(|block| block.all = block.rest);
        for read in &members {
            each_block(read, |block, most| blocks[block].all.add(most));
        }
        let Missing { session: of_session, .. } = Missing::of(&rest);
        Some(Self { reads, prune, members, blocks, of_session })
    }

    fn go(&self, mut holders: Holders<'_>, sessions: &mut [f32], least: f32) -> Option<Scored> {
        let Reads { index, ref reads, whole } = *self.reads;
        // Whoever holds a term with a short list is scored.
        let short = || reads.iter().filter(|read| read.list.blocks().is_none());
        short().chain(self.members.iter().copied()).for_each(|read| read.add_to_sessions(sessions, index));
        let mut docs: Vec<u32> = short().flat_map(|read| read.list.entries()).map(|entry| entry.doc).collect();
        docs.extend(self.most_promising(&mut holders));
        let mut judged = Judged::default();
        for _ in 0..ROUNDS {
            let best = judged.best;
            self.judge(std::mem::take(&mut docs), &mut judged, sessions);
            // As long as the best scores are the same, whoever was left out before has no less to come up with now.
            if judged.best != best {
                docs = self.more(&judged, &mut holders, sessions)?;
            }
            if docs.is_empty() {
                let found = judged.docs.iter().zip(&judged.sums).filter(|(_, sum)| sum.near > 0.0);
                let session = |doc: u32| sessions[index.places[doc as usize].session as usize];
                let hits = found.map(|(&doc, sum)| Hit::of(doc, sum, session(doc), whole));
                let hits = hits.filter(|hit| hit.coverage >= least).collect();
                return Some(Scored { hits, best: judged.best, beyond: Best::default() });
            }
        }
        None
    }

    /// Some of the most promising, by what they hold of the members and what their block holds of the rest.
    fn most_promising(&self, holders: &mut Holders<'_>) -> impl Iterator<Item = u32> {
        let words = |most: &Missing| self.prune.words(most.turn, most.window);
        let best = self.blocks.iter().map(|block| words(&block.all)).fold(0.0, f32::max);
        let most = self.prune.limit * FEW;
        let mut promising: Vec<(f32, u32)> = Vec::with_capacity(2 * most);
        let truncate = |promising: &mut Vec<(f32, u32)>| {
            promising.select_nth_unstable_by(most - 1, |a, b| b.0.total_cmp(&a.0));
            promising.truncate(most);
            promising[most - 1].0
        };
        let mut least = f32::NEG_INFINITY;
        self.each_holder(
            holders,
            |block| words(&block.all) >= best * PROMISING,
            |doc, sum, block| {
                let words = self.prune.words(sum.turn + block.rest.turn, sum.window + block.rest.window);
                // Only what has the words is looked at for who said it.
                if words * self.prune.most_role() > least {
                    promising.push((words * self.prune.role(doc), doc));
                    if promising.len() == 2 * most {
                        least = truncate(&mut promising);
                    }
                }
            },
        );
        if promising.len() > most {
            truncate(&mut promising);
        }
        promising.into_iter().map(|(_, doc)| doc)
    }

    /// Calls `take` for each document with a member in the blocks that are wanted, with what it scores by the members.
    fn each_holder(
        &self,
        holders: &mut Holders<'_>,
        wanted: impl Fn(&Block) -> bool,
        mut take: impl FnMut(u32, &Sum, &Block),
    ) {
        let mut cursors: Vec<_> = self.members.iter().map(|read| (*read, read.list.cursor())).collect();
        let mut at = [0_u16; BLOCK as usize];
        for (number, block) in self.blocks.iter().enumerate().filter(|(_, block)| wanted(block)) {
            let known = holders.blocks[number].get_or_insert_with(|| {
                let first = number as u32 * BLOCK;
                let start = holders.read.len();
                at.fill(0);
                for (read, cursor) in &mut cursors {
                    for &entry in cursor.until(first, first + BLOCK) {
                        let at = &mut at[(entry.doc - first) as usize];
                        if *at == 0 {
                            holders.read.push((entry.doc, Sum::default()));
                            *at = (holders.read.len() - start) as u16;
                        }
                        let size = self.reads.index.sizes[entry.doc as usize];
                        holders.read[start + usize::from(*at) - 1].1.add(read, entry, size);
                    }
                }
                start..holders.read.len()
            });
            for (doc, sum) in &holders.read[known.clone()] {
                take(*doc, sum, block);
            }
        }
    }

    /// The documents beside those that were scored that may matter by what is known of them; `None` when they are too many, or when those
    /// that were scored are not enough to tell.
    fn more(&self, judged: &Judged, holders: &mut Holders<'_>, sessions: &[f32]) -> Option<Vec<u32>> {
        let scores = [judged.best.turn, judged.best.window, judged.best.session];
        let bar = self.prune.bar_of(&judged.probes, scores, scores, self.reads.whole)?;
        let may_matter = |most: &Missing| bar.may_be_best(most.turn, most.window) || self.prune.may_reach(&bar, most);
        let open: Vec<bool> = self.blocks.iter().map(|block| may_matter(&block.rest)).collect();
        let opened = open.iter().filter(|open| **open).count();
        if opened > OPEN || opened * 4 > open.len() * 3 {
            return None;
        }
        let mut more = Vec::new();
        let mut look = |doc: u32, sum: &Sum, block: &Block| {
            if self.prune.may_matter(&bar, &block.rest, doc, sum, sessions, self.of_session) {
                more.push(doc);
            }
        };
        self.each_holder(holders, |block| may_matter(&block.all), &mut look);
        if opened > 0 {
            self.look_at_the_rest(&bar, sessions, &open, look);
        }
        let mut known = judged.docs.clone();
        known.sort_unstable();
        more.retain(|doc| known.binary_search(doc).is_err());
        more.sort_unstable();
        more.dedup();
        (known.len() + more.len() <= MOST).then_some(more)
    }

    /// Calls `look` for the documents of open blocks that may matter although they hold no member: that takes a session that scores enough,
    /// and few do.
    fn look_at_the_rest(&self, bar: &Bar, sessions: &[f32], open: &[bool], mut look: impl FnMut(u32, &Sum, &Block)) {
        let mut most = Missing::default();
        for (Block { rest, .. }, _) in self.blocks.iter().zip(open).filter(|(_, open)| **open) {
            (most.turn, most.window) = (most.turn.max(rest.turn), most.window.max(rest.window));
        }
        // What may be the best turn, or the best with its neighbours, may be so in any session.
        let any = bar.may_be_best(most.turn, most.window);
        let least = if any { 0.0 } else { self.prune.least_session(bar, &most) };
        let all = self.reads.index.sessions.iter().zip(sessions);
        for (session, _) in all.filter(|(_, sum)| **sum + self.of_session >= least) {
            for doc in session.docs() {
                let block = (doc / BLOCK) as usize;
                if open[block] {
                    look(doc, &Sum::default(), &self.blocks[block]);
                }
            }
        }
    }

    /// Scores these documents to the end, beside those that were before.
    fn judge(&self, mut docs: Vec<u32>, judged: &mut Judged, sessions: &mut [f32]) {
        docs.sort_unstable();
        docs.dedup();
        let index = self.reads.index;
        let mut sums = vec![Sum::default(); docs.len()];
        for read in &self.reads.reads {
            let mut list = read.list.cursor();
            for (&doc, sum) in docs.iter().zip(&mut sums) {
                if let Some(entry) = list.seek(doc) {
                    sum.add(read, entry, index.sizes[doc as usize]);
                }
            }
        }
        let session = self.finish_sessions(&docs, judged.best.session, sessions);
        judged.best = sums.iter().fold(Best { session, ..judged.best }, |best, sum| Best {
            turn: best.turn.max(sum.turn),
            window: best.window.max(sum.window),
            ..best
        });
        let found = docs.iter().zip(&sums).filter(|(_, sum)| sum.near > 0.0);
        judged.probes.extend(found.filter_map(|(&doc, &sum)| self.prune.probe(doc, sum, sessions)));
        judged.docs.extend(docs);
        judged.sums.extend(sums);
    }

    /// Scores the sessions of these documents to the end, and those that may be the best; returns what the best scores, which was that.
    fn finish_sessions(&self, docs: &[u32], best: f32, sessions: &mut [f32]) -> f32 {
        let index = self.reads.index;
        let mut known: Vec<u32> = docs.iter().map(|&doc| index.places[doc as usize].session).collect();
        known.sort_unstable();
        known.dedup();
        let best = best.max(self.finish_these(&known, sessions));
        let partial = &sessions[..index.sessions.len()];
        let may_be_best = (0_u32..).zip(partial).filter(|&(_, sum)| sum + self.of_session >= best * super::ALMOST);
        let others: Vec<u32> =
            may_be_best.map(|(session, _)| session).filter(|session| known.binary_search(session).is_err()).collect();
        best.max(self.finish_these(&others, sessions))
    }

    /// Scores these sessions anew, in order, by all terms; returns what the best scores.
    fn finish_these(&self, these: &[u32], sessions: &mut [f32]) -> f32 {
        let mut sums = vec![0.0; these.len()];
        for read in &self.reads.reads {
            let mut list = read.list.session_cursor();
            for (&session, sum) in these.iter().zip(&mut sums) {
                if let Some((_, count)) = list.seek(session) {
                    *sum += read.session.score(count as f32, self.reads.index.sessions[session as usize].len);
                }
            }
        }
        these.iter().zip(&sums).for_each(|(&session, &sum)| sessions[session as usize] = sum);
        sums.iter().copied().fold(0.0, f32::max)
    }
}

/// Calls `add` with what a term adds to each block at most.
fn each_block(read: &Read<'_>, mut add: impl FnMut(usize, Missing)) {
    for (block, most) in read.list.blocks().unwrap_or_default() {
        let (turn, window) = read.most(most);
        add(*block as usize, Missing { turn, window, session: 0.0, information: read.information });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::memory::text;
    use crate::recall::exclude::Exclude;
    use crate::recall::index::Index;
    use crate::recall::query::RecallConfig;
    use crate::recall::rank::Asked;
    use crate::recall::rank::tests::{ask, prune_for};
    use crate::recall::tests::episode;

    /// Whom the short way scores, where there is one.
    fn short_way(index: &Index, question: &str, limit: usize) -> Option<Vec<u32>> {
        let query = ask(question.to_owned(), Exclude::default());
        let (asked, config) = (Asked::new(&query), RecallConfig::default());
        let terms = crate::recall::terms::QueryTerm::distinct(&text::analyse(question), 1.0);
        let reads = Reads::of(index, &[index], &terms).unwrap();
        let prune = prune_for(index, &asked, &config, limit);
        let scored = reads.score_together(&mut Scratch::default(), 0.16, &prune)?;
        Some(scored.hits.iter().map(|hit| hit.doc).collect())
    }

    fn trips(count: usize) -> Index {
        let places = ["lisbon", "oslo", "ghent", "porto", "bergen", "turin", "graz"];
        let things = ["ferry", "luggage", "berth", "refund", "voucher", "heater"];
        let mut index = Index::default();
        for n in 0..count {
            let text = format!("number {n}: the {} to {}", things[n % 6], places[n % 7]);
            index.insert(Arc::new(episode(n as u128, &format!("s{n}"), 0, &text)));
        }
        index
    }

    #[test]
    fn where_many_hold_two_telling_words_only_they_are_scored() {
        let docs = short_way(&trips(600), "my ferry to lisbon", 4).expect("both words are in long lists");
        assert_eq!(docs.iter().filter(|doc| *doc % 42 == 0).count(), 15, "all that hold both");
        assert!(docs.len() < 40, "and few others: {}", docs.len());
    }

    #[test]
    fn whoever_holds_a_word_that_few_do_is_scored_as_well() {
        let mut index = trips(600);
        for n in 0..3 {
            index.insert(Arc::new(episode(1_000 + n, &format!("w{n}"), 0, &format!("a walnut, {n}"))));
        }
        let docs = short_way(&index, "my walnut on the ferry to lisbon", 4).expect("as without the walnuts");
        assert!(docs.iter().filter(|doc| **doc >= 600).count() == 3 && docs.len() < 40);
    }

    #[test]
    fn where_nothing_can_be_told_there_is_no_short_way() {
        assert_eq!(short_way(&trips(600), "my luggage and my walnut", 20), None, "too many are alike");
        assert_eq!(short_way(&trips(3), "my ferry to lisbon", 4), None, "too few to be worth it");
    }
}
