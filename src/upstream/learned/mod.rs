//! What is learned about targets from their answers: how they count, and how large their window is.
//!
//! [`Learned`] holds it in the process, by label, bounded; `keep` writes it to the store now and then, and takes in what other
//! replicas learned. Nothing here decides what is sent: a fit reads [`Known`], and that is all. A correction changes in
//! steps (`tokens::Corrector`), since cuts depend on it; a window only gets smaller, or becomes known, and is forgotten after
//! [`WINDOW_DAYS`], since models grow.

mod keep;
mod state;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use moka::sync::Cache;

use super::overflow::Overflow;
use super::plan::Target;
use crate::base::Time;
use crate::context::Report;
use crate::telemetry::TargetGauges;
use crate::tokens::{Correction, Sample};
use crate::wire::{ChatRequest, Content, Part, PartKind, Usage, scan};

pub use keep::keep;
use state::{State, Window};

/// Targets that are held; beyond, those that were not used for longest are dropped from memory.
const MAX_HELD: u64 = 1_000;
/// So long a learned window is believed without being seen again.
const WINDOW_DAYS: i64 = 7;
/// An error that tells a window is believed only when the request was at least so large a share of it.
const PLAUSIBLE_SHARE: f64 = 0.5;

/// What is learned about targets. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Learned {
    targets: Cache<String, Arc<Entry>>,
    gauges: Arc<TargetGauges>,
}

/// One target.
#[derive(Debug, Default)]
struct Entry {
    /// Its tokenizer is public: there is nothing to learn of how it counts.
    exact: bool,
    held: Mutex<Held>,
}

#[derive(Clone, Debug, Default)]
struct Held {
    state: State,
    /// The revision in the store that this rests on.
    revision: i64,
    /// There is something to write.
    dirty: bool,
    /// That the configured window is wrong was said.
    contradicted: bool,
}

/// What a fit needs to know of a target.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Known {
    /// How it counts.
    pub correction: Correction,
    /// Exchanges that this rests on.
    pub n_samples: usize,
    /// The window that an error of its own told, in tokens.
    pub window: Option<usize>,
}

/// One exchange whose usage was reported.
#[derive(Clone, Copy, Debug)]
pub struct Reported<'a> {
    /// The target, as `provider/model`.
    pub target: &'a str,
    /// What was asked.
    pub request: &'a ChatRequest,
    /// What we counted.
    pub report: &'a Report,
    /// What upstream counted.
    pub usage: Usage,
    /// When.
    pub at: Time,
}

impl Learned {
    /// Knows nothing yet. Only targets that `gauges` has declared are shown there.
    #[must_use]
    pub fn new(gauges: Arc<TargetGauges>) -> Self {
        Self { targets: Cache::new(MAX_HELD), gauges }
    }

    /// What is known of a target, at `now`.
    #[must_use]
    pub fn known(&self, target: &Target, now: Time) -> Known {
        let entry = self.entry(&target.label, target.exact);
        let held = entry.held();
        let correction = if entry.exact { Correction::default() } else { held.state.corrector.correction() };
        let window = held.state.window.filter(|window| !window.is_old(now)).map(|window| window.tokens);
        Known { correction, n_samples: held.state.corrector.n_samples(), window }
    }

    /// Learns from what upstream counted. Only requests that are text teach how it counts: the rest is estimated on both sides.
    pub fn reported(&self, exchange: &Reported<'_>) {
        let Some(entry) = self.targets.get(exchange.target) else { return };
        let Usage { prompt_tokens, cached_tokens, .. } = exchange.usage;
        let mut held = entry.held();
        if held.state.accepted(prompt_tokens) {
            held.dirty = true;
        }
        let Some(counted) = exchange.report.sent_uncorrected.filter(|_| !entry.exact) else { return };
        let correction = held.state.corrector.correction();
        if !teaches(exchange.request, exchange.report, correction) {
            return;
        }
        let reported = whole_prompt(correction, counted, prompt_tokens, cached_tokens);
        self.observe(exchange.target, &mut held, counted, reported, exchange.at);
    }

    /// Learns from an error that says the request was larger than the window; `counted` is what we counted of it.
    pub(super) fn overflowed(&self, target: &Target, overflow: &Overflow, counted: Option<usize>, at: Time) {
        let entry = self.entry(&target.label, target.exact);
        let mut held = entry.held();
        if let (Some(counted), Some(sent), false) = (counted, overflow.sent, entry.exact) {
            self.observe(&target.label, &mut held, counted, sent as u64, at);
        }
        let Some(tokens) = overflow.window else { return };
        // With the reply that was asked for a request may be smaller than the window and still too large, but not by that much.
        let counted = counted.map(|counted| held.state.corrector.correction().apply(counted as f64));
        let plausible =
            counted.is_none_or(|counted| counted >= PLAUSIBLE_SHARE * tokens as f64) || overflow.sent.is_some();
        if !plausible || held.state.accepted > tokens as u64 {
            return;
        }
        if target.window_is_configured {
            if target.fit.window.is_some_and(|window| window > tokens)
                && !std::mem::replace(&mut held.contradicted, true)
            {
                tracing::warn!(
                    target = target.label,
                    configured = target.fit.window,
                    told = tokens,
                    "target refuses a request that its configured window would hold; the configured one stays in force"
                );
            }
            return;
        }
        let known = held.state.window.filter(|window| !window.is_old(at));
        if known.is_none_or(|known| tokens <= known.tokens) && target.fit.window.is_none_or(|window| tokens < window) {
            tracing::info!(target = target.label, window = tokens, "target told its window");
            held.state.window = Some(Window { tokens, at });
            held.dirty = true;
            self.gauges.set_window(&target.label, Some(tokens));
        }
    }

    fn observe(&self, label: &str, held: &mut Held, counted: usize, reported: u64, at: Time) {
        let clipped = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
        let sample = Sample { at: at.0, counted: clipped(counted as u64), reported: clipped(reported) };
        held.dirty = true;
        if held.state.corrector.observe(sample) {
            let Correction { ratio, overhead, generation } = held.state.corrector.correction();
            tracing::debug!(target = label, ratio, overhead, generation, "how a target counts was learned");
            self.gauges.set_correction(label, ratio, overhead);
        }
    }

    fn entry(&self, label: &str, exact: bool) -> Arc<Entry> {
        if let Some(entry) = self.targets.get(label).filter(|entry| entry.exact == exact) {
            return entry;
        }
        // What was read from the store came without this.
        let held = self.targets.get(label).map(|entry| entry.held().clone()).unwrap_or_default();
        let entry = Arc::new(Entry { exact, held: Mutex::new(held) });
        self.targets.insert(label.to_owned(), Arc::clone(&entry));
        entry
    }
}

impl Entry {
    fn held(&self) -> MutexGuard<'_, Held> {
        // A panic while it was held left whole values: each is written at once.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a request is such that its tokens say how upstream's tokenizer differs: no images, audio or files, and most of it
/// messages (how tool schemas are shown differs by provider).
fn teaches(request: &ChatRequest, report: &Report, correction: Correction) -> bool {
    // What upstream counted beside it nobody here has seen; nor how it shows what is no message.
    if request.partial().is_some() || request.messages().iter().any(|message| message.item.is_some()) {
        return false;
    }
    let text = request.text();
    let is_plain = |span| matches!(Part::read(text, span).kind, PartKind::Text(_) | PartKind::Refusal(_));
    let is_text = |span| match Part::read(text, span).kind {
        PartKind::Text(_) | PartKind::Refusal(_) | PartKind::ToolUse { .. } => true,
        PartKind::ToolResult(content) => content.is_none_or(|content| scan::elements(text, content).all(is_plain)),
        _ => false,
    };
    let all_text = request.messages().iter().all(|message| match message.content {
        Content::Parts(span) => scan::elements(text, span).all(is_text),
        Content::Absent | Content::Null(_) | Content::Text(_) => true,
        Content::Other(_) => false,
    });
    let fixed = report.fixed as f64 - correction.overhead;
    all_text && 2.0 * fixed <= report.sent.unwrap_or(0) as f64
}

/// The tokens of a prompt, cached ones included. OpenAI's `prompt_tokens` has them; some providers leave them out. Where it is
/// not clear from the numbers, what fits better with what is known counts.
fn whole_prompt(correction: Correction, counted: usize, prompt: u64, cached: u64) -> u64 {
    let with_cached = prompt.saturating_add(cached);
    if cached == 0 {
        return prompt;
    }
    if correction.generation == 0 {
        return if cached > prompt { with_cached } else { prompt };
    }
    let expected = correction.apply(counted as f64).max(1.0);
    let distance = |tokens: u64| (tokens.max(1) as f64 / expected).ln().abs();
    if distance(with_cached) < distance(prompt) { with_cached } else { prompt }
}
