//! Plans for scopes of a few memories.

use serde_json::json;

use super::*;
use crate::base::SeededRandom;
use crate::memory::edit::{EditCx, NewFact, created_by_api};
use crate::memory::{KeySchema, Speaker};

const NOW: Time = Time(1_760_000_000_000);
const DAY: i64 = 86_400_000;

fn rules() -> ForgetRules {
    ForgetRules { inferred_ttl: Some(7 * DAY), episode_ttl: None, max_facts: 100, max_episodes: 100 }
}

fn fact(n: u128, days_ago: i64) -> Fact {
    let random = SeededRandom::new(n as u64);
    let cx = EditCx { now: NOW.plus_millis(-days_ago * DAY), ids: &random, actor: Actor::Api };
    let new = NewFact { key: format!("preference.thing{n}"), value: json!(format!("v{n}")), ..NewFact::default() };
    let mut fact = created_by_api(&[], &new, KeySchema::builtin(), &cx).unwrap().changes[0].fact.clone();
    fact.id = FactId(n);
    fact.source_type = SourceType::UserStated;
    fact.source_confidence = 0.7;
    fact
}

fn inferred(n: u128, days_ago: i64) -> Fact {
    Fact { source_type: SourceType::Inferred, source_confidence: 0.4, ..fact(n, days_ago) }
}

fn planned(facts: &[Fact], rules: &ForgetRules) -> (Vec<(u128, String)>, Vec<u128>) {
    let plan = plan_facts(facts, rules, NOW, &SeededRandom::new(1), 100);
    let expired = plan.expire.iter().map(|change| {
        assert_eq!((change.action, change.actor), (Action::Expire, Actor::Sweep));
        assert_eq!((change.fact.status, change.fact.retired_at), (FactStatus::Expired, Some(NOW)));
        assert_eq!(change.expected_version, Some(change.fact.version - 1));
        (change.fact.id.0, change.reason.clone())
    });
    (expired.collect(), plan.drop_facts.iter().map(|id| id.0).collect())
}

fn expired(facts: &[Fact], rules: &ForgetRules) -> Vec<u128> {
    planned(facts, rules).0.into_iter().map(|(id, _)| id).collect()
}

#[test]
fn what_was_concluded_runs_out_unless_confirmed_or_locked() {
    let mut confirmed = inferred(3, 30);
    confirmed.confirmed_at = NOW.plus_millis(-DAY);
    let locked = Fact { locked: true, ..inferred(4, 30) };
    let upload = Fact { source_type: SourceType::FileUpload, source_confidence: 0.4, ..fact(5, 30) };
    let facts = [inferred(1, 8), inferred(2, 6), confirmed, locked, upload, fact(6, 900)];
    assert_eq!(expired(&facts, &rules()), [1, 5]);
    assert_eq!(expired(&facts, &ForgetRules { inferred_ttl: None, ..rules() }), [0; 0]);
}

#[test]
fn a_fact_whose_time_is_over_runs_out() {
    let past = Fact { valid_to: Some(NOW), ..fact(1, 10) };
    let future = Fact { valid_to: Some(NOW.plus_millis(1)), ..fact(2, 10) };
    let (expired, _) = planned(&[past, future], &rules());
    assert_eq!(expired, [(1, "its time is over".to_owned())]);
}

#[test]
fn above_capacity_the_least_useful_go_and_what_is_protected_stays() {
    let mut facts: Vec<Fact> = (1..=6).map(|n| fact(n, n as i64 * 100)).collect();
    facts[5].locked = true;
    facts[4].critical = true;
    facts[3].source_type = SourceType::Operator;
    assert_eq!(expired(&facts, &ForgetRules { max_facts: 4, ..rules() }), [3, 2]);
    assert_eq!(
        expired(&facts, &ForgetRules { max_facts: 1, ..rules() }),
        [3, 2, 1],
        "what is protected is never given up"
    );
    assert_eq!(expired(&facts, &ForgetRules { max_facts: 6, ..rules() }), [0; 0]);
}

#[test]
fn what_ran_out_long_ago_is_dropped_and_history_stays() {
    let retired =
        |n, status, days_ago: i64| Fact { status, retired_at: Some(NOW.plus_millis(-days_ago * DAY)), ..fact(n, 400) };
    let facts = [
        retired(1, FactStatus::Expired, 181),
        retired(2, FactStatus::Expired, 179),
        retired(3, FactStatus::Superseded, 1000),
        Fact { locked: true, ..retired(4, FactStatus::Expired, 1000) },
    ];
    assert_eq!(planned(&facts, &rules()).1, [1]);
    // Far too many rows: the oldest retired go first, whatever they are.
    assert_eq!(planned(&facts, &ForgetRules { max_facts: 1, ..rules() }).1, [3, 1]);
}

fn episode(n: u128, days_ago: i64, text: &str) -> Episode {
    let at = NOW.plus_millis(-days_ago * DAY);
    Episode { half_life: 90 * 86_400, ..Episode::said(EpisodeId(n), text, Speaker::User, at) }
}

fn plan(episodes: &[Episode], rules: &ForgetRules) -> (Vec<u128>, Vec<u128>) {
    let mut gists = Gists::default();
    episodes.iter().for_each(|episode| gists.push(Gist::of(episode)));
    let plan = plan_episodes(&gists, rules, NOW, 100);
    let ids = |ids: Vec<EpisodeId>| ids.into_iter().map(|id| id.0).collect();
    (ids(plan.archive), ids(plan.drop_episodes))
}

#[test]
fn episodes_past_their_time_go() {
    let rules = ForgetRules { episode_ttl: Some(30 * DAY), ..rules() };
    assert_eq!(plan(&[episode(1, 31, "one"), episode(2, 29, "two")], &rules), (vec![], vec![1]));
}

#[test]
fn episodes_that_faded_are_put_aside_unless_used_of_late() {
    let used = Episode { last_used_at: Some(NOW.plus_millis(-DAY)), uses: 1, ..episode(2, 800, "two") };
    // Told today of something long ago, as an import does.
    let imported = Episode { recorded_at: NOW, ..episode(3, 800, "three") };
    let lasting = Episode { half_life: 0, ..episode(4, 800, "four") };
    assert_eq!(
        plan(&[episode(1, 800, "one"), used, imported, lasting, episode(5, 100, "five")], &rules()),
        (vec![1], vec![])
    );
}

#[test]
fn above_capacity_the_least_useful_episodes_are_put_aside_before_any_goes() {
    let often = Episode { uses: 20, last_used_at: Some(NOW.plus_millis(-DAY)), ..episode(1, 50, "one") };
    let all = [often, episode(2, 40, "two"), episode(3, 30, "three"), episode(4, 20, "four")];
    let two = ForgetRules { max_episodes: 2, ..rules() };
    assert_eq!(plan(&all, &two), (vec![2, 3], vec![]));
    let aside = |n, days| Episode { status: EpisodeStatus::Archived, ..episode(n, days, "aside") };
    let mut more = vec![aside(10, 100), aside(11, 90)];
    more.extend(all);
    assert_eq!(plan(&more, &two), (vec![2, 3], vec![10, 11]), "room is made among those put aside, oldest first");
}

#[test]
fn duplicates_are_put_aside_and_what_is_marked_is_no_measure() {
    let text = "my order 1234 has not come yet";
    assert_eq!(plan(&[episode(1, 2, text), episode(2, 1, text)], &rules()), (vec![1], vec![]));
    let marked = Episode { retired_facts: vec![FactId(1)], ..episode(2, 1, text) };
    assert_eq!(
        plan(&[episode(1, 2, text), marked], &rules()),
        (vec![], vec![]),
        "it is not shown, so it stands for nothing"
    );
    let held_back = Episode { status: EpisodeStatus::Quarantined, ..episode(3, 900, text) };
    assert_eq!(plan(&[held_back], &rules()), (vec![], vec![]));
}

#[test]
fn a_plan_is_bounded() {
    let facts: Vec<Fact> = (1..=9).map(|n| inferred(n, 30)).collect();
    let plan = plan_facts(&facts, &rules(), NOW, &SeededRandom::new(1), 4);
    assert_eq!(plan.expire.len(), 4);
}
