//! The time that a question asks for, in English and Chinese: "last week", "in May", "three days ago", "昨天", "上个月", "去年夏天".
//!
//! Small on purpose: it only ever lends a bounded boost, so a phrase that it does not know costs nothing. Times are reckoned in UTC.

mod chinese;
mod english;

use jiff::civil::{Date, Weekday};
use jiff::tz::Offset;
use jiff::{Timestamp, ToSpan};

use crate::base::Time;

/// Time phrases stand in questions of ordinary length, in bytes; a pasted document is full of dates that nobody asks for.
const MAX_BYTES: usize = 600;
/// Phrases that go back further than this, in days, are about nothing that is remembered here.
const MAX_BACK: i64 = 100 * 366;

/// A stretch of time; the end is not in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    from: Time,
    to: Time,
}

impl Span {
    pub(super) fn holds(self, time: Time) -> bool {
        self.from <= time && time < self.to
    }

    fn days(from: Date, to: Date) -> Option<Self> {
        Some(Self { from: midnight(from)?, to: midnight(to)? })
    }
}

fn midnight(date: Date) -> Option<Time> {
    let timestamp = Offset::UTC.to_timestamp(date.at(0, 0, 0, 0)).ok()?;
    Some(Time(timestamp.as_millisecond()))
}

/// Reads a time phrase of a folded text, reckoned from `now`.
pub(super) fn parse(text: &str, now: Time) -> Option<Span> {
    if text.len() > MAX_BYTES {
        return None;
    }
    let today = Today(Offset::UTC.to_datetime(Timestamp::from_millisecond(now.0).ok()?).date());
    let found = if text.is_ascii() { None } else { chinese::parse(text, today) };
    found.or_else(|| english::parse(text, today))
}

/// A stretch that has a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Day,
    Week,
    Month,
    Year,
}

/// A season of the northern half of the world, by its first month.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Season(i8);

impl Season {
    const SPRING: Self = Self(3);
    const SUMMER: Self = Self(6);
    const AUTUMN: Self = Self(9);
    const WINTER: Self = Self(12);

    /// The one that begins in a year.
    fn of(self, year: i16) -> Option<(Date, Date)> {
        let first = Date::new(year, self.0, 1).ok()?;
        Some((first, first.checked_add(3.months()).ok()?))
    }
}

/// The day from which all is reckoned.
#[derive(Clone, Copy, Debug)]
struct Today(Date);

impl Today {
    fn back(self, days: i64) -> Option<Date> {
        if days.abs() > MAX_BACK {
            return None;
        }
        self.0.checked_sub(days.days()).ok()
    }

    /// One day, so many days ago.
    fn day(self, ago: i64) -> Option<Span> {
        Span::days(self.back(ago)?, self.back(ago - 1)?)
    }

    /// The week, month or year that is so many before the one that is now.
    fn whole(self, unit: Unit, ago: i64) -> Option<Span> {
        if ago > MAX_BACK {
            return None;
        }
        let (first, next) = match unit {
            Unit::Day => return self.day(ago),
            Unit::Week => {
                let monday = self.back(i64::from(self.0.weekday().since(Weekday::Monday)) + 7 * ago)?;
                (monday, monday.checked_add(7.days()).ok()?)
            }
            Unit::Month => {
                let first = self.0.first_of_month().checked_sub(ago.months()).ok()?;
                (first, first.checked_add(1.month()).ok()?)
            }
            Unit::Year => {
                let first = self.year(ago)?;
                (first, first.checked_add(1.year()).ok()?)
            }
        };
        Span::days(first, next)
    }

    /// The first day of the year so many years ago.
    fn year(self, ago: i64) -> Option<Date> {
        Date::new(self.0.year().checked_sub(i16::try_from(ago).ok()?)?, 1, 1).ok()
    }

    /// About so many of a unit ago: half a unit to either side; a day and a year are meant as such.
    fn ago(self, n: i64, unit: Unit) -> Option<Span> {
        let (days, slack) = match unit {
            Unit::Day | Unit::Year => return self.whole(unit, n),
            Unit::Week => (n.checked_mul(7)?, 3),
            Unit::Month => (i64::from(self.0.since(self.0.checked_sub(n.months()).ok()?).ok()?.get_days()), 15),
        };
        Span::days(self.back(days.checked_add(slack)?)?, self.back(days - slack - 1)?)
    }

    /// The last so many days, weeks, months or years, today included.
    fn last(self, n: i64, unit: Unit) -> Option<Span> {
        let days = match unit {
            Unit::Day => n,
            Unit::Week => n.checked_mul(7)?,
            Unit::Month => n.checked_mul(31)?,
            Unit::Year => n.checked_mul(366)?,
        };
        Span::days(self.back(days)?, self.back(-1)?)
    }

    /// The last such weekday before today.
    fn weekday(self, day: Weekday) -> Option<Span> {
        let ago = i64::from(self.0.weekday().since(day));
        self.day(if ago == 0 { 7 } else { ago })
    }

    /// The last such season that is over.
    fn past(self, season: Season) -> Option<Span> {
        let over = (0..3).find_map(|ago| season.of(self.0.year() - ago).filter(|(_, end)| *end <= self.0));
        over.and_then(|(from, to)| Span::days(from, to))
    }

    /// The last such season that has begun.
    fn begun(self, season: Season) -> Option<Span> {
        let begun = (0..3).find_map(|ago| season.of(self.0.year() - ago).filter(|(start, _)| *start <= self.0));
        begun.and_then(|(from, to)| Span::days(from, to))
    }

    /// A month, or a day of it. Without a year, the last that has begun: nobody remembers what is to come.
    fn month(self, year: Option<i16>, month: i8, day: Option<i8>) -> Option<Span> {
        let begun = (month, day.unwrap_or(1)) <= (self.0.month(), self.0.day());
        let year = year.unwrap_or(if begun { self.0.year() } else { self.0.year() - 1 });
        if let Some(date) = day.and_then(|day| Date::new(year, month, day).ok()) {
            return Span::days(date, date.checked_add(1.day()).ok()?);
        }
        let first = Date::new(year, month, 1).ok()?;
        Span::days(first, first.checked_add(1.month()).ok()?)
    }

    fn of_year(self, year: i16) -> Option<Span> {
        let first = Date::new(year, 1, 1).ok()?;
        Span::days(first, first.checked_add(1.year()).ok()?)
    }
}

fn year_number(word: &str) -> Option<i16> {
    word.parse().ok().filter(|year| (1900..=2200).contains(year))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(text: &str) -> Option<(String, String)> {
        let now = Time::parse("2024-05-15T10:00:00Z").unwrap(); // a Wednesday
        parse(&crate::memory::text::fold(text.into()), now)
            .map(|span| (span.from.to_rfc3339()[..10].to_owned(), span.to.to_rfc3339()[..10].to_owned()))
    }

    fn check(cases: &[(&str, &str, &str)]) {
        for &(text, from, to) in cases {
            assert_eq!(span(text), Some((from.to_owned(), to.to_owned())), "{text}");
        }
    }

    #[test]
    fn english_phrases_are_reckoned_from_now() {
        check(&[
            ("What did I buy yesterday?", "2024-05-14", "2024-05-15"),
            ("the day before yesterday", "2024-05-13", "2024-05-14"),
            ("what happened last night", "2024-05-14", "2024-05-15"),
            ("this morning", "2024-05-15", "2024-05-16"),
            ("where was I last week", "2024-05-06", "2024-05-13"),
            ("last weekend", "2024-05-11", "2024-05-13"),
            ("what did I do two days ago", "2024-05-13", "2024-05-14"),
            ("about 3 weeks ago", "2024-04-21", "2024-04-28"),
            ("a month ago", "2024-03-31", "2024-05-01"),
            ("a couple of years ago", "2022-01-01", "2023-01-01"),
            ("in the last 10 days", "2024-05-05", "2024-05-16"),
            ("over the past two weeks", "2024-05-01", "2024-05-16"),
            ("last month", "2024-04-01", "2024-05-01"),
            ("what did we plan this year", "2024-01-01", "2025-01-01"),
            ("last summer", "2023-06-01", "2023-09-01"),
            ("last winter", "2023-12-01", "2024-03-01"),
            ("this spring", "2024-03-01", "2024-06-01"),
            ("the summer of 2022", "2022-06-01", "2022-09-01"),
            ("last Friday", "2024-05-10", "2024-05-11"),
            ("what did I say on Wednesday", "2024-05-08", "2024-05-09"),
            ("the meeting in March", "2024-03-01", "2024-04-01"),
            ("the trip in August", "2023-08-01", "2023-09-01"),
            ("in May last year", "2023-05-01", "2023-06-01"),
            ("on 8 May 2023", "2023-05-08", "2023-05-09"),
            ("on May 8th", "2024-05-08", "2024-05-09"),
            ("on May 15", "2024-05-15", "2024-05-16"),
            ("on May 20", "2023-05-20", "2023-05-21"),
            ("what did we plan this May?", "2024-05-01", "2024-06-01"),
            ("what about 2023-05-08?", "2023-05-08", "2023-05-09"),
            ("on 2023/5/8", "2023-05-08", "2023-05-09"),
            ("where did we go in 2021?", "2021-01-01", "2022-01-01"),
        ]);
    }

    #[test]
    fn chinese_phrases_are_reckoned_from_now() {
        check(&[
            ("我昨天买了什么", "2024-05-14", "2024-05-15"),
            ("前天", "2024-05-13", "2024-05-14"),
            ("大前天说了什么", "2024-05-12", "2024-05-13"),
            ("三天前我去了哪里", "2024-05-12", "2024-05-13"),
            ("三天前天气怎么样", "2024-05-12", "2024-05-13"),
            ("昨天前天都下雨", "2024-05-13", "2024-05-14"),
            ("三年前年初的事", "2021-01-01", "2022-01-01"),
            ("3天前", "2024-05-12", "2024-05-13"),
            ("两周前", "2024-04-28", "2024-05-05"),
            ("两个星期前", "2024-04-28", "2024-05-05"),
            ("十二天以前", "2024-05-03", "2024-05-04"),
            ("半年前", "2023-10-31", "2023-12-01"),
            ("一个月前", "2024-03-31", "2024-05-01"),
            ("最近十天", "2024-05-05", "2024-05-16"),
            ("上周", "2024-05-06", "2024-05-13"),
            ("上上周", "2024-04-29", "2024-05-06"),
            ("上周末", "2024-05-11", "2024-05-13"),
            ("上周三", "2024-05-08", "2024-05-09"),
            ("星期一", "2024-05-13", "2024-05-14"),
            ("我上个月买了什么", "2024-04-01", "2024-05-01"),
            ("去年", "2023-01-01", "2024-01-01"),
            ("前年", "2022-01-01", "2023-01-01"),
            ("去年五月", "2023-05-01", "2023-06-01"),
            ("今年3月", "2024-03-01", "2024-04-01"),
            ("去年夏天", "2023-06-01", "2023-09-01"),
            ("前年冬天", "2022-12-01", "2023-03-01"),
            ("十二月", "2023-12-01", "2024-01-01"),
            ("2023年5月8日去了哪里", "2023-05-08", "2023-05-09"),
            ("五月八号", "2024-05-08", "2024-05-09"),
            ("2021年我在哪里工作", "2021-01-01", "2022-01-01"),
            ("２０２３年５月", "2023-05-01", "2023-06-01"),
        ]);
    }

    #[test]
    fn words_that_only_look_like_times_are_none() {
        for text in [
            "may I ask you something",
            "I think this may be wrong",
            "几天前天气很好",
            "他们几年前年纪还小",
            "they march on",
            "岁月如歌",
            "",
            "99月",
            "三个月大的猫",
            "I fall asleep on the sofa",
            "a spring in the mattress",
            "order 2023 widgets",
            "room 2021",
            "two weeks of holidays",
            "0天前",
            "99999999999999999999 days ago",
            "999999999 years ago",
            "九百万年前",
            "周到的服务",
            "month after month",
        ] {
            assert_eq!(span(text), None, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read(text in "([0-9]{1,5}|[a-z]{1,6}|[天周月年前去上最近一二十百半个星期]|last|ago|days| |-){0,12}", now in proptest::num::i64::ANY) {
            let _ = parse(&text, Time(now));
        }
    }
}
