//! Words in messages: values as they may be shown, and what was probably meant.

use toml::Value;

use crate::base::near;

/// Values longer than this are shortened in messages, in characters.
const MAX_SHOWN: usize = 80;
/// The longest name of a tenant, provider, model and the like, in bytes.
const MAX_NAME: usize = 256;

/// What is wrong with a name, if anything.
pub(super) fn name_problem(text: &str) -> Option<&'static str> {
    if text.trim().is_empty() {
        Some("must not be empty")
    } else if text.len() > MAX_NAME {
        Some("must not be longer than 256 bytes")
    } else if text.chars().any(char::is_control) {
        Some("must not hold control characters")
    } else {
        None
    }
}

/// Says which words are allowed, and which was probably meant.
pub(super) fn one_of<'w>(text: &str, words: impl Iterator<Item = &'w str> + Clone) -> String {
    let all: Vec<String> = words.clone().map(quoted).collect();
    let mut problem = format!("must be one of {}", all.join(", "));
    if let Some(near) = nearest(text, words) {
        problem.push_str(&format!("; did you mean {}?", quoted(near)));
    }
    problem
}

/// A value as it may be shown: cut, without credentials.
pub(super) fn show(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(&without_credentials(text)),
        Value::Table(_) => "a table".to_owned(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(show).collect();
            cut(&format!("[{}]", items.join(", ")))
        }
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Boolean(flag) => flag.to_string(),
        Value::Datetime(time) => time.to_string(),
    }
}

/// Takes user and password, query and fragment out of a URL.
pub(super) fn without_credentials(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else { return text.to_owned() };
    let (place, secret_tail) = match rest.find(['?', '#']) {
        Some(at) => (&rest[..at], "?…"),
        None => (rest, ""),
    };
    match place.rsplit_once('@') {
        Some((_, host)) => format!("{scheme}://…@{host}{secret_tail}"),
        None => format!("{scheme}://{place}{secret_tail}"),
    }
}

/// A text in quotes, cut, on one line.
pub(super) fn quoted(text: &str) -> String {
    format!("\"{}\"", cut(text).escape_debug())
}

/// A key as it stands in a path.
pub(super) fn quoted_key(key: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '[' | ']');
    if !key.is_empty() && key.chars().all(bare) { key.to_owned() } else { quoted(key) }
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(MAX_SHOWN) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

/// The word that was probably meant.
pub(super) fn nearest<'w>(text: &str, words: impl Iterator<Item = &'w str>) -> Option<&'w str> {
    near(text, words, 1).first().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_that_was_meant_is_near() {
        let words = ["listen", "admin_listen", "drain_seconds"];
        assert_eq!(nearest("lisen", words.into_iter()), Some("listen"));
        assert_eq!(nearest("drain_second", words.into_iter()), Some("drain_seconds"));
        assert_eq!(nearest("colour", words.into_iter()), None);
        assert_eq!(nearest("", words.into_iter()), None);
        assert_eq!(nearest(&"x".repeat(10_000), words.into_iter()), None);
    }

    #[test]
    fn credentials_are_taken_out_of_urls() {
        for (url, shown) in [
            ("https://user:pw@h/v1?key=k#f", "https://…@h/v1?…"),
            ("https://a:b@c:d@h", "https://…@h"),
            ("http://h:1/v1", "http://h:1/v1"),
            ("no url", "no url"),
        ] {
            assert_eq!(without_credentials(url), shown);
        }
    }

    #[test]
    fn long_values_are_cut_and_shown_on_one_line() {
        assert_eq!(quoted("a\nb"), r#""a\nb""#);
        assert!(show(&Value::String("语".repeat(500))).chars().count() < 100);
    }
}
