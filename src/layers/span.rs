//! The span of a request, from its arrival to the end of its reply's body, by the HTTP conventions of OpenTelemetry; and what the end
//! of a reply adds to the span of its attempt.
//!
//! Nobody's name, nothing that was asked and nothing that was answered is in any of them. Where spans are neither exported nor logged
//! nothing here costs anything.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body::{Body, Frame, SizeHint};
use tracing::Span;
use tracing::field::Empty;

use super::books::Course;
use crate::exchange::{Sent, Stamp};
use crate::store::UsageTokens;
use crate::telemetry::{AttemptOutcome, Label, Metrics, ModelCall, names, trace_context};
use crate::wire::{Reply, Verdict};

/// So many reasons why choices ended are told.
const MAX_REASONS: usize = 8;

/// Begins the span of a request, in the trace that its headers name; `route` is the pattern that its path matched. The stamp
/// remembers it, for what is done later.
pub fn request_span<B>(request: &Request<B>, stamp: &mut Stamp, route: &str) -> Span {
    let method = method(request.method());
    let span = tracing::debug_span!(
        names::REQUEST,
        otel.name = %format_args!("{method} {route}"),
        otel.kind = "server",
        otel.status_code = Empty,
        http.request.method = method,
        http.route = route,
        url.path = request.uri().path(),
        http.response.status_code = Empty,
        "error.type" = Empty,
        backstory.request.id = %stamp.id,
        backstory.exchange.id = %stamp.exchange,
    );
    trace_context::adopt(&span, request.headers());
    stamp.trace = trace_context::of(&span);
    span
}

/// The method, if it is one that the conventions know.
fn method(method: &Method) -> &str {
    let known = [
        Method::GET,
        Method::POST,
        Method::PUT,
        Method::DELETE,
        Method::PATCH,
        Method::HEAD,
        Method::OPTIONS,
        Method::CONNECT,
        Method::TRACE,
    ];
    if known.contains(method) { method.as_str() } else { "_OTHER" }
}

/// Notes how a request was answered, and has its span end with the body of the reply.
pub fn spanned<B>(span: Span, reply: Response<B>, boxed: impl FnOnce(SpanBody<B>) -> B) -> Response<B> {
    if span.is_disabled() {
        return reply;
    }
    let status = reply.status();
    span.record("http.response.status_code", status.as_u16());
    // An answer of 4xx is no error of the server.
    if status.is_server_error() {
        span.record("error.type", status.as_str());
        span.record("otel.status_code", "error");
    }
    reply.map(|body| boxed(SpanBody { body: Some(body), span }))
}

/// A body that is polled in the span of its request, which ends with it.
#[derive(Debug)]
pub struct SpanBody<B> {
    /// Taken only by the destructor.
    body: Option<B>,
    span: Span,
}

impl<B> Body for SpanBody<B>
where
    B: Body<Data = Bytes> + Unpin,
{
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let Self { body, span } = &mut *self;
        let Some(body) = body else { return Poll::Ready(None) };
        let polled = span.in_scope(|| Pin::new(body).poll_frame(cx));
        if matches!(polled, Poll::Ready(Some(Err(_)))) {
            span.record("error.type", AttemptOutcome::Cut.text());
            span.record("otel.status_code", "error");
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map(Body::size_hint).unwrap_or_default()
    }
}

impl<B> Drop for SpanBody<B> {
    fn drop(&mut self) {
        // A span ends when it was left for the last time: here.
        let body = self.body.take();
        self.span.in_scope(|| drop(body));
    }
}

/// Ends the span of an exchange's last attempt with what the reply said, and counts the call of the model.
pub(super) fn ended(sent: &Sent, operation: &'static str, course: Course<'_>, tokens: &UsageTokens, metrics: &Metrics) {
    let reply = match course {
        Course::Reply(ending) => Some(ending.reply),
        Course::Unanswered(_) | Course::Error(_) | Course::Gone => None,
    };
    let outcome = outcome(course);
    let told = reply.is_some() && !tokens.estimated;
    metrics.gen_ai.observe(&ModelCall {
        operation,
        provider: sent.system,
        target: &sent.target,
        seconds: Instant::now().saturating_duration_since(sent.begun).as_secs_f64(),
        error: outcome.map(Label::text),
        tokens: told.then_some((tokens.input, tokens.output)),
    });
    if sent.span.is_disabled() {
        return;
    }
    sent.span.in_scope(|| {
        if let Some(reply) = reply {
            said(&sent.span, reply, told.then_some(tokens));
        }
        // Of what never became a reply the attempt told why when it ended.
        let Some(outcome) = outcome.filter(|_| matches!(course, Course::Reply(_) | Course::Gone)) else { return };
        sent.span.record("backstory.outcome", outcome.text());
        // That a client leaves is no fault of the model's.
        if outcome != AttemptOutcome::Cancelled {
            sent.span.record("error.type", outcome.text());
            sent.span.record("otel.status_code", "error");
        }
    });
}

/// What went wrong with the call; `None` = nothing.
fn outcome(course: Course<'_>) -> Option<AttemptOutcome> {
    match course {
        // The status is ours; which failure of upstream it stands for is in the attempt's span already.
        Course::Unanswered(504) => Some(AttemptOutcome::Timeout),
        Course::Unanswered(_) => Some(AttemptOutcome::Connect),
        Course::Error(status) => Some(AttemptOutcome::of_status(status)),
        Course::Gone => Some(AttemptOutcome::Cancelled),
        Course::Reply(ending) if ending.is_complete() => None,
        Course::Reply(ending) if ending.client_left => Some(AttemptOutcome::Cancelled),
        Course::Reply(ending) if ending.verdict == Verdict::Error => Some(AttemptOutcome::ErrorEvent),
        Course::Reply(_) => Some(AttemptOutcome::Cut),
    }
}

fn said(span: &Span, reply: &Reply, told: Option<&UsageTokens>) {
    if let Some(id) = &reply.id {
        span.record("gen_ai.response.id", id.as_str());
    }
    if let Some(model) = &reply.model {
        span.record("gen_ai.response.model", model.as_str());
    }
    let reasons: Vec<String> =
        reply.choices.iter().filter_map(|choice| choice.finish_reason.clone()).take(MAX_REASONS).collect();
    if !reasons.is_empty() {
        trace_context::set_texts(span, "gen_ai.response.finish_reasons", reasons);
    }
    if let Some(tokens) = told {
        span.record("gen_ai.usage.input_tokens", tokens.input);
        span.record("gen_ai.usage.output_tokens", tokens.output);
        span.record("gen_ai.usage.cache_read.input_tokens", tokens.cached);
        span.record("gen_ai.usage.cache_creation.input_tokens", tokens.cache_write);
    }
}
