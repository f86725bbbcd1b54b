//! Where a value ends in running English.

use std::sync::LazyLock;

use regex::Regex;

use crate::memory::normalise::tidy;
use crate::memory::schema::ValueType;

/// Words that begin something other than the value.
static STOP: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?xi)\s(?:and\s(?:i|i'm|my|we|it|that|he|she|they|this|so|then|please|the\srest)|but|because|so|since|which|who|where|when|while|though|although|as\s(?:i|my|we|of)|if|unless|until|anymore|any\smore|these\sdays|nowadays|right\snow|now|at\sthe\smoment|already|btw|by\sthe\sway|actually|too|as\swell|also|please|thanks|thank\syou|instead\sof|rather\sthan|by\snow|myself|ourselves|at\slast|again|for\syears|for\s(?:\d+|a\sfew|many|several|two|three|four|five|ten)\s(?:years|months)|last\s(?:week|month|year|spring|summer|autumn|fall|winter|night|monday|tuesday|wednesday|thursday|friday|saturday|sunday|january|february|march|april|may|june|july|august|september|october|november|december)|this\s(?:week|month|year|spring|summer|morning)|yesterday|today|recently|a\s(?:few|couple)\s.{1,20}ago|in\s(?:19|20)\d\d|with\smy|for\s(?:work|good|school|uni|college|university|love|family|a\s(?:new\s)?job)|so\smuch|very\smuch|a\slot|the\smost|more\sthan\sanything|in\sgeneral|to\sbe\shonest|tbh|lol|haha)(?-u:\b)
        |\s[(\u{2013}\u{2014}-]|[;!?\n]|\.\s|\.$|:\s",
    )
    .expect("tested")
});

/// The value at the front of `text`, without what comes after it; commas end it.
pub(super) fn phrase(text: &str) -> Option<&str> {
    let text = clip(text);
    let end = text.find(", ").unwrap_or(text.len());
    usable(&text[..end])
}

/// The value at the front of `text`; commas belong to it.
pub(super) fn clip(text: &str) -> &str {
    let padded_end = STOP.find(text).map_or(text.len(), |m| m.start());
    text[..padded_end].trim().trim_end_matches([',', '.', ';', ':', '!'])
}

fn usable(text: &str) -> Option<&str> {
    let text = text.trim().trim_end_matches([',', '.', ';', ':', '!']);
    (text.chars().any(char::is_alphanumeric) && text.chars().count() <= 120).then_some(text)
}

/// A place at the front of `text`: "Rome, Italy" and "5 Elm Street, London" are one.
pub(super) fn place(text: &str) -> Option<String> {
    let text = clip(text);
    let mut end = 0;
    for (index, part) in text.split(", ").enumerate() {
        let capital = part.chars().next().is_some_and(|c| c.is_uppercase() || c.is_ascii_digit());
        if index > 0 && (!capital || part.split(' ').count() > 4) {
            break;
        }
        end += part.len() + if index > 0 { 2 } else { 0 };
    }
    let text = &text[..end];
    let bare = strip_words(text, &["the city of", "beautiful", "sunny", "downtown", "central"]);
    tidy(bare, ValueType::Place).filter(|_| is_place(bare))
}

/// Things that people move to, live in and work in that are not places on a map.
const NO_PLACE: [&str; 42] = [
    "my",
    "a",
    "an",
    "this",
    "that",
    "it",
    "your",
    "his",
    "her",
    "their",
    "our",
    "fear",
    "hope",
    "peace",
    "harmony",
    "sin",
    "finance",
    "tech",
    "marketing",
    "sales",
    "it",
    "healthcare",
    "education",
    "software",
    "construction",
    "retail",
    "hospitality",
    "hr",
    "fashion",
    "consulting",
    "engineering",
    "academia",
    "research",
    "real",
    "advertising",
    "banking",
    "insurance",
    "logistics",
    "shifts",
    "teams",
    "silence",
    "development",
];

fn is_place(text: &str) -> bool {
    let first = text.split([' ', ',']).next().unwrap_or("").to_lowercase();
    // "The Hague" is a place, "the next step" is not.
    if first == "the" && text.get(4..).is_none_or(|rest| rest.starts_with(char::is_lowercase)) {
        return false;
    }
    !NO_PLACE.contains(&first.as_str()) && text.split(' ').count() <= 12 && text.chars().count() > 1
}

/// A person's name at the front of `text`: at most four words.
pub(super) fn name(text: &str) -> Option<String> {
    let text = clip(text);
    let end = text.find([',', '(']).unwrap_or(text.len());
    let mut words: Vec<&str> = text[..end].split_whitespace().take(5).collect();
    if let Some(at) = words.iter().position(|w| {
        matches!(w.to_lowercase().as_str(), "and" | "from" | "in" | "at" | "for" | "or" | "not" | "by" | "on" | "with")
    }) {
        words.truncate(at);
    }
    let first = words.first()?.to_lowercase();
    const NO_NAME: [&str; 46] = [
        "pronounced",
        "spelled",
        "spelt",
        "written",
        "misspelled",
        "missing",
        "a",
        "an",
        "the",
        "not",
        "here",
        "back",
        "in",
        "on",
        "at",
        "just",
        "going",
        "trying",
        "looking",
        "so",
        "very",
        "too",
        "really",
        "sorry",
        "sure",
        "ok",
        "okay",
        "fine",
        "good",
        "glad",
        "happy",
        "tired",
        "sick",
        "ready",
        "new",
        "old",
        "from",
        "curious",
        "wondering",
        "working",
        "what",
        "when",
        "later",
        "if",
        "crazy",
        "maybe",
    ];
    if words.len() > 4 || NO_NAME.contains(&first.as_str()) {
        return None;
    }
    tidy(&words.join(" "), ValueType::Name).filter(|n| n.chars().any(char::is_alphabetic))
}

/// The members of a list: "peanuts, shellfish and eggs".
pub(super) fn members(text: &str) -> Vec<String> {
    let text = clip(text);
    static SEPARATOR: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"(?i),\s*(?:and\s|or\s)?|\s(?:and|or|&|plus|nor)\s").expect("tested"));
    SEPARATOR
        .split(text)
        .map(|member| {
            strip_words(member.trim(), &["also", "to", "both", "all", "any", "most", "either", "even", "all kinds of"])
        })
        .filter(|m| m.split(' ').count() <= 4)
        .filter_map(|member| tidy(member, ValueType::Text))
        .take(8)
        .collect()
}

/// Takes words off the front, as often as one of them is there.
pub(super) fn strip_words<'a>(text: &'a str, words: &[&str]) -> &'a str {
    let mut text = text.trim();
    'again: loop {
        for word in words {
            if let Some(head) = text.get(..word.len())
                && head.eq_ignore_ascii_case(word)
                && text[word.len()..].starts_with(' ')
            {
                text = text[word.len()..].trim_start();
                continue 'again;
            }
        }
        return text;
    }
}
