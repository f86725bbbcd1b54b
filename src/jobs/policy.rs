//! When to try again: a pure function.

use std::time::Duration;

use crate::base::Time;

/// Doubling pauses with jitter, up to a limit, for so many attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The pause after the first failure.
    pub first: Duration,
    /// The longest pause.
    pub longest: Duration,
    /// After so many attempts in all there is no further one.
    pub max_attempts: u32,
}

impl Backoff {
    /// The pause after `failures` failures in a row (1 or more): between half of the doubled pause and all of it,
    /// chosen by `roll`, so that many that failed together do not come back together.
    #[must_use]
    pub fn pause(&self, failures: u32, roll: u64) -> Duration {
        let doublings = failures.saturating_sub(1).min(31);
        let full = self.first.saturating_mul(1 << doublings).min(self.longest);
        let half = full / 2;
        let jitter_nanos = u64::try_from(half.as_nanos()).unwrap_or(u64::MAX).checked_add(1).map_or(roll, |n| roll % n);
        half + Duration::from_nanos(jitter_nanos)
    }

    /// When to try again after the `attempts`-th attempt failed at `now`; `None` = never.
    #[must_use]
    pub fn retry_at(&self, attempts: u32, now: Time, roll: u64) -> Option<Time> {
        (attempts < self.max_attempts).then(|| {
            let pause = self.pause(attempts, roll).as_millis();
            now.plus_millis(i64::try_from(pause).unwrap_or(i64::MAX))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BACKOFF: Backoff =
        Backoff { first: Duration::from_secs(2), longest: Duration::from_secs(600), max_attempts: 5 };

    #[test]
    fn the_last_attempt_is_not_repeated() {
        assert!(BACKOFF.retry_at(4, Time(0), 7).is_some());
        assert_eq!(BACKOFF.retry_at(5, Time(0), 7), None);
        assert_eq!(BACKOFF.retry_at(u32::MAX, Time(0), 7), None);
    }

    proptest! {
        #[test]
        fn a_pause_is_at_least_half_of_the_doubled_one_and_never_longer_than_the_longest(
            failures in 1_u32..100, roll: u64,
        ) {
            let pause = BACKOFF.pause(failures, roll);
            let full = BACKOFF.first.saturating_mul(1 << (failures - 1).min(20)).min(BACKOFF.longest);
            prop_assert!(pause >= full / 2 && pause <= full, "{pause:?} of {full:?}");
        }
    }
}
