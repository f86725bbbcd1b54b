//! From a recollection to lines of text.

use std::sync::Arc;

use serde_json::Value;

use crate::base::Time;
use crate::memory::{Fact, FactStatus, RecalledEpisode, RecalledPassage, Recollection, Speaker};

use super::label::label;
use super::notes::{NoteLine, Notes};
use super::when::ago;

/// Longer values never stand in the profile, which has the rank of the system message.
const MAX_PROFILE_CHARS: usize = 120;
/// A fact's value is never shown longer than this, wherever it stands.
const MAX_VALUE_CHARS: usize = 400;
/// An episode is never shown longer than this; it has 500 tokens at most.
const MAX_EPISODE_CHARS: usize = 2000;

/// Returns a recollection as lines to show: facts with their labels, episodes with how long ago they were, passages
/// with the document that they are from.
///
/// The profile takes only typed values of one line, at most 120 characters, about the subject; free text the user asked to
/// be remembered never has the rank of a system message: it goes to the recollection. `now` only decides how long ago
/// something was, in days: the same recollection gives the same lines all day.
#[must_use]
pub fn lines(recollection: &Recollection, now: Time) -> Notes {
    let mut notes = Notes::default();
    let profile = merged(recollection.profile.iter());
    let (ranked, demoted): (Vec<_>, Vec<_>) = profile.into_iter().partition(|facts| may_rank(facts));
    notes.profile = ranked.iter().map(|facts| fact_line(facts)).collect();
    notes.recollection = demoted.iter().map(|facts| fact_line(facts)).collect();

    let shown = |fact: &Arc<Fact>| recollection.profile.iter().any(|other| other.id == fact.id);
    let facts = merged(recollection.facts.iter().map(|recalled| &recalled.fact).filter(|fact| !shown(fact)));
    notes.recollection.extend(facts.iter().map(|facts| fact_line(facts)));
    notes.recollection.extend(recollection.episodes.iter().map(|episode| episode_line(episode, now)));
    notes.recollection.extend(recollection.passages.iter().map(passage_line));
    notes
}

/// Joins contested facts of one key, so that they are shown as what they are: two values that disagree.
fn merged<'a>(facts: impl Iterator<Item = &'a Arc<Fact>>) -> Vec<Vec<&'a Fact>> {
    let mut groups: Vec<Vec<&Fact>> = Vec::new();
    for fact in facts {
        let contested = fact.status == FactStatus::Contested;
        let same = |group: &&mut Vec<&Fact>| {
            let other = group[0];
            let either = contested || group.iter().any(|f| f.status == FactStatus::Contested);
            either && other.key == fact.key && other.about == fact.about
        };
        match groups.iter_mut().find(same) {
            Some(group) => group.push(fact),
            None => groups.push(vec![fact]),
        }
    }
    groups
}

/// Whether a fact may stand in the profile.
fn may_rank(facts: &[&Fact]) -> bool {
    facts.iter().all(|fact| {
        let free = fact.key.starts_with("note.") || (fact.key.starts_with("instruction.") && !is_standing(&fact.key));
        let value = fact.value_text();
        let scalar = !matches!(fact.value, Value::Array(_) | Value::Object(_) | Value::Null);
        !free
            && scalar
            && fact.about.is_none()
            && value.chars().count() <= MAX_PROFILE_CHARS
            && !value.contains(['\n', '\r'])
    })
}

/// The gate lets only language, tone, length, format, units and form of address into this key.
fn is_standing(key: &str) -> bool {
    key == "instruction.standing" || key.starts_with("instruction.standing.")
}

fn fact_line(facts: &[&Fact]) -> NoteLine {
    let first = facts[0];
    let label = label(&first.key);
    let mut values: Vec<String> = Vec::with_capacity(facts.len());
    for fact in facts {
        let value = one_line(&fact.value_text(), MAX_VALUE_CHARS);
        if !values.contains(&value) {
            values.push(value);
        }
    }
    let mut text = match &first.about {
        // Whose it is comes first: another person's trait is never read as the user's.
        Some(about) => format!("about {} (not the user): {label}: ", one_line(about, MAX_PROFILE_CHARS)),
        None => format!("{label}: "),
    };
    text.push_str(&values.join(" / "));
    if values.len() > 1 {
        text.push_str(" (these disagree; not settled)");
    } else if first.critical {
        text.push_str(" (important)");
    }
    NoteLine {
        text,
        critical: facts.iter().any(|fact| fact.critical),
        fact: Some(first.id),
        at: first.confirmed_at,
        sensitivity: facts.iter().map(|fact| fact.sensitivity).max().unwrap_or_default(),
        ..NoteLine::default()
    }
}

fn episode_line(recalled: &RecalledEpisode, now: Time) -> NoteLine {
    let episode = &recalled.episode;
    let who = match (&episode.speaker, episode.role) {
        (Some(name), _) => one_line(name, MAX_PROFILE_CHARS),
        (None, Speaker::User) => "the user".to_owned(),
        (None, Speaker::Assistant) => "the assistant".to_owned(),
        (None, Speaker::Tool) => "a tool".to_owned(),
        (None, Speaker::Other) => "an app".to_owned(),
    };
    let when = ago(episode.said_at, now);
    NoteLine {
        text: format!("{when}, {who} said: \"{}\"", one_line(&episode.text, MAX_EPISODE_CHARS)),
        episode: Some(episode.id),
        at: episode.said_at,
        sensitivity: episode.sensitivity,
        ..NoteLine::default()
    }
}

/// A passage, cited by its title and headings. Its lines stay apart, since a table or a program in one line says nothing.
fn passage_line(recalled: &RecalledPassage) -> NoteLine {
    let RecalledPassage { document, passage, .. } = recalled;
    let title = one_line(&document.title, MAX_PROFILE_CHARS);
    let mut text = format!("from: {title}");
    for heading in passage.headings.iter().map(|heading| one_line(heading, MAX_PROFILE_CHARS)) {
        if heading != title {
            text.push_str(" > ");
            text.push_str(&heading);
        }
    }
    text.push_str(": ");
    let lines = passage.text.lines().map(str::trim_end).filter(|line| !line.is_empty());
    for (n, line) in lines.enumerate() {
        if n > 0 {
            // Indented, so that it stays part of this note.
            text.push_str("\n  ");
        }
        text.extend(line.chars().map(|c| if c.is_control() { ' ' } else { c }));
    }
    NoteLine { text, at: document.updated_at, passage: Some(recalled.reference()), ..NoteLine::default() }
}

/// Returns a text as one line: white space and control characters become single spaces, and what is too long ends in `…`.
pub(super) fn one_line(text: &str, max_chars: usize) -> String {
    if text.len() <= max_chars && is_one_line(text.as_bytes()) {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len().min(max_chars * 4));
    let words = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    let spaced = words.flat_map(|word| std::iter::once(' ').chain(word.chars())).skip(1);
    for (n_chars, c) in spaced.enumerate() {
        if n_chars == max_chars {
            out.push('…');
            break;
        }
        out.push(c);
    }
    out
}

/// Whether nothing is to be changed, told at a glance for what most texts are: ASCII, with single spaces.
fn is_one_line(text: &[u8]) -> bool {
    text.iter().all(|byte| (b' '..=b'~').contains(byte))
        && !text.windows(2).any(|pair| pair == b"  ")
        && text.first() != Some(&b' ')
        && text.last() != Some(&b' ')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{EpisodeId, FactId};
    use crate::memory::knowledge::{Document, Format, Passage};
    use crate::memory::{Cardinality, Episode, EpisodeScores, FactKind, RecalledFact, Sensitivity, SourceType};

    const NOW: Time = Time(1_700_000_000_000);

    fn fact(id: u128, key: &str, value: impl Into<Value>) -> Fact {
        Fact {
            id: FactId(id),
            key: key.to_owned(),
            value: value.into(),
            kind: FactKind::Other,
            cardinality: Cardinality::One,
            source_type: SourceType::UserStated,
            source_confidence: 0.7,
            score: 1.0,
            half_life: 0,
            valid_from: NOW,
            valid_to: None,
            said_at: NOW,
            confirmed_at: NOW,
            seen: 1,
            recorded_at: NOW,
            retired_at: None,
            status: FactStatus::Active,
            locked: false,
            sensitivity: Sensitivity::Normal,
            critical: false,
            tags: Vec::new(),
            evidence: Vec::new(),
            language: "en".to_owned(),
            about: None,
            supersedes: None,
            version: 1,
        }
    }

    fn episode(text: &str) -> RecalledEpisode {
        let said_at = NOW.plus_seconds(-21 * 86_400);
        let episode = Episode { recorded_at: NOW, ..Episode::said(EpisodeId(1), text, Speaker::User, said_at) };
        RecalledEpisode { episode: Arc::new(episode), scores: EpisodeScores::default() }
    }

    fn texts(lines: &[NoteLine]) -> Vec<&str> {
        lines.iter().map(|line| line.text.as_str()).collect()
    }

    #[test]
    fn typed_values_stand_in_the_profile_and_free_text_does_not() {
        let allergy = Fact { critical: true, ..fact(1, "diet.allergy.peanuts", "peanuts") };
        let profile = [
            allergy,
            fact(2, "identity.name", "Ada"),
            fact(3, "instruction.standing.length", "short answers"),
            fact(4, "instruction.other", "sing"),
            fact(5, "note.x", "the gate code changes\non Mondays"),
            fact(6, "work.role", "x".repeat(121)),
            fact(7, "location.home", "line\nbreak"),
            Fact { about: Some("Bob".to_owned()), ..fact(8, "location.home", "Oslo") },
        ];
        let notes = lines(&Recollection { profile: profile.map(Arc::new).to_vec(), ..Recollection::default() }, NOW);
        assert_eq!(
            texts(&notes.profile),
            ["allergy (peanuts): peanuts (important)", "name: Ada", "asked of every answer (length): short answers"]
        );
        assert_eq!(notes.recollection.len(), 5);
        assert_eq!(notes.recollection[1].text, "asked to remember: the gate code changes on Mondays");
        assert_eq!(notes.recollection[4].text, "about Bob (not the user): lives in: Oslo");
        assert!(notes.profile[0].critical);
    }

    #[test]
    fn contested_values_are_shown_side_by_side() {
        let contested =
            |id, value| Arc::new(Fact { status: FactStatus::Contested, ..fact(id, "location.home", value) });
        let recalled = |fact| RecalledFact { fact, score: 1.0, why: String::new() };
        let facts = vec![recalled(contested(1, "Oslo")), recalled(contested(2, "Rome"))];
        let notes = lines(&Recollection { facts, ..Recollection::default() }, NOW);
        assert_eq!(texts(&notes.recollection), ["lives in: Oslo / Rome (these disagree; not settled)"]);
    }

    #[test]
    fn episodes_say_how_long_ago_and_who() {
        let recollection = Recollection { episodes: vec![episode("I flew\n\nto  Rome")], ..Recollection::default() };
        let notes = lines(&recollection, NOW);
        assert_eq!(texts(&notes.recollection), ["3 weeks ago, the user said: \"I flew to Rome\""]);
        assert_eq!(notes.recollection, lines(&recollection, NOW.plus_seconds(3600)).recollection);
    }

    #[test]
    fn passages_are_cited_and_keep_their_lines() {
        let document = Document {
            id: "prices".parse().unwrap(),
            title: "Price\nlist".to_owned(),
            format: Format::Markdown,
            source: None,
            tags: Vec::new(),
            version: 3,
            created_at: NOW,
            updated_at: NOW,
            characters: 0,
            passages: 1,
        };
        let headings = vec!["Price list".to_owned(), "Beds".to_owned()];
        let text = "| bed | price |\n\n| oak |\t5 \u{7}|".to_owned();
        let passage = Passage { number: 2, headings, text };
        let recalled = RecalledPassage {
            document: Arc::new(document),
            passage: Arc::new(passage),
            scores: EpisodeScores::default(),
        };
        let notes = lines(&Recollection { passages: vec![recalled], ..Recollection::default() }, NOW);
        assert_eq!(texts(&notes.recollection), ["from: Price list > Beds: | bed | price |\n  | oak | 5  |"]);
        let shown = notes.recollection[0].passage.as_ref().unwrap();
        assert_eq!((shown.version, shown.number), (3, 2));
    }

    #[test]
    fn one_line_is_one_line_and_ends_somewhere() {
        assert_eq!(one_line("  a\r\n\u{85}b\u{0}c\u{2028}d ", 99), "a b c d");
        assert_eq!(one_line("你好世界", 2), "你好…");
        assert_eq!(one_line("你好", 2), "你好");
    }
}
