//! What a process has whether its store opens or not: when the store comes late, all of it goes on.

use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::build::{BuildError, Parts, admits};
use super::embed::embedder_of;
use super::reload::Reloads;
use super::routing::{Providers, providers};
use super::seat::Seat;
use super::{App, Identities};
use crate::base::{Clock, Random};
use crate::certificates::Identity;
use crate::config::Config;
use crate::embed::Embed;
use crate::telemetry::Metrics;
use crate::tokens::Counter;
use crate::upstream::Routes;

/// Token counts that are kept, in bytes.
const COUNT_CACHE_BYTES: usize = 16 * 1024 * 1024;

/// What [`wire`](super::build::wire) is given to build on.
pub(super) struct Base {
    pub(super) clock: Arc<dyn Clock>,
    pub(super) random: Arc<dyn Random>,
    pub(super) tracker: TaskTracker,
    pub(super) stop: CancellationToken,
    pub(super) halt: CancellationToken,
    pub(super) metrics: Arc<Metrics>,
    pub(super) providers: Arc<Providers>,
    /// The routes of before, whose targets keep what is known of their health.
    pub(super) routes: Option<Arc<Routes>>,
    pub(super) embedder: Option<Arc<dyn Embed>>,
    pub(super) embed_seat: Option<Arc<Seat<dyn Embed>>>,
    pub(super) counter: Arc<Counter>,
    pub(super) permits: Arc<Semaphore>,
    pub(super) profiling: Arc<Semaphore>,
    pub(super) identities: Identities,
    pub(super) reloads: Arc<Reloads>,
    pub(super) generation: u64,
}

impl Base {
    /// That of a process that starts.
    pub(super) async fn new(config: &Config, parts: Parts) -> Result<Self, BuildError> {
        let Parts { clock, random } = parts;
        let (tracker, metrics) = (TaskTracker::new(), Arc::new(Metrics::new()));
        let providers = Arc::new(providers(config)?);
        let seated = embedder_of(&config.embeddings, &providers, (&clock, &random), &metrics, &tracker).await?;
        let (embedder, embed_seat) = seated.map_or((None, None), |(embedder, seat)| (Some(embedder), seat));
        let counter = Arc::new(Counter::new(COUNT_CACHE_BYTES));
        // The vocabularies take a moment to load, which the first request should not have to wait for.
        tracker.spawn_blocking({
            let counter = Arc::clone(&counter);
            move || counter.warm_up()
        });
        Ok(Self {
            clock,
            random,
            tracker,
            stop: CancellationToken::new(),
            halt: CancellationToken::new(),
            metrics,
            providers,
            routes: None,
            embedder,
            embed_seat,
            counter,
            permits: Arc::new(Semaphore::new(admits(config.server.max_concurrency))),
            profiling: Arc::new(Semaphore::new(1)),
            identities: Identities {
                data: config.server.tls.clone().map(Identity::new),
                admin: config.server.tls_of_admin().cloned().map(Identity::new),
            },
            reloads: Arc::default(),
            generation: 1,
        })
    }

    /// That of a process that runs.
    pub(super) fn of(app: &App) -> Self {
        Self {
            clock: Arc::clone(&app.clock),
            random: Arc::clone(&app.random),
            tracker: app.tracker.clone(),
            stop: app.stop.clone(),
            halt: app.halt.clone(),
            metrics: Arc::clone(&app.metrics),
            providers: Arc::clone(&app.providers),
            routes: Some(Arc::clone(&app.routes)),
            embedder: app.embedder.clone(),
            embed_seat: app.own_models.embed.clone(),
            counter: Arc::clone(&app.counter),
            permits: Arc::clone(&app.permits),
            profiling: Arc::clone(&app.profiling),
            identities: app.identities.clone(),
            reloads: Arc::clone(&app.reloads),
            generation: app.generation,
        }
    }
}
