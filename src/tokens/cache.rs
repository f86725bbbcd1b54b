//! A fixed table of counts: lossy, lock-free, never larger than it began.

use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};

use foldhash::quality::RandomState;

/// Bits of an entry that hold the count; the rest is the tag.
const COUNT_BITS: u32 = 24;
const COUNT_MASK: u64 = (1 << COUNT_BITS) - 1;

/// Remembers counts by content. Each content has one slot, and a newcomer takes it: full means that something else is
/// counted anew, nothing more.
///
/// A slot is one word of 40 bits of hash and 24 bits of count, so reading and writing need no lock. The hash is seeded
/// anew in each process and never leaves it, so nobody can aim at a collision; by chance one happens in 2^40 look-ups.
#[derive(Debug)]
pub(super) struct Cache {
    slots: Box<[AtomicU64]>,
    keys: RandomState,
}

impl Cache {
    /// Makes a cache of at most `bytes` bytes, and at least one slot.
    pub(super) fn new(bytes: usize) -> Self {
        let wanted = (bytes / size_of::<AtomicU64>()).max(1);
        // Rounded down to a power of two, so that the slot is a mask away.
        let slots = 1_usize << wanted.ilog2();
        Self { slots: (0..slots).map(|_| AtomicU64::new(0)).collect(), keys: RandomState::default() }
    }

    /// Returns the count of `text` under the rules that `domain` names, from the table or by `count`.
    pub(super) fn get_or(&self, domain: u32, text: &str, count: impl FnOnce() -> usize) -> usize {
        let (slot, tag) = self.slot(domain, text);
        if let Some(known) = read(slot, tag) {
            return known;
        }
        let counted = count();
        if (1..=COUNT_MASK).contains(&(counted as u64)) {
            slot.store(tag | counted as u64, Ordering::Relaxed);
        }
        counted
    }

    /// Returns the count of `text`, if the table has it.
    pub(super) fn get(&self, domain: u32, text: &str) -> Option<usize> {
        let (slot, tag) = self.slot(domain, text);
        read(slot, tag)
    }

    /// The slot of a text, and the tag that it has there.
    fn slot(&self, domain: u32, text: &str) -> (&AtomicU64, u64) {
        let hash = self.keys.hash_one((domain, text));
        (&self.slots[hash as usize & (self.slots.len() - 1)], hash & !COUNT_MASK)
    }
}

fn read(slot: &AtomicU64, tag: u64) -> Option<usize> {
    let entry = slot.load(Ordering::Relaxed);
    // An empty slot is zero; a count of zero is never stored, so that the two cannot be confused.
    (entry & !COUNT_MASK == tag && entry & COUNT_MASK != 0).then_some((entry & COUNT_MASK) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn a_text_is_counted_once_per_domain() {
        let cache = Cache::new(1 << 16);
        let calls = Cell::new(0);
        let count = |n: usize| {
            calls.set(calls.get() + 1);
            n
        };
        assert_eq!(cache.get_or(1, "a", || count(7)), 7);
        assert_eq!(cache.get_or(1, "a", || count(8)), 7);
        assert_eq!(cache.get_or(2, "a", || count(9)), 9);
        assert_eq!(calls.get(), 2);
    }

    #[test]
    fn one_slot_still_counts_right() {
        let cache = Cache::new(0);
        for n in 0..100_usize {
            assert_eq!(cache.get_or(0, &n.to_string(), || n), n);
        }
    }
}
