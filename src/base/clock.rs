//! Wall-clock time, taken from a [`Clock`] that is passed in.

use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A moment, in milliseconds since the Unix epoch, UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Time(pub i64);

/// A duration in milliseconds, as moments are counted; saturates.
#[must_use]
pub fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

impl Time {
    /// The moment `millis` milliseconds later (earlier when negative); saturates.
    #[must_use]
    pub fn plus_millis(self, millis: i64) -> Self {
        Self(self.0.saturating_add(millis))
    }

    /// The moment `seconds` seconds later (earlier when negative); saturates.
    #[must_use]
    pub fn plus_seconds(self, seconds: i64) -> Self {
        self.plus_millis(seconds.saturating_mul(1000))
    }

    /// Milliseconds from `earlier` to this moment; never negative, so a clock that jumps back
    /// makes things look new, not infinitely old.
    #[must_use]
    pub fn since(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0).max(0)
    }

    /// RFC 3339 in UTC with milliseconds, as in `2023-05-08T13:56:00.000Z`.
    #[must_use]
    pub fn to_rfc3339(self) -> String {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(t) => format!("{t:.3}"),
            // Outside years -9999 to 9999: not a date that anything can print.
            Err(_) => format!("@{}ms", self.0),
        }
    }

    /// Parses RFC 3339, or a plain date (`2023-05-08`, midnight UTC).
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if let Ok(t) = text.parse::<jiff::Timestamp>() {
            return Some(Self(t.as_millisecond()));
        }
        text.parse::<jiff::civil::Date>().ok()?;
        Self::parse(&format!("{text}T00:00:00Z"))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_rfc3339())
    }
}

/// Tells the time.
pub trait Clock: Send + Sync + fmt::Debug {
    /// Returns the current moment. It may jump, in either direction.
    fn now(&self) -> Time;
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the clock")]
    fn now(&self) -> Time {
        Time(jiff::Timestamp::now().as_millisecond())
    }
}

/// A clock that stands still until it is moved; for tests and replays.
#[derive(Debug)]
pub struct ManualClock(AtomicI64);

impl ManualClock {
    /// Makes a clock that stands at `now`.
    #[must_use]
    pub fn new(now: Time) -> Self {
        Self(AtomicI64::new(now.0))
    }

    /// Moves the clock to `now`.
    pub fn set(&self, now: Time) {
        self.0.store(now.0, Ordering::Relaxed);
    }

    /// Moves the clock forward by `millis` milliseconds.
    pub fn advance_millis(&self, millis: i64) {
        self.0.fetch_add(millis, Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Time {
        Time(self.0.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_prints_and_parses_as_rfc3339() {
        let t = Time(1_683_554_160_000);
        assert_eq!(t.to_rfc3339(), "2023-05-08T13:56:00.000Z");
        assert_eq!(Time::parse("2023-05-08T13:56:00Z"), Some(t));
        assert_eq!(Time::parse("2023-05-08T15:56:00+02:00"), Some(t));
        assert_eq!(Time::parse("2023-05-08"), Some(Time(1_683_504_000_000)));
        assert_eq!(Time::parse("soon"), None);
    }

    #[test]
    fn a_clock_that_jumps_back_makes_no_negative_age() {
        assert_eq!(Time(5).since(Time(9)), 0);
    }
}
