//! Sentences, English and Chinese.

/// One sentence, as it stands in the text, and how it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sentence<'a> {
    /// The words, closing punctuation left out.
    pub text: &'a str,
    /// Whether it ends in a question mark.
    pub question: bool,
}

/// Abbreviations whose dot ends no sentence.
const ABBREVIATIONS: [&str; 18] = [
    "mr", "mrs", "ms", "dr", "st", "prof", "jr", "sr", "e.g", "i.e", "etc", "vs", "no", "approx", "ave", "apt", "u.s",
    "a.m",
];

/// Cuts a text into sentences.
pub fn sentences(text: &str) -> impl Iterator<Item = Sentence<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        loop {
            rest = rest.trim_start();
            if rest.is_empty() {
                return None;
            }
            let (end, next, question) = first_end(rest);
            let sentence = rest[..end].trim();
            rest = &rest[next..];
            if sentence.chars().any(char::is_alphanumeric) {
                return Some(Sentence { text: sentence, question });
            }
        }
    })
}

/// Where the first sentence ends, where the next begins, and whether it was a question.
fn first_end(text: &str) -> (usize, usize, bool) {
    for (at, c) in text.char_indices() {
        let after = at + c.len_utf8();
        let ends = match c {
            '\n' | '。' | '\u{ff01}' | '\u{ff1f}' | '\u{ff1b}' | '…' | ';' | '!' | '?' => true,
            '.' => {
                let next = text[after..].trim_start_matches('.').chars().next();
                next.is_none_or(char::is_whitespace) && !is_abbreviation(&text[..at])
            }
            _ => false,
        };
        if ends {
            let closing = text[after..]
                .find(|c: char| !matches!(c, '!' | '?' | '.' | '。' | '\u{ff01}' | '\u{ff1f}' | '…'))
                .unwrap_or(text.len() - after);
            let question = matches!(c, '?' | '\u{ff1f}') || text[after..after + closing].contains(['?', '\u{ff1f}']);
            return (at, after + closing, question);
        }
    }
    (text.len(), text.len(), false)
}

/// Whether a dot behind this text belongs to its last word.
pub(in crate::memory) fn is_abbreviation(before: &str) -> bool {
    let word = before.rsplit(|c: char| c.is_whitespace() || c == '(').next().unwrap_or(before);
    // A single capital is an initial ("J. Smith"), "I" is not.
    (word.len() == 1 && word != "I" && word.chars().all(|c| c.is_ascii_uppercase()))
        || ABBREVIATIONS.iter().any(|a| word.eq_ignore_ascii_case(a) && word.len() == a.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_end_where_they_should() {
        let cut = |text| sentences(text).map(|s| (s.text, s.question)).collect::<Vec<_>>();
        assert_eq!(
            cut("I live in St. Louis. Is it far?! Yes"),
            [("I live in St. Louis", false), ("Is it far", true), ("Yes", false)]
        );
        assert_eq!(cut("我叫小明。住在上海!好吗?"), [("我叫小明", false), ("住在上海", false), ("好吗", true)]);
        assert_eq!(cut("version 1.2.3 of it\nnext"), [("version 1.2.3 of it", false), ("next", false)]);
        assert_eq!(cut("mail me@x.org... "), [("mail me@x.org", false)]);
        assert_eq!(cut(" . "), []);
    }
}
