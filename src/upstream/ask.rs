//! Asks a provider's model for something of ours: one request beside those of clients, with a key of our own.
//!
//! It goes to the provider itself, past our own stack: it is not recorded, gets no memory, and counts for no client.

mod dialect;
pub(super) mod judge;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use http::Method;
use tracing::field::Empty;
use tracing::{Instrument, Span};

use super::attempt::{self, AttemptError};
use super::body::BodyLimits;
use super::headers;
use super::provider::Provider;
use super::translate::{self, How, Put};
use crate::ask::{Answer, Ask, AskError, Format, Question};
use crate::base::Clock;
use crate::telemetry::{AskOutcome, AskPurpose, AskTokens, Label, Metrics, names};
use crate::wire::translate::Untranslatable;
use crate::wire::{self, Accumulator};
use dialect::Dialect;

/// The largest answer that is read, in bytes.
const MAX_ANSWER_BYTES: usize = 1024 * 1024;

/// Asks one model of one provider.
pub struct ModelAsker {
    provider: Arc<Provider>,
    model: String,
    purpose: AskPurpose,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
    dialect: Dialect,
}

impl fmt::Debug for ModelAsker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelAsker")
            .field("provider", &self.provider.name)
            .field("model", &self.model)
            .finish_non_exhaustive()
    }
}

impl ModelAsker {
    /// Asks `model` of `provider`, whose key must be ours or none: there is no client whose key could be used.
    #[must_use]
    pub fn new(
        provider: Arc<Provider>,
        model: impl Into<String>,
        purpose: AskPurpose,
        clock: Arc<dyn Clock>,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self { provider, model: model.into(), purpose, clock, metrics, dialect: Dialect::default() }
    }

    /// Asks, and where the model names a member that it does not take, once more in its own words.
    async fn converse(&self, question: &Question) -> Result<Answer, AskError> {
        for _ in 0..Dialect::WORDS {
            match self.once(question).await {
                Err(Declined { error, said }) if !self.dialect.learn(&said) => return Err(error),
                Err(_) => {}
                Ok(answer) => return Ok(answer),
            }
        }
        self.once(question).await.map_err(|declined| declined.error)
    }

    async fn once(&self, question: &Question) -> Result<Answer, Declined> {
        let asked = Bytes::from(self.dialect.body(&self.model, question));
        // What only steers is left out: an answer that is less well formed is better than none.
        let how = How {
            untranslatable: Untranslatable::Drop,
            max_tokens: question.max_output_tokens.into(),
            completion_tokens: false,
            ask_usage: false,
            created: 0,
        };
        let put = translate::put(&self.provider.api, wire::Dialect::Chat, &asked, how);
        let Put { body, kind, back, .. } = put.map_err(|error| AskError::Refused(error.public))?;
        let url = self.provider.url_for(kind, &self.model);
        let sent = attempt::send(
            &self.provider,
            Method::POST,
            url,
            headers::ours(&self.provider),
            body.into(),
            std::time::Duration::ZERO,
            BodyLimits::default(),
        );
        let answer = sent.await.map_err(|error| later(&error))?;
        let (head, mut body) = translate::back(answer, back).into_parts();
        if !head.status.is_success() {
            let said = body.read_error().await;
            let said = String::from_utf8_lossy(&said).into_owned();
            let formatted = question.format != Format::Text;
            let error = judge::refusal(head.status, &head.headers, &said, formatted, self.clock.now());
            let said = if matches!(error, AskError::Refused(_)) { said } else { String::new() };
            return Err(Declined { error, said });
        }
        let read = body.read_up_to(MAX_ANSWER_BYTES + 1).await;
        if read.len() > MAX_ANSWER_BYTES {
            return Err(AskError::Refused("the answer is larger than 1 MB".to_owned()).into());
        }
        let mut books = Accumulator::new();
        let seen = books.body(&read);
        judge::answer(seen, books.into_reply(), question).map_err(Declined::from)
    }

    fn note(&self, answer: &Result<Answer, AskError>, span: &Span) {
        let outcome = match answer {
            Ok(Answer { finished: true, .. }) => AskOutcome::Ok,
            Ok(_) => AskOutcome::Unfinished,
            Err(AskError::Format) => AskOutcome::Format,
            Err(AskError::Later { .. }) => AskOutcome::Later,
            Err(AskError::Refused(_)) => AskOutcome::Refused,
        };
        self.metrics.asks.inc(self.purpose, outcome);
        if let Ok(answer) = answer {
            self.metrics.ask_tokens.add(self.purpose, AskTokens::Input, answer.input_tokens);
            self.metrics.ask_tokens.add(self.purpose, AskTokens::Output, answer.output_tokens);
            span.record("gen_ai.usage.input_tokens", answer.input_tokens);
            span.record("gen_ai.usage.output_tokens", answer.output_tokens);
        } else {
            span.record("error.type", outcome.text());
            span.record("otel.status_code", "error");
        }
    }
}

#[async_trait]
impl Ask for ModelAsker {
    async fn ask(&self, question: &Question) -> Result<Answer, AskError> {
        let (host, port) = self.provider.address();
        let span = tracing::debug_span!(
            names::ASK,
            otel.name = %format_args!("chat {}", self.model),
            otel.kind = "client",
            otel.status_code = Empty,
            gen_ai.operation.name = "chat",
            gen_ai.provider.name = self.provider.system(),
            gen_ai.request.model = self.model,
            gen_ai.usage.input_tokens = Empty,
            gen_ai.usage.output_tokens = Empty,
            server.address = host,
            server.port = port,
            "error.type" = Empty,
            backstory.purpose = self.purpose.text(),
        );
        let asked = tokio::time::timeout(question.timeout, self.converse(question).instrument(span.clone()));
        let answer = asked.await.unwrap_or_else(|_| {
            Err(AskError::Later {
                reason: format!("no answer within {} ms", question.timeout.as_millis()),
                retry_after: None,
            })
        });
        self.note(&answer, &span);
        answer
    }
}

/// No answer; and what upstream said, where it may name a member that it does not take. That text is never logged.
struct Declined {
    error: AskError,
    said: String,
}

impl From<AskError> for Declined {
    fn from(error: AskError) -> Self {
        Self { error, said: String::new() }
    }
}

fn later(error: &AttemptError) -> Declined {
    AskError::Later { reason: error.to_string(), retry_after: None }.into()
}
