//! A pause for all questions: the model is busy, and would be no less so for the next window.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::base::Time;

#[derive(Debug, Default)]
struct State {
    until: Option<Time>,
    failures: u32,
}

/// When the model may be asked again.
#[derive(Debug, Default)]
pub(super) struct Pause(Mutex<State>);

impl Pause {
    /// How long it still lasts; `None` when there is none.
    pub(super) fn left(&self, now: Time) -> Option<Duration> {
        let until = self.lock().until?;
        let left = u64::try_from(until.since(now)).unwrap_or_default();
        (left > 0).then(|| Duration::from_millis(left))
    }

    /// A failure: `pause` says how long, given how many there were in a row.
    pub(super) fn failed(&self, now: Time, pause: impl FnOnce(u32) -> Duration) {
        let mut state = self.lock();
        state.failures = state.failures.saturating_add(1);
        let millis = i64::try_from(pause(state.failures).as_millis()).unwrap_or(i64::MAX);
        // Several questions fail together: the longest pause counts.
        let until = now.plus_millis(millis);
        state.until = Some(state.until.map_or(until, |before| before.max(until)));
    }

    /// The model answered.
    pub(super) fn over(&self) {
        *self.lock() = State::default();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
