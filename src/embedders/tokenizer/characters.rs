//! Which characters are what, in Unicode's own categories.

use std::sync::LazyLock;

use regex_syntax::hir::{Class, HirKind};

/// A set of characters, as sorted ranges.
pub(super) struct Characters(Vec<(char, char)>);

/// `P`: punctuation of every script.
pub(super) static PUNCTUATION: LazyLock<Characters> = LazyLock::new(|| Characters::of(r"\p{P}"));
/// `Mn`: accents and the like, which take no room of their own.
pub(super) static MARKS: LazyLock<Characters> = LazyLock::new(|| Characters::of(r"\p{Mn}"));
/// `Cc`, `Cf` and `Co`: controls, invisible formatting, private use.
pub(super) static CONTROLS: LazyLock<Characters> = LazyLock::new(|| Characters::of(r"[\p{Cc}\p{Cf}\p{Co}]"));

impl Characters {
    fn of(class: &str) -> Self {
        let hir = regex_syntax::parse(class).expect("a constant that the tests parse");
        match hir.kind() {
            HirKind::Class(Class::Unicode(class)) => Self(class.iter().map(|r| (r.start(), r.end())).collect()),
            _ => Self(Vec::new()),
        }
    }

    /// Whether it has `c`.
    pub(super) fn has(&self, c: char) -> bool {
        let at = self.0.partition_point(|(_, end)| *end < c);
        self.0.get(at).is_some_and(|(start, _)| *start <= c)
    }
}

/// The blocks that BERT takes for Chinese: each of their characters is a word. (U+2B920 is BERT's own slip.)
pub(super) fn is_ideograph(c: char) -> bool {
    matches!(c,
        '\u{4E00}'..='\u{9FFF}' | '\u{3400}'..='\u{4DBF}' | '\u{20000}'..='\u{2A6DF}' | '\u{2A700}'..='\u{2B73F}'
        | '\u{2B740}'..='\u{2B81F}' | '\u{2B920}'..='\u{2CEAF}' | '\u{F900}'..='\u{FAFF}' | '\u{2F800}'..='\u{2FA1F}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_of_their_categories() {
        assert!("!,。《》¿-_".chars().all(|c| PUNCTUATION.has(c)));
        assert!("aé7设+$ ".chars().all(|c| !PUNCTUATION.has(c)));
        assert!(MARKS.has('\u{301}') && !MARKS.has('é'));
        assert!("\u{0}\u{7f}\u{200b}\u{202e}\u{feff}".chars().all(|c| CONTROLS.has(c)) && !CONTROLS.has(' '));
        assert!(is_ideograph('设') && !is_ideograph('か') && !is_ideograph('한'));
    }
}
