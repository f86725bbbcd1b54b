//! Proposals by rule, English and Chinese: stable first-person statements, explicit requests, changes and retractions.
//!
//! General patterns of what people say of themselves, over the sentences of the newest user turn that are the user's own
//! words. Nothing is decided here: the gate and arbitration judge what is proposed. Start with [`propose`].

mod chinese;
mod correction;
mod english;
mod standing;

use regex::{Captures, Regex};
use serde_json::Value;

use super::candidate::{Candidate, Intent};
use super::fact::{Evidence, SourceType};
use super::language::is_han;
use super::schema::KeySchema;
use super::segment::{Sentence, fiction_at, is_payload_task, is_pretence, is_small_talk, own_words, sentences};
use super::turn::{Said, Speaker, Turn};

pub use correction::corrections;
pub use standing::standing_facet;

/// Rules read at most so many characters of a message: statements about oneself are short, pasted documents are not.
const MAX_CHARS: usize = 8_000;
/// So many proposals at most from one exchange.
const MAX_CANDIDATES: usize = 24;

/// The groups of a match. Most texts match nothing, and room for groups costs more than finding that out.
pub(crate) fn captures<'t>(pattern: &Regex, text: &'t str) -> Option<Captures<'t>> {
    pattern.is_match(text).then(|| pattern.captures(text)).flatten()
}

/// A proposal before it knows where it was found.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Finding {
    pub(crate) key: String,
    /// `Null` = the whole key, for a retraction.
    pub(crate) value: Value,
    pub(crate) intent: Intent,
    pub(crate) about: Option<String>,
    pub(crate) tags: Vec<String>,
    pub(crate) confidence: f64,
}

impl Finding {
    pub(crate) fn new(key: impl Into<String>, value: impl Into<Value>) -> Self {
        Self {
            key: key.into(),
            value: value.into(),
            intent: Intent::State,
            about: None,
            tags: Vec::new(),
            confidence: 0.7,
        }
    }

    pub(crate) fn intent(mut self, intent: Intent) -> Self {
        self.intent = intent;
        self
    }

    pub(crate) fn tag(mut self, tag: &str) -> Self {
        self.tags.push(tag.to_owned());
        self
    }
}

/// Proposes what the newest user turn says about its speaker. Finds nothing in repeated turns, small talk and one-off tasks.
#[must_use]
pub fn propose(turn: &Turn, schema: &KeySchema) -> Vec<Candidate> {
    let mut out = Vec::new();
    if turn.repeated {
        return out;
    }
    for said in turn.user.iter().filter(|s| s.role == Speaker::User) {
        for (finding, quote) in find(&said.text, schema) {
            if out.len() == MAX_CANDIDATES {
                return out;
            }
            out.push(candidate(finding, quote, said, turn, schema));
        }
    }
    out
}

/// What one text says, each with the words that say it.
fn find<'a>(text: &'a str, schema: &KeySchema) -> Vec<(Finding, &'a str)> {
    let mut out = Vec::new();
    let text = super::normalise::cut_at_word(text, MAX_CHARS);
    if is_small_talk(text) {
        return out;
    }
    let first = sentences(text).next().map_or("", |s| s.text);
    let explicit = english::is_request(first) || chinese::is_request(first);
    let own = own_words(text);
    if own.parts().any(is_pretence) {
        return out;
    }
    // Of "Shorten this: "…". Also, I'm vegan" only the aside is the speaker's own; the task must have its text in a quotation.
    let aside_only = !explicit && is_payload_task(first);
    if aside_only && !own.is_cut() {
        return out;
    }
    for part in own.parts() {
        for sentence in sentences(part) {
            if aside_only && !is_aside(sentence.text) {
                continue;
            }
            // What is said before an order to invent is one's own; what follows is nobody's.
            let (sentence, invents) = before_fiction(sentence);
            if invents && sentence.text.is_empty() {
                return out;
            }
            if sentence.text.contains(is_han) {
                chinese::find(sentence, schema, &mut out);
            } else {
                english::find(sentence, schema, &mut out);
            }
            if invents {
                return out;
            }
        }
    }
    out
}

/// The clauses of a sentence before an order to invent, and whether there is such an order.
fn before_fiction(sentence: Sentence<'_>) -> (Sentence<'_>, bool) {
    let Some(at) = fiction_at(sentence.text) else { return (sentence, false) };
    let head = &sentence.text[..at];
    let end = head.rfind([',', ';', '\u{ff0c}', '\u{ff1b}', ':', '\u{ff1a}']).unwrap_or(0);
    (Sentence { text: head[..end].trim_end(), question: false }, true)
}

/// Whether a sentence sets out to say something beside the matter.
fn is_aside(text: &str) -> bool {
    const MARKS: [&str; 11] =
        ["also", "btw", "by the way", "oh and", "ps", "p.s", "and btw", "另外", "对了", "还有", "顺便"];
    let lower = text.to_lowercase();
    MARKS
        .iter()
        .any(|mark| lower.strip_prefix(mark).is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_alphanumeric())))
}

/// Whom a sentence speaks of when it is another person than its speaker: "brother Tom" for "my brother Tom is allergic to shellfish".
#[must_use]
pub fn speaks_of(sentence: &str) -> Option<String> {
    let sentence = sentence.trim().trim_end_matches(['.', '!', '。', '\u{ff01}']);
    english::speaks_of(sentence).or_else(|| chinese::speaks_of(sentence))
}

/// Whether a sentence states a value, as opposed to supposing, asking, wishing, denying or remembering it. What a model proposes is
/// held against it: a model quotes well, and overlooks "if".
#[must_use]
pub fn states(sentence: &str, value: &str, key: &str) -> bool {
    let value = value.to_lowercase();
    let passing = key.starts_with("location.") || key.starts_with("diet.") || key.starts_with("preference.");
    if sentence.contains(is_han) {
        chinese::states(sentence, &value, passing)
    } else {
        english::states(sentence, &value, passing)
    }
}

fn candidate(finding: Finding, quote: &str, said: &Said, turn: &Turn, schema: &KeySchema) -> Candidate {
    let evidence = Evidence {
        exchange: Some(turn.exchange),
        message_hash: said.hash.clone(),
        quote: quote.to_owned(),
        role: Speaker::User,
        said_at: turn.said_at,
    };
    Candidate {
        kind: schema.get(&finding.key).map_or(super::fact::FactKind::Other, |rule| rule.kind),
        intent: finding.intent,
        source_type: if finding.intent == Intent::Change { SourceType::UserConfirmed } else { SourceType::UserStated },
        confidence: finding.confidence,
        about: finding.about,
        tags: finding.tags,
        language: super::language::detect(quote).to_owned(),
        ..Candidate::stated(finding.key, finding.value, evidence)
    }
}
