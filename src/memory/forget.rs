//! What a scope may forget: a plan, made of what is there and of rules. Pure: a job carries it out.
//!
//! Nothing is forgotten that a person locked, that is critical or an operator's. What was merely little used is put aside first
//! and dropped [`KEEP_MILLIS`] later; what replaced a value stays as its history.

use std::cmp::Ordering;

use super::arbitrate::ArbitrateCx;
use super::change::{Action, Actor, FactChange};
use super::duplicates::{Words, superfluous};
use super::episode::{Episode, EpisodeStatus};
use super::fact::{Fact, FactStatus, SourceType};
use crate::base::{EpisodeId, FactId, Random, Time};

/// How long what was put aside is kept, in milliseconds.
pub const KEEP_MILLIS: i64 = 180 * 86_400_000;
/// An episode that has faded below this weight and is not used is put aside.
const FADED: f64 = 0.02;
/// A source that is less sure than this is not believed for ever.
const LOW_TRUST: f64 = 0.5;
/// Duplicates are looked for among the newest so many episodes.
const COMPARED: usize = 5_000;
/// A scope may hold so many times `max_facts` rows, with those that are retired.
const WITH_RETIRED: usize = 2;

/// Times to live and capacities.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForgetRules {
    /// Of facts that were concluded or are of low trust, unless confirmed, in milliseconds.
    pub inferred_ttl: Option<i64>,
    /// Of episodes, in milliseconds.
    pub episode_ttl: Option<i64>,
    /// Current facts of a scope.
    pub max_facts: usize,
    /// Episodes of a scope that can be recalled; as many may be put aside.
    pub max_episodes: usize,
}

/// What may go.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ForgetPlan {
    /// Facts that run out.
    pub expire: Vec<FactChange>,
    /// Facts that go, with their history.
    pub drop_facts: Vec<FactId>,
    /// Episodes that are put aside.
    pub archive: Vec<EpisodeId>,
    /// Episodes that go.
    pub drop_episodes: Vec<EpisodeId>,
}

/// Which facts run out, and which go. At most `max` of each.
#[must_use]
pub fn plan_facts(facts: &[Fact], rules: &ForgetRules, now: Time, ids: &dyn Random, max: usize) -> ForgetPlan {
    let mut ends: Vec<(&Fact, &str)> = Vec::new();
    let mut left: Vec<&Fact> = Vec::new();
    for fact in facts.iter().filter(|fact| fact.is_current()) {
        match run_out(fact, rules, now) {
            Some(reason) => ends.push((fact, reason)),
            None => left.push(fact),
        }
    }
    let surplus = left.len().saturating_sub(rules.max_facts);
    let mut weakest: Vec<&Fact> = left.into_iter().filter(|fact| !is_kept(fact)).collect();
    weakest.sort_by(|a, b| by_weight((a.weight(now), a.confirmed_at), (b.weight(now), b.confirmed_at)));
    ends.extend(weakest.into_iter().take(surplus).map(|fact| (fact, "more than a scope may hold; least useful")));
    ends.truncate(max);
    let cx = ArbitrateCx { now, ids, actor: Actor::Sweep, exchange: None };
    let expire = ends.into_iter().map(|(fact, reason)| {
        let mut gone = fact.clone();
        gone.status = FactStatus::Expired;
        gone.retired_at = Some(now);
        cx.update(Action::Expire, gone, fact.version, reason)
    });
    ForgetPlan { expire: expire.collect(), drop_facts: dropped_facts(facts, rules, now, max), ..ForgetPlan::default() }
}

/// Why a current fact holds no more, if it does not.
fn run_out(fact: &Fact, rules: &ForgetRules, now: Time) -> Option<&'static str> {
    if fact.locked {
        return None;
    }
    if fact.valid_to.is_some_and(|to| to <= now) {
        return Some("its time is over");
    }
    let weak = fact.source_type == SourceType::Inferred
        || (fact.source_confidence < LOW_TRUST && (fact.source_type as u8) <= SourceType::FileUpload as u8);
    let old = rules.inferred_ttl.is_some_and(|ttl| now.since(fact.confirmed_at) > ttl);
    (weak && fact.source_type != SourceType::SystemDefault && old).then_some("not confirmed in time")
}

/// Whether capacity does not touch it.
fn is_kept(fact: &Fact) -> bool {
    fact.locked || fact.critical || fact.source_type == SourceType::Operator
}

/// Retired facts: those that ran out long ago, and the oldest where there are far too many rows.
fn dropped_facts(facts: &[Fact], rules: &ForgetRules, now: Time, max: usize) -> Vec<FactId> {
    let mut retired: Vec<&Fact> =
        facts.iter().filter(|fact| !fact.is_current() && !fact.locked && fact.retired_at.is_some()).collect();
    retired.sort_by_key(|fact| (fact.retired_at, fact.id));
    let surplus = facts.len().saturating_sub(rules.max_facts.saturating_mul(WITH_RETIRED));
    let ran_out = |fact: &Fact| {
        fact.status == FactStatus::Expired && fact.retired_at.is_some_and(|at| now.since(at) > KEEP_MILLIS)
    };
    let goes = |(place, fact): &(usize, &Fact)| *place < surplus || ran_out(fact);
    retired.into_iter().enumerate().filter(goes).map(|(_, fact)| fact.id).take(max).collect()
}

/// What is kept in mind of an episode while a plan is made: little, since a scope may hold a hundred thousand.
#[derive(Clone, Debug)]
pub struct Gist {
    id: EpisodeId,
    said_at: Time,
    recorded_at: Time,
    last_used_at: Option<Time>,
    score: f64,
    half_life: i64,
    uses: u32,
    status: EpisodeStatus,
    words: Option<Words>,
}

impl Gist {
    /// Takes the gist of an episode.
    #[must_use]
    pub fn of(episode: &Episode) -> Self {
        let shown = episode.status == EpisodeStatus::Active && episode.retired_facts.is_empty();
        Self {
            id: episode.id,
            said_at: episode.said_at,
            recorded_at: episode.recorded_at,
            last_used_at: episode.last_used_at,
            score: episode.score,
            half_life: episode.half_life,
            uses: episode.uses,
            status: episode.status,
            words: if shown { Words::of(episode) } else { None },
        }
    }

    /// How long ago it was stored or used, in milliseconds: what was imported is not old on its first day.
    fn idle(&self, now: Time) -> i64 {
        now.since(self.last_used_at.map_or(self.recorded_at, |used| used.max(self.recorded_at)))
    }

    fn faded(&self, age: i64) -> f64 {
        if self.half_life <= 0 {
            return self.score;
        }
        self.score * (-(age as f64 / 1000.0) / self.half_life as f64).exp2()
    }

    fn utility(&self, now: Time) -> f64 {
        let age = now.since(self.last_used_at.map_or(self.said_at, |used| used.max(self.said_at)));
        self.faded(age) * (1.0 + f64::from(self.uses).ln_1p())
    }
}

/// Gists in order of age, of which only the newest keep their words.
#[derive(Debug, Default)]
pub struct Gists(Vec<Gist>);

impl Gists {
    /// Adds the next newer one.
    pub fn push(&mut self, gist: Gist) {
        if let Some(old) = self.0.len().checked_sub(COMPARED) {
            self.0[old].words = None;
        }
        self.0.push(gist);
    }
}

/// Which episodes are put aside, and which go. At most `max` of each.
#[must_use]
pub fn plan_episodes(gists: &Gists, rules: &ForgetRules, now: Time, max: usize) -> ForgetPlan {
    let ran_out = |gist: &&Gist| rules.episode_ttl.is_some_and(|ttl| now.since(gist.recorded_at) > ttl);
    let (old, rest): (Vec<&Gist>, Vec<&Gist>) = gists.0.iter().partition(ran_out);
    let mut drop_episodes: Vec<EpisodeId> = old.into_iter().map(|gist| gist.id).collect();
    let (active, aside): (Vec<&Gist>, Vec<&Gist>) = rest
        .into_iter()
        .filter(|gist| gist.status != EpisodeStatus::Quarantined)
        .partition(|gist| gist.status == EpisodeStatus::Active);

    let words: Vec<Words> = active.iter().filter_map(|gist| gist.words.clone()).collect();
    let mut archive = superfluous(&words);
    archive.extend(active.iter().filter(|gist| gist.faded(gist.idle(now)) < FADED).map(|gist| gist.id));
    archive.sort_unstable();
    archive.dedup();
    let mut useful: Vec<&Gist> = active.into_iter().filter(|gist| archive.binary_search(&gist.id).is_err()).collect();
    let surplus = useful.len().saturating_sub(rules.max_episodes);
    useful.sort_by(|a, b| by_weight((a.utility(now), a.said_at), (b.utility(now), b.said_at)));
    archive.extend(useful.iter().take(surplus).map(|gist| gist.id));
    // Before something joins those that were put aside, room is made among them.
    let too_many = (aside.len() + archive.len()).saturating_sub(rules.max_episodes).min(aside.len());
    drop_episodes.extend(aside.iter().take(too_many).map(|gist| gist.id));
    archive.truncate(max);
    drop_episodes.truncate(max);
    ForgetPlan { archive, drop_episodes, ..ForgetPlan::default() }
}

/// The lightest first, of equals the older.
fn by_weight(a: (f64, Time), b: (f64, Time)) -> Ordering {
    a.0.total_cmp(&b.0).then(a.1.cmp(&b.1))
}

#[cfg(test)]
mod tests;
