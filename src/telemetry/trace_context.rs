//! Traces across processes: W3C Trace Context (<https://www.w3.org/TR/trace-context/>), in and out.
//!
//! Without an exporter nothing here does anything: what a client sends is then passed on as it came.

use http::{HeaderMap, HeaderName, HeaderValue};
use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState};
use opentelemetry::{Array, Context, StringValue, Value};
use tracing::Span;
use tracing::level_filters::LevelFilter;
use tracing_opentelemetry::OpenTelemetrySpanExt;

use crate::base::TraceParent;

/// Names the caller's span.
pub const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
/// What tracing systems on the way have to say to each other.
pub const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// A longer `tracestate` is not taken up, in bytes. The standard asks for 512.
const MAX_STATE_BYTES: usize = 1024;

/// Returns what names a span; `None` where spans are not exported.
#[must_use]
pub fn of(span: &Span) -> Option<TraceParent> {
    if span.is_disabled() {
        return None;
    }
    from_context(span.context().span().span_context())
}

/// Returns what names the span that this task is in; `None` where spans are not exported.
pub(super) fn current() -> Option<TraceParent> {
    Context::map_current(|context| from_context(context.span().span_context()))
}

/// Makes a span, before it is entered, a child of the one that the headers of a request name. What is malformed is passed over, and
/// the span begins a trace of its own.
pub fn adopt(span: &Span, headers: &HeaderMap) {
    if span.is_disabled() {
        return;
    }
    let Some(parent) = single(headers).and_then(|text| text.parse::<TraceParent>().ok()) else { return };
    let context = Context::new().with_remote_span_context(to_context(parent, state(headers)));
    // Without an exporter there is no trace to go on with.
    let _not_exported = span.set_parent(context);
}

/// Has the headers of a request that is sent on name the span that this task is in; where spans are not exported they stay as they are.
pub fn inject(headers: &mut HeaderMap) {
    // The usual case, told by one atomic.
    if LevelFilter::current() >= LevelFilter::DEBUG {
        inject_span(&Span::current(), headers);
    }
}

fn inject_span(span: &Span, headers: &mut HeaderMap) {
    if span.is_disabled() {
        return;
    }
    let context = span.context();
    let context = context.span().span_context().clone();
    let Some(parent) = from_context(&context) else { return };
    headers.remove(TRACESTATE);
    if let Ok(value) = HeaderValue::try_from(parent.to_string()) {
        headers.insert(TRACEPARENT, value);
    }
    let state = context.trace_state().header();
    if let Some(value) = HeaderValue::try_from(state).ok().filter(|value| !value.is_empty()) {
        headers.insert(TRACESTATE, value);
    }
}

/// Has a span point to another one that led to it, and may have ended long ago.
pub fn link(span: &Span, cause: Option<TraceParent>) {
    if let Some(cause) = cause.filter(|_| !span.is_disabled()) {
        span.add_link(to_context(cause, TraceState::default()));
    }
}

/// Sets an attribute that is a list of texts, which a field of `tracing` cannot be.
pub fn set_texts(span: &Span, key: &'static str, texts: Vec<String>) {
    let texts: Vec<StringValue> = texts.into_iter().map(StringValue::from).collect();
    span.set_attribute(key, Value::Array(Array::String(texts)));
}

fn from_context(context: &SpanContext) -> Option<TraceParent> {
    context.is_valid().then(|| TraceParent {
        trace: u128::from_be_bytes(context.trace_id().to_bytes()),
        span: u64::from_be_bytes(context.span_id().to_bytes()),
        sampled: context.is_sampled(),
    })
}

fn to_context(parent: TraceParent, state: TraceState) -> SpanContext {
    let flags = if parent.sampled { TraceFlags::SAMPLED } else { TraceFlags::NOT_SAMPLED };
    let (trace, span) = (parent.trace.to_be_bytes(), parent.span.to_be_bytes());
    SpanContext::new(TraceId::from_bytes(trace), SpanId::from_bytes(span), flags, true, state)
}

/// The one `traceparent`; of several nobody knows which is meant.
fn single(headers: &HeaderMap) -> Option<&str> {
    let mut all = headers.get_all(TRACEPARENT).iter();
    let first = all.next()?;
    if all.next().is_some() {
        return None;
    }
    first.to_str().ok()
}

/// The `tracestate`, which may stand in several lines; empty when it cannot be read.
fn state(headers: &HeaderMap) -> TraceState {
    let lines: Option<Vec<&str>> = headers.get_all(TRACESTATE).iter().map(|line| line.to_str().ok()).collect();
    let text = lines.unwrap_or_default().join(",");
    if text.len() > MAX_STATE_BYTES {
        return TraceState::default();
    }
    text.parse().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn of_two_parents_none_is_taken() {
        let mut headers = HeaderMap::new();
        headers.append(TRACEPARENT, HeaderValue::from_static(GOOD));
        assert_eq!(single(&headers), Some(GOOD));
        headers.append(TRACEPARENT, HeaderValue::from_static(GOOD));
        assert_eq!(single(&headers), None);
    }

    #[test]
    fn a_state_in_several_lines_is_one_and_an_endless_one_is_none() {
        let mut headers = HeaderMap::new();
        headers.append(TRACESTATE, HeaderValue::from_static("a=1"));
        headers.append(TRACESTATE, HeaderValue::from_static("b=2"));
        assert_eq!(state(&headers).header(), "a=1,b=2");
        headers.append(TRACESTATE, HeaderValue::try_from(format!("c={}", "x".repeat(2000))).unwrap());
        assert_eq!(state(&headers).header(), "");
    }
}
