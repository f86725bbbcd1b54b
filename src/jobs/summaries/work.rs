//! The work itself: one question after the other, a few at a time.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::memory::Memory;
use super::{Means, SummariesConfig, Wish};
use crate::ask::{Answer, AskError};
use crate::context::summary::{Material, Summary, Unfit, checked, question};
use crate::conversation::Hash;
use crate::store::StoreError;
use crate::telemetry::{Label, SummaryOutcome, names, trace_context};

const DAY_MILLIS: i64 = 24 * 3600 * 1000;

/// Where summaries are made.
pub(super) struct Shop {
    means: Means,
    memory: Arc<Memory>,
    config: SummariesConfig,
    /// The day, counted from the epoch, and the tokens used in it.
    used: Mutex<(i64, u64)>,
}

impl Shop {
    pub(super) fn new(means: Means, memory: Arc<Memory>, config: SummariesConfig) -> Self {
        Self { means, memory, config, used: Mutex::default() }
    }

    /// Works until `halt`, or until nobody can wish any more. What is under way at `halt` is dropped: it will be wished for again.
    pub(super) async fn run(self, mut wishes: mpsc::Receiver<Wish>, halt: CancellationToken) {
        let mut running = FuturesUnordered::new();
        let mut open = true;
        while open || !running.is_empty() {
            tokio::select! {
                () = halt.cancelled() => return,
                wish = wishes.recv(), if open && running.len() < self.config.max_running.max(1) => match wish {
                    Some(wish) => running.push(self.fulfil(wish)),
                    None => open = false,
                },
                Some(()) = running.next() => {}
            }
        }
    }

    async fn fulfil(&self, wish: Wish) {
        // A fault in reading one answer must not end the work for all.
        let span = tracing::debug_span!(names::SUMMARY, backstory.outcome = tracing::field::Empty);
        trace_context::link(&span, wish.trace);
        let making = AssertUnwindSafe(self.make(&wish)).catch_unwind().instrument(span.clone());
        let outcome = making.await.unwrap_or(SummaryOutcome::Failed);
        span.record("backstory.outcome", outcome.text());
        match outcome {
            SummaryOutcome::Made | SummaryOutcome::Found | SummaryOutcome::Erased => {}
            _ => self.memory.rest(wish.material.covers()),
        }
        self.memory.end(wish.session);
        self.means.metrics.summaries.inc(outcome);
        tracing::debug!(outcome = ?outcome, "a summary was wished for");
    }

    async fn make(&self, wish: &Wish) -> SummaryOutcome {
        let covers = wish.material.covers();
        match self.known(wish, &[covers]).await {
            Ok(None) => {}
            Ok(Some(summary)) => {
                self.memory.keep(&wish.owner, summary);
                return SummaryOutcome::Found;
            }
            // What cannot be read cannot be kept either: nobody is asked for nothing.
            Err(error) => return failed_store(&error),
        }
        let material = match self.known(wish, &wish.candidates).await {
            Ok(Some(earlier)) => wish.material.clone().after(&earlier),
            Ok(None) => wish.material.clone(),
            Err(error) => return failed_store(&error),
        };
        if self.is_used_up() {
            return SummaryOutcome::Capped;
        }
        if self.memory.is_forgotten(&wish.session) {
            return SummaryOutcome::Erased;
        }
        let answer = match self.ask(&material).await {
            Ok(answer) => answer,
            Err(error) => {
                tracing::warn!(%error, "no summary: extracts stand in");
                return SummaryOutcome::Failed;
            }
        };
        let text = match checked(&answer.text, answer.finished, &material) {
            Ok(text) => text,
            Err(Unfit::Empty) => return SummaryOutcome::Empty,
            Err(Unfit::Script | Unfit::Ungrounded) => return SummaryOutcome::Unfit,
        };
        self.keep(wish, Summary { covers, text }).await
    }

    async fn known(&self, wish: &Wish, states: &[Hash]) -> Result<Option<Summary>, StoreError> {
        let owner = &wish.owner;
        if owner.durable {
            self.means.store.summary(&owner.scope, states, self.means.clock.now()).await
        } else {
            Ok(self.memory.newest(owner, states))
        }
    }

    async fn keep(&self, wish: &Wish, summary: Summary) -> SummaryOutcome {
        let owner = &wish.owner;
        if owner.durable {
            let keep = i64::try_from(self.config.keep.as_secs()).unwrap_or(i64::MAX);
            let until = self.means.clock.now().plus_seconds(keep);
            match self.means.store.keep_summary(&owner.scope, owner.epoch, &summary, until).await {
                Ok(true) => {}
                Ok(false) => return SummaryOutcome::Erased,
                Err(error) => return failed_store(&error),
            }
        }
        if self.memory.keep_unless_forgotten(&wish.session, owner, summary) {
            SummaryOutcome::Made
        } else {
            SummaryOutcome::Erased
        }
    }

    /// Asks until there is an answer, or none is to be had.
    async fn ask(&self, material: &Material) -> Result<Answer, AskError> {
        let question = question(material, self.config.timeout);
        let mut failures = 0;
        loop {
            // The model keeps the time by itself; this is for one that does not.
            let asked = tokio::time::timeout(self.config.timeout * 2, self.means.model.ask(&question)).await;
            let late = || AskError::Later { reason: "no answer in time".to_owned(), retry_after: None };
            match asked.unwrap_or_else(|_| Err(late())) {
                Ok(answer) => {
                    self.use_up(answer.input_tokens.saturating_add(answer.output_tokens));
                    return Ok(answer);
                }
                Err(AskError::Later { reason, retry_after }) => {
                    failures += 1;
                    if failures >= self.config.backoff.max_attempts {
                        return Err(AskError::Later { reason, retry_after });
                    }
                    let pause = self.config.backoff.pause(failures, self.means.random.next_u64());
                    tokio::time::sleep(pause.max(retry_after.unwrap_or_default()).min(LONGEST_WAIT)).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn today(&self) -> i64 {
        self.means.clock.now().0.div_euclid(DAY_MILLIS)
    }

    fn is_used_up(&self) -> bool {
        let (day, used) = *self.used.lock().unwrap_or_else(PoisonError::into_inner);
        self.config.max_tokens_per_day.is_some_and(|cap| day == self.today() && used >= cap)
    }

    fn use_up(&self, tokens: u64) {
        let today = self.today();
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        *used = if used.0 == today { (today, used.1.saturating_add(tokens)) } else { (today, tokens) };
    }
}

/// Whatever upstream asks for, a job does not hold its place longer than this between two questions.
const LONGEST_WAIT: Duration = Duration::from_secs(120);

fn failed_store(error: &StoreError) -> SummaryOutcome {
    tracing::warn!(%error, "a summary cannot be kept: extracts stand in");
    SummaryOutcome::Store
}
