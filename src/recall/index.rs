//! The index of one scope: which episode holds which term, in which session, beside which others.
//!
//! One posting list a term serves three channels: the turn, the turn with its neighbours, and the session. The counts of all three are
//! kept exact through every insert and removal (`lists`), so nothing has to be rebuilt. `fill` takes in a whole scope at once. Scores come
//! from `score`.

mod fill;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

pub(super) use fill::Filling;

use super::dense::{Rows, Space};
use super::exclude::Exclude;
use super::lists::{Counted, List, Lists};
use super::sketch::Sketch;
use super::speakers::Speakers;
use crate::base::{EpisodeId, Time};
use crate::embed::Packed;
use crate::memory::text::{self, Term, TermId};
use crate::memory::{Episode, EpisodeStatus, Sensitivity, Speaker, first_score};

/// Stands for "no document" and "no speaker".
pub(super) const NONE: u32 = u32::MAX;
/// Turns further apart than this in their session are no neighbours: a whole exchange lies between them.
const MAX_GAP: u64 = 3;

/// Lengths in terms; read for every posting, so they stand by themselves.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Size {
    pub(super) turn: u32,
    /// With its neighbours.
    pub(super) window: u32,
}

/// What a hit is weighed by, and where it stands among the others; read for every hit, so it is kept small.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) said_at: Time,
    /// The hash of the message that it was made of, as [`Exclude`] knows it.
    pub(super) message: u64,
    pub(super) session: u32,
    pub(super) speaker: u32,
    pub(super) sensitivity: Sensitivity,
    /// By how much its score was moved since it was stored, by what people thought of answers that it was shown for.
    pub(super) hindsight: f32,
    pub(super) is_reply: bool,
    /// Whether it holds a value that is no longer true.
    pub(super) is_retired: bool,
}

/// An episode and what else is known of it.
#[derive(Debug)]
pub(super) struct Doc {
    pub(super) episode: Arc<Episode>,
    pub(super) sketch: Sketch,
    terms: Box<[Counted]>,
}

#[derive(Debug, Default)]
pub(super) struct Session {
    /// (position, document), in order.
    order: Vec<(i64, u32)>,
    pub(super) len: u32,
}

impl Session {
    /// Its documents, in order.
    pub(super) fn docs(&self) -> impl Iterator<Item = u32> {
        self.order.iter().map(|&(_, doc)| doc)
    }
}

/// The index of one scope.
#[derive(Debug, Default)]
pub(super) struct Index {
    lists: Lists,
    pub(super) sizes: Vec<Size>,
    pub(super) places: Vec<Place>,
    /// The neighbours of each, before and behind it.
    beside: Vec<[u32; 2]>,
    docs: Vec<Option<Doc>>,
    /// Numbers of documents that are no more.
    free: Vec<u32>,
    /// Identifiers begin with the time, so the first is the oldest.
    by_id: BTreeMap<EpisodeId, u32>,
    pub(super) sessions: Vec<Session>,
    session_ids: HashMap<String, u32>,
    /// Numbers of sessions that are empty.
    free_sessions: Vec<u32>,
    /// Their vectors, as far as there are any.
    pub(super) dense: Rows,
    pub(super) speakers: Speakers,
    /// Sessions with an episode in them.
    pub(super) live_sessions: usize,
    pub(super) total_len: u64,
    pub(super) total_window: u64,
    /// The lowest and the highest hindsight that an episode ever had here, and zero.
    pub(super) hindsight: (f32, f32),
    /// Documents of which the lists' bounds do not know yet; empty between two calls.
    unbound: Vec<u32>,
    bytes: usize,
}

/// An episode, and what its text was found to say: most of the work of taking it in, for which no index is needed.
#[derive(Debug)]
pub(super) struct Studied {
    episode: Arc<Episode>,
    /// Empty where it cannot be recalled.
    found: Vec<Term>,
}

impl Studied {
    pub(super) fn of(episode: Arc<Episode>) -> Self {
        let mut found = Vec::new();
        if episode.status == EpisodeStatus::Active {
            found = text::analyse(&episode.text);
            add_labels(&mut found, &episode);
        }
        Self { episode, found }
    }
}

impl Index {
    /// Takes in an episode, or puts it in the place of the one with its id. Such as cannot be recalled are left out.
    pub(super) fn insert(&mut self, episode: Arc<Episode>) {
        self.insert_all([Studied::of(episode)]);
    }

    /// The same for several whose texts were read before. Bounds are closer than when each comes alone, since a turn without the reply that
    /// follows is a shorter text.
    pub(super) fn insert_all(&mut self, all: impl IntoIterator<Item = Studied>) {
        all.into_iter().for_each(|studied| self.take_in(studied));
        self.bound();
    }

    fn take_in(&mut self, Studied { episode, found }: Studied) {
        self.take_out(episode.id);
        if episode.status != EpisodeStatus::Active {
            return;
        }
        let Some(doc) = self.free.pop().or_else(|| u32::try_from(self.docs.len()).ok().filter(|&doc| doc != NONE))
        else {
            return;
        };
        let position = episode.position;
        let session = self.describe(doc, episode, found);
        let terms = self.docs[doc as usize].as_ref().map_or(&[][..], |doc| &doc.terms);
        self.lists.add_own(doc, session, self.sizes[doc as usize].turn, terms);
        self.link(doc, session, position);
    }

    /// Writes down what is known of a document by itself; returns its session. The lists do not have it yet, nor do its neighbours.
    fn describe(&mut self, doc: u32, episode: Arc<Episode>, found: Vec<Term>) -> u32 {
        let len = u32::try_from(found.iter().filter(|term| term.counts()).count()).unwrap_or(u32::MAX);
        let terms = self.lists.count(found.iter().map(|term| term.id));
        let session = self.session(&episode.session);
        let name = episode.speaker.as_deref().filter(|name| !name.is_empty());
        let speaker = name.and_then(|name| self.speakers.number(name)).unwrap_or(NONE);
        self.total_len += u64::from(len);
        self.bytes += cost(&episode, terms.len());
        self.by_id.insert(episode.id, doc);
        put(&mut self.sizes, doc, Size { turn: len, window: 0 });
        let place = place(&episode);
        self.widen(place.hindsight);
        put(&mut self.places, doc, Place { session, speaker, ..place });
        put(&mut self.beside, doc, [NONE; 2]);
        let sketch = Sketch::of(found.iter().map(|term| term.id));
        put(&mut self.docs, doc, Some(Doc { episode, sketch, terms }));
        session
    }

    /// Takes an episode out.
    pub(super) fn remove(&mut self, id: EpisodeId) {
        self.take_out(id);
        self.bound();
    }

    fn take_out(&mut self, id: EpisodeId) {
        let Some(doc) = self.by_id.remove(&id) else { return };
        let Some(position) = self.doc(doc).map(|doc| doc.episode.position) else { return };
        self.unlink(doc, position);
        let Some(Doc { episode, terms, .. }) = self.docs[doc as usize].take() else { return };
        let session = self.places[doc as usize].session;
        self.lists.take_own(doc, session, &terms);
        if self.sessions[session as usize].order.is_empty() {
            self.session_ids.remove(&episode.session);
            self.free_sessions.push(session);
        }
        self.total_len -= u64::from(self.sizes[doc as usize].turn);
        self.bytes = self.bytes.saturating_sub(cost(&episode, terms.len()));
        self.dense.clear(doc);
        self.free.push(doc);
    }

    /// Whether an episode is here and tells nothing that was retired since.
    pub(super) fn holds(&self, id: EpisodeId) -> bool {
        self.by_id.get(&id).and_then(|&doc| self.doc(doc)).is_some_and(|doc| doc.episode.retired_facts.is_empty())
    }

    /// Takes out the oldest until no more than `max` are left.
    pub(super) fn shrink(&mut self, max: usize) {
        while self.len() > max {
            let Some((&oldest, _)) = self.by_id.first_key_value() else { return };
            self.remove(oldest);
        }
    }

    /// Changes what is known of an episode whose text, session and position stay as they are.
    pub(super) fn amend(&mut self, id: EpisodeId, change: impl FnOnce(&mut Episode)) {
        let Some(&number) = self.by_id.get(&id) else { return };
        let Some(doc) = self.docs[number as usize].as_mut() else { return };
        change(Arc::make_mut(&mut doc.episode));
        let after = place(&doc.episode);
        let Place { session, speaker, .. } = self.places[number as usize];
        self.places[number as usize] = Place { session, speaker, ..after };
        self.widen(after.hindsight);
    }

    fn widen(&mut self, hindsight: f32) {
        self.hindsight = (self.hindsight.0.min(hindsight), self.hindsight.1.max(hindsight));
    }

    fn session(&mut self, name: &str) -> u32 {
        if let Some(&known) = self.session_ids.get(name) {
            return known;
        }
        let id = self.free_sessions.pop().unwrap_or_else(|| {
            self.sessions.push(Session::default());
            u32::try_from(self.sessions.len() - 1).expect("there are no more sessions than documents")
        });
        self.session_ids.insert(name.to_owned(), id);
        id
    }

    fn link(&mut self, doc: u32, session: u32, position: i64) {
        let Session { order, len } = &mut self.sessions[session as usize];
        self.live_sessions += usize::from(order.is_empty());
        let at = order.partition_point(|&entry| entry < (position, doc));
        order.insert(at, (position, doc));
        *len += self.sizes[doc as usize].turn;
        let near = |other: Option<&(i64, u32)>| match other {
            Some(&(there, doc)) if is_near(there, position) => doc,
            _ => NONE,
        };
        let prev = near(at.checked_sub(1).and_then(|at| order.get(at)));
        let next = near(order.get(at + 1));
        // What it comes between were neighbours until now.
        self.part(prev, next);
        self.join(prev, doc);
        self.join(doc, next);
        self.measure([prev, doc, next]);
    }

    fn unlink(&mut self, doc: u32, position: i64) {
        let ([prev, next], session) = (self.beside(doc), self.places[doc as usize].session);
        let Size { turn, window } = self.sizes[doc as usize];
        let Session { order, len } = &mut self.sessions[session as usize];
        order.retain(|&entry| entry != (position, doc));
        self.live_sessions -= usize::from(order.is_empty());
        *len -= turn;
        self.part(prev, doc);
        self.part(doc, next);
        let position = |doc: u32| self.doc(doc).map(|doc| doc.episode.position);
        if matches!((position(prev), position(next)), (Some(left), Some(right)) if is_near(left, right)) {
            self.join(prev, next);
        }
        self.total_window -= u64::from(window);
        self.sizes[doc as usize].window = 0;
        self.measure([prev, next, NONE]);
    }

    fn prev(&self, doc: u32) -> u32 {
        self.beside(doc)[0]
    }

    fn next(&self, doc: u32) -> u32 {
        self.beside(doc)[1]
    }

    /// Makes two documents neighbours.
    fn join(&mut self, left: u32, right: u32) {
        if left == NONE || right == NONE {
            return;
        }
        self.beside[left as usize][1] = right;
        self.beside[right as usize][0] = left;
        if let (Some(Some(a)), Some(Some(b))) = (self.docs.get(left as usize), self.docs.get(right as usize)) {
            self.lists.add_near(left, &b.terms);
            self.lists.add_near(right, &a.terms);
        }
    }

    /// Undoes it, if they are.
    fn part(&mut self, left: u32, right: u32) {
        if left == NONE || right == NONE || self.next(left) != right {
            return;
        }
        self.beside[left as usize][1] = NONE;
        self.beside[right as usize][0] = NONE;
        if let (Some(Some(a)), Some(Some(b))) = (self.docs.get(left as usize), self.docs.get(right as usize)) {
            self.lists.take_near(left, &b.terms);
            self.lists.take_near(right, &a.terms);
        }
    }

    /// Brings up to date what is known of these documents together with their neighbours.
    fn measure(&mut self, docs: [u32; 3]) {
        for doc in docs.into_iter().filter(|&doc| doc != NONE) {
            let len = |doc: u32| self.sizes.get(doc as usize).map_or(0, |size| size.turn);
            let window = len(doc) + len(self.prev(doc)) + len(self.next(doc));
            let known = std::mem::replace(&mut self.sizes[doc as usize].window, window);
            self.total_window = self.total_window - u64::from(known) + u64::from(window);
            self.unbound.push(doc);
        }
        self.measure_vectors(docs);
    }

    /// Makes the bounds of the lists hold for what was changed.
    fn bound(&mut self) {
        self.unbound.sort_unstable();
        self.unbound.dedup();
        for &doc in &self.unbound {
            let [prev, next] = self.beside(doc);
            for holder in [doc, prev, next] {
                let Some(Some(held)) = self.docs.get(holder as usize) else { continue };
                self.lists.bound(doc, &self.sizes, &held.terms);
            }
        }
        self.unbound.clear();
    }

    /// What is known of a term; nothing when no episode holds it.
    pub(super) fn list(&self, term: TermId) -> Option<&List> {
        self.lists.get(term)
    }

    /// Gives a document a vector; `false` when it is not of this space.
    pub(super) fn put_vector(&mut self, doc: u32, space: &Space, stored: &Packed) -> bool {
        if !self.dense.put(doc, space, stored) {
            return false;
        }
        let [prev, next] = self.beside(doc);
        self.measure_vectors([prev, doc, next]);
        true
    }

    fn measure_vectors(&mut self, docs: [u32; 3]) {
        for doc in docs.into_iter().filter(|&doc| doc != NONE) {
            self.dense.measure(doc, self.beside(doc));
        }
    }

    pub(super) fn doc(&self, doc: u32) -> Option<&Doc> {
        self.docs.get(doc as usize)?.as_ref()
    }

    pub(super) fn episodes(&self) -> impl Iterator<Item = &Arc<Episode>> {
        self.docs.iter().flatten().map(|doc| &doc.episode)
    }

    /// The number of the document that an episode is.
    pub(super) fn number(&self, id: EpisodeId) -> Option<u32> {
        self.by_id.get(&id).copied()
    }

    /// The neighbours of a document, `NONE` where there is none.
    pub(super) fn beside(&self, doc: u32) -> [u32; 2] {
        self.beside.get(doc as usize).copied().unwrap_or([NONE; 2])
    }

    /// How many episodes it holds.
    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// What it takes in memory, estimated.
    pub(super) fn bytes(&self) -> usize {
        self.bytes + self.places.len() * 160 + self.lists.bytes() + self.dense.bytes()
    }
}

/// Adds what tags and entities say beside the text: each term once, so that a label finds and does not outweigh.
pub(super) fn add_labels(terms: &mut Vec<Term>, episode: &Episode) {
    for label in episode.tags.iter().chain(&episode.entities) {
        for term in text::analyse(label) {
            if terms.iter().all(|known| known.id != term.id) {
                terms.push(term);
            }
        }
    }
}

/// What a hit is weighed by, before its place among the others is known.
fn place(episode: &Episode) -> Place {
    Place {
        said_at: episode.said_at,
        message: Exclude::key(&episode.message_hash),
        session: NONE,
        speaker: NONE,
        sensitivity: episode.sensitivity,
        hindsight: hindsight(episode),
        is_reply: episode.role == Speaker::Assistant,
        is_retired: !episode.retired_facts.is_empty(),
    }
}

/// What was thought of the answers that it was shown for.
fn hindsight(episode: &Episode) -> f32 {
    (episode.score - first_score(episode.role)) as f32
}

/// Puts a value in the slot of a document: the next new one, or one that was used before.
fn put<T>(slots: &mut Vec<T>, doc: u32, value: T) {
    match slots.get_mut(doc as usize) {
        Some(slot) => *slot = value,
        None => slots.push(value),
    }
}

fn is_near(left: i64, right: i64) -> bool {
    left.abs_diff(right) <= MAX_GAP
}

/// Estimated bytes of an episode in the index: its text, its record, and its terms, each of which is an entry of about four lists.
fn cost(episode: &Episode, terms: usize) -> usize {
    let strings: usize = episode.tags.iter().chain(&episode.entities).map(|text| text.len() + 24).sum();
    episode.text.len() + episode.session.len() + episode.message_hash.len() + strings + 640 + terms * 56
}
