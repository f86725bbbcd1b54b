//! Dates that need no day to be read against, but for their year: `14 March 1988`, `1988-03-14`, `May 3rd`.

use std::ops::Range;
use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::When;

const MONTHS: &str = "jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?";

/// The form, and how it is read.
type Form = (Regex, fn(&Captures<'_>) -> Option<When>);

static FORMS: LazyLock<[Form; 6]> = LazyLock::new(|| {
    let form = |pattern: &str| Regex::new(&pattern.replace("MONTHS", MONTHS)).expect("tested");
    [
        (form(r"(?-u:\b)(?P<y>\d{4})[-/.](?P<m>\d{1,2})[-/.](?P<d>\d{1,2})(?-u:\b)"), numbers),
        (
            form(
                r"(?-u:\b)(?P<a>\d{1,2})(?:/(?P<b>\d{1,2})/|\.(?P<b2>\d{1,2})\.|-(?P<b3>\d{1,2})-)(?P<y>\d{4})(?-u:\b)",
            ),
            slashes,
        ),
        (form(r"(?i)(?-u:\b)(?P<d>\d{1,2})(?:st|nd|rd|th)?\s(?:of\s)?(?P<n>MONTHS)\.?,?\s(?P<y>\d{4})(?-u:\b)"), words),
        (form(r"(?i)(?-u:\b)(?P<n>MONTHS)\.?\s(?P<d>\d{1,2})(?:st|nd|rd|th)?(?:,?\s(?P<y>\d{4}))?(?-u:\b)"), words),
        (
            form(
                r"(?i)(?-u:\b)(?P<d>\d{1,2})(?:st|nd|rd|th)?\s(?:of\s)?(?P<n>MONTHS)(?:\s(?P<not>be|have|not|need|also|want))?(?-u:\b)",
            ),
            words,
        ),
        (form(r"(?i)(?-u:\b)(?P<n>MONTHS)\.?,?\s(?:of\s)?(?P<y>(?:19|20)\d\d)(?-u:\b)"), month),
    ]
});

/// The first date in a text.
pub(super) fn find(text: &str) -> Option<(Range<usize>, When)> {
    if !text.bytes().any(|b| b.is_ascii_digit()) {
        return None;
    }
    let all = FORMS.iter().filter_map(|(form, read)| {
        form.captures_iter(text).find_map(|found| Some((found.get(0)?.range(), read(&found)?)))
    });
    all.min_by_key(|(range, _)| (range.start, std::cmp::Reverse(range.end)))
}

fn number<T: std::str::FromStr>(found: &Captures<'_>, name: &str) -> Option<T> {
    found.name(name)?.as_str().parse().ok()
}

fn numbers(found: &Captures<'_>) -> Option<When> {
    When::day(number(found, "y")?, number(found, "m")?, number(found, "d")?)
}

/// Day first with dots; with slashes and hyphens only where one of the two can be no month.
fn slashes(found: &Captures<'_>) -> Option<When> {
    let (year, a) = (number(found, "y")?, number::<i8>(found, "a")?);
    if let Some(month) = number(found, "b2") {
        return When::day(year, month, a);
    }
    let b: i8 = number(found, "b").or_else(|| number(found, "b3"))?;
    match (a > 12, b > 12) {
        (true, false) => When::day(year, b, a),
        (false, true) => When::day(year, a, b),
        // The same day in both readings.
        _ if a == b => When::day(year, a, b),
        _ => None,
    }
}

fn words(found: &Captures<'_>) -> Option<When> {
    // "2 may be enough".
    if found.name("not").is_some() {
        return None;
    }
    let (month, day) = (month_of(&found["n"])?, number(found, "d")?);
    match number(found, "y") {
        Some(year) => When::day(year, month, day),
        None => When::yearly(month, day),
    }
}

fn month(found: &Captures<'_>) -> Option<When> {
    When::month(number(found, "y")?, month_of(&found["n"])?)
}

/// The number of a month by its name, whole or short.
pub(super) fn month_of(name: &str) -> Option<i8> {
    const NAMES: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
    let head = name.get(..3)?.to_ascii_lowercase();
    (1..).zip(NAMES).find(|(_, n)| *n == head).map(|(number, _)| number)
}
