//! The index outside of the process, where the configuration asks for one.

use std::sync::Arc;

use super::build::BuildError;
use super::vectors::Outside;
use crate::base::Clock;
use crate::config::{Config, VectorsEngine};
use crate::recall::Outer;
use crate::store::VectorIndex;
use crate::telemetry::Metrics;

/// The index that a configuration asks for; none where vectors are searched in the process. Nothing is sent yet: in which order servers start
/// does not matter.
///
/// # Errors
/// Its address cannot be used.
pub fn index_of(config: &Config) -> Result<Option<Arc<dyn VectorIndex>>, BuildError> {
    match config.vectors.engine {
        VectorsEngine::Embedded => Ok(None),
        VectorsEngine::Qdrant | VectorsEngine::Pgvector => {
            Err(BuildError::Unsupported(vec!["vectors.engine: only \"embedded\" is supported yet".to_owned()]))
        }
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
