//! Who turns texts into vectors.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::Arc;

use super::build::{BuildError, Parts};
use super::routing::providers;
use crate::base::{Clock, Random};
use crate::config::{Config, Embeddings, EmbeddingsEngine};
use crate::embed::Embed;
use crate::upstream::{EmbedderConfig, ModelEmbedder, Provider};

/// The embedder that a configuration asks for, for commands that need it and nothing else; none when words alone find.
///
/// # Errors
/// See [`BuildError`].
pub fn embedder(config: &Config, parts: &Parts) -> Result<Option<Arc<dyn Embed>>, BuildError> {
    let providers = providers(config)?;
    Ok(embedder_of(&config.embeddings, &providers, &parts.clock, &parts.random))
}

pub(super) fn embedder_of<S: BuildHasher>(
    embeddings: &Embeddings,
    providers: &HashMap<String, Arc<Provider>, S>,
    clock: &Arc<dyn Clock>,
    random: &Arc<dyn Random>,
) -> Option<Arc<dyn Embed>> {
    match embeddings.engine {
        EmbeddingsEngine::Off | EmbeddingsEngine::Local => None,
        EmbeddingsEngine::OpenAi => {
            // Both are there: the check of the configuration has seen to it.
            let provider = Arc::clone(providers.get(embeddings.provider.as_deref()?)?);
            let config = EmbedderConfig {
                model: embeddings.model.clone()?,
                dimension: embeddings.dimension,
                query_prefix: embeddings.query_prefix.clone(),
                document_prefix: embeddings.document_prefix.clone(),
            };
            Some(Arc::new(ModelEmbedder::new(provider, config, Arc::clone(clock), Arc::clone(random))))
        }
    }
}
