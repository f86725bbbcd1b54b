//! Calls: one client, and a bound on how long each may take.

use std::future::Future;
use std::time::Duration;

use qdrant_client::QdrantError;
use tokio::time::timeout;

use super::error::{Refusal, refusal};
use super::{Options, Qdrant};
use crate::store::StoreError;

/// Connections: as many as searches and writes that may be on their way side by side without standing in one another's way.
const CONNECTIONS: usize = 4;

/// No connection takes longer to be made.
const MAX_CONNECT: Duration = Duration::from_secs(5);

/// Makes the client. It tries once more by itself, on a new connection, when one breaks: all that we ask for may be done twice.
pub(super) fn client(options: &Options) -> Result<qdrant_client::Qdrant, StoreError> {
    if options.api_key.as_ref().is_some_and(|key| !is_header(key.expose())) {
        // Found here, since the client would write the key into its error.
        return Err(StoreError::Unusable(
            "vectors.api_key holds characters that cannot be sent (a line break?)".to_owned(),
        ));
    }
    let mut config = qdrant_client::Qdrant::from_url(&options.url)
        .timeout(options.timeout)
        .connect_timeout(options.timeout.min(MAX_CONNECT))
        // It would ask at once, and print what it finds: we ask and log ourselves (see `version.rs`).
        .skip_compatibility_check();
    config.set_pool_size(CONNECTIONS);
    if let Some(key) = &options.api_key {
        config.set_api_key(key.expose());
    }
    config
        .build()
        .map_err(|error| StoreError::Unusable(format!("vectors.url is no address of a Qdrant server: {error}")))
}

fn is_header(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
}

impl Qdrant {
    /// Waits for an answer, as long as one may take.
    pub(super) async fn call<T>(
        &self,
        doing: &'static str,
        call: impl Future<Output = Result<T, QdrantError>> + Send,
    ) -> Result<T, StoreError> {
        self.try_call(doing, call).await.map_err(|refusal| refusal.into_error(doing, &self.options.url))
    }

    /// Waits for an answer; returns a refusal as it came, for callers to whom it is an answer.
    pub(super) async fn try_call<T>(
        &self,
        doing: &'static str,
        call: impl Future<Output = Result<T, QdrantError>> + Send,
    ) -> Result<T, Refusal> {
        // On the heap: these futures are large, and no caller wants them in its own.
        match timeout(self.options.timeout, Box::pin(call)).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(refusal(&error)),
            Err(_) => {
                tracing::debug!(doing, "the Qdrant server took too long");
                Err(Refusal::Late(self.options.timeout))
            }
        }
    }
}
