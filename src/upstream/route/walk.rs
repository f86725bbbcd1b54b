//! The walk over the plan: target after target, until one of them answers for the client.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Response, StatusCode};
use tracing::Instrument;

use super::Shared;
use super::prepare::Prepared;
use super::send::{Answer, Failure};
use crate::base::{ErrorKind, GatewayError};
use crate::context::Fitted;
use crate::exchange::{Call, Recalled, Routed, Sent};
use crate::telemetry::{OverflowOutcome, names};
use crate::upstream::attempt::AttemptError;
use crate::upstream::body::UpstreamBody;
use crate::upstream::health::{Failed, retry_after};
use crate::upstream::passthrough::unanswered;
use crate::upstream::plan::Target;

impl Shared {
    pub(super) async fn run(&self, request: &Recalled<()>) -> Result<Routed<UpstreamBody>, GatewayError> {
        let call = &request.call;
        let plan = self.routes.plan(&call.principal, call.payload.model(), spread(call))?;
        let plan = self.not_cooling(plan)?;
        let mut attempts = 0;
        let mut answered: Option<(Answer, &Arc<Target>)> = None;
        let mut silent: Option<AttemptError> = None;
        let mut refused: Option<GatewayError> = None;
        // Windows up to this one are too small.
        let mut too_small: Option<usize> = None;

        for (at, target) in plan.iter().enumerate() {
            let more = at + 1 < plan.len();
            if !self.may_hold(target, too_small, call) {
                continue;
            }
            let mut prepared = match self.prepare(request, target, &self.digests, false).await {
                Ok(prepared) => Some(prepared),
                // A target with a larger window may still take it.
                Err(error) if error.kind == ErrorKind::ContextLength && more => {
                    refused = Some(error);
                    continue;
                }
                Err(error) => return Err(error),
            };
            let tries = self.retry.attempts.max(1);
            let mut refitted = false;
            let mut repeat = 0;
            while repeat < tries {
                if repeat > 0 {
                    tokio::time::sleep(backoff(repeat, spread(call))).await;
                }
                attempts += 1;
                if attempts == 1 {
                    self.metrics.overhead_seconds.observe(call.stamp.started.elapsed().as_secs_f64());
                }
                let span = tracing::debug_span!(
                    names::ATTEMPT,
                    gen_ai.operation.name = call.payload.operation(),
                    gen_ai.provider.name = target.provider.name,
                    gen_ai.request.model = target.label,
                    backstory.attempt = attempts,
                );
                // Kept only for a repeat that may come.
                let sent = if repeat + 1 < tries { prepared.clone() } else { prepared.take() };
                let Some(sent) = sent else { break };
                call.progress.sent(Self::progress(call, target, attempts, sent.fitted.as_ref()));
                let outcome = self.attempt(request, target, sent, more).instrument(span).await;
                match outcome {
                    Ok((response, prepared)) => {
                        target.health.succeeded();
                        if response.status().is_success() {
                            self.look_ahead(request, &prepared);
                        }
                        return Ok(self.routed(response, prepared, target, attempts));
                    }
                    Err(Failure::Overflow(answer, overflow)) => {
                        let counted = answer.1.fitted.as_ref().and_then(|fitted| fitted.report.sent_uncorrected);
                        self.learned.overflowed(target, &overflow, counted, call.stamp.at);
                        let window = self.window(target, call).or(overflow.window);
                        if plan[at + 1..].iter().any(|next| self.may_hold(next, window.or(Some(0)), call)) {
                            self.metrics.overflows.inc(OverflowOutcome::NextTarget);
                            too_small = window.or(too_small);
                            answered = Some((answer, target));
                            break;
                        }
                        if !std::mem::replace(&mut refitted, true)
                            && let Some(again) = self.refit(request, target, &answer.1, &overflow).await
                        {
                            self.metrics.overflows.inc(OverflowOutcome::Refitted);
                            prepared = Some(again);
                            continue;
                        }
                        self.metrics.overflows.inc(OverflowOutcome::Passed);
                        let (response, prepared) = *answer;
                        return Ok(self.routed(response, prepared, target, attempts));
                    }
                    Err(Failure::Answer(answer)) => {
                        self.note_failure(target, Some(&answer.0), plan.len());
                        answered = Some((answer, target));
                    }
                    Err(Failure::None(error)) => {
                        self.note_failure(target, None, plan.len());
                        silent = Some(error);
                    }
                }
                repeat += 1;
            }
        }
        // An upstream's own words are worth more than ours, also when a later target said nothing.
        if let Some((answer, target)) = answered {
            let (response, prepared) = *answer;
            return Ok(self.routed(response, prepared, target, attempts));
        }
        Err(match (silent, refused) {
            (Some(error), _) => unanswered(&error),
            (None, Some(refused)) => refused,
            (None, None) => GatewayError::internal("a plan without targets"),
        })
    }

    /// The window of a target that is in force.
    fn window(&self, target: &Target, call: &Call) -> Option<usize> {
        target.window(self.learned.known(target, call.stamp.at).window)
    }

    /// Whether a target may hold what windows up to `too_small` did not: its window is larger, or not known.
    fn may_hold(&self, target: &Target, too_small: Option<usize>, call: &Call) -> bool {
        too_small.is_none_or(|small| self.window(target, call).is_none_or(|window| window > small))
    }

    /// Leaves out the targets that cool. A route with one target never cools: its upstream's own answer is the best there is.
    fn not_cooling(&self, plan: Vec<Arc<Target>>) -> Result<Vec<Arc<Target>>, GatewayError> {
        if plan.len() < 2 {
            return Ok(plan);
        }
        let now = self.now_ms();
        let cooling: Vec<_> = plan.iter().map(|target| target.health.cooling(now)).collect();
        if cooling.iter().all(Option::is_some) {
            let soonest = cooling.iter().flatten().map(|(left, _)| *left).min().unwrap_or_default();
            let limited = cooling.iter().flatten().all(|(_, limited)| *limited);
            let kind = if limited { ErrorKind::RateLimited } else { ErrorKind::Overloaded };
            let public = "every target of this model failed a moment ago and is left alone for now";
            return Err(GatewayError::new(kind, public).with_retry_after(soonest));
        }
        Ok(plan.into_iter().zip(cooling).filter(|(_, cooling)| cooling.is_none()).map(|(target, _)| target).collect())
    }

    fn note_failure(&self, target: &Target, answer: Option<&Response<UpstreamBody>>, n_targets: usize) {
        // A target that is the only one left is not cooled: there would be nobody to go on to.
        if n_targets < 2 {
            return;
        }
        let limited = answer.is_some_and(|answer| answer.status() == StatusCode::TOO_MANY_REQUESTS);
        let why = if limited { Failed::Limited } else { Failed::Otherwise };
        let wait = answer.and_then(|answer| retry_after(answer.headers()));
        target.health.failed(why, wait, self.retry.cooldown, self.now_ms());
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn routed(
        &self,
        response: Response<UpstreamBody>,
        prepared: Prepared,
        target: &Target,
        attempts: u32,
    ) -> Routed<UpstreamBody> {
        // What was sent is not needed any more, however long the reply takes.
        let fitted = prepared.fitted.map(|fitted| Fitted { body: Bytes::new(), ..fitted });
        let (label, price) = (target.label.clone(), target.price);
        Routed { response, fitted, target: label, price, attempts, withhold_usage: prepared.asked_usage }
    }

    /// What the books need to know of an attempt.
    fn progress(call: &Call, target: &Target, attempts: u32, fitted: Option<&Fitted>) -> Sent {
        let sent = Sent {
            target: target.label.clone(),
            price: target.price,
            rules: target.fit.rules(),
            attempts,
            overhead: call.stamp.started.elapsed(),
            input: None,
            memory: 0,
            cut: 0,
        };
        match fitted {
            Some(fitted) => sent.with_figures(&fitted.report),
            None => sent,
        }
    }
}

/// A number that differs between requests: the random part of its id.
pub(super) fn spread(call: &Call) -> u64 {
    call.stamp.id.0 as u64
}

/// How long to wait before the `repeat`-th repeat: 100 ms doubling up to 2 s, less up to half by a number that differs between requests.
fn backoff(repeat: u32, spread: u64) -> Duration {
    let base = 100_u64.saturating_mul(1 << repeat.saturating_sub(1).min(5)).min(2_000);
    let jitter = spread % (base / 2 + 1);
    Duration::from_millis(base - jitter)
}
