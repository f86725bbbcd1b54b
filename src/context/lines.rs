//! From a recollection to lines of text.

use std::sync::Arc;

use serde_json::Value;

use crate::base::Time;
use crate::memory::{Fact, FactStatus, RecalledEpisode, Recollection, Speaker};

use super::label::label;
use super::notes::{NoteLine, Notes};
use super::when::ago;

/// Longer values never stand in the profile, which has the rank of the system message.
const MAX_PROFILE_CHARS: usize = 120;
/// A fact's value is never shown longer than this, wherever it stands.
const MAX_VALUE_CHARS: usize = 400;
/// An episode is never shown longer than this; it has 500 tokens at most.
const MAX_EPISODE_CHARS: usize = 2000;

/// Returns a recollection as lines to show: facts with their labels, episodes with how long ago they were.
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
        episode: None,
        at: first.confirmed_at,
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
        critical: false,
        fact: None,
        episode: Some(episode.id),
        at: episode.said_at,
    }
}

/// Returns a text as one line: white space and control characters become single spaces, and what is too long ends in `…`.
pub(super) fn one_line(text: &str, max_chars: usize) -> String {
    let mut out = String::with_capacity(text.len().min(max_chars * 4));
    let mut n_chars = 0;
    let words = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    for c in words.flat_map(|word| std::iter::once(' ').chain(word.chars())).skip(1) {
        if n_chars == max_chars {
            out.push('…');
            break;
        }
        out.push(c);
        n_chars += 1;
    }
    out
}
