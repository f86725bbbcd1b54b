//! Traces and metrics for an OpenTelemetry collector, over OTLP.
//!
//! [`Traces`] turns our `tracing` spans into OpenTelemetry's and puts those that have ended into a bounded queue; [`Exporter`], one
//! task, takes them out in batches, and sends the numbers of the Prometheus registry every minute. It never keeps a request waiting:
//! a span that finds the queue full is dropped and counted, and a collector that is slow or dead costs spans and nothing else.
//! How a message gets there is for a [`Collector`] to know.
//!
//! No span has an event, so that nothing that is logged is exported; attributes are names, counts and times, never content.

mod export;
mod names;
mod numbers;
mod queue;
mod resource;
mod spans;
mod traces;

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

pub use export::{ExportSettings, Exporter, empty_message};
pub use queue::SpanQueue;
pub use traces::Traces;

use super::labels::Signal;

/// Where messages go.
#[async_trait]
pub trait Collector: Send + Sync + fmt::Debug {
    /// Sends an export request, as protobuf, and returns the answer's message.
    ///
    /// # Errors
    /// The collector did not take it.
    async fn send(&self, signal: Signal, message: Bytes) -> Result<Bytes, SendError>;
}

/// Why a collector did not take a message. The texts name no key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// It may take it later.
    #[error("{reason}")]
    Later {
        /// Why.
        reason: String,
        /// How long it wants to be left alone.
        after: Option<Duration>,
    },
    /// It will not take it.
    #[error("{0}")]
    Refused(String),
}

/// Where the numbers come from: the one place where they are counted.
#[async_trait]
pub trait Numbers: Send + Sync {
    /// All metrics in the text form of OpenMetrics, up to date.
    async fn text(&self) -> String;
}
