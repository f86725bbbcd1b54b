//! Finds key data in text: what must survive word for word when the rest is left out.
//!
//! Order, ticket and invoice numbers, amounts, dates, phone numbers, e-mail and postal addresses, URLs, versions, file paths
//! and quoted names; English and Chinese. Rules only, so that a digest has them whatever a model makes of the rest. They never
//! decide what is true or worth remembering: a find too many costs a few tokens.

mod rules;
#[cfg(test)]
mod tests;

use std::sync::LazyLock;

use regex_automata::meta::Regex;

/// Longer finds are no data but text.
const MAX_BYTES: usize = 160;

/// What a piece of key data is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Url,
    Email,
    /// A number with the word that says what it is of.
    Reference,
    Date,
    Amount,
    Address,
    Phone,
    Path,
    Version,
    /// A number that looks like the name of a thing.
    Code,
    /// A quoted name.
    Name,
}

impl Kind {
    /// Whether it names a matter, rather than something that is met in every text.
    pub(super) fn is_telling(self) -> bool {
        !matches!(self, Self::Path | Self::Version | Self::Name)
    }
}

/// One find, word for word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeyDatum<'a> {
    pub(super) kind: Kind,
    pub(super) text: &'a str,
}

/// All rules at once: of two finds that begin at one place, the rule that stands first wins. A find says which rule it is of.
static RULES: LazyLock<Regex> = LazyLock::new(|| {
    let rules: Vec<_> = rules::RULES.iter().map(|(_, rule)| *rule).collect();
    Regex::new_many(&rules).expect("a test compiles the rules")
});

/// Returns the key data of a text, in order.
pub(super) fn key_data(text: &str) -> impl Iterator<Item = KeyDatum<'_>> {
    RULES
        .find_iter(text)
        .map(|found| KeyDatum { kind: rules::RULES[found.pattern().as_usize()].0, text: trimmed(&text[found.range()]) })
        .filter(|datum| (2..=MAX_BYTES).contains(&datum.text.len()) && !datum.text.ends_with(" \""))
}

/// Without the punctuation of the sentence that it stands in, and without a bracket that was opened before it.
fn trimmed(text: &str) -> &str {
    let mut text = text.trim_end_matches(['.', ',', ';', ':', ' ', '!', '?', '\'']);
    while text.ends_with(')') && text.matches(')').count() > text.matches('(').count() {
        text = text[..text.len() - 1].trim_end_matches(['.', ',', ';', ':']);
    }
    text
}
