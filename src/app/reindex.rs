//! Makes the index outside of the process anew from the records, beside gateways that run.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::build::{BuildError, Parts};
use super::embed::{ceiling, embedder_of};
use super::index::{index_of, outside};
use super::routing::providers;
use super::vectors::{VectorParts, vectors};
use crate::config::Config;
use crate::embed::{Embed, WordsAlone};
use crate::jobs::VectorStatus;
use crate::recall::{Recall, RecallConfig};
use crate::store::{GenerationRecord, Store, StoreError};
use crate::telemetry::Metrics;

/// What is counted of what waits, at most.
const MAX_COUNTED: u32 = 100_000_000;
/// How often it is looked how far it is.
const LOOK: Duration = Duration::from_millis(250);

/// Why an index could not be made anew.
#[derive(Debug, thiserror::Error)]
pub enum ReindexError {
    /// The configuration asks for no index, or for one that cannot be used.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// Vectors are searched in the process.
    #[error("[vectors] engine is \"embedded\": there is no index to make anew")]
    NoIndex,
    /// The records cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// It was asked to stop; what was made stays, and `serve` goes on with it.
    #[error("stopped; a gateway goes on with it")]
    Stopped,
}

/// Has the index filled from the first change on, and waits until it is complete: by this process, or by a gateway that leads the filling by
/// then. Searches go on meanwhile. `tell` is told how many changes are done, of how many, and what stands in the way.
///
/// # Errors
/// See [`ReindexError`].
pub async fn reindex(
    config: &Config,
    parts: Parts,
    store: Arc<dyn Store>,
    stop: CancellationToken,
    mut tell: impl FnMut(u64, u64, Option<String>),
) -> Result<u64, ReindexError> {
    let Parts { clock, random } = parts;
    let index = index_of(config)?.ok_or(ReindexError::NoIndex)?;
    let (tracker, metrics) = (TaskTracker::new(), Arc::new(Metrics::new()));
    let providers = providers(config)?;
    let seated = embedder_of(&config.embeddings, &providers, (&clock, &random), &metrics, &tracker).await?;
    let embedder = seated.map_or_else(|| Arc::new(WordsAlone::default()) as Arc<dyn Embed>, |(embedder, _)| embedder);
    let outside = outside(index, config, &clock, &metrics);
    let recall = Recall::new(Arc::clone(&store), RecallConfig::default()).through(Some(Arc::clone(&outside.asks)));
    let parts = VectorParts {
        store: &store,
        recall: &Arc::new(recall),
        clock: &clock,
        random: &random,
        metrics: &metrics,
        max_sensitivity: ceiling(&config.embeddings, &providers),
        outside: Some(&outside),
    };
    let (job, _) = vectors(&embedder, &parts, &format!("reindex-{:016x}", random.next_u64()));
    let (status, before) = (job.status(), store.generations().await?);
    let in_use = newest(&before, outside.index.engine());
    if let Some(record) = &in_use {
        store.rewind_generation(&record.id).await?;
    }
    let total = store.count_due(0, MAX_COUNTED).await?;
    let halt = CancellationToken::new();
    let working = tracker.spawn(job.run(halt.clone()));
    let done = follow(store.as_ref(), &status, outside.index.engine(), total, &stop, &mut tell).await;
    halt.cancel();
    // It gives its lease back.
    drop(working.await);
    done.map(|()| total)
}

/// Waits until the generation in use has come to the end of the changes.
async fn follow(
    store: &dyn Store,
    status: &VectorStatus,
    engine: &str,
    total: u64,
    stop: &CancellationToken,
    tell: &mut impl FnMut(u64, u64, Option<String>),
) -> Result<(), ReindexError> {
    loop {
        tokio::select! {
            () = tokio::time::sleep(LOOK) => {}
            () = stop.cancelled() => return Err(ReindexError::Stopped),
        }
        let generations = store.generations().await?;
        let cursor = newest(&generations, engine).map_or(0, |record| record.cursor);
        let waiting = store.count_due(cursor, MAX_COUNTED).await?;
        tell(total.saturating_sub(waiting), total, status.failure());
        if waiting == 0 && (cursor > 0 || total == 0) {
            return Ok(());
        }
    }
}

/// Of the generations that an index of this kind holds, the one that was used last.
#[must_use]
pub fn newest(generations: &[GenerationRecord], engine: &str) -> Option<GenerationRecord> {
    let of_engine = generations.iter().filter(|record| record.is_in(engine));
    of_engine.max_by_key(|record| record.used_at).cloned()
}
