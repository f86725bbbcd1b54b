//! Ties the making of vectors together: who makes them, where they go, who is told.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;

use crate::base::{Clock, EpisodeId, Random};
use crate::embed::{Embed, Packed};
use crate::jobs::{VectorHost, Vectors, VectorsConfig};
use crate::memory::{Scope, Sensitivity};
use crate::recall::{Questions, Recall, Space};
use crate::store::Store;
use crate::telemetry::Metrics;

/// What vectors are made with.
pub(super) struct VectorParts<'a> {
    pub(super) store: &'a Arc<dyn Store>,
    pub(super) recall: &'a Arc<Recall>,
    pub(super) clock: &'a Arc<dyn Clock>,
    pub(super) random: &'a Arc<dyn Random>,
    pub(super) metrics: &'a Arc<Metrics>,
    /// The embedder may see nothing more private.
    pub(super) max_sensitivity: Sensitivity,
}

/// The job that makes the vectors of memories, and who makes those of questions.
pub(super) fn vectors(embedder: &Arc<dyn Embed>, parts: &VectorParts<'_>, owner: &str) -> (Vectors, Arc<Questions>) {
    let VectorParts { store, recall, clock, random, metrics, max_sensitivity } = *parts;
    let job = Vectors::new(
        Arc::clone(store),
        Arc::clone(embedder),
        Arc::new(Host(Arc::clone(recall))),
        Arc::clone(clock),
        Arc::clone(random),
        Arc::clone(metrics),
        VectorsConfig { max_sensitivity, ..VectorsConfig::named(owner) },
    );
    (job, Arc::new(Questions::new(Arc::clone(embedder), Arc::clone(clock), Arc::clone(metrics))))
}

/// The scopes in memory, as the job sees them.
struct Host(Arc<Recall>);

#[async_trait]
impl VectorHost for Host {
    fn texts(&self) -> (Vec<&'static str>, Vec<&'static str>) {
        let texts = Space::texts();
        (texts.documents, texts.questions)
    }

    fn measure(&self, documents: &[Vec<f32>], questions: &[Vec<f32>]) -> Result<Vec<u8>, String> {
        let written = Space::write(documents, questions).map_err(|error| error.to_string())?;
        // Written down is not yet of use: a model that makes the same vector of everything is found out by reading.
        Space::read("", &written).map_err(|error| error.to_string())?;
        Ok(written)
    }

    async fn serve(&self, generation: &str, background: &[u8]) -> bool {
        match Space::read(generation, background) {
            Ok(space) => {
                self.0.set_space(Some(Arc::new(space)));
                self.0.warm().await;
                true
            }
            Err(error) => {
                tracing::info!(%error, "what vectors are measured by is made anew");
                false
            }
        }
    }

    fn embedded(&self, scope: &Scope, generation: &str, vectors: &[(EpisodeId, Packed)]) {
        self.0.embedded(scope, generation, vectors);
    }

    fn take_lacking(&self, max: usize) -> HashMap<Scope, Vec<EpisodeId>> {
        self.0.take_lacking(max)
    }

    fn still_lacking(&self, scope: &Scope, ids: &[EpisodeId]) {
        self.0.still_lacking(scope, ids);
    }
}
