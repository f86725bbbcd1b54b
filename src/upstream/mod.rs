//! Where a request goes: a model name to targets, targets to attempts, an attempt to bytes on the wire.
//!
//! [`Routes`] is the plan (pure), [`Route`] the service that walks it: fit for the target, send, look at the answer, go on to the next
//! target or stay. [`Learned`] is what answers teach about targets, `overflow` reads errors about the window. `headers` is what may pass in either direction. Nothing here knows what a memory is.

mod ask;
mod attempt;
mod body;
mod direct;
mod embed;
mod headers;
mod health;
mod learned;
mod overflow;
mod own;
mod passthrough;
mod plan;
mod probe;
mod provider;
mod rerank;
mod route;
mod summaries;

pub use ask::ModelAsker;
pub use body::{UpstreamBody, UpstreamBodyError};
pub use embed::{EmbedderConfig, ModelEmbedder};
pub use learned::{Known, Learned, Reported, keep};
pub use own::OwnGateway;
pub use passthrough::Passthrough;
pub use plan::{Routes, Target, TargetConfig};
pub use probe::probe;
pub use provider::{Auth, Provider, ProviderConfig};
pub use rerank::{RerankKind, Reranking};
pub use route::{Preview, Retry, Route, Services, Timeouts};
pub use summaries::{Place, Summaries};
