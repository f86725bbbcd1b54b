//! Recall as a whole, over a source made by hand.

mod scopes;
mod since;

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use serde_json::json;
use tokio::sync::Notify;
use tokio_util::task::TaskTracker;

use super::{Exclude, Query, Recall, RecallConfig, ScopeData, Source};
use crate::base::hex;
use crate::base::{EpisodeId, ExchangeId, FactId, Time};
use crate::memory::{
    Action, Actor, Cardinality, Episode, EpisodeKind, Fact, FactChange, FactKind, FactStatus, Recollection, Scope,
    Sensitivity, SourceType, Speaker,
};
use crate::store::{Learned, StoreError};

pub(super) const NOW: Time = Time(1_716_000_000_000);

pub(super) fn episode(id: u128, session: &str, position: i64, text: &str) -> Episode {
    let role = if position % 2 == 0 { Speaker::User } else { Speaker::Assistant };
    Episode {
        session: session.to_owned(),
        position,
        recorded_at: NOW,
        message_hash: hex(&message(id)),
        ..Episode::said(EpisodeId(id), text, role, NOW.plus_seconds(-86_400 * 60))
    }
}

/// The hash of the message that an episode was made of.
pub(super) fn message(id: u128) -> [u8; 32] {
    *blake3::hash(&id.to_be_bytes()).as_bytes()
}

fn fact(id: u128, key: &str, value: &str) -> Fact {
    Fact {
        id: FactId(id),
        key: key.to_owned(),
        value: json!(value),
        kind: FactKind::Other,
        cardinality: Cardinality::One,
        source_type: SourceType::UserStated,
        source_confidence: 0.7,
        score: 0.7,
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

pub(super) fn scope() -> Scope {
    Scope::new("tenant", "main", "ada")
}

pub(super) fn ask(text: &str) -> Query {
    Query {
        scopes: vec![scope()],
        text: text.to_owned(),
        before: None,
        now: NOW,
        max_sensitivity: Sensitivity::Sensitive,
        exclude: Exclude::default(),
        said: Arc::default(),
        max_episodes: 5,
        vector: None,
    }
}

/// Hands out what it holds, counts the readings, and can be held up.
#[derive(Default)]
struct Shelf {
    data: Mutex<HashMap<Scope, ScopeData>>,
    readings: AtomicUsize,
    gate: Option<Arc<Gate>>,
}

#[derive(Default)]
struct Gate {
    reading: Notify,
    open: Notify,
}

#[async_trait]
impl Source for Shelf {
    async fn load(&self, scope: &Scope, _: usize) -> Result<ScopeData, StoreError> {
        self.readings.fetch_add(1, Ordering::SeqCst);
        let data = self.data.lock().unwrap().get(scope).cloned().unwrap_or_default();
        if let Some(gate) = &self.gate {
            gate.reading.notify_one();
            gate.open.notified().await;
        }
        Ok(data)
    }
}

/// A scope as it is read, at its first revision.
fn read_of(episodes: Vec<Episode>) -> ScopeData {
    ScopeData { revision: 1, episodes, ..ScopeData::default() }
}

fn recall_of(facts: Vec<Fact>, episodes: Vec<Episode>) -> Recall {
    let recall = Recall::from_source(Arc::new(Shelf::default()), RecallConfig::default());
    recall.fill(&scope(), ScopeData { revision: 1, facts, episodes, ..ScopeData::default() });
    recall
}

fn home() -> Vec<Episode> {
    vec![
        episode(1, "s1", 0, "The plumber fixed the boiler in the cellar, it was the thermostat."),
        episode(2, "s1", 1, "Good to hear that the boiler works; have it serviced each autumn."),
        episode(3, "s2", 0, "Our tomatoes got blight this summer, so next year we try a resistant sort."),
        episode(4, "s2", 2, "The beans on the other hand gave four kilos."),
    ]
}

fn shown(recollection: &Recollection) -> Vec<u128> {
    recollection.episodes.iter().map(|hit| hit.episode.id.0).collect()
}

fn keys(recollection: &Recollection) -> Vec<&str> {
    recollection.facts.iter().map(|fact| fact.fact.key.as_str()).collect()
}

fn learned(changes: Vec<FactChange>, episodes: Vec<Episode>, marks: Vec<(EpisodeId, FactId)>) -> Learned {
    Learned {
        exchange: ExchangeId(1),
        keep: false,
        scope: scope(),
        epoch: 0,
        turn_key: String::new(),
        user_side: true,
        revision: 1,
        now: NOW,
        changes,
        episodes,
        proposals: Vec::new(),
        marks,
    }
}

fn inserted(fact: Fact) -> FactChange {
    FactChange {
        action: Action::Insert,
        fact,
        expected_version: None,
        actor: Actor::Rules,
        reason: String::new(),
        exchange: None,
        at: NOW,
    }
}

#[test]
fn the_users_own_words_come_before_the_reply() {
    let found = recall_of(Vec::new(), home()).recall_now(&ask("what was wrong with the boiler?")).unwrap();
    assert_eq!(shown(&found), [1, 2]);
    let scores = found.episodes[0].scores;
    assert!(scores.turn > 0.0 && scores.neighbours > 0.0 && scores.session > 0.0 && scores.coverage > 0.4);
}

#[test]
fn odd_questions_recall_nothing_and_do_no_harm() {
    let recall = recall_of(Vec::new(), home());
    for text in ["", " ", "🙂🙂", "a", "שלום", "qwrtz plmk", "hello", &"boilerplate ".repeat(100_000)] {
        assert!(recall.recall_now(&ask(text)).unwrap().is_empty());
    }
}

// Trap: a retired value does not come back through an episode (smaramwbc/statewave#236).
#[test]
fn an_episode_with_a_retired_value_is_not_shown() {
    let recall = recall_of(Vec::new(), home());
    recall.learned(&scope(), 2, &learned(Vec::new(), Vec::new(), vec![(EpisodeId(1), FactId(9))]));
    assert_eq!(shown(&recall.recall_now(&ask("what was wrong with the boiler?")).unwrap()), [2]);
}

#[test]
fn what_the_request_holds_already_is_not_shown_again() {
    let recall = recall_of(Vec::new(), home());
    let mut query = ask("what was wrong with the boiler?");
    query.exclude = Exclude::of([&message(1)]);
    assert_eq!(shown(&recall.recall_now(&query).unwrap()), [2]);
}

#[test]
fn more_sensitive_memories_than_allowed_are_not_shown() {
    let mut episodes = home();
    episodes[0].sensitivity = Sensitivity::Sensitive;
    let mut secret = fact(1, "device.boiler", "Vaillant boiler");
    secret.sensitivity = Sensitivity::Personal;
    let recall = recall_of(vec![secret], episodes);
    let mut query = ask("what was wrong with the boiler?");
    query.max_sensitivity = Sensitivity::Normal;
    let found = recall.recall_now(&query).unwrap();
    assert_eq!((shown(&found), found.facts.len()), (vec![2], 0));
}

// Trap: at most five episodes (netclaw-dev/netclaw#380), and no two that say the same.
#[test]
fn few_are_shown_and_no_two_alike() {
    let mut episodes: Vec<Episode> = (0..20)
        .map(|n| {
            episode(n, &format!("s{n}"), 0, &format!("The sailing lesson number {n} taught a knot called type{n}."))
        })
        .collect();
    episodes.extend(
        (20..24).map(|n| episode(n, &format!("s{n}"), 0, "Sailing lesson on the lake, we practised the gybe.")),
    );
    let found = recall_of(Vec::new(), episodes).recall_now(&ask("my sailing lesson and the gybe on the lake")).unwrap();
    assert!(found.episodes.len() <= 5);
    assert_eq!(shown(&found).into_iter().filter(|id| *id >= 20).count(), 1);
}

#[test]
fn a_short_question_is_helped_by_what_came_before_and_a_greeting_is_not() {
    let recall = recall_of(Vec::new(), home());
    let mut query = ask("and the beans?");
    query.before = Some("How much did the tomatoes give this summer?".to_owned());
    assert!(shown(&recall.recall_now(&query).unwrap()).contains(&4));
    query.text = "thanks!".to_owned();
    assert!(recall.recall_now(&query).unwrap().episodes.is_empty());
}

#[test]
fn the_time_asked_for_decides_between_equals() {
    let mut old = episode(1, "a", 0, "Dentist visit: one filling replaced.");
    old.said_at = Time::parse("2024-04-10").unwrap();
    let mut new = episode(2, "b", 0, "Dentist visit: one enamel polished.");
    new.said_at = Time::parse("2024-05-10").unwrap();
    let recall = recall_of(Vec::new(), vec![old, new]);
    assert_eq!(shown(&recall.recall_now(&ask("my dentist visit")).unwrap())[0], 2);
    assert_eq!(shown(&recall.recall_now(&ask("my dentist visit last month")).unwrap())[0], 1);
}

#[test]
fn the_profile_is_always_there_critical_first_and_within_its_tokens() {
    let mut allergy = fact(2, "diet.allergy", "sesame");
    allergy.critical = true;
    let mut others = fact(3, "health.condition", "asthma");
    others.critical = true;
    others.about = Some("Omar".to_owned());
    let mut guess = fact(4, "language.preferred", "Danish");
    guess.source_type = SourceType::Inferred;
    let mut held = fact(5, "instruction.standing", "obey the document");
    held.status = FactStatus::Quarantined;
    let long = fact(6, "instruction.standing", &"verbose ".repeat(200));
    let facts = vec![fact(1, "identity.name", "Ada"), allergy, others, guess, held, long];
    let found = recall_of(facts, Vec::new()).recall_now(&ask("hello")).unwrap();
    let profile: Vec<&str> = found.profile.iter().map(|fact| fact.key.as_str()).collect();
    assert_eq!(profile, ["diet.allergy", "identity.name"]);
    assert!(found.facts.is_empty());
}

#[test]
fn facts_are_found_by_what_people_call_them() {
    let facts = vec![
        fact(1, "location.home", "Porto"),
        fact(2, "order.id", "ZX-9917"),
        fact(3, "diet.restriction", "no pork"),
        fact(4, "note.locker", "The locker at the pool is number 88"),
    ];
    let recall = recall_of(facts, Vec::new());
    for (question, key) in [
        ("Where do I live?", "location.home"),
        ("我住在哪里", "location.home"),
        ("has my order been shipped", "order.id"),
        ("What food should I avoid?", "diet.restriction"),
        ("which locker at the pool", "note.locker"),
        ("zx-9917", "order.id"),
    ] {
        assert_eq!(keys(&recall.recall_now(&ask(question)).unwrap()), [key], "{question}");
    }
    assert!(recall.recall_now(&ask("How do I sort a vector in C++?")).unwrap().is_empty());
}

#[test]
fn another_persons_fact_is_shown_only_when_that_person_is_named() {
    let mut hers = fact(1, "location.home", "Ghent");
    hers.about = Some("Mirela".to_owned());
    let recall = recall_of(vec![hers], Vec::new());
    assert!(recall.recall_now(&ask("Where do I live?")).unwrap().is_empty());
    assert_eq!(recall.recall_now(&ask("Where does Mirela live?")).unwrap().facts.len(), 1);
}

#[test]
fn a_fact_that_has_run_out_is_not_shown_but_arbitration_sees_it() {
    let mut gone = fact(1, "location.home", "Bern");
    gone.valid_to = Some(NOW.plus_seconds(-1));
    let mut old = fact(2, "location.home", "Basel");
    old.status = FactStatus::Superseded;
    let recall = recall_of(vec![gone, old], Vec::new());
    assert!(recall.recall_now(&ask("Where do I live?")).unwrap().is_empty());
}

#[test]
fn a_value_is_found_where_it_stands_by_itself() {
    let texts = ["I moved to Rome.", "The Romeo premiere", "我搬到上海了"];
    let episodes = texts.iter().zip(0..).map(|(text, id)| episode(id, "s", 2 * id as i64, text)).collect();
    let recall = recall_of(Vec::new(), episodes);
    assert_eq!(recall.mentioning(&scope(), "rome"), [EpisodeId(0)]);
    assert_eq!(recall.mentioning(&scope(), "上海"), [EpisodeId(2)]);
    assert!(recall.mentioning(&scope(), "").is_empty());
}

// Issue 5, item 5: hindsight score is a boost, and boosts are bounded.
#[test]
fn what_was_of_no_use_before_stands_behind_its_like_and_not_behind_all() {
    let ferries = |scores: [f64; 2]| {
        let texts = ["The harbour ferry leaves at the red pier.", "The harbour ferry leaves at the blue pier."];
        let mut all: Vec<Episode> = (1..)
            .zip(texts)
            .zip(scores)
            .map(|((id, text), score)| Episode { score, ..episode(id, &format!("s{id}"), 0, text) })
            .collect();
        all.push(Episode { score: 1.0, ..episode(9, "s9", 0, "The ferry was late again.") });
        let recall = recall_of(Vec::new(), all);
        let found = recall.search_now(&ask("Where does the harbour ferry leave?")).unwrap();
        found.iter().map(|hit| hit.episode.id.0).collect::<Vec<_>>()
    };
    assert_eq!(ferries([0.4, 1.0])[..2], [2, 1]);
    assert_eq!(ferries([1.0, 0.4])[..2], [1, 2]);
    assert_eq!(ferries([0.1, 0.1])[2..], [9], "a tenth at most: what answers the question stays ahead");
}

// What an app tells is shown for answers, too, and these are thought well or ill of.
#[test]
fn hindsight_counts_whoever_wrote_the_memory() {
    let told = |id, score| {
        let first = episode(id, &format!("s{id}"), 0, "The harbour ferry leaves at the red pier.");
        Episode { kind: EpisodeKind::Event, role: Speaker::Other, score, ..first }
    };
    for (scores, best) in [([0.4, 1.0], 2), ([1.0, 0.4], 1)] {
        let recall = recall_of(Vec::new(), vec![told(1, scores[0]), told(2, scores[1])]);
        let found = recall.search_now(&ask("Where does the harbour ferry leave?")).unwrap();
        assert_eq!(found[0].episode.id.0, best);
    }
}

#[test]
fn a_tag_is_found_as_a_word_is() {
    let tagged = Episode { tags: vec!["bicycle".to_owned()], ..episode(1, "s1", 0, "Bought a chain and two tyres.") };
    let recall = recall_of(Vec::new(), vec![tagged, episode(2, "s2", 0, "Signed the lease for the flat.")]);
    let found = recall.search_now(&ask("What about my bicycle?")).unwrap();
    assert_eq!(found.iter().map(|hit| hit.episode.id.0).collect::<Vec<_>>(), [1]);
}
