//! From a scripted model's reply to candidates.

use serde::Deserialize;
use serde_json::Value;

use crate::memory::normalise::fold;
use crate::memory::{Candidate, Evidence, FactKind, Intent, KeySchema, ProposedBy, SourceType, Speaker, Turn};

#[derive(Deserialize)]
struct Reply {
    #[serde(default)]
    memories: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    key: String,
    value: Value,
    confidence: Option<f64>,
    evidence: String,
    about: Option<String>,
    lasting: Option<bool>,
}

/// What a reply proposes, each with the turn that it rests on: the newest one with these words.
pub(super) fn proposed<'t>(reply: &str, turns: &'t [Turn], schema: &KeySchema) -> Vec<(&'t Turn, Vec<Candidate>)> {
    let Ok(reply) = serde_json::from_str::<Reply>(reply) else { return Vec::new() };
    let mut out = Vec::new();
    for item in reply.memories {
        let quote = fold(&item.evidence).into_owned();
        let says = |t: &&Turn| t.user.iter().any(|s| fold(&s.text).contains(&quote));
        let Some(turn) = turns.iter().rev().find(says).or(turns.last()) else { continue };
        let candidate = Candidate {
            kind: schema.get(&item.key).map_or(FactKind::Other, |rule| rule.kind),
            key: item.key,
            value: item.value,
            intent: Intent::State,
            source_type: SourceType::UserStated,
            confidence: item.confidence.unwrap_or(0.7),
            language: crate::memory::language::detect(&item.evidence).to_owned(),
            evidence: Evidence {
                exchange: Some(turn.exchange),
                message_hash: String::new(),
                quote: item.evidence,
                role: Speaker::User,
                said_at: turn.said_at,
            },
            about: item.about,
            valid_from: None,
            valid_to: None,
            lasting: item.lasting.unwrap_or(true),
            tags: Vec::new(),
            entities: Vec::new(),
            by: ProposedBy::Model,
        };
        out.push((turn, vec![candidate]));
    }
    out
}
