//! A guess at the language of a short text, good enough to tag values and to choose rules.

/// Returns the BCP 47 code of the text's language: by script where that says it, by common words among Latin ones. `en` when in doubt.
#[must_use]
pub fn detect(text: &str) -> &'static str {
    if text.is_ascii() {
        return latin(text);
    }
    let mut han = 0_usize;
    let mut letters = 0_usize;
    for c in text.chars().filter(|c| c.is_alphabetic()).take(400) {
        letters += 1;
        match c {
            '\u{3040}'..='\u{30ff}' => return "ja",
            '\u{ac00}'..='\u{d7af}' => return "ko",
            '\u{0400}'..='\u{04ff}' => return "ru",
            '\u{0600}'..='\u{06ff}' => return "ar",
            '\u{0e00}'..='\u{0e7f}' => return "th",
            '\u{0900}'..='\u{097f}' => return "hi",
            '\u{0370}'..='\u{03ff}' => return "el",
            '\u{0590}'..='\u{05ff}' => return "he",
            _ if is_han(c) => han += 1,
            _ => {}
        }
    }
    // One Chinese character says about as much as four Latin letters.
    if han > 0 && han * 5 >= letters { "zh" } else { latin(text) }
}

/// Whether a character is a Chinese one.
#[must_use]
pub fn is_han(c: char) -> bool {
    matches!(c, '\u{4e00}'..='\u{9fff}' | '\u{3400}'..='\u{4dbf}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{2fa1f}')
}

fn latin(text: &str) -> &'static str {
    const WORDS: [(&str, &[&str]); 6] = [
        (
            "en",
            &[
                "i", "the", "is", "my", "and", "a", "of", "to", "in", "you", "that", "i'm", "not", "am", "we", "our",
                "are", "it",
            ],
        ),
        (
            "es",
            &[
                "el", "los", "soy", "mi", "una", "por", "que", "vivo", "tengo", "es", "yo", "las", "con", "muy", "y",
                "para", "llamo",
            ],
        ),
        (
            "fr",
            &[
                "je", "le", "les", "et", "une", "des", "mon", "ma", "suis", "est", "pas", "j'ai", "que", "au", "dans",
                "pour", "j'habite",
            ],
        ),
        (
            "de",
            &[
                "ich", "und", "der", "die", "das", "bin", "nicht", "ist", "ein", "eine", "mein", "meine", "wohne",
                "habe", "mit",
            ],
        ),
        ("pt", &["eu", "os", "uma", "meu", "minha", "não", "moro", "sou", "e", "do", "da", "tenho", "com", "você"]),
        ("it", &["io", "il", "sono", "mio", "mia", "non", "che", "una", "ho", "abito", "di", "chiamo", "vivo"]),
    ];
    let mut best = ("en", 0_usize);
    let lower = text.get(..text.len().min(400)).unwrap_or(text).to_lowercase();
    let words: Vec<&str> = lower.split(|c: char| !c.is_alphanumeric() && c != '\'').filter(|w| !w.is_empty()).collect();
    for (language, common) in WORDS {
        let n = words.iter().filter(|w| common.contains(w)).count();
        if n > best.1 {
            best = (language, n);
        }
    }
    best.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn languages_are_told_apart() {
        for (text, language) in [
            ("I live in Oslo", "en"),
            ("我住在上海", "zh"),
            ("我们的项目使用 pnpm", "zh"),
            ("東京に住んでいます", "ja"),
            ("Vivo en Madrid y soy vegetariano", "es"),
            ("Je suis allergique aux arachides", "fr"),
            ("Ich wohne in Berlin", "de"),
            ("Меня зовут Иван", "ru"),
            ("", "en"),
        ] {
            assert_eq!(detect(text), language, "{text}");
        }
    }
}
