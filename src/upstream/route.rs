//! The service that walks the plan: fit, send, look, go on or stay.
//!
//! `choose` says which targets there are, `walk` goes from one to the next, `send` tries one, `look` is the first look at its answer, `prepare` makes
//! what is sent, `late` answers before upstream does.

mod choose;
mod late;
mod look;
mod prepare;
mod send;
mod spans;
mod walk;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::Semaphore;
use tower::Service;

use super::body::UpstreamBody;
use super::learned::{Known, Learned};
use super::plan::{Routes, Target};
use super::retry::Retry;
use super::summaries::Summaries;
use crate::base::{ErrorKind, GatewayError};
use crate::context::{Digests, Fitted, Trails};
use crate::exchange::{Recalled, Routed};
use crate::telemetry::Metrics;
use crate::tokens::Counter;

/// Digests that a preview may make, in bytes.
const PREVIEW_DIGEST_BYTES: u64 = 1024 * 1024;
/// Of the cores, this share at most counts large requests at a time: the rest is for everyone else.
const COUNTING_SHARE: usize = 2;

/// How long upstream may take. Zero = for ever.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// Until the header of the answer.
    pub header: Duration,
    /// From the header of a stream to its first bytes.
    pub first_token: Duration,
    /// Between bytes.
    pub idle: Duration,
    /// For a whole answer that is not streamed.
    pub total: Duration,
    /// After so long without a header the client's stream begins with comments, where no other target could be tried; zero = never.
    pub keepalive_before_header: Duration,
}

/// The innermost service of the stack.
#[derive(Clone, Debug)]
pub struct Route(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    routes: Arc<Routes>,
    counter: Arc<Counter>,
    digests: Arc<Digests>,
    trails: Arc<Trails>,
    summaries: Option<Arc<dyn Summaries>>,
    learned: Learned,
    timeouts: Timeouts,
    retry: Retry,
    metrics: Arc<Metrics>,
    /// Large requests wait here for their turn to be counted.
    counting: Arc<Semaphore>,
}

/// What would be sent to the first target, and what is known of it.
#[derive(Debug)]
pub struct Preview {
    /// What would be sent.
    pub fitted: Arc<Fitted>,
    /// The target.
    pub target: Arc<Target>,
    /// What its answers have taught.
    pub known: Known,
}

/// What routing works with beside its plans.
#[derive(Clone, Debug)]
pub struct Services {
    /// Counts tokens.
    pub counter: Arc<Counter>,
    /// Digests of what was cut.
    pub digests: Arc<Digests>,
    /// How the last request of each conversation was sent.
    pub trails: Arc<Trails>,
    /// Who has parts of conversations summed up.
    pub summaries: Option<Arc<dyn Summaries>>,
    /// What answers teach about targets.
    pub learned: Learned,
    /// Counts everything else.
    pub metrics: Arc<Metrics>,
}

impl Route {
    /// Walks the plans of `routes`. With `summaries`, digests have them.
    #[must_use]
    pub fn new(routes: Arc<Routes>, services: Services, timeouts: Timeouts, retry: Retry) -> Self {
        let Services { counter, digests, trails, summaries, learned, metrics } = services;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self(Arc::new(Shared {
            routes,
            counter,
            digests,
            trails,
            summaries,
            learned,
            timeouts,
            retry,
            metrics,
            counting: Arc::new(Semaphore::new((cores / COUNTING_SHARE).max(1))),
        }))
    }

    /// Returns what would be sent to the first target; nobody is called.
    ///
    /// # Errors
    /// As a real request: an unknown model, or one that cannot be made to fit.
    pub async fn preview(&self, request: &Recalled<()>) -> Result<Preview, GatewayError> {
        self.0.preview(request).await
    }
}

impl Service<Recalled<()>> for Route {
    type Response = Routed<UpstreamBody>;
    type Error = GatewayError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, GatewayError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), GatewayError>> {
        // Readiness is decided at the top, by `Admit`; an attempt has no queue of its own.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Recalled<()>) -> Self::Future {
        let shared = Arc::clone(&self.0);
        Box::pin(async move { shared.run(&request).await })
    }
}

impl Shared {
    /// What would be sent to the first target, for `explain`.
    async fn preview(&self, request: &Recalled<()>) -> Result<Preview, GatewayError> {
        let call = &request.call;
        let plan = self.plan(request).await?;
        let target = plan.first().ok_or_else(|| GatewayError::internal("a plan without targets"))?;
        let known = self.learned.known(target, call.stamp.at);
        // What is settled or made on the way to a preview stays in here.
        let digests = Arc::new(Digests::new(PREVIEW_DIGEST_BYTES));
        let fitted = self.prepare(request, target, &digests, true).await?.fitted;
        let fitted =
            fitted.ok_or_else(|| GatewayError::new(ErrorKind::BadRequest, "only chat requests can be explained"))?;
        Ok(Preview { fitted, target: Arc::clone(target), known })
    }
}
