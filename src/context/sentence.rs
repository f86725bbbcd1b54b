//! Sentences with their closing punctuation, English and Chinese.

/// Abbreviations whose dot ends no sentence, in lower case.
const ABBREVIATIONS: [&str; 14] =
    ["mr", "mrs", "ms", "dr", "st", "prof", "jr", "sr", "e.g", "i.e", "vs", "no", "approx", "apt"];

/// Cuts a text into sentences; what is only white space is left out.
pub(super) fn sentences(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        rest = rest.trim_start();
        let (sentence, after) = rest.split_at(end(rest));
        rest = after;
        (!sentence.is_empty()).then(|| sentence.trim_end())
    })
}

/// Returns the first sentence; empty when there is none.
pub(super) fn first_sentence(text: &str) -> &str {
    sentences(text).next().unwrap_or_default()
}

/// Where the first sentence ends.
fn end(text: &str) -> usize {
    let ends = |&(at, c): &(usize, char)| match c {
        '。' | '！' | '？' | '；' | '\n' => true,
        '.' | '!' | '?' => {
            text[at + 1..].chars().next().is_none_or(char::is_whitespace) && !(c == '.' && is_abbreviated(&text[..at]))
        }
        _ => false,
    };
    text.char_indices().find(ends).map_or(text.len(), |(at, c)| at + c.len_utf8())
}

fn is_abbreviated(before: &str) -> bool {
    let word = before.rsplit(|c: char| c.is_whitespace() || c == '(').next().unwrap_or_default();
    // An initial, as in "J. Smith", ends no sentence either; "I" is a word.
    let is_initial = word.len() == 1 && word != "I" && word.chars().all(|c| c.is_ascii_uppercase());
    is_initial || ABBREVIATIONS.iter().any(|abbreviation| word.eq_ignore_ascii_case(abbreviation))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_end_where_people_end_them() {
        assert_eq!(first_sentence(" v1.2 is out. Yes"), "v1.2 is out.");
        assert_eq!(first_sentence("好的。明天"), "好的。");
        assert_eq!(first_sentence("one\ntwo"), "one");
        assert_eq!(first_sentence(""), "");
        let all: Vec<_> = sentences("Dr. Smith saw J. Doe. So did I. 然后呢？好！ Done").collect();
        assert_eq!(all, ["Dr. Smith saw J. Doe.", "So did I.", "然后呢？", "好！", "Done"]);
        assert_eq!(sentences(" \n\n ").count(), 0);
    }
}
