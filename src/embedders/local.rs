//! A model in the process: the engine `local`.
//!
//! The work runs off the async threads, that of no more questions at a time than there are cores, whether or not anybody still waits for it;
//! questions go before stored texts, which are cut into small pieces of work and wait while a question is being answered.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio_util::task::TaskTracker;

use super::folder::{FolderError, Model};
use crate::embed::{Embed, EmbedError, Generation, Side, of_all, to_unit_length};

/// Tokens of stored texts that are computed at once: some milliseconds, for which a question may have to wait.
const CHUNK_TOKENS: usize = 128;
/// Questions that may wait; further ones are refused for now.
const MAX_WAITING: usize = 256;
/// Stored texts wait no longer than this for questions to end, so that they come to their turn on a busy machine too.
const PATIENCE: Duration = Duration::from_millis(100);

/// How a local model is run.
#[derive(Clone, Debug, Default)]
pub struct LocalConfig {
    /// A name for the model, which makes its vectors others; none = what it is made of is name enough.
    pub name: Option<String>,
    /// How many numbers its vectors must have; none = as many as it gives.
    pub dimension: Option<u32>,
    /// Put before every question.
    pub query_prefix: String,
    /// Put before every stored text.
    pub document_prefix: String,
}

/// Runs a model of the BERT family from a folder.
pub struct LocalEmbedder {
    model: Arc<Model>,
    generation: Generation,
    tracker: TaskTracker,
    queries: Arc<Semaphore>,
    documents: Arc<Semaphore>,
    waiting: Arc<Waiting>,
}

/// Questions that run or wait, and who waits for there to be none.
#[derive(Debug, Default)]
struct Waiting {
    questions: AtomicUsize,
    quiet: Notify,
}

impl fmt::Debug for LocalEmbedder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalEmbedder")
            .field("model", &self.model)
            .field("generation", &self.generation)
            .finish_non_exhaustive()
    }
}

impl LocalEmbedder {
    /// Reads the model of a folder. Takes up to a few seconds, and blocks. Its work belongs to `tracker`.
    ///
    /// # Errors
    /// A sentence that names the file, and says what to do: see [`FolderError`].
    pub fn open(folder: &Path, config: LocalConfig, tracker: TaskTracker) -> Result<Self, FolderError> {
        let model = Model::open(folder)?;
        let gives = u32::try_from(model.encoder.hidden).unwrap_or(u32::MAX);
        if let Some(wanted) = config.dimension.filter(|wanted| *wanted != gives) {
            let problem = format!("its vectors have {gives} numbers, where {wanted} are configured");
            return Err(FolderError { file: folder.to_owned(), problem });
        }
        let name = config.name.map(|name| format!("{name}@")).unwrap_or_default();
        let generation = Generation {
            // Other weights under the same name give other vectors, and the same ones elsewhere do not.
            model: format!("local/{name}{}", model.hash),
            dimension: Some(gives),
            query_prefix: config.query_prefix,
            document_prefix: config.document_prefix,
        };
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Ok(Self {
            model: Arc::new(model),
            generation,
            tracker,
            queries: Arc::new(Semaphore::new(cores)),
            documents: Arc::new(Semaphore::new((cores / 2).max(1))),
            waiting: Arc::default(),
        })
    }

    async fn questions(&self, texts: Vec<String>) -> Result<Vec<Option<Vec<f32>>>, EmbedError> {
        let asking = Asking::of(&self.waiting)?;
        let permit = permit(&self.queries).await?;
        self.run(move |model| {
            // Until the work is done, which who asked need not wait for.
            let _running = (permit, asking);
            let ids: Vec<Vec<u32>> = texts.iter().map(|text| model.tokenizer.encode(text, model.tokens)).collect();
            encode(model, &ids.iter().collect::<Vec<_>>())
        })
        .await
    }

    async fn stored(&self, texts: Vec<String>) -> Result<Vec<Option<Vec<f32>>>, EmbedError> {
        let permit = Arc::new(permit(&self.documents).await?);
        let running = Arc::clone(&permit);
        let ids = self
            .run(move |model| {
                let _running = running;
                texts.iter().map(|text| model.tokenizer.encode(text, model.tokens)).collect::<Vec<_>>()
            })
            .await?;
        let mut out = vec![None; ids.len()];
        let ids = Arc::new(ids);
        for chunk in chunks(&ids) {
            self.until_quiet().await;
            let (ids, places, running) = (Arc::clone(&ids), chunk.clone(), Arc::clone(&permit));
            let vectors = self.run(move |model| {
                let _running = running;
                encode(model, &places.iter().map(|at| &ids[*at]).collect::<Vec<_>>())
            });
            for (place, vector) in chunk.into_iter().zip(vectors.await?) {
                out[place] = vector;
            }
        }
        Ok(out)
    }

    async fn until_quiet(&self) {
        let quiet = async {
            loop {
                let woken = self.waiting.quiet.notified();
                if self.waiting.questions.load(Ordering::Acquire) == 0 {
                    return;
                }
                woken.await;
            }
        };
        // Having waited long enough is no fault.
        let _ = tokio::time::timeout(PATIENCE, quiet).await;
    }

    /// Runs work off the async threads. Work that has begun goes on to its end, which is near.
    async fn run<T: Send + 'static>(&self, work: impl FnOnce(&Model) -> T + Send + 'static) -> Result<T, EmbedError> {
        let model = Arc::clone(&self.model);
        let done = self.tracker.spawn_blocking(move || work(&model)).await;
        done.map_err(|_| EmbedError::Unusable("the model broke off its work".to_owned()))
    }
}

#[async_trait]
impl Embed for LocalEmbedder {
    fn generation(&self) -> &Generation {
        &self.generation
    }

    async fn embed(&self, side: Side, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        of_all(self.embed_each(side, texts).await?)
    }

    async fn embed_each(&self, side: Side, texts: &[&str]) -> Result<Vec<Option<Vec<f32>>>, EmbedError> {
        let prefix = self.generation.prefix(side);
        let texts = texts.iter().map(|text| format!("{prefix}{text}")).collect();
        match side {
            Side::Query => self.questions(texts).await,
            Side::Document => self.stored(texts).await,
        }
    }
}

async fn permit(semaphore: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit, EmbedError> {
    let permit = Arc::clone(semaphore).acquire_owned().await;
    permit.map_err(|_| EmbedError::Unusable("the model is closed".to_owned()))
}

/// A question that runs or waits.
struct Asking(Arc<Waiting>);

impl Asking {
    fn of(waiting: &Arc<Waiting>) -> Result<Self, EmbedError> {
        let before = waiting.questions.fetch_add(1, Ordering::AcqRel);
        let asking = Self(Arc::clone(waiting));
        if before >= MAX_WAITING {
            return Err(EmbedError::Later { reason: "too many questions wait".to_owned(), retry_after: None });
        }
        Ok(asking)
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        if self.0.questions.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.quiet.notify_waiters();
        }
    }
}

/// Places of texts that are computed together: of like length, and of no more than [`CHUNK_TOKENS`] unless one alone is longer.
fn chunks(texts: &[Vec<u32>]) -> Vec<Vec<usize>> {
    let mut places: Vec<usize> = (0..texts.len()).collect();
    places.sort_by_key(|at| texts[*at].len());
    let mut out: Vec<Vec<usize>> = Vec::new();
    let mut tokens = CHUNK_TOKENS;
    for at in places {
        let size = texts[at].len();
        match out.last_mut().filter(|_| tokens + size <= CHUNK_TOKENS) {
            Some(chunk) => chunk.push(at),
            None => {
                out.push(vec![at]);
                tokens = 0;
            }
        }
        tokens += size;
    }
    out
}

fn encode(model: &Model, texts: &[&Vec<u32>]) -> Vec<Option<Vec<f32>>> {
    // A tokenizer that puts nothing around a text has nothing to say of an empty one: that has the direction of the first token.
    let texts: Vec<&[u32]> = texts.iter().map(|ids| if ids.is_empty() { &[0][..] } else { ids.as_slice() }).collect();
    model.encoder.encode(&texts).into_iter().map(directed).collect()
}

/// None where the numbers have no direction: that text has no vector, and its neighbours do.
fn directed(mut vector: Vec<f32>) -> Option<Vec<f32>> {
    to_unit_length(&mut vector).then_some(vector)
}

#[cfg(test)]
mod tests;
