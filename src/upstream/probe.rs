//! Asks a provider for a sign of life, for `doctor`.

use std::time::Duration;

use http::HeaderMap;
use reqwest::Url;

use super::provider::Reach;
use crate::base::Secret;

/// How long a provider may take to answer.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// Asks for the list of models, the way that requests go and with these headers; returns the status, or why there was no answer.
///
/// # Errors
/// A sentence without the URL: it may carry secrets.
pub async fn probe(base_url: &str, key: Option<&Secret>, headers: HeaderMap, reach: &Reach) -> Result<u16, String> {
    let url = format!("{}/models", base_url.trim_end_matches('/'));
    let url = Url::parse(&url).map_err(|error| error.to_string())?;
    let client = reach
        .apply(super::provider::client(), &url)
        .map_err(|error| error.causes().unwrap_or_else(|| error.to_string()))?
        .redirect(reqwest::redirect::Policy::none())
        .timeout(PROBE_TIMEOUT)
        .build()
        .map_err(|error| error.without_url().to_string())?;
    let mut request = client.get(url);
    if let Some(key) = key {
        request = request.bearer_auth(key.expose());
    }
    // In place of ours, as in a request.
    match request.headers(headers).send().await {
        Ok(answer) => Ok(answer.status().as_u16()),
        Err(error) => Err(super::attempt::root_cause(error)),
    }
}
