//! The walk over the plan: target after target, until one of them answers for the client.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response};
use tracing::{Instrument, Span};

use super::Shared;
use super::prepare::Prepared;
use super::send::{Answer, AskedToWait, Failure, Outcome};
use super::spans;
use crate::base::{ErrorKind, GatewayError};
use crate::context::Fitted;
use crate::exchange::{Call, Recalled, Routed, Sent};
use crate::telemetry::OverflowOutcome;
use crate::upstream::attempt::AttemptError;
use crate::upstream::body::UpstreamBody;
use crate::upstream::health::Failed;
use crate::upstream::keyring::REFUSED;
use crate::upstream::lanes::{Lane, Tried};
use crate::upstream::mono::{later, now_ms};
use crate::upstream::overflow::Overflow;
use crate::upstream::passthrough::unanswered;
use crate::upstream::plan::Target;
use crate::upstream::retry::{On, Then, wait_before};
use crate::upstream::translate::is_about_the_target;

/// So long a request waits for another one's probe of a target, where there is nobody else to ask.
const PROBE_WAIT: Duration = Duration::from_secs(1);
/// Where another target could be tried, a repeat at the same one is not waited for longer than this.
const LONGEST_WAIT_WITH_OTHERS: Duration = Duration::from_secs(2);

/// Names the members of a request that its target's dialect has no word for.
const DROPPED: HeaderName = HeaderName::from_static("x-backstory-dropped");

/// One request on its way over the plan.
pub(super) struct Walk<'a> {
    pub(super) shared: &'a Arc<Shared>,
    pub(super) request: &'a Recalled<()>,
    pub(super) plan: &'a [Arc<Target>],
    /// The targets that take such a request, those that cool included.
    pub(super) n_targets: usize,
    /// The place of the target that is visited.
    at: usize,
    /// Attempts made.
    pub(super) attempts: u32,
    /// The newest answer that was no success.
    answered: Option<(Answer, &'a Arc<Target>)>,
    /// The newest failure without an answer.
    silent: Option<AttemptError>,
    /// Why a target was not even asked.
    refused: Option<GatewayError>,
    /// Windows up to this one are too small.
    too_small: Option<usize>,
    /// Nothing more is tried.
    over: bool,
}

/// The tries of one request at one target.
#[derive(Default)]
struct Tries {
    /// Repeats made.
    repeat: u32,
    /// It was cut anew for a window that turned out smaller.
    refitted: bool,
    /// Keys that were refused.
    tried: Tried,
    n_tried: usize,
    /// How long to wait before the next one.
    wait: Duration,
}

/// What comes after a failure.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// Another try at the same target.
    Again,
    /// The next target.
    Onward,
    /// Nothing more: what there is, is the client's.
    Stop,
}

impl Shared {
    pub(super) async fn run(self: &Arc<Self>, request: &Recalled<()>) -> Result<Routed<UpstreamBody>, GatewayError> {
        let plan = self.plan(request).await?;
        let n_targets = plan.len();
        let plan = Self::open(plan)?;
        let mut walk = Walk {
            shared: self,
            request,
            plan: &plan,
            n_targets,
            at: 0,
            attempts: 0,
            answered: None,
            silent: None,
            refused: None,
            too_small: None,
            over: false,
        };
        for (at, target) in plan.iter().enumerate() {
            walk.at = at;
            if let Some(routed) = walk.visit(target).await? {
                return Ok(routed);
            }
            if walk.over {
                break;
            }
        }
        walk.end()
    }

    /// The window of a target that is in force.
    pub(super) fn window(&self, target: &Target, call: &Call) -> Option<usize> {
        target.window(self.learned.known(target, call.stamp.at).window)
    }

    /// Notes a failure, and returns what follows on it by the table.
    pub(super) fn failed(
        &self,
        target: &Target,
        lane: &Lane,
        on: On,
        asked: Option<Duration>,
        n_targets: usize,
    ) -> Then {
        let then = self.retry.on.then(on, target.provider.is_clients_own());
        if then == Then::Stop && matches!(on, On::Status(_)) {
            // It is there, and said what there is to say.
            lane.succeeded();
        } else {
            self.note(target, lane, on, asked, n_targets);
        }
        then
    }

    /// Cools what failed, where somebody else remains (design, doubt 6: of `n_targets`); a key that was refused is left out.
    fn note(&self, target: &Target, lane: &Lane, on: On, asked: Option<Duration>, n_targets: usize) {
        let several_keys = target.lanes.len() > 1;
        let now = now_ms();
        if several_keys && on == On::Status(401) && target.provider.keys().refuse(lane.key, now) {
            tracing::warn!(
                provider = target.provider.name,
                key = lane.key + 1,
                "the provider refuses this key (401): it is left out for {} minutes",
                REFUSED.as_secs() / 60
            );
            self.metrics.keys_refused.inc();
        }
        if n_targets < 2 && !(several_keys && on.is_about_key()) {
            return;
        }
        let why = if on == On::Status(429) { Failed::Limited } else { Failed::Otherwise };
        lane.failed(why, asked, self.retry.cooldown, now);
    }

    pub(super) fn routed(
        &self,
        mut response: Response<UpstreamBody>,
        prepared: Prepared,
        target: &Target,
        attempts: u32,
    ) -> Routed<UpstreamBody> {
        // The names were made fit for it.
        if let Some(names) = Some(prepared.dropped.join(", ")).filter(|names| !names.is_empty())
            && let Ok(names) = HeaderValue::from_str(&names)
        {
            response.headers_mut().insert(DROPPED, names);
        }
        // What was sent is not needed any more, however long the reply takes.
        let fitted = prepared.fitted.map(|mut fitted| {
            Arc::make_mut(&mut fitted).body = Bytes::new();
            fitted
        });
        Routed { response, fitted, target: target.label.clone(), attempts, withhold_usage: prepared.asked_usage }
    }
}

impl<'a> Walk<'a> {
    fn call(&self) -> &'a Call {
        &self.request.call
    }

    /// Whether another target could be tried after this attempt.
    fn has_more(&self) -> bool {
        self.at + 1 < self.plan.len() && self.attempts < self.shared.retry.max_total.max(1)
    }

    /// Whether the request has used up its tries or its time.
    fn is_spent(&self, wait: Duration) -> bool {
        let retry = &self.shared.retry;
        let late = || !retry.max_time.is_zero() && self.call().stamp.started.elapsed() + wait >= retry.max_time;
        self.attempts >= retry.max_total.max(1) || (self.attempts > 0 && late())
    }

    /// Tries one target. `None` = it did not answer for the client.
    async fn visit(&mut self, target: &'a Arc<Target>) -> Result<Option<Routed<UpstreamBody>>, GatewayError> {
        if !self.may_hold(target, self.too_small) {
            return Ok(None);
        }
        if self.is_spent(Duration::ZERO) {
            self.over = true;
            return Ok(None);
        }
        let shared = self.shared;
        let mut prepared = match shared.prepare(self.request, target, &shared.digests, false).await {
            Ok(prepared) => Some(prepared),
            // An upstream that was asked has said, or failed to say, more than a refusal of ours could; else a target with a larger window may
            // still take it. A fault of ours is not hidden behind it.
            Err(error)
                if (self.attempts > 0 && error.kind != ErrorKind::Internal)
                    || ((error.kind == ErrorKind::ContextLength || is_about_the_target(&error))
                        && self.at + 1 < self.plan.len()) =>
            {
                self.refused = Some(error);
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let mut tries = Tries::default();
        loop {
            if !tries.wait.is_zero() {
                tokio::time::sleep(std::mem::take(&mut tries.wait)).await;
            }
            if self.is_spent(Duration::ZERO) {
                self.over = true;
                return Ok(None);
            }
            let Some(lane) = self.lane(target, tries.tried).await else { return Ok(None) };
            // Kept only for a repeat that may come.
            let may_repeat = tries.repeat + 1 < shared.retry.attempts || target.lanes.len() > tries.n_tried + 1;
            let sent = if may_repeat { prepared.clone() } else { prepared.take() };
            let Some(sent) = sent else { return Ok(None) };
            let (outcome, lane) = match self.one(target, sent, lane).await {
                Attempted::Ended(outcome, lane) => (outcome, lane),
                Attempted::Late(routed) => return Ok(Some(*routed)),
            };
            let step = match outcome {
                Ok(answer) => {
                    lane.succeeded();
                    // Nothing is repeated.
                    drop(prepared);
                    let (response, sent) = *answer;
                    if response.status().is_success() {
                        shared.look_ahead(self.request, &sent);
                    }
                    return Ok(Some(shared.routed(response, sent, target, self.attempts)));
                }
                Err(Failure::Overflow(answer, overflow)) => {
                    lane.succeeded();
                    match Box::pin(self.overflowed(target, answer, &overflow, &mut tries)).await {
                        Ok(again) => {
                            prepared = Some(again);
                            continue;
                        }
                        Err(Some(routed)) => return Ok(Some(*routed)),
                        Err(None) => return Ok(None),
                    }
                }
                Err(Failure::Answer(answer, on)) => {
                    let asked = answer.0.extensions().get().map(|AskedToWait(wait)| *wait);
                    let step = self.after(target, &lane, on, asked, &mut tries);
                    self.answered = Some((answer, target));
                    step
                }
                Err(Failure::None(error)) => {
                    let step = self.after(target, &lane, On::error(&error), None, &mut tries);
                    self.silent = Some(error);
                    step
                }
            };
            match step {
                Step::Again => {}
                Step::Onward => return Ok(None),
                Step::Stop => {
                    self.over = true;
                    return Ok(None);
                }
            }
        }
    }

    /// Makes one attempt.
    async fn one(&mut self, target: &'a Arc<Target>, sent: Prepared, lane: Lane) -> Attempted {
        self.attempts += 1;
        if self.attempts == 1 {
            self.shared.metrics.overhead_seconds.observe(self.call().stamp.started.elapsed().as_secs_f64());
        }
        let span = spans::attempt(self.call(), target, self.attempts, lane.key);
        self.call().progress.sent(self.progress(target, sent.fitted.as_deref(), span.clone()));
        let more = self.has_more();
        if !more && self.call().payload.stream() && !self.shared.timeouts.keepalive_before_header.is_zero() {
            return Box::pin(self.one_or_late(target, sent, lane, span)).await;
        }
        let outcome = self.shared.attempt(self.request, target, sent, lane.key, more).instrument(span.clone()).await;
        spans::answered(&span, &outcome);
        Attempted::Ended(outcome, lane)
    }

    /// What the books need to know of an attempt.
    fn progress(&self, target: &Target, fitted: Option<&Fitted>, span: Span) -> Sent {
        let sent = Sent {
            target: target.label.clone(),
            price: target.price,
            rules: target.fit.rules(),
            attempts: self.attempts,
            overhead: self.call().stamp.started.elapsed(),
            input: None,
            memory: 0,
            cut: 0,
            begun: Instant::now(),
            system: target.provider.system(),
            span,
        };
        match fitted {
            Some(fitted) => sent.with_figures(&fitted.report),
            None => sent,
        }
    }

    /// A lane of the target that may be used now. Where nobody else is left to ask, one that is being probed is waited for; where nobody was
    /// asked, any will do.
    async fn lane(&mut self, target: &Target, tried: Tried) -> Option<Lane> {
        let keys = target.provider.keys();
        if let Some(lane) = target.lanes.enter(keys, tried, now_ms()) {
            return Some(lane);
        }
        if self.at + 1 < self.plan.len() {
            return None;
        }
        Box::pin(target.lanes.enter_anyway(keys, tried, self.attempts == 0, PROBE_WAIT)).await
    }

    /// Notes a failure and decides what comes next.
    fn after(&self, target: &Target, lane: &Lane, on: On, asked: Option<Duration>, tries: &mut Tries) -> Step {
        let retry = &self.shared.retry;
        let then = self.shared.failed(target, lane, on, asked, self.n_targets);
        if then == Then::Stop {
            return Step::Stop;
        }
        let now = now_ms();
        if on.is_about_key() && target.lanes.len() > 1 {
            tries.tried.add(lane.key);
            tries.n_tried += 1;
            if tries.n_tried < target.lanes.len() {
                return Step::Again;
            }
        }
        let others = self.has_more();
        if then == Then::Same && tries.repeat + 1 < retry.attempts && !(others && lane.cools(now)) {
            let longest = if others { LONGEST_WAIT_WITH_OTHERS } else { Duration::MAX };
            let wait = wait_before(tries.repeat + 1, asked, spread(self.call()));
            // Nor is a repeat waited for that no lane would be open for, or no time left.
            let is_made = |wait: Duration| !self.is_spent(wait) && !target.is_cooling_at(later(now, wait));
            if let Some(wait) = wait.filter(|wait| *wait <= longest && is_made(*wait)) {
                *tries = Tries { repeat: tries.repeat + 1, refitted: tries.refitted, wait, ..Tries::default() };
                return Step::Again;
            }
        }
        Step::Onward
    }

    /// The request was larger than the target's window: on to one with a larger window, else cut for what was learned, once.
    /// `Err(None)` = on to the next target.
    async fn overflowed(
        &mut self,
        target: &'a Arc<Target>,
        answer: Answer,
        overflow: &Overflow,
        tries: &mut Tries,
    ) -> Result<Prepared, Option<Box<Routed<UpstreamBody>>>> {
        let shared = self.shared;
        let counted = answer.1.fitted.as_ref().and_then(|fitted| fitted.report.sent_uncorrected);
        shared.learned.overflowed(target, overflow, counted, self.call().stamp.at);
        let window = shared.window(target, self.call()).or(overflow.window);
        if self.plan[self.at + 1..].iter().any(|next| self.may_hold(next, window.or(Some(0)))) {
            shared.metrics.overflows.inc(OverflowOutcome::NextTarget);
            self.too_small = window.or(self.too_small);
            self.answered = Some((answer, target));
            return Err(None);
        }
        if !std::mem::replace(&mut tries.refitted, true)
            && let Some(again) = shared.refit(self.request, target, &answer.1, overflow).await
        {
            shared.metrics.overflows.inc(OverflowOutcome::Refitted);
            return Ok(again);
        }
        shared.metrics.overflows.inc(OverflowOutcome::Passed);
        let (response, prepared) = *answer;
        Err(Some(Box::new(shared.routed(response, prepared, target, self.attempts))))
    }

    /// Whether a target may hold what windows up to `too_small` did not: its window is larger, or not known.
    fn may_hold(&self, target: &Target, too_small: Option<usize>) -> bool {
        too_small.is_none_or(|small| self.shared.window(target, self.call()).is_none_or(|window| window > small))
    }

    /// Nobody answered as one should: what the client gets instead.
    fn end(self) -> Result<Routed<UpstreamBody>, GatewayError> {
        // An upstream's own words are worth more than ours, also when a later target said nothing.
        if let Some((answer, target)) = self.answered {
            let (response, prepared) = *answer;
            return Ok(self.shared.routed(response, prepared, target, self.attempts));
        }
        Err(match (self.silent, self.refused) {
            (Some(error), _) => unanswered(&error),
            (None, Some(refused)) => refused,
            // Each of them is being probed by another request, and none could be waited for.
            (None, None) => {
                GatewayError::new(ErrorKind::Overloaded, "every target of this model is being tried by another request")
                    .with_retry_after(PROBE_WAIT)
            }
        })
    }
}

/// How one attempt went on.
pub(super) enum Attempted {
    /// It ended.
    Ended(Outcome, Lane),
    /// Its answer comes later, inside a stream that has begun.
    Late(Box<Routed<UpstreamBody>>),
}

/// A number that differs between requests: the random part of its id.
pub(super) fn spread(call: &Call) -> u64 {
    call.stamp.id.0 as u64
}
