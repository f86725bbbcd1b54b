//! Chinese dates, with and without a day to be read against.

use std::ops::Range;
use std::sync::LazyLock;

use jiff::ToSpan;
use jiff::civil::{Date, Weekday};
use regex::{Captures, Regex};

use super::When;
use super::relative::span;

const DIGITS: &str = r"[0-9〇零一二两三四五六七八九十]";

static FORM: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = r"(?x)
        (?:(?P<year>[0-9〇零一二三四五六七八九]{4})年|(?P<of>去年|前年|今年|明年|后年))?的?(?P<month>D{1,3})月(?:份)?(?:(?P<day>D{1,3})[日号號])?
        |(?P<alone>[0-9]{4})年(?:出生|生)?
        |(?P<word>大前天|前天|昨天|昨晚|今天|今晚|明天|明晚|大后天|后天)
        |(?P<hold>每)?(?P<which>上|下|这|本|這)?个?(?:周|星期|礼拜)(?P<weekday>[一二三四五六日天])
        |(?P<period>上上|上|下|这|本)个?(?P<unit>月|周|星期|礼拜)
        |(?P<years>去年|前年|今年|明年|后年)
        |(?P<n>D{1,3})个?(?P<of2>天|周|星期|礼拜|月|年)(?:之|以)?(?P<side>前|后|後)";
    Regex::new(&pattern.replace('D', DIGITS)).expect("tested")
});

/// The first date in a text.
pub(super) fn find(text: &str, today: Date) -> Option<(Range<usize>, When)> {
    if text.is_ascii() {
        return None;
    }
    FORM.captures_iter(text).find_map(|found| Some((found.get(0)?.range(), read(&found, today)?)))
}

fn read(found: &Captures<'_>, today: Date) -> Option<When> {
    let name = |name: &str| found.name(name).map(|m| m.as_str());
    if let Some(month) = name("month") {
        let month = i8::try_from(number(month)?).ok()?;
        let year = match (name("year"), name("of")) {
            (Some(year), _) => Some(digits(year)?),
            (_, Some(word)) => Some(today.year() + year_offset(word)),
            _ => None,
        };
        let day = match name("day") {
            Some(day) => Some(i8::try_from(number(day)?).ok()?),
            None => None,
        };
        return match (year, day) {
            (Some(year), Some(day)) => When::day(year, month, day),
            (Some(year), None) => When::month(year, month),
            (None, Some(day)) => When::yearly(month, day),
            (None, None) => None,
        };
    }
    if let Some(year) = name("alone") {
        return year.parse().ok().filter(|y| (1800..=2200).contains(y)).map(When::Year);
    }
    if let Some(word) = name("word") {
        let days = match word {
            "大前天" => -3,
            "前天" => -2,
            "昨天" | "昨晚" => -1,
            "明天" | "明晚" => 1,
            "后天" => 2,
            "大后天" => 3,
            _ => 0,
        };
        return today.checked_add(days.days()).ok().map(When::Day);
    }
    if let Some(day) = name("weekday") {
        // 每周五 is a habit.
        return if name("hold").is_some() { None } else { weekday(name("which"), day, today) };
    }
    if let (Some(which), Some(unit)) = (name("period"), name("unit")) {
        let by = match which {
            "上上" => -2,
            "上" => -1,
            "下" => 1,
            _ => 0,
        };
        let unit = if unit == "月" { "month" } else { "week" };
        let date = today.checked_add(span(by, unit)?).ok()?;
        return Some(if unit == "month" { When::Month(date.year(), date.month()) } else { When::Day(date) });
    }
    if let Some(word) = name("years") {
        return Some(When::Year(today.year() + year_offset(word)));
    }
    let unit = match name("of2")? {
        "天" => "day",
        "月" => "month",
        "年" => "year",
        _ => "week",
    };
    let span = span(number(name("n")?)?, unit)?;
    let date = if name("side") == Some("前") { today.checked_sub(span) } else { today.checked_add(span) };
    date.ok().map(When::Day)
}

/// 下周五 is the Friday of next week, 周五 the next one from today on.
fn weekday(which: Option<&str>, day: &str, today: Date) -> Option<When> {
    let weekday = match day {
        "一" => Weekday::Monday,
        "二" => Weekday::Tuesday,
        "三" => Weekday::Wednesday,
        "四" => Weekday::Thursday,
        "五" => Weekday::Friday,
        "六" => Weekday::Saturday,
        _ => Weekday::Sunday,
    };
    let monday = today.checked_sub(i64::from(today.weekday().to_monday_zero_offset()).days()).ok()?;
    let weeks = match which {
        Some("上") => -1,
        Some("下") => 1,
        Some(_) => 0,
        None if weekday == today.weekday() => return Some(When::Day(today)),
        None => return today.nth_weekday(1, weekday).ok().map(When::Day),
    };
    let days = weeks * 7 + i64::from(weekday.to_monday_zero_offset());
    monday.checked_add(days.days()).ok().map(When::Day)
}

fn year_offset(word: &str) -> i16 {
    match word {
        "前年" => -2,
        "去年" => -1,
        "明年" => 1,
        "后年" => 2,
        _ => 0,
    }
}

fn digit(c: char) -> Option<i64> {
    match c {
        '〇' | '零' => Some(0),
        '两' => Some(2),
        _ => "一二三四五六七八九"
            .chars()
            .position(|d| d == c)
            .map(|at| at as i64 + 1)
            .or_else(|| c.to_digit(10).map(i64::from)),
    }
}

/// A number of up to two places: 十, 十二, 二十, 二十五, 12.
fn number(text: &str) -> Option<i64> {
    if text.is_ascii() {
        return text.parse().ok();
    }
    match text.split_once('十') {
        Some((tens, ones)) => {
            let one = |t: &str, empty| if t.is_empty() { Some(empty) } else { t.chars().next().and_then(digit) };
            Some(one(tens, 1)? * 10 + one(ones, 0)?)
        }
        None if text.chars().count() == 1 => text.chars().next().and_then(digit),
        None => None,
    }
}

/// A year written out digit by digit: 一九九五.
fn digits(text: &str) -> Option<i16> {
    let mut year = 0_i64;
    for c in text.chars() {
        year = year * 10 + digit(c)?;
    }
    i16::try_from(year).ok()
}
