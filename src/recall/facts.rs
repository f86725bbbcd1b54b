//! Facts: the profile, which is always shown, and those that bear on a question. By key and by words, never by similarity.

use std::collections::HashSet;
use std::ops::Deref;
use std::sync::Arc;

use super::labels::{self, LabelId, Labels};
use super::query::{Query, RecallConfig};
use super::rank::Asked;
use super::scoped::Scoped;
use crate::base::FactId;
use crate::memory::text::{self, TermId};
use crate::memory::{Cardinality, Fact, RecalledFact, SourceType};

/// Words of the value that must meet the question, as a share of it, when no label does.
const MIN_SHARE: f64 = 0.3;

/// A fact and what it is found by.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) fact: Arc<Fact>,
    label: Option<LabelId>,
    /// Telling terms of the value and the tags, distinct.
    words: Vec<TermId>,
    /// The person it is about, folded.
    about: Option<String>,
    about_terms: Vec<TermId>,
    /// Whether it belongs into the profile.
    always: bool,
}

impl Known {
    pub(super) fn new(fact: Fact) -> Self {
        let mut words: Vec<TermId> = std::iter::once(fact.value_text().as_str())
            .chain(fact.tags.iter().map(String::as_str))
            .chain(fact.key.rsplit('.').take(1))
            .flat_map(text::analyse)
            .filter(|term| term.is_telling())
            .map(|term| term.id)
            .collect();
        words.sort_unstable();
        words.dedup();
        let about = fact.about.as_deref().filter(|name| !name.is_empty());
        Self {
            label: labels::of_key(&fact.key),
            always: is_profile(&fact),
            words,
            about: about.map(|name| text::fold(name.into()).into_owned()),
            about_terms: about.map(text::name_terms).unwrap_or_default(),
            fact: Arc::new(fact),
        }
    }

    fn is_named(&self, asked: &Asked<'_>) -> bool {
        let named = asked.own.iter().any(|term| self.about_terms.contains(&term.id));
        named || self.about.as_deref().is_some_and(|name| !name.is_ascii() && asked.folded.contains(name))
    }
}

/// The profile, and the facts beside it that bear on a question, strongest first. All facts are walked once.
pub(super) fn facts<S: Deref<Target = Scoped>>(
    scopes: &[S],
    asked: &Asked<'_>,
    query: &Query,
    config: &RecallConfig,
) -> (Vec<Arc<Fact>>, Vec<RecalledFact>) {
    let current: Vec<Vec<&Known>> =
        scopes.iter().map(|scoped| scoped.current(query.max_sensitivity, query.now).collect()).collect();
    let profile = profile(&current, config.profile_tokens);
    let relevant = relevant(current.into_iter().flatten(), asked, query, &profile, config.max_facts);
    (profile, relevant)
}

/// Facts that are always shown: critical ones first, then by key, at most `max_tokens` together.
fn profile(scopes: &[Vec<&Known>], max_tokens: usize) -> Vec<Arc<Fact>> {
    let mut shown: Vec<Arc<Fact>> = Vec::new();
    for current in scopes {
        let mut facts: Vec<_> = current.iter().filter(|known| known.always).map(|known| &known.fact).collect();
        facts.sort_unstable_by(|a, b| (!a.critical, &a.key, a.id).cmp(&(!b.critical, &b.key, b.id)));
        for fact in facts {
            // What the own scope says of a single-valued key stands before what a granted one says.
            let known = shown.iter().any(|known| known.key == fact.key && fact.cardinality == Cardinality::One);
            if !known {
                shown.push(Arc::clone(fact));
            }
        }
    }
    shown.sort_by_key(|fact| !fact.critical);
    let mut left = max_tokens;
    shown.retain(|fact| {
        let tokens = estimated_tokens(fact);
        let fits = tokens <= left;
        left -= if fits { tokens } else { 0 };
        fits
    });
    shown
}

fn is_profile(fact: &Fact) -> bool {
    let always = matches!(fact.key.as_str(), "identity.name" | "language.preferred" | "time.zone")
        || fact.key.starts_with("instruction.standing");
    (fact.critical || always) && fact.about.is_none() && fact.source_type != SourceType::Inferred
}

/// About what a line for it will take: four letters, or one wide character, a token.
fn estimated_tokens(fact: &Fact) -> usize {
    let value = fact.value_text();
    let wide = value.chars().filter(|c| !c.is_ascii()).count();
    let narrow = fact.key.len() + value.len().min(value.chars().count()) - wide.min(value.chars().count());
    wide + narrow.div_ceil(4) + 3
}

/// Facts beside the profile that bear on a question, strongest first, at most `max`.
fn relevant<'a>(
    current: impl Iterator<Item = &'a Known>,
    asked: &Asked<'_>,
    query: &Query,
    profile: &[Arc<Fact>],
    max: usize,
) -> Vec<RecalledFact> {
    let shown: HashSet<FactId> = profile.iter().map(|fact| fact.id).collect();
    let labels = labels::asked(asked.own.iter().map(|term| term.id), &asked.folded);
    let mut telling: Vec<TermId> = asked.own.iter().filter(|term| term.is_telling()).map(|term| term.id).collect();
    telling.sort_unstable();
    telling.dedup();
    let mut found: Vec<RecalledFact> = current
        .filter(|known| !(known.always && shown.contains(&known.fact.id)))
        .filter_map(|known| relevance(known, asked, labels, &telling, query))
        .collect();
    found.sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| a.fact.id.cmp(&b.fact.id)));
    found.truncate(max);
    found
}

fn relevance(
    known: &Known,
    asked: &Asked<'_>,
    labels: Labels,
    telling: &[TermId],
    query: &Query,
) -> Option<RecalledFact> {
    // Another person's facts are shown only when that person is spoken of, never as the subject's own.
    let named = known.about.is_some() && known.is_named(asked);
    if known.about.is_some() && !named {
        return None;
    }
    let by_key = known.label.is_some_and(|label| labels.has(label));
    let hits = telling.iter().filter(|term| known.words.binary_search(term).is_ok()).count();
    let of_question = hits as f64 / telling.len().clamp(1, 8) as f64;
    let of_value = hits as f64 / known.words.len().max(1) as f64;
    let by_words = hits > 0 && of_question >= MIN_SHARE;
    let why = match (named, by_key, by_words) {
        (true, ..) => format!("about {}, who is named", known.fact.about.as_deref().unwrap_or_default()),
        (_, true, true) => format!("{} is asked for, in its own words", known.fact.key),
        (_, true, false) => format!("{} is asked for", known.fact.key),
        (_, false, true) => "shares words with the question".to_owned(),
        (false, false, false) => return None,
    };
    let strength = 0.4 * f64::from(u8::from(by_key || named)) + 0.35 * of_question.min(1.0) + 0.15 * of_value.min(1.0);
    let score = strength + 0.1 * known.fact.weight(query.now).clamp(0.0, 1.0);
    Some(RecalledFact { fact: Arc::clone(&known.fact), score, why })
}
