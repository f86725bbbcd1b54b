//! How much may be used: one vocabulary, whosever limits they are.

use std::fmt;
use std::sync::Arc;

use crate::base::GatewayError;
use crate::telemetry::Limit;

/// How much a key, a person, a tenant or a model may use; `None` = no limit.
///
/// A minute is any minute: what was used drains evenly. Days and months are those of the calendar in UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Requests at a time, each until its reply ends.
    pub max_concurrency: Option<u64>,
    /// Requests a minute.
    pub requests_per_minute: Option<u64>,
    /// Tokens a minute, input and output together.
    pub tokens_per_minute: Option<u64>,
    /// Tokens a day.
    pub tokens_per_day: Option<u64>,
    /// Tokens a month.
    pub tokens_per_month: Option<u64>,
    /// Money a day, in billionths of a US dollar.
    pub usd_per_day: Option<u64>,
    /// Money a month, in billionths of a US dollar.
    pub usd_per_month: Option<u64>,
}

impl Limits {
    /// Whether nothing is limited.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether something is limited that lasts longer than a minute: what was used of it outlives the process.
    #[must_use]
    pub fn last(&self) -> bool {
        self.of_day() || self.of_month()
    }

    /// Whether something is limited that replicas share as it is used: the minute, and how many run at a time.
    #[must_use]
    pub fn of_minute(&self) -> bool {
        self.max_concurrency.is_some() || self.requests_per_minute.is_some() || self.tokens_per_minute.is_some()
    }

    /// Those of them that last longer than a minute.
    #[must_use]
    pub fn lasting(&self) -> Self {
        Self { max_concurrency: None, requests_per_minute: None, tokens_per_minute: None, ..*self }
    }

    /// Whether a day is limited.
    #[must_use]
    pub fn of_day(&self) -> bool {
        self.tokens_per_day.is_some() || self.usd_per_day.is_some()
    }

    /// Whether a month is limited.
    #[must_use]
    pub fn of_month(&self) -> bool {
        self.tokens_per_month.is_some() || self.usd_per_month.is_some()
    }

    /// Whether tokens count, as such or by what they cost.
    #[must_use]
    pub fn count_tokens(&self) -> bool {
        self.tokens_per_minute.is_some() || self.last()
    }

    /// Whether money counts.
    #[must_use]
    pub fn count_money(&self) -> bool {
        self.usd_per_day.is_some() || self.usd_per_month.is_some()
    }

    /// The smallest limit of tokens, whatever it is for.
    #[must_use]
    pub fn fewest_tokens(&self) -> Option<u64> {
        [self.tokens_per_minute, self.tokens_per_day, self.tokens_per_month].into_iter().flatten().min()
    }

    /// How much one limit is.
    #[must_use]
    pub fn get(&self, limit: Limit) -> Option<u64> {
        match limit {
            Limit::MaxConcurrency => self.max_concurrency,
            Limit::RequestsPerMinute => self.requests_per_minute,
            Limit::TokensPerMinute => self.tokens_per_minute,
            Limit::TokensPerDay => self.tokens_per_day,
            Limit::TokensPerMonth => self.tokens_per_month,
            Limit::UsdPerDay => self.usd_per_day,
            Limit::UsdPerMonth => self.usd_per_month,
        }
    }
}

/// What a request holds of its limits, for those who learn better what it will use.
pub trait Reserved: fmt::Debug + Send + Sync {
    /// The request is about to be sent with an input of so many tokens: what is held follows.
    ///
    /// # Errors
    /// 429 when there is not so much left.
    fn sending(&self, input_tokens: u64) -> Result<(), GatewayError>;
}

/// What a request holds, where tokens are limited; `None` where they are not.
pub type ReservedTokens = Option<Arc<dyn Reserved>>;
