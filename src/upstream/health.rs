//! Cool-down: a target that fails is left alone for a while, where another target remains (design, doubt 6).

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// So many failures in a row cool a target; a 429 does so at once.
const FAILURES_IN_A_ROW: u32 = 3;
/// A Retry-After longer than this is not believed.
const LONGEST: Duration = Duration::from_secs(3600);

/// Why a target failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failed {
    /// It answered 429.
    Limited,
    /// Anything else.
    Otherwise,
}

/// The health of one target. Times are monotonic, in milliseconds since the start of the process.
#[derive(Debug, Default)]
pub(super) struct Health {
    failures: AtomicU32,
    until: AtomicU64,
    limited: AtomicU32,
}

impl Health {
    /// How long it still cools, and whether because it was limited; `None` when it may be asked.
    pub(super) fn cooling(&self, now_ms: u64) -> Option<(Duration, bool)> {
        let left = self.until.load(Ordering::Relaxed).checked_sub(now_ms).filter(|&left| left > 0)?;
        Some((Duration::from_millis(left), self.limited.load(Ordering::Relaxed) != 0))
    }

    /// It answered as it should.
    pub(super) fn succeeded(&self) {
        self.failures.store(0, Ordering::Relaxed);
    }

    /// It failed. After its cool-down it is asked again, and the next failure cools it anew: it is on probation.
    pub(super) fn failed(&self, why: Failed, retry_after: Option<Duration>, cooldown: Duration, now_ms: u64) {
        let failures = self.failures.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        if why == Failed::Limited || failures >= FAILURES_IN_A_ROW {
            let pause = retry_after.unwrap_or(cooldown).min(LONGEST);
            let until = now_ms.saturating_add(u64::try_from(pause.as_millis()).unwrap_or(u64::MAX));
            self.until.fetch_max(until, Ordering::Relaxed);
            self.limited.store(u32::from(why == Failed::Limited), Ordering::Relaxed);
        }
    }
}

/// Reads `Retry-After`: seconds, or `retry-after-ms`. The date form needs a clock that agrees with the server's, and is passed over.
pub(super) fn retry_after(headers: &http::HeaderMap) -> Option<Duration> {
    let number = |name: &str| {
        headers.get(name)?.to_str().ok()?.trim().parse::<f64>().ok().filter(|n| n.is_finite() && *n >= 0.0)
    };
    number("retry-after-ms")
        .map(|ms| Duration::from_secs_f64((ms / 1000.0).min(LONGEST.as_secs_f64())))
        .or_else(|| number("retry-after").map(|s| Duration::from_secs_f64(s.min(LONGEST.as_secs_f64()))))
}

#[cfg(test)]
mod tests {
    use super::*;

    const COOLDOWN: Duration = Duration::from_secs(30);

    /// BerriAI/litellm#3646, PR#34836.
    #[test]
    fn a_limit_cools_at_once_and_for_as_long_as_it_says() {
        let health = Health::default();
        health.failed(Failed::Limited, Some(Duration::from_secs(2)), COOLDOWN, 1_000);
        assert_eq!(health.cooling(1_500), Some((Duration::from_millis(1_500), true)));
        assert_eq!(health.cooling(3_000), None);
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
            assert_eq!(health.cooling(0), None);
        }
        health.failed(Failed::Otherwise, None, COOLDOWN, 0);
        assert_eq!(health.cooling(0), Some((COOLDOWN, false)));
    }

    #[test]
    fn retry_after_is_read_in_seconds_and_milliseconds() {
        let map = |name: &'static str, value: &'static str| {
            [(http::HeaderName::from_static(name), http::HeaderValue::from_static(value))].into_iter().collect()
        };
        assert_eq!(retry_after(&map("retry-after", "2")), Some(Duration::from_secs(2)));
        assert_eq!(retry_after(&map("retry-after-ms", "150")), Some(Duration::from_millis(150)));
        assert_eq!(retry_after(&map("retry-after", "-1")), None);
        assert_eq!(retry_after(&map("retry-after", "inf")), None);
        assert_eq!(retry_after(&map("retry-after", "1e9")), Some(LONGEST));
    }
}
