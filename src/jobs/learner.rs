//! Learns from exchanges by a pure decision function: batches by scope, chains revisions, decides again when stale.

mod chain;
mod store_facts;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::{Mutex, OwnedMutexGuard};

use chain::Chain;
pub use store_facts::StoreFacts;

use super::at_once::AtOnce;
use super::worker::{LearnError, Learner};
use crate::base::{Clock, EpisodeId, Time};
use crate::memory::{Fact, Scope, Speaker, Turn};
use crate::store::{Claimed, Finished, LearnOutcome, Learned, Store, StoreError};

/// What a decision rests on.
pub struct DecideArgs<'a> {
    /// What was said.
    pub turn: &'a Turn,
    /// The current facts of the scope (active and contested), as they are after the earlier exchanges of the batch.
    pub facts: &'a [Arc<Fact>],
    /// The revision of the scope that `facts` stands for; goes into the result.
    pub revision: i64,
    /// Now.
    pub now: Time,
    /// Whether a text is barred from being learned, because what it led to was deleted. Ask it for every quote that is
    /// to become evidence and for every text that is to become an episode.
    pub barred: &'a dyn Fn(&str) -> bool,
    /// The episodes of the scope in which a value occurs.
    pub mentioning: &'a dyn Fn(&str) -> Vec<EpisodeId>,
}

impl fmt::Debug for DecideArgs<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DecideArgs").field("revision", &self.revision).field("now", &self.now).finish_non_exhaustive()
    }
}

/// Decides what an exchange teaches. Called again, with other arguments, when someone else was faster.
pub type Decide = dyn Fn(DecideArgs<'_>) -> Learned + Send + Sync;

/// Where current facts come from: a cache, or the store.
#[async_trait]
pub trait FactSource: Send + Sync {
    /// The scope's revision, and its current facts at that revision. A cache asks the store for the revision first: a
    /// source that stays behind makes every decision stale.
    async fn facts(&self, scope: &Scope) -> Result<(i64, Vec<Arc<Fact>>), StoreError>;

    /// The same, if it is known without waiting and without asking whether it still holds: what is decided on it may turn out to be
    /// stale.
    fn facts_now(&self, _scope: &Scope) -> Option<(i64, Vec<Arc<Fact>>)> {
        None
    }

    /// The episodes of the scope in which `value` occurs, as far as they are known without waiting.
    fn mentioning(&self, scope: &Scope, value: &str) -> Vec<EpisodeId>;
}

/// Is told what was stored, in order, so that caches can follow.
pub trait LearnObserver: Send + Sync {
    /// `learned` was stored, and the scope now has `revision`. After [`LearnOutcome::Seen`] it holds only what was
    /// stored of it.
    fn learned(&self, scope: &Scope, revision: i64, learned: &Learned);
}

/// Tells nobody.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoObserver;

impl LearnObserver for NoObserver {
    fn learned(&self, _: &Scope, _: i64, _: &Learned) {}
}

/// What the learner did so far.
#[derive(Debug, Default)]
pub struct LearnCounters {
    /// Exchanges stored.
    pub applied: AtomicU64,
    /// Exchanges whose user turn had been learned before.
    pub seen: AtomicU64,
    /// Decisions that came too late and were made again.
    pub stale: AtomicU64,
    /// Exchanges of erased scopes.
    pub erased: AtomicU64,
    /// Exchanges that another worker had taken over.
    pub not_ours: AtomicU64,
    /// Fact changes stored.
    pub changes: AtomicU64,
    /// Episodes stored.
    pub episodes: AtomicU64,
}

/// The [`Learner`] of the write path.
pub struct ExtractLearner {
    store: Arc<dyn Store>,
    decide: Arc<Decide>,
    facts: Arc<dyn FactSource>,
    observer: Arc<dyn LearnObserver>,
    clock: Arc<dyn Clock>,
    counters: Arc<LearnCounters>,
    /// Whoever holds it decides and stores.
    turn: Arc<Mutex<()>>,
}

impl fmt::Debug for ExtractLearner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExtractLearner").field("counters", &self.counters).finish_non_exhaustive()
    }
}

/// So often a batch is decided before what is still stale is given back to the queue.
const MAX_ROUNDS: usize = 5;

/// So often a scope's turns are decided with more known about its tombstones.
const MAX_BAR_ROUNDS: usize = 3;

impl ExtractLearner {
    /// Makes a learner that decides by `decide`, on what `facts` says.
    #[must_use]
    pub fn new(
        store: Arc<dyn Store>,
        decide: Arc<Decide>,
        facts: Arc<dyn FactSource>,
        observer: Arc<dyn LearnObserver>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self { store, decide, facts, observer, clock, counters: Arc::default(), turn: Arc::default() }
    }

    /// What it did so far; for the metrics.
    #[must_use]
    pub fn counters(&self) -> Arc<LearnCounters> {
        Arc::clone(&self.counters)
    }

    /// Decides what the turns of one scope teach, each on the result of those before it.
    pub(super) async fn decide_scope(&self, scope: &Scope, turns: &[&Turn]) -> Result<Vec<Learned>, StoreError> {
        let (revision, facts) = self.facts.facts(scope).await?;
        let chain = Chain::new(&*self.decide, &*self.facts, scope, self.clock.now());
        // Nearly always nothing was ever deleted: decide as if so, ask the store about all texts at once, and decide
        // anew only when that was wrong.
        let mut known: HashMap<String, bool> = HashMap::new();
        for _ in 0..MAX_BAR_ROUNDS {
            let (learned, unknown) = decide_asking(&chain, turns, revision, &facts, &known);
            if unknown.is_empty() {
                return Ok(learned);
            }
            let texts: Vec<&str> = unknown.iter().map(String::as_str).collect();
            let answers = self.store.tombstoned(scope, &texts).await?;
            if !answers.contains(&true) {
                return Ok(learned);
            }
            known.extend(unknown.into_iter().zip(answers));
        }
        // Still asking about new texts: those are taken as barred, which is the safe side.
        Ok(chain.decide(turns, revision, &facts, &|text| known.get(text).copied().unwrap_or(true)))
    }

    fn note(&self, outcome: LearnOutcome, learned: &Learned) {
        let counters = &self.counters;
        let (counter, stored) = match outcome {
            LearnOutcome::Applied { revision } => (&counters.applied, Some((revision, None))),
            LearnOutcome::Seen { revision } => (&counters.seen, Some((revision, Some(only_replies(learned))))),
            LearnOutcome::Stale => (&counters.stale, None),
            LearnOutcome::Erased => (&counters.erased, None),
            LearnOutcome::NotOurs => (&counters.not_ours, None),
        };
        counter.fetch_add(1, Ordering::Relaxed);
        if let Some((revision, part)) = stored {
            let stored = part.as_ref().unwrap_or(learned);
            counters.changes.fetch_add(stored.changes.len() as u64, Ordering::Relaxed);
            counters.episodes.fetch_add(stored.episodes.len() as u64, Ordering::Relaxed);
            self.observer.learned(&stored.scope, revision, stored);
        }
    }
}

/// Decides as if no text were barred of which it is not `known`; returns those as well.
fn decide_asking(
    chain: &Chain<'_>,
    turns: &[&Turn],
    revision: i64,
    facts: &[Arc<Fact>],
    known: &HashMap<String, bool>,
) -> (Vec<Learned>, Vec<String>) {
    let unknown: RefCell<HashSet<String>> = RefCell::default();
    let barred = |text: &str| {
        known.get(text).copied().unwrap_or_else(|| {
            unknown.borrow_mut().insert(text.to_owned());
            false
        })
    };
    let learned = chain.decide(turns, revision, facts, &barred);
    (learned, unknown.into_inner().into_iter().collect())
}

#[async_trait]
impl Learner for ExtractLearner {
    async fn learn(&self, batch: Vec<Claimed>, owner: &str) -> Result<(), LearnError> {
        let mut left: Vec<Turn> = batch.into_iter().map(|claimed| claimed.turn).collect();
        for _ in 0..MAX_ROUNDS {
            let turn = self.turn.lock().await;
            let mut decided = Vec::with_capacity(left.len());
            for (scope, turns) in by_scope(left.iter()) {
                decided.extend(self.decide_scope(scope, &turns).await?);
                // Deciding is computing; others on this thread get their turn.
                tokio::task::yield_now().await;
            }
            let outcomes = self.store.learn(owner, &decided).await?;
            let mut stale = HashSet::new();
            for (outcome, learned) in outcomes.into_iter().zip(&decided) {
                self.note(outcome, learned);
                if outcome == LearnOutcome::Stale {
                    stale.insert(learned.exchange);
                }
            }
            drop(turn);
            left.retain(|turn| stale.contains(&turn.exchange));
            if left.is_empty() {
                return Ok(());
            }
        }
        Err(LearnError::Retry("the scope was written by others every time it was decided on".to_owned()))
    }
}

/// Longer turns are learned from later: those who wait for the others of a group need not wait for them.
const MAX_AT_ONCE_BYTES: usize = 16 * 1024;

/// So long they wait for a batch of the worker that is being decided on and stored.
const TURN_WAIT: Duration = Duration::from_millis(100);

#[async_trait]
impl AtOnce for ExtractLearner {
    async fn in_turn(&self) -> Option<OwnedMutexGuard<()>> {
        tokio::time::timeout(TURN_WAIT, Arc::clone(&self.turn).lock_owned()).await.ok()
    }

    async fn decide(&self, group: &[Finished]) -> Vec<Option<Learned>> {
        let turns = group.iter().filter_map(|f| f.turn.as_ref()).filter(|turn| bytes(turn) <= MAX_AT_ONCE_BYTES);
        let mut decided = HashMap::with_capacity(group.len());
        for (scope, turns) in by_scope(turns) {
            let Some((revision, facts)) = self.facts.facts_now(scope) else { continue };
            let chain = Chain::new(&*self.decide, &*self.facts, scope, self.clock.now());
            // The store sees to what is barred. A panic is the worker's to deal with: it tries each turn alone.
            let deciding = AssertUnwindSafe(|| chain.decide(&turns, revision, &facts, &|_| false));
            let learned = catch_unwind(deciding).unwrap_or_default();
            decided.extend(learned.into_iter().map(|learned| (learned.exchange, learned)));
            // Deciding is computing; others on this thread get their turn.
            tokio::task::yield_now().await;
        }
        group.iter().map(|finished| decided.remove(&finished.exchange)).collect()
    }

    fn stored(&self, learned: &Learned, outcome: LearnOutcome) {
        self.note(outcome, learned);
    }
}

fn bytes(turn: &Turn) -> usize {
    turn.user.iter().chain(&turn.before).chain(&turn.reply).map(|said| said.text.len()).sum()
}

/// The turns of each scope in their order, scopes in the order of their first turn.
fn by_scope<'a>(turns: impl Iterator<Item = &'a Turn>) -> Vec<(&'a Scope, Vec<&'a Turn>)> {
    let mut places: HashMap<&Scope, usize> = HashMap::new();
    let mut groups: Vec<(&Scope, Vec<&Turn>)> = Vec::new();
    for turn in turns {
        let place = *places.entry(&turn.scope).or_insert_with(|| {
            groups.push((&turn.scope, Vec::new()));
            groups.len() - 1
        });
        groups[place].1.push(turn);
    }
    groups
}

/// What a store keeps of a turn that was learned before.
fn only_replies(learned: &Learned) -> Learned {
    let mut part = learned.clone();
    part.changes.clear();
    part.proposals.clear();
    part.marks.clear();
    part.episodes.retain(|e| e.role == Speaker::Assistant);
    part
}
