//! Cool-down: a target that fails is left alone for a while, where another one remains, and then tried by one request alone.
//!
//! Kept per (target, credential), as design doubt 6 says. Deadlines are monotonic and only ever move away. After one has
//! passed the target is *half open*: the first request is its probe, others go elsewhere until the probe has its answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

use super::mono::later;

/// So many failures in a row cool a target; a 429 does so at once.
const FAILURES_IN_A_ROW: u32 = 3;
/// A cool-down is never longer.
const LONGEST: Duration = Duration::from_secs(3600);

/// Why a target failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failed {
    /// It answered 429.
    Limited,
    /// Anything else.
    Otherwise,
}

/// Whether a target may be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// By everyone.
    Ready,
    /// By nobody for so long; `limited` = since it answered 429.
    Cooling {
        /// How long it is still left alone.
        left: Duration,
        /// Whether a limit was the reason.
        limited: bool,
    },
    /// By one request, which is under way.
    Probing,
}

/// The health of one target, as asked with one credential. Times are monotonic, in milliseconds.
#[derive(Debug, Default)]
pub(super) struct Health {
    failures: AtomicU32,
    until: AtomicU64,
    limited: AtomicBool,
    /// It was cooled and has not answered since.
    tripped: AtomicBool,
    probing: AtomicBool,
    probed: Notify,
}

/// Leave to ask. Dropping it ends a probe, also when the client left in the middle of it.
#[derive(Debug)]
pub(super) struct Leave(Option<Arc<Health>>);

impl Drop for Leave {
    fn drop(&mut self) {
        if let Some(health) = &self.0 {
            health.probing.store(false, Ordering::Release);
            health.probed.notify_waiters();
        }
    }
}

impl Health {
    /// Whether it may be asked now.
    pub(super) fn state(&self, now_ms: u64) -> State {
        if let Some(left) = self.until.load(Ordering::Relaxed).checked_sub(now_ms).filter(|&left| left > 0) {
            return State::Cooling { left: Duration::from_millis(left), limited: self.limited.load(Ordering::Relaxed) };
        }
        if self.probing.load(Ordering::Acquire) { State::Probing } else { State::Ready }
    }

    /// Takes leave to ask; `None` while it cools, or while another request probes it.
    pub(super) fn enter(self: &Arc<Self>, now_ms: u64) -> Option<Leave> {
        if self.state(now_ms) != State::Ready {
            return None;
        }
        if !self.tripped.load(Ordering::Relaxed) {
            return Some(Leave(None));
        }
        let first = self.probing.compare_exchange(false, true, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        first.then(|| Leave(Some(Arc::clone(self))))
    }

    /// Leave to ask in any state: there is nobody else.
    pub(super) fn enter_anyway(&self) -> Leave {
        Leave(None)
    }

    /// Waits until the probe that is under way has ended, at most for `longest`.
    pub(super) async fn probed(&self, longest: Duration) {
        let ended = self.probed.notified();
        if self.probing.load(Ordering::Acquire) {
            let _in_time = tokio::time::timeout(longest, ended).await;
        }
    }

    /// It answered as it should.
    pub(super) fn succeeded(&self) {
        // Nearly always there is nothing to change, and many cores look at this.
        if self.failures.load(Ordering::Relaxed) != 0 {
            self.failures.store(0, Ordering::Relaxed);
        }
        if self.tripped.load(Ordering::Relaxed) {
            self.tripped.store(false, Ordering::Relaxed);
        }
    }

    /// It failed. A probe that fails cools it anew at once.
    pub(super) fn failed(&self, why: Failed, retry_after: Option<Duration>, cooldown: Duration, now_ms: u64) {
        let failures = self.failures.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        let was_tripped = self.tripped.load(Ordering::Relaxed);
        if why == Failed::Limited || failures >= FAILURES_IN_A_ROW || was_tripped {
            let pause = retry_after.unwrap_or(cooldown).min(LONGEST);
            let until = later(now_ms, pause);
            self.limited.store(why == Failed::Limited, Ordering::Relaxed);
            self.until.fetch_max(until, Ordering::Relaxed);
            self.tripped.store(true, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COOLDOWN: Duration = Duration::from_secs(30);

    fn cooling(left: Duration, limited: bool) -> State {
        State::Cooling { left, limited }
    }

    /// BerriAI/litellm#3646, PR#34836.
    #[test]
    fn a_limit_cools_at_once_and_for_as_long_as_it_says() {
        let health = Health::default();
        health.failed(Failed::Limited, Some(Duration::from_secs(2)), COOLDOWN, 1_000);
        assert_eq!(health.state(1_500), cooling(Duration::from_millis(1_500), true));
        assert_eq!(health.state(3_000), State::Ready);
    }

    #[test]
    fn other_failures_cool_when_they_come_in_a_row() {
        let health = Health::default();
        for _ in 0..2 {
            health.failed(Failed::Otherwise, None, COOLDOWN, 0);
        }
        health.succeeded();
        for _ in 0..2 {
            health.failed(Failed::Otherwise, None, COOLDOWN, 0);
            assert_eq!(health.state(0), State::Ready);
        }
        health.failed(Failed::Otherwise, None, COOLDOWN, 0);
        assert_eq!(health.state(0), cooling(COOLDOWN, false));
    }

    #[test]
    fn a_later_failure_never_shortens_a_cool_down() {
        let health = Health::default();
        health.failed(Failed::Limited, Some(Duration::from_secs(60)), COOLDOWN, 0);
        health.failed(Failed::Limited, Some(Duration::from_secs(1)), COOLDOWN, 10);
        assert_eq!(health.state(0), cooling(Duration::from_secs(60), true));
    }

    #[test]
    fn after_its_cool_down_one_request_probes_and_others_go_on() {
        let health = Arc::new(Health::default());
        health.failed(Failed::Limited, Some(Duration::from_secs(1)), COOLDOWN, 0);
        assert!(health.enter(999).is_none());
        let probe = health.enter(1_000).expect("the first may");
        assert_eq!(health.state(1_000), State::Probing);
        assert!(health.enter(1_000).is_none());
        // The client left: the next one probes.
        drop(probe);
        let probe = health.enter(1_001).expect("the probe ended without an answer");
        // It failed: cooled anew at once, though it is one failure only.
        health.failed(Failed::Otherwise, None, COOLDOWN, 1_002);
        drop(probe);
        assert_eq!(health.state(1_002), cooling(COOLDOWN, false));
        let probe = health.enter(31_002).expect("the next probe");
        health.succeeded();
        drop(probe);
        let (one, other) = (health.enter(31_003), health.enter(31_003));
        assert!(one.is_some() && other.is_some(), "it is open for all");
    }

    #[tokio::test]
    async fn who_waits_for_a_probe_goes_on_when_it_ends() {
        let health = Arc::new(Health::default());
        health.failed(Failed::Limited, Some(Duration::ZERO), COOLDOWN, 0);
        let probe = health.enter(0).expect("the first may");
        let (waiting, ()) = tokio::join!(health.probed(Duration::from_secs(60)), async { drop(probe) });
        assert_eq!(waiting, ());
        assert_eq!(health.state(0), State::Ready);
    }
}
