//! `[retry]` and `[retry.on]`: how often is tried, and what follows on which failure.

use std::time::Duration;

use toml::Value;

use super::reader::Section;
use super::words::one_of;

/// `[retry]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retry {
    /// `attempts`: tries per target; 1 = no repeat (clients repeat on their own).
    pub attempts: u32,
    /// `max_total`: tries of one request over all targets and keys.
    pub max_total: u32,
    /// `max_seconds`: after so long no further try is begun; none (0 in the file) = no such bound.
    pub max_time: Option<Duration>,
    /// `cooldown_seconds`: how long a failing target is left alone, where upstream does not say.
    pub cooldown: Duration,
    /// `[retry.on]`: what follows on which failure, where it is not what the default says. Classes stand before single statuses.
    pub on: Vec<(RetryOn, RetryThen)>,
}

/// A failure, as `[retry.on]` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RetryOn {
    /// `connect`: no connection, or it broke before an answer.
    Connect,
    /// `timeout`: no answer in time.
    Timeout,
    /// `error_event`: an error inside a 200.
    ErrorEvent,
    /// `invalid`: a redirect, or a page of HTML.
    Invalid,
    /// `"4xx"` or `"5xx"`.
    Class(u16),
    /// A status, as in `"429"`.
    Status(u16),
}

/// What follows on a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryThen {
    /// `"same"`: the same target again while it has tries left, then the next.
    Same,
    /// `"next"`: the next target.
    Next,
    /// `"stop"`: the client gets it.
    Stop,
}

const THENS: [(&str, RetryThen); 3] = [("same", RetryThen::Same), ("next", RetryThen::Next), ("stop", RetryThen::Stop)];

impl Default for Retry {
    fn default() -> Self {
        Self {
            attempts: 1,
            max_total: 16,
            max_time: Some(Duration::from_secs(600)),
            cooldown: Duration::from_secs(30),
            on: Vec::new(),
        }
    }
}

impl Retry {
    pub(super) fn read(s: &mut Section<'_>) -> Self {
        let default = Self::default();
        Self {
            attempts: s.count("attempts", 1..=10).unwrap_or(default.attempts),
            max_total: s.count("max_total", 1..=1_000).unwrap_or(default.max_total),
            max_time: s.seconds("max_seconds", 0).map_or(default.max_time, super::server::none_if_zero),
            cooldown: s.seconds("cooldown_seconds", 0).unwrap_or(default.cooldown),
            on: read_on(s),
        }
    }
}

fn read_on(s: &mut Section<'_>) -> Vec<(RetryOn, RetryThen)> {
    let mut out = Vec::new();
    for (name, value) in s.named_values("on") {
        let on = RetryOn::parse(name);
        if on.is_none() {
            let allowed = "no failure has this name: write a status from 400 to 599, \"4xx\", \"5xx\", connect, timeout, error_event or invalid";
            s.wrong_within("on", name, value, allowed);
        }
        let then = value.as_str().and_then(|word| THENS.iter().find(|(known, _)| *known == word));
        if then.is_none() {
            let word = value.as_str().unwrap_or_default();
            s.wrong_within("on", name, value, one_of(word, THENS.iter().map(|(word, _)| *word)));
        }
        if let (Some(on), Some((_, then)), Value::String(_)) = (on, then, value) {
            out.push((on, *then));
        }
    }
    // A status goes over its class, wherever it stands in the file.
    out.sort_by_key(|(on, _)| *on);
    out
}

impl RetryOn {
    fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "connect" => Self::Connect,
            "timeout" => Self::Timeout,
            "error_event" => Self::ErrorEvent,
            "invalid" => Self::Invalid,
            "4xx" => Self::Class(400),
            "5xx" => Self::Class(500),
            _ => Self::Status(name.parse().ok().filter(|code| (400..600).contains(code))?),
        })
    }
}
