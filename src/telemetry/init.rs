//! Who listens to spans and events: the log on standard error, and the exporter of traces where there is one.

use std::io;

use tracing::Subscriber;
use tracing_subscriber::fmt::format::{FmtSpan, JsonFields};
use tracing_subscriber::fmt::{MakeWriter, format};
use tracing_subscriber::layer::{Filter, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};
use tracing_subscriber::{EnvFilter, Layer, Registry, fmt, registry, reload};

use super::lines::Lines;
use super::otlp::Traces;

/// The form of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Installs the log for the whole process, on standard error, and beside it `traces`. `level` is a filter, as in `info` or
/// `backstory=debug,warn`; `wanted` (the value of `BACKSTORY_LOG`) wins over it. A filter that cannot be read is passed
/// over, and the log says so. What is exported hangs on neither.
///
/// # Errors
/// When the process has a subscriber already; that one stays, so the caller may go on.
pub fn init(
    form: LogFormat,
    level: &str,
    wanted: Option<&str>,
    traces: Option<&Traces>,
) -> Result<LogLevel, TryInitError> {
    let (filter, unreadable) = filter(level, wanted);
    let (filter, handle) = reload::Layer::new(filter);
    let ansi = io::IsTerminal::is_terminal(&io::stderr());
    subscriber(form, ansi, filter, io::stderr, traces).try_init()?;
    if let Some(filter) = unreadable {
        tracing::warn!(filter, "cannot read this log filter; using the next");
    }
    let is_pinned = wanted.is_some_and(|wanted| EnvFilter::try_new(wanted).is_ok() && !wanted.trim().is_empty());
    Ok(LogLevel { handle, is_pinned })
}

/// The level of the log, which may be changed while it is written.
#[derive(Debug)]
pub struct LogLevel {
    handle: reload::Handle<EnvFilter, Registry>,
    /// `BACKSTORY_LOG` says it, whatever the configuration does.
    is_pinned: bool,
}

impl LogLevel {
    /// Writes by another filter from now on, where the environment does not say which. One that cannot be read changes nothing.
    pub fn set(&self, level: &str) {
        if let Some(filter) = EnvFilter::try_new(level).ok().filter(|_| !self.is_pinned)
            && let Err(error) = self.handle.reload(filter)
        {
            tracing::warn!(%error, "the level of the log could not be changed");
        }
    }
}

/// The same, writing to `writer`, for whoever installs it.
pub fn subscriber<F, W>(
    form: LogFormat,
    ansi: bool,
    filter: F,
    writer: W,
    traces: Option<&Traces>,
) -> impl Subscriber + Send + Sync + use<F, W>
where
    F: Filter<Registry> + Send + Sync + 'static,
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    registry().with(log(form, ansi, writer).with_filter(filter)).with(traces.map(Traces::layer))
}

fn log<S, W>(form: LogFormat, ansi: bool, writer: W) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let layer = fmt::layer().with_writer(writer).with_span_events(FmtSpan::NONE);
    match form {
        LogFormat::Text => {
            let lines = Lines::new(format().with_ansi(ansi).with_target(false), form);
            layer.with_ansi(ansi).event_format(lines).boxed()
        }
        LogFormat::Json => {
            let lines = Lines::new(format().json().flatten_event(true).with_target(false), form);
            layer.with_ansi(false).fmt_fields(JsonFields::new()).event_format(lines).boxed()
        }
    }
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
    use std::sync::{Arc, Mutex};

    use tracing::Instrument;

    use super::*;
    use crate::base::{RequestId, SeededRandom};
    use crate::telemetry::request;

    #[test]
    fn the_environment_wins_over_the_configuration() {
        assert_eq!(filter("info", Some("debug")).0.to_string(), "debug");
        assert_eq!(filter("warn", None).0.to_string(), "warn");
        assert_eq!(filter("warn", Some("")).0.to_string(), "warn");
    }

    /// Keeps what is written.
    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// What is logged of one event in a request, at `info`, beside an exporter of spans or not.
    async fn logged(form: LogFormat, traces: Option<&Traces>) -> String {
        let kept = Kept::default();
        let writer = kept.clone();
        let listener = subscriber(form, false, EnvFilter::new("info"), move || writer.clone(), traces);
        let work = async { tracing::info!(n = 1, "a message") };
        let guard = tracing::subscriber::set_default(listener);
        request::scope(RequestId(1), work.instrument(tracing::debug_span!("request"))).await;
        drop(guard);
        let bytes = kept.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[tokio::test]
    async fn every_line_names_its_request_and_its_trace() {
        let traces = Traces::new(1.0, Arc::new(SeededRandom::new(1)));
        let line: serde_json::Value = serde_json::from_str(&logged(LogFormat::Json, Some(&traces)).await).unwrap();
        assert_eq!((line["message"].as_str(), line["n"].as_u64()), (Some("a message"), Some(1)));
        assert_eq!(line["request_id"], RequestId(1).to_string());
        let span = traces.queue().take().remove(0);
        assert_eq!(line["trace_id"], span.span_context.trace_id().to_string());
        assert_eq!(line["span_id"], span.span_context.span_id().to_string());
    }

    #[tokio::test]
    async fn without_an_exporter_a_line_names_its_request_alone() {
        let text = logged(LogFormat::Text, None).await;
        assert!(text.ends_with(&format!("a message n=1 request_id={}\n", RequestId(1))), "{text}");
        let line: serde_json::Value = serde_json::from_str(&logged(LogFormat::Json, None).await).unwrap();
        assert!(line.get("trace_id").is_none() && line["request_id"].is_string());
    }

    #[test]
    fn a_filter_that_cannot_be_read_is_passed_over() {
        let (used, unreadable) = filter("warn", Some("a=b=c"));
        assert_eq!(used.to_string(), "warn");
        assert_eq!(unreadable, Some("a=b=c"));
        assert_eq!(filter("a=b=c", None).0.to_string(), "info");
    }
}
