//! Who said what is in a scope, by name.
//!
//! In a question, a speaker's name says whose words are asked for: the words themselves rarely hold it, since people do not call themselves
//! by name. So a name picks turns by who said them, and neither words nor vectors are compared with it.

use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use super::lists::TermHasher;
use crate::memory::text::{self, Term, TermId};

/// The speakers of a scope, numbered from 0.
#[derive(Debug, Default)]
pub(crate) struct Speakers {
    by_term: HashMap<TermId, u32, BuildHasherDefault<TermHasher>>,
    by_name: HashMap<String, u32>,
    /// Names of more than one character in scripts without spaces, the longest first: one may begin like another.
    run_on: Vec<String>,
}

impl Speakers {
    /// The number of a speaker, who may be new. `None` when there are too many.
    pub(crate) fn number(&mut self, name: &str) -> Option<u32> {
        if let Some(&known) = self.by_name.get(name) {
            return Some(known);
        }
        let number = u32::try_from(self.by_name.len()).ok()?;
        self.by_name.insert(name.to_owned(), number);
        if is_run_on(name) && name.chars().nth(1).is_some() {
            let at = self.run_on.partition_point(|known| known.len() >= name.len());
            self.run_on.insert(at, name.to_owned());
        }
        self.by_term.extend(text::name_terms(name).into_iter().map(|term| (term, number)));
        Some(number)
    }

    /// The speaker that a term names.
    pub(super) fn named(&self, term: TermId) -> Option<u32> {
        self.by_term.get(&term).copied()
    }

    /// Whether one of these terms names a speaker.
    pub(super) fn is_in(&self, terms: &[Term]) -> bool {
        terms.iter().any(|term| self.by_term.contains_key(&term.id))
    }

    /// A question without the names of speakers; unless nothing else is asked.
    pub(crate) fn leave_out<'a>(&self, question: &'a str) -> Cow<'a, str> {
        if self.by_name.is_empty() {
            return question.into();
        }
        let mut left = String::with_capacity(question.len());
        let mut rest = question;
        while let Some(start) = rest.find(char::is_alphanumeric) {
            let (between, word) = rest.split_at(start);
            left.push_str(between);
            let end = word.find(|c: char| !c.is_alphanumeric()).unwrap_or(word.len());
            let (word, behind) = word.split_at(end);
            rest = behind;
            if text::name_terms(word).into_iter().any(|term| self.by_term.contains_key(&term)) && !is_run_on(word) {
                rest = ["'s", "’s"].iter().find_map(|possessive| behind.strip_prefix(possessive)).unwrap_or(behind);
            } else {
                left.push_str(word);
            }
        }
        left.push_str(rest);
        for name in &self.run_on {
            if left.contains(name) {
                left = left.replace(name, "");
            }
        }
        match left.len() == question.len() || !left.contains(char::is_alphanumeric) {
            true => question.into(),
            false => left.into(),
        }
    }
}

/// Whether a text is of a script that puts nothing between words: what stands between two spaces is no word then.
fn is_run_on(text: &str) -> bool {
    text.chars().any(|c| matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn speakers(names: &[&str]) -> Speakers {
        let mut speakers = Speakers::default();
        for name in names {
            speakers.number(name);
        }
        speakers
    }

    #[test]
    fn names_are_left_out_of_a_question_and_nothing_else() {
        let speakers = speakers(&["Wanda", "Igor Petrov", "王小", "王小明"]);
        for (question, left) in [
            ("When did Wanda buy the kite?", "When did  buy the kite?"),
            ("What is wanda's favourite colour, and Igor’s?", "What is  favourite colour, and ?"),
            ("Did Petrov and his wandering dog go?", "Did  and his wandering dog go?"),
            ("王小明上周去了哪里？", "上周去了哪里？"),
            ("What did I say?", "What did I say?"),
            ("Wanda?", "Wanda?"),
            ("", ""),
        ] {
            assert_eq!(speakers.leave_out(question), left, "{question}");
        }
    }

    #[test]
    fn a_speaker_is_known_by_each_part_of_the_name() {
        let speakers = speakers(&["Wanda", "Igor Petrov"]);
        let named = |word| speakers.named(text::name_terms(word)[0]);
        assert_eq!((named("igor"), named("PETROV"), named("Wanda"), named("Olga")), (Some(1), Some(1), Some(0), None));
    }
}
