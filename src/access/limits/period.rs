//! Days and months of the calendar, in UTC.

use crate::base::Time;

const DAY_MILLIS: i64 = 24 * 3_600 * 1_000;

/// A day or a month.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Period {
    /// Days since 1970-01-01.
    Day(i64),
    /// Months since year 0.
    Month(i64),
}

impl Period {
    /// The day of a moment.
    pub(super) fn day(at: Time) -> Self {
        Self::Day(at.0.div_euclid(DAY_MILLIS))
    }

    /// The month of a moment.
    pub(super) fn month(at: Time) -> Self {
        let (year, month, _) = civil(at.0.div_euclid(DAY_MILLIS));
        Self::Month(year * 12 + month - 1)
    }

    /// The first moment after it.
    pub(super) fn end(self) -> Time {
        let day = match self {
            Self::Day(day) => day + 1,
            Self::Month(month) => days((month + 1).div_euclid(12), (month + 1).rem_euclid(12) + 1, 1),
        };
        Time(day.saturating_mul(DAY_MILLIS))
    }

    /// Its name in the store, as in `2026-11-30` and `2026-11`.
    pub(super) fn name(self) -> String {
        match self {
            Self::Day(day) => {
                let (year, month, day) = civil(day);
                format!("{year:04}-{month:02}-{day:02}")
            }
            Self::Month(month) => format!("{:04}-{:02}", month.div_euclid(12), month.rem_euclid(12) + 1),
        }
    }
}

/// Year, month and day of a number of days since 1970-01-01 (Howard Hinnant, "chrono-Compatible Low-Level Date
/// Algorithms"): a few multiplications, since every limited request asks.
fn civil(days: i64) -> (i64, i64, i64) {
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let of_era = z.rem_euclid(146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year + era * 400 + i64::from(month <= 2), month, day)
}

/// The inverse of [`civil`].
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_day_and_a_month_end_where_the_calendar_says() {
        let at = Time::parse("2024-02-29T23:59:59.999Z").unwrap();
        assert_eq!((Period::day(at).name(), Period::month(at).name()), ("2024-02-29".to_owned(), "2024-02".to_owned()));
        assert_eq!(Period::day(at).end(), Time::parse("2024-03-01").unwrap());
        assert_eq!(Period::month(at).end(), Time::parse("2024-03-01").unwrap());
        let december = Time::parse("2026-12-31").unwrap();
        assert_eq!(Period::month(december).end(), Time::parse("2027-01-01").unwrap());
    }

    proptest! {
        /// Another implementation of the calendar says the same.
        #[test]
        fn the_calendar_is_that_of_everyone_else(millis in -62_000_000_000_000_i64..253_000_000_000_000) {
            let at = Time(millis);
            let text = at.to_rfc3339();
            prop_assert_eq!(Period::day(at).name(), &text[..10]);
            prop_assert_eq!(Period::month(at).name(), &text[..7]);
            prop_assert!(Period::day(at).end() > at && Period::month(at).end() >= Period::day(at).end());
            prop_assert_eq!(Period::day(Period::month(at).end()).name()[8..].to_owned(), "01");
        }
    }
}
