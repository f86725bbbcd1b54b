//! Ties the making of vectors together: who makes them, where they go, who is told.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;

use crate::base::{Clock, EpisodeId, Random};
use crate::embed::{Embed, Packed};
use crate::jobs::{VectorHost, Vectors, VectorsConfig};
use crate::memory::{Episode, Scope, Sensitivity};
use crate::recall::{Outer, Questions, Recall, Space, terms_of};
use crate::store::{Store, VectorIndex, WeightedTerm};
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
    /// The index outside of the process, and how it is asked.
    pub(super) outside: Option<&'a Outside>,
}

/// The job that makes the vectors of memories, and who makes those of questions.
pub(super) fn vectors(embedder: &Arc<dyn Embed>, parts: &VectorParts<'_>, owner: &str) -> (Vectors, Arc<Questions>) {
    let VectorParts { store, recall, clock, random, metrics, max_sensitivity, outside } = *parts;
    let job = Vectors::new(
        Arc::clone(store),
        Arc::clone(embedder),
        Arc::new(Host::new(recall, outside)),
        Arc::clone(clock),
        Arc::clone(random),
        Arc::clone(metrics),
        VectorsConfig { max_sensitivity, ..VectorsConfig::named(owner) },
    );
    let job = job.through(outside.map(|outside| Arc::clone(&outside.index)));
    (job, Arc::new(Questions::new(Arc::clone(embedder), Arc::clone(clock), Arc::clone(metrics))))
}

/// An index outside of the process, for the job that fills it and for those who ask it.
#[derive(Clone)]
pub(super) struct Outside {
    pub(super) index: Arc<dyn VectorIndex>,
    pub(super) asks: Arc<Outer>,
}

/// The scopes in memory, as the job sees them.
struct Host {
    recall: Arc<Recall>,
    outer: Option<Arc<Outer>>,
    /// What vectors are placed by while their generation is being filled.
    fills: Mutex<Option<Arc<Space>>>,
}

impl Host {
    fn new(recall: &Arc<Recall>, outside: Option<&Outside>) -> Self {
        let outer = outside.map(|outside| Arc::clone(&outside.asks));
        Self { recall: Arc::clone(recall), outer, fills: Mutex::default() }
    }

    /// The space of a generation, read once.
    fn space(&self, generation: &str, background: &[u8]) -> Option<Arc<Space>> {
        // A panic leaves it as it was.
        let mut known = self.fills.lock().unwrap_or_else(PoisonError::into_inner);
        if known.as_ref().is_none_or(|space| &**space.generation() != generation) {
            *known = Space::read(generation, background).ok().map(Arc::new);
        }
        known.clone()
    }
}

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

    fn measured_by(&self) -> String {
        Space::measured_by()
    }

    fn place(&self, generation: &str, background: &[u8], vector: &Packed) -> Option<Vec<f32>> {
        self.space(generation, background)?.placed(vector)
    }

    fn terms(&self, episode: &Episode) -> Vec<WeightedTerm> {
        terms_of(episode)
    }

    async fn serve(&self, generation: &str, background: &[u8]) -> bool {
        let asks = |outer: &Option<Arc<Outer>>| outer.as_ref().inspect(|outer| outer.serve(generation)).is_some();
        if background.is_empty() {
            return asks(&self.outer);
        }
        match Space::read(generation, background) {
            Ok(space) => {
                self.recall.set_space(Some(Arc::new(space)));
                if !asks(&self.outer) {
                    self.recall.warm().await;
                }
                true
            }
            Err(error) => {
                tracing::info!(%error, "what vectors are measured by is made anew");
                false
            }
        }
    }

    fn embedded(&self, scope: &Scope, generation: &str, vectors: &[(EpisodeId, Packed)]) {
        self.recall.embedded(scope, generation, vectors);
    }

    fn take_lacking(&self, max: usize) -> HashMap<Scope, Vec<EpisodeId>> {
        self.recall.take_lacking(max)
    }

    fn still_lacking(&self, scope: &Scope, ids: &[EpisodeId]) {
        self.recall.still_lacking(scope, ids);
    }
}
