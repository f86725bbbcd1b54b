//! What the request says already, in the same words: a client that sends its own documents or history must not be told them again.
//!
//! [`Exclude`](super::exclude::Exclude) knows whole messages by their hash; this knows texts that stand somewhere inside a message.

use std::collections::HashSet;
use std::hash::BuildHasherDefault;
use std::sync::OnceLock;

use super::lists::TermHasher;
use crate::memory::text;

/// Words of a run: so many in a row are hardly said twice by chance.
const RUN: usize = 4;
/// Bytes of a word with its space, about: how much room is made for runs.
const LETTERS: usize = 6;
/// Share of a text's runs that must stand in the request.
const MOST: f64 = 0.8;

/// The runs of a text, distinct; none in one that is shorter than a run.
#[derive(Clone, Debug)]
pub(super) struct Runs(Vec<u64>);

impl Runs {
    pub(super) fn of(text: &str) -> Self {
        let mut runs = Vec::with_capacity(text.len() / LETTERS);
        each_run(text, |run| runs.push(run));
        runs.sort_unstable();
        runs.dedup();
        Self(runs)
    }
}

/// The texts of a request, a text a message. Read when something is compared with them first, and then once.
#[derive(Debug, Default)]
pub struct Said {
    texts: Vec<String>,
    runs: OnceLock<HashSet<u64, BuildHasherDefault<TermHasher>>>,
}

impl Said {
    /// What these texts say.
    #[must_use]
    pub fn of(texts: Vec<String>) -> Self {
        Self { texts, runs: OnceLock::new() }
    }

    /// Whether a text with these runs stands in the request, near enough word for word.
    pub(super) fn has(&self, runs: impl FnOnce() -> Runs) -> bool {
        if self.texts.is_empty() {
            return false;
        }
        let said = self.runs.get_or_init(|| {
            let bytes: usize = self.texts.iter().map(String::len).sum();
            let mut said = HashSet::with_capacity_and_hasher(bytes / LETTERS, BuildHasherDefault::default());
            for text in &self.texts {
                each_run(text, |run| {
                    said.insert(run);
                });
            }
            said
        });
        let Runs(runs) = runs();
        let known = runs.iter().filter(|run| said.contains(run)).count();
        !runs.is_empty() && known as f64 >= MOST * runs.len() as f64
    }
}

/// Calls `take` for each run of words in a text. Where a script has no spaces, each of its characters is a word.
fn each_run(text: &str, mut take: impl FnMut(u64)) {
    let mut last = [0; RUN];
    let mut count = 0;
    let mut next = |word| {
        last = [last[1], last[2], last[3], word];
        count += 1;
        if count >= RUN {
            take(last.iter().fold(0, |hash, &word| mix(hash ^ word)));
        }
    };
    // Zero between words.
    let mut word = 0;
    for c in text::fold(text.into()).chars().chain([' ']) {
        let is_letter = c.is_alphanumeric();
        if is_letter && c < '\u{2e80}' {
            word = mix(word ^ u64::from(c));
            continue;
        }
        if word != 0 {
            next(std::mem::take(&mut word));
        }
        if is_letter {
            next(mix(u64::from(c)));
        }
    }
}

fn mix(hash: u64) -> u64 {
    let hash = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash ^ (hash >> 29)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left<'a>(items: &[&'a str], said: &[&str]) -> Vec<&'a str> {
        let said: Vec<String> = said.iter().map(|&text| text.to_owned()).collect();
        let said = Said::of(said);
        items.iter().copied().filter(|text| !said.has(|| Runs::of(text))).collect()
    }

    #[test]
    fn what_stands_in_the_request_is_left_out_however_it_is_set() {
        let items =
            ["Items can be returned within 30 days.", "我们在三十天内接受退货。", "Shipping takes two days in all."];
        let said = ["Context:\n> ITEMS can be\n> returned within 30 days -- and more", "资料：我们在三十天内接受退货"];
        assert_eq!(left(&items, &said), ["Shipping takes two days in all."]);
        assert_eq!(left(&items, &[]), items);
    }

    #[test]
    fn a_text_on_the_same_subject_is_not_left_out() {
        let items = ["Items can be returned within 30 days of delivery, unopened.", "ok", "two words"];
        assert_eq!(left(&items, &["Can items be returned after 30 days? ok, two words"]), items);
    }
}
