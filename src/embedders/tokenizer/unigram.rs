//! Unigram: of all ways to cut a word into tokens the likeliest.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use serde::Deserialize;

/// What an unknown character counts below the unlikeliest token.
const UNKNOWN_PENALTY: f64 = 10.0;

/// The vocabulary.
pub(super) struct Unigram {
    /// Place and log-probability of each piece.
    pieces: HashMap<Box<str>, (u32, f64), RandomState>,
    unknown: u32,
    unknown_score: f64,
    /// Bytes of the longest piece.
    longest: usize,
    largest_id: u32,
}

/// The model as its file has it.
#[derive(Deserialize)]
pub(super) struct UnigramFile {
    unk_id: Option<u32>,
    vocab: Vec<(Box<str>, f64)>,
    #[serde(default)]
    byte_fallback: bool,
}

/// The best way to a place in the word.
#[derive(Clone, Copy)]
struct Way {
    score: f64,
    /// Where its last token begins.
    start: usize,
    id: u32,
}

impl Unigram {
    /// Takes a vocabulary, without those of its pieces that are `special`.
    pub(super) fn read<'s>(file: UnigramFile, special: impl Iterator<Item = &'s str>) -> Result<Self, String> {
        if file.byte_fallback {
            return Err("falls back to bytes, which is not supported".to_owned());
        }
        let size = u32::try_from(file.vocab.len()).map_err(|_| "its vocabulary is too large".to_owned())?;
        let unknown =
            file.unk_id.filter(|id| *id < size).ok_or_else(|| "its vocabulary lacks an unknown token".to_owned())?;
        if file.vocab.iter().any(|(_, score)| !score.is_finite()) {
            return Err("its vocabulary has scores that are no numbers".to_owned());
        }
        let least = file.vocab.iter().fold(f64::INFINITY, |least, (_, score)| least.min(*score));
        let longest = file.vocab.iter().map(|(piece, _)| piece.len()).max().unwrap_or_default();
        let mut pieces: HashMap<_, _, _> =
            file.vocab.into_iter().zip(0..).map(|((piece, score), id)| (piece, (id, score))).collect();
        for piece in special {
            pieces.remove(piece);
        }
        let unknown_score = least - UNKNOWN_PENALTY;
        Ok(Self { pieces, unknown, unknown_score, longest, largest_id: size.saturating_sub(1) })
    }

    pub(super) fn largest_id(&self) -> u32 {
        self.largest_id
    }

    /// Adds the ids of a word. Unknown characters in a row are one token.
    pub(super) fn encode(&self, word: &str, ids: &mut Vec<u32>) {
        let mut ways: Vec<Option<Way>> = vec![None; word.len() + 1];
        for (start, c) in word.char_indices() {
            let so_far = if start == 0 { 0.0 } else { ways[start].map_or(0.0, |way| way.score) };
            let single = start + c.len_utf8();
            let mut known = false;
            for end in ends(&word[start..]).map(|end| start + end).take_while(|end| end - start <= self.longest) {
                if let Some((id, score)) = self.pieces.get(&word[start..end]) {
                    better(&mut ways[end], Way { score: so_far + score, start, id: *id });
                    known |= end == single;
                }
            }
            if !known {
                let score = so_far + self.unknown_score;
                better(&mut ways[single], Way { score, start, id: self.unknown });
            }
        }
        let mut found = Vec::new();
        let mut end = word.len();
        while let Some(way) = ways[end].filter(|_| end > 0) {
            if way.id != self.unknown || found.last() != Some(&self.unknown) {
                found.push(way.id);
            }
            end = way.start;
        }
        ids.extend(found.into_iter().rev());
    }
}

fn better(best: &mut Option<Way>, way: Way) {
    if best.is_none_or(|best| way.score > best.score) {
        *best = Some(way);
    }
}

/// The ends of all characters.
fn ends(text: &str) -> impl Iterator<Item = usize> {
    text.char_indices().map(|(at, c)| at + c.len_utf8())
}
