//! Words that were probably meant.

/// Texts longer than this are no typing mistake, and not worth the time. In bytes.
const MAX_TEXT: usize = 64;

/// Returns at most `most` words that `text` was probably meant to be, nearest first, whatever their case; equally near ones in the order of the alphabet.
#[must_use]
pub fn near<'w>(text: &str, words: impl Iterator<Item = &'w str>, most: usize) -> Vec<&'w str> {
    if text.len() > MAX_TEXT {
        return Vec::new();
    }
    let text = text.to_lowercase();
    let distances = words.map(|word| (distance(&text, &word.to_lowercase()), word));
    let mut found: Vec<(usize, &str)> = distances.filter(|(d, word)| *d <= word.len().div_ceil(3)).collect();
    found.sort_unstable();
    found.dedup();
    found.into_iter().take(most).map(|(_, word)| word).collect()
}

/// The number of single-character edits between two words.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &cb) in b.iter().enumerate() {
            let replace = diagonal + usize::from(ca != cb);
            diagonal = row[j + 1];
            row[j + 1] = replace.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_comes_first_and_what_is_far_not_at_all() {
        let words = ["gpt-4o", "gpt-4o-mini", "assistant", "gpt-4"];
        assert_eq!(near("gpt-4O", words.into_iter(), 3), ["gpt-4o", "gpt-4"]);
        assert_eq!(near("asistant", words.into_iter(), 3), ["assistant"]);
        assert_eq!(near("claude", words.into_iter(), 3), [""; 0]);
        assert_eq!(near("", words.into_iter(), 3), [""; 0]);
        assert_eq!(near(&"x".repeat(10_000), words.into_iter(), 3), [""; 0]);
    }
}
