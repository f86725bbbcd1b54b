//! English phrases, and dates in digits.

use jiff::civil::Weekday;

use super::{Season, Span, Today, Unit, year_number};

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

/// Words that can make a month, a season or a year of what follows.
const PLACES: [&str; 12] = ["in", "of", "on", "since", "during", "last", "this", "early", "late", "by", "from", "past"];

const NUMBERS: [&str; 13] =
    ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"];

/// The words of a text, as far as anyone looks.
struct Words<'a>(Vec<&'a str>);

impl<'a> Words<'a> {
    fn at(&self, at: usize) -> &'a str {
        self.0.get(at).copied().unwrap_or_default()
    }

    fn before(&self, at: usize, back: usize) -> &'a str {
        at.checked_sub(back).map_or("", |at| self.at(at))
    }

    /// Whether these words stand in a row.
    fn has(&self, phrase: &[&str]) -> bool {
        self.0.windows(phrase.len()).any(|words| words[0] == phrase[0] && words == phrase)
    }
}

pub(super) fn parse(text: &str, today: Today) -> Option<Span> {
    let words: Vec<&str> = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    // Most questions are told at a glance to have none of the phrases.
    if !words.iter().any(|word| may_be_time(word)) {
        return None;
    }
    let words = Words(words);
    days(&words, today)
        .or_else(|| month(&words, today))
        .or_else(|| season(&words, today))
        .or_else(|| counted(&words, today))
        .or_else(|| named(&words, today))
        .or_else(|| weekday(&words, today))
        .or_else(|| in_digits(text, today))
        .or_else(|| year(&words, today))
}

/// Whether a word stands in a phrase of time, and with it one of each phrase.
fn may_be_time(word: &str) -> bool {
    if word.len() < 3 {
        return false;
    }
    if word.as_bytes()[0].is_ascii_digit() {
        // Of bare numbers only a year makes a time by itself.
        return year_number(word).is_some() || !word.bytes().all(|byte| byte.is_ascii_digit());
    }
    let word = word.strip_suffix('s').unwrap_or(word);
    matches!(
        word,
        "yesterday" | "night" | "today" | "morning" | "weekend" | "spring" | "summer" | "autumn" | "fall" | "winter"
    ) || word.ends_with("day")
        || unit(word).is_some()
        || MONTHS.iter().any(|month| *month == word || (word.len() == 3 && month.starts_with(word)))
}

fn days(words: &Words<'_>, today: Today) -> Option<Span> {
    if words.has(&["day", "before", "yesterday"]) {
        today.day(2)
    } else if words.has(&["yesterday"]) || words.has(&["last", "night"]) {
        today.day(1)
    } else if words.has(&["today"]) || words.has(&["this", "morning"]) {
        today.day(0)
    } else {
        None
    }
}

/// "last weekend", "this month".
fn named(words: &Words<'_>, today: Today) -> Option<Span> {
    if words.has(&["last", "weekend"]) {
        let Span { to, .. } = today.whole(Unit::Week, 1)?;
        return Some(Span { from: to.plus_seconds(-2 * 86_400), to });
    }
    [("week", Unit::Week), ("month", Unit::Month), ("year", Unit::Year)].into_iter().find_map(|(name, unit)| {
        let ago = i64::from(words.has(&["last", name]));
        (ago == 1 || words.has(&["this", name])).then(|| today.whole(unit, ago))?
    })
}

/// "three days ago", "a couple of weeks ago", "in the last ten days".
fn counted(words: &Words<'_>, today: Today) -> Option<Span> {
    words.0.iter().enumerate().find_map(|(at, word)| {
        let unit = unit(word)?;
        let mut start = at.checked_sub(1)?;
        let n = match words.at(start) {
            "of" if words.before(at, 2) == "couple" => {
                start = at.checked_sub(2)?;
                2
            }
            word => number(word)?,
        };
        if words.at(at + 1) == "ago" {
            return today.ago(n, unit);
        }
        matches!(words.before(start, 1), "last" | "past").then(|| today.last(n, unit))?
    })
}

fn unit(word: &str) -> Option<Unit> {
    Some(match word.strip_suffix('s').unwrap_or(word) {
        "day" => Unit::Day,
        "week" => Unit::Week,
        "month" => Unit::Month,
        "year" => Unit::Year,
        _ => return None,
    })
}

fn number(word: &str) -> Option<i64> {
    if matches!(word, "a" | "an") {
        return Some(1);
    }
    let spelt = NUMBERS.iter().position(|number| *number == word).and_then(|n| i64::try_from(n).ok());
    spelt.or_else(|| word.parse().ok()).filter(|n| (1..=10_000).contains(n))
}

/// "last Friday", "on Friday".
fn weekday(words: &Words<'_>, today: Today) -> Option<Span> {
    words.0.iter().enumerate().find_map(|(at, word)| {
        let day = match *word {
            "monday" => Weekday::Monday,
            "tuesday" => Weekday::Tuesday,
            "wednesday" => Weekday::Wednesday,
            "thursday" => Weekday::Thursday,
            "friday" => Weekday::Friday,
            "saturday" => Weekday::Saturday,
            "sunday" => Weekday::Sunday,
            _ => return None,
        };
        matches!(words.before(at, 1), "last" | "on" | "this" | "past").then(|| today.weekday(day))?
    })
}

/// "last summer", "this spring", "the summer of 2022", "in the winter".
fn season(words: &Words<'_>, today: Today) -> Option<Span> {
    words.0.iter().enumerate().find_map(|(at, word)| {
        let season = match *word {
            "spring" => Season::SPRING,
            "summer" => Season::SUMMER,
            "autumn" | "fall" => Season::AUTUMN,
            "winter" => Season::WINTER,
            _ => return None,
        };
        let year = [words.at(at + 1), words.at(at + 2), words.before(at, 1)].into_iter().find_map(year_number);
        let year = year.or_else(|| relative_year(words, at, today));
        if let Some((from, to)) = year.and_then(|year| season.of(year)) {
            return Span::days(from, to);
        }
        match (words.before(at, 2), words.before(at, 1)) {
            (_, "last" | "past") => today.past(season),
            (_, "this") | ("in" | "during" | "since", "the") => today.begun(season),
            _ => None,
        }
    })
}

/// "in May", "May 2023", "8 May 2023", "May last year".
fn month(words: &Words<'_>, today: Today) -> Option<Span> {
    words.0.iter().enumerate().find_map(|(at, word)| {
        let month = MONTHS.iter().position(|month| month == word || (word.len() == 3 && month.starts_with(word)))?;
        let day = [words.before(at, 1), words.at(at + 1)].into_iter().find_map(day_number);
        let year = [words.at(at + 1), words.at(at + 2)].into_iter().find_map(year_number);
        let year = year.or_else(|| relative_year(words, at, today));
        // "may" and "march" are verbs too: a month only after "in", "of", "on" and the like, or beside a number.
        let mut placed = PLACES.contains(&words.before(at, 1));
        if (*word, words.before(at, 1)) == ("may", "this") {
            // "This may be wrong": it is the month where nothing follows.
            placed = words.at(at + 1).is_empty();
        }
        let month = i8::try_from(month + 1).ok()?;
        (placed || day.is_some() || year.is_some()).then(|| today.month(year, month, day))?
    })
}

/// The year of "… last year", "… of this year" behind a word.
fn relative_year(words: &Words<'_>, at: usize, today: Today) -> Option<i16> {
    let from = at + 1 + usize::from(words.at(at + 1) == "of");
    let ago = match (words.at(from), words.at(from + 1)) {
        ("last", "year") => 1,
        ("this", "year") => 0,
        _ => return None,
    };
    today.year(ago).map(|first| first.year())
}

/// The first, 8 and 8th; not the 2023 of a year.
fn day_number(word: &str) -> Option<i8> {
    let digits = word.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    digits.parse().ok().filter(|day| (1..=31).contains(day))
}

/// "2023-05-08", "2023/5/8".
fn in_digits(text: &str, today: Today) -> Option<Span> {
    text.split(|c: char| !(c.is_ascii_digit() || matches!(c, '-' | '/'))).find_map(|word| {
        let mut parts = word.split(['-', '/']);
        let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
        let (year, month) = (year_number(year)?, month.parse().ok()?);
        if parts.next().is_some() || !(1..=12).contains(&month) {
            return None;
        }
        today.month(Some(year), month, Some(day_number(day)?))
    })
}

/// "in 2021": a bare number is anything.
fn year(words: &Words<'_>, today: Today) -> Option<Span> {
    words.0.iter().enumerate().find_map(|(at, word)| {
        let year = year_number(word).filter(|_| PLACES.contains(&words.before(at, 1)))?;
        today.of_year(year)
    })
}
