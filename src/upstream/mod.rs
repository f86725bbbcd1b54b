//! Where a request goes: a model name to targets, targets to attempts, an attempt to bytes on the wire.
//!
//! [`Routes`] is the plan (pure), [`Route`] the service that walks it: fit for the target, send, look at the answer, go on to the next
//! target or stay. `keyring` holds a provider's keys, `lanes` and `health` who cools, `retry` what follows on which failure. [`Learned`] is what answers teach about targets, `overflow` reads errors about the window. `headers` is what may pass in either direction, `api` which API a provider speaks, `translate` the way into its dialect and back. Nothing here knows what a memory is.

mod api;
mod ask;
mod attempt;
mod body;
mod choose;
mod direct;
mod download;
mod embed;
mod endpoints;
mod event;
mod headers;
mod health;
mod keyring;
mod lanes;
mod latency;
mod learned;
mod line;
mod mono;
mod otlp;
mod overflow;
mod own;
mod passthrough;
mod plan;
mod probe;
mod provider;
mod rerank;
mod retry;
mod route;
mod summaries;
mod translate;
mod wait;
mod when;

pub use api::{Api, ApiKind, Dialects};
pub use ask::ModelAsker;
pub use body::{UpstreamBody, UpstreamBodyError};
pub use choose::Pick;
pub use download::{Downloaded, Downloads, Progress};
pub use embed::{EmbedderConfig, ModelEmbedder};
pub use keyring::MAX_KEYS;
pub use learned::{Known, Learned, Reported, keep};
pub use otlp::{HttpCollector, OtlpProtocol};
pub use own::OwnGateway;
pub use passthrough::Passthrough;
pub use plan::{Model, ModelConfig, Routes, Target, TargetConfig};
pub use probe::probe;
pub use provider::{Auth, Provider, ProviderConfig, Proxy, Reach};
pub use rerank::{RerankKind, Reranking};
pub use retry::{On, Retry, RetryTable, Then};
pub use route::{Preview, Route, Services, Timeouts};
pub use summaries::{Place, Summaries};
pub use when::{Traits, When};
