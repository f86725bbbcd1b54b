//! Words to stems, with a memory for those that come again: stemming is most of what the analysis of a text costs.

use std::cell::RefCell;

use rust_stemmers::{Algorithm, Stemmer};

use super::languages;
use super::words::{self, Commonness};
use super::{TermId, hash};

/// Words that a thread remembers, at most; a further one takes the place of another. A power of two.
const SLOTS: usize = 8_192;
/// Longer words are rare, and stemmed each time.
const MAX_BYTES: usize = 22;

/// What a word comes down to: the hash of its stem, and how much it tells.
pub(super) type Stemmed = (TermId, Commonness);

#[derive(Clone, Copy)]
struct Slot {
    text: [u8; MAX_BYTES],
    /// Zero while the slot is empty.
    len: u8,
    stemmed: Stemmed,
}

const EMPTY: Slot = Slot { text: [0; MAX_BYTES], len: 0, stemmed: (TermId(0), Commonness::Telling) };

thread_local! {
    static KNOWN: RefCell<Vec<Slot>> = const { RefCell::new(Vec::new()) };
}

/// Stems a folded word. The result is a function of the word alone; what is remembered only makes it cheap.
pub(super) fn stem(word: &str) -> Stemmed {
    if !word.is_ascii() {
        // The alphabet says what language it is, or that there are no rules for it.
        return match languages::by_script(word) {
            _ if words::is_russian_function(word) => (hash(word), Commonness::Function),
            Some(algorithm) => (by_rules(word, algorithm), Commonness::Telling),
            None => (hash(word), Commonness::Telling),
        };
    }
    if word.len() <= 3 {
        return (hash(word), words::commonness(word));
    }
    if word.len() > MAX_BYTES {
        return anew(word);
    }
    KNOWN.with_borrow_mut(|known| {
        if known.is_empty() {
            known.resize(SLOTS, EMPTY);
        }
        let slot = &mut known[hash(word).0 as usize % SLOTS];
        if slot.text.get(..usize::from(slot.len)) != Some(word.as_bytes()) {
            slot.text[..word.len()].copy_from_slice(word.as_bytes());
            slot.len = word.len() as u8;
            slot.stemmed = anew(word);
        }
        slot.stemmed
    })
}

/// The stem by the rules of one language.
pub(super) fn by_rules(word: &str, algorithm: Algorithm) -> TermId {
    hash(&Stemmer::create(algorithm).stem(word))
}

fn anew(word: &str) -> Stemmed {
    let stem = Stemmer::create(Algorithm::English).stem(word);
    let commonness = match words::commonness(word) {
        Commonness::Telling => words::commonness(&stem),
        known => known,
    };
    (hash(&stem), commonness)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_stemmed_alike_however_often_and_whatever_came_between() {
        let words: Vec<String> = (0..3 * SLOTS).map(|n| format!("painting{n}s")).collect();
        let first: Vec<Stemmed> = words.iter().map(|word| anew(word)).collect();
        for _ in 0..2 {
            assert!(words.iter().zip(&first).all(|(word, known)| stem(word) == *known));
        }
        assert_eq!(stem("paintings").0, stem("painting").0);
        assert_eq!(stem("the").1, Commonness::Function);
        assert_eq!(stem("猫"), (hash("猫"), Commonness::Telling));
    }
}
