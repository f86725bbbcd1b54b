//! Values in the form in which they are kept, and the form in which they are compared.

use std::borrow::Cow;

use serde_json::Value;
use unicode_normalization::{UnicodeNormalization, is_nfkc_quick};

use super::amount::amount;
use super::dates;
use super::schema::ValueType;
use crate::base::Time;

/// A value is one line of at most this many characters; the rest is cut at a word.
pub const MAX_VALUE_CHARS: usize = 300;

/// Folds compatibility forms (full-width letters, ligatures) and runs of white space; keeps case and script.
#[must_use]
pub fn fold(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return fold_ascii(text);
    }
    let nfkc: Cow<'_, str> = if is_nfkc_quick(text.chars()) == unicode_normalization::IsNormalized::Yes {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(text.nfkc().collect())
    };
    let tidy = !nfkc.starts_with(char::is_whitespace)
        && !nfkc.ends_with(char::is_whitespace)
        && !nfkc.contains(|c: char| c.is_whitespace() && c != ' ')
        && !nfkc.contains("  ");
    if tidy {
        return nfkc;
    }
    Cow::Owned(nfkc.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// The same for what has no other letters, as most texts: white space alone is to be folded in it.
fn fold_ascii(text: &str) -> Cow<'_, str> {
    let is_white = |byte: u8| matches!(byte, b'\t'..=b'\r' | b' ');
    let (mut before, mut is_tidy) = (b' ', true);
    for byte in text.bytes() {
        is_tidy &= !is_white(byte) || (byte == b' ' && before != b' ');
        before = byte;
    }
    if is_tidy && before != b' ' {
        return Cow::Borrowed(text);
    }
    let mut folded = Vec::with_capacity(text.len());
    let mut before = b' ';
    for byte in text.bytes() {
        let byte = if is_white(byte) { b' ' } else { byte };
        if (before, byte) != (b' ', b' ') {
            folded.push(byte);
        }
        before = byte;
    }
    if folded.last() == Some(&b' ') {
        folded.pop();
    }
    Cow::Owned(String::from_utf8(folded).expect("bytes of ASCII are letters"))
}

/// Whether two values mean the same: without regard to case, width, white space, punctuation and English articles.
#[must_use]
pub fn same_value(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::String(a), Value::String(b)) => same_text(a, b),
        _ => a == b,
    }
}

/// [`same_value`] for texts. Allocates nothing and stops at the first difference, since it is asked of every fact of a key.
#[must_use]
pub fn same_text(a: &str, b: &str) -> bool {
    if a == b {
        return true;
    }
    if a.is_ascii() && b.is_ascii() {
        // What ends otherwise is something else: that parts nearly all pairs at one byte.
        let last = |text: &str| text.bytes().rev().find(|b| is_letter(*b)).map(|b| b.to_ascii_lowercase());
        last(a) == last(b) && ascii_letters(a).eq(ascii_letters(b))
    } else {
        let (a, b): (String, String) = (a.nfkc().collect(), b.nfkc().collect());
        letters(&a).eq(letters(&b))
    }
}

/// The letters and digits of a text in lower case, a leading article left out.
fn letters(text: &str) -> impl Iterator<Item = char> {
    // What a text has besides letters and digits ("C++", "C#") may be all that tells it from another.
    without_article(text)
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, '+' | '#' | '@'))
        .flat_map(char::to_lowercase)
}

/// [`letters`] of a text in ASCII, which nearly all are where there are many to compare.
fn ascii_letters(text: &str) -> impl Iterator<Item = u8> {
    let bytes = without_article(text).bytes();
    bytes.filter(|b| is_letter(*b)).map(|b| b.to_ascii_lowercase())
}

fn is_letter(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'#' | b'@')
}

fn without_article(text: &str) -> &str {
    let text = text.trim_start();
    for article in ["the ", "a ", "an "] {
        if let Some(head) = text.get(..article.len())
            && head.eq_ignore_ascii_case(article)
        {
            return &text[article.len()..];
        }
    }
    text
}

/// Whether `part` names the same thing as `whole`, or a part of its words: `car` and `a red car`, `peanut` and `peanuts`.
#[must_use]
pub fn names_the_same(part: &str, whole: &str) -> bool {
    // What names the same has a word in common, or the same letters: at the least an initial. That parts nearly all pairs at once.
    if let (Some(a), Some(b)) = (initials(part), initials(whole))
        && a & b == 0
    {
        return false;
    }
    if same_text(part, whole) {
        return true;
    }
    if !part.is_ascii() || !whole.is_ascii() {
        let (part, whole): (String, String) = (part.nfkc().collect(), whole.nfkc().collect());
        let (part, whole): (String, String) = (letters(&part).collect(), letters(&whole).collect());
        return !part.is_empty() && !whole.is_empty() && (whole.contains(&part) || part.contains(&whole));
    }
    let all_in = |small: &str, large: &str| {
        words(small).next().is_some() && words(small).all(|w| words(large).any(|l| l.eq_ignore_ascii_case(w)))
    };
    all_in(part, whole) || all_in(whole, part)
}

/// The initials of the words of a text, one bit for each; none for texts that have others than ASCII, or no words.
fn initials(text: &str) -> Option<u64> {
    let (mut bits, mut before) = (0_u64, b' ');
    for byte in text.bytes() {
        if !byte.is_ascii() {
            return None;
        }
        if byte.is_ascii_alphanumeric() && !before.is_ascii_alphanumeric() {
            bits |= 1 << (byte.to_ascii_lowercase() & 63);
        }
        before = byte;
    }
    (bits != 0).then_some(bits)
}

/// The words of a text, roughly in the singular.
fn words(text: &str) -> impl Iterator<Item = &str> {
    // Asked of ASCII texts only.
    without_article(text).split(|c: char| !c.is_ascii_alphanumeric()).filter(|w| !w.is_empty()).map(singular)
}

/// A rough singular: enough to tell that `peanuts` and `peanut` are one thing.
fn singular(word: &str) -> &str {
    if word.len() > 4 && word.ends_with("ies") {
        &word[..word.len() - 3]
    } else if (word.len() > 3 && word.ends_with('s') && !word.ends_with("ss"))
        || (word.len() > 4 && word.ends_with('y'))
    {
        &word[..word.len() - 1]
    } else {
        word
    }
}

/// Brings a value into the form in which it is kept; `None` when nothing of the wanted type is left.
///
/// White space and width are folded; articles, quotes and closing punctuation go; case and script stay.
#[must_use]
pub fn tidy(text: &str, value_type: ValueType) -> Option<String> {
    let folded = fold(text);
    let mut value = trim_punctuation(&folded);
    if matches!(value_type, ValueType::Text | ValueType::Place) {
        value = without_article(value);
    }
    match value_type {
        ValueType::Email => return email(value),
        ValueType::Phone => return phone(value),
        _ => {}
    }
    let value = cut_at_word(value, MAX_VALUE_CHARS);
    (value.chars().any(char::is_alphanumeric)).then(|| value.to_owned())
}

/// Brings a value that was said at a time into the form in which it is kept: [`tidy`], and dates as `1988-03-14` (`--03-14` without a
/// year), what is planned as `1988-03-14 09:30`, amounts as `1200 EUR`. A date that cannot be read stays as it was written, as long as it has a number in it.
#[must_use]
pub fn kept(text: &str, value_type: ValueType, said_at: Time) -> Option<String> {
    let value = tidy(text, value_type)?;
    match value_type {
        ValueType::Date => match dates::whole(&value, said_at) {
            Some(date) => Some(date.to_string()),
            None => Some(value).filter(|v| v.contains(|c: char| c.is_numeric() || "一二三四五六七八九十".contains(c))),
        },
        ValueType::Amount => amount(&value),
        ValueType::Schedule => Some(dates::appointment(&value, said_at).unwrap_or(value)),
        _ => Some(value),
    }
}

fn trim_punctuation(text: &str) -> &str {
    let closing = |c: char| {
        c.is_whitespace()
            || matches!(
                c,
                '.' | ','
                    | ';'
                    | ':'
                    | '!'
                    | '?'
                    | '。'
                    | '\u{ff0c}'
                    | '\u{ff1b}'
                    | '\u{ff1a}'
                    | '\u{ff01}'
                    | '\u{ff1f}'
                    | '、'
                    | '…'
                    | '~'
            )
    };
    let quote = |c: char| matches!(c, '"' | '\'' | '“' | '”' | '‘' | '’' | '「' | '」' | '『' | '』' | '`' | '*' | '_');
    text.trim_matches(closing).trim_matches(quote).trim_matches(closing)
}

/// The first `max_chars` characters, cut back to the end of a word.
#[must_use]
pub fn cut_at_word(text: &str, max_chars: usize) -> &str {
    let Some((end, _)) = text.char_indices().nth(max_chars) else {
        return text;
    };
    let head = &text[..end];
    match head.rfind(char::is_whitespace) {
        Some(space) if space * 2 > end => head[..space].trim_end(),
        _ => head,
    }
}

fn email(text: &str) -> Option<String> {
    let word = text.split_whitespace().find(|w| w.contains('@'))?;
    let word = word.trim_matches(|c: char| !c.is_alphanumeric());
    let (name, host) = word.split_once('@')?;
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '+' | '%');
    (!name.is_empty() && host.contains('.') && name.chars().all(plain) && host.chars().all(plain))
        .then(|| word.to_owned())
}

fn phone(text: &str) -> Option<String> {
    let number: String = text
        .chars()
        .take_while(|c| c.is_ascii_digit() || matches!(c, '+' | '-' | ' ' | '(' | ')' | '.' | '/'))
        .collect();
    let digits = number.chars().filter(char::is_ascii_digit).count();
    (6..=15).contains(&digits).then(|| number.trim_matches(|c: char| c == ' ' || c == '.' || c == '-').to_owned())
}

/// The end of a key made of words: `dark_mode` for "Dark mode", `香菜` for "香菜"; at most `max_words`. `None` when no letter is left.
#[must_use]
pub fn slug(text: &str, max_words: usize) -> Option<String> {
    let folded = fold(without_article(text)).to_lowercase();
    let slug = folded
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .take(max_words)
        .collect::<Vec<_>>()
        .join("_");
    let slug: String = slug.chars().take(40).collect();
    let slug = slug.trim_end_matches('_');
    (!slug.is_empty()).then(|| slug.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_compared_without_case_width_and_articles() {
        assert!(same_value(&json!("the Rome"), &json!("rome.")));
        assert!(same_value(&json!("Rome"), &json!("Rome")));
        assert!(same_value(&json!("上海"), &json!("上海。")));
        assert!(!same_value(&json!("C++"), &json!("C")) && !same_value(&json!("Roma"), &json!("Rome")));
        assert!(same_value(&json!(7), &json!(7)) && !same_value(&json!(7), &json!("seven")));
    }

    #[test]
    fn white_space_is_folded_alike_with_and_without_other_letters() {
        for text in ["", " ", "a", " a", "a ", "a b", "a  b", "a\n \u{b}b\r\n", "- a\tb\n- c.\n\n", "a\u{1f} b"] {
            let folded = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert_eq!(fold(text), folded(text), "{text:?}");
            assert_eq!(fold(&format!("{text}é")), folded(&format!("{text}é")), "{text:?}");
        }
    }

    #[test]
    fn a_part_of_the_words_names_the_thing() {
        for (a, b) in [("peanut", "peanuts"), ("the car", "a red car"), ("花生", "花生酱"), ("allergies", "allergy")]
        {
            assert!(names_the_same(a, b), "{a} {b}");
        }
        assert!(!names_the_same("car", "scarf") && !names_the_same("peanuts", "walnuts"));
    }

    #[test]
    fn a_tidied_value_keeps_case_and_script() {
        assert_eq!(tidy("  the  Big\tApple. ", ValueType::Place).as_deref(), Some("Big Apple"));
        assert_eq!(tidy("上海。", ValueType::Place).as_deref(), Some("上海"));
        assert_eq!(tidy("\"Dune\"!", ValueType::Text).as_deref(), Some("Dune"));
        assert_eq!(tidy("me@x.org, thanks", ValueType::Email).as_deref(), Some("me@x.org"));
        assert_eq!(tidy("+44 20 7946 0958 after six", ValueType::Phone).as_deref(), Some("+44 20 7946 0958"));
        assert_eq!(tidy("12", ValueType::Phone), None);
        assert_eq!(tidy("…", ValueType::Text), None);
    }

    #[test]
    fn what_is_kept_has_the_form_of_its_type() {
        let said_at = Time::parse("2023-05-08T13:56:00Z").expect("a date");
        let date = |text| kept(text, ValueType::Date, said_at);
        assert_eq!(date("14th of March, 1988").as_deref(), Some("1988-03-14"));
        assert_eq!(date("1995年8月16日").as_deref(), Some("1995-08-16"));
        assert_eq!(date("yesterday").as_deref(), Some("2023-05-07"));
        assert_eq!(date("3/4/1990").as_deref(), Some("3/4/1990"));
        assert_eq!(date("soon"), None);
        assert_eq!(kept("about 1,200 euros", ValueType::Amount, said_at).as_deref(), Some("1200 EUR"));
        assert_eq!(kept("a lot", ValueType::Amount, said_at), None);
    }

    #[test]
    fn a_slug_is_a_key_in_any_script() {
        assert_eq!(slug("the Dark mode!", 4).as_deref(), Some("dark_mode"));
        assert_eq!(slug("香菜", 4).as_deref(), Some("香菜"));
        assert_eq!(slug("!!", 4), None);
    }
}
