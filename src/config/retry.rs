//! `[retry]` and `[retry.on]`: how often is tried, and what follows on which failure.

use std::ops::Range;

use super::reader::Section;
use super::words::one_of;
use crate::upstream::{On, Retry, RetryTable, Then};

const THENS: [(&str, Then); 3] = [("same", Then::Same), ("next", Then::Next), ("stop", Then::Stop)];

pub(super) fn read(s: &mut Section<'_>) -> Retry {
    let default = Retry::default();
    Retry {
        attempts: s.count("attempts", 1..=10).unwrap_or(default.attempts),
        max_total: s.count("max_total", 1..=1_000).unwrap_or(default.max_total),
        max_time: s.seconds("max_seconds", 0).unwrap_or(default.max_time),
        cooldown: s.seconds("cooldown_seconds", 0).unwrap_or(default.cooldown),
        on: read_on(s),
    }
}

/// Failures, as `[retry.on]` names them.
enum Named {
    /// `"4xx"` or `"5xx"`.
    Class(Range<u16>),
    /// One of them.
    One(On),
}

fn read_on(s: &mut Section<'_>) -> RetryTable {
    let mut table = RetryTable::default();
    let mut ones = Vec::new();
    for (name, value) in s.named_values("on") {
        let named = Named::parse(name);
        if named.is_none() {
            let allowed = "no failure has this name: write a status from 400 to 599, \"4xx\", \"5xx\", connect, timeout, error_event or invalid";
            s.wrong_within("on", name, value, allowed);
        }
        let then = value.as_str().and_then(|word| THENS.iter().find(|(known, _)| *known == word));
        if then.is_none() {
            let word = value.as_str().unwrap_or_default();
            s.wrong_within("on", name, value, one_of(word, THENS.iter().map(|(word, _)| *word)));
        }
        match (named, then) {
            (Some(Named::Class(codes)), Some((_, then))) => codes.for_each(|code| table.set(On::Status(code), *then)),
            // A status goes over its class, wherever it stands in the file.
            (Some(Named::One(on)), Some((_, then))) => ones.push((on, *then)),
            _ => {}
        }
    }
    for (on, then) in ones {
        table.set(on, then);
    }
    table
}

impl Named {
    fn parse(name: &str) -> Option<Self> {
        Some(Self::One(match name {
            "connect" => On::Connect,
            "timeout" => On::Timeout,
            "error_event" => On::ErrorEvent,
            "invalid" => On::Invalid,
            "4xx" => return Some(Self::Class(400..500)),
            "5xx" => return Some(Self::Class(500..600)),
            _ => On::Status(name.parse().ok().filter(|code| (400..600).contains(code))?),
        }))
    }
}
