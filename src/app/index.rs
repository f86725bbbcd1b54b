//! The index outside of the process, where the configuration asks for one.

use std::sync::Arc;
use std::time::Duration;

use super::build::BuildError;
use super::vectors::Outside;
use crate::base::Clock;
use crate::config::{Config, TenantIsolation, Vectors, VectorsEngine};
use crate::recall::Outer;
use crate::store::VectorIndex;
use crate::store::qdrant::{Isolation, Options, Qdrant, Quantization};
use crate::telemetry::Metrics;

/// How long an answer to the job that fills it may take; a question has less.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The index that a configuration asks for; none where vectors are searched in the process. Nothing is sent yet: in which order servers start
/// does not matter.
///
/// # Errors
/// Its address cannot be used.
pub fn index_of(config: &Config) -> Result<Option<Arc<dyn VectorIndex>>, BuildError> {
    match config.vectors.engine {
        VectorsEngine::Embedded => Ok(None),
        VectorsEngine::Qdrant => {
            let made =
                Qdrant::connect(&qdrant(&config.vectors)).map_err(|error| BuildError::Index(error.to_string()))?;
            Ok(Some(Arc::new(made)))
        }
        VectorsEngine::Pgvector => {
            Err(BuildError::Unsupported(vec!["vectors.engine: \"pgvector\" is not supported yet".to_owned()]))
        }
    }
}

fn qdrant(vectors: &Vectors) -> Options {
    Options {
        url: vectors.url.clone().unwrap_or_default(),
        api_key: vectors.api_key.clone(),
        collection_prefix: "backstory".to_owned(),
        isolation: match vectors.tenant_isolation {
            TenantIsolation::Payload => Isolation::Payload,
            TenantIsolation::Collection => Isolation::Collection,
        },
        quantization: Quantization::Off,
        timeout: TIMEOUT,
        hnsw_ef: None,
    }
}

/// The same with those who ask it.
pub(super) fn outside(
    index: Arc<dyn VectorIndex>,
    config: &Config,
    clock: &Arc<dyn Clock>,
    metrics: &Arc<Metrics>,
) -> Outside {
    let asks = Outer::new(Arc::clone(&index), config.recall.deadline, Arc::clone(clock), Arc::clone(metrics));
    Outside { index, asks: Arc::new(asks) }
}

#[cfg(test)]
mod tests;
