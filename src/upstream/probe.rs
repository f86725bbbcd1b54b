//! Asks a provider for a sign of life, for `doctor`.

use std::time::Duration;

use super::attempt::root_cause;
use super::headers::ours;
use super::provider::Provider;

/// How long a provider may take to answer.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// Asks for the list of models, the way that requests go; returns the status, or why there was no answer.
///
/// # Errors
/// A sentence without the URL: it may carry secrets.
pub async fn probe(provider: &Provider) -> Result<u16, String> {
    let url = provider.url("models").ok_or("it has no address for a list of models")?;
    let request = provider.http().get(url).headers(ours(provider)).timeout(PROBE_TIMEOUT);
    match request.send().await {
        Ok(answer) => Ok(answer.status().as_u16()),
        Err(error) => Err(root_cause(error)),
    }
}
