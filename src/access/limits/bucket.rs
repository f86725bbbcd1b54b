//! What was used of a minute: it drains evenly.

use std::time::{Duration, Instant};

/// What was used lately. It drains so fast that a whole minute's worth is gone after a minute: a burst of a minute's
/// worth passes at once, and then as many as drain.
///
/// How much a minute's worth is comes with each call, so that a changed limit holds at once and forgets nothing.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bucket {
    used: f64,
    at: Option<Instant>,
}

impl Bucket {
    /// Lets drain what has drained until now. A clock that stands still drains nothing.
    pub(super) fn drain(&mut self, per_minute: u64, now: Instant) {
        let passed = self.at.map_or(0.0, |at| now.saturating_duration_since(at).as_secs_f64());
        self.used = (self.used - passed * per_minute as f64 / 60.0).max(0.0);
        self.at = Some(self.at.map_or(now, |at| at.max(now)));
    }

    /// What is left of a minute's worth, in whole ones.
    pub(super) fn left(&self, per_minute: u64) -> u64 {
        (per_minute as f64 - self.used).max(0.0).floor() as u64
    }

    /// Whether there is room for so much more.
    pub(super) fn has_room(&self, per_minute: u64, n: u64) -> bool {
        // A request must find room for itself, though what was used comes in fractions.
        self.used + n as f64 <= per_minute as f64 + 1e-6
    }

    /// How long it takes until there is room for so much, if nothing else comes.
    pub(super) fn wait(&self, per_minute: u64, n: u64) -> Duration {
        seconds((self.used + n as f64 - per_minute as f64) * 60.0 / per_minute as f64)
    }

    /// How long it takes until all has drained.
    pub(super) fn reset(&self, per_minute: u64) -> Duration {
        seconds(self.used * 60.0 / per_minute as f64)
    }

    /// Adds what is used now.
    pub(super) fn add(&mut self, n: u64) {
        self.used += n as f64;
    }

    /// Replaces an estimate that was added by what it really was; that may be more than there was room for.
    pub(super) fn correct(&mut self, estimated: u64, used: u64) {
        self.used = (self.used - estimated as f64 + used as f64).max(0.0);
    }

    /// Whether nothing of it matters any more at `now`.
    pub(super) fn is_empty(&self, per_minute: Option<u64>, now: Instant) -> bool {
        let mut later = *self;
        match per_minute {
            Some(per_minute) => {
                later.drain(per_minute, now);
                later.used < 1e-6
            }
            None => true,
        }
    }
}

fn seconds(seconds: f64) -> Duration {
    // A second is told in whole milliseconds; less than that is nothing to wait for.
    Duration::try_from_secs_f64(seconds.max(0.001)).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_drains_evenly_and_says_how_long_to_wait() {
        let (mut bucket, now) = (Bucket::default(), Instant::now());
        bucket.drain(60, now);
        bucket.add(60);
        assert!(!bucket.has_room(60, 1));
        assert_eq!(bucket.wait(60, 1), Duration::from_secs(1));
        assert_eq!(bucket.reset(60), Duration::from_secs(60));
        bucket.drain(60, now + Duration::from_secs(1));
        assert!(bucket.has_room(60, 1) && !bucket.has_room(60, 2));
        assert_eq!(bucket.left(60), 1);
    }

    #[test]
    fn a_changed_limit_holds_at_once_and_what_was_used_stays_used() {
        let (mut bucket, now) = (Bucket::default(), Instant::now());
        bucket.drain(10, now);
        bucket.add(10);
        assert_eq!((bucket.left(10), bucket.left(100)), (0, 90));
        assert!(!bucket.has_room(5, 1));
        assert_eq!(bucket.wait(5, 1), Duration::from_secs(72));
    }

    #[test]
    fn what_was_more_than_estimated_is_worked_off() {
        let (mut bucket, now) = (Bucket::default(), Instant::now());
        bucket.drain(100, now);
        bucket.add(10);
        bucket.correct(10, 250);
        bucket.drain(100, now + Duration::from_secs(60));
        assert!(!bucket.has_room(100, 1) && !bucket.is_empty(Some(100), now + Duration::from_secs(60)));
        assert!(bucket.is_empty(Some(100), now + Duration::from_secs(150)));
    }

    #[test]
    fn a_time_before_the_last_one_drains_nothing() {
        let (mut bucket, now) = (Bucket::default(), Instant::now());
        bucket.drain(60, now + Duration::from_secs(10));
        bucket.add(60);
        bucket.drain(60, now);
        bucket.drain(60, now + Duration::from_secs(10));
        assert_eq!(bucket.left(60), 0);
    }
}
