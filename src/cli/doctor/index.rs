//! `doctor` on an index outside of the process: whether it answers, and holds what the records say; and `--reindex`.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::{Finding, bad, good, warning};
use crate::app::{Parts, index_of, newest, reindex};
use crate::base::{EpisodeId, SystemClock, SystemRandom};
use crate::cli::bar::Bar;
use crate::cli::{asked_to_stop, complain, say};
use crate::config::Config;
use crate::memory::Scope;
use crate::store::{Store, StoreError, VectorIndex, qdrant};

/// So many scopes are compared episode by episode.
const SAMPLED: u32 = 100;
/// Of each, so many episodes: the newest.
const EPISODES: u32 = 1_000;
/// Changes that may wait without a word.
const FEW: u64 = 1_000;

/// What is known of the index.
pub(super) async fn look(config: &Config, store: &dyn Store) -> Vec<Finding> {
    let index = match index_of(config) {
        Ok(None) => return Vec::new(),
        Ok(Some(index)) => index,
        Err(error) => return vec![bad(error.to_string())],
    };
    let engine = index.engine();
    let mut findings = match index.ping().await {
        Ok(version) => {
            let skew = qdrant::skew(&version).filter(|_| engine == "qdrant").map(warning);
            let there = good(format!("the index ({engine} {version}) answers"));
            std::iter::once(there).chain(skew).collect::<Vec<_>>()
        }
        Err(error) => {
            return vec![bad(format!(
                "the index ({engine}) cannot be asked: {error}; what is held in memory is found without it"
            ))];
        }
    };
    match compare(index.as_ref(), store).await {
        Ok(found) => findings.extend(found),
        Err(error) => findings.push(bad(format!("records and index cannot be compared: {error}"))),
    }
    findings
}

async fn compare(index: &dyn VectorIndex, store: &dyn Store) -> Result<Vec<Finding>, StoreError> {
    let engine = index.engine();
    let generations = store.generations().await?;
    let Some(record) = newest(&generations, engine) else {
        return Ok(vec![good(format!("nothing is in the index ({engine}) yet; `serve` fills it"))]);
    };
    let points = match index.count(&record.id).await {
        Ok(points) => points,
        Err(StoreError::Unusable(problem)) => {
            return Ok(vec![bad(format!(
                "the index does not know the generation in use ({}): {problem}; {REPAIR}",
                record.model
            ))]);
        }
        Err(error) => return Err(error),
    };
    // It is there: this makes nothing, and says what is wrong with its dimension.
    if let Err(StoreError::Unusable(problem)) = index.prepare(&record.id, record.dimension).await {
        return Ok(vec![bad(format!("the index cannot be used for {}: {problem}", record.model))]);
    }
    let (episodes, waiting) = (store.count_episodes().await?, store.count_due(record.cursor, u32::MAX).await?);
    let counts =
        format!("{points} points in the index for {episodes} memories; {waiting} changes wait ({})", record.model);
    let differences = sample(index, store, &record.id).await?;
    let mut found = Vec::new();
    found.push(match (points.abs_diff(episodes) <= waiting, waiting <= FEW) {
        (true, true) => good(counts),
        (true, false) => warning(format!("{counts}; `serve` goes on with them")),
        (false, _) => bad(format!("{counts}; {REPAIR}")),
    });
    let Sample { scopes, missing, surplus } = differences;
    if missing + surplus > waiting {
        found.push(bad(format!(
            "of {scopes} people looked at, {missing} memories are not in the index, and {surplus} are that should not be (none of these is \
             shown); {REPAIR}"
        )));
    } else {
        found.push(good(format!("records and index agree for {scopes} people looked at")));
    }
    Ok(found)
}

/// What to do about it.
const REPAIR: &str = "run `backstory doctor --reindex`";

#[derive(Debug, Default)]
struct Sample {
    scopes: u64,
    missing: u64,
    surplus: u64,
}

/// Compares the newest episodes of some scopes.
async fn sample(index: &dyn VectorIndex, store: &dyn Store, generation: &str) -> Result<Sample, StoreError> {
    let mut sample = Sample::default();
    for (_, scope) in store.scopes_after(0, SAMPLED).await? {
        let newest = store.newest_episodes(&scope, None, EPISODES).await?;
        let held: BTreeSet<EpisodeId> = newest.iter().map(|episode| episode.id).collect();
        // Where there are more, those before the oldest of these are not compared.
        let from = held.first().copied().filter(|_| held.len() >= EPISODES as usize);
        let listed = listed(index, generation, &scope, from).await?;
        sample.scopes += 1;
        sample.missing += held.difference(&listed).count() as u64;
        sample.surplus += listed.difference(&held).count() as u64;
    }
    Ok(sample)
}

async fn listed(
    index: &dyn VectorIndex,
    generation: &str,
    scope: &Scope,
    from: Option<EpisodeId>,
) -> Result<BTreeSet<EpisodeId>, StoreError> {
    let mut all = BTreeSet::new();
    let mut after = from.map(|EpisodeId(id)| EpisodeId(id.saturating_sub(1)));
    loop {
        let page = index.list(generation, scope, after, EPISODES).await?;
        let full = page.len() >= EPISODES as usize;
        after = page.last().copied().or(after);
        all.extend(page);
        if !full {
            return Ok(all);
        }
    }
}

/// Makes the index anew from the records, with a line that says how far it is.
pub(super) async fn make_anew(config: &Config, store: Arc<dyn Store>) -> ExitCode {
    let stop = CancellationToken::new();
    let parts = Parts { clock: Arc::new(SystemClock), random: Arc::new(SystemRandom) };
    let mut bar = Bar::new("changes");
    let mut told = None;
    let tell = |done: u64, total: u64, problem: Option<String>| {
        if let Some(problem) = problem.filter(|problem| told.as_ref() != Some(problem)) {
            complain(&problem);
            told = Some(problem);
        }
        bar.tell(done, total, "");
    };
    let done = {
        let work = reindex(config, parts, store, stop.clone(), tell);
        tokio::pin!(work);
        tokio::select! {
            done = &mut work => done,
            () = asked_to_stop() => {
                stop.cancel();
                work.await
            }
        }
    };
    bar.end();
    match done {
        Ok(total) => {
            say(&format!("the index holds what the records do: {total} changes were gone through"));
            ExitCode::SUCCESS
        }
        Err(error) => {
            complain(&error.to_string());
            ExitCode::FAILURE
        }
    }
}
