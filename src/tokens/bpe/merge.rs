//! Counts the tokens of one piece: what is left when always the pair of lowest rank merges, the leftmost of equals.

use super::vocabulary::Vocabulary;

/// Pieces up to this length are merged on the stack.
const SHORT: usize = 64;
/// Longer ones are read in windows of so many bytes, so that a body that is one piece takes no memory to speak of.
const WINDOW: usize = 16 << 10;
/// So many tokens at the end of a window are read anew with what follows.
const OVERLAP: usize = 4;
/// Where nothing merges.
const NO_PAIR: u32 = u32::MAX;

/// Returns the number of tokens of a piece.
pub(super) fn count(vocabulary: &Vocabulary, piece: &[u8]) -> usize {
    if piece.len() <= SHORT {
        short(vocabulary, piece)
    } else if piece.len() <= WINDOW {
        Reading::new(vocabulary, piece).tokens().len()
    } else {
        windows(vocabulary, piece).unwrap_or_else(|| Reading::new(vocabulary, piece).tokens().len())
    }
}

/// For few bytes merging pair by pair, as the rule says it, is fastest.
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

/// Counts window by window; what is kept of each is the encoding of its bytes, so only the seams have to be looked at.
/// `None` = a seam does not hold.
fn windows(vocabulary: &Vocabulary, piece: &[u8]) -> Option<usize> {
    let (mut count, mut start, mut last) = (0, 0, None);
    loop {
        let end = piece.len().min(start + WINDOW);
        let mut tokens = Reading::new(vocabulary, &piece[start..end]).tokens();
        if let (Some(left), Some(&right)) = (last, tokens.first())
            && !stay_apart(vocabulary, left, right)
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

/// Reads many bytes from the left, the longest token first, and takes a step back where that does not go on.
///
/// Tokens in a row are the encoding of their bytes if each two neighbours are that of theirs (the `bpe` crate of GitHub's
/// has the proof), and there is only one such row. Each place fails at most once, so the time is linear, whatever the text:
/// merging by a heap of pairs took 27 ms for 32,000 times one letter.
struct Reading<'a> {
    vocabulary: &'a Vocabulary,
    bytes: &'a [u8],
    /// Places from which it does not go on.
    failed: Vec<u64>,
    tokens: Vec<u32>,
    at: usize,
}

impl<'a> Reading<'a> {
    fn new(vocabulary: &'a Vocabulary, bytes: &'a [u8]) -> Self {
        Self { vocabulary, bytes, failed: vec![0; bytes.len() / 64 + 1], tokens: Vec::new(), at: 0 }
    }

    fn tokens(mut self) -> Vec<u32> {
        let mut next = self.vocabulary.longest(self.bytes);
        while let Some(token) = next {
            next = if self.step(token) {
                self.vocabulary.longest(&self.bytes[self.at..])
            } else {
                self.failed[self.at / 64] |= 1 << (self.at % 64);
                // The row of single bytes that cannot be parted goes on from the very beginning, so there is one to take back.
                let back = self.tokens.pop();
                self.at -= back.map_or(0, |token| self.vocabulary.bytes_of(token).len());
                back
            };
        }
        self.tokens
    }

    /// Takes this token, or the longest of its beginnings that goes here; `false` when none does.
    fn step(&mut self, longest: u32) -> bool {
        let last = self.tokens.last().copied();
        let mut token = longest;
        loop {
            let bytes = self.vocabulary.bytes_of(token);
            let end = self.at + bytes.len();
            let open = self.failed[end / 64] & (1 << (end % 64)) == 0;
            if open && last.is_none_or(|last| stay_apart(self.vocabulary, last, token)) {
                self.tokens.push(token);
                self.at = end;
                return true;
            }
            match self.vocabulary.longest(&bytes[..bytes.len() - 1]) {
                Some(shorter) => token = shorter,
                None => return false,
            }
        }
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
