//! From what people write to what the store is asked.

use crate::base::{ErrorKind, GatewayError, Time};
use crate::store::{UsageBy, UsageQuery};

/// Groups of one answer at most.
pub const MAX_GROUPS: u32 = 10_000;
/// Groups of one answer in JSON, when it is not said how many.
const DEFAULT_GROUPS: u32 = 100;
/// What rows are grouped by, when it is not said.
const DEFAULT_BY: [UsageBy; 1] = [UsageBy::Key];

const DAY_SECONDS: i64 = 24 * 3_600;

/// How the answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// JSON.
    Json,
    /// CSV, as of RFC 4180.
    Csv,
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Of the store.
    pub query: UsageQuery,
    /// Of the answer.
    pub format: Format,
}

/// Reads `group_by`, `from`, `to`, `limit`, `cursor`, `format`, and `NAME=VALUE` for anything that rows can be grouped by.
///
/// # Errors
/// 400 that names what is wrong, and what is allowed.
pub fn read(pairs: &[(String, String)], default: Format) -> Result<Asked, GatewayError> {
    let mut query = UsageQuery { by: DEFAULT_BY.to_vec(), ..UsageQuery::default() };
    let mut format = default;
    let mut limit = None;
    let mut after = None;
    for (at, (name, value)) in pairs.iter().enumerate() {
        if pairs[..at].iter().any(|(earlier, _)| earlier == name) {
            return Err(bad(name, format!("`{name}` is given twice")));
        }
        match name.as_str() {
            "group_by" => query.by = groups(value)?,
            "from" => query.from = Some(moment(name, value, 0)?),
            "to" => query.to = Some(moment(name, value, DAY_SECONDS)?),
            "limit" => {
                let number = value.parse().ok().filter(|n| (1..=MAX_GROUPS).contains(n));
                limit =
                    Some(number.ok_or_else(|| bad(name, format!("`limit` must be a number from 1 to {MAX_GROUPS}")))?);
            }
            "cursor" => {
                after = Some(place(value).ok_or_else(|| bad(name, "`cursor` is not one of ours".to_owned()))?);
            }
            "format" => {
                format = match value.as_str() {
                    "json" => Format::Json,
                    "csv" => Format::Csv,
                    _ => return Err(bad(name, "`format` must be json or csv".to_owned())),
                };
            }
            _ => query.only.push((named(name, name)?, value.clone())),
        }
    }
    query.limit = limit.unwrap_or(if format == Format::Csv { MAX_GROUPS } else { DEFAULT_GROUPS });
    if let Some(after) = after {
        if after.len() != query.by.len() {
            return Err(bad("cursor", "`cursor` belongs to another `group_by`".to_owned()));
        }
        query.after = Some(after);
    }
    Ok(Asked { query, format })
}

/// Where a list goes on behind a group: nothing but its values, so that any replica understands it.
#[must_use]
pub fn cursor(of: &[Option<String>]) -> String {
    let values: Vec<&str> = of.iter().map(|value| value.as_deref().unwrap_or_default()).collect();
    let text = serde_json::to_string(&values).expect("texts are JSON");
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}

fn place(cursor: &str) -> Option<Vec<String>> {
    let digits = cursor.as_bytes();
    if digits.is_empty() || !digits.len().is_multiple_of(2) {
        return None;
    }
    let digit = |c: u8| char::from(c).to_digit(16);
    let bytes: Option<Vec<u8>> =
        digits.chunks_exact(2).map(|pair| u8::try_from(digit(pair[0])? * 16 + digit(pair[1])?).ok()).collect();
    serde_json::from_slice(&bytes?).ok()
}

fn groups(text: &str) -> Result<Vec<UsageBy>, GatewayError> {
    let mut by = Vec::new();
    for name in text.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        let one = named("group_by", name)?;
        if !by.contains(&one) {
            by.push(one);
        }
    }
    Ok(by)
}

fn named(param: &str, name: &str) -> Result<UsageBy, GatewayError> {
    UsageBy::named(name).ok_or_else(|| {
        let all: Vec<&str> = UsageBy::ALL.iter().map(|by| by.name()).collect();
        let all = all.join(", ");
        let problem = if param == "group_by" {
            format!("`{name}` is nothing that usage is grouped by; allowed: {all}")
        } else {
            format!(
                "unknown parameter `{name}`; allowed: group_by, from, to, limit, cursor, format, and to filter: {all}"
            )
        };
        bad(param, problem)
    })
}

/// A moment, or a day; of a day its beginning, `day_seconds` later.
fn moment(param: &str, text: &str, day_seconds: i64) -> Result<Time, GatewayError> {
    let at = Time::parse(text).ok_or_else(|| {
        bad(param, format!("`{param}` must be a day (2026-11-30, UTC) or a moment (2026-11-30T12:00:00Z)"))
    })?;
    let is_day = text.len() == "2026-11-30".len();
    Ok(if is_day { at.plus_seconds(day_seconds) } else { at })
}

fn bad(param: &str, problem: String) -> GatewayError {
    GatewayError::new(ErrorKind::BadRequest, problem).with_param(param)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(pairs: &[(&str, &str)]) -> Result<Asked, GatewayError> {
        let pairs: Vec<_> = pairs.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        read(&pairs, Format::Json)
    }

    #[test]
    fn a_day_that_is_the_end_is_meant_whole() {
        let query = ask(&[("from", "2026-11-01"), ("to", "2026-11-30")]).unwrap().query;
        assert_eq!(query.from, Time::parse("2026-11-01T00:00:00Z"));
        assert_eq!(query.to, Time::parse("2026-12-01T00:00:00Z"));
        let moment = ask(&[("to", "2026-11-30T12:00:00Z")]).unwrap().query;
        assert_eq!(moment.to, Time::parse("2026-11-30T12:00:00Z"));
    }

    #[test]
    fn what_is_asked_for_is_read() {
        let asked =
            ask(&[("group_by", "key, day,key"), ("tenant", "acme"), ("limit", "7"), ("format", "csv")]).unwrap();
        assert_eq!(asked.query.by, [UsageBy::Key, UsageBy::Day]);
        assert_eq!(asked.query.only, [(UsageBy::Tenant, "acme".to_owned())]);
        assert_eq!((asked.query.limit, asked.format), (7, Format::Csv));
        assert_eq!(ask(&[("group_by", "")]).unwrap().query.by, []);
        assert_eq!(ask(&[]).unwrap().query, UsageQuery { by: vec![UsageBy::Key], limit: 100, ..UsageQuery::default() });
    }

    #[test]
    fn a_cursor_comes_back_as_what_it_was_made_of() {
        let of = [Some("a,\"b\" ü".to_owned()), None];
        let asked = ask(&[("group_by", "key,subject"), ("cursor", &cursor(&of))]).unwrap();
        assert_eq!(asked.query.after, Some(vec!["a,\"b\" ü".to_owned(), String::new()]));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (pairs, word) in [
            (&[("group_by", "keys")][..], "keys"),
            (&[("from", "yesterday")], "from"),
            (&[("limit", "0")], "limit"),
            (&[("limit", "10001")], "10000"),
            (&[("format", "xml")], "csv"),
            (&[("cursor", "zz")], "cursor"),
            (&[("cursor", "")], "cursor"),
            (&[("cursor", "5b5d")], "group_by"),
            (&[("tenent", "x")], "tenent"),
            (&[("tenant", "x"), ("tenant", "y")], "twice"),
        ] {
            let error = ask(pairs).unwrap_err();
            assert_eq!(error.kind, ErrorKind::BadRequest, "{pairs:?}");
            assert!(error.public.contains(word), "{word}: {}", error.public);
        }
    }
}
