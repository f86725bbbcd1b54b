//! Whether it is worth asking upstream again, and how long it asks to wait before.

use std::time::Duration;

use http::HeaderMap;
use http::header::{DATE, HeaderValue, RETRY_AFTER};

use crate::base::Time;

/// A wait longer than this is not believed.
const LONGEST: Duration = Duration::from_secs(3600);

/// Whether a failure with this status may be gone later.
pub(super) fn passes(status: u16) -> bool {
    matches!(status, 408 | 409 | 425 | 429 | 500..=599)
}

/// Reads `retry-after-ms`, or `Retry-After` in either of its forms (RFC 9110, section 10.2.3): seconds, or a date, which is
/// read against upstream's own clock where it tells it. `now` is our clock's time.
pub(super) fn retry_after(headers: &HeaderMap, now: Time) -> Option<Duration> {
    let number = |name: &str| {
        headers.get(name)?.to_str().ok()?.trim().parse::<f64>().ok().filter(|n| n.is_finite() && *n >= 0.0)
    };
    let seconds = |n: f64| Duration::from_secs_f64(n.min(LONGEST.as_secs_f64()));
    if let Some(ms) = number("retry-after-ms") {
        return Some(seconds(ms / 1000.0));
    }
    if let Some(s) = number(RETRY_AFTER.as_str()) {
        return Some(seconds(s));
    }
    let until = date(headers.get(RETRY_AFTER)?)?;
    let now = headers.get(DATE).and_then(date).unwrap_or(now);
    Some(Duration::from_millis(until.since(now).unsigned_abs()).min(LONGEST))
}

/// `Sun, 06 Nov 1994 08:49:37 GMT`.
fn date(value: &HeaderValue) -> Option<Time> {
    let date = jiff::fmt::rfc2822::parse(value.to_str().ok()?).ok()?;
    Some(Time(date.timestamp().as_millisecond()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `Sun, 06 Nov 1994 08:49:37 GMT`.
    const THEN: Time = Time(784_111_777_000);

    fn read(pairs: &[(&'static str, &'static str)]) -> Option<Duration> {
        let headers =
            pairs.iter().map(|(n, v)| (http::HeaderName::from_static(n), HeaderValue::from_static(v))).collect();
        retry_after(&headers, THEN)
    }

    #[test]
    fn seconds_and_milliseconds_are_read() {
        assert_eq!(read(&[("retry-after", "2")]), Some(Duration::from_secs(2)));
        assert_eq!(read(&[("retry-after", "2"), ("retry-after-ms", "150")]), Some(Duration::from_millis(150)));
        assert_eq!(read(&[("retry-after", "-1")]), None);
        assert_eq!(read(&[("retry-after", "inf")]), None);
        assert_eq!(read(&[("retry-after", "1e9")]), Some(LONGEST));
        assert_eq!(read(&[]), None);
    }

    #[test]
    fn a_date_is_read_against_upstreams_own_clock_where_it_tells_it() {
        let date = "Sun, 06 Nov 1994 08:49:40 GMT";
        assert_eq!(read(&[("retry-after", date)]), Some(Duration::from_secs(3)));
        let fast = [("retry-after", date), ("date", "Sun, 06 Nov 1994 08:49:30 GMT")];
        assert_eq!(read(&fast), Some(Duration::from_secs(10)));
        assert_eq!(read(&[("retry-after", "Sun, 06 Nov 1994 08:00:00 GMT")]), Some(Duration::ZERO));
        assert_eq!(read(&[("retry-after", "soon")]), None);
    }
}
