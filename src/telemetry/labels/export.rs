//! What goes to an OpenTelemetry collector, and what becomes of it.

use super::Label;

label! {
    /// What is exported.
    Signal = "signal" {
        /// Spans.
        Traces = "traces",
        /// Numbers.
        Metrics = "metrics",
    }
}

label! {
    /// How an export ended.
    ExportOutcome = "outcome" {
        /// The collector took it.
        Ok = "ok",
        /// It was given up.
        Failed = "failed",
    }
}

label! {
    /// What became of a span.
    SpanOutcome = "outcome" {
        /// The collector took it.
        Exported = "exported",
        /// The queue was full.
        Dropped = "dropped",
        /// The collector did not take it.
        Failed = "failed",
    }
}
