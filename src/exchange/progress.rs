//! What was sent on of a request, and how far it came.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::context::Report;
use crate::tokens::{Price, Rules};

/// What was sent on of a request, as far as it came: written by whoever sends, read when the exchange ends, at whatever point.
#[derive(Debug, Default)]
pub struct Progress(Mutex<Option<Sent>>);

/// The last attempt of a request.
#[derive(Clone, Debug)]
pub struct Sent {
    /// Where it went, as `provider/model`.
    pub target: String,
    /// What the target costs; `None` = not known.
    pub price: Option<Price>,
    /// How the target counts.
    pub rules: Rules,
    /// How many attempts were made, this one included.
    pub attempts: u32,
    /// How long the request had been here when it was sent on for the first time.
    pub overhead: Duration,
    /// Tokens of what was sent, as counted; `None` where nothing was counted.
    pub input: Option<u64>,
    /// Of them, memory.
    pub memory: u64,
    /// Tokens of the client's request that were not sent.
    pub cut: u64,
    /// When it was sent.
    pub begun: Instant,
    /// What the GenAI conventions call the provider.
    pub system: &'static str,
    /// The span of the attempt, which ends with the reply.
    pub span: tracing::Span,
}

impl Sent {
    /// With the figures of a fit.
    #[must_use]
    pub fn with_figures(self, report: &Report) -> Self {
        let (input, memory) = (report.sent.map(|n| n as u64), report.memory_tokens as u64);
        let kept = input.unwrap_or_default().saturating_sub(memory);
        let was_reduced = report.cut > 0 || report.shortened > 0;
        let cut = report.counted.filter(|_| was_reduced).map_or(0, |counted| (counted as u64).saturating_sub(kept));
        Self { input, memory, cut, ..self }
    }
}

impl Progress {
    /// Notes that the request is sent on, once more.
    pub fn sent(&self, sent: Sent) {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let overhead = last.as_ref().map_or(sent.overhead, |last| last.overhead);
        *last = Some(Sent { overhead, ..sent });
    }

    /// Returns where the last attempt went, as `provider/model`, and how many were made; `None` when there was none.
    #[must_use]
    pub fn last(&self) -> Option<(String, u32)> {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        last.as_ref().map(|sent| (sent.target.clone(), sent.attempts))
    }

    /// Takes the last attempt out, when the exchange ends; `None` when there was none.
    #[must_use]
    pub fn take(&self) -> Option<Sent> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
