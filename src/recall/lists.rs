//! Posting lists: for each term, the turns that it stands in or beside, and the sessions.
//!
//! The windows (a turn with its neighbours) are kept as they are asked for, not spread out for every question: a question reads each list
//! once, from front to back, and how common a term is in turns, windows and sessions is always known exactly.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::index::Size;
use crate::memory::text::TermId;

/// Documents of a block: so many numbers in a row.
pub(super) const BLOCK: u32 = if cfg!(test) { 8 } else { 256 };
/// From so many entries on, a list knows the bounds of each block.
const LONG: usize = if cfg!(test) { 4 } else { 64 };
/// So many entries are looked at in one go for the next document that is asked for.
const NEAR: usize = 8;
/// So many of the last entries are looked at before the others.
const NEW: usize = 3;
/// A repeat beyond this says no more; three of them fit a [`u16`].
const MAX_COUNT: u16 = 20_000;

/// A turn that holds a term, or has a neighbour that does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) doc: u32,
    /// How often it stands in the turn itself.
    pub(super) own: u16,
    /// The same with the neighbours; never zero.
    pub(super) near: u16,
}

/// What is known of one term.
#[derive(Debug)]
pub(super) struct List {
    term: TermId,
    /// In the order of the documents.
    entries: Vec<Entry>,
    /// (session, count), in the order of the sessions.
    sessions: Vec<(u32, u32)>,
    turns: usize,
    /// Bounds of all entries.
    pub(super) most: Most,
    /// The highest count in a session, and the length of the shortest turn: no session is shorter.
    pub(super) most_in_session: (u32, u32),
    /// Bounds of the entries of each block that has any, in order; none in a short list.
    blocks: Vec<(u32, Most)>,
}

/// What bounds the scores of entries: no count is higher, and no text is shorter. Removals may leave it wider than it need be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Most {
    pub(super) own: u16,
    pub(super) near: u16,
    /// In terms, as all lengths are.
    pub(super) turn: u32,
    pub(super) window: u32,
}

impl Default for Most {
    fn default() -> Self {
        Self { own: 0, near: 0, turn: u32::MAX, window: u32::MAX }
    }
}

impl Most {
    fn widen(&mut self, entry: Entry, size: Size) {
        self.own = self.own.max(entry.own);
        self.near = self.near.max(entry.near);
        self.turn = self.turn.min(size.turn);
        self.window = self.window.min(size.window);
    }
}

/// The number of a term in its index, and how often a text holds it.
pub(super) type Counted = (u32, u16);

/// The lists of all terms.
#[derive(Debug, Default)]
pub(super) struct Lists {
    numbers: HashMap<TermId, u32, BuildHasherDefault<TermHasher>>,
    lists: Vec<List>,
    free: Vec<u32>,
}

/// Looks documents or sessions up in a list, each behind the one before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor<'a, T>(&'a [T]);

/// What stands in lists in the order of its numbers.
pub(super) trait Numbered: Copy {
    fn number(&self) -> u32;
}

impl Numbered for Entry {
    fn number(&self) -> u32 {
        self.doc
    }
}

/// (session, count)
impl Numbered for (u32, u32) {
    fn number(&self) -> u32 {
        self.0
    }
}

impl<'a, T: Numbered> Cursor<'a, T> {
    /// What has numbers from `first` to below `end`; asked for in their order, as [`Cursor::seek`].
    pub(super) fn until(&mut self, first: u32, end: u32) -> &'a [T] {
        self.seek(first);
        // No number is there twice.
        let near = &self.0[..self.0.len().min((end - first) as usize)];
        let here = near.partition_point(|item| item.number() < end);
        let (here, behind) = self.0.split_at(here);
        self.0 = behind;
        here
    }

    /// What has this number; numbers must be asked for in their order. Gallops: what is near costs little, however long the list is.
    pub(super) fn seek(&mut self, number: u32) -> Option<T> {
        // Where no number is missing in between, it is known where it stands; it stands nowhere behind that.
        let first = self.0.first()?.number();
        let furthest = number.checked_sub(first)? as usize;
        if let Some(item) = self.0.get(furthest).filter(|item| item.number() == number) {
            self.0 = &self.0[furthest..];
            return Some(*item);
        }
        // Most are near; counting takes no branch for each.
        let near = self.0.first_chunk::<NEAR>().map(|near| near.iter().filter(|item| item.number() < number).count());
        let at = near.filter(|&at| at < NEAR).unwrap_or_else(|| {
            let mut step = 1;
            while step < self.0.len() && self.0[step].number() < number {
                step *= 2;
            }
            let near = &self.0[step / 2..self.0.len().min(step + 1)];
            step / 2 + near.partition_point(|item| item.number() < number)
        });
        self.0 = &self.0[at..];
        self.0.first().copied().filter(|item| item.number() == number)
    }
}

impl List {
    /// Whether its bounds hold for all entries.
    #[cfg(test)]
    pub(super) fn is_bounded(&self, sizes: &[Size]) -> bool {
        let holds = |most: &Most, entry: Entry| {
            let mut widened = *most;
            widened.widen(entry, sizes[entry.doc as usize]);
            widened == *most
        };
        let of_block = |doc: u32| self.blocks.iter().find(|(block, _)| *block == doc / BLOCK);
        self.entries.iter().all(|&entry| {
            let block = of_block(entry.doc).map_or(self.blocks.is_empty(), |(_, most)| holds(most, entry));
            block && holds(&self.most, entry)
        })
    }

    fn new(term: TermId) -> Self {
        Self {
            term,
            entries: Vec::new(),
            sessions: Vec::new(),
            turns: 0,
            most: Most::default(),
            most_in_session: (0, u32::MAX),
            blocks: Vec::new(),
        }
    }

    /// In the order of the documents.
    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The bounds of each block of documents with an entry, in order; `None` for a short list.
    pub(super) fn blocks(&self) -> Option<&[(u32, Most)]> {
        (!self.blocks.is_empty()).then_some(&self.blocks)
    }

    /// Looks several documents up.
    pub(super) fn cursor(&self) -> Cursor<'_, Entry> {
        Cursor(&self.entries)
    }

    /// Looks several sessions up.
    pub(super) fn session_cursor(&self) -> Cursor<'_, (u32, u32)> {
        Cursor(&self.sessions)
    }

    /// That of one document.
    pub(super) fn entry(&self, doc: u32) -> Option<Entry> {
        let at = self.entries.binary_search_by_key(&doc, |entry| entry.doc).ok()?;
        Some(self.entries[at])
    }

    /// (session, count), in order.
    pub(super) fn sessions(&self) -> &[(u32, u32)] {
        &self.sessions
    }

    /// How often it stands in one session.
    pub(super) fn in_session(&self, session: u32) -> Option<u32> {
        let at = self.sessions.binary_search_by_key(&session, |&(session, _)| session).ok()?;
        Some(self.sessions[at].1)
    }

    /// How many turns hold it.
    pub(super) fn turns(&self) -> usize {
        self.turns
    }

    /// Where a document stands or belongs. New ones and their neighbours belong at the end, so that is looked at first.
    fn place(&self, doc: u32) -> Result<usize, usize> {
        for (at, entry) in self.entries.iter().enumerate().rev().take(NEW) {
            match entry.doc.cmp(&doc) {
                Ordering::Less => return Err(at + 1),
                Ordering::Equal => return Ok(at),
                Ordering::Greater => {}
            }
        }
        self.entries.binary_search_by_key(&doc, |entry| entry.doc)
    }

    fn add(&mut self, doc: u32, own: u16, near: u16) {
        self.turns += usize::from(own > 0);
        match self.place(doc) {
            Ok(at) => {
                self.entries[at].own += own;
                self.entries[at].near += near;
            }
            Err(at) => self.entries.insert(at, Entry { doc, own, near }),
        }
    }

    /// Widens the bounds for what is known of a document now.
    fn bound(&mut self, doc: u32, sizes: &[Size]) {
        let Ok(at) = self.place(doc) else { return };
        let entry = self.entries[at];
        self.most.widen(entry, sizes[doc as usize]);
        if !self.blocks.is_empty() {
            self.block_of(doc).widen(entry, sizes[doc as usize]);
        } else if self.entries.len() >= LONG {
            for at in 0..self.entries.len() {
                let entry = self.entries[at];
                self.block_of(entry.doc).widen(entry, sizes[entry.doc as usize]);
            }
        }
    }

    fn block_of(&mut self, doc: u32) -> &mut Most {
        let block = doc / BLOCK;
        // New documents are at the end.
        let at = match self.blocks.last() {
            Some(&(last, _)) if last == block => Ok(self.blocks.len() - 1),
            Some(&(last, _)) if last > block => self.blocks.binary_search_by_key(&block, |&(block, _)| block),
            _ => Err(self.blocks.len()),
        };
        let at = at.unwrap_or_else(|at| {
            self.blocks.insert(at, (block, Most::default()));
            at
        });
        &mut self.blocks[at].1
    }

    /// Returns how often it stands in the session now. Sessions that go on and new ones are looked for at the end, where they stand.
    fn add_to_session(&mut self, session: u32, count: u16) -> u32 {
        let at = match self.sessions.last() {
            Some(&(last, _)) if last == session => Ok(self.sessions.len() - 1),
            Some(&(last, _)) if last > session => self.sessions.binary_search_by_key(&session, |&(session, _)| session),
            _ => Err(self.sessions.len()),
        };
        let at = at.unwrap_or_else(|at| {
            self.sessions.insert(at, (session, 0));
            at
        });
        self.sessions[at].1 += u32::from(count);
        self.sessions[at].1
    }

    fn take(&mut self, doc: u32, own: u16, near: u16) {
        let Ok(at) = self.place(doc) else { return };
        self.turns -= usize::from(own > 0);
        let entry = &mut self.entries[at];
        entry.own -= own;
        entry.near -= near;
        if entry.near == 0 {
            self.entries.remove(at);
        }
    }
}

/// What a list takes beside its entries: itself, the first room of its two parts, and its place in the map. In a small scope most words are
/// in one memory alone, so that this is more than all else.
const LIST_BYTES: usize = size_of::<List>() + 84;

impl Lists {
    /// What the lists take in memory without their entries, estimated.
    pub(super) fn bytes(&self) -> usize {
        self.numbers.len() * LIST_BYTES
    }

    /// Counts the terms of a text, and numbers those that are new.
    pub(super) fn count(&mut self, terms: impl Iterator<Item = TermId>) -> Box<[Counted]> {
        let mut terms: Vec<TermId> = terms.collect();
        terms.sort_unstable();
        let runs = terms.chunk_by(|a, b| a == b);
        runs.map(|run| (self.number(run[0]), u16::try_from(run.len()).unwrap_or(MAX_COUNT).min(MAX_COUNT))).collect()
    }

    fn number(&mut self, term: TermId) -> u32 {
        *self.numbers.entry(term).or_insert_with(|| {
            let list = List::new(term);
            if let Some(number) = self.free.pop() {
                self.lists[number as usize] = list;
                return number;
            }
            self.lists.push(list);
            u32::try_from(self.lists.len() - 1).expect("terms are bounded by the text of the episodes that are held")
        })
    }

    pub(super) fn get(&self, term: TermId) -> Option<&List> {
        self.numbers.get(&term).map(|&number| &self.lists[number as usize])
    }

    /// Takes in the terms of a document itself, which is so long.
    pub(super) fn add_own(&mut self, doc: u32, session: u32, len: u32, terms: &[Counted]) {
        for &(number, count) in terms {
            let list = &mut self.lists[number as usize];
            list.add(doc, count, count);
            let total = list.add_to_session(session, count);
            let (most, shortest) = &mut list.most_in_session;
            (*most, *shortest) = ((*most).max(total), (*shortest).min(len));
        }
    }

    /// Takes them out again. Its neighbours' must have gone before.
    pub(super) fn take_own(&mut self, doc: u32, session: u32, terms: &[Counted]) {
        for &(number, count) in terms {
            let list = &mut self.lists[number as usize];
            list.take(doc, count, count);
            if let Ok(at) = list.sessions.binary_search_by_key(&session, |&(session, _)| session) {
                list.sessions[at].1 -= u32::from(count);
                if list.sessions[at].1 == 0 {
                    list.sessions.remove(at);
                }
            }
            if list.entries.is_empty() {
                self.numbers.remove(&list.term);
                self.free.push(number);
            }
        }
    }

    /// Widens the bounds of these terms for what is known of a document now.
    pub(super) fn bound(&mut self, doc: u32, sizes: &[Size], terms: &[Counted]) {
        for &(number, _) in terms {
            self.lists[number as usize].bound(doc, sizes);
        }
    }

    /// Lets a document see the terms of a neighbour.
    pub(super) fn add_near(&mut self, doc: u32, terms: &[Counted]) {
        for &(number, count) in terms {
            self.lists[number as usize].add(doc, 0, count);
        }
    }

    /// Takes the terms of a former neighbour from it.
    pub(super) fn take_near(&mut self, doc: u32, terms: &[Counted]) {
        for &(number, count) in terms {
            self.lists[number as usize].take(doc, 0, count);
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_finds_what_a_search_finds() {
        let entries: Vec<Entry> = (0..200).map(|n| Entry { doc: n * n % 997 + n * 7, own: 1, near: 1 }).collect();
        let mut entries = entries;
        entries.sort_by_key(|entry| entry.doc);
        entries.dedup_by_key(|entry| entry.doc);
        for gap in [1, 3, 40, 5_000] {
            let mut cursor = Cursor(&entries);
            for doc in (0..3_000).step_by(gap) {
                let expected = entries.iter().find(|entry| entry.doc == doc).copied();
                assert_eq!(cursor.seek(doc), expected, "{doc} by {gap}");
            }
        }
        assert_eq!(Cursor::<Entry>(&[]).seek(3), None);
    }
}
