//! The log on standard error.

use std::io;

use tracing_subscriber::fmt::format::FmtSpan;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};
use tracing_subscriber::{EnvFilter, Layer, fmt, registry};

/// The form of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Installs the log for the whole process, on standard error. `level` is a filter, as in `info` or
/// `backstory=debug,warn`; `wanted` (the value of `BACKSTORY_LOG`) wins over it. A filter that cannot be read is passed
/// over, and the log says so.
///
/// # Errors
/// When the process has a subscriber already; that one stays, so the caller may go on.
pub fn init(form: LogFormat, level: &str, wanted: Option<&str>) -> Result<(), TryInitError> {
    let (filter, unreadable) = filter(level, wanted);
    let layer = fmt::layer().with_writer(io::stderr).with_span_events(FmtSpan::NONE).with_target(false);
    let layer = match form {
        LogFormat::Text => layer.with_ansi(io::IsTerminal::is_terminal(&io::stderr())).boxed(),
        LogFormat::Json => layer.json().flatten_event(true).with_ansi(false).boxed(),
    };
    registry().with(filter).with(layer).try_init()?;
    if let Some(filter) = unreadable {
        tracing::warn!(filter, "cannot read this log filter; using the next");
    }
    Ok(())
}

/// The first filter that can be read, and the first that cannot.
fn filter<'f>(level: &'f str, wanted: Option<&'f str>) -> (EnvFilter, Option<&'f str>) {
    let mut unreadable = None;
    for text in wanted.into_iter().chain([level]).filter(|text| !text.trim().is_empty()) {
        match EnvFilter::try_new(text) {
            Ok(filter) => return (filter, unreadable),
            Err(_) => unreadable = unreadable.or(Some(text)),
        }
    }
    (EnvFilter::new("info"), unreadable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_wins_over_the_configuration() {
        assert_eq!(filter("info", Some("debug")).0.to_string(), "debug");
        assert_eq!(filter("warn", None).0.to_string(), "warn");
        assert_eq!(filter("warn", Some("")).0.to_string(), "warn");
    }

    #[test]
    fn a_filter_that_cannot_be_read_is_passed_over() {
        let (used, unreadable) = filter("warn", Some("a=b=c"));
        assert_eq!(used.to_string(), "warn");
        assert_eq!(unreadable, Some("a=b=c"));
        assert_eq!(filter("a=b=c", None).0.to_string(), "info");
    }
}
