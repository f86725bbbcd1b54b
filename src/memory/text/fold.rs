//! Folding: what two spellings of one word have in common.

use std::borrow::Cow;

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::decompose_canonical;

/// Folds width and compatibility forms (NFKC), case, Latin accents, typographic apostrophes and dashes, and common traditional
/// characters to simplified ones.
#[must_use]
pub fn fold(text: Cow<'_, str>) -> Cow<'_, str> {
    if text.is_ascii() {
        return if text.bytes().any(|byte| byte.is_ascii_uppercase()) {
            Cow::Owned(text.to_ascii_lowercase())
        } else {
            text
        };
    }
    let mut folded = String::with_capacity(text.len());
    for c in text.nfkc() {
        match c {
            '\u{2018}' | '\u{2019}' | '\u{02bc}' => folded.push('\''),
            '\u{2010}'..='\u{2015}' | '\u{2212}' => folded.push('-'),
            '\u{c0}'..='\u{24f}' => push_base(c, &mut folded),
            '\u{3400}'..='\u{9fff}' => folded.push(simplified(c)),
            _ => folded.extend(c.to_lowercase()),
        }
    }
    Cow::Owned(folded)
}

/// A Latin letter without its marks.
fn push_base(c: char, folded: &mut String) {
    let mut base = None;
    decompose_canonical(c, |part| {
        base.get_or_insert(part);
    });
    match base.unwrap_or(c) {
        'ß' => folded.push_str("ss"),
        'ø' | 'Ø' => folded.push('o'),
        'ł' | 'Ł' => folded.push('l'),
        'æ' | 'Æ' => folded.push_str("ae"),
        other => folded.extend(other.to_lowercase()),
    }
}

/// Pairs of a traditional character and its simplified form, for the characters of everyday texts.
const PAIRS: &str = include_str!("traditional.txt");

/// The simplified form of a traditional character; any other one stays.
pub(in crate::memory) fn simplified(c: char) -> char {
    use std::collections::HashMap;
    use std::sync::LazyLock;
    static TABLE: LazyLock<HashMap<char, char>> = LazyLock::new(|| {
        let chars: Vec<char> = PAIRS.lines().filter(|line| !line.starts_with('#')).flat_map(str::chars).collect();
        chars.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect()
    });
    TABLE.get(&c).copied().unwrap_or(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_word_fold_to_the_same() {
        for (text, expected) in [
            ("HELLO", "hello"),
            ("ＡＢＣ１２", "abc12"),
            ("Żółw", "zolw"),
            ("don\u{2019}t", "don't"),
            ("訂單", "订单"),
            ("ｶﾞ", "ガ"),
            ("Straße", "strasse"),
        ] {
            assert_eq!(fold(text.into()), expected);
        }
    }
}
