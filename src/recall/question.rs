//! The vector of a question, in time or not at all.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::patience::Patience;
use crate::base::Clock;
use crate::embed::{Embed, EmbedError, Side};
use crate::telemetry::{Metrics, QuestionVector};

/// The longest question that is embedded, in characters; of a longer one the beginning is.
const MAX_CHARS: usize = 2_000;

/// Makes the vectors of questions.
pub struct Questions {
    embedder: Arc<dyn Embed>,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
    patience: Mutex<Patience>,
}

impl fmt::Debug for Questions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Questions").field("embedder", &self.embedder).finish_non_exhaustive()
    }
}

impl Questions {
    /// Makes vectors by `embedder`.
    #[must_use]
    pub fn new(embedder: Arc<dyn Embed>, clock: Arc<dyn Clock>, metrics: Arc<Metrics>) -> Self {
        Self { embedder, clock, metrics, patience: Mutex::default() }
    }

    /// The vector of a question; `None` when there is none within `limit`, or the embedder has been failing.
    pub async fn vector(&self, text: &str, limit: Duration) -> Option<Arc<[f32]>> {
        let text = text.trim();
        if text.is_empty() {
            return None;
        }
        if self.patience().is_out(self.clock.now()) {
            self.metrics.question_vectors.inc(QuestionVector::Skipped);
            return None;
        }
        let end = text.char_indices().nth(MAX_CHARS).map_or(text.len(), |(at, _)| at);
        let asked = tokio::time::timeout(limit, self.embedder.embed(Side::Query, &[&text[..end]])).await;
        let mut wanted = None;
        let (vector, outcome) = match asked {
            Ok(Ok(mut vectors)) if vectors.len() == 1 => (vectors.pop(), QuestionVector::Made),
            Ok(Ok(_)) => (None, QuestionVector::Failed),
            Ok(Err(error)) => {
                tracing::debug!(%error, "a question has no vector; words find");
                if let EmbedError::Later { retry_after, .. } = error {
                    wanted = retry_after;
                }
                (None, QuestionVector::Failed)
            }
            Err(_) => (None, QuestionVector::Late),
        };
        self.metrics.question_vectors.inc(outcome);
        let now = self.clock.now();
        self.patience().learn(vector.is_some(), wanted, now);
        vector.map(Into::into)
    }

    fn patience(&self) -> std::sync::MutexGuard<'_, Patience> {
        // Plain numbers: a panic leaves them as good as they were.
        self.patience.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use async_trait::async_trait;

    use super::super::patience::MAX_FAILURES;
    use super::*;
    use crate::base::{ManualClock, Time};
    use crate::embed::Generation;

    #[derive(Debug)]
    struct Scripted {
        generation: Generation,
        asked: AtomicUsize,
        /// What is answered from here on; none = nothing, ever.
        works: Mutex<Option<bool>>,
        /// How long it asks to be left alone.
        wants: Option<Duration>,
    }

    #[async_trait]
    impl Embed for Scripted {
        fn generation(&self) -> &Generation {
            &self.generation
        }

        async fn embed(&self, _: Side, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
            self.asked.fetch_add(1, Ordering::Relaxed);
            let works = *self.works.lock().unwrap();
            match works {
                Some(true) => Ok(texts.iter().map(|text| vec![text.chars().count() as f32]).collect()),
                Some(false) => Err(EmbedError::Later { reason: "busy".to_owned(), retry_after: self.wants }),
                None => std::future::pending().await,
            }
        }
    }

    fn questions(works: Option<bool>) -> (Questions, Arc<Scripted>, Arc<ManualClock>) {
        questions_of(works, None)
    }

    fn questions_of(works: Option<bool>, wants: Option<Duration>) -> (Questions, Arc<Scripted>, Arc<ManualClock>) {
        let generation = Generation {
            model: String::new(),
            dimension: None,
            query_prefix: String::new(),
            document_prefix: String::new(),
        };
        let embedder = Arc::new(Scripted { generation, asked: AtomicUsize::new(0), works: Mutex::new(works), wants });
        let clock = Arc::new(ManualClock::new(Time(1_000_000)));
        let questions = Questions::new(Arc::clone(&embedder) as Arc<_>, Arc::clone(&clock) as Arc<_>, Arc::default());
        (questions, embedder, clock)
    }

    const LIMIT: Duration = Duration::from_millis(20);

    // Design: a stalled embedding endpoint costs the deadline at most.
    #[tokio::test]
    async fn a_stalled_embedder_costs_its_time_and_no_more() {
        let (questions, _, _) = questions(None);
        let begun = std::time::Instant::now();
        assert_eq!(questions.vector("where is my bike", LIMIT).await, None);
        assert!(begun.elapsed() >= LIMIT);
        assert_eq!(questions.metrics.question_vectors.get(QuestionVector::Late), 1);
    }

    // MemTensor/MemOS#1333.
    #[tokio::test]
    async fn an_embedder_that_fails_is_left_alone_for_a_while() {
        let (questions, embedder, clock) = questions(Some(false));
        for _ in 0..10 {
            assert_eq!(questions.vector("a", LIMIT).await, None);
        }
        assert_eq!(embedder.asked.load(Ordering::Relaxed), MAX_FAILURES as usize);
        clock.advance_millis(1_000);
        assert_eq!(questions.vector("a", LIMIT).await, None, "it is tried again, and fails");
        clock.advance_millis(1_000);
        assert_eq!(questions.vector("a", LIMIT).await, None);
        assert_eq!(embedder.asked.load(Ordering::Relaxed), MAX_FAILURES as usize + 1, "the pause has doubled");
        *embedder.works.lock().unwrap() = Some(true);
        clock.advance_millis(30_000);
        assert!(questions.vector("a", LIMIT).await.is_some());
        assert_eq!(questions.vector("ab", LIMIT).await.as_deref(), Some(&[2.0][..]));
    }

    #[tokio::test]
    async fn of_a_very_long_question_the_beginning_is_embedded_and_of_an_empty_one_nothing() {
        let (questions, embedder, _) = questions(Some(true));
        let vector = questions.vector(&"é".repeat(1_000_000), LIMIT).await;
        assert_eq!(vector.as_deref(), Some(&[MAX_CHARS as f32][..]));
        assert_eq!(questions.vector(" \n", LIMIT).await, None);
        assert_eq!(embedder.asked.load(Ordering::Relaxed), 1);
    }

    #[tokio::test]
    async fn an_embedder_that_asks_to_be_left_alone_is_and_for_no_longer_than_others() {
        let (questions, embedder, clock) = questions_of(Some(false), Some(Duration::from_secs(7_000)));
        assert_eq!(questions.vector("a", LIMIT).await, None);
        clock.advance_millis(29_999);
        assert_eq!(questions.vector("a", LIMIT).await, None);
        assert_eq!(embedder.asked.load(Ordering::Relaxed), 1);
        clock.advance_millis(1);
        assert_eq!(questions.vector("a", LIMIT).await, None);
        assert_eq!(embedder.asked.load(Ordering::Relaxed), 2);
    }
}
