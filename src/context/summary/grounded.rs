//! Whether a sentence says nothing that its source does not: by its numbers, dates, names and quotations.
//!
//! Strict rather than fair: a sentence too few is made up for by key data and extract, an invented one by nothing.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::LazyLock;

use regex::Regex;

use super::han;
use super::words::{NUMBER_WORDS, STARTERS};

/// Quotations: what stands in them must stand in the source word for word.
static QUOTED: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new("\"([^\"\n]+)\"|“([^”\n]+)”|「([^」\n]+)」|『([^』\n]+)』|《([^》\n]+)》|`([^`\n]+)`")
        .expect("a test compiles it")
});
/// Numbers as they are written: digits with separators inside.
static NUMBER: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"[0-9]+(?:[.,'’][0-9]+)*").expect("a test compiles it"));

/// A source, prepared for look-ups.
#[derive(Debug)]
pub(super) struct Source<'a> {
    text: &'a str,
    /// In lower case, digits in ASCII.
    lower: String,
    /// Its words, in lower case.
    words: HashSet<String>,
    /// Its numbers in canonical form.
    numbers: HashSet<String>,
}

impl<'a> Source<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let lower = plain(text).to_lowercase();
        Self {
            text,
            words: words(&lower).map(|(_, word)| bare(word).to_owned()).collect(),
            numbers: numbers(&lower).collect(),
            lower,
        }
    }

    /// Whether every number, date, name and quotation of the sentence occurs here.
    pub(super) fn bears_out(&self, sentence: &str) -> bool {
        let sentence = plain(sentence);
        self.has_quotations(&sentence)
            && self.has_tokens(&sentence)
            && self.has_names(&sentence)
            && han::borne_out(&sentence, self.text, &self.numbers)
    }

    fn has_quotations(&self, sentence: &str) -> bool {
        let mut quotations = QUOTED.captures_iter(sentence).filter_map(|found| found.iter().skip(1).flatten().next());
        quotations
            .all(|quotation| self.lower.contains(quotation.as_str().trim_end_matches(['.', ',']).to_lowercase().trim()))
    }

    /// Numbers, and tokens with digits, an `@` or a path in them, as order numbers, versions and addresses.
    fn has_tokens(&self, sentence: &str) -> bool {
        tokens(sentence).all(|token| {
            let lower = token.to_lowercase();
            let number = lower.strip_suffix("st").or(lower.strip_suffix("nd")).or(lower.strip_suffix("rd"));
            let number = number.or(lower.strip_suffix("th")).unwrap_or(&lower);
            if NUMBER.find(number).is_some_and(|found| found.len() == number.len()) {
                return self.numbers.contains(&canonical(number));
            }
            !is_telling(token) || self.has_whole(&lower)
        })
    }

    /// Whether a token stands in the source, with nothing of its kind right beside it.
    fn has_whole(&self, token: &str) -> bool {
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        self.lower.match_indices(token).any(|(at, found)| {
            let mut before = self.lower[..at].chars().rev();
            let mut after = self.lower[at + found.len()..].chars();
            // A point goes on a number when a digit follows; else it ends a sentence.
            let goes_on = |next: Option<char>, then: Option<char>| match next {
                Some('.') => then.is_some_and(|c| c.is_ascii_digit()),
                other => other.is_some_and(is_part),
            };
            !goes_on(before.next(), before.next()) && !goes_on(after.next(), after.next())
        })
    }

    /// Names: words with a capital, wherever they stand; and numbers in words.
    fn has_names(&self, sentence: &str) -> bool {
        for (place, (at, word)) in words(sentence).enumerate() {
            let lower = bare(&word.to_lowercase()).to_owned();
            if let Some((_, digits)) = NUMBER_WORDS.iter().find(|(name, _)| *name == lower)
                && !self.words.contains(&lower)
                && !self.numbers.contains(*digits)
            {
                return false;
            }
            let capital = word.chars().any(char::is_uppercase);
            let known = || self.words.contains(&lower) || lower.split('-').all(|part| self.words.contains(part));
            let starts = place == 0 && sentence[..at].chars().all(|c| !c.is_alphanumeric());
            if capital && word.chars().nth(1).is_some() && !known() && !(starts && self.may_start(&lower)) {
                return false;
            }
        }
        true
    }

    /// Whether a word at the beginning of a sentence may have its capital from there: a common one, an adverb or a verb form, or
    /// another form of a word of the source.
    fn may_start(&self, lower: &str) -> bool {
        let stem = &lower[..lower.floor_char_boundary(lower.len().saturating_sub(3).max(4).min(lower.len()))];
        STARTERS.contains(&format!(" {lower} "))
            || lower.ends_with("ly")
            || lower.ends_with("ing")
            || lower.ends_with("ed")
            || (stem.len() >= 4 && self.words.iter().any(|word| word.starts_with(stem)))
    }
}

/// Whether a token names a thing: it has a digit, or the marks of addresses, paths and names in programs.
fn is_telling(token: &str) -> bool {
    let is_path = token.matches('/').count() > 1 || (token.len() > 4 && token.contains('.'));
    token.contains(|c: char| c.is_ascii_digit() || matches!(c, '@' | '_')) || is_path
}

/// Full-width digits and letters as ASCII ones.
fn plain(text: &str) -> Cow<'_, str> {
    let is_wide = |c: char| matches!(c, '０'..='９' | 'Ａ'..='Ｚ' | 'ａ'..='ｚ');
    if !text.contains(is_wide) {
        return Cow::Borrowed(text);
    }
    let narrow = |c: char| if is_wide(c) { char::from_u32(c as u32 - 0xfee0).unwrap_or(c) } else { c };
    Cow::Owned(text.chars().map(narrow).collect())
}

/// The numbers of a text in canonical form.
fn numbers(text: &str) -> impl Iterator<Item = String> {
    NUMBER.find_iter(text).flat_map(|found| {
        // Version-like ones also by themselves: "2.3.1" is no number.
        [canonical(found.as_str()), found.as_str().to_owned()]
    })
}

/// A number without separators of thousands, leading zeros and trailing zeros behind the point.
fn canonical(number: &str) -> String {
    let groups: Vec<&str> = number.split([',', '\'', '’']).collect();
    let grouped =
        groups.len() > 1 && groups[1..].iter().all(|group| group.split('.').next().is_some_and(|g| g.len() == 3));
    let joined = if grouped { groups.concat() } else { number.replace(',', ".") };
    let (whole, rest) = joined.split_once('.').unwrap_or((&joined, ""));
    let whole = whole.trim_start_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    let rest = if rest.contains('.') { rest } else { rest.trim_end_matches('0') };
    if rest.is_empty() { whole.to_owned() } else { format!("{whole}.{rest}") }
}

/// Runs of characters that names of things are made of, punctuation at their ends left out.
fn tokens(text: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| {
        c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ',' | '/' | '@' | ':' | '#' | '+' | '\'' | '~')
    };
    text.split(move |c| !is_part(c))
        .map(|token| token.trim_matches(|c: char| !c.is_ascii_alphanumeric()))
        .filter(|t| !t.is_empty())
}

/// Words of cased scripts with their offsets: letters, with apostrophes and hyphens inside.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_part = |c: char| (c.is_alphabetic() && !han::is_han(c)) || matches!(c, '\'' | '’' | '-');
    let mut at = 0;
    text.split(move |c| !is_part(c)).filter_map(move |word| {
        let start = text.len().min(at);
        at += word.len() + text[at + word.len()..].chars().next().map_or(0, char::len_utf8);
        let trimmed = word.trim_matches(['\'', '’', '-']);
        (!trimmed.is_empty()).then_some((start, trimmed))
    })
}

/// A word without its possessive.
fn bare(word: &str) -> &str {
    word.strip_suffix("'s").or_else(|| word.strip_suffix("’s")).unwrap_or(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(source: &str, sentence: &str, expected: bool) {
        assert_eq!(Source::new(source).bears_out(sentence), expected, "{sentence:?} of {source:?}");
    }

    #[test]
    fn numbers_are_the_same_however_they_are_grouped() {
        for (source, sentence, expected) in [
            ("1,299.00 euros", "It costs 1299 euros.", true),
            ("1299 euros", "It costs 1,299.", true),
            ("room 007", "It is room 7.", true),
            ("the 5th", "It was on the 5th.", true),
            ("on 5 May", "It was on May 5th.", true),
            ("2022", "It took 22 days.", false),
            ("v2.3.1", "It runs 2.3.1.", true),
            ("v2.3.1", "It runs v2.3.", false),
            ("3.5", "It is 3,5.", true),
            ("12", "There are twelve.", true),
            ("twelve eggs", "There are twelve eggs.", true),
            ("a dozen", "There are three.", false),
            ("nothing", "It was one of them.", true),
            ("２０ euros", "It costs 20 euros.", true),
            ("20 euros", "It costs ２１ euros.", false),
        ] {
            check(source, sentence, expected);
        }
    }

    #[test]
    fn names_of_things_stand_whole() {
        for (source, sentence, expected) in [
            ("order A-2291.", "The order is A-2291.", true),
            ("order A-22915", "The order is A-2291.", false),
            ("order A-2291", "The order is B-2291.", false),
            ("see https://x.test/a?b=1", "It is at https://x.test/a.", true),
            ("see https://x.test/ab", "It is at https://x.test/a.", false),
            ("ada@mail.test", "The address is ada@mail.test.", true),
            ("ada@mail.test", "The address is bob@mail.test.", false),
            ("in /srv/app/main.rs", "The file is /srv/app/main.rs.", true),
            ("on 2026-03-05", "It was on 2026-03-05.", true),
            ("on 2026-03-05", "It was on 2026-05-03.", false),
        ] {
            check(source, sentence, expected);
        }
    }

    #[test]
    fn people_and_places_stand_in_the_source() {
        for (source, sentence, expected) in [
            ("my sister berta", "Their sister is Berta.", true),
            ("my sister", "Their sister is Berta.", false),
            ("Ann's boat", "It is the boat of Ann.", true),
            ("Ann has a boat", "It is Ann’s boat.", true),
            ("we fly to Rome", "Rome is where they fly.", true),
            ("we fly away", "Rome is where they fly.", false),
            ("we order tea", "Ordered tea for them.", true),
            ("they work", "Working on it.", true),
            ("on Monday", "It is on Monday.", true),
            ("soon", "It is on Monday.", false),
            ("a call", "They spoke with NASA.", false),
            ("Jean-Luc said", "It was Jean-Luc.", true),
            ("the \"blue heron\"", "It is called \"blue heron\".", true),
            ("the heron", "It is called \"blue heron\".", false),
            ("Мария пришла", "Пришла Мария.", true),
            ("она пришла", "Её зовут Мария.", false),
        ] {
            check(source, sentence, expected);
        }
    }

    #[test]
    fn words_are_found_with_their_places() {
        let found: Vec<_> = words("a 你 b's -c-").collect();
        assert_eq!(found, [(0, "a"), (6, "b's"), (10, "c")]);
    }
}
