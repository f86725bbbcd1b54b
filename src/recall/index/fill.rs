//! A scope read whole: the same index as one episode after the other makes, for a part of the work.
//!
//! One after the other, each turn changes what is known of the turns beside it, in the middle of lists. When all are known before any is
//! listed, every list is written once, from front to back.

use super::{Index, NONE, Studied, is_near};
use crate::memory::EpisodeStatus;

/// An index that is being filled.
#[derive(Debug, Default)]
pub(in crate::recall) struct Filling {
    index: Index,
    /// Those whose id came before: they take its place at the end.
    again: Vec<Studied>,
}

impl Filling {
    /// Takes in an episode. Such as cannot be recalled are left out.
    pub(in crate::recall) fn add(&mut self, studied: Studied) {
        let index = &mut self.index;
        if index.by_id.contains_key(&studied.episode.id) {
            self.again.push(studied);
            return;
        }
        let Some(doc) = u32::try_from(index.docs.len()).ok().filter(|&doc| doc != NONE) else { return };
        if studied.episode.status == EpisodeStatus::Active {
            let position = studied.episode.position;
            let session = index.describe(doc, studied.episode, studied.found);
            index.sessions[session as usize].order.push((position, doc));
        }
    }

    /// The index over all of them.
    pub(in crate::recall) fn finish(self) -> Index {
        let Self { mut index, again } = self;
        index.link_all();
        index.list_all();
        index.insert_all(again);
        index
    }
}

impl Index {
    /// Makes neighbours of what stands beside each other.
    fn link_all(&mut self) {
        self.live_sessions = self.sessions.len();
        for session in &mut self.sessions {
            session.order.sort_unstable();
            session.len = session.order.iter().map(|&(_, doc)| self.sizes[doc as usize].turn).sum();
            for pair in session.order.windows(2) {
                let [(left, prev), (right, next)] = [pair[0], pair[1]];
                if is_near(left, right) {
                    self.beside[prev as usize][1] = next;
                    self.beside[next as usize][0] = prev;
                }
            }
        }
    }

    /// Lists the terms of every document, by itself and with its neighbours.
    fn list_all(&mut self) {
        for doc in 0..u32::try_from(self.docs.len()).unwrap_or(NONE) {
            let terms =
                |doc: u32| self.docs.get(doc as usize).and_then(Option::as_ref).map_or(&[][..], |doc| &doc.terms);
            let (session, len) = (self.places[doc as usize].session, self.sizes[doc as usize].turn);
            self.lists.add_own(doc, session, len, terms(doc));
            let mut window = len;
            for beside in self.beside[doc as usize] {
                self.lists.add_near(doc, terms(beside));
                window += self.sizes.get(beside as usize).map_or(0, |size| size.turn);
            }
            self.sizes[doc as usize].window = window;
            self.total_window += u64::from(window);
            let [prev, next] = self.beside[doc as usize];
            for holder in [doc, prev, next] {
                self.lists.bound(doc, &self.sizes, terms(holder));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::memory::Episode;
    use crate::recall::rank::tests::any_episodes;
    use crate::recall::tests::episode;

    fn filled(episodes: &[Episode]) -> Index {
        let mut filling = Filling::default();
        for episode in episodes {
            filling.add(Studied::of(Arc::new(episode.clone())));
        }
        filling.finish()
    }

    /// What the index knows, but for the bounds of lists: those of one that grew may be wider than they need be.
    fn told(index: &Index) -> Vec<String> {
        let episodes = index.docs.iter().flatten();
        let words: HashSet<_> =
            episodes.flat_map(|doc| crate::memory::text::analyse(&doc.episode.text)).map(|term| term.id).collect();
        let mut told: Vec<String> = words
            .into_iter()
            .filter_map(|term| Some((term, index.list(term)?)))
            .map(|(term, list)| format!("{term:?} {:?} {:?} {}", list.entries(), list.sessions(), list.turns()))
            .collect();
        told.sort();
        told.push(format!("{:?} {:?} {:?} {:?}", index.places, index.beside, index.sizes, index.sessions));
        told.push(format!("{} {} {} {}", index.total_len, index.total_window, index.live_sessions, index.bytes));
        told
    }

    proptest! {
        #[test]
        fn an_index_that_was_filled_is_the_one_that_grew(episodes in any_episodes()) {
            let mut grown = Index::default();
            for episode in &episodes {
                grown.insert(Arc::new(episode.clone()));
            }
            prop_assert_eq!(told(&filled(&episodes)), told(&grown));
        }
    }

    #[test]
    fn of_one_id_the_last_stands() {
        let texts = ["kite", "violin", "pepper"];
        let episodes: Vec<Episode> = (0..3).map(|n| episode(n % 2, "s", n as i64, texts[n as usize])).collect();
        let index = filled(&episodes);
        let mut held: Vec<&str> = index.episodes().map(|episode| episode.text.as_str()).collect();
        held.sort_unstable();
        assert_eq!(held, ["pepper", "violin"]);
        assert!(index.list(crate::memory::text::analyse("kite")[0].id).is_none());
    }
}
