//! The index outside of the process, where the configuration asks for one.

use std::sync::Arc;

use super::build::BuildError;
use super::vectors::Outside;
use crate::base::Clock;
use crate::config::{Config, StoreUrl, VectorsEngine};
use crate::recall::Outer;
use crate::store::VectorIndex;
use crate::store::pgvector::{Pgvector, PgvectorOptions};
use crate::store::qdrant::Qdrant;
use crate::telemetry::Metrics;

/// The index that a configuration asks for; none where vectors are searched in the process. Nothing is sent yet: in which order servers start
/// does not matter.
///
/// # Errors
/// Its address cannot be used.
pub fn index_of(config: &Config) -> Result<Option<Arc<dyn VectorIndex>>, BuildError> {
    let made: Result<Arc<dyn VectorIndex>, _> = match config.vectors.engine {
        VectorsEngine::Embedded => return Ok(None),
        VectorsEngine::Qdrant => {
            let options = config.vectors.qdrant().expect("the engine is Qdrant, whose URL the config has");
            Qdrant::connect(&options).map(|made| Arc::new(made) as Arc<_>)
        }
        VectorsEngine::Pgvector => {
            let StoreUrl::Postgres(url) = &config.store.url else {
                return Err(BuildError::Index("pgvector needs [store] url = \"postgres://…\"".to_owned()));
            };
            let options =
                PgvectorOptions { statement_timeout: config.vectors.timeout, ..PgvectorOptions::url(url.clone()) };
            Pgvector::connect(&options).map(|made| Arc::new(made) as Arc<_>)
        }
    };
    made.map(Some).map_err(|error| BuildError::Index(error.to_string()))
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
