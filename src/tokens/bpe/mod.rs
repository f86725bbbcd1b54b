//! Byte-pair encoding as tiktoken does it, for counting only.
//!
//! A text is split in pieces (`split.rs`); a piece that is a token counts one, the others are merged (`merge.rs`) over
//! the tables of `vocabulary.rs`. The counts are tiktoken's, exactly; tests compare them over hostile input.
//!
//! Why our own: a vocabulary takes some 10 MB here, and 69 MB in `bpe-openai`, which also encodes and decodes; an idle
//! gateway shall be smaller than that. The vocabularies are OpenAI's, as published with tiktoken (MIT licence, beside
//! them); `scripts/vocabulary` wrote our form of them.

mod chars;
mod merge;
mod split;
mod vocabulary;

use std::sync::LazyLock;

use split::Splitter;
use vocabulary::Vocabulary;

static O200K: LazyLock<Tokenizer> = LazyLock::new(|| Tokenizer {
    vocabulary: Vocabulary::load(include_bytes!("vocabularies/o200k_base.bpe")),
    splitter: Splitter::O200k,
});

static CL100K: LazyLock<Tokenizer> = LazyLock::new(|| Tokenizer {
    vocabulary: Vocabulary::load(include_bytes!("vocabularies/cl100k_base.bpe")),
    splitter: Splitter::Cl100k,
});

/// A vocabulary and its way to split text.
#[derive(Debug)]
pub(super) struct Tokenizer {
    vocabulary: Vocabulary,
    splitter: Splitter,
}

impl Tokenizer {
    /// The tokenizer of `o200k_base`; loaded when it is first asked for.
    pub(super) fn o200k() -> &'static Self {
        &O200K
    }

    /// The tokenizer of `cl100k_base`; loaded when it is first asked for.
    pub(super) fn cl100k() -> &'static Self {
        &CL100K
    }

    /// Returns the number of tokens of `text`. Names of special tokens in it are text like any other.
    pub(super) fn count(&self, text: &str) -> usize {
        self.splitter.pieces(text).map(|piece| self.count_piece(piece.as_bytes())).sum()
    }

    fn count_piece(&self, piece: &[u8]) -> usize {
        // Most pieces are a token as they stand.
        if piece.len() == 1 || self.vocabulary.token(piece).is_some() {
            return 1;
        }
        merge::count(&self.vocabulary, piece)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tiktoken_rs::{CoreBPE, cl100k_base_singleton, o200k_base_singleton};

    use super::*;

    fn pairs() -> [(&'static Tokenizer, &'static CoreBPE); 2] {
        [(Tokenizer::o200k(), o200k_base_singleton()), (Tokenizer::cl100k(), cl100k_base_singleton())]
    }

    #[test]
    fn the_vocabularies_are_tiktokens() {
        for (own, reference) in pairs() {
            let mut rank = 0;
            while let Ok(bytes) = reference.decode_bytes(&[rank])
                && own.vocabulary.token(&bytes) == Some(rank)
            {
                rank += 1;
            }
            assert!([199_998, 100_256].contains(&rank), "{rank}");
        }
    }

    /// Texts that are slow or come out wrong where a tokenizer is careless: runs without a break, mixed runs, ends.
    #[test]
    fn hostile_texts_count_as_in_tiktoken() {
        let mut texts = vec![
            "a".repeat(32 << 10),
            "记".repeat(8 << 10),
            " ".repeat(20_000),
            "\u{a0}\t".repeat(3_000),
            "0123456789".repeat(1_000),
            "👩\u{200d}👩\u{200d}👧".repeat(500),
            "=-/".repeat(3_000),
            "abcdefghijklmnopqrstuvwxyz记".repeat(400),
            "a \n ".to_owned(),
            "it'\u{17f} IT'\u{17f}x".to_owned(),
            "<|endoftext|>".to_owned(),
        ];
        // A few characters of each block of every plane, alone and in words.
        let planes: String = (0..=0x10_ffff_u32).step_by(61).filter_map(char::from_u32).collect();
        texts.push(planes.chars().flat_map(|c| ['a', c, 'B', c, ' ']).collect());
        texts.push(planes);
        for text in &texts {
            for (own, reference) in pairs() {
                let expected = reference.encode_ordinary(text).len();
                assert_eq!(own.count(text), expected, "{:?}", text.chars().take(9).collect::<String>());
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]
        #[test]
        fn any_text_counts_as_in_tiktoken(
            text in r"\PC{0,40}|([ \n\r\ta-zA-Z'你0-9./]|\p{M}|\p{L}|\p{N}|'[sStTlL]{1,2}){0,60}",
            times in prop_oneof![9 => Just(1_usize), 1 => Just(150)],
        ) {
            let text = text.repeat(times);
            for (own, reference) in pairs() {
                prop_assert_eq!(own.count(&text), reference.encode_ordinary(&text).len());
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        /// Long pieces without a break, of few characters: many rows of tokens are nearly right, and windows have seams.
        #[test]
        fn long_runs_count_as_in_tiktoken(
            text in prop_oneof![r"[ab]{65,400}", r"[aeins]{65,400}", r"[=\-_]{65,400}", r" {65,400}", r"[你好记]{40,300}", r"[ \t]{65,400}"],
            times in prop_oneof![3 => 1..4_usize, 1 => 60..90_usize],
            tail in r"\PC{0,8}",
        ) {
            let text = text.repeat(times) + &tail;
            for (own, reference) in pairs() {
                prop_assert_eq!(own.count(&text), reference.encode_ordinary(&text).len());
            }
        }
    }
}
