//! The time that a question asks for, in English and Chinese: "last week", "in May", "昨天", "上个月".
//!
//! Small on purpose: it only ever lends a bounded boost, so a phrase that it does not know costs nothing.

use jiff::civil::{Date, Weekday};
use jiff::tz::Offset;
use jiff::{Timestamp, ToSpan};

use crate::base::Time;

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

/// Reads the first time phrase of a folded text, reckoned from `now` in UTC.
pub(super) fn parse(text: &str, now: Time) -> Option<Span> {
    // Time phrases stand in questions of ordinary length; a pasted document is full of dates that nobody asks for.
    if text.len() > 600 {
        return None;
    }
    let words: Vec<&str> = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let today = Offset::UTC.to_datetime(Timestamp::from_millisecond(now.0).ok()?).date();
    // Most questions are told at a glance to have none of the phrases.
    let may_be_relative = !text.is_ascii() || words.iter().any(|word| RELATIVE.contains(word));
    let relative = if may_be_relative { relative(text, today) } else { None };
    relative.or_else(|| absolute(text, &words, today))
}

/// Each English phrase of [`relative`] has one of these.
const RELATIVE: [&str; 8] = ["yesterday", "night", "today", "morning", "weekend", "week", "month", "year"];

fn relative(text: &str, today: Date) -> Option<Span> {
    let has = |phrases: &[&str]| phrases.iter().any(|phrase| contains(text, phrase));
    let back = |days: i64| today.checked_sub(days.days()).ok();
    let ahead = |days: i64| today.checked_add(days.days()).ok();
    if has(&["day before yesterday", "前天"]) {
        return Span::days(back(2)?, back(1)?);
    }
    if has(&["yesterday", "last night", "昨天", "昨晚"]) {
        return Span::days(back(1)?, today);
    }
    if has(&["today", "this morning", "今天", "今早"]) {
        return Span::days(today, ahead(1)?);
    }
    let monday = back(i64::from(today.weekday().since(Weekday::Monday)))?;
    let week = |weeks: i64| monday.checked_add((weeks * 7).days()).ok();
    if has(&["last weekend", "上周末"]) {
        return Span::days(monday.checked_sub(2.days()).ok()?, monday);
    }
    if has(&["last week", "上周", "上星期", "上个星期", "上礼拜"]) {
        return Span::days(week(-1)?, monday);
    }
    if has(&["this week", "本周", "这周", "这个星期"]) {
        return Span::days(monday, week(1)?);
    }
    let first = today.first_of_month();
    if has(&["last month", "上个月", "上月"]) {
        return Span::days(first.checked_sub(1.month()).ok()?, first);
    }
    if has(&["this month", "这个月", "本月"]) {
        return Span::days(first, first.checked_add(1.month()).ok()?);
    }
    let january = Date::new(today.year(), 1, 1).ok()?;
    if has(&["last year", "去年"]) {
        return Span::days(january.checked_sub(1.year()).ok()?, january);
    }
    if has(&["this year", "今年"]) {
        return Span::days(january, january.checked_add(1.year()).ok()?);
    }
    None
}

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];

/// "in May", "May 2023", "8 May 2023", "2023-05-08", "2023年5月", "5月". A bare month is the last one that has begun.
fn absolute(text: &str, words: &[&str], today: Date) -> Option<Span> {
    for (at, word) in words.iter().enumerate() {
        let Some(month) = MONTHS.iter().position(|month| month == word || (word.len() == 3 && month.starts_with(word)))
        else {
            continue;
        };
        let near = |back: usize| at.checked_sub(back).and_then(|at| words.get(at)).copied();
        let after = |ahead: usize| words.get(at + ahead).copied();
        let day = [near(1), after(1)].into_iter().flatten().find_map(day_number);
        let year = [after(1), after(2)].into_iter().flatten().find_map(year_number);
        // "may" and "march" are verbs too: a month only after "in", "of", "on" and the like, or beside a number.
        let placed = matches!(
            near(1),
            Some("in" | "of" | "on" | "since" | "during" | "last" | "this" | "early" | "late" | "by")
        );
        if placed || day.is_some() || year.is_some() {
            return month_span(year, i8::try_from(month + 1).ok()?, day, today);
        }
    }
    chinese(text, today)
}

fn day_number(word: &str) -> Option<i8> {
    let digits = word.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    digits.parse().ok().filter(|day| (1..=31).contains(day))
}

fn year_number(word: &str) -> Option<i16> {
    word.parse().ok().filter(|year| (1900..=2200).contains(year))
}

fn chinese(text: &str, today: Date) -> Option<Span> {
    let (before, after) = text.split_once('月')?;
    let month_digits = trailing_digits(before);
    let month: i8 = month_digits.parse().ok().filter(|month| (1..=12).contains(month))?;
    let year =
        before[..before.len() - month_digits.len()].strip_suffix('年').map(trailing_digits).and_then(year_number);
    let day = after.split_once(['日', '号']).and_then(|(day, _)| day_number(day.trim()));
    month_span(year, month, day, today)
}

fn trailing_digits(text: &str) -> &str {
    let start = text
        .rfind(|c: char| !c.is_ascii_digit())
        .map_or(0, |at| at + text[at..].chars().next().map_or(1, char::len_utf8));
    &text[start..]
}

fn month_span(year: Option<i16>, month: i8, day: Option<i8>, today: Date) -> Option<Span> {
    let begun = month <= today.month();
    let year = year.unwrap_or(if begun { today.year() } else { today.year() - 1 });
    if let Some(date) = day.and_then(|day| Date::new(year, month, day).ok()) {
        return Span::days(date, date.checked_add(1.day()).ok()?);
    }
    let first = Date::new(year, month, 1).ok()?;
    Span::days(first, first.checked_add(1.month()).ok()?)
}

/// Whether `phrase` stands in `text` as whole words.
fn contains(text: &str, phrase: &str) -> bool {
    text.match_indices(phrase).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + phrase.len()..].chars().next();
        !phrase.is_ascii()
            || !(before.is_some_and(char::is_alphanumeric) || after.is_some_and(|c| c.is_alphanumeric() || c == '\''))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(text: &str) -> Option<(String, String)> {
        let now = Time::parse("2024-05-15T10:00:00Z").unwrap(); // a Wednesday
        parse(&crate::memory::text::fold(text.into()), now)
            .map(|span| (span.from.to_rfc3339()[..10].to_owned(), span.to.to_rfc3339()[..10].to_owned()))
    }

    #[test]
    fn phrases_are_reckoned_from_now() {
        for (text, from, to) in [
            ("What did I buy yesterday?", "2024-05-14", "2024-05-15"),
            ("我上个月买了什么", "2024-04-01", "2024-05-01"),
            ("where was I last week", "2024-05-06", "2024-05-13"),
            ("the meeting in March", "2024-03-01", "2024-04-01"),
            ("the trip in August", "2023-08-01", "2023-09-01"),
            ("on 8 May 2023", "2023-05-08", "2023-05-09"),
            ("on May 8th", "2024-05-08", "2024-05-09"),
            ("2023年5月8日去了哪里", "2023-05-08", "2023-05-09"),
            ("去年夏天", "2023-01-01", "2024-01-01"),
        ] {
            assert_eq!(span(text), Some((from.to_owned(), to.to_owned())), "{text}");
        }
    }

    #[test]
    fn words_that_only_look_like_times_are_none() {
        for text in ["may I ask you something", "they march on", "岁月如歌", "", "99月"] {
            assert_eq!(span(text), None, "{text}");
        }
    }
}
