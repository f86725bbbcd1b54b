//! What a client is told of its limits: the `x-ratelimit-*` headers that OpenAI's SDKs read.

use std::time::Duration;

use http::header::{HeaderMap, HeaderName, HeaderValue};

/// What upstream says of its own limits begins with this.
const PREFIX: &str = "x-ratelimit-";

const REQUESTS: [HeaderName; 3] = [
    HeaderName::from_static("x-ratelimit-limit-requests"),
    HeaderName::from_static("x-ratelimit-remaining-requests"),
    HeaderName::from_static("x-ratelimit-reset-requests"),
];
const TOKENS: [HeaderName; 3] = [
    HeaderName::from_static("x-ratelimit-limit-tokens"),
    HeaderName::from_static("x-ratelimit-remaining-tokens"),
    HeaderName::from_static("x-ratelimit-reset-tokens"),
];

/// How much of a limit is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Left {
    pub(super) limit: u64,
    pub(super) remaining: u64,
    /// After how long all of it is there again.
    pub(super) reset: Duration,
}

/// How much is left to a request's key, person, tenant and model: of each kind the tightest limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    pub(super) requests: Option<Left>,
    pub(super) tokens: Option<Left>,
}

impl Standing {
    /// Takes another account's limits in.
    pub(super) fn tighten(&mut self, requests: Option<Left>, tokens: Option<Left>) {
        let tighter = |held: Option<Left>, new: Option<Left>| match (held, new) {
            (Some(held), Some(new)) => Some(if new.remaining < held.remaining { new } else { held }),
            (held, new) => held.or(new),
        };
        self.requests = tighter(self.requests, requests);
        self.tokens = tighter(self.tokens, tokens);
    }

    /// Writes the headers. What upstream says of its own limits goes, where there are any of ours: it is the operator's account that they
    /// are about (design, doubt 19).
    pub fn write(&self, headers: &mut HeaderMap) {
        if self.requests.is_none() && self.tokens.is_none() {
            return;
        }
        let upstreams: Vec<HeaderName> =
            headers.keys().filter(|name| name.as_str().starts_with(PREFIX)).cloned().collect();
        for name in upstreams {
            headers.remove(name);
        }
        for (names, left) in [(&REQUESTS, self.requests), (&TOKENS, self.tokens)] {
            let Some(left) = left else { continue };
            let [limit, remaining, reset] = names;
            headers.insert(limit.clone(), HeaderValue::from(left.limit));
            headers.insert(remaining.clone(), HeaderValue::from(left.remaining));
            if let Ok(value) = HeaderValue::try_from(duration(left.reset)) {
                headers.insert(reset.clone(), value);
            }
        }
    }

    /// The headers alone.
    #[must_use]
    pub fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        self.write(&mut headers);
        headers
    }
}

/// A time as OpenAI writes it: `20ms`, `1.5s`, `6m0s`, `11h59m58s`.
fn duration(time: Duration) -> String {
    let millis = time.as_millis();
    let seconds = time.as_secs();
    match seconds {
        0 => format!("{millis}ms"),
        1..60 if millis.is_multiple_of(1_000) => format!("{seconds}s"),
        1..60 => format!("{seconds}.{}s", format!("{:03}", millis % 1_000).trim_end_matches('0')),
        60..3_600 => format!("{}m{}s", seconds / 60, seconds % 60),
        _ => format!("{}h{}m{}s", seconds / 3_600, seconds % 3_600 / 60, seconds % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(limit: u64, remaining: u64) -> Option<Left> {
        Some(Left { limit, remaining, reset: Duration::from_millis(1_500) })
    }

    #[test]
    fn times_are_written_as_openai_writes_them() {
        let cases =
            [(0, "0ms"), (20, "20ms"), (1_000, "1s"), (1_500, "1.5s"), (360_000, "6m0s"), (43_198_000, "11h59m58s")];
        for (millis, text) in cases {
            assert_eq!(duration(Duration::from_millis(millis)), text);
        }
    }

    #[test]
    fn the_tightest_limit_wins_whosever_it_is() {
        let mut standing = Standing::default();
        standing.tighten(left(100, 50), left(1_000, 10));
        standing.tighten(left(10, 9), None);
        standing.tighten(None, left(500, 400));
        let headers = standing.headers();
        assert_eq!(headers["x-ratelimit-limit-requests"], "10");
        assert_eq!(headers["x-ratelimit-remaining-tokens"], "10");
        assert_eq!(headers["x-ratelimit-reset-tokens"], "1.5s");
    }

    /// Design, doubt 19: upstream's pass, unless we have some of our own.
    #[test]
    fn upstreams_own_limits_pass_only_where_there_are_none_of_ours() {
        let upstream = || {
            let mut headers = HeaderMap::new();
            headers.insert("x-ratelimit-remaining-tokens", HeaderValue::from(7));
            headers
        };
        let mut headers = upstream();
        Standing::default().write(&mut headers);
        assert_eq!(headers, upstream());
        let mut standing = Standing::default();
        standing.tighten(left(10, 9), None);
        standing.write(&mut headers);
        assert!(!headers.contains_key("x-ratelimit-remaining-tokens"));
    }
}
