//! When to leave alone what has been failing, so that not every request waits for one that is dead.

use std::time::Duration;

use crate::base::{Time, millis};

/// After so many failures in a row it is left alone for a while.
pub(super) const MAX_FAILURES: u32 = 3;
/// For so long at first, then twice as long each time, and no longer than this.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// How it has been answering.
#[derive(Debug, Default)]
pub(super) struct Patience {
    failures: u32,
    not_before: Time,
}

impl Patience {
    /// Whether it is not to be asked now.
    pub(super) fn is_out(&self, now: Time) -> bool {
        self.not_before > now
    }

    /// `wanted` = how long it asks to be left alone.
    pub(super) fn learn(&mut self, success: bool, wanted: Option<Duration>, now: Time) {
        if success {
            *self = Self::default();
            return;
        }
        self.failures = self.failures.saturating_add(1);
        let more = self.failures.checked_sub(MAX_FAILURES);
        let own = more.map_or(Duration::ZERO, |more| FIRST_PAUSE.saturating_mul(1 << more.min(16)));
        let pause = own.max(wanted.unwrap_or_default()).min(LONGEST_PAUSE);
        self.not_before = now.plus_millis(millis(pause));
    }
}
