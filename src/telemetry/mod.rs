//! What an operator sees: the names of spans and fields, the metrics, the log on standard error, and what is exported of them.
//!
//! Everyone uses the names and the [`Metrics`]; only `cli` calls [`init()`]. Traces go from one process to the next by [`trace_context`]. Nothing here ever takes a prompt, a reply, a
//! memory, a key or an id as a label: labels are closed sets, so that the number of series is fixed at compile time (of
//! configured targets: when the configuration is read).

mod books;
mod edges;
mod gen_ai;
mod init;
pub mod labels;
mod lines;
mod metrics;
pub mod names;
pub mod otlp;
pub mod request;
mod targets;
pub mod trace_context;

pub use books::{BookCounters, Used};
pub use edges::EdgeMetrics;
pub use gen_ai::{GenAi, ModelCall};
pub use init::{LogFormat, LogLevel, init, subscriber};
pub use labels::{AskOutcome, AskPurpose, AskTokens, ItemOutcome, SummaryOutcome, WindowEnd};
pub use labels::{
    AttemptOutcome, Direction, ExtractOutcome, ExtractReason, FactAction, Label, LearnedAs, Outcome, OverflowOutcome,
    PromptPart, PromptTurn, RecallOutcome, RerankOutcome, Route, Swept,
};
pub use labels::{EmbedOutcome, EmbedSide, IndexOutcome, Limit, LimitOf, QuestionVector, VectorOutcome};
pub use labels::{ExportOutcome, HandshakeFailure, Listener, ReloadOutcome, Signal, SpanOutcome};
pub use labels::{RedisCommand, RedisOutcome};
pub use metrics::{CONTENT_TYPE, Counters, Counters2, Held, Histograms, Metrics, raise_to};
pub use targets::TargetGauges;
