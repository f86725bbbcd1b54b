//! Splits text in the pieces that are encoded each for itself: tiktoken's patterns, by hand.
//!
//! The patterns are regular expressions with backtracking; what they match is simple enough to be found in one pass,
//! some times faster and without an automaton in memory. Each alternative stands here in the order of the pattern.

use super::chars::{Flags, LETTER, LOWER, NEWLINE, NUMBER, SPACE, UPPER};

/// The pattern of a vocabulary.
#[derive(Clone, Copy, Debug)]
pub(super) enum Splitter {
    /// `cl100k_base`, as of tiktoken 0.7: contractions are pieces of their own.
    Cl100k,
    /// `o200k_base`: words end where capitals begin again, and keep their contraction.
    O200k,
}

impl Splitter {
    /// Returns the pieces of a text, in order; together they are the text.
    pub(super) fn pieces(self, text: &str) -> impl Iterator<Item = &str> {
        let cursor = Cursor { flags: Flags::get(), text };
        let mut at = 0;
        std::iter::from_fn(move || {
            let start = at;
            at = cursor.end_of_piece(self, start)?;
            Some(&text[start..at])
        })
    }
}

#[derive(Clone, Copy)]
struct Cursor<'a> {
    flags: &'static Flags,
    text: &'a str,
}

impl Cursor<'_> {
    /// Returns where the piece ends that begins at `at`; nothing at the end of the text.
    fn end_of_piece(self, splitter: Splitter, at: usize) -> Option<usize> {
        let (flags, len) = self.flags.at(self.text, at)?;
        let word = match splitter {
            Splitter::Cl100k => self.contraction(at).or_else(|| self.cl100k_word(at, flags, len)),
            Splitter::O200k => self.o200k_word(at, flags, len),
        };
        if word.is_some() {
            return word;
        }
        // \p{N}{1,3}
        if flags & NUMBER != 0 {
            return Some(self.number(at + len));
        }
        self.marks(splitter, at, flags, len).or_else(|| Some(self.space(splitter, at)))
    }

    /// `'(?i:[sdmt]|ll|ve|re)`. The long s folds to an s.
    fn contraction(self, at: usize) -> Option<usize> {
        let len = match self.text.as_bytes()[at..] {
            [b'\'', b's' | b'S' | b'd' | b'D' | b'm' | b'M' | b't' | b'T', ..] => 2,
            [b'\'', b'l' | b'L', b'l' | b'L', ..]
            | [b'\'', b'v' | b'V' | b'r' | b'R', b'e' | b'E', ..]
            | [b'\'', 0xc5, 0xbf, ..] => 3,
            _ => return None,
        };
        Some(at + len)
    }

    /// `[^\r\n\p{L}\p{N}]?\p{L}+`
    fn cl100k_word(self, at: usize, flags: u8, len: usize) -> Option<usize> {
        let start = if flags & (LETTER | NUMBER | NEWLINE) == 0 { at + len } else { at };
        let end = self.flags.run(self.text, start, LETTER);
        (end > start).then_some(end)
    }

    /// `[^\r\n\p{L}\p{N}]?U*L+` or else `[^\r\n\p{L}\p{N}]?U+L*`, and behind either a contraction. U is [`UPPER`],
    /// L is [`LOWER`]; letters without case and marks are both.
    fn o200k_word(self, at: usize, flags: u8, len: usize) -> Option<usize> {
        let led = flags & (LETTER | NUMBER | NEWLINE) == 0;
        let mut word = self.cased(if led { at + len } else { at });
        // A mark in front may as well be the word's own, and then it ends one.
        if led && flags & LOWER != 0 && !matches!(word, Cased::Lower(_)) {
            word = self.cased(at);
        }
        match word {
            Cased::Lower(end) | Cased::Upper(end) => Some(self.contraction(end).unwrap_or(end)),
            Cased::None => None,
        }
    }

    /// `U*L+`, or else `U+`.
    fn cased(self, start: usize) -> Cased {
        let mut at = start;
        // Behind the last character that U took and L could have taken.
        let mut both = None;
        while let Some((flags, len)) = self.flags.at(self.text, at) {
            if flags & UPPER == 0 {
                if flags & LOWER != 0 {
                    return Cased::Lower(self.flags.run(self.text, at, LOWER));
                }
                break;
            }
            at += len;
            if flags & LOWER != 0 {
                both = Some(at);
            }
        }
        match both {
            Some(end) => Cased::Lower(end),
            None if at > start => Cased::Upper(at),
            None => Cased::None,
        }
    }

    /// Returns where a number of three digits at most ends whose first digit ends at `at`.
    fn number(self, mut at: usize) -> usize {
        for _ in 0..2 {
            match self.flags.at(self.text, at) {
                Some((flags, len)) if flags & NUMBER != 0 => at += len,
                _ => break,
            }
        }
        at
    }

    /// ` ?[^\s\p{L}\p{N}]+` and behind it `[\r\n]*`, for o200k `[\r\n/]*`.
    fn marks(self, splitter: Splitter, at: usize, flags: u8, len: usize) -> Option<usize> {
        const NO_MARK: u8 = SPACE | LETTER | NUMBER;
        let mut end = if flags & NO_MARK == 0 || self.text.as_bytes()[at] == b' ' { at + len } else { return None };
        while let Some((flags, len)) = self.flags.at(self.text, end)
            && flags & NO_MARK == 0
        {
            end += len;
        }
        // A space alone is none.
        if end == at + len && flags & NO_MARK != 0 {
            return None;
        }
        let slash = matches!(splitter, Splitter::O200k);
        let tail = self.text.as_bytes()[end..].iter();
        Some(end + tail.take_while(|&&b| b == b'\r' || b == b'\n' || (slash && b == b'/')).count())
    }

    /// White space: up to its last line break; else all of it at the end of the text; else all but the last character,
    /// which leads the next piece, unless it is the only one.
    fn space(self, splitter: Splitter, at: usize) -> usize {
        let (mut end, mut last, mut line) = (at, at, None);
        while let Some((flags, len)) = self.flags.at(self.text, end)
            && flags & SPACE != 0
        {
            last = end;
            end += len;
            if flags & NEWLINE != 0 {
                line = Some(end);
            }
        }
        let at_end = end == self.text.len();
        match (splitter, line) {
            // `\s++$` stands in front of `\s*[\r\n]` here.
            (Splitter::Cl100k, _) if at_end => end,
            (_, Some(line)) => line,
            (_, None) if at_end || last == at => end,
            (_, None) => last,
        }
    }
}

/// What a word matched.
enum Cased {
    /// `U*L+`, up to here.
    Lower(usize),
    /// `U+` only, up to here.
    Upper(usize),
    None,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(splitter: Splitter, text: &str) -> Vec<&str> {
        splitter.pieces(text).collect()
    }

    #[test]
    fn o200k_words_end_where_capitals_begin_and_keep_their_contraction() {
        let split = |text| pieces(Splitter::O200k, text);
        assert_eq!(split("I'm DON'T camelCase HTTPServer"), ["I'm", " DON'T", " camel", "Case", " HTTPServer"]);
        assert_eq!(split("a\u{301}B \u{301}AB"), ["a\u{301}", "B", " \u{301}", "AB"]);
        assert_eq!(split("記AB記"), ["記AB記"]);
        assert_eq!(split("12345 =//\n/x"), ["123", "45", " =//\n/", "x"]);
    }

    #[test]
    fn cl100k_contractions_are_pieces() {
        let split = |text| pieces(Splitter::Cl100k, text);
        assert_eq!(split("I'm DON'T it'\u{17f}"), ["I", "'m", " DON", "'T", " it", "'\u{17f}"]);
        assert_eq!(split("(a) =//\n/x"), ["(a", ")", " =//\n", "/x"]);
    }

    #[test]
    fn white_space_leaves_its_last_character_to_the_next_word() {
        for splitter in [Splitter::Cl100k, Splitter::O200k] {
            assert_eq!(pieces(splitter, "a   b"), ["a", "  ", " b"]);
            assert_eq!(pieces(splitter, "a  \n\n  b"), ["a", "  \n\n", " ", " b"]);
            assert_eq!(pieces(splitter, "a  "), ["a", "  "]);
        }
        assert_eq!(pieces(Splitter::O200k, "a \n "), ["a", " \n", " "]);
        assert_eq!(pieces(Splitter::Cl100k, "a \n "), ["a", " \n "]);
    }
}
