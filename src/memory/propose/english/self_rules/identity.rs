//! Name, birthday, ways to reach someone, language, time zone and family.

use super::super::lists::relative;
use super::super::value::{clip, members, name, phrase};
use super::{Out, group, patterns, put};
use crate::memory::candidate::Intent;
use crate::memory::normalise::tidy;
use crate::memory::propose::Finding;
use crate::memory::schema::ValueType;

patterns! {
    NAME = r"^(?:my\s(?:full|first|real|given|legal|actual)?\s?name\sis\s(?:now\s)?|i\sam\scalled\s|i\sgo\sby\s|(?:please\s|just\s|you\scan\s|people\s|most\speople\s|everyone\s|everybody\s|friends\s|my\sfriends\s|they\s)*calls?\sme\s|i\schanged\smy\s(?:last\s|first\s)?name\sto\s)(.+)";
    INTRODUCTION = r"^(?-i:I\sam\s|This\sis\s|this\sis\s)(?-i:(\p{Lu}\p{Ll}+(?:\s\p{Lu}\p{Ll}+)?))(?:\s(?:from|by\sthe\sway|here|and)(?-u:\b).*)?$";
    BIRTHDAY = r"^(?:my\s(?:birthday|date\sof\sbirth|birth\s?date|dob)\s(?:is|falls)\s(?:on\s)?|i\swas\sborn\s(?:on|in)\s)(.+)";
    PRONOUNS = r"^(?:my\spronouns\sare\s|i\suse\s(?:the\spronouns\s)?)((?:she|he|they|ze|xe|it)(?:\s?(?:/|and|,)\s?\w+){1,2})";
    EMAIL = r"^(?:my\s(?:new\s|work\s|personal\s|private\s|current\s|main\s)*e-?mail(?:\saddress)?\s(?:is|has\schanged\sto|changed\sto)\s(?:now\s)?|you\scan\s(?:reach|e-?mail|contact)\sme\s(?:at|on|under)\s|(?:reach|e-?mail)\sme\sat\s)(.+@.+)";
    PHONE = r"^(?:my\s(?:new\s|work\s|home\s|personal\s|private\s|current\s|cell\s?|mobile\s|tele)*(?:phone|cell|mobile|number)(?:\snumber)?\s(?:is|has\schanged\sto|changed\sto)\s(?:now\s)?|you\scan\s(?:reach|call|text)\sme\s(?:at|on|under)\s)([+(]?\d.+)";
    RELATIVE_NAME = r"^(?:my|our)\sRELATIVES(?:'?s\s(?:name(?:'s|\sis)|called)|\sis\s(?:called|named)|\sgoes\sby)\s(?:now\s)?(?P<name>.+)|^i\sam\smarried\sto\s(?P<spouse>.+)";
    NAMED_RELATIVE = r"^my\sRELATIVES,?\s(?P<name>(?-i:\p{Lu}\p{Ll}+)),?\s(?-i:[a-z]+)(?:\s|$)";
    RELATIVES_NAMES = r"^(?:my|our)\s(?P<rels>kid|child|children|son|daughter|brother|sister|cat|dog)s?(?:'s|s'|')?\s(?:names\sare|are\s(?:called|named))\s(?P<names>.+)";
    HAVE_RELATIVE = r"^(?:i|we)\s(?:ADV)(?:have|has|adopted|got)\s(?:an?|one|two|three|four|a\snew)\s(?:\w+[\s-]){0,2}?RELATIVESs?(?:\s|,\s)(?:named|called|whose\snames?\s(?:is|are))\s(?P<name>.+)";
    LANGUAGE = r"^my\s(?:native|first|preferred|mother|main|primary)\s(?:language|tongue)\sis\s(?:now\s)?(LANGUAGES)(?-u:\b)|^i\s(?:ADV)(?:prefer|prefer\sto\s(?:speak|write|chat|talk|communicate)(?:\sin)?|prefer\s(?:speaking|writing|chatting|communicating)(?:\sin)?|only\sspeak|mainly\sspeak|mostly\sspeak)\s(LANGUAGES)$";
    SPEAK_ONLY = r"^i\s(?:(?:only|mainly|mostly|just)\sspeak|speak\s(?:only|mainly|mostly))\s(LANGUAGES)$";
    TIME_ZONE = r"^my\stime\s?zone\sis\s(?:now\s)?(.+)|^i\sam\s(?:in|on)\s(?:the\s)?((?:utc|gmt)\s?[+\u{2212}-]?\d{0,2}(?::\d\d)?|(?:eastern|central|pacific|mountain|atlantic)(?:\sstandard|\sdaylight)?\stime|[pcme][sd]?t|cet|cest|ist|jst|bst|aest|[a-z]+/[a-z_]+)(?:\stime\s?zone|\stime)?(?:$|[,;.]|\s(?:so|but|and|because|where)\s)";
}

/// Nationalities, faiths, diets and moods that "I am …" may name instead of a person.
const NOT_NAMES: &str = " American British Canadian German French Chinese Indian Italian Spanish Mexican Brazilian Portuguese Dutch Russian Japanese Korean Australian Irish Scottish Welsh English Polish Swedish Norwegian Danish Finnish Greek Turkish Egyptian Nigerian Kenyan Vietnamese Thai Indonesian Filipino Argentinian Colombian Chilean Peruvian Ukrainian Czech Hungarian Romanian Austrian Swiss Belgian European Asian African Jewish Muslim Christian Catholic Hindu Buddhist Sikh Atheist Vegan Vegetarian Sorry Happy Sad Tired Hungry Here Back Busy Good Fine Bored Sick Ready Done Lost Confused Curious Diabetic Autistic Pregnant Single Married Retired Unemployed ";

pub(super) fn identity(clause: &str, out: Out<'_>) {
    if let Some(value) = group(&NAME, clause) {
        let lower = clause.to_ascii_lowercase();
        // "Call me Dr. Chen" says how to be addressed; "call me tomorrow" says neither.
        if lower.contains("call") && value.chars().next().is_some_and(char::is_lowercase) && value.contains(' ') {
            return;
        }
        // A name in small letters is one only where all is: "My name is misspelled".
        let small = value.starts_with(char::is_lowercase);
        let doubtful = small
            && (clause.starts_with(char::is_uppercase)
                || ["ed", "ing", "wrong", "incorrect"].iter().any(|e| value.ends_with(e)));
        if let Some(value) = name(value).filter(|v| !is_moment(v) && !doubtful) {
            let mut finding = Finding::new("identity.name", value);
            if lower.starts_with("i changed") {
                finding = finding.intent(Intent::Change);
            }
            out.push(finding);
        }
    } else if let Some(value) = group(&INTRODUCTION, clause) {
        let first = value.split(' ').next().unwrap_or(value);
        if !NOT_NAMES.contains(&format!(" {first} ")) {
            put("identity.name", name(value), out);
        }
    } else if let Some(value) = group(&BIRTHDAY, clause) {
        let value = birthday(value);
        if value.is_some_and(|v| v.contains(|c: char| c.is_ascii_digit())) {
            put("identity.birthday", value.and_then(|v| tidy(v, ValueType::Date)), out);
        }
    } else if let Some(value) = group(&PRONOUNS, clause) {
        put("identity.pronouns", tidy(value, ValueType::Text), out);
    } else if let Some(value) = group(&EMAIL, clause) {
        put("contact.email", tidy(value, ValueType::Email), out);
    } else if let Some(value) = group(&PHONE, clause) {
        put("contact.phone", tidy(value, ValueType::Phone), out);
    } else if !language_and_zone(clause, out) {
        family(clause, out);
    }
}

/// Language and time zone; whether it was one of them.
pub(super) fn language_and_zone(clause: &str, out: Out<'_>) -> bool {
    if let Some(value) = group(&TIME_ZONE, clause) {
        put("time.zone", phrase(value).and_then(|v| tidy(v, ValueType::Text)), out);
        return true;
    }
    let language = group(&LANGUAGE, clause).or_else(|| group(&SPEAK_ONLY, clause));
    put("language.preferred", language.and_then(|v| tidy(v, ValueType::Language)), out);
    language.is_some()
}

fn birthday(text: &str) -> Option<&str> {
    let text = clip(text);
    // "3 March 1990, in Oslo" ends at the comma, "March 3, 1990" does not.
    let end = text
        .match_indices(", ")
        .find(|(at, _)| !text[at + 2..].starts_with(|c: char| c.is_ascii_digit()))
        .map_or(text.len(), |(at, _)| at);
    let text = &text[..end];
    let end = text.find(" in ").unwrap_or(text.len());
    (!text[..end].is_empty()).then(|| &text[..end])
}

fn is_moment(text: &str) -> bool {
    let lower = text.to_lowercase();
    ["tomorrow", "today", "later", "tonight", "back", "when", "asap", "now", "crazy", "old", "anytime", "whatever"]
        .iter()
        .any(|w| lower.starts_with(w))
}

/// "My husband Bram does the books" tells his name, whatever else it tells.
pub(in super::super) fn named_relative(clause: &str) -> Option<Finding> {
    let found = NAMED_RELATIVE.captures(clause)?;
    Some(Finding::new(format!("family.{}", relative(found.name("rel")?.as_str())), name(&found["name"])?))
}

fn family(clause: &str, out: Out<'_>) {
    if let Some(found) = RELATIVE_NAME.captures(clause) {
        let (end, value) = match (found.name("rel"), found.name("name"), found.name("spouse")) {
            (Some(rel), Some(value), _) => (relative(rel.as_str()), value.as_str()),
            (_, _, Some(value)) => ("spouse".to_owned(), value.as_str()),
            _ => return,
        };
        put(&format!("family.{end}"), name(value).filter(|n| n.starts_with(char::is_uppercase)), out);
    } else if let Some(found) = RELATIVES_NAMES.captures(clause) {
        let key = format!(
            "family.{}",
            relative(if found["rels"].eq_ignore_ascii_case("children") { "child" } else { &found["rels"] })
        );
        for value in members(&found["names"]).into_iter().filter(|n| n.starts_with(char::is_uppercase)) {
            out.push(Finding::new(key.clone(), value));
        }
    } else if let Some(found) = HAVE_RELATIVE.captures(clause) {
        let key = format!("family.{}", relative(&found["rel"]));
        for value in members(&found["name"]).into_iter().filter(|n| n.starts_with(char::is_uppercase)) {
            out.push(Finding::new(key.clone(), value));
        }
    }
}
