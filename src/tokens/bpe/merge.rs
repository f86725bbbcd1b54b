//! Counts the tokens of one piece: what is left when always the pair of lowest rank merges, the leftmost of equals.

use super::vocabulary::Vocabulary;

/// Pieces up to this length are merged on the stack.
const SHORT: usize = 128;
/// Longer ones are merged in windows of so many bytes: the work grows with the square of a window.
const WINDOW: usize = 256;
/// A window of fewer tokens than this is made larger: tokens have up to 128 bytes.
const MIN_TOKENS: usize = 16;
/// So many tokens at the end of a window are merged anew with what follows.
const OVERLAP: usize = 4;
/// Windows never get larger than this.
const MAX_WINDOW: usize = 16 << 10;
/// Where nothing merges.
const NO_PAIR: u32 = u32::MAX;

/// Returns the number of tokens of a piece.
pub(super) fn count(vocabulary: &Vocabulary, piece: &[u8]) -> usize {
    if piece.len() > SHORT {
        return windows(vocabulary, piece);
    }
    Row { vocabulary, tokens: &mut [0; SHORT], pairs: &mut [NO_PAIR; SHORT], len: 0 }.merge(piece)
}

/// Counts window by window. Tokens are the encoding of their bytes if each two neighbours are that of theirs (the `bpe` crate
/// of GitHub's has the proof), so only the seams have to be looked at. Where one does not hold, the window before it is read
/// anew and twice as long; at [`MAX_WINDOW`] it is left as it is: off by a token rather than slow. No text is known that gets there.
fn windows(vocabulary: &Vocabulary, piece: &[u8]) -> usize {
    let (mut tokens, mut pairs) = (Vec::new(), Vec::new());
    let (mut size, mut count, mut start) = (WINDOW, 0, 0);
    // Of the window before: where it began, the tokens counted before it, and its last token.
    let mut before: Option<(usize, usize, u32)> = None;
    loop {
        let end = piece.len().min(start + size);
        tokens.resize(size, 0);
        pairs.resize(size, NO_PAIR);
        let mut row = Row { vocabulary, tokens: &mut tokens, pairs: &mut pairs, len: 0 };
        let n_tokens = row.merge(&piece[start..end]);
        let can_grow = size < MAX_WINDOW;
        if let Some((its_start, its_count, last)) = before
            && can_grow
            && !stay_apart(vocabulary, last, tokens[0])
        {
            (start, count, before, size) = (its_start, its_count, None, 2 * size);
            continue;
        }
        if end == piece.len() {
            return count + n_tokens;
        }
        if n_tokens < MIN_TOKENS && can_grow {
            size *= 2;
            continue;
        }
        let kept = n_tokens.saturating_sub(OVERLAP).max(1);
        before = Some((start, count, tokens[kept - 1]));
        count += kept;
        start += tokens[..kept].iter().map(|&token| vocabulary.bytes_of(token).len()).sum::<usize>();
        size = WINDOW;
    }
}

/// Tokens in a row, and for each the rank of what it merges into with the next one.
struct Row<'a> {
    vocabulary: &'a Vocabulary,
    tokens: &'a mut [u32],
    pairs: &'a mut [u32],
    len: usize,
}

impl Row<'_> {
    /// Merges the bytes of a piece; returns how many tokens are left.
    fn merge(&mut self, piece: &[u8]) -> usize {
        self.len = piece.len();
        for (token, &byte) in self.tokens.iter_mut().zip(piece) {
            *token = self.vocabulary.single(byte);
        }
        for at in 0..self.len {
            self.look_up(at);
        }
        loop {
            let rank = self.pairs[..self.len].iter().copied().min().unwrap_or(NO_PAIR);
            if rank == NO_PAIR {
                return self.len;
            }
            self.merge_all(rank);
        }
    }

    /// Merges all pairs of this rank, the lowest there is, from left to right. What comes of it only merges at higher ranks: a
    /// token's rank is higher than those of its parts.
    fn merge_all(&mut self, rank: u32) {
        let Some(mut read) = self.next(rank, 0) else { return };
        let mut write = read;
        while read < self.len {
            let merged = write;
            self.tokens[merged] = rank;
            let rest = read + 2;
            read = self.next(rank, rest).unwrap_or(self.len);
            // What stands in between moves up.
            self.tokens.copy_within(rest..read, merged + 1);
            self.pairs.copy_within(rest..read, merged + 1);
            write = merged + 1 + read - rest;
            if merged > 0 {
                self.pairs[merged - 1] = self.pair(self.tokens[merged - 1], rank);
            }
            // Right before the next merge it is looked up there.
            self.pairs[merged] = if rest < read { self.pair(rank, self.tokens[merged + 1]) } else { NO_PAIR };
        }
        self.len = write;
    }

    fn next(&self, rank: u32, from: usize) -> Option<usize> {
        self.pairs[..self.len].get(from..)?.iter().position(|&pair| pair == rank).map(|at| from + at)
    }

    fn look_up(&mut self, at: usize) {
        self.pairs[at] = if at + 1 < self.len { self.pair(self.tokens[at], self.tokens[at + 1]) } else { NO_PAIR };
    }

    fn pair(&self, left: u32, right: u32) -> u32 {
        self.vocabulary.merged(left, right).unwrap_or(NO_PAIR)
    }
}

/// Whether two tokens beside each other are the encoding of their bytes: undoes merges on both sides of the seam, the
/// latest first, and looks whether an earlier one would have gone across it.
fn stay_apart(vocabulary: &Vocabulary, mut left: u32, mut right: u32) -> bool {
    // Merges of this rank and above had not happened yet.
    let mut limit = NO_PAIR;
    loop {
        if vocabulary.merged(left, right).is_some_and(|rank| rank < limit) {
            return false;
        }
        // The later merge is undone. Single bytes have the lowest ranks: where the later one is a single byte, both are.
        if left > right {
            let Some((_, part)) = vocabulary.parts_of(left) else { return true };
            (limit, left) = (left, part);
        } else {
            let Some((part, _)) = vocabulary.parts_of(right) else { return true };
            // Of two equal merges the left one comes first, so here the same rank is still open.
            (limit, right) = (right + 1, part);
        }
    }
}
