//! English times that are read against the day on which they were said.

use std::ops::Range;
use std::sync::LazyLock;

use jiff::civil::{Date, Weekday};
use jiff::{Span, ToSpan};
use regex::Regex;

use super::When;

const NUMBERS: [&str; 12] =
    ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"];

static FORM: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?xi)(?-u:\b)(?:
            (?P<word>(?:the\s)?day\sbefore\syesterday|(?:the\s)?day\safter\stomorrow|yesterday|today|tomorrow|tonight|last\snight|this\s(?:morning|afternoon|evening))
            |(?P<which>last|next|this|this\scoming|coming|on|past)\s(?P<day>mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?(?P<plural>s)?
            |(?P<period>last|next|this)\s(?P<unit>week|month|year)
            |(?P<n>\d{1,3}|an?|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|a\scouple\sof|a\sfew)\s(?P<of>day|week|month|year)s?\s(?P<ago>ago|from\snow|later)
            |in\s(?P<n2>\d{1,3}|an?|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|a\scouple\sof)\s(?P<of2>day|week|month|year)s?(?P<time>'|\stime)?
        )(?-u:\b)",
    )
    .expect("tested")
});

/// The first such time in a text.
pub(super) fn find(text: &str, today: Date) -> Option<(Range<usize>, When)> {
    FORM.captures_iter(text).find_map(|found| {
        let range = found.get(0)?.range();
        let when = if let Some(word) = found.name("word") {
            word_day(&word.as_str().to_ascii_lowercase(), today)?
        } else if let (Some(which), Some(day)) = (found.name("which"), found.name("day")) {
            // "On Fridays" is a habit.
            if found.name("plural").is_some() {
                return None;
            }
            let nth = if matches!(which.as_str().to_ascii_lowercase().as_str(), "last" | "past") { -1 } else { 1 };
            let day = weekday(day.as_str())?;
            if nth == 1 && today.weekday() == day && which.as_str().eq_ignore_ascii_case("this") {
                When::Day(today)
            } else {
                When::Day(today.nth_weekday(nth, day).ok()?)
            }
        } else if let (Some(which), Some(unit)) = (found.name("period"), found.name("unit")) {
            period(&which.as_str().to_ascii_lowercase(), unit.as_str(), today)?
        } else {
            let n = number(found.name("n").or_else(|| found.name("n2"))?.as_str())?;
            let unit = found.name("of").or_else(|| found.name("of2"))?.as_str();
            let span = span(n, unit)?;
            let back = found.name("ago").is_some_and(|m| m.as_str().eq_ignore_ascii_case("ago"));
            When::Day(if back { today.checked_sub(span).ok()? } else { today.checked_add(span).ok()? })
        };
        Some((range, when))
    })
}

fn word_day(word: &str, today: Date) -> Option<When> {
    let days = match word {
        w if w.ends_with("before yesterday") => -2,
        w if w.ends_with("after tomorrow") => 2,
        "yesterday" | "last night" => -1,
        "tomorrow" => 1,
        _ => 0,
    };
    today.checked_add(days.days()).ok().map(When::Day)
}

/// "Last week" is a week ago: which of its days is not said.
fn period(which: &str, unit: &str, today: Date) -> Option<When> {
    let by: i64 = match which {
        "last" => -1,
        "next" => 1,
        _ => 0,
    };
    let date = today.checked_add(span(by, unit)?).ok()?;
    Some(match unit.to_ascii_lowercase().as_str() {
        "week" => When::Day(date),
        "month" => When::Month(date.year(), date.month()),
        _ => When::Year(date.year()),
    })
}

fn number(word: &str) -> Option<i64> {
    let word = word.to_ascii_lowercase();
    match word.as_str() {
        "a" | "an" => Some(1),
        "a couple of" => Some(2),
        "a few" => Some(3),
        _ => word.parse().ok().or_else(|| (1..).zip(NUMBERS).find(|(_, n)| *n == word).map(|(n, _)| n)),
    }
}

/// So many units; saturates far from any date that is meant.
pub(super) fn span(n: i64, unit: &str) -> Option<Span> {
    let span = Span::new();
    match unit.to_ascii_lowercase().as_str() {
        "day" => span.try_days(n),
        "week" => span.try_weeks(n),
        "month" => span.try_months(n),
        _ => span.try_years(n),
    }
    .ok()
}

fn weekday(name: &str) -> Option<Weekday> {
    Some(match name.get(..3)?.to_ascii_lowercase().as_str() {
        "mon" => Weekday::Monday,
        "tue" => Weekday::Tuesday,
        "wed" => Weekday::Wednesday,
        "thu" => Weekday::Thursday,
        "fri" => Weekday::Friday,
        "sat" => Weekday::Saturday,
        _ => Weekday::Sunday,
    })
}
