//! The tables of a vocabulary: which bytes are a token, and which two tokens merge into which.

use std::hash::BuildHasher;

use foldhash::fast::FixedState;

/// Bits of a rank. The largest vocabulary has 199,998 tokens.
const RANK_BITS: u32 = 18;
const RANK_MASK: u32 = (1 << RANK_BITS) - 1;

/// The slots of each table, as a power of two: more than twice the tokens, so that a probe that finds nothing is short.
const SLOT_BITS: u32 = 19;
const SLOTS: usize = 1 << SLOT_BITS;

/// A slot that nothing took. No entry looks like it: its rank would be that of a single byte and of a merge.
const EMPTY: u64 = 0;

/// The tokens of a vocabulary by their bytes and by their parts. A token's rank is its number, and the lower the rank
/// the earlier it is merged.
#[derive(Debug)]
pub(super) struct Vocabulary {
    /// The bytes of all tokens, by rank.
    bytes: &'static [u8],
    /// Where the bytes of each token begin; one more at the end.
    starts: Box<[u32]>,
    longest: usize,
    /// How many bytes of each token are its left part; 0 for a single byte.
    splits: &'static [u8],
    /// Rank plus one and a tag of the hash, by the hash of the bytes.
    by_bytes: Box<[u32]>,
    /// Left, right and merged rank in one word, by the hash of left and right.
    by_parts: Box<[u64]>,
    /// The ranks of the single bytes.
    single: [u32; 256],
}

impl Vocabulary {
    /// Loads a vocabulary from the form that `scripts/vocabulary` writes; it is compiled in, and tests load it.
    pub(super) fn load(file: &'static [u8]) -> Self {
        let (n_tokens, rest) = file.split_first_chunk::<4>().expect("a count comes first");
        let n_tokens = u32::from_le_bytes(*n_tokens) as usize;
        let (lengths, rest) = rest.split_at(n_tokens);
        let (splits, bytes) = rest.split_at(n_tokens);
        let mut vocabulary = Self {
            bytes,
            starts: starts(lengths),
            longest: lengths.iter().copied().max().map_or(0, usize::from),
            splits,
            by_bytes: vec![0; SLOTS].into(),
            by_parts: vec![EMPTY; SLOTS].into(),
            single: [0; 256],
        };
        for (rank, &split) in (0..).zip(splits) {
            vocabulary.add(rank, usize::from(split));
        }
        vocabulary
    }

    /// Returns the rank of the token with these bytes.
    #[inline]
    pub(super) fn token(&self, bytes: &[u8]) -> Option<u32> {
        if bytes.len() > self.longest {
            return None;
        }
        let hash = hash(bytes);
        let mut slot = place(hash);
        loop {
            let entry = self.by_bytes[slot];
            if entry == 0 {
                return None;
            }
            let rank = (entry & RANK_MASK) - 1;
            if entry & !RANK_MASK == tag(hash) && self.bytes_of(rank) == bytes {
                return Some(rank);
            }
            slot = (slot + 1) % SLOTS;
        }
    }

    /// Returns the rank of the token that two tokens merge into.
    #[inline]
    pub(super) fn merged(&self, left: u32, right: u32) -> Option<u32> {
        let parts = parts(left, right);
        let mut slot = place_of_parts(parts);
        loop {
            let entry = self.by_parts[slot];
            if entry >> RANK_BITS == parts && entry != EMPTY {
                return Some(entry as u32 & RANK_MASK);
            }
            if entry == EMPTY {
                return None;
            }
            slot = (slot + 1) % SLOTS;
        }
    }

    /// Returns the two tokens that merged into this one; none for a single byte.
    pub(super) fn parts_of(&self, rank: u32) -> Option<(u32, u32)> {
        let split = usize::from(self.splits[rank as usize]);
        let (left, right) = self.bytes_of(rank).split_at(split);
        if split == 0 { None } else { Some((self.token(left)?, self.token(right)?)) }
    }

    /// Returns the rank of a single byte.
    #[inline]
    pub(super) fn single(&self, byte: u8) -> u32 {
        self.single[byte as usize]
    }

    pub(super) fn bytes_of(&self, rank: u32) -> &'static [u8] {
        let rank = rank as usize;
        &self.bytes[self.starts[rank] as usize..self.starts[rank + 1] as usize]
    }

    /// Adds a token; its left part has `split` bytes, and both parts were added before it.
    fn add(&mut self, rank: u32, split: usize) {
        let bytes = self.bytes_of(rank);
        if split == 0 {
            self.single[bytes[0] as usize] = rank;
        } else {
            let part = |bytes| self.token(bytes).expect("the parts of a token are tokens of lower rank");
            let parts = parts(part(&bytes[..split]), part(&bytes[split..]));
            let mut slot = place_of_parts(parts);
            while self.by_parts[slot] != EMPTY {
                slot = (slot + 1) % SLOTS;
            }
            self.by_parts[slot] = (parts << RANK_BITS) | u64::from(rank);
        }
        let hash = hash(bytes);
        let mut slot = place(hash);
        while self.by_bytes[slot] != 0 {
            slot = (slot + 1) % SLOTS;
        }
        self.by_bytes[slot] = tag(hash) | (rank + 1);
    }
}

fn starts(lengths: &[u8]) -> Box<[u32]> {
    let mut end = 0;
    let ends = lengths.iter().map(|&length| {
        end += u32::from(length);
        end
    });
    std::iter::once(0).chain(ends).collect()
}

/// The same in every process: which slots a vocabulary takes is fixed, and nothing is ever added to it.
#[inline]
fn hash(bytes: &[u8]) -> u64 {
    FixedState::with_seed(0).hash_one(bytes)
}

/// The upper bits of a hash, where the rank is not.
#[inline]
fn tag(hash: u64) -> u32 {
    (hash as u32) & !RANK_MASK
}

#[inline]
fn place(hash: u64) -> usize {
    (hash >> (u64::BITS - SLOT_BITS)) as usize
}

#[inline]
fn parts(left: u32, right: u32) -> u64 {
    (u64::from(left) << RANK_BITS) | u64::from(right)
}

#[inline]
fn place_of_parts(parts: u64) -> usize {
    // Fibonacci hashing: the golden ratio spreads what differs in few bits.
    (parts.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - SLOT_BITS)) as usize
}
