//! How long ago something was, in words as coarse as memory is.

use crate::base::Time;

const DAY_MILLIS: i64 = 86_400_000;

/// Returns how long before `now` something was, counted in calendar days (UTC), so that the words are the same all day.
pub(super) fn ago(at: Time, now: Time) -> String {
    let days = (now.0.div_euclid(DAY_MILLIS) - at.0.div_euclid(DAY_MILLIS)).max(0);
    match days {
        0 => "today".to_owned(),
        1 => "yesterday".to_owned(),
        2..=13 => format!("{days} days ago"),
        14..=59 => format!("{} weeks ago", days / 7),
        60..=729 => format!("{} months ago", days / 30),
        _ => format!("{} years ago", days / 365),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_coarse_and_the_same_all_day() {
        let now = Time::parse("2026-03-20T09:30:00Z").unwrap();
        let said = |at: &str| ago(Time::parse(at).unwrap(), now);
        assert_eq!(said("2026-03-20T00:00:01Z"), "today");
        assert_eq!(said("2026-03-19T23:59:59Z"), "yesterday");
        assert_eq!(said("2026-03-10"), "10 days ago");
        assert_eq!(said("2026-02-27"), "3 weeks ago");
        assert_eq!(said("2025-10-20"), "5 months ago");
        assert_eq!(said("2023-01-01"), "3 years ago");
        assert_eq!(said("2027-01-01"), "today");
        let evening = Time::parse("2026-03-20T23:59:00Z").unwrap();
        assert_eq!(ago(Time::parse("2026-03-10").unwrap(), evening), "10 days ago");
    }
}
