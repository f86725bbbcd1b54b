//! What a client is told when there is not enough left: OpenAI's 429, in words that say which limit, whose, and when.

use std::time::Duration;

use http::header::{HeaderName, HeaderValue};

use super::meter::{Shortage, Wait};
use super::standing::Standing;
use crate::base::{ErrorKind, GatewayError};
use crate::telemetry::{Limit, LimitOf};

/// SDKs try again on their own; told so, they do not.
const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

/// Where the wait is longer than this, an SDK's own tries would all be in vain: the official ones wait a minute at most.
const WORTH_A_RETRY: Duration = Duration::from_secs(60);

/// The error of a request for which there is not enough left.
pub(super) fn refusal(of: LimitOf, shortage: &Shortage, standing: &Standing) -> GatewayError {
    let (openai_type, code) = words(shortage.limit);
    let mut error = GatewayError::new(ErrorKind::RateLimited, sentence(of, shortage)).with_words(openai_type, code);
    let mut headers = standing.headers();
    if shortage.wait.time().is_none_or(|wait| wait > WORTH_A_RETRY) {
        headers.insert(SHOULD_RETRY, HeaderValue::from_static("false"));
    }
    if let Some(wait) = shortage.wait.time() {
        error = error.with_retry_after(wait);
    }
    error.with_headers(headers)
}

/// The error of a request whose budget cannot be looked up or kept now (design, doubt 23).
pub(super) fn no_books() -> GatewayError {
    GatewayError::new(
        ErrorKind::Overloaded,
        "what this key may still use cannot be looked up right now: its limits of the day or the month are in a store \
         that does not answer",
    )
    .with_retry_after(Duration::from_secs(2))
}

/// The error of a request of someone new while the table of accounts is full.
pub(super) fn no_place(of: LimitOf) -> GatewayError {
    GatewayError::new(
        ErrorKind::Overloaded,
        format!("too many {} with limits of their own are active right now", plural(of)),
    )
    .with_retry_after(Duration::from_secs(5))
}

/// `type` and `code` of the envelope, as OpenAI has them.
fn words(limit: Limit) -> (&'static str, &'static str) {
    match limit {
        Limit::MaxConcurrency | Limit::RequestsPerMinute => ("requests", "rate_limit_exceeded"),
        Limit::TokensPerMinute => ("tokens", "rate_limit_exceeded"),
        Limit::TokensPerDay | Limit::TokensPerMonth | Limit::UsdPerDay | Limit::UsdPerMonth => {
            ("insufficient_quota", "insufficient_quota")
        }
    }
}

fn sentence(of: LimitOf, shortage: &Shortage) -> String {
    let Shortage { limit, max, left, needed, wait } = *shortage;
    let whose = whose(of);
    let (max_text, left_text, needed_text) = (amount(limit, max), amount(limit, left), amount(limit, needed));
    let unit = unit(limit);
    match wait {
        Wait::Never => format!(
            "this request alone needs about {needed_text}, more than the limit of {whose}: {max_text} {unit}. It can \
             never pass: send less, or set a lower max_completion_tokens"
        ),
        Wait::For(_) if limit == Limit::MaxConcurrency => {
            format!("the limit of {whose} is reached: {max_text} {unit}. Try again when one has ended")
        }
        Wait::For(time) => format!(
            "the limit of {whose} is reached: {max_text} {unit}, {left_text} left, {needed_text} needed. Try again in {}",
            in_words(time)
        ),
        Wait::Until(time, end) => format!(
            "the limit of {whose} is used up: {max_text} {unit}, {left_text} left, about {needed_text} needed. It \
             begins anew at {}, in {}",
            end.to_rfc3339().replace(".000Z", "Z"),
            in_words(time)
        ),
    }
}

fn whose(of: LimitOf) -> &'static str {
    match of {
        LimitOf::Key => "this key",
        LimitOf::Subject => "this user",
        LimitOf::Tenant => "this tenant",
        LimitOf::Model => "this model",
    }
}

fn plural(of: LimitOf) -> &'static str {
    match of {
        LimitOf::Key => "keys",
        LimitOf::Subject => "users",
        LimitOf::Tenant => "tenants",
        LimitOf::Model => "models",
    }
}

fn unit(limit: Limit) -> &'static str {
    match limit {
        Limit::MaxConcurrency => "at a time",
        Limit::RequestsPerMinute | Limit::TokensPerMinute => "a minute",
        Limit::TokensPerDay | Limit::UsdPerDay => "a day (UTC)",
        Limit::TokensPerMonth | Limit::UsdPerMonth => "a month (UTC)",
    }
}

fn amount(limit: Limit, n: u64) -> String {
    match limit {
        Limit::MaxConcurrency | Limit::RequestsPerMinute if n == 1 => "1 request".to_owned(),
        Limit::MaxConcurrency | Limit::RequestsPerMinute => format!("{n} requests"),
        Limit::TokensPerMinute | Limit::TokensPerDay | Limit::TokensPerMonth => format!("{n} tokens"),
        Limit::UsdPerDay | Limit::UsdPerMonth => dollars(n),
    }
}

/// Billionths of a dollar in dollars: cents, and more digits where there are any.
fn dollars(nanos: u64) -> String {
    let micros = nanos / 1_000 + u64::from(nanos % 1_000 >= 500);
    let text = format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
    let zeros = text.len() - text.trim_end_matches('0').len();
    format!("{} USD", &text[..text.len() - zeros.min(4)])
}

/// A time for people, rounded up: `3 s`, `5 min`, `2 h 5 min`, `12 days`.
fn in_words(time: Duration) -> String {
    let seconds = time.as_secs() + u64::from(time.subsec_nanos() > 0);
    let minutes = seconds.div_ceil(60);
    match seconds {
        0..120 => format!("{seconds} s"),
        120..3_600 => format!("{minutes} min"),
        3_600..172_800 => format!("{} h {} min", minutes / 60, minutes % 60),
        _ => format!("{} days", seconds.div_ceil(86_400)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Time;

    fn short(limit: Limit, wait: Wait) -> Shortage {
        Shortage { limit, max: 1_000, left: 40, needed: 50, wait }
    }

    #[test]
    fn a_refusal_says_which_limit_whose_how_much_is_left_and_when() {
        let wait = Wait::For(Duration::from_millis(600));
        let error = refusal(LimitOf::Key, &short(Limit::TokensPerMinute, wait), &Standing::default());
        assert_eq!((error.kind.status(), error.openai_type(), error.code()), (429, "tokens", "rate_limit_exceeded"));
        assert_eq!(
            error.public,
            "the limit of this key is reached: 1000 tokens a minute, 40 tokens left, 50 tokens needed. Try again in 1 s"
        );
        assert_eq!(error.retry_after, Some(Duration::from_millis(600)));
        assert!(error.headers().is_none_or(|headers| !headers.contains_key(&SHOULD_RETRY)));
    }

    #[test]
    fn a_budget_that_is_used_up_is_insufficient_quota_and_not_worth_a_retry() {
        let end = Time::parse("2026-12-01").unwrap();
        let wait = Wait::Until(Duration::from_secs(7_500), end);
        let error = refusal(LimitOf::Tenant, &short(Limit::TokensPerDay, wait), &Standing::default());
        assert_eq!((error.openai_type(), error.code()), ("insufficient_quota", "insufficient_quota"));
        assert!(error.public.contains("this tenant") && error.public.contains("2026-12-01T00:00:00Z, in 2 h 5 min"));
        assert_eq!(error.headers().unwrap()[&SHOULD_RETRY], "false");
        assert_eq!(error.retry_after, Some(Duration::from_secs(7_500)));
    }

    #[test]
    fn what_can_never_pass_says_so_and_names_no_time() {
        let error = refusal(LimitOf::Model, &short(Limit::TokensPerMinute, Wait::Never), &Standing::default());
        assert!(error.public.contains("never pass"), "{}", error.public);
        assert_eq!(
            (error.retry_after, &error.headers().unwrap()[&SHOULD_RETRY]),
            (None, &HeaderValue::from_static("false"))
        );
    }

    #[test]
    fn money_is_told_in_dollars() {
        for (nanos, text) in
            [(12_500_000_000, "12.50 USD"), (1_234_000, "0.001234 USD"), (0, "0.00 USD"), (5_000, "0.000005 USD")]
        {
            assert_eq!(dollars(nanos), text);
        }
    }
}
