//! What people like, and what they like better.

use super::super::clause::is_fleeting;
use super::super::value::{clip, members, phrase, strip_words};
use super::identity::language_and_zone;
use super::{Out, is_pronoun, patterns};
use crate::memory::candidate::Intent;
use crate::memory::normalise::{slug, tidy};
use crate::memory::propose::Finding;
use crate::memory::propose::standing::standing_facet;
use crate::memory::schema::ValueType;

patterns! {
    FAVOURITE = r"^(?:my|our)\s(?:all-time\s|new\s|absolute\s|current\s)?favou?rite\s(?P<topic>[\w\s-]{2,40}?)\s(?:is|are|has\salways\sbeen)\s(?:now\s|still\s|definitely\s|probably\s|currently\s)*(?P<value>.+)|^(?P<value2>[\w\s'-]{2,40}?)\sis\smy\s(?:all-time\s|new\s|absolute\s)?favou?rite\s(?P<topic2>[\w\s-]{2,30})$";
    PREFER = r"^(?:i|we)\sADV(?:prefer|would\srather\shave)\s(?P<what>.+)|^my\spreferred\s(?P<topic>[\w\s-]{2,30}?)\sis\s(?:now\s)?(?P<value>.+)|^my\spreference\sis\s(?:for\s)?(?P<what2>.+)";
    LIKE = r"^(?:i|we)\s(?P<adverbs>ADV)(?P<verb>love|adore|like|enjoy|hate|dislike|detest|loathe|despise|can't\sstand|cannot\sstand|can\snot\sstand|don't\slike|do\snot\s(?:really\s|particularly\s)?like|don't\sreally\slike|don't\senjoy|do\snot\senjoy|don't\slove|do\snot\slove|don't\scare\sfor|do\snot\scare\sfor|am\s(?:an?\s)?(?:big\s|huge\s|great\s)?fan\sof|am\snot\sa\s(?:big\s|huge\s)?fan\sof|am\sfond\sof|am\snot\sfond\sof|am\sinto|am\sobsessed\swith|am\spassionate\sabout|no\slonger\s(?:like|love|enjoy)|do\snot\slike|stopped\sliking)\s(?P<what>.+)";
}

pub(super) fn preference(clause: &str, out: Out<'_>) {
    if is_fleeting(clause) {
        return;
    }
    if language_and_zone(clause, out) {
        return;
    }
    if let Some(found) = PREFER.captures(clause) {
        if let (Some(topic), Some(value)) = (found.name("topic"), found.name("value")) {
            topic_value(topic.as_str(), value.as_str(), out);
        } else if let Some(what) = found.name("what").or_else(|| found.name("what2")) {
            prefer(what.as_str(), out);
        }
        return;
    }
    if let Some(found) = LIKE.captures(clause) {
        like(
            &found["verb"],
            &found["what"],
            found.name("adverbs").is_some_and(|a| a.as_str().to_lowercase().contains("now")),
            out,
        );
        return;
    }
    favourite(clause, out);
}

pub(super) fn favourite(clause: &str, out: Out<'_>) {
    if let Some(found) = FAVOURITE.captures(clause)
        && let (Some(topic), Some(value)) =
            (found.name("topic").or_else(|| found.name("topic2")), found.name("value").or_else(|| found.name("value2")))
    {
        topic_value(topic.as_str(), value.as_str(), out);
    }
}

fn topic_value(topic: &str, value: &str, out: Out<'_>) {
    // "My favourite thing about this" is about the talk.
    if topic.split(' ').any(|w| ["thing", "part", "about", "one", "bit", "of"].contains(&w.to_lowercase().as_str())) {
        return;
    }
    let value = phrase(value).map(|v| strip_words(v, &["a", "an", "the"])).filter(|v| !is_pronoun(v));
    if let (Some(end), Some(value)) =
        (slug(&topic.to_lowercase().replace("colour", "color"), 4), value.and_then(|v| tidy(v, ValueType::Text)))
    {
        out.push(Finding::new(format!("preference.{end}"), value));
    }
}

/// "Tea over coffee" and "coffee over tea" are about one thing; "dark mode" and "light mode" as well.
fn prefer(what: &str, out: Out<'_>) {
    let lower = what.to_lowercase();
    let bare = strip_words(
        what,
        &["to have", "to drink", "to eat", "to use", "having", "drinking", "eating", "using", "to get", "to"],
    );
    let versus = [" over ", " rather than ", " instead of ", " to ", " than "].iter().find_map(|w| bare.split_once(w));
    let text = clip(bare);
    if let Some(facet) = standing_facet(text) {
        out.push(Finding::new("instruction.standing", text).tag(facet));
        return;
    }
    if lower.starts_with("not ") {
        return;
    }
    let picky = [
        "first", "second", "third", "last", "latter", "former", "other", "option", "version", "approach", "solution",
        "one",
    ];
    if is_pronoun(bare) || picky.iter().any(|w| lower.split(' ').take(4).any(|x| x.trim_matches(',') == *w)) {
        return;
    }
    if let Some((a, b)) = versus
        && let (Some(a_slug), Some(b)) = (phrase(a).and_then(|a| slug(a, 3)), phrase(b).and_then(|b| slug(b, 3)))
    {
        let (x, y) = if a_slug < b { (&a_slug, &b) } else { (&b, &a_slug) };
        if let Some(value) = phrase(a).and_then(|v| tidy(v, ValueType::Text)) {
            out.push(Finding::new(format!("preference.{x}_or_{y}"), value));
        }
        return;
    }
    let Some(value) = phrase(bare) else { return };
    let (value, topic) = match value.split_once(" for ") {
        Some((value, topic)) => (value, topic.to_owned()),
        None => {
            let words: Vec<&str> = value.split(' ').collect();
            let head =
                if (2..=3).contains(&words.len()) && !value.contains(" in ") { words[words.len() - 1] } else { value };
            (value, head.to_owned())
        }
    };
    if value.split(' ').count() > 8 {
        return;
    }
    if let (Some(end), Some(value)) = (slug(&singular(&topic), 4), tidy(value, ValueType::Text)) {
        out.push(Finding::new(format!("preference.{end}"), value));
    }
}

fn singular(topic: &str) -> String {
    let topic = topic.to_lowercase();
    match topic.strip_suffix('s') {
        Some(bare) if bare.len() > 2 && !bare.ends_with(['s', 'u', 'i']) => bare.to_owned(),
        _ => topic,
    }
}

fn like(verb: &str, what: &str, now: bool, out: Out<'_>) {
    let verb = verb.to_lowercase();
    let lower = what.to_lowercase();
    // "I like to know", "I love how you …", "I like the idea": about the talk, not about the speaker.
    let about_talk = [
        "to know",
        "to think",
        "to believe",
        "to say",
        "to start",
        "to get",
        "to make",
        "to add",
        "to point",
        "our ",
        "when",
        "to see",
        "to ask",
        "to hear",
        "to understand",
        "how ",
        "the way",
        "the idea",
        "the first",
        "the second",
        "the last",
        "the answer",
        "the sound of",
        "where ",
        "what ",
        "when ",
        "that ",
        "the new version",
        "the suggestion",
    ];
    if is_pronoun(strip_words(what, &["to"])) && !lower.starts_with("to ")
        || about_talk.iter().any(|w| lower.starts_with(w))
    {
        return;
    }
    if is_definite(what) {
        return;
    }
    let bare = strip_words(
        what,
        &[
            "to eat",
            "to drink",
            "eating",
            "drinking",
            "all kinds of",
            "any kind of",
            "the taste of",
            "the smell of",
            "to",
        ],
    );
    let ends_before = bare.find(" and ").filter(|_| bare.split(' ').count() > 6).map_or(bare, |at| &bare[..at]);
    let negative = verb.contains("not")
        || verb.contains("n't")
        || ["hate", "dislike", "detest", "loathe", "despise"].contains(&verb.as_str())
        || verb.contains("stand");
    let shown = match verb.as_str() {
        "love" | "adore" | "am obsessed with" => "loves",
        "hate" | "detest" | "loathe" | "despise" => "hates",
        v if v.contains("no longer") || v.contains("stopped") => "no longer likes",
        v if v.contains("stand") => "cannot stand",
        _ if negative || lower.ends_with(" anymore") => "dislikes",
        "enjoy" => "enjoys",
        _ => "likes",
    };
    let change = now || shown == "no longer likes" || lower.ends_with(" anymore") || lower.ends_with(" any more");
    let parts = if ends_before.contains(", ") || (ends_before.contains(" and ") && ends_before.split(' ').count() <= 6)
    {
        members(ends_before)
    } else {
        phrase(ends_before).into_iter().filter_map(|v| tidy(v, ValueType::Text)).collect()
    };
    for value in parts {
        if value.split(' ').count() > 7 || is_pronoun(&value) {
            continue;
        }
        if let Some(end) = slug(&singular(&value), 4) {
            let finding = Finding::new(format!("preference.{end}"), format!("{shown} {value}"));
            out.push(if change { finding.intent(Intent::Change) } else { finding });
        }
    }
}

/// "The colour scheme" is something in the talk; "the Beatles" and "the sea" are not.
fn is_definite(what: &str) -> bool {
    const GENERIC: [&str; 24] = [
        "beach",
        "sea",
        "ocean",
        "mountains",
        "outdoors",
        "cold",
        "heat",
        "rain",
        "summer",
        "winter",
        "snow",
        "city",
        "countryside",
        "theatre",
        "theater",
        "cinema",
        "opera",
        "gym",
        "piano",
        "violin",
        "guitar",
        "sun",
        "sound",
        "smell",
    ];
    let Some(rest) = what.strip_prefix("the ").or_else(|| what.strip_prefix("The ")) else { return false };
    rest.starts_with(char::is_lowercase) && !GENERIC.contains(&rest.split(' ').next().unwrap_or(rest))
}
