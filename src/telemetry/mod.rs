//! What an operator sees: the names of spans and fields, the metrics, and the log on standard error.
//!
//! Everyone uses the names and the [`Metrics`]; only `cli` calls [`init()`]. Nothing here ever takes a prompt, a reply, a
//! memory, a key or an id as a label: labels are closed sets, so that the number of series is fixed at compile time (of
//! configured targets: when the configuration is read).

mod books;
mod init;
pub mod labels;
mod metrics;
pub mod names;
mod targets;

pub use books::{BookCounters, Used};
pub use init::{LogFormat, init};
pub use labels::{AskOutcome, AskPurpose, AskTokens, ItemOutcome, SummaryOutcome, WindowEnd};
pub use labels::{
    AttemptOutcome, Direction, ExtractOutcome, ExtractReason, FactAction, Label, LearnedAs, Outcome, OverflowOutcome,
    PromptPart, PromptTurn, RecallOutcome, RerankOutcome, Route, Swept,
};
pub use labels::{EmbedOutcome, EmbedSide, Limit, LimitOf, QuestionVector, VectorOutcome};
pub use metrics::{CONTENT_TYPE, Counters, Counters2, Held, Histograms, Metrics, raise_to};
pub use targets::TargetGauges;
