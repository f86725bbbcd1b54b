//! Claims windows, asks, stores what was accepted.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use futures_util::future::join_all;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::pause::Pause;
use super::{Read, Rung, WindowReader, WindowsConfig};
use crate::ask::{Answer, Ask, AskError, Question, estimate_tokens};
use crate::base::{Clock, Random, Time};
use crate::jobs::learner::{Decide, ExtractLearner, FactSource, LearnObserver, NoObserver};
use crate::jobs::policy::Backoff;
use crate::memory::Turn;
use crate::store::{JobFailure, Learned, Store, StoreError, Window, WindowClaim, WindowOutcome};
use crate::telemetry::{ItemOutcome, Metrics, WindowEnd, names, trace_context};

/// So often a window is decided before it is given back.
const MAX_ROUNDS: usize = 5;

/// Asks about windows until it is stopped.
pub struct Windows {
    store: Arc<dyn Store>,
    ask: Arc<dyn Ask>,
    reader: Arc<dyn WindowReader>,
    facts: Arc<dyn FactSource>,
    observer: Arc<dyn LearnObserver>,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
    metrics: Arc<Metrics>,
    wake: Arc<Notify>,
    config: WindowsConfig,
    /// The strictest form that the model is not known to refuse: an index into [`RUNGS`].
    rung: AtomicU8,
    pub(super) pause: Pause,
}

const RUNGS: [Rung; 3] = [Rung::Schema, Rung::Object, Rung::Text];

impl fmt::Debug for Windows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Windows").field("config", &self.config).finish_non_exhaustive()
    }
}

/// What a worker works with.
pub struct WindowParts {
    /// The records.
    pub store: Arc<dyn Store>,
    /// The model.
    pub ask: Arc<dyn Ask>,
    /// Asks and reads.
    pub reader: Arc<dyn WindowReader>,
    /// Where current facts come from.
    pub facts: Arc<dyn FactSource>,
    /// Is told what was stored.
    pub observer: Arc<dyn LearnObserver>,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// Spreads the retries.
    pub random: Arc<dyn Random>,
    /// Counts.
    pub metrics: Arc<Metrics>,
    /// Wakes it.
    pub wake: Arc<Notify>,
}

impl fmt::Debug for WindowParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WindowParts")
    }
}

/// Why a window was not learned from.
enum Failed {
    /// The store failed.
    Store(StoreError),
    /// The model may answer later; all questions wait.
    Later { reason: String, retry_after: Option<std::time::Duration> },
    /// It refused.
    Refused(String),
    /// Its answer could not be read.
    Unread,
    /// The scope was written by others every time.
    Stale,
}

impl From<StoreError> for Failed {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl Windows {
    /// Makes a worker.
    #[must_use]
    pub fn new(parts: WindowParts, config: WindowsConfig) -> Self {
        let WindowParts { store, ask, reader, facts, observer, clock, random, metrics, wake } = parts;
        Self {
            store,
            ask,
            reader,
            facts,
            observer,
            clock,
            random,
            metrics,
            wake,
            config,
            rung: AtomicU8::new(0),
            pause: Pause::default(),
        }
    }

    /// Works until `stop`; a question that is on its way then is broken off, and its window is given back.
    pub async fn run(self, stop: CancellationToken) {
        join_all((0..self.config.concurrency.max(1)).map(|_| self.work(&stop))).await;
        if let Err(error) = self.store.release_windows(&self.config.owner).await {
            tracing::warn!(%error, "windows could not be given back; they are asked about when their leases end");
        }
    }

    async fn work(&self, stop: &CancellationToken) {
        let mut failing = false;
        while !stop.is_cancelled() {
            // Before the claim: what is queued in between wakes it.
            let woken = self.wake.notified();
            let pause = match self.pause.left(self.clock.now()) {
                Some(left) => left.min(self.config.poll),
                None => match stop.run_until_cancelled(self.work_once()).await {
                    None => return,
                    Some(Ok(true)) => {
                        failing = false;
                        continue;
                    }
                    Some(Ok(false)) => self.config.poll,
                    Some(Err(error)) => {
                        if !std::mem::replace(&mut failing, true) {
                            tracing::error!(%error, "the store failed while windows were worked on; trying again");
                        }
                        self.config.poll
                    }
                },
            };
            tokio::select! {
                () = stop.cancelled() => {}
                () = woken => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Works on one window, if one is due; whether there was one.
    ///
    /// # Errors
    /// The store failed. The window is asked about again when its lease ends.
    pub async fn work_once(&self) -> Result<bool, StoreError> {
        let claim = WindowClaim {
            owner: self.config.owner.clone(),
            now: self.clock.now(),
            lease: self.config.lease,
            cap: self.config.cap,
        };
        let Some(window) = self.store.claim_window(&claim).await? else { return Ok(false) };
        let span = tracing::debug_span!(names::WINDOW, backstory.exchanges = window.turns.len());
        window.turns.iter().for_each(|turn| trace_context::link(&span, turn.trace));
        match self.learn(&window).instrument(span).await {
            Ok(end) => self.metrics.windows.inc(end),
            Err(Failed::Store(error)) => return Err(error),
            Err(failed) => self.fail(&window, failed).await?,
        }
        Ok(true)
    }

    /// Asks about a window and stores what is accepted.
    async fn learn(&self, window: &Window) -> Result<WindowEnd, Failed> {
        let Some(first) = window.turns.first() else {
            self.store.finish_window(&self.config.owner, window.id, &[]).await?;
            return Ok(WindowEnd::Lost);
        };
        let (_, facts) = self.facts.facts(&first.scope).await?;
        let answer =
            self.asked(&first.scope.tenant, |rung| self.reader.question(&window.turns, &facts, rung, self.clock.now()));
        let answer = answer.await?;
        let read = self.reader.read(&answer, &window.turns).ok_or(Failed::Unread)?;
        self.metrics.model_items.add(ItemOutcome::Good, read.good);
        self.metrics.model_items.add(ItemOutcome::Bad, read.bad);
        self.store_read(window, read).await
    }

    /// Asks in the strictest form that the model takes, and keeps the books of the tenant.
    async fn asked(&self, tenant: &str, question: impl Fn(Rung) -> Question) -> Result<Answer, Failed> {
        loop {
            let at = self.rung.load(Ordering::Relaxed);
            let rung = RUNGS[usize::from(at).min(RUNGS.len() - 1)];
            let question = question(rung);
            let day = day_of(self.clock.now());
            // Reserved before it is spent, so that questions asked side by side know of each other.
            let reserved = estimate_tokens(&question.system) + estimate_tokens(&question.user);
            self.spend(tenant, day, signed(reserved)).await?;
            let answer = self.ask.ask(&question).await;
            let spent = match &answer {
                Ok(answer) => answer.input_tokens.saturating_add(answer.output_tokens),
                // Nobody says what a question without an answer cost; what had begun is taken as read.
                Err(AskError::Later { retry_after: None, .. }) => reserved,
                Err(_) => 0,
            };
            self.spend(tenant, day, signed(spent) - signed(reserved)).await?;
            match answer {
                Ok(answer) => {
                    self.pause.over();
                    return Ok(answer);
                }
                Err(AskError::Format) if rung.down().is_some() => {
                    tracing::info!(refused = ?rung, "the extraction model does not take this response format; asking in a plainer one");
                    self.rung.fetch_max(at + 1, Ordering::Relaxed);
                }
                Err(AskError::Format) => return Err(Failed::Refused("it takes no format at all".to_owned())),
                Err(AskError::Later { reason, retry_after }) => return Err(Failed::Later { reason, retry_after }),
                Err(AskError::Refused(reason)) => return Err(Failed::Refused(reason)),
            }
        }
    }

    /// Counts tokens for a tenant; says so once when they reach the cap.
    async fn spend(&self, tenant: &str, day: i64, tokens: i64) -> Result<(), Failed> {
        if tokens == 0 {
            return Ok(());
        }
        let sum = self.store.spend(tenant, day, tokens).await?;
        if let Some(cap) = self.config.cap
            && sum >= cap
            && signed(sum).saturating_sub(tokens) < signed(cap)
        {
            tracing::warn!(
                tenant,
                cap,
                "the tenant's extraction tokens of today are used up; its windows wait until tomorrow (UTC)"
            );
        }
        Ok(())
    }

    /// Decides what the candidates change and stores it.
    async fn store_read(&self, window: &Window, read: Read) -> Result<WindowEnd, Failed> {
        let owner = &self.config.owner;
        let proposed = Arc::new(read.candidates);
        let turns: Vec<&Turn> = window.turns.iter().filter(|turn| proposed.contains_key(&turn.exchange)).collect();
        let decide: Arc<Decide> = Arc::new({
            let (reader, proposed) = (Arc::clone(&self.reader), Arc::clone(&proposed));
            move |args| {
                let candidates = proposed.get(&args.turn.exchange).map_or(&[][..], Vec::as_slice);
                reader.decide(args, candidates)
            }
        });
        let learner = ExtractLearner::new(
            Arc::clone(&self.store),
            decide,
            Arc::clone(&self.facts),
            Arc::new(NoObserver),
            Arc::clone(&self.clock),
        );
        for _ in 0..MAX_ROUNDS {
            let learned = match turns.first() {
                Some(first) => learner.decide_scope(&first.scope, &turns).await?,
                None => Vec::new(),
            };
            match self.store.finish_window(owner, window.id, &learned).await? {
                WindowOutcome::Applied { revisions } => {
                    self.tell(&revisions, &learned);
                    return Ok(WindowEnd::Learned);
                }
                WindowOutcome::NotOurs => return Ok(WindowEnd::Lost),
                WindowOutcome::Stale => {}
            }
        }
        Err(Failed::Stale)
    }

    fn tell(&self, revisions: &[i64], learned: &[Learned]) {
        for (revision, learned) in revisions.iter().zip(learned) {
            self.observer.learned(&learned.scope, *revision, learned);
        }
    }

    /// Gives a window back, or up.
    async fn fail(&self, window: &Window, failed: Failed) -> Result<(), StoreError> {
        let now = self.clock.now();
        // `attempts` counts the earlier ones.
        let attempts = window.attempts + 1;
        let roll = self.random.next_u64();
        let (retry_at, error) = match failed {
            Failed::Store(error) => return Err(error),
            Failed::Later { reason, retry_after } => {
                self.pause.failed(now, |failures| {
                    self.config.later.pause(failures, roll).max(retry_after.unwrap_or_default())
                });
                let patient =
                    u128::try_from(now.since(window.opened_at)).unwrap_or_default() < self.config.patience.as_millis();
                let backoff =
                    if patient { Backoff { max_attempts: u32::MAX, ..self.config.later } } else { self.config.later };
                let at = backoff.retry_at(attempts, now, roll);
                let soonest =
                    now.plus_millis(i64::try_from(retry_after.unwrap_or_default().as_millis()).unwrap_or(i64::MAX));
                (at.map(|at| at.max(soonest)), format!("extraction model: {reason}"))
            }
            Failed::Refused(reason) => {
                (self.config.refused.retry_at(attempts, now, roll), format!("extraction model: it refused: {reason}"))
            }
            Failed::Unread => (
                self.config.unread.retry_at(attempts, now, roll),
                "extraction model: its answer could not be read".to_owned(),
            ),
            Failed::Stale => (
                self.config.unread.retry_at(1, now, roll),
                "the scope was written by others every time it was decided on".to_owned(),
            ),
        };
        if retry_at.is_none() {
            tracing::warn!(
                attempts,
                error,
                turns = window.turns.len(),
                "a window was given up; its exchanges are dead letters"
            );
        } else {
            tracing::info!(attempts, error, "a window could not be learned from yet");
        }
        self.metrics.windows.inc(if retry_at.is_some() { WindowEnd::Retried } else { WindowEnd::Dead });
        self.store.fail_window(&self.config.owner, window.id, &JobFailure { retry_at, error, now }).await
    }
}

/// Days since 1970, UTC.
#[must_use]
pub fn day_of(now: Time) -> i64 {
    now.0.div_euclid(24 * 3600 * 1000)
}

fn signed(tokens: u64) -> i64 {
    i64::try_from(tokens).unwrap_or(i64::MAX)
}
