//! Records with something in every field, for the suite and for other tests.

use std::time::Duration;

use serde_json::json;

use crate::base::{EpisodeId, ExchangeId, FactId, ProposalId, Time};
use crate::context::summary::Summary;
use crate::conversation::Hash;
use crate::memory::knowledge::PassageRef;
use crate::memory::{
    Action, Actor, Candidate, Cardinality, Episode, Evidence, Fact, FactChange, FactKind, FactStatus, Said, Scope,
    Sensitivity, SourceType, Speaker, Turn,
};
use crate::store::{
    Claim, Claimed, Cut, Finished, Learned, Proposal, ProposalStatus, Settled, Shown, StateKey, Store, TurnState,
};

/// When everything happens.
pub(crate) const NOW: Time = Time(1_760_000_000_000);

pub(crate) fn scope(subject: &str) -> Scope {
    Scope::new("acme", "support", subject)
}

pub(crate) fn turn(n: u128, scope: &Scope) -> Turn {
    let said = |role, text: String| Said { role, text, hash: format!("hash-{n}") };
    Turn {
        exchange: ExchangeId(n),
        scope: scope.clone(),
        epoch: 0,
        session: format!("session-{n}"),
        turn_key: format!("turn-{n}"),
        turn_index: 3,
        said_at: NOW.plus_millis(n as i64),
        before: Some(said(Speaker::Assistant, "what can I do?".to_owned())),
        user: vec![said(Speaker::User, format!("statement number {n}: 我住在上海 \u{1f600}"))],
        repeated: false,
        reply: Some(said(Speaker::Assistant, format!("reply number {n}"))),
        complete: true,
        shown: vec!["something shown".to_owned()],
        trace: None,
    }
}

pub(crate) fn finished(n: u128, scope: &Scope) -> Finished {
    Finished {
        exchange: ExchangeId(n),
        scope: scope.clone(),
        at: NOW.plus_millis(n as i64),
        turn: Some(turn(n, scope)),
        shown: None,
        state: None,
        usage: None,
    }
}

pub(crate) fn shown(n: u128) -> Shown {
    Shown {
        exchange: ExchangeId(n),
        at: NOW,
        model: "gpt-4o".to_owned(),
        target: "openai/gpt-4o".to_owned(),
        memory: "hit; facts=1; episodes=0; tokens=12".to_owned(),
        context: "counted=1; sent=2; cut=0; budget=3".to_owned(),
        detail: json!({"recollection": "a block", "why": ["because"]}),
        complete: true,
    }
}

pub(crate) fn state(scope: &Scope, prefix: u8, revision: i64) -> (StateKey, TurnState) {
    let key = StateKey { scope: scope.clone(), prefix: [prefix; 32] };
    let state = TurnState {
        profile: "profile block".into(),
        profile_facts: vec![FactId(1)],
        recollection: format!("block at revision {revision}").into(),
        facts: vec![FactId(2)],
        episodes: vec![EpisodeId(3)],
        passages: vec![PassageRef { document: "returns".parse().unwrap(), version: 4, number: 5 }],
        revision,
        expires_at: NOW.plus_seconds(3600),
    };
    (key, state)
}

pub(crate) fn evidence(quote: &str) -> Evidence {
    Evidence {
        exchange: Some(ExchangeId(9)),
        message_hash: "abc".to_owned(),
        quote: quote.to_owned(),
        role: Speaker::User,
        said_at: NOW,
    }
}

pub(crate) fn fact(n: u128, key: &str, value: &str) -> Fact {
    Fact {
        id: FactId(n),
        key: key.to_owned(),
        value: json!(value),
        kind: FactKind::Preference,
        cardinality: if key.starts_with("note.") { Cardinality::Many } else { Cardinality::One },
        source_type: SourceType::UserStated,
        source_confidence: 0.7,
        score: 0.9,
        half_life: 3600,
        valid_from: NOW,
        valid_to: None,
        said_at: NOW,
        confirmed_at: NOW,
        seen: 1,
        recorded_at: NOW,
        retired_at: None,
        status: FactStatus::Active,
        locked: false,
        sensitivity: Sensitivity::Personal,
        critical: false,
        tags: vec!["tag".to_owned()],
        evidence: vec![evidence(&format!("I said that {key} is {value}."))],
        language: "en".to_owned(),
        about: None,
        supersedes: None,
        version: 1,
    }
}

pub(crate) fn change(action: Action, fact: Fact, expected_version: Option<i64>) -> FactChange {
    FactChange {
        action,
        fact,
        expected_version,
        actor: Actor::Rules,
        reason: "the user said so".to_owned(),
        exchange: Some(ExchangeId(9)),
        at: NOW,
    }
}

pub(crate) fn insert(n: u128, key: &str, value: &str) -> FactChange {
    change(Action::Insert, fact(n, key, value), None)
}

/// The change that gives an inserted fact another value.
pub(crate) fn edit(n: u128, key: &str, value: &str, from: i64) -> FactChange {
    let mut fact = fact(n, key, value);
    fact.version = from + 1;
    change(Action::Edit, fact, Some(from))
}

pub(crate) fn episode(n: u128, role: Speaker, text: &str) -> Episode {
    Episode {
        speaker: Some("Ann".to_owned()),
        session: "session-1".to_owned(),
        position: 6,
        tags: vec!["tag".to_owned()],
        entities: vec!["Ann".to_owned()],
        exchange: Some(ExchangeId(9)),
        message_hash: "abc".to_owned(),
        ..Episode::said(EpisodeId(n), text, role, NOW)
    }
}

pub(crate) fn proposal(n: u128, status: ProposalStatus, fact: Option<u128>) -> Proposal {
    Proposal {
        id: ProposalId(n),
        exchange: Some(ExchangeId(9)),
        at: NOW,
        candidate: Candidate {
            kind: FactKind::Constraint,
            ..Candidate::stated("diet.allergy", "peanuts", evidence("I'm allergic to peanuts"))
        },
        status,
        reason: "evidence found".to_owned(),
        fact: fact.map(FactId),
    }
}

/// What exchange `n` taught when it taught nothing, decided on `revision`.
pub(crate) fn learned(n: u128, scope: &Scope, revision: i64) -> Learned {
    Learned {
        exchange: ExchangeId(n),
        keep: false,
        scope: scope.clone(),
        epoch: 0,
        turn_key: format!("turn-{n}"),
        user_side: true,
        revision,
        now: NOW.plus_seconds(1),
        changes: Vec::new(),
        episodes: Vec::new(),
        proposals: Vec::new(),
        marks: Vec::new(),
    }
}

pub(crate) fn claim(owner: &str, max: u32) -> Claim {
    Claim { owner: owner.to_owned(), now: NOW.plus_seconds(1), lease: Duration::from_secs(60), max }
}

/// Appends exchanges of a scope and leases them for `me`.
pub(crate) async fn leased(store: &dyn Store, scope: &Scope, exchanges: &[u128]) -> Vec<Claimed> {
    let group: Vec<_> = exchanges.iter().map(|n| finished(*n, scope)).collect();
    store.append(&group).await.unwrap();
    store.claim(&claim("me", 100)).await.unwrap()
}

/// Keeps a summary of one state, and settles that the cut after another uses it.
pub(crate) async fn keep_digest(store: &dyn Store, scope: &Scope, covers: Hash, cut: Hash, text: &str) {
    let epoch = store.scope_state(scope).await.unwrap().epoch;
    let summary = Summary { covers, text: text.to_owned() };
    let until = NOW.plus_seconds(3600);
    assert!(store.keep_summary(scope, epoch, &summary, until).await.unwrap());
    let key = StateKey { scope: scope.clone(), prefix: cut };
    let cut = Cut { key, epoch, candidates: &[covers], expires_at: until };
    assert_eq!(store.settle_cut(&cut, NOW).await.unwrap(), Some(Settled(Some(summary))));
}
