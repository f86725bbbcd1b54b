//! When something is planned: a day, and an hour where one is named.

use std::sync::LazyLock;

use regex::Regex;

use super::{When, find};
use crate::base::Time;

static HOUR: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)^(?P<h>\d{1,2})(?::(?P<m>\d\d))?\s?(?P<half>am|pm|a\.m\.?|p\.m\.?)?$|^(?P<part>早上|上午|中午|下午|晚上)?(?P<zh>\d{1,2})(?:点|:)(?P<zm>\d\d|半)?分?$").expect("tested")
});
static FILLER: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)(?-u:\b)(?:on|at|the|in|of|from|around|about|o'clock|by)(?-u:\b)|[,，]").expect("tested")
});

/// `2023-05-12`, or `2023-05-12 09:30`; none for habits ("every Friday") and for what says more than when it is.
#[must_use]
pub fn appointment(text: &str, said_at: Time) -> Option<String> {
    let lower = text.to_lowercase();
    if ["every", "each", "daily", "weekly", "monthly", "每"].iter().any(|habit| lower.starts_with(habit)) {
        return None;
    }
    let (range, when) = find(text, said_at)?;
    if matches!(when, When::Year(_)) {
        return None;
    }
    let rest = format!("{} {}", &text[..range.start], &text[range.end..]);
    let rest = FILLER.replace_all(&rest, " ");
    let rest = rest.split_whitespace().collect::<Vec<_>>().join(" ");
    match rest.as_str() {
        "" => Some(when.to_string()),
        rest => hour(rest).map(|(hour, minute)| format!("{when} {hour:02}:{minute:02}")),
    }
}

fn hour(text: &str) -> Option<(u8, u8)> {
    let found = HOUR.captures(text)?;
    let number = |name: &str| found.name(name).map(|m| m.as_str());
    let (mut hour, minute, late) = match number("h") {
        Some(hour) => {
            let late = number("half").map(|half| half.to_lowercase().starts_with('p'));
            (hour.parse().ok()?, number("m").map_or(Some(0), |m| m.parse().ok())?, late)
        }
        None => {
            let minute = number("zm").map_or(Some(0), |m| if m == "半" { Some(30) } else { m.parse().ok() })?;
            (number("zh")?.parse().ok()?, minute, number("part").map(|part| matches!(part, "下午" | "晚上")))
        }
    };
    match late {
        Some(true) if hour < 12 => hour += 12,
        Some(false) if hour == 12 => hour = 0,
        _ => {}
    }
    (hour < 24 && minute < 60).then_some((hour, minute))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_planned_is_a_day_and_an_hour() {
        let said_at = Time::parse("2023-05-08T13:56:00Z").expect("a date");
        for (text, kept) in [
            ("next Friday", "2023-05-12"),
            ("tomorrow at 9:30 am", "2023-05-09 09:30"),
            ("on 3 July at 7pm", "--07-03 19:00"),
            ("in two weeks", "2023-05-22"),
            ("明天下午3点半", "2023-05-09 15:30"),
            ("下周一", "2023-05-15"),
        ] {
            assert_eq!(appointment(text, said_at).as_deref(), Some(kept), "{text}");
        }
        for text in ["every Monday at 9", "每周三晚上瑜伽课", "next Friday at the Ritz", "soon", "tomorrow at 99"]
        {
            assert_eq!(appointment(text, said_at), None, "{text}");
        }
    }
}
