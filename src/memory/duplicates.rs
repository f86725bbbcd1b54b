//! Episodes that say the same, so that one of them will do.
//!
//! One is left out only when each of its words stands in the other one, in the same order, and the other one has hardly more
//! words and no further negation: so no number, date, URL or name can be lost, whatever a text is about.

use std::collections::HashMap;

use super::episode::Episode;
use super::text::fold;
use crate::base::{EpisodeId, Time};

/// Texts with more words than this are never taken for duplicates.
const MAX_WORDS: usize = 160;
/// The shorter text has at least this share of the words of the longer one.
const MIN_SHARE: f64 = 0.8;
/// What is said again later than this is something that happened again, in milliseconds.
const WITHIN_MILLIS: i64 = 7 * 86_400_000;
/// Independent orders of words by which texts are brought together; texts of this likeness meet in one of them nearly always.
const ORDERS: u64 = 4;
/// Texts that are compared in one place at most: the newest.
const MAX_COMPARED: usize = 16;

const NEGATIONS: &[&str] = &[
    "not", "no", "never", "none", "without", "neither", "nor", "cannot", "hardly", "不", "没", "沒", "别", "別", "无",
    "無", "非", "勿", "未",
];

/// What is compared of an episode.
#[derive(Clone, Debug)]
pub(super) struct Words {
    id: EpisodeId,
    said_at: Time,
    by_user: bool,
    words: Vec<u64>,
    negations: usize,
}

impl Words {
    /// `None` for texts that are too long or have no words.
    pub(super) fn of(episode: &Episode) -> Option<Self> {
        let folded = fold(episode.text.as_str().into());
        let mut words = Vec::new();
        let mut negations = 0;
        for word in cut(&folded) {
            if words.len() >= MAX_WORDS {
                return None;
            }
            negations += usize::from(NEGATIONS.contains(&word) || word.ends_with("n't") || word.ends_with("n’t"));
            words.push(hash(word, 0));
        }
        let by_user = episode.role == super::turn::Speaker::User;
        (!words.is_empty()).then_some(Self { id: episode.id, said_at: episode.said_at, by_user, words, negations })
    }

    /// Whether all that `self` says is said by `other`.
    fn is_in(&self, other: &Self) -> bool {
        let near = (other.said_at.0 - self.said_at.0).abs() <= WITHIN_MILLIS;
        let share = self.words.len() as f64 / other.words.len() as f64;
        if !near || self.by_user != other.by_user || self.negations != other.negations {
            return false;
        }
        if !(MIN_SHARE..=1.0).contains(&share) {
            return false;
        }
        let mut rest = other.words.iter();
        self.words.iter().all(|word| rest.any(|other| other == word))
    }

    fn places(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        (1..=ORDERS).filter_map(|order| {
            let least = self.words.iter().map(|word| mix(word.wrapping_add(order))).min()?;
            Some((order, least))
        })
    }
}

/// Cuts a folded text: runs of letters, digits and what holds a number, a word or a URL together; other scripts by character.
fn cut(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        rest = rest.trim_start_matches(|c: char| !c.is_alphanumeric());
        let first = rest.chars().next()?;
        let end = if super::language::is_han(first) {
            first.len_utf8()
        } else {
            let inside =
                |c: char| (c.is_alphanumeric() && !super::language::is_han(c)) || "'’.,:/@_-+%#?&=".contains(c);
            let end = rest.find(|c: char| !inside(c)).unwrap_or(rest.len());
            rest[..end].trim_end_matches(|c: char| !c.is_alphanumeric()).len()
        };
        let (word, tail) = rest.split_at(end);
        rest = tail;
        Some(word)
    })
}

/// The episodes that another one makes superfluous, oldest first. `all` stands in order of age, the newest last.
pub(super) fn superfluous(all: &[Words]) -> Vec<EpisodeId> {
    let mut places: HashMap<(u64, u64), Vec<usize>> = HashMap::new();
    let mut gone = vec![false; all.len()];
    for (index, new) in all.iter().enumerate() {
        for place in new.places() {
            let near = places.entry(place).or_default();
            for &old in near.iter().rev().take(MAX_COMPARED) {
                if gone[old] || gone[index] {
                    continue;
                }
                // Of two that say the same the newer one stays.
                if all[old].is_in(new) {
                    gone[old] = true;
                } else if new.is_in(&all[old]) {
                    gone[index] = true;
                }
            }
            near.push(index);
        }
    }
    all.iter().zip(gone).filter(|(_, gone)| *gone).map(|(words, _)| words.id).collect()
}

fn hash(word: &str, seed: u64) -> u64 {
    word.bytes()
        .fold(0xcbf2_9ce4_8422_2325 ^ seed, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// The finaliser of MurmurHash3: close numbers come apart.
fn mix(mut n: u64) -> u64 {
    n ^= n >> 33;
    n = n.wrapping_mul(0xff51_afd7_ed55_8ccd);
    n ^= n >> 33;
    n = n.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    n ^ (n >> 33)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::memory::Speaker;

    fn episode(n: u128, text: &str) -> Episode {
        Episode::said(EpisodeId(n), text, Speaker::User, Time(0))
    }

    fn gone(texts: &[&str]) -> Vec<u128> {
        let all: Vec<_> = (1..).zip(texts).filter_map(|(n, text)| Words::of(&episode(n, text))).collect();
        superfluous(&all).into_iter().map(|id| id.0).collect()
    }

    #[test]
    fn what_is_said_again_in_full_makes_the_older_one_superfluous() {
        assert_eq!(gone(&["The printer on floor 3 is broken.", "the printer on floor 3 is broken"]), [1]);
        assert_eq!(gone(&["my printer on floor 3 is broken", "my printer on floor 3 is broken again"]), [1]);
        assert_eq!(gone(&["my printer on floor 3 is broken again", "my printer on floor 3 is broken"]), [2]);
        assert_eq!(gone(&["我的打印机又坏了，在三楼", "我的打印机又坏了，在三楼。"]), [1]);
    }

    #[test]
    fn what_differs_in_a_number_a_date_a_url_an_order_or_a_not_is_kept() {
        for pair in [
            ["order 1234 has not come yet, please look", "order 1235 has not come yet, please look"],
            ["we meet on Monday in the big room upstairs", "we meet on Tuesday in the big room upstairs"],
            ["see https://a.test/x?b=1 for what it does now", "see https://a.test/x?b=2 for what it does now"],
            ["Ann owes Bob five euros since last week", "Bob owes Ann five euros since last week"],
            ["I do like the new office on the hill there", "I do not like the new office on the hill there"],
            ["it cost 1,299.00 in the shop at the corner", "it cost 1,299.50 in the shop at the corner"],
            ["我喜欢这家新的餐厅的菜和服务", "我不喜欢这家新的餐厅的菜和服务"],
            ["会议在3月5日下午三点开始", "会议在3月6日下午三点开始"],
        ] {
            assert_eq!(gone(&pair), [0; 0], "{pair:?}");
        }
    }

    #[test]
    fn what_happened_again_later_is_kept() {
        let mut later = episode(2, "went for a run this morning");
        later.said_at = Time(WITHIN_MILLIS + 1);
        let all = [episode(1, "went for a run this morning"), later];
        assert!(superfluous(&all.iter().filter_map(Words::of).collect::<Vec<_>>()).is_empty());
    }

    proptest! {
        /// Issue 4: merging never loses a number, a date or a URL: each word of what goes stands in what stays.
        #[test]
        fn each_word_of_what_goes_stands_in_what_stays(
            texts in prop::collection::vec(prop::collection::vec(0..12_usize, 1..9), 1..12)
        ) {
            const WORDS: [&str; 12] = [
                "order", "1234", "1235", "2026-03-04", "https://x.test/a", "monday", "blue", "is", "late", "v2.3", "€20", "三",
            ];
            let texts: Vec<String> = texts
                .iter()
                .map(|words| words.iter().map(|n| WORDS[*n]).collect::<Vec<_>>().join(" "))
                .collect();
            let gone = gone(&texts.iter().map(String::as_str).collect::<Vec<_>>());
            for n in &gone {
                let lost = &texts[*n as usize - 1];
                let kept = (1..).zip(&texts).filter(|(n, _)| !gone.contains(n));
                let stands = |kept: &str| lost.split(' ').all(|word| kept.split(' ').any(|other| other == word));
                prop_assert!(kept.into_iter().any(|(_, kept)| stands(kept)), "{lost} of {texts:?}");
            }
        }
    }
}
