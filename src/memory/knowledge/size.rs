//! About how many tokens a text is, without a tokenizer: passages are cut once, and shown to many models.

/// Quarters of a token that a space or a line feed between two texts counts.
pub(super) const JOINT: usize = 1;

/// The size of a text in quarters of a token: four letters of an alphabet are about one token, and so is one wide character. The size of
/// two texts side by side is the sum of theirs.
#[must_use]
pub fn size(text: &str) -> usize {
    text.chars().map(char_size).sum()
}

pub(super) fn char_size(c: char) -> usize {
    if is_wide(c) { 4 } else { 1 }
}

/// Whether a character stands for a word or a syllable: scripts without letters, and pictures.
pub(super) fn is_wide(c: char) -> bool {
    matches!(c, '\u{1100}'..='\u{11ff}' | '\u{2e80}'..='\u{a4cf}' | '\u{ac00}'..='\u{d7a3}' | '\u{f900}'..='\u{faff}'
        | '\u{ff00}'..='\u{ff60}' | '\u{1f000}'..)
}
