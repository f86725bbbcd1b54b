//! Merges the bytes of one piece: always the pair of lowest rank, the leftmost of equals, until no pair merges.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::vocabulary::Vocabulary;

/// Pieces up to this length are merged on the stack.
const SHORT: usize = 128;
/// Longer ones are merged in windows of so many bytes, so that a body that is one piece takes no memory to speak of.
const WINDOW: usize = 4 << 10;
/// So many tokens at the end of a window are merged anew with what follows.
const OVERLAP: usize = 4;
/// Where nothing merges.
const NO_PAIR: u32 = u32::MAX;

/// Returns the number of tokens of a piece.
pub(super) fn count(vocabulary: &Vocabulary, piece: &[u8]) -> usize {
    if piece.len() <= SHORT {
        short(vocabulary, piece)
    } else if piece.len() <= WINDOW {
        long(vocabulary, piece).len()
    } else {
        windows(vocabulary, piece).unwrap_or_else(|| long(vocabulary, piece).len())
    }
}

/// For few bytes looking at all pairs is faster than keeping them in order.
fn short(vocabulary: &Vocabulary, piece: &[u8]) -> usize {
    let mut tokens = [0; SHORT];
    let mut pairs = [NO_PAIR; SHORT];
    for (token, &byte) in tokens.iter_mut().zip(piece) {
        *token = vocabulary.single(byte);
    }
    let pair = |left, right| vocabulary.merged(left, right).unwrap_or(NO_PAIR);
    for at in 1..piece.len() {
        pairs[at - 1] = pair(tokens[at - 1], tokens[at]);
    }
    let mut n_tokens = piece.len();
    loop {
        let (mut rank, mut at) = (NO_PAIR, 0);
        for (place, &pair) in pairs[..n_tokens].iter().enumerate() {
            if pair < rank {
                (rank, at) = (pair, place);
            }
        }
        if rank == NO_PAIR {
            return n_tokens;
        }
        tokens[at] = rank;
        tokens.copy_within(at + 2..n_tokens, at + 1);
        pairs.copy_within(at + 1..n_tokens, at);
        n_tokens -= 1;
        // The last of `pairs` has no right side, and stays without a pair.
        if at + 1 < n_tokens {
            pairs[at] = pair(rank, tokens[at + 1]);
        }
        if at > 0 {
            pairs[at - 1] = pair(tokens[at - 1], rank);
        }
    }
}

/// Counts window by window. Tokens are the encoding of their bytes if each two neighbours are that of theirs (see the
/// `bpe` crate of GitHub's for the proof), so only the seams have to be looked at. `None` = a seam does not hold.
fn windows(vocabulary: &Vocabulary, piece: &[u8]) -> Option<usize> {
    let (mut count, mut start, mut last) = (0, 0, None);
    loop {
        let end = piece.len().min(start + WINDOW);
        let mut tokens = long(vocabulary, &piece[start..end]);
        if let (Some(left), Some(&right)) = (last, tokens.first())
            && long(vocabulary, &[vocabulary.bytes_of(left), vocabulary.bytes_of(right)].concat()) != [left, right]
        {
            return None;
        }
        if end == piece.len() {
            return Some(count + tokens.len());
        }
        // Tokens have 128 bytes at most, so a window has many more than the overlap.
        tokens.truncate(tokens.len() - OVERLAP);
        count += tokens.len();
        start += tokens.iter().map(|&token| vocabulary.bytes_of(token).len()).sum::<usize>();
        last = tokens.last().copied();
    }
}

/// Returns the tokens of many bytes: a list of what is left, and a heap of its pairs.
fn long(vocabulary: &Vocabulary, piece: &[u8]) -> Vec<u32> {
    let mut list = List::new(vocabulary, piece);
    let mut heap: BinaryHeap<_> = (0..piece.len()).filter_map(|at| list.pair(at)).map(Reverse).collect();
    while let Some(Reverse((rank, at))) = heap.pop() {
        // Pairs are not taken out when a side of theirs is merged: those are passed over here.
        if list.pairs[at as usize] != rank {
            continue;
        }
        let before = list.merge(at as usize, rank);
        heap.extend([before, Some(at as usize)].into_iter().flatten().filter_map(|at| list.pair(at)).map(Reverse));
    }
    list.tokens()
}

/// Tokens in a row; each has the place of its first byte.
struct List<'a> {
    vocabulary: &'a Vocabulary,
    tokens: Vec<u32>,
    /// The rank of a token merged with the next one.
    pairs: Vec<u32>,
    next: Vec<u32>,
    previous: Vec<u32>,
}

impl<'a> List<'a> {
    fn new(vocabulary: &'a Vocabulary, piece: &[u8]) -> Self {
        let n_bytes = u32::try_from(piece.len()).expect("bodies are far smaller");
        let mut list = Self {
            vocabulary,
            tokens: piece.iter().map(|&byte| vocabulary.single(byte)).collect(),
            pairs: vec![NO_PAIR; piece.len()],
            next: (1..=n_bytes).collect(),
            // Of the first: none, and never a place.
            previous: std::iter::once(u32::MAX).chain(0..n_bytes.saturating_sub(1)).collect(),
        };
        for at in 0..piece.len() {
            list.look_up(at);
        }
        list
    }

    fn pair(&self, at: usize) -> Option<(u32, u32)> {
        let rank = self.pairs[at];
        (rank != NO_PAIR).then_some((rank, at as u32))
    }

    fn look_up(&mut self, at: usize) {
        let right = self.tokens.get(self.next[at] as usize);
        let merged = right.and_then(|&right| self.vocabulary.merged(self.tokens[at], right));
        self.pairs[at] = merged.unwrap_or(NO_PAIR);
    }

    /// Merges a token with the next one; returns the place of the one before it.
    fn merge(&mut self, at: usize, rank: u32) -> Option<usize> {
        let gone = self.next[at] as usize;
        self.tokens[at] = rank;
        self.pairs[gone] = NO_PAIR;
        self.next[at] = self.next[gone];
        if let Some(previous) = self.previous.get_mut(self.next[at] as usize) {
            *previous = at as u32;
        }
        self.look_up(at);
        let before = self.previous[at] as usize;
        if before < self.tokens.len() {
            self.look_up(before);
            return Some(before);
        }
        None
    }

    fn tokens(&self) -> Vec<u32> {
        let mut left = Vec::new();
        let mut at = 0;
        while let Some(&token) = self.tokens.get(at) {
            left.push(token);
            at = self.next[at] as usize;
        }
        left
    }
}
