//! Dates as people say them, English and Chinese, read against the time they were said: "yesterday" in a message of 8 May 2023 is
//! 7 May 2023.
//!
//! Reads words only and guesses nothing: `3/4/2025` may be two days and is none here. The day is that of UTC, since where the speaker's
//! midnight is is not known. "Next Friday" is the first Friday after today, 下周五 the Friday of next week, as both are mostly meant.

mod absolute;
mod appointment;
mod chinese;
mod relative;

pub use appointment::appointment;

use std::fmt;
use std::ops::Range;

use jiff::civil::Date;

use crate::base::Time;

/// A date, as far as it was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// A day.
    Day(Date),
    /// A month of a year.
    Month(i16, i8),
    /// A year.
    Year(i16),
    /// A day of every year: month and day.
    Yearly(i8, i8),
}

impl fmt::Display for When {
    /// ISO 8601, cut to what is known: `2023-05-07`, `2023-05`, `2023`, `--05-07`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Day(date) => write!(f, "{date}"),
            Self::Month(year, month) => write!(f, "{year:04}-{month:02}"),
            Self::Year(year) => write!(f, "{year:04}"),
            Self::Yearly(month, day) => write!(f, "--{month:02}-{day:02}"),
        }
    }
}

impl When {
    /// Its first moment; none for a day of every year.
    #[must_use]
    pub fn start(self) -> Option<Time> {
        let date = match self {
            Self::Day(date) => date,
            Self::Month(year, month) => Date::new(year, month, 1).ok()?,
            Self::Year(year) => Date::new(year, 1, 1).ok()?,
            Self::Yearly(..) => return None,
        };
        Time::parse(&date.to_string())
    }

    /// The same, as a day of every year.
    fn yearly(month: i8, day: i8) -> Option<Self> {
        // A leap year, so that 29 February is one.
        Date::new(2024, month, day).ok().map(|_| Self::Yearly(month, day))
    }

    fn day(year: i16, month: i8, day: i8) -> Option<Self> {
        (1800..=2200).contains(&year).then(|| Date::new(year, month, day).ok().map(Self::Day)).flatten()
    }

    fn month(year: i16, month: i8) -> Option<Self> {
        ((1800..=2200).contains(&year) && (1..=12).contains(&month)).then_some(Self::Month(year, month))
    }
}

/// The day on which something was said.
fn day_of(said_at: Time) -> Option<Date> {
    jiff::Timestamp::from_millisecond(said_at.0).ok().map(|t| jiff::tz::Offset::UTC.to_datetime(t).date())
}

/// The first date in a text that was said at a time, and where it stands.
#[must_use]
pub fn find(text: &str, said_at: Time) -> Option<(Range<usize>, When)> {
    // Nearly no statement has a date in it: a look at its bytes is enough to tell.
    let today = day_of(said_at)?;
    let found = [absolute::find(text), relative::find(text, today), chinese::find(text, today)];
    // The earliest one; of two that begin together the longer: "3 May 2023" and "May".
    found.into_iter().flatten().min_by_key(|(range, _)| (range.start, std::cmp::Reverse(range.end)))
}

/// The date that a text is, when it is nothing else.
#[must_use]
pub fn whole(text: &str, said_at: Time) -> Option<When> {
    let (range, when) = find(text, said_at)?;
    let rest = |part: &str| {
        part.split(|c: char| !c.is_alphanumeric())
            .filter(|w| !w.is_empty())
            .all(|w| matches!(w.to_ascii_lowercase().as_str(), "on" | "the" | "in" | "born" | "of" | "is" | "出生"))
    };
    (rest(&text[..range.start]) && rest(&text[range.end..])).then_some(when)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Said on Monday, 8 May 2023.
    fn read(text: &str) -> Option<String> {
        let said_at = Time::parse("2023-05-08T13:56:00Z").expect("a date");
        find(text, said_at).map(|(_, when)| when.to_string())
    }

    #[test]
    fn dates_are_read_in_the_forms_in_which_people_write_them() {
        for (text, date) in [
            ("1988-03-14", "1988-03-14"),
            ("1988/3/14", "1988-03-14"),
            ("14.03.1988", "1988-03-14"),
            ("14 March 1988", "1988-03-14"),
            ("14th of march, 1988", "1988-03-14"),
            ("March 14, 1988", "1988-03-14"),
            ("Mar 14th 1988", "1988-03-14"),
            ("25/12/1990", "1990-12-25"),
            ("12/25/1990", "1990-12-25"),
            ("May 3rd", "--05-03"),
            ("the 3rd of May", "--05-03"),
            ("3 may", "--05-03"),
            ("29 Feb", "--02-29"),
            ("March 2021", "2021-03"),
            ("1995年8月16日", "1995-08-16"),
            ("8月16号", "--08-16"),
            ("十月一日", "--10-01"),
            ("1995年8月", "1995-08"),
        ] {
            assert_eq!(read(text).as_deref(), Some(date), "{text}");
        }
        for text in
            ["3/4/2025", "you may go", "I march on", "version 1.2.3", "2 may be enough", "13月1日", "192.168.1.10"]
        {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn times_are_read_against_the_day_on_which_they_were_said() {
        for (text, date) in [
            ("I got it yesterday", "2023-05-07"),
            ("today", "2023-05-08"),
            ("tomorrow", "2023-05-09"),
            ("the day before yesterday", "2023-05-06"),
            ("the day after tomorrow", "2023-05-10"),
            ("next Friday", "2023-05-12"),
            ("on friday", "2023-05-12"),
            ("this Friday", "2023-05-12"),
            ("last Friday", "2023-05-05"),
            ("next Monday", "2023-05-15"),
            ("in two weeks", "2023-05-22"),
            ("in 3 days", "2023-05-11"),
            ("a week ago", "2023-05-01"),
            ("two months ago", "2023-03-08"),
            ("three years ago", "2020-05-08"),
            ("last week", "2023-05-01"),
            ("last month", "2023-04"),
            ("next year", "2024"),
            ("昨天", "2023-05-07"),
            ("前天", "2023-05-06"),
            ("后天", "2023-05-10"),
            ("大后天", "2023-05-11"),
            ("下周一", "2023-05-15"),
            ("下周五", "2023-05-19"),
            ("这周五", "2023-05-12"),
            ("上周日", "2023-05-07"),
            ("周三", "2023-05-10"),
            ("下星期天", "2023-05-21"),
            ("上个月", "2023-04"),
            ("下个月", "2023-06"),
            ("去年", "2022"),
            ("三天前", "2023-05-05"),
            ("两周后", "2023-05-22"),
            ("3个月前", "2023-02-08"),
            ("明年3月", "2024-03"),
            ("去年10月2日", "2022-10-02"),
        ] {
            assert_eq!(read(text).as_deref(), Some(date), "{text}");
        }
        for text in ["every Friday", "on Fridays", "每周五", "yesterday's news was", "todays", "周末"] {
            assert_eq!(read(text).filter(|_| !text.starts_with("yesterday")), None, "{text}");
        }
    }

    #[test]
    fn a_year_turns() {
        let said_at = Time::parse("2024-12-30").expect("a date");
        let read = |text| find(text, said_at).map(|(_, when)| when.to_string());
        assert_eq!(read("in two weeks").as_deref(), Some("2025-01-13"));
        assert_eq!(read("next month").as_deref(), Some("2025-01"));
        assert_eq!(read("下个月").as_deref(), Some("2025-01"));
        assert_eq!(read("a month ago").as_deref(), Some("2024-11-30"));
    }

    #[test]
    fn a_value_is_a_date_only_when_it_is_nothing_else() {
        let said_at = Time::parse("2023-05-08").expect("a date");
        assert_eq!(whole("on the 3rd of May", said_at).map(|w| w.to_string()).as_deref(), Some("--05-03"));
        assert_eq!(whole("3 May at my aunt's", said_at), None);
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "\\PC{0,60}", said_at in proptest::num::i64::ANY) {
            let _ = find(&text, Time(said_at));
        }

        #[test]
        fn a_day_is_read_back_from_its_own_form(days in 0_i64..70_000) {
            let when = Time(days * 86_400_000);
            let date = day_of(when).expect("in range");
            proptest::prop_assert_eq!(find(&date.to_string(), Time(0)).map(|(_, w)| w), Some(When::Day(date)));
            proptest::prop_assert_eq!(When::Day(date).start(), Some(when));
        }
    }
}
