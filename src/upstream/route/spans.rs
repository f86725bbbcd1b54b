//! The span of an attempt: a call of a model, as the GenAI conventions have it (v1.37; `gen_ai.*`, `server.*`, `error.type`).
//!
//! What is asked and what is answered is never in it. It ends with the reply; who reads that adds what it says.

use tracing::Span;
use tracing::field::Empty;

use super::send::{Failure, Outcome};
use crate::exchange::Call;
use crate::telemetry::names;
use crate::upstream::attempt::AttemptError;
use crate::upstream::plan::Target;
use crate::upstream::retry::On;

/// Begins the span of attempt `number` at a target, with the key at `key` of its ring.
pub(super) fn attempt(call: &Call, target: &Target, number: u32, key: usize) -> Span {
    let (operation, provider) = (call.payload.operation(), &target.provider);
    let model = target.fit.model.as_deref().unwrap_or_else(|| call.payload.model());
    let (host, port) = provider.address();
    tracing::debug_span!(
        names::ATTEMPT,
        otel.name = %format_args!("{operation} {model}"),
        otel.kind = "client",
        otel.status_code = Empty,
        gen_ai.operation.name = operation,
        gen_ai.provider.name = provider.system(),
        gen_ai.request.model = model,
        gen_ai.response.id = Empty,
        gen_ai.response.model = Empty,
        gen_ai.usage.input_tokens = Empty,
        gen_ai.usage.output_tokens = Empty,
        gen_ai.usage.cache_read.input_tokens = Empty,
        gen_ai.usage.cache_creation.input_tokens = Empty,
        server.address = host,
        server.port = port,
        http.response.status_code = Empty,
        "error.type" = Empty,
        backstory.target = target.label,
        backstory.attempt = number,
        backstory.key = key,
        backstory.stream = call.payload.stream(),
        backstory.outcome = Empty,
    )
}

/// Notes how an attempt went until its answer began, or failed.
pub(super) fn answered(span: &Span, outcome: &Outcome) {
    if span.is_disabled() {
        return;
    }
    span.record("backstory.outcome", outcome_text(outcome));
    let status = match outcome {
        Ok(answer) | Err(Failure::Answer(answer, _) | Failure::Overflow(answer, _)) => Some(answer.0.status()),
        Err(Failure::None(_)) => None,
    };
    if let Some(status) = status {
        span.record("http.response.status_code", status.as_u16());
    }
    if outcome.is_err() {
        match status.filter(|status| !status.is_success()) {
            Some(status) => span.record("error.type", status.as_str()),
            None => span.record("error.type", outcome_text(outcome)),
        };
        span.record("otel.status_code", "error");
    }
}

/// How an attempt ended, as its span says it.
fn outcome_text(outcome: &Outcome) -> &'static str {
    match outcome {
        Ok(_) => "ok",
        Err(Failure::Overflow(..)) => "overflow",
        Err(Failure::Answer(_, On::ErrorEvent)) => "error_event",
        Err(Failure::Answer(..)) => "status",
        Err(Failure::None(AttemptError::Timeout { .. })) => "timeout",
        Err(Failure::None(AttemptError::Invalid { .. })) => "invalid",
        Err(Failure::None(AttemptError::Unreachable { .. })) => "connect",
    }
}
