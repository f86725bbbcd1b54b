//! The sweep: expires, merges, puts aside and drops, scope by scope.
//!
//! It goes round all scopes once a night, a few at a time; where it stands is kept in the store, so that a restart goes on
//! there. What is to be forgotten is decided by `memory::forget` on what was read, and carried out only if the scope was not
//! written meanwhile: a later round finds what was left. Several processes may sweep one store; they only do it twice.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::base::{Clock, EpisodeId, FactId, Random, Time};
use crate::memory::forget::{ForgetRules, Gist, Gists, KEEP_MILLIS, plan_episodes, plan_facts};
use crate::memory::{EpisodeStatus, Fact, Scope};
use crate::store::{Aging, EpisodeFilter, FactFilter, Forgetting, Forgotten, Page, Store, StoreError};

/// Names where the sweep stands.
const MARK: &str = "sweep";
/// Every exchange leaves a row of each kind: so many pieces of them go in one step, that the sweep keeps up with a thousand a second.
const PIECES: usize = 150;
/// Rows that are read at once.
const BATCH: u32 = 1_000;
/// Facts and episodes that are read of one scope at most; of a larger one the oldest.
const MAX_READ: usize = 300_000;

/// How the sweep is run.
#[derive(Clone, Copy, Debug)]
pub struct SweepConfig {
    /// Pause between two pieces of work.
    pub every: Duration,
    /// Rows that ran out (conversation states, exchange records, dead letters), dropped in one piece at most.
    pub rows: u32,
    /// Scopes that are looked at in one piece at most.
    pub scopes: u32,
    /// Memories of one scope that are changed at once at most.
    pub changes: usize,
    /// From the beginning of one round to that of the next.
    pub round: Duration,
    /// How long exchange records are kept, in days; where a database drops them in parts, up to a twelfth longer. So with the others.
    pub trace_days: u32,
    /// How long it is kept what exchanges used, in days; 0 = nothing is booked, and what was is kept.
    pub usage_days: u32,
    /// How long raw exchanges are kept, in days.
    pub raw_days: u32,
}

impl Default for SweepConfig {
    fn default() -> Self {
        Self {
            every: Duration::from_secs(600),
            rows: 5_000,
            scopes: 2_000,
            changes: 1_000,
            round: Duration::from_secs(24 * 3600),
            trace_days: 30,
            usage_days: 400,
            raw_days: 0,
        }
    }
}

/// What the sweep is told about namespaces, and whom it tells.
pub trait SweepHost: Send + Sync {
    /// The rules of a namespace.
    fn rules(&self, namespace: &str) -> ForgetRules;

    /// Gives stored facts the half-lives that are configured now.
    fn tune(&self, scope: &Scope, fact: &mut Fact);

    /// Memories of this scope were forgotten.
    fn forgotten(&self, scope: &Scope, what: &Forgotten);
}

/// Totals since the start.
#[derive(Debug, Default)]
pub struct SweepCounters {
    /// Rows that ran out.
    pub rows: AtomicU64,
    /// Parts of tables that went as a whole.
    pub parts: AtomicU64,
    /// Rounds over all scopes that were ended.
    pub rounds: AtomicU64,
    /// Scopes that were written by someone else while the sweep was thinking: left for the next round.
    pub passed_over: AtomicU64,
}

/// Where a round stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Round {
    /// When it began.
    began: Time,
    /// The last scope that was looked at; 0 = the round is over.
    after: i64,
    /// What it did so far.
    scopes: u64,
    expired: u64,
    dropped: u64,
    archived: u64,
}

/// Sweeps one store.
pub struct Sweep {
    store: Arc<dyn Store>,
    host: Arc<dyn SweepHost>,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
    config: SweepConfig,
    counters: Arc<SweepCounters>,
}

impl fmt::Debug for Sweep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sweep").field("config", &self.config).finish_non_exhaustive()
    }
}

impl Sweep {
    /// Sweeps `store` by the rules of `host`.
    #[must_use]
    pub fn new(
        store: Arc<dyn Store>,
        host: Arc<dyn SweepHost>,
        clock: Arc<dyn Clock>,
        random: Arc<dyn Random>,
        config: SweepConfig,
    ) -> Self {
        Self { store, host, clock, random, config, counters: Arc::default() }
    }

    /// What was done so far.
    #[must_use]
    pub fn counters(&self) -> Arc<SweepCounters> {
        Arc::clone(&self.counters)
    }

    /// Sweeps now and then until it is told to stop.
    pub async fn run(self: Arc<Self>, halt: CancellationToken) {
        // What comes now wants a part to be in.
        self.divide().await;
        loop {
            tokio::select! {
                () = tokio::time::sleep(self.config.every) => {}
                () = halt.cancelled() => return,
            }
            if let Err(error) = self.step(&halt).await {
                tracing::warn!(%error, "could not sweep; trying again later");
            }
        }
    }

    /// One piece of work: rows that ran out, then a few scopes if a round is due or under way.
    ///
    /// # Errors
    /// The store cannot be read or written; what was done before is done.
    pub async fn step(&self, halt: &CancellationToken) -> Result<(), StoreError> {
        self.divide().await;
        let now = self.clock.now();
        let before = |days: u32| now.plus_seconds(-i64::from(days) * 24 * 3600);
        let SweepConfig { rows: max, trace_days, usage_days, raw_days, .. } = self.config;
        let mut rows = self.in_pieces(halt, || self.store.sweep(now, before(trace_days), max)).await?;
        rows += self.in_pieces(halt, || self.store.sweep_raw(before(raw_days), max)).await?;
        if usage_days > 0 {
            rows += self.in_pieces(halt, || self.store.sweep_usage(before(usage_days), max)).await?;
        }
        self.counters.rows.fetch_add(rows, Ordering::Relaxed);
        let mut round = self.round().await?;
        if round.after == 0 {
            let due = round.began == Time::default()
                || now.since(round.began) >= i64::try_from(self.config.round.as_millis()).unwrap_or(i64::MAX);
            if !due {
                return Ok(());
            }
            round = Round { began: now, ..Round::default() };
        }
        let scopes = self.store.scopes_after(round.after, self.config.scopes).await?;
        let is_last = scopes.len() < self.config.scopes as usize;
        for (number, scope) in scopes {
            if halt.is_cancelled() {
                break;
            }
            // One scope that cannot be read does not keep the others from being swept.
            match self.scope(&scope).await {
                Ok(done) => round.count(&done),
                Err(error) => tracing::warn!(%error, ?scope, "could not sweep a scope"),
            }
            round.after = number;
        }
        if is_last && !halt.is_cancelled() {
            self.counters.rounds.fetch_add(1, Ordering::Relaxed);
            let Round { scopes, expired, dropped, archived, .. } = round;
            tracing::info!(scopes, expired, dropped, archived, "swept all scopes");
            round.after = 0;
        }
        let text = serde_json::to_string(&round).expect("plain numbers");
        self.store.set_mark(MARK, &text).await
    }

    /// Has rows dropped a piece at a time, until a piece is not full; returns how many went.
    async fn in_pieces<F: Future<Output = Result<u64, StoreError>>>(
        &self,
        halt: &CancellationToken,
        piece: impl Fn() -> F,
    ) -> Result<u64, StoreError> {
        let mut rows = 0;
        for _ in 0..PIECES {
            let gone = piece().await?;
            rows += gone;
            if gone < u64::from(self.config.rows) || halt.is_cancelled() {
                break;
            }
        }
        Ok(rows)
    }

    /// Sees to the parts of tables. What cannot be done now is done with the next piece of work: rows are stored without it.
    async fn divide(&self) {
        // Rows of books that are not kept any more stay as they are.
        let usage = (self.config.usage_days > 0).then_some((Aging::Usage, self.config.usage_days));
        let others = [(Aging::Shown, self.config.trace_days), (Aging::Raw, self.config.raw_days)];
        for (what, days) in others.into_iter().chain(usage) {
            match self.store.divide(what, days).await {
                Ok(gone) => {
                    self.counters.parts.fetch_add(gone.parts, Ordering::Relaxed);
                    self.counters.rows.fetch_add(gone.rows, Ordering::Relaxed);
                }
                Err(error) => {
                    tracing::warn!(%error, ?what, "could not see to the parts of a table; trying again later")
                }
            }
        }
    }

    async fn round(&self) -> Result<Round, StoreError> {
        let text = self.store.mark(MARK).await?;
        // What a later version wrote is no reason never to sweep again.
        Ok(text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default())
    }

    /// Sweeps one scope.
    ///
    /// # Errors
    /// The store cannot be read or written.
    pub async fn scope(&self, scope: &Scope) -> Result<Forgotten, StoreError> {
        let now = self.clock.now();
        let rules = self.host.rules(&scope.namespace);
        let revision = self.store.scope_state(scope).await?.revision;
        let facts = self.facts(scope).await?;
        let gists = self.gists(scope).await?;
        let (random, max) = (Arc::clone(&self.random), self.config.changes);
        // A scope may hold a hundred thousand episodes.
        let plan = tokio::task::spawn_blocking(move || {
            let facts = plan_facts(&facts, &rules, now, &*random, max);
            (facts, plan_episodes(&gists, &rules, now, max))
        });
        let (facts, episodes) =
            plan.await.map_err(|error| StoreError::Driver { doing: "plan a sweep", source: Box::new(error) })?;
        let forgetting = Forgetting {
            revision,
            now,
            changes: facts.expire,
            drop_facts: facts.drop_facts,
            archive: episodes.archive,
            drop_episodes: episodes.drop_episodes,
            drop_archived_before: now.plus_millis(-KEEP_MILLIS),
            max_rows: u32::try_from(max).unwrap_or(u32::MAX),
        };
        match self.store.forget(scope, &forgetting).await {
            Ok(done) => {
                if !done.is_empty() {
                    self.host.forgotten(scope, &done);
                }
                Ok(done)
            }
            Err(StoreError::Conflict { .. }) => {
                self.counters.passed_over.fetch_add(1, Ordering::Relaxed);
                Ok(Forgotten::default())
            }
            Err(error) => Err(error),
        }
    }

    async fn facts(&self, scope: &Scope) -> Result<Vec<Fact>, StoreError> {
        let mut all = Vec::new();
        let mut last: Option<FactId> = None;
        loop {
            let page = Page { after: last.map(|id| id.to_string()), limit: BATCH };
            let mut rows = self.store.list_facts(scope, &FactFilter::default(), &page).await?;
            let is_last = rows.len() < BATCH as usize;
            last = rows.last().map(|fact| fact.id);
            rows.iter_mut().for_each(|fact| self.host.tune(scope, fact));
            all.append(&mut rows);
            if is_last || all.len() >= MAX_READ {
                return Ok(all);
            }
        }
    }

    async fn gists(&self, scope: &Scope) -> Result<Gists, StoreError> {
        let mut all = Gists::default();
        let mut read = 0;
        for status in [EpisodeStatus::Archived, EpisodeStatus::Active] {
            let filter = EpisodeFilter { status: Some(status), session: None };
            let mut last: Option<EpisodeId> = None;
            loop {
                let page = Page { after: last.map(|id| id.to_string()), limit: BATCH };
                let rows = self.store.list_episodes(scope, &filter, &page).await?;
                let is_last = rows.len() < BATCH as usize;
                read += rows.len();
                last = rows.last().map(|episode| episode.id);
                rows.iter().for_each(|episode| all.push(Gist::of(episode)));
                if is_last || read >= MAX_READ {
                    break;
                }
            }
        }
        Ok(all)
    }
}

impl Round {
    fn count(&mut self, done: &Forgotten) {
        self.scopes += 1;
        self.expired += done.expired;
        self.dropped += done.dropped_facts + done.dropped_episodes;
        self.archived += done.archived;
    }
}

#[cfg(test)]
mod tests;
