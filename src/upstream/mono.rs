//! The monotonic clock, as a number that fits into an atomic.

use std::sync::LazyLock;
use std::time::Instant;

/// Milliseconds since the process first asked. Never goes back, whatever the wall clock does.
pub(super) fn now_ms() -> u64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    u64::try_from(START.elapsed().as_millis()).unwrap_or(u64::MAX)
}
