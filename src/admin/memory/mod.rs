//! The memory API under `/memory/v1`: list, read, add, change, delete and erase memories (design, section 10 and doubts 13, 14).
//!
//! Every handler works in the scope of its caller, which [`Identify`] derives from key and headers; there is no way to name
//! another. What belongs to another scope is "not found", whatever is done to it. Bodies are read by hand, so that every
//! error is in OpenAI's envelope. What decides about facts is pure and lives in `memory::edit`; nothing here does.
//!
//! Start with [`router`].

mod call;
mod changes;
mod copy;
mod corrections;
mod edits;
mod episodes;
mod erasure;
mod error;
mod exchanges;
mod export;
mod facts;
mod feedback;
mod import;
mod knowledge;
mod listing;
mod mentions;
mod past;
mod render;
mod subject;
mod turns;

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use async_trait::async_trait;
use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, delete, get, post};

use tokio_util::task::TaskTracker;
use tracing::Instrument;

pub use call::{Caller, Identify};

use crate::base::{Clock, EpisodeId, GatewayError, Random};
use crate::config::ApiAccess;
use crate::memory::{Namespace, Schemas, Scope};
use crate::store::{Store, VectorIndex};
use error::ApiError;
use turns::Turns;

/// What is held in memory of a scope. It is told of every write, after it, and finds what must follow from one.
#[async_trait]
pub trait Changed: Send + Sync {
    /// The memories of this scope changed.
    fn changed(&self, scope: &Scope);

    /// The whole scope was erased: nothing of it may be left here.
    fn erased(&self, scope: &Scope) {
        self.changed(scope);
    }

    /// The documents of this namespace changed.
    fn documents(&self, namespace: &Namespace);

    /// The episodes of the scope in which a value stands.
    async fn mentioning(&self, scope: &Scope, value: &str) -> Vec<EpisodeId>;
}

/// What the handlers need.
#[derive(Clone)]
pub struct MemoryApi {
    /// The records.
    pub store: Arc<dyn Store>,
    /// The index outside of the process that follows them, where there is one.
    pub index: Option<Arc<dyn VectorIndex>>,
    /// Says who calls.
    pub identify: Arc<dyn Identify>,
    /// Is told of writes.
    pub changed: Arc<dyn Changed>,
    /// The time of changes.
    pub clock: Arc<dyn Clock>,
    /// Where new ids come from.
    pub random: Arc<dyn Random>,
    /// What the shutdown waits for: a write that has begun runs to its end, also when the client leaves.
    pub tasks: TaskTracker,
    /// The keys of each namespace, and how memories fade.
    pub schemas: Arc<Schemas>,
}

impl fmt::Debug for MemoryApi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MemoryApi")
    }
}

/// What the handlers share.
#[derive(Clone, Debug)]
struct Shared {
    api: MemoryApi,
    turns: Arc<Turns>,
}

impl Deref for Shared {
    type Target = MemoryApi;

    fn deref(&self) -> &MemoryApi {
        &self.api
    }
}

/// All routes of this module, with their full paths. It has no fallback: what is not routed is for the caller to answer.
pub fn router(api: MemoryApi) -> Router {
    let shared = Shared { api, turns: Arc::new(Turns::new()) };
    let to_the_end = from_fn_with_state(shared.clone(), run_to_the_end);
    Router::new()
        .route("/memory/v1/facts", only(get(facts::list).post(facts::create)))
        .route("/memory/v1/facts/{id}", only(get(facts::read).patch(facts::change).delete(facts::delete)))
        .route("/memory/v1/facts/{id}/history", only(get(facts::history)))
        .route("/memory/v1/facts/{id}/lock", only(post(facts::lock).delete(facts::unlock)))
        .route("/memory/v1/facts/{id}/confirm", only(post(facts::confirm)))
        .route("/memory/v1/facts/{id}/restore", only(post(corrections::restore)))
        .route("/memory/v1/facts/{id}/merge", only(post(corrections::merge)))
        .route("/memory/v1/changes", only(get(changes::list)))
        .route("/memory/v1/export", only(get(export::export)))
        .route("/memory/v1/import", only(post(import::import)))
        .route("/memory/v1/copy", only(post(copy::copy)))
        .route("/memory/v1/audit", only(get(copy::audit)))
        .route("/memory/v1/episodes", only(get(episodes::list).post(episodes::create)))
        .route("/memory/v1/episodes/{id}", only(get(episodes::read).patch(episodes::change).delete(episodes::delete)))
        .route("/memory/v1/knowledge", only(get(knowledge::list).post(knowledge::create)))
        .route(
            "/memory/v1/knowledge/{id}",
            only(get(knowledge::read).put(knowledge::replace).delete(knowledge::delete)),
        )
        .route("/memory/v1/knowledge/{id}/passages", only(get(knowledge::passages)))
        .route("/memory/v1/feedback", only(post(feedback::give)))
        .route("/memory/v1/proposals", only(get(exchanges::proposals)))
        .route("/memory/v1/exchanges/{id}", only(get(exchanges::read)))
        .route("/memory/v1/namespaces", only(get(subject::namespaces)))
        .route("/memory/v1/subject", only(delete(subject::erase)))
        .route_layer(to_the_end)
        .with_state(shared)
}

/// Runs a write as a task of its own: hyper drops a request's future when the client leaves, and a cache that is not told
/// of a write would go on showing what was changed or erased.
async fn run_to_the_end(State(api): State<Shared>, request: Request, next: Next) -> Response {
    if request.method().is_safe() {
        return next.run(request).await;
    }
    let work = next.run(request).in_current_span();
    match api.tasks.spawn(work).await {
        Ok(response) => response,
        Err(error) => ApiError::from(GatewayError::internal(error)).into_response(),
    }
}

/// Answers other methods of a path in the envelope.
fn only(methods: MethodRouter<Shared>) -> MethodRouter<Shared> {
    methods.fallback(error::method_not_allowed)
}

#[cfg(test)]
mod tests;
