//! The monotonic clock, as a number that fits into an atomic.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// Milliseconds since the process first asked. Never goes back, whatever the wall clock does.
pub(super) fn now_ms() -> u64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    u64::try_from(START.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// So long after a moment of this clock.
pub(super) fn later(now_ms: u64, by: Duration) -> u64 {
    now_ms.saturating_add(u64::try_from(by.as_millis()).unwrap_or(u64::MAX))
}
