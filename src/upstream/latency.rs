//! How fast a target has been, for `pick = "least-latency"`.
//!
//! The measure is the time to the first byte of an answer, streams and whole replies apart: a whole reply comes only when it is
//! complete. It is a moving average that weighs by time. What was measured long ago is believed less and less, so that a slow
//! target is asked again now and then, by one request at a time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// After so long a measurement weighs 1/e of a new one.
const TAU_MS: f64 = 60_000.0;
/// So long after a target was asked for its first measurement, others leave it alone.
const AWAITED_MS: u64 = 10_000;

/// The latency of one target.
#[derive(Debug, Default)]
pub(super) struct Latency {
    stream: Cell,
    whole: Cell,
}

#[derive(Debug, Default)]
struct Cell {
    /// The average in microseconds; 0 = never measured.
    average: AtomicU64,
    /// When it was measured, and when it was asked, in monotonic milliseconds; 0 = never.
    measured: AtomicU64,
    asked: AtomicU64,
}

/// What is known of a target, first choice first.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub(super) enum Rank {
    /// Nothing: it is worth a try.
    Unmeasured,
    /// Its latency in microseconds, believed less with time.
    Measured(f64),
    /// Nothing yet, but somebody has just asked it.
    Awaited,
}

impl Latency {
    fn cell(&self, stream: bool) -> &Cell {
        if stream { &self.stream } else { &self.whole }
    }

    /// A request goes to it.
    pub(super) fn asked(&self, stream: bool, now_ms: u64) {
        self.cell(stream).asked.store(now_ms.max(1), Ordering::Relaxed);
    }

    /// It answered after so long. Answers that are failures are not measured: a quick refusal is no speed.
    pub(super) fn answered(&self, stream: bool, took: Duration, now_ms: u64) {
        let cell = self.cell(stream);
        let new = took.as_micros().max(1) as f64;
        let old = cell.average.load(Ordering::Relaxed);
        let average = if old == 0 {
            new
        } else {
            let age = now_ms.saturating_sub(cell.measured.load(Ordering::Relaxed)) as f64;
            // Many answers within a moment weigh together as much as one: at least a quarter each.
            let keep = (-age / TAU_MS).exp().min(0.75);
            old as f64 * keep + new * (1.0 - keep)
        };
        cell.average.store(average.max(1.0) as u64, Ordering::Relaxed);
        cell.measured.store(now_ms.max(1), Ordering::Relaxed);
    }

    /// What is known of it now.
    pub(super) fn rank(&self, stream: bool, now_ms: u64) -> Rank {
        let cell = self.cell(stream);
        let asked = cell.asked.load(Ordering::Relaxed);
        let idle = now_ms.saturating_sub(asked);
        match cell.average.load(Ordering::Relaxed) {
            0 if asked != 0 && idle < AWAITED_MS => Rank::Awaited,
            0 => Rank::Unmeasured,
            average => Rank::Measured(average as f64 * (-(idle as f64) / TAU_MS).exp()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(latency: &Latency, now_ms: u64) -> f64 {
        match latency.rank(true, now_ms) {
            Rank::Measured(micros) => micros,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_unmeasured_target_is_tried_by_one_request_at_a_time() {
        let latency = Latency::default();
        assert_eq!(latency.rank(true, 5), Rank::Unmeasured);
        latency.asked(true, 5);
        assert_eq!(latency.rank(true, 6), Rank::Awaited);
        assert_eq!(latency.rank(false, 6), Rank::Unmeasured, "whole replies are measured apart");
        assert_eq!(latency.rank(true, 5 + AWAITED_MS), Rank::Unmeasured, "its answer never came");
        assert!(Rank::Unmeasured < Rank::Measured(0.1) && Rank::Measured(1e12) < Rank::Awaited);
    }

    #[test]
    fn the_average_follows_and_fades_when_nobody_asks() {
        let latency = Latency::default();
        latency.asked(true, 1);
        latency.answered(true, Duration::from_millis(100), 1);
        assert!((measured(&latency, 1) - 100_000.0).abs() < 1.0);
        for at in 2..40 {
            latency.asked(true, at);
            latency.answered(true, Duration::from_millis(300), at);
        }
        assert!((measured(&latency, 40) - 300_000.0).abs() < 3_000.0);
        assert!(measured(&latency, 200_000) < 20_000.0, "it is worth another try");
        // Whoever asks it again makes others wait for what comes of it.
        latency.asked(true, 200_000);
        assert!(measured(&latency, 200_001) > 290_000.0);
    }
}
