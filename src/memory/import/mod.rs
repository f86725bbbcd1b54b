//! What comes from outside, checked and fitted into a scope: pure.
//!
//! A file is not trusted. Values are checked like those of the API, secrets are refused, orders to the assistant are held back, and
//! what only an operator may do (locking, an operator's word) counts only where an operator imports.
//!
//! Ids: what goes back to the scope it came from keeps them; elsewhere each gets an id that follows from the old one and the new
//! scope, so that importing twice adds nothing, and a copy never takes the place of its original.

pub mod foreign;

use std::sync::Arc;

use serde_json::Value;

use super::arbitrate::ArbitrateCx;
use super::change::{Action, Actor, FactChange, HistoryEntry};
use super::edit::EditCx;
use super::episode::{Episode, EpisodeKind, EpisodeStatus};
use super::export::origin;
use super::fact::{Cardinality, Fact, FactStatus, SourceType};
use super::gate::{gives_orders, is_bidding};
use super::normalise::{same_value, slug};
use super::redact::redact;
use super::schema::KeySchema;
use super::scope::Scope;
use super::segment::episode_side;
use super::turn::Speaker;
use crate::base::{EpisodeId, FactId, Time};

/// The most rows of history of one fact.
const MAX_HISTORY: usize = 2_000;
/// The longest value, as the API takes it, and the longest text, in characters.
const MAX_VALUE_CHARS: usize = super::normalise::MAX_VALUE_CHARS * 4;
const MAX_TEXT_CHARS: usize = 4_000;
/// The most labels, pieces of evidence and the like of one memory.
const MAX_ITEMS: usize = 64;
/// Words of a note that its key is made of.
const NOTE_WORDS: usize = 4;

/// Where something goes.
#[derive(Clone, Debug)]
pub struct Target<'a> {
    /// The scope.
    pub scope: &'a Scope,
    /// Whether it comes from there.
    pub same: bool,
    /// Whether an operator imports.
    pub operator: bool,
}

impl<'a> Target<'a> {
    /// `from` is the origin that the header names; none for what other products export.
    #[must_use]
    pub fn new(scope: &'a Scope, from: Option<&str>, operator: bool) -> Self {
        Self { scope, same: from == Some(origin(scope).as_str()), operator }
    }

    fn id(&self, id: u128) -> u128 {
        if self.same { id } else { derived(self.scope, id >> 80, &id.to_le_bytes()) }
    }
}

/// An id that keeps the 48 bits of time and takes the rest from a hash of scope and content.
fn derived(scope: &Scope, millis: u128, content: &[u8]) -> u128 {
    let mut hasher = blake3::Hasher::new();
    hasher.update(origin(scope).as_bytes());
    hasher.update(content);
    let rest = u128::from_le_bytes(*hasher.finalize().as_bytes().first_chunk().expect("32 bytes"));
    (millis << 80) | (rest >> 48)
}

/// Checks a fact with its history and gives it its ids in the target; returns the changes that replay it.
///
/// # Errors
/// What is wrong, in a sentence.
pub fn fact(
    now: &Fact,
    history: Vec<HistoryEntry>,
    schema: &KeySchema,
    target: &Target<'_>,
) -> Result<Vec<FactChange>, String> {
    if history.is_empty() || history.len() > MAX_HISTORY {
        return Err(format!("a fact needs 1 to {MAX_HISTORY} rows of history"));
    }
    if history.last().is_some_and(|row| row.fact != *now) {
        return Err("the last row of the history is not the fact as it is".to_owned());
    }
    let id = now.id;
    let mut changes = Vec::with_capacity(history.len());
    for (version, row) in (1_i64..).zip(history) {
        if row.version != version || row.fact.version != version || row.fact_id != id || row.fact.id != id {
            return Err(format!("the history is not whole: row {version} is missing, or another fact's"));
        }
        changes.push(change(row, schema, target)?);
    }
    Ok(changes)
}

fn change(row: HistoryEntry, schema: &KeySchema, target: &Target<'_>) -> Result<FactChange, String> {
    let mut fact = row.fact;
    let rule = schema.get(&fact.key).ok_or_else(|| format!("unknown key `{}`", fact.key))?;
    check_value(&fact.value, &fact.key, target.operator)?;
    if !rule.facets.is_empty() && !fact.value.is_null() && !rule.facets.iter().any(|facet| fact.tags.contains(facet)) {
        return Err(format!("`{}` needs one of the tags {}", fact.key, rule.facets.join(", ")));
    }
    check_labels(fact.tags.iter().chain(&fact.about).chain([&fact.language]))?;
    if fact.tags.len() > MAX_ITEMS || fact.evidence.len() > MAX_ITEMS {
        return Err(format!("more than {MAX_ITEMS} tags or pieces of evidence"));
    }
    let unit = |n: f64| (0.0..=1.0).contains(&n);
    if !unit(fact.score) || !unit(fact.source_confidence) || fact.half_life < 0 {
        return Err("score and source_confidence are from 0 to 1, half_life is not negative".to_owned());
    }
    let mut actor = row.actor;
    if !target.operator {
        fact.locked = false;
        if fact.source_type == SourceType::Operator {
            fact.source_type = SourceType::ApiResponse;
            fact.source_confidence = fact.source_confidence.min(fact.source_type.starting_confidence());
        }
        if actor == Actor::Operator {
            actor = Actor::Api;
        }
    }
    fact.sensitivity = fact.sensitivity.max(rule.sensitivity);
    fact.cardinality = rule.cardinality;
    fact.critical |= rule.critical;
    for piece in &mut fact.evidence {
        piece.quote = redact(&piece.quote).chars().take(MAX_TEXT_CHARS).collect();
    }
    fact.id = FactId(target.id(fact.id.0));
    fact.supersedes = fact.supersedes.map(|old| FactId(target.id(old.0)));
    Ok(FactChange {
        action: row.action,
        expected_version: (row.version > 1).then_some(row.version - 1),
        actor,
        reason: redact(&row.reason).chars().take(MAX_VALUE_CHARS).collect(),
        exchange: row.exchange,
        at: row.at,
        fact,
    })
}

/// Checks a value: its length and type, that it holds no secret, and that it gives no orders but an operator's.
///
/// # Errors
/// What is wrong, in a sentence.
pub fn check_value(value: &Value, key: &str, operator: bool) -> Result<(), String> {
    let text = match value {
        Value::String(text) => text,
        // A row that says what was taken back before it was known has no value.
        Value::Number(_) | Value::Bool(_) | Value::Null => return Ok(()),
        _ => return Err("a value is a string, a number or a boolean".to_owned()),
    };
    if text.chars().count() > MAX_VALUE_CHARS {
        return Err(format!("the value has more than {MAX_VALUE_CHARS} characters"));
    }
    if redact(text) != text.as_str() {
        return Err("the value holds what looks like a password, key or card number".to_owned());
    }
    if !operator && key != "instruction.standing" && is_bidding(text) {
        return Err("the value gives orders to the assistant".to_owned());
    }
    Ok(())
}

fn check_labels<'t>(mut labels: impl Iterator<Item = &'t String>) -> Result<(), String> {
    let bad = |label: &String| label.len() > 256 || label.chars().any(char::is_control);
    if labels.any(bad) { Err("a label is not one line of at most 256 bytes".to_owned()) } else { Ok(()) }
}

/// How an imported fact that is current stands among what the scope holds already: the changes that settle it, after those that
/// replay it. A locked or critical fact never gives way.
#[must_use]
pub fn settle(new: &Fact, existing: &[Arc<Fact>], schema: &KeySchema, cx: &EditCx<'_>) -> Vec<FactChange> {
    let Some(rule) = schema.get(&new.key).filter(|_| new.is_current()) else { return Vec::new() };
    let facet = |fact: &Fact| rule.facets.iter().find(|facet| fact.tags.contains(facet)).cloned();
    let single = rule.cardinality == Cardinality::One || !rule.facets.is_empty();
    let rivals: Vec<&Arc<Fact>> = existing
        .iter()
        .filter(|f| f.id != new.id && f.is_current() && f.key == new.key && f.about == new.about)
        .filter(|f| facet(f) == facet(new) && (single || same_value(&f.value, &new.value)))
        .collect();
    let inner = cx.arbitrate_cx();
    let retired = |fact: &Fact, by: &Fact, reason: &str, inner: &ArbitrateCx<'_>| {
        let mut old = fact.clone();
        old.status = FactStatus::Superseded;
        old.retired_at = Some(cx.now);
        old.valid_to = Some(by.valid_from.max(fact.valid_from));
        inner.update(Action::Supersede, old, fact.version, reason)
    };
    if let Some(same) = rivals.iter().find(|f| same_value(&f.value, &new.value)) {
        return vec![retired(new, same, "imported; the same is known here already", &inner)];
    }
    let Some(best) = rivals.iter().max_by_key(|f| strength(f)) else { return Vec::new() };
    if rivals.iter().any(|f| f.locked || (f.critical && cx.actor != Actor::Operator)) {
        if new.status == FactStatus::Contested {
            return Vec::new();
        }
        let mut contested = new.clone();
        contested.status = FactStatus::Contested;
        contested.locked = false;
        return vec![inner.update(Action::Contest, contested, new.version, "imported; what is here does not give way")];
    }
    if strength(new) <= strength(best) {
        return vec![retired(new, best, "imported; what is here is newer or stronger", &inner)];
    }
    rivals.iter().map(|f| retired(f, new, "what was imported is newer or stronger", &inner)).collect()
}

fn strength(fact: &Fact) -> (bool, u8, Time) {
    (fact.status == FactStatus::Active, fact.source_type as u8, fact.said_at)
}

/// Checks an episode and gives it its ids in the target.
///
/// # Errors
/// What is wrong, in a sentence.
pub fn episode(mut episode: Episode, target: &Target<'_>) -> Result<Episode, String> {
    let text = redact(episode.text.trim()).into_owned();
    let length = text.chars().count();
    if length == 0 || length > MAX_TEXT_CHARS {
        return Err(format!("an episode has a text of 1 to {MAX_TEXT_CHARS} characters"));
    }
    let lists = [&episode.tags, &episode.entities];
    if lists.iter().any(|list| list.len() > MAX_ITEMS) || episode.retired_facts.len() > MAX_HISTORY {
        return Err(format!("more than {MAX_ITEMS} tags or entities"));
    }
    check_labels(episode.tags.iter().chain(&episode.entities).chain(&episode.speaker).chain([&episode.session]))?;
    if !(0.0..=1.0).contains(&episode.score) || episode.half_life < 0 {
        return Err("score is from 0 to 1, half_life is not negative".to_owned());
    }
    if episode.role != Speaker::Assistant && gives_orders(&text) {
        episode.status = EpisodeStatus::Quarantined;
    }
    episode.text = text;
    episode.id = EpisodeId(target.id(episode.id.0));
    for fact in &mut episode.retired_facts {
        *fact = FactId(target.id(fact.0));
    }
    Ok(episode)
}

/// The key and the value of a note; `None` when its text is too long for a fact.
#[must_use]
pub fn note(text: &str) -> Option<(String, String)> {
    let text = text.trim();
    if text.is_empty() || text.chars().count() > MAX_VALUE_CHARS {
        return None;
    }
    // The hash keeps two notes that begin alike apart, and finds a note again that is imported twice.
    let hash = blake3::hash(text.as_bytes()).to_hex();
    let words = slug(text, NOTE_WORDS).unwrap_or_else(|| "imported".to_owned());
    Some((format!("note.{}_{}", words.chars().take(40).collect::<String>(), &hash[..8]), text.to_owned()))
}

/// One side of an exchange as an episode; `None` for small talk, one-off tasks and sides with nothing of their own.
#[must_use]
pub fn said(
    role: Speaker,
    text: &str,
    at: (Time, Time),
    place: (&str, i64),
    half_life: i64,
    scope: &Scope,
) -> Option<Episode> {
    let ((said_at, now), (session, position)) = (at, place);
    let text = redact(&episode_side(text, role)?).into_owned();
    let content = format!("{session}\u{0}{position}\u{0}{text}");
    let millis = u128::from(said_at.0.max(0).unsigned_abs() & 0xffff_ffff_ffff);
    let orders = role != Speaker::Assistant && gives_orders(&text);
    let id = EpisodeId(derived(scope, millis, content.as_bytes()));
    Some(Episode {
        message_hash: blake3::hash(text.as_bytes()).to_hex().to_string(),
        kind: if role == Speaker::Other { EpisodeKind::Event } else { EpisodeKind::Exchange },
        session: session.to_owned(),
        position,
        recorded_at: now,
        half_life,
        status: if orders { EpisodeStatus::Quarantined } else { EpisodeStatus::Active },
        ..Episode::said(id, text, role, said_at)
    })
}

#[cfg(test)]
mod tests;
