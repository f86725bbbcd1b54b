//! Builds stores, services and tasks from the configuration: the only place that wires.

mod ask;
mod base;
mod build;
mod embed;
mod export;
mod index;
mod keep;
mod keys;
mod late;
mod learn;
mod limits;
mod records;
mod reindex;
pub mod reload;
mod routing;
mod seat;
mod shared;
mod summaries;
mod vectors;
mod windows;

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http::StatusCode;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use build::{BuildError, Parts, build, policies, policy_changes, recall_config};
pub use embed::embedder;
pub use export::{Counted, Exporting, collector, export};
pub use index::index_of;
pub use records::{name_of_records, open_records};
pub use reindex::{ReindexError, newest, reindex};
pub use routing::provider;
pub(crate) use shared::options as redis_options;

use ask::OwnModels;
use base::Base;
use late::Closed;
use reload::Reloads;
use routing::Providers;

use crate::access::{Keys, LimitTable, StoredKeys, Subjects};
use crate::base::{Clock, Random};
use crate::certificates::Identity;
use crate::config::Config;
use crate::context::{Digests, Policies, Trails};
use crate::conversation;
use crate::embed::Embed;
use crate::jobs::{Journal, LearnCounters, Outbox, Summaries, Sweep, VectorStatus, WorkerCounters};
use crate::layers::Patience;
use crate::memory::{Schemas, Scope};
use crate::recall::{Knowledge, Questions, Recall};
use crate::shared::{Change, Shared};
use crate::states::States;
use crate::store::{Store, VectorIndex};
use crate::telemetry::{Label, LearnedAs, Metrics, Swept, raise_to};
use crate::tokens::Counter;
use crate::upstream::{Learned, Passthrough, Route, Routes, Services};

/// Everything that runs.
pub struct App {
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// Makes ids.
    pub random: Arc<dyn Random>,
    /// The records.
    pub store: Arc<dyn Store>,
    /// The queue to what is learned.
    pub outbox: Outbox,
    /// The way into the books; `None` = none are kept.
    pub journal: Option<Journal>,
    /// What is remembered, held in memory.
    pub recall: Arc<Recall>,
    /// Makes vectors; `None` = words alone find.
    pub embedder: Option<Arc<dyn Embed>>,
    /// The documents of namespaces, held in memory.
    pub knowledge: Arc<Knowledge>,
    /// Makes those of questions, in time or not at all; `None` = words alone find.
    pub questions: Option<Arc<Questions>>,
    /// The index outside of the process that finds memories; `None` = they are found in it.
    pub index: Option<Arc<dyn VectorIndex>>,
    /// How the making of vectors stands; `None` = there is none.
    pub vectors: Option<Arc<VectorStatus>>,
    /// Conversation states.
    pub states: Arc<States>,
    /// What replicas share; `None` = each is by itself.
    pub shared: Option<Arc<Shared>>,
    /// The keys of facts by namespace, with half-lives and critical keys as configured.
    pub schemas: Arc<Schemas>,
    /// Forgets what may be forgotten.
    pub sweep: Arc<Sweep>,
    /// Who may ask.
    pub keys: Arc<Keys>,
    /// Counts for whom conversations begin.
    pub subjects: Arc<Subjects>,
    /// The keys made at run time; `None` in client mode.
    pub stored_keys: Option<Arc<StoredKeys>>,
    /// SHA-256 of the admin key; `None` = the admin API is off.
    pub admin_key: Option<[u8; 32]>,
    /// What each key, person, tenant and model may still use.
    pub limits: Arc<LimitTable>,
    /// Where a model's name leads.
    pub routes: Arc<Routes>,
    /// The innermost service.
    pub upstream: Route,
    /// What answers teach about targets.
    pub learned_of_targets: Learned,
    /// Paths that we do not know.
    pub passthrough: Arc<Passthrough>,
    /// Counts tokens.
    pub counter: Arc<Counter>,
    /// Digests of what was cut.
    pub digests: Arc<Digests>,
    /// How the last request of each conversation was sent.
    pub trails: Arc<Trails>,
    /// Who makes summaries; `None` = nobody.
    pub summaries: Option<Arc<Summaries>>,
    /// Counts everything else.
    pub metrics: Arc<Metrics>,
    /// Requests at a time.
    pub permits: Arc<Semaphore>,
    /// Held by whoever measures where the time goes: one at a time.
    pub profiling: Arc<Semaphore>,
    /// Plain settings of the layers.
    pub settings: Settings,
    /// The configuration in force.
    pub config: Arc<Config>,
    /// Its number: 1 at the start, one more with each that was taken over.
    pub generation: u64,
    /// How to have it read again.
    pub reloads: Arc<Reloads>,
    /// What TLS shows.
    pub identities: Identities,
    /// Every task belongs to it.
    pub tracker: TaskTracker,
    /// Cancelled when no new request is to be taken.
    pub stop: CancellationToken,
    /// Cancelled when the background work is to end: after the replies have.
    pub halt: CancellationToken,
    /// Tokens that the extraction model may use for a tenant in a day; none = without bound.
    model_cap: Option<u64>,
    worker: Arc<WorkerCounters>,
    learner: Arc<LearnCounters>,
    providers: Arc<Providers>,
    services: Services,
    own_models: Arc<OwnModels>,
    /// Makes names that are no secrets of those that are.
    salt: [u8; 32],
    /// Why there is no memory, when the store could not be opened.
    closed: Option<Arc<Closed>>,
}

/// What the listeners show to those who connect; `None` = plain HTTP.
#[derive(Clone, Debug, Default)]
pub struct Identities {
    /// On `listen`.
    pub data: Option<Arc<Identity>>,
    /// On `admin_listen`.
    pub admin: Option<Arc<Identity>>,
}

/// Plain settings of the layers.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Largest request body, in bytes.
    pub max_body_bytes: usize,
    /// How long it may take to come.
    pub patience: Patience,
    /// All header lines of a request together, in bytes.
    pub max_header_bytes: usize,
    /// Path and query of a request, in bytes.
    pub max_url_bytes: usize,
    /// How long the end of a reply waits for the outbox.
    pub commit_wait: Duration,
    /// After how much silence a comment keeps a stream alive; zero = never.
    pub keepalive: Duration,
    /// How long recall may take.
    pub recall_deadline: Duration,
    /// How long running replies may take to end after a stop.
    pub drain: Duration,
    /// The budget policies: everyone's, and what models change of it.
    pub policies: Arc<Policies>,
    /// Whether anything is learned at all.
    pub learn: bool,
    /// Whether what was shown for an answer is kept.
    pub trace: bool,
    /// Only loopback names and origins are served.
    pub loopback_only: bool,
    /// The same on the admin listener.
    pub admin_loopback_only: bool,
}

impl fmt::Debug for App {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("App").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl App {
    /// Where finished exchanges go. `None` when the store could not be opened: no reply waits for what cannot be kept.
    #[must_use]
    pub fn recording(&self) -> Option<Outbox> {
        self.closed.is_none().then(|| self.outbox.clone())
    }

    /// Tells the other replicas of a change that this one made.
    pub fn tell_replicas(&self, change: &Change) {
        if let Some(shared) = &self.shared {
            shared.tell_of(change);
        }
    }

    /// Has caches follow a change of a scope that was made by hand.
    pub fn follow_change(&self, scope: &Scope) {
        self.recall.changed(scope);
        self.forget_shown(scope);
    }

    /// Drops everything cached about a scope: it was erased.
    pub fn forget_cached(&self, scope: &Scope) {
        self.recall.invalidate(scope);
        self.forget_shown(scope);
    }

    fn forget_shown(&self, scope: &Scope) {
        self.states.forget_everywhere(scope);
        // Digests are known by hashes, not by scope; they are made again where they are needed.
        self.digests.clear();
    }

    /// Drops what was summed up of a scope and is held in this process: it was erased.
    pub fn forget_summaries(&self, scope: &Scope) {
        let start = conversation::start(scope);
        self.digests.forget(start);
        if let Some(summaries) = &self.summaries {
            summaries.forget(start);
        }
    }

    /// Whether what exchanges use cannot be written down just now.
    fn books_fail(&self) -> bool {
        self.journal.as_ref().is_some_and(|journal| journal.health().failing)
    }

    /// Whether requests can be served, and how well; a JSON object for `/readyz`.
    #[must_use]
    pub fn readiness(&self) -> (StatusCode, String) {
        let failing = self.outbox.health().failing_since.is_some() || self.books_fail();
        let (status, state) = if self.stop.is_cancelled() {
            (StatusCode::SERVICE_UNAVAILABLE, "stopping")
        } else if self.closed.as_ref().is_some_and(|closed| closed.is_awaited()) {
            // Others may have what this replica never had. It answers all the same, without memory.
            (StatusCode::SERVICE_UNAVAILABLE, "waiting")
        } else if self.closed.is_some() || failing || self.shared.as_ref().is_some_and(|shared| !shared.is_up()) {
            // Requests pass, without memory or with limits of this replica alone: that is worth an alarm, not an outage.
            (StatusCode::OK, "degraded")
        } else {
            (StatusCode::OK, "ready")
        };
        let store = match (&self.closed, failing) {
            (Some(closed), _) => closed.reason(),
            (None, true) => {
                let why = self.outbox.why_failing().map(|why| format!(" ({why})")).unwrap_or_default();
                format!("the store cannot be written{why}; exchanges and what they used wait in memory")
            }
            (None, false) => "ok".to_owned(),
        };
        let mut body = serde_json::json!({
            "status": state, "store": store, "version": env!("CARGO_PKG_VERSION"), "config_generation": self.generation,
        });
        if let Some((report, at)) = self.reloads.last() {
            body["config_reload"] = serde_json::json!({"outcome": report.outcome.text(), "at": at.to_rfc3339(), "restart_needed": report.restart});
        }
        if let Some(shared) = &self.shared {
            body["redis"] = match (shared.is_up(), shared.why()) {
                (true, _) => "ok".into(),
                (false, Some(reason)) => reason.to_string().into(),
                (false, None) => "Redis was not reached yet".into(),
            };
        }
        // Words find without vectors: that is worth a look, not an alarm.
        if let Some(vectors) = &self.vectors {
            // Whoever asks finds out before the job that fills it does.
            let trouble = self.recall.index_trouble().filter(|_| vectors.failure().is_none());
            body["vectors"] = trouble.unwrap_or_else(|| vectors.text()).into();
        }
        (status, format!("{body}\n"))
    }

    /// Brings the gauges up to date that are read, not counted.
    pub async fn observe(&self) {
        let health = self.outbox.health();
        self.metrics.set_store_degraded(self.closed.is_some() || health.failing_since.is_some() || self.books_fail());
        raise_to(&self.metrics.outbox_appended, health.appended_total);
        raise_to(&self.metrics.outbox_failed, health.failed_total);
        raise_to(&self.metrics.outbox_refused, health.refused_total);
        raise_to(&self.metrics.outbox_released_failing, health.released_total);
        if let Some(journal) = &self.journal {
            let health = journal.health();
            raise_to(&self.metrics.books.booked, health.booked_total);
            raise_to(&self.metrics.books.lost, health.lost_total);
        }
        let cooling: HashSet<&str> =
            self.routes.targets().filter(|target| target.is_cooling()).map(|target| target.label.as_str()).collect();
        for target in self.routes.targets() {
            self.metrics.targets.set_cooling(&target.label, cooling.contains(target.label.as_str()));
        }
        let learned = &self.metrics.learned;
        let totals = [
            (LearnedAs::Applied, &self.learner.applied),
            (LearnedAs::Seen, &self.learner.seen),
            (LearnedAs::Stale, &self.learner.stale),
            (LearnedAs::Erased, &self.learner.erased),
            (LearnedAs::NotOurs, &self.learner.not_ours),
            (LearnedAs::Retried, &self.worker.retried),
            (LearnedAs::Dead, &self.worker.dead),
        ];
        for (label, total) in totals {
            learned.raise_to(label, total.load(Ordering::Relaxed));
        }
        windows::observe(&*self.store, self.model_cap, &*self.clock, &self.metrics).await;
        let swept = self.sweep.counters();
        self.metrics.swept.raise_to(Swept::Row, swept.rows.load(Ordering::Relaxed));
        self.metrics.swept.raise_to(Swept::Part, swept.parts.load(Ordering::Relaxed));
        raise_to(&self.metrics.sweep_rounds, swept.rounds.load(Ordering::Relaxed));
        match self.store.depth().await {
            Ok(depth) => {
                let age =
                    depth.oldest.map(|oldest| Duration::from_millis(self.clock.now().since(oldest).unsigned_abs()));
                self.metrics.set_outbox(depth.waiting + health.queued, depth.dead, age);
            }
            // The store is down: what waits is at least what waits in this process.
            Err(_) => self.metrics.set_outbox(health.queued, 0, None),
        }
    }
}
