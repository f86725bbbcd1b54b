//! Makes the vectors of episodes, behind everything and in nobody's way.
//!
//! One process at a time makes those of a generation, by a lease: in the order in which episodes were stored, from where it was left, so that
//! a crash costs one batch. A new model is a new generation; until it is complete words alone find, and the one before it is dropped when
//! no process uses it any more. Every process then gives its scopes in memory the vectors they lack, whoever made them. A vector that
//! was damaged counts as none, and is made again.
//!
//! Nothing here fails a request: an embedder that is dead is asked again later, and later.

mod outer;
mod status;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

pub use status::{VectorPhase, VectorStatus};

use super::policy::Backoff;
use crate::base::{Clock, EpisodeId, Random, Time, millis};
use crate::embed::{Embed, EmbedError, Generation, Packed, Side};
use crate::memory::{Episode, Scope, Sensitivity};
use crate::store::{
    DueEpisode, GenerationRecord, GenerationState, NewVector, Store, StoreError, VectorIndex, WeightedTerm,
};
use crate::telemetry::{Metrics, VectorOutcome};

/// What is embedded to learn how many numbers a vector has.
const PROBE: &str = "hello";
/// What waits is counted up to here.
const MAX_COUNTED: u32 = 1_000_000;
/// So often is looked for what another process makes before the pauses grow.
const PATIENT_ROUNDS: u32 = 20;
/// Scopes of which an old generation's vectors are dropped at once.
const DROP_SCOPES: u32 = 200;

/// How vectors are made.
#[derive(Clone, Debug)]
pub struct VectorsConfig {
    /// Names the process; unique among all on one store.
    pub owner: String,
    /// Episodes that are embedded at once.
    pub batch: u32,
    /// Of what is more private than this no vector is made.
    pub max_sensitivity: Sensitivity,
    /// How long a process that says nothing is taken to be at work.
    pub lease: Duration,
    /// Pause when nothing is to be done.
    pub poll: Duration,
    /// Pauses after failures; it never gives up.
    pub backoff: Backoff,
    /// How long nobody must have used a generation before it is dropped.
    pub keep_unused: Duration,
    /// How often progress is told.
    pub tell: Duration,
}

impl VectorsConfig {
    /// The usual settings for a process called `owner`.
    #[must_use]
    pub fn named(owner: impl Into<String>) -> Self {
        Self {
            owner: owner.into(),
            // One request of the embedder: what it costs to begin anew is no more.
            batch: 32,
            max_sensitivity: Sensitivity::Sensitive,
            lease: Duration::from_secs(60),
            poll: Duration::from_millis(500),
            backoff: Backoff {
                first: Duration::from_secs(1),
                longest: Duration::from_secs(120),
                max_attempts: u32::MAX,
            },
            // Longer than a process goes without saying that it uses one, several times over.
            keep_unused: Duration::from_secs(300),
            tell: Duration::from_secs(15),
        }
    }

    /// How often a lease, and the use of the generation, is said anew.
    fn renew(&self) -> Duration {
        self.lease / 4
    }
}

/// Who holds scopes in memory, and knows what vectors mean.
#[async_trait]
pub trait VectorHost: Send + Sync {
    /// The texts that a generation is measured by: such as are stored, and questions.
    fn texts(&self) -> (Vec<&'static str>, Vec<&'static str>);

    /// Writes down their vectors.
    ///
    /// # Errors
    /// They cannot be used; why.
    fn measure(&self, documents: &[Vec<f32>], questions: &[Vec<f32>]) -> Result<Vec<u8>, String>;

    /// Names the texts that a generation is measured by.
    fn measured_by(&self) -> String;

    /// A stored text's vector as it is compared, for an index elsewhere; `None` when it cannot be.
    fn place(&self, generation: &str, background: &[u8], vector: &Packed) -> Option<Vec<f32>>;

    /// The words of an episode, for an index elsewhere.
    fn terms(&self, episode: &Episode) -> Vec<WeightedTerm>;

    /// Begins to find by vectors of a generation; without a background, by its words alone. `false` when what it is measured by has to be made
    /// anew.
    async fn serve(&self, generation: &str, background: &[u8]) -> bool;

    /// Takes in vectors that were made.
    fn embedded(&self, scope: &Scope, generation: &str, vectors: &[(EpisodeId, Packed)]);

    /// Takes episodes in memory that have no vector there, at most `max`.
    fn take_lacking(&self, max: usize) -> HashMap<Scope, Vec<EpisodeId>>;

    /// Gives such back that still have none.
    fn still_lacking(&self, scope: &Scope, ids: &[EpisodeId]);
}

/// Why a step failed.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Embed(#[from] EmbedError),
}

/// Whether there is more to do at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    Busy,
    Idle,
}

/// What a process knows of the generation that it uses.
#[derive(Debug)]
struct Using {
    generation: Generation,
    record: GenerationRecord,
    serves: bool,
    leads: bool,
    /// Whether the index elsewhere is known to have what it needs.
    is_prepared: bool,
    said_at: Time,
    told_at: Time,
    made: u64,
    /// Rounds in a row in which some waited for another process, and when they are looked for again.
    waited: u32,
    supply_at: Time,
}

/// Makes vectors.
pub struct Vectors {
    store: Arc<dyn Store>,
    embedder: Arc<dyn Embed>,
    host: Arc<dyn VectorHost>,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
    metrics: Arc<Metrics>,
    config: VectorsConfig,
    /// Where what is found by goes; none: to the records, for processes to hold.
    index: Option<Arc<dyn VectorIndex>>,
    status: Arc<VectorStatus>,
    using: Option<Using>,
    /// The generation whose lease it holds.
    held: Option<String>,
}

impl fmt::Debug for Vectors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vectors").field("config", &self.config).field("using", &self.using).finish_non_exhaustive()
    }
}

impl Vectors {
    /// Makes vectors of the episodes of `store` by `embedder`, for `host`.
    #[must_use]
    pub fn new(
        store: Arc<dyn Store>,
        embedder: Arc<dyn Embed>,
        host: Arc<dyn VectorHost>,
        clock: Arc<dyn Clock>,
        random: Arc<dyn Random>,
        metrics: Arc<Metrics>,
        config: VectorsConfig,
    ) -> Self {
        Self {
            store,
            embedder,
            host,
            clock,
            random,
            metrics,
            config,
            index: None,
            status: Arc::default(),
            using: None,
            held: None,
        }
    }

    /// How it stands, for `/readyz`.
    #[must_use]
    pub fn status(&self) -> Arc<VectorStatus> {
        Arc::clone(&self.status)
    }

    /// Works until `halt`; a batch that is being embedded then is left to be made again.
    pub async fn run(mut self, halt: CancellationToken) {
        let mut failures = 0;
        loop {
            let step = tokio::select! {
                step = self.step() => step,
                () = halt.cancelled() => break,
            };
            let pause = match step {
                Ok(pace) => {
                    if failures > 0 {
                        tracing::info!("vectors are being made again");
                    }
                    failures = 0;
                    self.status.set_failure(None);
                    if pace == Pace::Busy { Duration::ZERO } else { self.config.poll }
                }
                Err(failure) => {
                    failures += 1;
                    self.failed(&failure, failures)
                }
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = halt.cancelled() => break,
            }
        }
        if let Some(id) = &self.held
            && let Err(error) = self.store.release_generation(id, &self.config.owner).await
        {
            tracing::debug!(%error, "the lease on a generation of vectors could not be given back; it ends by itself");
        }
    }

    /// Returns the pause after a failure.
    fn failed(&self, failure: &Failure, failures: u32) -> Duration {
        // Once, and then now and then: a dead embedder is no reason to fill a log.
        if failures == 1 || failures.is_power_of_two() {
            tracing::warn!(error = %failure, failures, "vectors cannot be made now; words find meanwhile");
        }
        self.metrics.vectors.inc(VectorOutcome::Retried);
        self.status.set_failure(Some(failure.to_string()));
        let pause = self.config.backoff.pause(failures, self.random.next_u64());
        match failure {
            Failure::Embed(EmbedError::Later { retry_after: Some(after), .. }) => {
                pause.max(*after).min(self.config.backoff.longest.max(pause))
            }
            // A wrong key does not become right within seconds.
            Failure::Embed(EmbedError::Refused(_)) => self.config.backoff.longest,
            _ => pause,
        }
    }

    /// One piece of work.
    async fn step(&mut self) -> Result<Pace, Failure> {
        let now = self.clock.now();
        let mut using = match self.using.take() {
            Some(using) => using,
            None => self.begin(now).await?,
        };
        let pace = self.work(&mut using, now).await;
        self.held = using.leads.then(|| using.record.id.clone());
        // A dimension that changed is another generation: begin anew.
        if !matches!(pace, Err(Failure::Embed(EmbedError::Unusable(_)))) {
            self.using = Some(using);
        }
        pace
    }

    /// Learns which vectors the embedder makes, and how their generation stands.
    async fn begin(&self, now: Time) -> Result<Using, Failure> {
        let probe = self.embedder.embed(Side::Query, &[PROBE]).await?;
        let dimension = probe.first().map_or(0, Vec::len);
        // What the model gives is part of what makes vectors comparable, also where the configuration leaves it open.
        let dimension = u32::try_from(dimension).ok().filter(|&n| n > 0);
        let mut generation = Generation { dimension, ..self.embedder.generation().clone() };
        if let Some(index) = &self.index {
            // What the records hold and what an index holds is complete at different times, and an index holds vectors as they are placed.
            generation.model = GenerationRecord::model_in(&generation.model, index.engine(), &self.host.measured_by());
        }
        let record = self.store.use_generation(&generation, now).await?;
        Ok(Using {
            generation,
            record,
            serves: false,
            leads: false,
            is_prepared: false,
            said_at: Time::default(),
            told_at: now,
            made: 0,
            waited: 0,
            supply_at: Time::default(),
        })
    }

    async fn work(&self, using: &mut Using, now: Time) -> Result<Pace, Failure> {
        if now.since(using.said_at) >= millis(self.config.renew()) {
            let id = &using.record.id;
            using.leads = self.store.lease_generation(id, &self.config.owner, now, self.config.lease).await?;
            using.record = self.store.use_generation(&using.generation, now).await?;
            using.said_at = now;
        }
        if using.record.background.is_none() && using.leads {
            self.measure(using).await?;
        }
        if !using.serves && using.record.state == GenerationState::Ready {
            self.serve(using).await?;
        }
        let pace = if using.leads { self.fill(using).await? } else { Pace::Idle };
        self.supply(using, now).await?;
        self.tell(using, now).await?;
        Ok(pace)
    }

    /// Embeds the texts that the generation is measured by.
    async fn measure(&self, using: &mut Using) -> Result<(), Failure> {
        if using.generation.dimension.is_none() && self.index.is_some() {
            // Of words alone there is nothing to measure.
            self.store.set_background(&using.record.id, 0, &[]).await?;
            using.record.background = Some(Vec::new());
            return Ok(());
        }
        let (documents, questions) = self.host.texts();
        let measured = self.renewing(using, async {
            let documents = self.embedder.embed(Side::Document, &documents).await?;
            Ok::<_, EmbedError>((documents, self.embedder.embed(Side::Query, &questions).await?))
        });
        let (documents, questions) = measured.await?;
        let background = self.host.measure(&documents, &questions).map_err(EmbedError::Unusable)?;
        let dimension = using.generation.dimension.unwrap_or_default();
        self.store.set_background(&using.record.id, dimension, &background).await?;
        using.record.background = Some(background);
        using.record.dimension = dimension;
        Ok(())
    }

    async fn serve(&self, using: &mut Using) -> Result<(), Failure> {
        let Some(background) = &using.record.background else { return Ok(()) };
        using.serves = self.host.serve(&using.record.id, background).await;
        if using.serves {
            tracing::info!(model = %using.record.model, dimension = using.record.dimension, "memories are found by it");
        } else if using.leads {
            // Of an older version of the program.
            self.measure(using).await?;
        }
        Ok(())
    }

    /// Makes the next vectors.
    async fn fill(&self, using: &mut Using) -> Result<Pace, Failure> {
        let id = using.record.id.clone();
        let (still_leads, is_last) = match self.index.clone() {
            Some(index) => match self.bring_up(&*index, using).await {
                Ok(done) => done,
                Err(failure) => {
                    // When it is back it may be another one, or have lost what it held.
                    using.is_prepared = false;
                    return Err(failure);
                }
            },
            None => self.keep(using).await?,
        };
        if !still_leads {
            using.leads = false;
            return Ok(Pace::Idle);
        }
        if !is_last {
            return Ok(Pace::Busy);
        }
        if using.record.state == GenerationState::Filling {
            self.completed(&id).await?;
            self.store.complete_generation(&id, self.clock.now()).await?;
            using.record.state = GenerationState::Ready;
            tracing::info!(model = %using.record.model, made = using.made, "all memories have vectors");
            return Ok(Pace::Busy);
        }
        self.drop_unused(using).await
    }

    /// Makes the next vectors and keeps them in the records. Returns whether it still leads, and whether nothing is left.
    async fn keep(&self, using: &mut Using) -> Result<(bool, bool), Failure> {
        let id = using.record.id.clone();
        let due = self.store.due_episodes(&id, using.record.cursor, self.config.batch).await?;
        if due.cursor > using.record.cursor {
            self.metrics.vectors.add(VectorOutcome::Unreadable, due.unreadable);
            let (kept, missing) = opened(due.episodes, &id);
            self.metrics.vectors.add(VectorOutcome::Kept, kept.len() as u64);
            if !self.make(using, missing, Some(due.cursor)).await? {
                return Ok((false, due.is_last));
            }
            using.record.cursor = due.cursor;
        }
        Ok((true, due.is_last))
    }

    /// Makes the vectors of episodes that have none that holds; stores and hands them out. `false` when the lease was lost.
    async fn make(&self, using: &mut Using, mut due: Vec<DueEpisode>, cursor: Option<i64>) -> Result<bool, Failure> {
        let id = using.record.id.clone();
        let all = due.len();
        due.retain(|due| due.episode.sensitivity <= self.config.max_sensitivity);
        self.metrics.vectors.add(VectorOutcome::Private, (all - due.len()) as u64);
        let (empty, damaged) = (due.len(), due.iter().filter(|episode| episode.vector.is_some()).count());
        due.retain(|due| !due.episode.text.trim().is_empty());
        let empty = empty - due.len();
        self.metrics.vectors.add(VectorOutcome::Replaced, damaged as u64);
        let texts: Vec<&str> = due.iter().map(|due| due.episode.text.as_str()).collect();
        let vectors = match texts.as_slice() {
            [] => Vec::new(),
            texts => self.renewing(using, self.embedder.embed_each(Side::Document, texts)).await?,
        };
        if vectors.len() != texts.len() {
            return Err(EmbedError::Unusable("not one vector for each text".to_owned()).into());
        }
        let mut made = Vec::with_capacity(due.len());
        let mut by_scope: HashMap<Scope, Vec<(EpisodeId, Packed)>> = HashMap::new();
        for (DueEpisode { scope, episode, .. }, vector) in due.iter().zip(vectors) {
            let Some(vector) = vector else { continue };
            if u32::try_from(vector.len()).ok() != using.generation.dimension {
                return Err(EmbedError::Unusable("a vector of another dimension".to_owned()).into());
            }
            let Some(packed) = Packed::of(&vector) else { continue };
            let body = packed.seal(&id, &episode.text);
            made.push(NewVector { scope: scope.clone(), episode: episode.id, body });
            by_scope.entry(scope.clone()).or_default().push((episode.id, packed));
        }
        if !self.store.put_vectors(&id, &self.config.owner, &made, cursor).await? {
            return Ok(false);
        }
        let n = made.len() as u64;
        using.made += n;
        self.metrics.vectors.add(VectorOutcome::Made, n);
        self.metrics.vectors.add(VectorOutcome::Refused, (due.len() + empty) as u64 - n);
        for (scope, vectors) in by_scope {
            self.host.embedded(&scope, &id, &vectors);
        }
        Ok(true)
    }

    /// Waits for what may take long, and says meanwhile that the generation is in use and its lease held. Whether it still is, is asked
    /// where vectors are stored.
    async fn renewing<T>(&self, using: &Using, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        let every = self.config.renew().max(Duration::from_millis(1));
        loop {
            match tokio::time::timeout(every, &mut work).await {
                Ok(done) => return done,
                Err(_) => {
                    let (id, owner, now) = (&using.record.id, &self.config.owner, self.clock.now());
                    let leased = self.store.lease_generation(id, owner, now, self.config.lease).await;
                    let said = self.store.use_generation(&using.generation, now).await;
                    if let Some(error) = leased.err().or(said.err()) {
                        tracing::debug!(%error, "the lease on a generation of vectors could not be renewed");
                    }
                }
            }
        }
    }

    /// Gives episodes in memory the vectors that they lack: stored ones, whoever made them, and new ones.
    async fn supply(&self, using: &mut Using, now: Time) -> Result<(), Failure> {
        if self.index.is_some() || !using.serves || now < using.supply_at {
            return Ok(());
        }
        let mut lacking = self.host.take_lacking(self.config.batch as usize).into_iter();
        let mut waits = false;
        while let Some((scope, ids)) = lacking.next() {
            match self.give(using, &scope, &ids).await {
                Ok(still) => {
                    waits |= !still.is_empty();
                    self.host.still_lacking(&scope, &still);
                }
                Err(failure) => {
                    for (scope, ids) in std::iter::once((scope, ids)).chain(lacking) {
                        self.host.still_lacking(&scope, &ids);
                    }
                    return Err(failure);
                }
            }
        }
        // What another process makes comes within moments, or never: that of a text which its embedder does not take.
        using.waited = if waits { using.waited.saturating_add(1) } else { 0 };
        let pauses = (1_i64 << using.waited.saturating_sub(PATIENT_ROUNDS).min(4)) - 1;
        using.supply_at = now.plus_millis(millis(self.config.poll).saturating_mul(pauses));
        Ok(())
    }

    /// Returns those that have none yet.
    async fn give(&self, using: &mut Using, scope: &Scope, ids: &[EpisodeId]) -> Result<Vec<EpisodeId>, Failure> {
        let id = using.record.id.clone();
        let (found, mut missing) = opened(self.store.vectors_of(scope, &id, ids).await?, &id);
        self.host.embedded(scope, &id, &found);
        missing.retain(|due| due.episode.sensitivity <= self.config.max_sensitivity);
        let still: Vec<EpisodeId> = missing.iter().map(|due| due.episode.id).collect();
        if still.is_empty() || (using.leads && self.make(using, missing, None).await?) {
            return Ok(Vec::new());
        }
        // The process that leads will make them.
        using.leads = false;
        Ok(still)
    }

    /// Drops a piece of a generation that no process has used for a while.
    async fn drop_unused(&self, using: &Using) -> Result<Pace, Failure> {
        let unused_since = self.clock.now().plus_millis(-millis(self.config.keep_unused));
        for record in self.store.generations().await? {
            if record.id != using.record.id && record.used_at < unused_since {
                let (n, all) = self.store.drop_generation(&record.id, unused_since, DROP_SCOPES).await?;
                self.drop_outside(&record).await?;
                self.metrics.vectors.add(VectorOutcome::Dropped, n);
                if all {
                    tracing::info!(model = %record.model, "the vectors of a model that is no longer used are gone");
                }
                return Ok(Pace::Busy);
            }
        }
        Ok(Pace::Idle)
    }

    /// Tells how far it is.
    async fn tell(&self, using: &mut Using, now: Time) -> Result<(), Failure> {
        let is_filling = using.record.state == GenerationState::Filling;
        self.status.set_phase(match (using.serves, is_filling) {
            (true, _) => VectorPhase::Ready,
            (false, true) => VectorPhase::Filling,
            (false, false) => VectorPhase::Starting,
        });
        if self.status.pending().is_some() && now.since(using.told_at) < millis(self.config.tell) {
            return Ok(());
        }
        using.told_at = now;
        let pending = self.store.count_due(using.record.cursor, MAX_COUNTED).await?;
        self.status.set_pending(pending);
        self.metrics.set_vectors_pending(pending);
        if is_filling && pending > 0 {
            tracing::info!(model = %using.record.model, made = using.made, pending, "memories are being given vectors; words find meanwhile");
        }
        Ok(())
    }
}

/// Vectors that hold, and episodes that have none such.
fn opened(episodes: Vec<DueEpisode>, generation: &str) -> (Vec<(EpisodeId, Packed)>, Vec<DueEpisode>) {
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    for due in episodes {
        match due.vector.as_deref().and_then(|vector| Packed::open(vector, generation, &due.episode.text)) {
            Some(packed) => found.push((due.episode.id, packed)),
            None => missing.push(due),
        }
    }
    (found, missing)
}
