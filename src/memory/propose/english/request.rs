//! Explicit requests: "remember that …", "don't forget …", "forget my …".

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use super::value::strip_words;
use super::{Finding, captures, clause, standing_facet, statements};
use crate::memory::candidate::Intent;
use crate::memory::normalise::{slug, tidy};
use crate::memory::schema::{KeySchema, ValueType};

/// A request and what it is about.
#[derive(Debug)]
pub(super) struct Request<'a> {
    /// Whether to forget it.
    forget: bool,
    /// Whether the words leave no doubt that it is a request ("note that …" may be a remark).
    sure: bool,
    inner: &'a str,
}

static REQUEST: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?xi)^(?:(?:please|pls|can\syou|could\syou|would\syou|will\syou|kindly|also|and|so|ok|okay|hi|hey|hello|just|i\swant\syou\sto|i(?:\swould|'d)\slike\syou\sto|i\sneed\syou\sto|make\ssure\s(?:you\s|to\s)?|be\ssure\sto|for\s(?:next\stime|later|the\sfuture|future\schats)|try\sto)[\s,]+)*
        (?:(?P<sure>remember|keep\sin\smind|bear\sin\smind|don['’]t\s(?:ever\s)?forget|do\snot\sforget|never\sforget|make\sa\s(?:mental\s)?note|take\snote|add\sto\s(?:your\s)?memory|save\sto\s(?:your\s)?memory|memori[sz]e|please\snote|note\sdown|jot\sdown|note\s(?:for|to)\s(?:yourself|the\sfuture)|store\sin\s(?:your\s)?memory)|(?P<note>note))(?-u:\b)
        (?:\sof)?(?:\s(?:the\sfact|this|that|down|for\s(?:me|later|next\stime|the\sfuture)|about\sme|the\sfollowing))*\s*[,:.\u{2013}\u{2014}-]*\s*(?P<inner>.+)$",
    )
    .expect("tested")
});
static PLEASE_NOTE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"(?i)^.{0,30}please,? note").expect("tested"));
static FORGET: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?xi)^(?:(?:please|pls|can\syou|could\syou|would\syou|kindly|also|and|ok|okay|i\swant\syou\sto|i(?:\swould|'d)\slike\syou\sto|i\sneed\syou\sto|you\s(?:can|should|may))[\s,]+)*
        (?:forget|delete|remove|erase|stop\sremembering|don['’]t\sremember|do\snot\sremember|no\slonger\sremember)(?:\sabout|\sfrom\s(?:your\s)?memory)?
        (?:\s(?:everything\s(?:about|you\sknow\sabout)|what\si\s(?:said|told\syou)\sabout|the\sfact|anything\sabout|all\sabout|any))*\s(?P<inner>(?:that\s)?(?:my|i|i['’]m|i['’]ve|we|our|where\si|what\si)(?-u:\b).*)$",
    )
    .expect("tested")
});
/// "Do you remember …?", "remember when …", "I remember …" are no requests.
static NOT_A_REQUEST: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)^(?:when|how|the (?:time|day|first|last)|me\??$|me from|what (?:i|we|you)|our (?:last|previous|first)|us|anything|everything|where|who|why|if|whether|time (?:we|i|you|when)|it$|this$|that$)(?-u:\b)").expect("tested")
});

/// Whether a text begins with such a request.
pub(in crate::memory::propose) fn is_request(text: &str) -> bool {
    request(text).is_some()
}

pub(super) fn request(sentence: &str) -> Option<Request<'_>> {
    if !sentence
        .as_bytes()
        .iter()
        .any(|b| matches!(b, b'r' | b'R' | b'n' | b'N' | b'f' | b'F' | b'm' | b'M' | b'd' | b'D' | b'e' | b'E'))
    {
        return None;
    }
    if let Some(found) = captures(&FORGET, sentence) {
        return found.name("inner").map(|inner| Request { forget: true, sure: true, inner: inner.as_str() });
    }
    let found = captures(&REQUEST, sentence)?;
    let inner = found.name("inner")?.as_str();
    let sure = found.name("sure").is_some() || PLEASE_NOTE.is_match(sentence);
    (!NOT_A_REQUEST.is_match(inner)).then_some(Request { forget: false, sure, inner })
}

/// Finds what a request asks to remember or to forget.
pub(super) fn find<'a>(
    request: &Request<'_>,
    sentence: &'a str,
    schema: &KeySchema,
    out: &mut Vec<(Finding, &'a str)>,
) {
    if request.forget {
        forget(request.inner, schema).into_iter().for_each(|finding| out.push((finding, sentence)));
        return;
    }
    let before = out.len();
    let order = strip_words(request.inner, &["to", "please", "that you should", "you should"]);
    if let Some(facet) = standing_facet(order) {
        out.push((Finding::new("instruction.standing", order.trim_end_matches('.')).tag(facet), sentence));
        return;
    }
    for clause in clause::clauses(request.inner) {
        if clause.question {
            continue;
        }
        let text = third_by_name(&clause.text);
        match text {
            Some((about, text)) => {
                for mut finding in statements(&text, clause.change) {
                    finding.about = Some(about.clone());
                    out.push((finding, sentence));
                }
            }
            None => out.extend(statements(&clause.text, clause.change).into_iter().map(|finding| (finding, sentence))),
        }
    }
    // A request is explicit: what no rule knows is kept in its own words.
    if out.len() == before
        && (request.sure || speaks_of_self(request.inner))
        && let Some(finding) = note(request.inner)
    {
        out.push((finding, sentence));
    }
}

fn speaks_of_self(text: &str) -> bool {
    text.split(|c: char| !c.is_alphanumeric() && c != '\'')
        .any(|w| ["i", "my", "me", "we", "our", "us", "i'm"].iter().any(|p| w.eq_ignore_ascii_case(p)))
}

static NAMED: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^(?P<name>\p{Lu}\p{Ll}+(?: \p{Lu}\p{Ll}+)?) (?P<verb>is allergic|is|has|loves|likes|hates|prefers|lives|works|cannot|can't|doesn't) (?P<rest>.+)$").expect("tested")
});

/// "Tom is allergic to shellfish", where the speaker asks to remember it.
fn third_by_name(text: &str) -> Option<(String, String)> {
    let found = NAMED.captures(text)?;
    let name = &found["name"];
    if [
        "I", "My", "The", "This", "That", "It", "We", "Our", "You", "Your", "There", "He", "She", "They", "All",
        "Every", "No",
    ]
    .contains(&name.split(' ').next().unwrap_or(name))
    {
        return None;
    }
    let (_, first) = super::third::as_first_person(&format!("my friend {name} {} {}", &found["verb"], &found["rest"]))?;
    Some((name.to_owned(), first))
}

static IS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)^(?:the |my |our |your )?(?P<what>[\p{L}\p{N}' -]{2,48}?) (?:is|are|was|will be|starts|ends|equals|=|has to be|needs to be) (?P<value>.+)$").expect("tested")
});

/// A note: its key is what it is about.
fn note(inner: &str) -> Option<Finding> {
    let text = tidy(inner, ValueType::Name)?;
    if text.chars().filter(|c| c.is_alphanumeric()).count() < 3 {
        return None;
    }
    let end = match IS.captures(&text) {
        Some(found) => slug(&found["what"], 4)?,
        None => slug(strip_words(&text, &["to", "i", "we", "that", "my", "our", "the"]), 5)?,
    };
    Some(Finding::new(format!("note.{end}"), text))
}

static ALLERGY: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?i)^my ([\w-]+(?: [\w-]+)?) allergy$").expect("tested"));

/// What to forget: a key by its name, or the values that a statement names.
fn forget(inner: &str, schema: &KeySchema) -> Vec<Finding> {
    let inner = inner.trim().trim_end_matches(['.', '!', '?']);
    let inner = inner.strip_prefix("that ").unwrap_or(inner);
    let inner = inner.strip_suffix(" please").unwrap_or(inner).trim_end_matches(',');
    if let Some(found) = ALLERGY.captures(inner) {
        return vec![Finding::new("diet.allergy", &found[1]).intent(Intent::Forget)];
    }
    let lower = inner.to_lowercase();
    let named = strip_words(&lower, &["my", "our", "old", "current", "home's"]);
    let named = named.strip_suffix(" please").unwrap_or(named);
    for candidate in [named, lower.as_str()] {
        if let Some(key) = schema.called(candidate) {
            return vec![Finding::new(key, Value::Null).intent(Intent::Forget)];
        }
    }
    let clause = clause::plain(inner);
    let mut found = statements(&clause, false);
    if found.is_empty() && lower.starts_with("my ") {
        let topic = named.trim_start_matches("favourite ").trim_start_matches("favorite ");
        let key = if topic == named {
            slug(named, 4).map(|s| format!("note.{s}"))
        } else {
            slug(topic, 4).map(|s| format!("preference.{s}"))
        };
        return key.into_iter().map(|key| Finding::new(key, Value::Null).intent(Intent::Forget)).collect();
    }
    for finding in &mut found {
        finding.intent = Intent::Forget;
    }
    found
}
