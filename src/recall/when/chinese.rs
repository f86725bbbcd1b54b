//! Chinese phrases, in simplified characters, with numbers in digits and in characters.

use jiff::civil::Weekday;

use super::{Season, Span, Today, Unit, year_number};

pub(super) fn parse(text: &str, today: Today) -> Option<Span> {
    let has = |phrases: &[&str]| phrases.iter().any(|phrase| text.contains(phrase));
    // 三天前天气 … is of three days ago.
    if let Some(span) = counted(text, today) {
        return Some(span);
    }
    if has(&["大前天"]) {
        return today.day(3);
    }
    if has_before_last(text, '天') {
        return today.day(2);
    }
    for (phrase, ago) in [("昨天", 1), ("昨晚", 1), ("今天", 0), ("今早", 0)] {
        if text.contains(phrase) {
            return today.day(ago);
        }
    }
    let year = relative_year(text, today);
    if let Some(span) = season(text, year, today).or_else(|| month(text, year, today)) {
        return Some(span);
    }
    if has(&["上周末", "上个周末"]) {
        let Span { to, .. } = today.whole(Unit::Week, 1)?;
        return Some(Span { from: to.plus_seconds(-2 * 86_400), to });
    }
    if let Some(span) = weekday(text, today) {
        return Some(span);
    }
    let week = |ago| today.whole(Unit::Week, ago);
    if has(&["上上周", "上上个星期", "上上星期"]) {
        return week(2);
    }
    if has(&["上周", "上星期", "上个星期", "上礼拜", "上个礼拜"]) {
        return week(1);
    }
    if has(&["本周", "这周", "这个星期", "这星期"]) {
        return week(0);
    }
    if has(&["上个月", "上月"]) {
        return today.whole(Unit::Month, 1);
    }
    if has(&["这个月", "本月"]) {
        return today.whole(Unit::Month, 0);
    }
    year.or_else(|| numbered_year(text)).and_then(|year| today.of_year(year))
}

/// 三天前, 两个星期前, 半年以前, 最近十天.
fn counted(text: &str, today: Today) -> Option<Span> {
    for (name, unit) in [
        ("天", Unit::Day),
        ("周", Unit::Week),
        ("星期", Unit::Week),
        ("礼拜", Unit::Week),
        ("月", Unit::Month),
        ("年", Unit::Year),
    ] {
        for (at, _) in text.match_indices(name) {
            let (before, after) = (&text[..at], &text[at + name.len()..]);
            // 三月 is March, 三个月 are three months.
            let (before, counts) = match before.strip_suffix('个') {
                Some(before) => (before, true),
                None => (before, unit != Unit::Month),
            };
            let (head, n) = trailing_number(before);
            let (n, unit) = match n {
                Some(n) if counts => (n, unit),
                None if unit == Unit::Year && before.ends_with('半') => (6, Unit::Month),
                _ => continue,
            };
            if ["前", "以前", "之前"].iter().any(|word| after.starts_with(word)) {
                return today.ago(n, unit);
            }
            if ["最近", "过去", "近"].iter().any(|word| head.ends_with(word)) {
                return today.last(n, unit);
            }
        }
    }
    None
}

/// 前天, 前年: not those in 几天前天气 … and 几年前年轻 ….
fn has_before_last(text: &str, unit: char) -> bool {
    text.match_indices('前').any(|(at, name)| {
        let (before, after) = (&text[..at], &text[at + name.len()..]);
        let is_counted = before.ends_with(unit) && !before.ends_with("昨天") && !before.ends_with("去年");
        after.starts_with(unit) && !is_counted
    })
}

fn relative_year(text: &str, today: Today) -> Option<i16> {
    let ago = match () {
        () if has_before_last(text, '年') => 2,
        () if text.contains("去年") => 1,
        () if text.contains("今年") => 0,
        () => return None,
    };
    today.year(ago).map(|first| first.year())
}

/// 2021年.
fn numbered_year(text: &str) -> Option<i16> {
    text.match_indices('年').find_map(|(at, _)| year_number(trailing_digits(&text[..at])))
}

/// 去年夏天, 2022年冬天: only with its year.
fn season(text: &str, year: Option<i16>, today: Today) -> Option<Span> {
    let seasons = [("春", Season::SPRING), ("夏", Season::SUMMER), ("秋", Season::AUTUMN), ("冬", Season::WINTER)];
    let (_, season) =
        seasons.into_iter().find(|(name, _)| ["天", "季"].iter().any(|end| text.contains(&format!("{name}{end}"))))?;
    match year.or_else(|| numbered_year(text)) {
        Some(year) => season.of(year).and_then(|(from, to)| Span::days(from, to)),
        None => today.begun(season),
    }
}

/// 5月, 五月八号, 2023年5月8日.
fn month(text: &str, year: Option<i16>, today: Today) -> Option<Span> {
    text.match_indices('月').find_map(|(at, name)| {
        let (before, after) = (&text[..at], &text[at + name.len()..]);
        let (head, month) = trailing_number(before);
        let month = i8::try_from(month?).ok().filter(|month| (1..=12).contains(month))?;
        let own = head.strip_suffix('年').map(trailing_digits).and_then(year_number);
        let day = after.split_once(['日', '号']).and_then(|(day, _)| match trailing_number(day.trim()) {
            ("", Some(day)) => i8::try_from(day).ok(),
            _ => None,
        });
        today.month(own.or(year), month, day)
    })
}

/// 上周三, 星期一, 周末 is none.
fn weekday(text: &str, today: Today) -> Option<Span> {
    ["周", "星期", "礼拜"].into_iter().find_map(|name| {
        text.match_indices(name).find_map(|(at, _)| {
            let day = match text[at + name.len()..].chars().next()? {
                '一' => Weekday::Monday,
                '二' => Weekday::Tuesday,
                '三' => Weekday::Wednesday,
                '四' => Weekday::Thursday,
                '五' => Weekday::Friday,
                '六' => Weekday::Saturday,
                '日' | '天' => Weekday::Sunday,
                _ => return None,
            };
            let before = &text[..at];
            if !before.ends_with('上') && !before.ends_with("上个") {
                return today.weekday(day);
            }
            let Span { from, .. } = today.whole(Unit::Week, 1)?;
            let from = from.plus_seconds(i64::from(day.since(Weekday::Monday)) * 86_400);
            Some(Span { from, to: from.plus_seconds(86_400) })
        })
    })
}

/// The number at the end of a text, and what stands before it: in digits, or in characters up to 99.
fn trailing_number(text: &str) -> (&str, Option<i64>) {
    let digits = trailing_digits(text);
    if !digits.is_empty() {
        return (&text[..text.len() - digits.len()], digits.parse().ok().filter(|n| (1..=10_000).contains(n)));
    }
    let value = |c: char| match c {
        '两' => Some(2),
        c => "零一二三四五六七八九".chars().position(|other| other == c).and_then(|n| i64::try_from(n).ok()),
    };
    let start = text.char_indices().rev().take_while(|&(_, c)| c == '十' || value(c).is_some()).last();
    let Some((start, _)) = start else { return (text, None) };
    let (head, number) = text.split_at(start);
    let n = match number.split_once('十') {
        None => single(number, value),
        Some((tens, ones)) => {
            let tens = if tens.is_empty() { Some(1) } else { single(tens, value) };
            let ones = if ones.is_empty() { Some(0) } else { single(ones, value) };
            tens.zip(ones).map(|(tens, ones)| tens * 10 + ones)
        }
    };
    (head, n.filter(|&n| n > 0))
}

fn single(text: &str, value: impl Fn(char) -> Option<i64>) -> Option<i64> {
    let mut chars = text.chars();
    let n = value(chars.next()?)?;
    chars.next().is_none().then_some(n)
}

fn trailing_digits(text: &str) -> &str {
    let start = text
        .rfind(|c: char| !c.is_ascii_digit())
        .map_or(0, |at| at + text[at..].chars().next().map_or(1, char::len_utf8));
    &text[start..]
}
