//! What was used of a minute: it drains evenly.

use std::time::{Duration, Instant};

/// What was used lately. It drains so fast that a whole minute's worth is gone after a minute: a burst of a minute's
/// worth passes at once, and then as many as drain.
///
/// How much a minute's worth is comes with each call, so that a changed limit holds at once and forgets nothing.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bucket {
    used: f64,
    /// How much has drained, as a power of e: all in it drains alike, so that this says what is left of each part.
    turned: f64,
    at: Option<Instant>,
}

/// What was added to a bucket: how much of it was left, and how far the bucket was then.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Share {
    left: f64,
    turned: f64,
}

/// By how much an emptied bucket turns: nothing is left of anything that was in it.
const EMPTIED: f64 = 1_000.0;

impl Bucket {
    /// Lets drain what has drained until now. A clock that stands still drains nothing.
    pub(super) fn drain(&mut self, per_minute: u64, now: Instant) {
        let passed = self.at.map_or(0.0, |at| now.saturating_duration_since(at).as_secs_f64());
        let drained = self.used.min(passed * per_minute as f64 / 60.0);
        if drained > 0.0 {
            self.turned += (self.used / (self.used - drained)).ln().min(EMPTIED);
            self.used -= drained;
        }
        self.at = Some(self.at.map_or(now, |at| at.max(now)));
    }

    /// Says how much was used as of its last drain: others use it too, and that was heard.
    pub(super) fn set_used(&mut self, used: f64) {
        self.used = used;
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
    pub(super) fn add(&mut self, n: u64) -> Share {
        self.used += n as f64;
        Share { left: n as f64, turned: self.turned }
    }

    /// Replaces an estimate that was added by what it really was; that may be more than there was room for. What of it has
    /// drained is not given back: what is in the bucket now is others'.
    pub(super) fn correct(&mut self, share: &mut Share, estimated: u64, used: u64) {
        let left = share.left * (share.turned - self.turned).exp();
        let drained = estimated as f64 - left;
        *share = Share { left: (used as f64 - drained).max(0.0), turned: self.turned };
        self.used = (self.used - left + share.left).max(0.0);
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
        let mut share = bucket.add(10);
        bucket.correct(&mut share, 10, 250);
        bucket.drain(100, now + Duration::from_secs(60));
        assert!(!bucket.has_room(100, 1) && !bucket.is_empty(Some(100), now + Duration::from_secs(60)));
        assert!(bucket.is_empty(Some(100), now + Duration::from_secs(150)));
    }

    #[test]
    fn what_has_drained_is_not_given_back_out_of_what_others_use() {
        let (mut bucket, now) = (Bucket::default(), Instant::now());
        let later = |seconds| now + Duration::from_secs(seconds);
        bucket.drain(6_000, now);
        let mut share = bucket.add(6_000);
        bucket.drain(6_000, later(60));
        bucket.add(6_000);
        bucket.drain(6_000, later(61));
        bucket.correct(&mut share, 6_000, 100);
        assert_eq!(bucket.left(6_000), 100);
    }

    #[test]
    fn what_has_not_drained_is_given_back_in_any_number_of_steps() {
        let (mut bucket, now) = (Bucket::default(), Instant::now());
        bucket.drain(6_000, now);
        bucket.add(2_000);
        let mut share = bucket.add(4_000);
        bucket.correct(&mut share, 4_000, 3_000);
        bucket.drain(6_000, now + Duration::from_secs(25));
        assert_eq!(bucket.left(6_000), 3_500);
        // Half of all has drained: 1,500 are there.
        bucket.correct(&mut share, 3_000, 2_000);
        assert_eq!(bucket.left(6_000), 4_500);
        bucket.correct(&mut share, 2_000, 0);
        assert_eq!(bucket.left(6_000), 5_000);
    }

    #[test]
    fn of_many_that_run_together_each_gets_back_its_own() {
        let (mut bucket, now) = (Bucket::default(), Instant::now());
        let mut shares: Vec<_> = (0..6).map(|_| bucket.add(1_000)).collect();
        shares.iter_mut().rev().for_each(|share| bucket.correct(share, 1_000, 100));
        assert_eq!(bucket.left(6_000), 5_400);
        bucket.drain(6_000, now);
        assert_eq!(bucket.left(6_000), 5_400);
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
