//! Who turns texts into vectors.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::path::PathBuf;
use std::sync::Arc;

use tokio_util::task::TaskTracker;

use super::build::{BuildError, Parts};
use super::routing::providers;
use super::seat::{EmbedSeat, Seat};
use crate::base::{Clock, Random};
use crate::config::{Config, Embeddings, EmbeddingsEngine};
use crate::embed::Embed;
use crate::embedders::{Cached, LocalConfig, LocalEmbedder};
use crate::memory::Sensitivity;
use crate::telemetry::Metrics;
use crate::upstream::{EmbedderConfig, ModelEmbedder, Provider};

/// Vectors that are kept so that nothing is embedded twice, in bytes: some ten thousand.
const CACHE_BYTES: u64 = 32 << 20;

/// The embedder that a configuration asks for, for commands that need it and nothing else; none when words alone find.
///
/// # Errors
/// See [`BuildError`].
pub async fn embedder(config: &Config, parts: &Parts) -> Result<Option<Arc<dyn Embed>>, BuildError> {
    let providers = providers(config)?;
    let (tracker, metrics) = (TaskTracker::new(), Arc::new(Metrics::new()));
    let made = embedder_of(&config.embeddings, &providers, (&parts.clock, &parts.random), &metrics, &tracker).await?;
    Ok(made.map(|(embedder, _)| embedder))
}

/// An embedder, and the seat of who is asked for vectors where that is a provider.
type Seated = (Arc<dyn Embed>, Option<Arc<Seat<dyn Embed>>>);

pub(super) async fn embedder_of<S: BuildHasher>(
    embeddings: &Embeddings,
    providers: &HashMap<String, Arc<Provider>, S>,
    (clock, random): (&Arc<dyn Clock>, &Arc<dyn Random>),
    metrics: &Arc<Metrics>,
    tracker: &TaskTracker,
) -> Result<Option<Seated>, BuildError> {
    let mut seat = None;
    let engine = match embeddings.engine {
        EmbeddingsEngine::Off => None,
        EmbeddingsEngine::OpenAi => asked(embeddings, providers, clock, random).map(|asked| {
            let taken = seat.insert(Seat::new(asked));
            Arc::new(EmbedSeat::new(Arc::clone(taken))) as Arc<dyn Embed>
        }),
        EmbeddingsEngine::Local => match embeddings.path.clone() {
            Some(folder) => Some(computed(embeddings, folder, tracker).await?),
            None => None,
        },
    };
    let cached = |engine| Arc::new(Cached::new(engine, CACHE_BYTES, Arc::clone(metrics))) as Arc<dyn Embed>;
    Ok(engine.map(|engine| (cached(engine), seat)))
}

/// What the embedder may see of memories at most: a model in the process sees all.
pub(super) fn ceiling<S: BuildHasher>(
    embeddings: &Embeddings,
    providers: &HashMap<String, Arc<Provider>, S>,
) -> Sensitivity {
    let asked = embeddings.provider.as_ref().filter(|_| embeddings.engine == EmbeddingsEngine::OpenAi);
    asked.and_then(|name| providers.get(name)).map_or(Sensitivity::Sensitive, |provider| provider.max_sensitivity)
}

/// `None` where provider or model are not there, which the check of the configuration has refused.
pub(super) fn asked<S: BuildHasher>(
    embeddings: &Embeddings,
    providers: &HashMap<String, Arc<Provider>, S>,
    clock: &Arc<dyn Clock>,
    random: &Arc<dyn Random>,
) -> Option<Arc<dyn Embed>> {
    let provider = Arc::clone(providers.get(embeddings.provider.as_deref()?)?);
    let config = EmbedderConfig {
        model: embeddings.model.clone()?,
        dimension: embeddings.dimension,
        query_prefix: embeddings.query_prefix.clone(),
        document_prefix: embeddings.document_prefix.clone(),
    };
    Some(Arc::new(ModelEmbedder::new(provider, config, Arc::clone(clock), Arc::clone(random))))
}

async fn computed(
    embeddings: &Embeddings,
    folder: PathBuf,
    tracker: &TaskTracker,
) -> Result<Arc<dyn Embed>, BuildError> {
    let config = LocalConfig {
        name: embeddings.model.clone(),
        dimension: embeddings.dimension,
        query_prefix: embeddings.query_prefix.clone(),
        document_prefix: embeddings.document_prefix.clone(),
    };
    let owner = tracker.clone();
    // Reading and packing the weights takes a moment, which the async threads need not wait for.
    let opened = tracker.spawn_blocking(move || LocalEmbedder::open(&folder, config, owner)).await;
    let opened = opened.map_err(|_| BuildError::Embedder("reading it broke off".to_owned()))?;
    opened.map(|opened| Arc::new(opened) as Arc<dyn Embed>).map_err(|error| BuildError::Embedder(error.to_string()))
}
