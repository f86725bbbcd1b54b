//! The lines of the log: as `tracing-subscriber` writes them, and behind that what names the request and its trace.
//!
//! Spans are made below the level of a usual log, and only where someone looks at them; the ids stand in each line all the same.

use std::fmt;

use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use super::init::LogFormat;
use super::{request, trace_context};

const REQUEST_ID: &str = "request_id";

/// Writes events in another format's form, with ids.
#[derive(Debug)]
pub(super) struct Lines<F> {
    format: F,
    form: LogFormat,
}

impl<F> Lines<F> {
    /// `format` writes one line an event, in `form`.
    pub(super) fn new(format: F, form: LogFormat) -> Self {
        Self { format, form }
    }
}

impl<S, N, F> FormatEvent<S, N> for Lines<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(&self, ctx: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut line = String::with_capacity(256);
        self.format.format_event(ctx, Writer::new(&mut line), event)?;
        let mut ids = ids();
        // Some events name their request themselves.
        ids.retain(|(name, _)| *name != REQUEST_ID || !line.contains(REQUEST_ID));
        with_ids(&mut line, self.form, &ids);
        writer.write_str(&line)
    }
}

fn ids() -> Vec<(&'static str, String)> {
    let mut ids = Vec::new();
    if let Some(id) = request::current() {
        ids.push((REQUEST_ID, id.to_string()));
    }
    if let Some(parent) = trace_context::current() {
        ids.push(("trace_id", format!("{:032x}", parent.trace)));
        ids.push(("span_id", format!("{:016x}", parent.span)));
    }
    ids
}

/// Puts the ids at the end of a line. Ids are letters, digits and `_`: nothing in them has to be escaped.
fn with_ids(line: &mut String, form: LogFormat, ids: &[(&str, String)]) {
    if ids.is_empty() {
        return;
    }
    let end = line.trim_end_matches('\n').len();
    line.truncate(end);
    match form {
        LogFormat::Text => ids.iter().for_each(|(name, id)| line.push_str(&format!(" {name}={id}"))),
        LogFormat::Json => {
            // An object that is not empty: it has a time at least.
            if line.pop() != Some('}') {
                return;
            }
            ids.iter().for_each(|(name, id)| line.push_str(&format!(",\"{name}\":\"{id}\"")));
            line.push('}');
        }
    }
    line.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str, form: LogFormat) -> String {
        let mut line = text.to_owned();
        with_ids(&mut line, form, &[("request_id", "req_1".to_owned()), ("trace_id", "0f".to_owned())]);
        line
    }

    #[test]
    fn ids_stand_at_the_end_of_a_line() {
        assert_eq!(line("a message n=1\n", LogFormat::Text), "a message n=1 request_id=req_1 trace_id=0f\n");
        assert_eq!(line("{\"n\":1}\n", LogFormat::Json), "{\"n\":1,\"request_id\":\"req_1\",\"trace_id\":\"0f\"}\n");
    }

    #[test]
    fn without_ids_a_line_stays_as_it_is() {
        let mut line = "a message\n".to_owned();
        with_ids(&mut line, LogFormat::Text, &[]);
        assert_eq!(line, "a message\n");
    }
}
