//! From a configuration to a running [`App`].

use std::sync::Arc;

use tokio::sync::Semaphore;

use super::ask::{OwnModels, asker};
use super::embed::ceiling;
use super::index::{index_of, outside};
use super::keep::{Forgets, Tuned, keep_subjects};
use super::keys::{keys, note_used_keys, stored_principal};
use super::late::Closed;
use super::learn::{Cached, decide};
use super::limits::limits;
use super::records::{Opened, fresh_salt, open};
use super::routing::{routes, timeouts};
use super::seat::Seat;
use super::shared::{Caches, shared};
use super::summaries::Bridge;
use super::vectors::{VectorParts, vectors};
use super::windows::Model;
use super::{App, Base, Settings};
use crate::access::{StoredKeys, Subjects, keep_budgets};
use crate::base::{Clock, Random};
use crate::config::{self, Config, Env, VectorsEngine};
use crate::context::{Digests, Overflow, Policies, Policy, PolicyChanges, Profile, Trails};
use crate::embed::{Embed, WordsAlone};
use crate::jobs::{
    ExtractLearner, JournalConfig, Learner, Means, OutboxConfig, Summaries, SummariesConfig, Sweep, SweepConfig,
    Worker, WorkerConfig, journal, outbox,
};
use crate::layers::Patience;
use crate::memory::Sensitivity;
use crate::memory::redact::redact_turn;
use crate::recall::{Knowledge, Recall, RecallConfig, Reranker};
use crate::shared::OpenError;
use crate::states::States;
use crate::store::{Store, StoredKey, Unreachable, VectorIndex};
use crate::telemetry::{AskPurpose, Metrics};
use crate::upstream::{self, Learned, Passthrough, RerankKind, Reranking, Route, Services, keep};

/// Digests that are kept, in bytes.
const DIGEST_CACHE_BYTES: u64 = 16 * 1024 * 1024;
/// Of the last request of each conversation, hashes and counts that are kept, in bytes.
const TRAIL_CACHE_BYTES: u64 = 16 * 1024 * 1024;

/// Why the app could not be built. The texts say what to do.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// Something is configured that this build cannot do.
    #[error("this build cannot do what the configuration asks for:\n{}", .0.iter().map(|s| format!("  - {s}")).collect::<Vec<_>>().join("\n"))]
    Unsupported(Vec<String>),
    /// The data folder cannot be made.
    #[error("the data folder {folder} cannot be made: {source}; choose another with --data DIR or [store] data")]
    Folder {
        /// The folder.
        folder: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The embedding model cannot be used.
    #[error("the embedding model cannot be used: {0}")]
    Embedder(String),
    /// The index outside of the process cannot be used.
    #[error("{0}; look at [vectors]")]
    Index(String),
    /// The OpenTelemetry collector cannot be set up.
    #[error(
        "telemetry cannot be sent to {endpoint}: {reason}; look at [telemetry] otlp_endpoint, otlp_headers and otlp_ca_file"
    )]
    Collector {
        /// Its address.
        endpoint: String,
        /// Why.
        reason: String,
    },
    /// Redis cannot be used.
    #[error(transparent)]
    Redis(#[from] OpenError),
    /// A provider cannot be set up.
    #[error("provider `{name}`: {reason}")]
    Provider {
        /// Its name.
        name: String,
        /// Why.
        reason: String,
    },
}

/// What comes from outside the configuration.
#[derive(Clone, Debug)]
pub struct Parts {
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// Makes ids and salts.
    pub random: Arc<dyn Random>,
}

/// Opens the store, starts the background tasks, and wires everything.
///
/// A store that cannot be opened (away, locked, corrupt, of a newer version) does not keep the gateway from serving: it then passes requests without memory,
/// and says so in the log, in `/readyz` and in each reply. Whoever runs [`reload::start`](super::reload::start) goes over to the store when it can be opened.
///
/// # Errors
/// See [`BuildError`].
pub async fn build(config: &Config, env: &dyn Env, parts: Parts) -> Result<Arc<App>, BuildError> {
    let unsupported = config.unsupported();
    if !unsupported.is_empty() {
        return Err(BuildError::Unsupported(unsupported));
    }
    build_with(config, env, parts, index_of(config)?).await
}

/// The same with an index that was made before.
pub(super) async fn build_with(
    config: &Config,
    env: &dyn Env,
    parts: Parts,
    index: Option<Arc<dyn VectorIndex>>,
) -> Result<Arc<App>, BuildError> {
    let base = Base::new(config, parts).await?;
    if let Some(folder) = config.embedded_folder(env) {
        std::fs::create_dir_all(&folder)
            .map_err(|source| BuildError::Folder { folder: folder.display().to_string(), source })?;
    }
    let opened = open(config, env, &*base.random).await.map_err(|error| Closed::by(&error, config, env));
    wire(config, base, opened, index).await
}

/// Starts the background tasks over a store, or without one, and wires everything.
pub(super) async fn wire(
    config: &Config,
    base: Base,
    opened: Result<Opened, Closed>,
    index: Option<Arc<dyn VectorIndex>>,
) -> Result<Arc<App>, BuildError> {
    let Base { clock, random, tracker, stop, halt, metrics, providers, embedder, counter, .. } = base;
    let mut own_models = OwnModels { embed: base.embed_seat, ..OwnModels::default() };
    let (store, salt, closed): (Arc<dyn Store>, _, _) = match opened {
        Ok(Opened { store, salt }) => {
            if let Err(error) = store.say_served().await {
                tracing::warn!(%error, "`backstory migrate` is not kept from copying into this database again");
            }
            (Arc::new(store), salt, None)
        }
        Err(closed) => (Arc::new(Unreachable::new(closed.reason())), fresh_salt(&*random), Some(Arc::new(closed))),
    };
    let schemas = Arc::new(config.memory.schemas());
    // Without the store nobody knows what replicas know of each other.
    let shared = if closed.is_none() { shared(config, salt, &clock, &random, &metrics).await? } else { None };
    let has_replicas = config.has_replicas();
    let source = Tuned { store: Arc::clone(&store), schemas: Arc::clone(&schemas), has_replicas };
    let reranker = reranker(config, &metrics)?;
    let outside = index.filter(|_| closed.is_none()).map(|index| outside(index, config, &clock, &metrics));
    let recall = Recall::from_source(Arc::new(source), recall_config(config)).reranked_by(reranker.clone());
    let recall = Arc::new(recall.through(outside.as_ref().map(|outside| Arc::clone(&outside.asks))));
    let knowledge = Knowledge::new(Arc::clone(&store), recall_config(config), Arc::clone(&clock));
    let knowledge = Arc::new(knowledge.reranked_by(reranker));
    let states = States::new(Arc::clone(&store));
    let states = Arc::new(if has_replicas { states.among_replicas(shared.clone()) } else { states });

    let cached = Arc::new(Cached { recall: Arc::clone(&recall), metrics: Arc::clone(&metrics) });
    let learner = Arc::new(ExtractLearner::new(
        Arc::clone(&store),
        decide(Arc::clone(&schemas), Arc::clone(&random), Arc::clone(&metrics), &config.extract),
        Arc::clone(&cached) as Arc<_>,
        Arc::clone(&cached) as Arc<_>,
        Arc::clone(&clock),
    ));
    let outbox = outbox(
        Arc::clone(&store) as Arc<_>,
        OutboxConfig::default(),
        redact_turn,
        learns_at_once(config).then(|| Arc::clone(&learner) as Arc<_>),
        Arc::clone(&clock),
        &tracker,
        halt.clone(),
    );
    // Without a store, or where they are not wanted, there are no books: what was used is in the metrics only.
    let journal = (closed.is_none() && config.store.usage_days > 0)
        .then(|| journal(Arc::clone(&store) as Arc<_>, JournalConfig::default(), &tracker, halt.clone()));
    let learned = learner.counters();
    let owner = format!("{:016x}", random.next_u64());
    let mut learner: Arc<dyn Learner> = learner;
    let model = config.extract.model.as_ref().filter(|_| closed.is_none());
    if let Some(model) = model
        && let Some(ask) = asker(model, &providers, AskPurpose::Extract, &clock, &metrics)
    {
        let ask = Seat::new(ask);
        own_models.extract = Some(Arc::clone(&ask));
        let model = Model {
            ask,
            ceiling: providers.get(&model.provider).map_or(Sensitivity::Normal, |p| p.max_sensitivity),
            store: Arc::clone(&store),
            cached,
            schemas: Arc::clone(&schemas),
            clock: Arc::clone(&clock),
            random: Arc::clone(&random),
            metrics: Arc::clone(&metrics),
        };
        let (queueing, windows) = model.wire(&config.extract, learner, &owner);
        learner = queueing;
        tracker.spawn(windows.run(halt.clone()));
    }
    let learns = config.extract.rules || config.extract.model.is_some();
    let worker = Worker::new(
        Arc::clone(&store) as Arc<_>,
        learner,
        Arc::clone(&clock),
        Arc::clone(&random),
        outbox.appended(),
        WorkerConfig::named(owner.clone()),
    );
    let worker_counters = worker.counters();
    let subjects = Arc::new(Subjects::default());
    let forgets = Forgets {
        memory: config.memory.clone(),
        schemas: Arc::clone(&schemas),
        recall: Arc::clone(&recall),
        states: Arc::clone(&states),
        shared: shared.clone(),
        metrics: Arc::clone(&metrics),
    };
    let sweep = Arc::new(Sweep::new(
        Arc::clone(&store),
        Arc::new(forgets),
        Arc::clone(&clock),
        Arc::clone(&random),
        SweepConfig {
            trace_days: config.store.trace_days,
            usage_days: config.store.usage_days,
            raw_days: config.extract.keep_exchanges_days,
            ..SweepConfig::default()
        },
    ));
    if closed.is_none() && learns {
        tracker.spawn(worker.run(halt.clone()));
    }
    if closed.is_none() {
        tracker.spawn(Arc::clone(&sweep).run(halt.clone()));
        tracker.spawn(keep_subjects(Arc::clone(&subjects), Arc::clone(&store), Arc::clone(&clock), halt.clone()));
    }

    let mut questions = None;
    let mut vector_status = None;
    // An index finds by words as well, so that it is filled where nobody embeds, too.
    let words_alone = outside.as_ref().map(|_| Arc::new(WordsAlone::default()) as Arc<dyn Embed>);
    if let Some(making) = embedder.as_ref().or(words_alone.as_ref()).filter(|_| closed.is_none()) {
        let parts = VectorParts {
            store: &store,
            recall: &recall,
            clock: &clock,
            random: &random,
            metrics: &metrics,
            max_sensitivity: ceiling(&config.embeddings, &providers),
            outside: outside.as_ref(),
        };
        let (job, asks) = vectors(making, &parts, &owner);
        vector_status = Some(job.status());
        questions = embedder.is_some().then_some(asks);
        tracker.spawn(job.run(halt.clone()));
    }

    let stored_keys = (!config.is_client_mode()).then(|| {
        let read = Box::new(|key: &StoredKey| stored_principal(key));
        Arc::new(StoredKeys::new(Arc::clone(&store), read, Arc::clone(&clock)))
    });
    if let Some(keys) = stored_keys.clone().filter(|_| closed.is_none()) {
        tracker.spawn(note_used_keys(keys, halt.clone()));
    }

    let limits = limits(config, salt, &store, shared.as_ref(), &metrics);
    if closed.is_none() {
        tracker.spawn(keep_budgets(Arc::clone(&limits), Arc::clone(&clock), halt.clone()));
    }

    let routes = Arc::new(routes(config, &providers, base.routes.as_deref()));
    let (timeouts, retry) = (timeouts(config), config.retry.clone());
    let digests = Arc::new(Digests::new(DIGEST_CACHE_BYTES));
    let trails = Arc::new(Trails::new(TRAIL_CACHE_BYTES));
    let summaries = config.summary.model.as_ref().and_then(|model| {
        let ask = Seat::new(asker(model, &providers, AskPurpose::Summary, &clock, &metrics)?);
        own_models.summary = Some(Arc::clone(&ask));
        let means = Means {
            model: ask,
            store: Arc::clone(&store),
            clock: Arc::clone(&clock),
            random: Arc::clone(&random),
            metrics: Arc::clone(&metrics),
        };
        let config =
            SummariesConfig { max_tokens_per_day: config.summary.max_tokens_per_day, ..SummariesConfig::default() };
        Some(Arc::new(Summaries::start(means, config, &tracker, halt.clone())))
    });
    if let Some(shared) = &shared {
        let caches = Caches {
            recall: Arc::clone(&recall),
            states: Arc::clone(&states),
            knowledge: Arc::clone(&knowledge),
            digests: Arc::clone(&digests),
            summaries: summaries.clone(),
            stored_keys: stored_keys.clone(),
            embedder: embedder.clone(),
        };
        shared.start(Arc::new(caches), &tracker, &halt);
    }
    let bridge = bridge(summaries.as_ref(), &digests, &clock, config, closed.is_none());
    metrics.targets.declare(routes.targets().map(|target| target.label.as_str()));
    metrics.books.declare(routes.targets().map(|target| target.label.as_str()));
    metrics.gen_ai.declare(routes.targets().map(|target| target.label.as_str()));
    let learned_of_targets = Learned::new(Arc::clone(&metrics.targets));
    if closed.is_none() {
        if let Err(error) = learned_of_targets.load(&*store).await {
            tracing::warn!(%error, "what was learned of targets cannot be read; it is learned anew");
        }
        tracker.spawn(keep(learned_of_targets.clone(), Arc::clone(&store), Arc::clone(&clock), halt.clone()));
    }
    let services = Services {
        counter: Arc::clone(&counter),
        digests: Arc::clone(&digests),
        trails: Arc::clone(&trails),
        summaries: bridge,
        learned: learned_of_targets.clone(),
        metrics: Arc::clone(&metrics),
    };
    let upstream = Route::new(Arc::clone(&routes), services.clone(), timeouts, retry);
    Ok(Arc::new(App {
        generation: base.generation,
        identities: base.identities,
        own_models: Arc::new(own_models),
        reloads: base.reloads,
        providers,
        services,
        salt,
        passthrough: Arc::new(Passthrough::new(Arc::clone(&routes), timeouts, config.server.max_body_bytes)),
        keys: Arc::new(keys(config, salt, stored_keys.clone())),
        stored_keys,
        admin_key: config.admin.key.as_ref().map(|key| config::Key::hash(key.expose())),
        limits,
        subjects,
        permits: base.permits,
        profiling: base.profiling,
        settings: settings(config),
        config: Arc::new(config.clone()),
        clock,
        random,
        store,
        outbox,
        journal,
        recall,
        embedder,
        knowledge,
        questions,
        index: outside.map(|outside| outside.index),
        vectors: vector_status,
        states,
        shared,
        schemas,
        sweep,
        routes,
        upstream,
        learned_of_targets,
        counter,
        digests,
        trails,
        summaries,
        metrics,
        tracker,
        stop,
        halt,
        model_cap: config.extract.max_tokens_per_day,
        worker: worker_counters,
        learner: learned,
        closed,
    }))
}

/// How many permits that many requests at a time are.
pub(super) fn admits(max_concurrency: usize) -> usize {
    max_concurrency.min(Semaphore::MAX_PERMITS)
}

/// Plain settings of the layers.
pub(super) fn settings(config: &Config) -> Settings {
    let server = &config.server;
    Settings {
        max_body_bytes: server.max_body_bytes,
        patience: Patience { total: server.upload, idle: server.upload_idle },
        max_header_bytes: server.max_header_bytes,
        max_url_bytes: server.max_url_bytes,
        commit_wait: config.store.acknowledge_wait,
        keepalive: server.keepalive.unwrap_or_default(),
        recall_deadline: config.recall.deadline,
        drain: server.drain,
        policies: Arc::new(policies(config)),
        learn: config.extract.rules || config.extract.model.is_some(),
        trace: config.store.trace_days > 0,
        loopback_only: server.listen.ip().is_loopback() && config.is_client_mode(),
        admin_loopback_only: server.admin_listen.is_some_and(|address| address.ip().is_loopback())
            && config.admin.key.is_none(),
    }
}

/// Summaries as routing sees them; `None` = nobody makes any.
pub(super) fn bridge(
    summaries: Option<&Arc<Summaries>>,
    digests: &Arc<Digests>,
    clock: &Arc<dyn Clock>,
    config: &Config,
    has_store: bool,
) -> Option<Arc<dyn upstream::Summaries>> {
    let summaries = Arc::clone(summaries?);
    let (digests, clock, deadline) = (Arc::clone(digests), Arc::clone(clock), config.recall.deadline);
    Some(Arc::new(Bridge { summaries, digests, clock, deadline, has_store }))
}

/// Whether the rules learn from an exchange instead of its being kept: not where someone else needs it afterwards.
fn learns_at_once(config: &Config) -> bool {
    let extract = &config.extract;
    extract.rules && extract.model.is_none() && extract.keep_exchanges_days == 0
}

fn reranker(config: &Config, metrics: &Arc<Metrics>) -> Result<Option<Reranker>, BuildError> {
    let rerank = &config.rerank;
    let Some(url) = &rerank.url else { return Ok(None) };
    let kind = match rerank.kind {
        Some(config::RerankKind::Cohere) => RerankKind::Cohere,
        Some(config::RerankKind::Jina) => RerankKind::Jina,
        Some(config::RerankKind::Tei) => RerankKind::Tei,
        None if rerank.model.is_some() => RerankKind::Cohere,
        None => RerankKind::Tei,
    };
    let by = Reranking::new(url, kind, rerank.model.clone(), rerank.api_key.as_ref()).map_err(|error| {
        let reason = error.causes().unwrap_or_else(|| error.to_string());
        BuildError::Provider { name: "[rerank]".to_owned(), reason }
    })?;
    Ok(Some(Reranker::new(Arc::new(by), config.recall.deadline, Arc::clone(metrics))))
}

/// How a configuration asks for memories to be found.
#[must_use]
pub fn recall_config(config: &Config) -> RecallConfig {
    let mut recall = RecallConfig::default();
    recall.max_episodes = config.recall.max_episodes as usize;
    recall.max_passages = config.recall.max_passages as usize;
    recall.floor = config.recall.floor;
    recall.weights.turn = config.recall.weights.turn;
    recall.weights.neighbours = config.recall.weights.neighbours;
    recall.weights.session = config.recall.weights.session;
    recall.weights.neighbours_long = config.recall.weights.neighbours_long;
    recall.weights.session_long = config.recall.weights.session_long;
    recall.weights.dense_turn = config.recall.weights.dense_turn;
    recall.weights.dense_neighbours = config.recall.weights.dense_neighbours;
    recall.weights.assistant = config.recall.weights.assistant;
    recall.weights.boost = config.recall.weights.boost;
    recall.weights.speaker = config.recall.weights.speaker;
    recall.max_episodes_per_scope = match config.vectors.engine {
        VectorsEngine::Embedded => config.memory.rules.max_episodes as usize,
        // The index finds the others.
        VectorsEngine::Qdrant | VectorsEngine::Pgvector => config.recall.held_episodes as usize,
    };
    recall.cache_bytes = config.recall.cache_bytes;
    recall
}

/// The budget policy of everyone, and of each model.
#[must_use]
pub fn policies(config: &Config) -> Policies {
    let soft_mark = config.summary.model.as_ref().map(|_| config.summary.soft_mark);
    let knowledge_share = config.recall.knowledge_share;
    let base =
        Policy { soft_mark, knowledge_share, ..Policy::default() }.with(&policy_changes(&config.budget.changes()));
    // An alias has the budget of the model that it names, with what it changes of that.
    let models = config.models.iter().map(|model| {
        let behind = config.model(&model.name).unwrap_or(model);
        (model.name.clone(), policy_changes(&model.budget.over(&behind.budget)))
    });
    Policies::new(base, models.collect())
}

/// Budget keys, wherever they stand in the config.
#[must_use]
pub fn policy_changes(budget: &config::BudgetChanges) -> PolicyChanges {
    PolicyChanges {
        max_input_tokens: budget.max_input_tokens.map(|n| n as usize),
        memory_tokens: budget.memory_tokens.map(|n| n as usize),
        output_reserve: budget.output_reserve.map(|n| n as usize),
        low_water: budget.low_water,
        overflow: budget.overflow.map(|overflow| match overflow {
            config::Overflow::Trim => Overflow::Trim,
            config::Overflow::Reject => Overflow::Reject,
            config::Overflow::Shorten => Overflow::Shorten,
        }),
        profile: budget.profile.map(|profile| match profile {
            config::Profile::Single => Profile::Single,
            config::Profile::Chat => Profile::Chat,
            config::Profile::Task => Profile::Task,
        }),
        // 0 in the file = no block stays.
        sticky_tokens: budget.sticky_tokens.map(|n| if n == 0 { usize::MAX } else { n as usize }),
    }
}
