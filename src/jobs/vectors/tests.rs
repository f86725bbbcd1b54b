//! The job over a real store, with an embedder and scopes in memory made by hand.

use std::collections::{BTreeSet, HashMap};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use tokio::sync::Semaphore;

use super::*;
use crate::base::{ManualClock, SeededRandom};
use crate::memory::{Episode, Speaker};
use crate::store::contract::fixtures::{NOW, episode, scope};
use crate::store::sql::{SqlStore, SqliteOptions};
use crate::store::{EpisodeStore, ScopeStore, VectorStore};

/// Counts letters. Can be told to fail, to refuse texts with a word, and to be of another size.
#[derive(Debug)]
pub(super) struct Letters {
    generation: Generation,
    dimension: AtomicUsize,
    fails: Mutex<Option<EmbedError>>,
    documents: AtomicU64,
    /// Stored texts wait for this.
    gate: Semaphore,
}

impl Letters {
    pub(super) fn new(model: &str) -> Arc<Self> {
        let generation = Generation {
            model: model.to_owned(),
            dimension: None,
            query_prefix: String::new(),
            document_prefix: String::new(),
        };
        let dimension = AtomicUsize::new(26);
        let gate = Semaphore::new(Semaphore::MAX_PERMITS);
        Arc::new(Self { generation, dimension, fails: Mutex::default(), documents: AtomicU64::new(0), gate })
    }

    pub(super) fn vector(&self, text: &str) -> Vec<f32> {
        let mut counts = vec![0.1; self.dimension.load(Ordering::Relaxed)];
        for letter in text.bytes().filter(u8::is_ascii_lowercase) {
            let at = usize::from(letter - b'a') % counts.len();
            counts[at] += 1.0;
        }
        counts
    }
}

#[async_trait]
impl Embed for Letters {
    fn generation(&self) -> &Generation {
        &self.generation
    }

    async fn embed(&self, side: Side, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        if let Some(error) = self.fails.lock().unwrap().clone() {
            return Err(error);
        }
        if side == Side::Document {
            drop(self.gate.acquire().await.unwrap());
            self.documents.fetch_add(texts.len() as u64, Ordering::Relaxed);
        }
        Ok(texts.iter().map(|text| self.vector(text)).collect())
    }

    async fn embed_each(&self, side: Side, texts: &[&str]) -> Result<Vec<Option<Vec<f32>>>, EmbedError> {
        let made = self.embed(side, texts).await?;
        Ok(texts.iter().zip(made).map(|(text, vector)| (!text.contains("forbidden")).then_some(vector)).collect())
    }
}

/// What the job told the scopes in memory.
#[derive(Default)]
pub(super) struct Scopes {
    serves: Mutex<Option<String>>,
    has: Mutex<BTreeSet<(String, EpisodeId)>>,
    lacking: Mutex<HashMap<Scope, Vec<EpisodeId>>>,
    /// The background that is understood.
    outdated: Mutex<bool>,
    looked: Mutex<bool>,
}

#[async_trait]
impl VectorHost for Scopes {
    fn texts(&self) -> (Vec<&'static str>, Vec<&'static str>) {
        (vec!["one thing", "another thing"], vec!["what thing"])
    }

    fn measure(&self, documents: &[Vec<f32>], questions: &[Vec<f32>]) -> Result<Vec<u8>, String> {
        assert_eq!((documents.len(), questions.len()), (2, 1));
        *self.outdated.lock().unwrap() = false;
        Ok(b"measured".to_vec())
    }

    fn measured_by(&self) -> String {
        "letters".to_owned()
    }

    fn place(&self, _: &str, _: &[u8], vector: &Packed) -> Option<Vec<f32>> {
        Some(vector.unpack())
    }

    fn terms(&self, episode: &Episode) -> Vec<WeightedTerm> {
        episode.text.split(' ').map(|word| (word.len() as u32, 1.0)).collect()
    }

    async fn serve(&self, generation: &str, background: &[u8]) -> bool {
        assert!(background == b"measured" || background.is_empty());
        let good = !*self.outdated.lock().unwrap();
        if good {
            *self.serves.lock().unwrap() = Some(generation.to_owned());
        }
        good
    }

    fn embedded(&self, _: &Scope, generation: &str, vectors: &[(EpisodeId, Packed)]) {
        self.has.lock().unwrap().extend(vectors.iter().map(|(id, _)| (generation.to_owned(), *id)));
    }

    fn take_lacking(&self, _: usize) -> HashMap<Scope, Vec<EpisodeId>> {
        *self.looked.lock().unwrap() = true;
        std::mem::take(&mut *self.lacking.lock().unwrap())
    }

    fn still_lacking(&self, scope: &Scope, ids: &[EpisodeId]) {
        if !ids.is_empty() {
            self.lacking.lock().unwrap().entry(scope.clone()).or_default().extend(ids);
        }
    }
}

impl Scopes {
    fn has(&self) -> usize {
        self.has.lock().unwrap().len()
    }

    pub(super) fn serves(&self) -> Option<String> {
        self.serves.lock().unwrap().clone()
    }
}

pub(super) struct Process {
    pub(super) job: Vectors,
    pub(super) host: Arc<Scopes>,
    pub(super) embedder: Arc<Letters>,
    pub(super) metrics: Arc<Metrics>,
}

/// One store, and the processes that share it.
pub(super) struct World {
    pub(super) store: Arc<SqlStore>,
    pub(super) clock: Arc<ManualClock>,
}

impl World {
    pub(super) async fn new() -> Self {
        let store = Arc::new(SqlStore::sqlite(SqliteOptions::default()).await.unwrap());
        Self { store, clock: Arc::new(ManualClock::new(NOW)) }
    }

    pub(super) async fn told(&self, subject: &str, ids: std::ops::Range<u128>) {
        let episodes: Vec<_> = ids.map(|n| episode(n, Speaker::User, &format!("memory number {n}"))).collect();
        self.store.put_episodes(&scope(subject), &episodes).await.unwrap();
    }

    pub(super) fn process(&self, owner: &str, embedder: Arc<Letters>) -> Process {
        let host = Arc::new(Scopes::default());
        let metrics = Arc::new(Metrics::new());
        let job = Vectors::new(
            Arc::clone(&self.store) as Arc<_>,
            Arc::clone(&embedder) as Arc<_>,
            Arc::clone(&host) as Arc<_>,
            Arc::clone(&self.clock) as Arc<_>,
            Arc::new(SeededRandom::new(1)),
            Arc::clone(&metrics),
            VectorsConfig { batch: 4, max_sensitivity: Sensitivity::Personal, ..VectorsConfig::named(owner) },
        );
        Process { job, host, embedder, metrics }
    }

    pub(super) async fn stored(&self, subject: &str, generation: &str) -> usize {
        self.store.vectors(&scope(subject), generation, None, 1_000).await.unwrap().len()
    }
}

impl Process {
    /// Works until there is nothing to do.
    pub(super) async fn work(&mut self) {
        while self.job.step().await.unwrap() == Pace::Busy {}
    }

    pub(super) fn generation(&self) -> String {
        self.job.using.as_ref().unwrap().record.id.clone()
    }
}

#[tokio::test]
async fn all_memories_get_a_vector_and_new_ones_follow() {
    let world = World::new().await;
    world.told("ann", 1..8).await;
    world.told("bob", 11..14).await;
    let mut process = world.process("a", Letters::new("m"));
    assert_eq!(process.job.step().await.unwrap(), Pace::Busy);
    assert_eq!(process.host.serves(), None, "not before all of them have one");
    assert_eq!(process.job.status().phase(), VectorPhase::Filling);
    process.work().await;
    let generation = process.generation();
    assert_eq!(process.host.serves().as_ref(), Some(&generation));
    assert_eq!((world.stored("ann", &generation).await, world.stored("bob", &generation).await), (7, 3));
    assert_eq!((process.job.status().text().as_str(), process.metrics.vectors.get(VectorOutcome::Made)), ("ok", 10));
    world.told("bob", 14..15).await;
    process.work().await;
    assert_eq!((world.stored("bob", &generation).await, process.host.has()), (4, 11));
    // A mark makes no vector anew.
    world.store.mark_episodes(&scope("bob"), &[EpisodeId(14)], crate::base::FactId(1), true).await.unwrap();
    process.work().await;
    assert_eq!(
        (process.metrics.vectors.get(VectorOutcome::Made), process.metrics.vectors.get(VectorOutcome::Kept)),
        (11, 1)
    );
}

#[tokio::test]
async fn a_process_that_died_costs_no_more_than_one_batch() {
    let world = World::new().await;
    world.told("ann", 1..12).await;
    let embedder = Letters::new("m");
    let mut first = world.process("a", Arc::clone(&embedder));
    first.job.step().await.unwrap();
    assert_eq!(first.embedder.documents.load(Ordering::Relaxed), 2 + 4, "two texts to measure by, and a batch");
    drop(first);
    world.clock.advance_millis(61_000);
    let mut second = world.process("b", Arc::clone(&embedder));
    second.work().await;
    assert_eq!(embedder.documents.load(Ordering::Relaxed), 2 + 11);
    assert_eq!(world.stored("ann", &second.generation()).await, 11);
}

// Two processes on one SQLite file.
#[tokio::test]
async fn of_two_processes_one_makes_the_vectors_and_both_have_them() {
    let world = World::new().await;
    world.told("ann", 1..6).await;
    let (mut one, mut two) = (world.process("a", Letters::new("m")), world.process("b", Letters::new("m")));
    one.job.step().await.unwrap();
    two.work().await;
    one.work().await;
    world.clock.advance_millis(20_000);
    two.work().await;
    assert_eq!(two.embedder.documents.load(Ordering::Relaxed), 0);
    assert_eq!(two.host.serves(), one.host.serves());
    world.told("ann", 6..7).await;
    two.host.still_lacking(&scope("ann"), &[EpisodeId(6)]);
    two.work().await;
    assert_eq!(two.host.has(), 0, "it is not made yet, and waits");
    one.work().await;
    two.work().await;
    assert_eq!((two.host.has(), two.embedder.documents.load(Ordering::Relaxed)), (1, 0));
    // The one that led goes.
    drop(one);
    world.clock.advance_millis(61_000);
    world.told("ann", 7..8).await;
    two.work().await;
    assert_eq!(world.stored("ann", &two.generation()).await, 7);
}

// MemTensor/MemOS#1333.
#[tokio::test]
async fn an_embedder_that_fails_loses_nothing() {
    let world = World::new().await;
    world.told("ann", 1..4).await;
    let mut process = world.process("a", Letters::new("m"));
    let busy = EmbedError::Later { reason: "busy".to_owned(), retry_after: Some(Duration::from_secs(7)) };
    *process.embedder.fails.lock().unwrap() = Some(busy);
    let failure = process.job.step().await.unwrap_err();
    assert!(process.job.failed(&failure, 1) >= Duration::from_secs(7), "it is asked when it wants to be");
    assert!(process.job.status().text().contains("busy"));
    let refused = Failure::Embed(EmbedError::Refused("wrong key".to_owned()));
    assert_eq!(process.job.failed(&refused, 1), process.job.config.backoff.longest);
    *process.embedder.fails.lock().unwrap() = None;
    process.work().await;
    assert_eq!(world.stored("ann", &process.generation()).await, 3);
    assert_eq!(process.metrics.vectors.get(VectorOutcome::Retried), 2);
}

#[tokio::test]
async fn a_text_that_is_refused_does_not_hold_up_the_others() {
    let world = World::new().await;
    let texts = ["fine", "forbidden", "  ", "good"];
    let episodes: Vec<_> = texts.iter().zip(1..).map(|(text, n)| episode(n, Speaker::User, text)).collect();
    world.store.put_episodes(&scope("ann"), &episodes).await.unwrap();
    let mut process = world.process("a", Letters::new("m"));
    process.work().await;
    assert_eq!(world.stored("ann", &process.generation()).await, 2);
    assert_eq!(process.metrics.vectors.get(VectorOutcome::Refused), 2);
}

// ruvnet/RuVector#973; mem0ai/mem0#3065; petabridge/memorizer#17: old texts are embedded anew, sizes never mix.
#[tokio::test]
async fn a_new_model_is_a_new_generation_and_the_old_one_goes_when_nobody_uses_it() {
    let world = World::new().await;
    world.told("ann", 1..6).await;
    let mut old = world.process("a", Letters::new("old"));
    old.work().await;
    let before = old.generation();
    drop(old);
    world.clock.advance_millis(1_000);
    let mut new = world.process("b", Letters::new("new"));
    new.work().await;
    let now = new.generation();
    assert_ne!(before, now);
    assert_eq!((world.stored("ann", &before).await, world.stored("ann", &now).await), (5, 5));
    assert_eq!(new.host.serves(), Some(now.clone()));
    world.clock.advance_millis(400_000);
    new.work().await;
    assert_eq!((world.stored("ann", &before).await, world.stored("ann", &now).await), (0, 5));
    assert_eq!(world.store.generations().await.unwrap().len(), 1);
    assert_eq!(new.metrics.vectors.get(VectorOutcome::Dropped), 5);
}

#[tokio::test]
async fn a_dimension_that_changes_is_another_generation() {
    let world = World::new().await;
    world.told("ann", 1..3).await;
    let mut process = world.process("a", Letters::new("m"));
    process.work().await;
    let before = process.generation();
    process.embedder.dimension.store(20, Ordering::Relaxed);
    world.told("ann", 3..4).await;
    let failure = process.job.step().await.unwrap_err();
    assert!(matches!(failure, Failure::Embed(EmbedError::Unusable(_))), "{failure}");
    process.work().await;
    assert_ne!(process.generation(), before);
    assert_eq!((world.stored("ann", &before).await, world.stored("ann", &process.generation()).await), (2, 3));
    assert_eq!(process.host.serves(), Some(process.generation()));
}

#[tokio::test]
async fn a_damaged_vector_is_made_again() {
    let world = World::new().await;
    world.told("ann", 1..4).await;
    let mut process = world.process("a", Letters::new("m"));
    process.work().await;
    let generation = process.generation();
    let good = world.store.vectors(&scope("ann"), &generation, None, 9).await.unwrap();
    let damaged = NewVector { scope: scope("ann"), episode: EpisodeId(2), body: vec![0xff; 7] };
    assert!(world.store.put_vectors(&generation, "a", &[damaged], None).await.unwrap());
    // As it is told when the scope is read.
    process.host.still_lacking(&scope("ann"), &[EpisodeId(1), EpisodeId(2), EpisodeId(77)]);
    process.work().await;
    assert_eq!(world.store.vectors(&scope("ann"), &generation, None, 9).await.unwrap(), good);
    assert_eq!(process.metrics.vectors.get(VectorOutcome::Replaced), 1);
}

#[tokio::test]
async fn what_was_erased_leaves_no_vector() {
    let world = World::new().await;
    world.told("ann", 1..6).await;
    let mut process = world.process("a", Letters::new("m"));
    process.job.step().await.unwrap();
    assert_eq!(world.store.erase(&scope("ann"), NOW).await.unwrap().counts["vectors"], 4);
    process.work().await;
    assert_eq!(world.stored("ann", &process.generation()).await, 0);
}

#[tokio::test]
async fn what_vectors_are_measured_by_is_made_anew_for_a_newer_program() {
    let world = World::new().await;
    world.told("ann", 1..3).await;
    let mut old = world.process("a", Letters::new("m"));
    old.work().await;
    drop(old);
    world.clock.advance_millis(61_000);
    let mut new = world.process("b", Letters::new("m"));
    *new.host.outdated.lock().unwrap() = true;
    new.work().await;
    new.work().await;
    assert!(new.host.serves().is_some());
}

#[tokio::test]
async fn no_vector_is_made_of_what_the_embedder_may_not_see() {
    let world = World::new().await;
    let secret = Episode { sensitivity: Sensitivity::Sensitive, ..episode(2, Speaker::User, "secret") };
    world.store.put_episodes(&scope("ann"), &[episode(1, Speaker::User, "plain"), secret]).await.unwrap();
    let mut process = world.process("a", Letters::new("m"));
    process.work().await;
    process.host.still_lacking(&scope("ann"), &[EpisodeId(2)]);
    process.work().await;
    assert_eq!(process.embedder.documents.load(Ordering::Relaxed), 2 + 1, "two texts to measure by, and one");
    assert_eq!(world.stored("ann", &process.generation()).await, 1);
    assert!(process.metrics.vectors.get(VectorOutcome::Private) > 0);
    assert!(process.host.lacking.lock().unwrap().is_empty(), "it is not asked for for ever");
}

// A batch may take longer than the lease.
#[tokio::test]
async fn the_lease_is_held_while_a_batch_takes_long() {
    let world = World::new().await;
    world.told("ann", 1..4).await;
    let mut slow = world.process("a", Letters::new("m"));
    slow.job.config.lease = Duration::from_millis(4);
    let embedder = Arc::clone(&slow.embedder);
    let closed = embedder.gate.forget_permits(usize::MAX);
    let later = NOW.plus_millis(1_000);
    let other = async {
        // Until it has said, long after by the clock, that it still is at work.
        world.clock.advance_millis(1_000);
        loop {
            let known = world.store.generations().await.unwrap();
            if let Some(record) = known.first().filter(|record| record.used_at >= later) {
                let id = record.id.clone();
                let lease = Duration::from_secs(60);
                assert!(!world.store.lease_generation(&id, "b", later, lease).await.unwrap());
                break;
            }
            tokio::task::yield_now().await;
        }
        embedder.gate.add_permits(closed);
    };
    let (worked, ()) = tokio::join!(slow.job.step(), other);
    assert!(worked.is_ok());
    slow.work().await;
    assert_eq!(world.stored("ann", &slow.generation()).await, 3);
}

#[tokio::test]
async fn what_lacks_a_vector_is_not_forgotten_when_the_embedder_fails_or_the_lease_is_lost() {
    let world = World::new().await;
    world.told("ann", 1..2).await;
    world.told("bob", 11..12).await;
    let mut process = world.process("a", Letters::new("m"));
    process.work().await;
    let generation = process.generation();
    let damage = async || {
        for (subject, id) in [("ann", 1), ("bob", 11)] {
            let damaged = NewVector { scope: scope(subject), episode: EpisodeId(id), body: vec![0xff; 7] };
            assert!(world.store.put_vectors(&generation, "a", &[damaged], None).await.unwrap());
        }
    };
    damage().await;
    for (subject, id) in [("ann", 1), ("bob", 11)] {
        process.host.still_lacking(&scope(subject), &[EpisodeId(id)]);
    }
    let lacking = || process.host.lacking.lock().unwrap().values().map(Vec::len).sum::<usize>();
    *process.embedder.fails.lock().unwrap() = Some(EmbedError::Refused("no".to_owned()));
    process.job.step().await.unwrap_err();
    assert_eq!(lacking(), 2);
    *process.embedder.fails.lock().unwrap() = None;
    // Another process has the lease, which this one does not know yet.
    world.store.release_generation(&generation, "a").await.unwrap();
    assert!(world.store.lease_generation(&generation, "b", NOW, Duration::from_secs(60)).await.unwrap());
    process.job.step().await.unwrap();
    assert_eq!(lacking(), 2);
    assert!(!process.job.using.as_ref().unwrap().leads);
}

#[tokio::test]
async fn what_another_process_never_makes_is_looked_for_ever_less_often() {
    let world = World::new().await;
    world.told("ann", 1..2).await;
    let mut leads = world.process("a", Letters::new("m"));
    leads.work().await;
    let mut follows = world.process("b", Letters::new("m"));
    follows.work().await;
    let forbidden = [episode(2, Speaker::User, "forbidden")];
    world.store.put_episodes(&scope("ann"), &forbidden).await.unwrap();
    leads.work().await;
    follows.host.still_lacking(&scope("ann"), &[EpisodeId(2)]);
    let mut looked = 0;
    for _ in 0..200 {
        *follows.host.looked.lock().unwrap() = false;
        follows.job.step().await.unwrap();
        looked += usize::from(*follows.host.looked.lock().unwrap());
        world.clock.advance_millis(500);
        // Whoever leads goes on doing so.
        leads.work().await;
    }
    assert!((20..50).contains(&looked), "{looked}");
}
