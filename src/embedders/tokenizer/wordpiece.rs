//! WordPiece: of each word the longest beginning that is a token, then the longest of what is left.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use serde::Deserialize;

/// The vocabulary.
pub(super) struct WordPiece {
    ids: HashMap<Box<str>, u32, RandomState>,
    /// Before what does not begin a word.
    continuing: String,
    unknown: u32,
    longest_word: usize,
    /// Bytes of the longest token.
    longest_token: usize,
}

/// The model as its file has it.
#[derive(Deserialize)]
pub(super) struct WordPieceFile {
    vocab: HashMap<Box<str>, u32, RandomState>,
    #[serde(default = "unknown")]
    unk_token: String,
    #[serde(default = "continuing")]
    continuing_subword_prefix: String,
    #[serde(default = "longest_word")]
    max_input_chars_per_word: usize,
}

fn unknown() -> String {
    "[UNK]".to_owned()
}

fn continuing() -> String {
    "##".to_owned()
}

fn longest_word() -> usize {
    100
}

impl WordPiece {
    pub(super) fn read(file: WordPieceFile) -> Result<Self, String> {
        let unknown = *file
            .vocab
            .get(file.unk_token.as_str())
            .ok_or_else(|| format!("its vocabulary lacks the unknown token {}", file.unk_token))?;
        Ok(Self {
            longest_token: file.vocab.keys().map(|token| token.len()).max().unwrap_or_default(),
            ids: file.vocab,
            continuing: file.continuing_subword_prefix,
            unknown,
            longest_word: file.max_input_chars_per_word,
        })
    }

    pub(super) fn largest_id(&self) -> u32 {
        self.ids.values().copied().max().unwrap_or_default()
    }

    /// Adds the ids of a word: all of its tokens, or one for an unknown word.
    pub(super) fn encode(&self, word: &str, ids: &mut Vec<u32>) {
        let before = ids.len();
        let mut rest = if word.chars().count() > self.longest_word { None } else { Some(word) };
        let mut candidate = String::new();
        while let Some(text) = rest.filter(|text| !text.is_empty()) {
            let prefix = if text.len() == word.len() { "" } else { self.continuing.as_str() };
            let found = ends(text).filter(|end| prefix.len() + end <= self.longest_token).find_map(|end| {
                candidate.clear();
                candidate.push_str(prefix);
                candidate.push_str(&text[..end]);
                self.ids.get(candidate.as_str()).map(|id| (end, *id))
            });
            rest = found.map(|(end, id)| {
                ids.push(id);
                &text[end..]
            });
        }
        if rest.is_none() {
            ids.truncate(before);
            ids.push(self.unknown);
        }
    }
}

/// The ends of all characters, the last one first.
fn ends(text: &str) -> impl Iterator<Item = usize> {
    text.char_indices().rev().map(|(at, c)| at + c.len_utf8())
}
