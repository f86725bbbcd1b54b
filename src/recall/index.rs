//! The inverted index of one scope: which episode holds which term, in which session, beside which others.
//!
//! One posting list a term serves three channels. A turn is scored as it stands; a turn with its neighbours is scored by spreading
//! each occurrence to the turns beside it while the list is read; a session by adding up. So the frequencies of all three are
//! exact after every insert and removal, and nothing has to be rebuilt. Scores come from `score`.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use super::sketch::Sketch;
use crate::base::EpisodeId;
use crate::memory::text::{self, Term, TermId};
use crate::memory::{Episode, EpisodeStatus};

/// Stands for "no document" and "no speaker".
pub(super) const NONE: u32 = u32::MAX;
/// Turns further apart than this in their session are no neighbours: a whole exchange lies between them.
const MAX_GAP: u64 = 3;

/// One occurrence list entry.
#[derive(Clone, Copy, Debug)]
pub(super) struct Posting {
    pub(super) doc: u32,
    pub(super) count: u32,
}

/// Where an episode stands among the others; read for every posting, so it is kept small.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// Its length in terms.
    pub(super) len: u32,
    /// Its length with its neighbours.
    pub(super) window: u32,
    pub(super) prev: u32,
    pub(super) next: u32,
    pub(super) session: u32,
}

/// An episode and what else is known of it.
#[derive(Debug)]
pub(super) struct Doc {
    pub(super) episode: Arc<Episode>,
    pub(super) speaker: u32,
    pub(super) sketch: Sketch,
}

#[derive(Debug, Default)]
pub(super) struct Session {
    /// (position, document), in order.
    order: Vec<(i64, u32)>,
    pub(super) len: u32,
}

/// The index of one scope.
#[derive(Debug, Default)]
pub(super) struct Index {
    postings: HashMap<TermId, Vec<Posting>, BuildHasherDefault<TermHasher>>,
    pub(super) places: Vec<Place>,
    docs: Vec<Option<Doc>>,
    by_id: HashMap<EpisodeId, u32>,
    pub(super) sessions: Vec<Session>,
    session_ids: HashMap<String, u32>,
    speakers: HashMap<TermId, u32, BuildHasherDefault<TermHasher>>,
    speaker_ids: HashMap<String, u32>,
    live: usize,
    /// Sessions with an episode in them.
    pub(super) live_sessions: usize,
    pub(super) total_len: u64,
    pub(super) total_window: u64,
    bytes: usize,
}

impl Index {
    /// Takes in an episode, or puts it in the place of the one with its id. Such as cannot be recalled are left out.
    pub(super) fn insert(&mut self, episode: Arc<Episode>) {
        self.remove(episode.id);
        if episode.status != EpisodeStatus::Active {
            return;
        }
        let terms = text::analyse(&episode.text);
        let doc = u32::try_from(self.places.len()).unwrap_or(NONE);
        if doc == NONE {
            return;
        }
        let len = terms.iter().filter(|term| term.counts()).count();
        for term in &terms {
            let list = self.postings.entry(term.id).or_default();
            match list.last_mut() {
                Some(last) if last.doc == doc => last.count += 1,
                _ => list.push(Posting { doc, count: 1 }),
            }
        }
        let session = self.session(&episode.session);
        let speaker = self.speaker(episode.speaker.as_deref());
        let len = u32::try_from(len).unwrap_or(u32::MAX);
        self.places.push(Place { len, window: 0, prev: NONE, next: NONE, session });
        self.link(doc, session, episode.position);
        self.total_len += u64::from(len);
        self.live += 1;
        self.bytes += cost(&episode, terms.len());
        self.by_id.insert(episode.id, doc);
        let sketch = Sketch::of(terms.iter().map(|term| term.id));
        self.docs.push(Some(Doc { episode, speaker, sketch }));
    }

    /// Takes an episode out.
    pub(super) fn remove(&mut self, id: EpisodeId) {
        let Some(doc) = self.by_id.remove(&id) else { return };
        let Some(Doc { episode, .. }) = self.docs[doc as usize].take() else { return };
        let terms = text::analyse(&episode.text);
        for term in &terms {
            if let Some(list) = self.postings.get_mut(&term.id) {
                // Documents are numbered in the order of their coming, so every list is sorted.
                if let Ok(at) = list.binary_search_by_key(&doc, |posting| posting.doc) {
                    list.remove(at);
                }
                if list.is_empty() {
                    self.postings.remove(&term.id);
                }
            }
        }
        self.unlink(doc, episode.position);
        self.total_len -= u64::from(self.places[doc as usize].len);
        self.live -= 1;
        self.bytes = self.bytes.saturating_sub(cost(&episode, terms.len()));
    }

    fn session(&mut self, name: &str) -> u32 {
        if let Some(&known) = self.session_ids.get(name) {
            return known;
        }
        let id = u32::try_from(self.sessions.len()).unwrap_or(NONE);
        self.sessions.push(Session::default());
        self.session_ids.insert(name.to_owned(), id);
        id
    }

    fn speaker(&mut self, name: Option<&str>) -> u32 {
        let Some(name) = name.filter(|name| !name.is_empty()) else { return NONE };
        if let Some(&known) = self.speaker_ids.get(name) {
            return known;
        }
        let id = u32::try_from(self.speaker_ids.len()).unwrap_or(NONE);
        self.speaker_ids.insert(name.to_owned(), id);
        for term in text::name_terms(name) {
            self.speakers.insert(term, id);
        }
        id
    }

    fn link(&mut self, doc: u32, session: u32, position: i64) {
        let Session { order, len } = &mut self.sessions[session as usize];
        self.live_sessions += usize::from(order.is_empty());
        let at = order.partition_point(|&entry| entry < (position, doc));
        order.insert(at, (position, doc));
        *len += self.places[doc as usize].len;
        let near = |other: Option<&(i64, u32)>| match other {
            Some(&(there, doc)) if is_near(there, position) => doc,
            _ => NONE,
        };
        let prev = near(at.checked_sub(1).and_then(|at| order.get(at)));
        let next = near(order.get(at + 1));
        self.join(prev, doc);
        self.join(doc, next);
        if prev == NONE {
            self.places[doc as usize].prev = NONE;
        }
        if next == NONE {
            self.places[doc as usize].next = NONE;
        }
        self.measure([prev, doc, next]);
    }

    fn unlink(&mut self, doc: u32, position: i64) {
        let Place { len, window, prev, next, session } = self.places[doc as usize];
        let Session { order, len: total } = &mut self.sessions[session as usize];
        order.retain(|&entry| entry != (position, doc));
        self.live_sessions -= usize::from(order.is_empty());
        *total -= len;
        self.total_window -= u64::from(window);
        self.places[doc as usize].window = 0;
        let position = |doc: u32| self.doc(doc).map(|doc| doc.episode.position);
        let meet = matches!((position(prev), position(next)), (Some(left), Some(right)) if is_near(left, right));
        if prev != NONE {
            self.places[prev as usize].next = if meet { next } else { NONE };
        }
        if next != NONE {
            self.places[next as usize].prev = if meet { prev } else { NONE };
        }
        self.measure([prev, next, NONE]);
    }

    fn join(&mut self, left: u32, right: u32) {
        if left != NONE && right != NONE {
            self.places[left as usize].next = right;
            self.places[right as usize].prev = left;
        }
    }

    /// Brings the window lengths of these documents up to date.
    fn measure(&mut self, docs: [u32; 3]) {
        for doc in docs.into_iter().filter(|&doc| doc != NONE) {
            let place = self.places[doc as usize];
            let len = |doc: u32| if doc == NONE { 0 } else { self.places[doc as usize].len };
            let window = place.len + len(place.prev) + len(place.next);
            self.total_window = self.total_window - u64::from(place.window) + u64::from(window);
            self.places[doc as usize].window = window;
        }
    }

    pub(super) fn postings(&self, term: TermId) -> &[Posting] {
        self.postings.get(&term).map_or(&[], Vec::as_slice)
    }

    /// The speaker that a term names.
    pub(super) fn speaker_named(&self, term: TermId) -> Option<u32> {
        self.speakers.get(&term).copied()
    }

    /// Whether one of these terms names a speaker.
    pub(super) fn names_a_speaker(&self, terms: &[Term]) -> bool {
        terms.iter().any(|term| self.speakers.contains_key(&term.id))
    }

    pub(super) fn doc(&self, doc: u32) -> Option<&Doc> {
        self.docs.get(doc as usize)?.as_ref()
    }

    pub(super) fn get(&self, id: EpisodeId) -> Option<&Arc<Episode>> {
        self.by_id.get(&id).and_then(|&doc| self.doc(doc)).map(|doc| &doc.episode)
    }

    pub(super) fn episodes(&self) -> impl Iterator<Item = &Arc<Episode>> {
        self.docs.iter().flatten().map(|doc| &doc.episode)
    }

    /// How many episodes it holds.
    pub(super) fn len(&self) -> usize {
        self.live
    }

    /// What it takes in memory, estimated.
    pub(super) fn bytes(&self) -> usize {
        self.bytes + self.places.len() * 24
    }
}

fn is_near(left: i64, right: i64) -> bool {
    left.abs_diff(right) <= MAX_GAP
}

/// Estimated bytes of an episode in the index: its text, its record, its postings and what they cost in the table.
fn cost(episode: &Episode, terms: usize) -> usize {
    let strings: usize = episode.tags.iter().chain(&episode.entities).map(|text| text.len() + 24).sum();
    episode.text.len() + episode.session.len() + episode.message_hash.len() + strings + 560 + terms * 16
}

/// Terms are hashes already.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TermHasher(u64);

impl Hasher for TermHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }
}
