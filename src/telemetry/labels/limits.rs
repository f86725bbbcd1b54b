//! What is limited, and whose limit it is.

use super::Label;

label! {
    /// What is limited; named as in the configuration.
    Limit = "limit" {
        /// Requests at a time, each until its reply ends.
        MaxConcurrency = "max_concurrency",
        /// Requests a minute.
        RequestsPerMinute = "requests_per_minute",
        /// Tokens a minute.
        TokensPerMinute = "tokens_per_minute",
        /// Tokens a day.
        TokensPerDay = "tokens_per_day",
        /// Tokens a month.
        TokensPerMonth = "tokens_per_month",
        /// US dollars a day.
        UsdPerDay = "usd_per_day",
        /// US dollars a month.
        UsdPerMonth = "usd_per_month",
    }
}

label! {
    /// Whose limit it is.
    LimitOf = "of" {
        /// A key's.
        Key = "key",
        /// A person's.
        Subject = "subject",
        /// A tenant's.
        Tenant = "tenant",
        /// A model's, whoever asks for it.
        Model = "model",
    }
}
