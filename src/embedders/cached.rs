//! Remembers vectors by what was embedded, whoever embeds, and counts.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared, WeakShared};
use moka::sync::Cache;
use tokio::time::Instant;

use crate::embed::{Embed, EmbedError, Generation, Side, of_all};
use crate::telemetry::{EmbedOutcome, EmbedSide, Metrics};

/// What an entry takes beside its numbers, in bytes.
const ENTRY_BYTES: usize = 160;

type Key = [u8; 32];
type Vector = Arc<[f32]>;
type Answer = BoxFuture<'static, Result<Vector, EmbedError>>;
type Asking = Shared<Answer>;

/// An embedder that is asked for each text once: vectors are kept by a hash of generation, side and text, the least useful dropped
/// when they take too much room, and a question that several ask at the same time is asked once for all of them.
pub struct Cached {
    inner: Arc<dyn Embed>,
    generation: String,
    known: Cache<Key, Vector>,
    /// Questions that are being asked: only as long as somebody waits for the answer.
    asking: Mutex<HashMap<Key, WeakShared<Answer>>>,
    metrics: Arc<Metrics>,
}

impl fmt::Debug for Cached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cached").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl Cached {
    /// Stands before an embedder, and keeps so many bytes of vectors.
    #[must_use]
    pub fn new(inner: Arc<dyn Embed>, bytes: u64, metrics: Arc<Metrics>) -> Self {
        let weigh = |_: &Key, vector: &Vector| u32::try_from(vector.len() * 4 + ENTRY_BYTES).unwrap_or(u32::MAX);
        Self {
            generation: inner.generation().id(),
            inner,
            known: Cache::builder().max_capacity(bytes).weigher(weigh).build(),
            asking: Mutex::default(),
            metrics,
        }
    }

    fn key(&self, side: Side, text: &str) -> Key {
        let mut hash = blake3::Hasher::new();
        hash.update(self.generation.as_bytes()).update(&[side as u8]).update(text.as_bytes());
        *hash.finalize().as_bytes()
    }

    async fn question(&self, text: &str) -> Result<Vector, EmbedError> {
        let key = self.key(Side::Query, text);
        if let Some(vector) = self.known.get(&key) {
            self.metrics.embeds.inc(EmbedSide::Query, EmbedOutcome::Cached);
            return Ok(vector);
        }
        self.asked(key, text).await
    }

    /// Whoever asks the same is given the same future, which runs as long as one of them waits.
    fn asked(&self, key: Key, text: &str) -> Asking {
        let mut asking = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = asking.get(&key).and_then(WeakShared::upgrade) {
            return running;
        }
        // As many as there are requests at a time, so few.
        asking.retain(|_, running| running.upgrade().is_some());
        let (inner, known, metrics) = (Arc::clone(&self.inner), self.known.clone(), Arc::clone(&self.metrics));
        let text = text.to_owned();
        let answer = async move {
            let mut counted = Counted::new(metrics, Side::Query, 1);
            let answer = inner.embed(Side::Query, &[&text]).await;
            counted.outcome = outcome(&answer);
            doubt(&known, &answer);
            let vector: Vector = answer?.pop().ok_or_else(none)?.into();
            known.insert(key, Arc::clone(&vector));
            Ok(vector)
        };
        let running = answer.boxed().shared();
        if let Some(weak) = running.downgrade() {
            asking.insert(key, weak);
        }
        running
    }

    async fn stored(&self, texts: &[&str]) -> Result<Vec<Option<Vec<f32>>>, EmbedError> {
        let keys: Vec<Key> = texts.iter().map(|text| self.key(Side::Document, text)).collect();
        let mut out: Vec<Option<Vec<f32>>> =
            keys.iter().map(|key| self.known.get(key).map(|vector| vector.to_vec())).collect();
        let missing: Vec<usize> = (0..texts.len()).filter(|at| out[*at].is_none()).collect();
        let found = (texts.len() - missing.len()) as u64;
        self.metrics.embeds.add(EmbedSide::Document, EmbedOutcome::Cached, found);
        if missing.is_empty() {
            return Ok(out);
        }
        let asked: Vec<&str> = missing.iter().map(|at| texts[*at]).collect();
        let mut counted = Counted::new(Arc::clone(&self.metrics), Side::Document, asked.len());
        let answer = self.inner.embed_each(Side::Document, &asked).await;
        counted.outcome = outcome(&answer);
        doubt(&self.known, &answer);
        let answer = answer?;
        counted.refused = answer.iter().filter(|vector| vector.is_none()).count();
        drop(counted);
        if answer.len() != missing.len() {
            return Err(none());
        }
        for (at, vector) in missing.into_iter().zip(answer) {
            if let Some(vector) = &vector {
                self.known.insert(keys[at], vector.as_slice().into());
            }
            out[at] = vector;
        }
        Ok(out)
    }
}

#[async_trait]
impl Embed for Cached {
    fn generation(&self) -> &Generation {
        self.inner.generation()
    }

    async fn embed(&self, side: Side, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        of_all(self.embed_each(side, texts).await?)
    }

    async fn embed_each(&self, side: Side, texts: &[&str]) -> Result<Vec<Option<Vec<f32>>>, EmbedError> {
        if side == Side::Document {
            return self.stored(texts).await;
        }
        let mut out = Vec::with_capacity(texts.len());
        for text in texts {
            out.push(Some(self.question(text).await?.to_vec()));
        }
        Ok(out)
    }

    fn forget(&self) {
        self.known.invalidate_all();
        self.inner.forget();
    }
}

fn none() -> EmbedError {
    EmbedError::Unusable("another number of vectors than of texts".to_owned())
}

/// An answer that cannot be used may say that another model stands there now, whose vectors must not be mixed with those that are kept.
fn doubt<T>(known: &Cache<Key, Vector>, answer: &Result<T, EmbedError>) {
    if matches!(answer, Err(EmbedError::Unusable(_))) {
        known.invalidate_all();
    }
}

fn outcome<T>(answer: &Result<T, EmbedError>) -> EmbedOutcome {
    match answer {
        Ok(_) => EmbedOutcome::Ok,
        Err(EmbedError::Later { .. }) => EmbedOutcome::Later,
        Err(EmbedError::Refused(_)) => EmbedOutcome::Refused,
        Err(EmbedError::Unusable(_)) => EmbedOutcome::Unusable,
    }
}

/// Counts texts when it is dropped: with its future, when nobody waits any longer.
struct Counted {
    metrics: Arc<Metrics>,
    side: EmbedSide,
    texts: usize,
    refused: usize,
    outcome: EmbedOutcome,
    started: Instant,
}

impl Counted {
    fn new(metrics: Arc<Metrics>, side: Side, texts: usize) -> Self {
        let side = match side {
            Side::Query => EmbedSide::Query,
            Side::Document => EmbedSide::Document,
        };
        Self { metrics, side, texts, refused: 0, outcome: EmbedOutcome::Abandoned, started: Instant::now() }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.metrics.embeds.add(self.side, self.outcome, (self.texts - self.refused) as u64);
        self.metrics.embeds.add(self.side, EmbedOutcome::Refused, self.refused as u64);
        self.metrics.embed_seconds.observe(self.side, self.started.elapsed().as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::future::join;
    use tokio::sync::Semaphore;

    use super::*;

    /// Answers with the length of the text, as often as it is let.
    #[derive(Debug)]
    struct Scripted {
        generation: Generation,
        asked: AtomicUsize,
        gate: Semaphore,
    }

    #[async_trait]
    impl Embed for Scripted {
        fn generation(&self) -> &Generation {
            &self.generation
        }

        async fn embed(&self, _: Side, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
            self.asked.fetch_add(texts.len(), Ordering::Relaxed);
            self.gate.acquire().await.unwrap().forget();
            if texts.contains(&"bad") {
                return Err(EmbedError::Refused("no".to_owned()));
            }
            if texts.contains(&"other model") {
                return Err(EmbedError::Unusable("of another dimension".to_owned()));
            }
            Ok(texts.iter().map(|text| vec![text.len() as f32, 1.0]).collect())
        }
    }

    fn cached(bytes: u64, answers: usize) -> (Arc<Scripted>, Cached, Arc<Metrics>) {
        let generation = Generation {
            model: "m".to_owned(),
            dimension: None,
            query_prefix: String::new(),
            document_prefix: String::new(),
        };
        let inner = Arc::new(Scripted { generation, asked: AtomicUsize::new(0), gate: Semaphore::new(answers) });
        let metrics = Arc::new(Metrics::new());
        let cached = Cached::new(Arc::clone(&inner) as Arc<dyn Embed>, bytes, Arc::clone(&metrics));
        (inner, cached, metrics)
    }

    #[tokio::test]
    async fn a_text_is_asked_once_on_each_side() {
        let (inner, cached, metrics) = cached(1 << 20, 10);
        for _ in 0..3 {
            assert_eq!(cached.embed(Side::Query, &["four"]).await.unwrap(), [vec![4.0, 1.0]]);
            assert_eq!(cached.embed(Side::Document, &["four", "to"]).await.unwrap(), [vec![4.0, 1.0], vec![2.0, 1.0]]);
        }
        assert_eq!(inner.asked.load(Ordering::Relaxed), 3);
        assert_eq!(metrics.embeds.get(EmbedSide::Query, EmbedOutcome::Cached), 2);
        assert_eq!(metrics.embeds.get(EmbedSide::Document, EmbedOutcome::Ok), 2);
        // Only what is missing is asked for, and put in its place.
        let found = cached.embed(Side::Document, &["to", "three", "four"]).await.unwrap();
        assert_eq!(found.iter().map(|v| v[0]).collect::<Vec<_>>(), [2.0, 5.0, 4.0]);
        assert_eq!(inner.asked.load(Ordering::Relaxed), 4);
    }

    #[tokio::test]
    async fn a_question_that_two_ask_at_once_is_asked_once_also_when_the_first_leaves() {
        let (inner, cached, metrics) = cached(1 << 20, 0);
        let mut first = Box::pin(cached.embed(Side::Query, &["same"]));
        assert!(futures_util::poll!(&mut first).is_pending());
        let mut second = Box::pin(cached.embed(Side::Query, &["same"]));
        assert!(futures_util::poll!(&mut second).is_pending());
        drop(first);
        inner.gate.add_permits(1);
        let (found, third) = join(second, cached.embed(Side::Query, &["same"])).await;
        assert_eq!(found, third);
        assert_eq!(inner.asked.load(Ordering::Relaxed), 1);
        assert_eq!(metrics.embeds.get(EmbedSide::Query, EmbedOutcome::Ok), 1);
    }

    #[tokio::test]
    async fn a_question_that_nobody_waits_for_ends_and_is_counted() {
        let (inner, cached, metrics) = cached(1 << 20, 0);
        let mut asked = Box::pin(cached.embed(Side::Query, &["late"]));
        assert!(futures_util::poll!(&mut asked).is_pending());
        drop(asked);
        assert_eq!(metrics.embeds.get(EmbedSide::Query, EmbedOutcome::Abandoned), 1);
        // It is asked anew afterwards.
        inner.gate.add_permits(1);
        assert!(cached.embed(Side::Query, &["late"]).await.is_ok());
    }

    #[tokio::test]
    async fn failures_are_not_kept() {
        let (inner, cached, metrics) = cached(1 << 20, 10);
        for _ in 0..2 {
            assert!(cached.embed(Side::Query, &["bad"]).await.is_err());
        }
        assert_eq!(inner.asked.load(Ordering::Relaxed), 2);
        assert_eq!(metrics.embeds.get(EmbedSide::Query, EmbedOutcome::Refused), 2);
    }

    #[tokio::test]
    async fn nothing_is_kept_of_a_model_that_was_exchanged_and_nothing_of_what_was_erased() {
        let (inner, cached, _) = cached(1 << 20, 20);
        let ask = async |text: &str| cached.embed(Side::Query, &[text]).await.is_ok();
        for side in [Side::Query, Side::Document] {
            assert!(ask("same").await && ask("same").await);
            let before = inner.asked.load(Ordering::Relaxed);
            assert!(cached.embed(side, &["other model"]).await.is_err());
            assert!(ask("same").await);
            assert_eq!(inner.asked.load(Ordering::Relaxed), before + 2);
        }
        let before = inner.asked.load(Ordering::Relaxed);
        cached.forget();
        assert!(ask("same").await);
        assert_eq!(inner.asked.load(Ordering::Relaxed), before + 1);
    }

    #[tokio::test]
    async fn what_is_kept_is_bounded_by_bytes() {
        let (_, cached, _) = cached(2_000, 1_000);
        for number in 0..200 {
            cached.embed(Side::Query, &[&number.to_string()]).await.unwrap();
        }
        cached.known.run_pending_tasks();
        assert!(cached.known.weighted_size() <= 2_000);
        assert!(cached.asking.lock().unwrap().len() <= 2);
    }
}
