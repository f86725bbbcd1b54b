//! Corrections of what was said before, without naming their key: "no, it's Berlin", "不是北京,是上海".
//!
//! They are read against the facts: the old value is named, or stands in the assistant's message that is answered, or was
//! said a moment ago. A correction counts as confirmation.

use std::sync::{Arc, LazyLock};

use regex::Regex;

use super::{Finding, candidate};
use crate::memory::candidate::{Candidate, Intent};
use crate::memory::fact::{Cardinality, Fact};
use crate::memory::normalise::{names_the_same, same_text, slug, tidy};
use crate::memory::schema::KeySchema;
use crate::memory::segment::{own_words, sentences};
use crate::memory::turn::{Speaker, Turn};

/// A correction without its old value is one of something said no longer ago than this.
const FRESH_MILLIS: i64 = 10 * 60 * 1000;

static ENGLISH: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    [
        r"(?i)^(?:no|nope|sorry|actually|wait|correction|oops)?[,.!: ]*(?:it's|it is|that's|that is|i'm|i am)? ?not (?P<old>[^,;]{2,60}?)[,;]? (?:but|it's|it is|i'm|it should be|rather|i meant) (?P<new>[^,;]{2,60})$",
        r"(?i)^(?:(?:no|nope|sorry|actually|wait|correction|oops|i meant|i mean)[,.!: ]+)+(?:it's|it is|that's|that is|i meant|i mean|make that|it should be|should be|the right one is|the correct one is)? ?(?P<new>[^,;]{2,60}?)(?:,? (?:and )?not (?P<old>[^,;]{2,60}))?$",
        r"(?i)^(?:it's|it is|that's|that should be|it should be|i meant|make that) (?P<new>[^,;]{2,60}?),? (?:and )?not (?P<old>[^,;]{2,60})$",
    ]
    .iter()
    .map(|p| Regex::new(p).expect("tested"))
    .collect()
});
static CHINESE: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    [
        r"^(?:不对|错了|说错了|你记错了|更正)?[,\x{FF0C}\s]*(?:我?(?:说|住|叫)?的?)?不是(?:住在|叫)?(?P<old>.{1,20}?)[,\x{FF0C}\s]*(?:而)?(?:应该)?是(?:住在|叫)?(?P<new>.{1,20}?)[啊呀哦了]*$",
        r"^(?:不对|不是|错了|说错了|不|更正|你记错了)[,\x{FF0C}\s]+(?:应该)?(?:是|叫)(?P<new>.{1,20}?)(?:[,\x{FF0C}]?不是(?P<old>.{1,20}))?[啊呀哦了]*$",
        r"^(?:应该)?是(?P<new>.{1,20}?)[,\x{FF0C}\s]*(?:而)?不是(?P<old>.{1,20}?)[啊呀哦了]*$",
    ]
    .iter()
    .map(|p| Regex::new(p).expect("tested"))
    .collect()
});
static PARTICLE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)^(?:no|nope|sorry|actually|wait|correction|oops|it's|it is|that's|not|i meant|make that|it should)(?-u:\b)|不对|不是|错了|更正|应该").expect("tested")
});

/// Proposes the corrections of facts that a turn makes without naming their key.
#[must_use]
pub fn corrections(turn: &Turn, facts: &[Arc<Fact>], schema: &KeySchema) -> Vec<Candidate> {
    let mut out = Vec::new();
    for said in turn.user.iter().filter(|s| s.role == Speaker::User && !turn.repeated && s.text.len() <= 400) {
        let own = own_words(&said.text);
        for sentence in own.parts().flat_map(sentences).filter(|s| !s.question && PARTICLE.is_match(s.text)) {
            let text = sentence.text.replace('’', "'");
            let Some(found) = ENGLISH.iter().chain(CHINESE.iter()).find_map(|p| p.captures(&text)) else { continue };
            let old = found.name("old").map(|m| m.as_str().trim());
            let Some(fact) = target(turn, facts, old) else { continue };
            let Some(rule) = schema.get(&fact.key) else { continue };
            // "It's Martha with an h" spells the name.
            let new = [" with a", " spelled", " spelt", " instead", " actually", " btw", " not "]
                .iter()
                .filter_map(|w| found["new"].find(w))
                .min()
                .map_or(&found["new"], |at| &found["new"][..at]);
            let Some(new) = tidy(new, rule.value_type)
                .filter(|new| !same_text(new, &fact.value_text()) && new.split(' ').count() <= 6)
            else {
                continue;
            };
            let push = |finding: Finding, out: &mut Vec<Candidate>| {
                let mut proposed = candidate(finding, sentence.text, said, turn, schema);
                proposed.about.clone_from(&fact.about);
                out.push(proposed);
            };
            // "I like window seats. Sorry, I meant aisle seats": the liking stays, what is liked is another thing.
            if fact.key.starts_with("preference.")
                && let Some((how, _)) = liking(&fact.value_text())
            {
                push(Finding::new(fact.key.clone(), fact.value.clone()).intent(Intent::Retract), &mut out);
                if let Some(end) = slug(&new, 4) {
                    let value = format!("{how}{new}");
                    push(Finding::new(format!("preference.{end}"), value).intent(Intent::Change), &mut out);
                }
                continue;
            }
            // A set loses the wrong member; a critical one only when it is named.
            if rule.cardinality == Cardinality::Many && (!rule.critical || old.is_some()) {
                push(Finding::new(fact.key.clone(), fact.value.clone()).intent(Intent::Retract), &mut out);
            }
            push(Finding::new(fact.key.clone(), new).intent(Intent::Change), &mut out);
        }
    }
    out
}

/// How something is liked, and what.
fn liking(value: &str) -> Option<(&str, &str)> {
    const HOW: [&str; 12] = [
        "likes ",
        "loves ",
        "enjoys ",
        "hates ",
        "dislikes ",
        "cannot stand ",
        "no longer likes ",
        "不再喜欢",
        "不喜欢",
        "喜欢",
        "讨厌",
        "受不了",
    ];
    HOW.iter().find_map(|how| value.strip_prefix(how).map(|what| value.split_at(value.len() - what.len())))
}

/// The fact that is corrected.
fn target<'f>(turn: &Turn, facts: &'f [Arc<Fact>], old: Option<&str>) -> Option<&'f Arc<Fact>> {
    let current = || facts.iter().filter(|f| f.is_current() && !f.key.starts_with("note."));
    if let Some(old) = old {
        return current().filter(|f| names_the_same(old, &f.value_text())).max_by_key(|f| f.confirmed_at);
    }
    let before = turn.before.as_ref().filter(|b| b.role == Speaker::Assistant)?;
    let lower = before.text.to_lowercase();
    let mentioned = current().filter(|f| {
        let value = f.value_text().to_lowercase();
        let value = liking(&value).map_or(&*value, |(_, what)| what);
        value.chars().count() >= 2 && lower.contains(value)
    });
    if let Some(fact) = mentioned.max_by_key(|f| f.confirmed_at) {
        return Some(fact);
    }
    let newest = current().max_by_key(|f| f.confirmed_at)?;
    let alone = current().filter(|f| f.confirmed_at == newest.confirmed_at).count() == 1;
    (alone && turn.said_at.since(newest.confirmed_at) <= FRESH_MILLIS).then_some(newest)
}
