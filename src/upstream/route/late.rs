//! Keep-alives before upstream's header: an answer that comes later, inside a stream that has begun.
//!
//! Off by default (`keepalive_before_header_seconds`), since it commits the 200: what goes wrong from then on can only be told inside
//! the stream. It happens only where no other target could be tried (design, section 10), so that it takes nothing from a fallback.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use tracing::{Instrument, Span};

use super::Shared;
use super::look::is_sse;
use super::prepare::Prepared;
use super::send::{AskedToWait, Failure, Outcome};
use super::spans;
use super::walk::{Attempted, Walk};
use crate::exchange::{Recalled, Routed};
use crate::upstream::body::UpstreamBody;
use crate::upstream::lanes::Lane;
use crate::upstream::passthrough::unanswered;
use crate::upstream::plan::Target;
use crate::upstream::retry::On;
use crate::wire::{ChatRequest, Dialect, fault};

type Trying = Pin<Box<dyn Future<Output = Outcome> + Send>>;

impl Walk<'_> {
    /// Makes the last attempt; where its header is long in coming, the client's stream begins without it.
    pub(super) async fn one_or_late(
        &mut self,
        target: &Arc<Target>,
        sent: Prepared,
        lane: Lane,
        span: Span,
    ) -> Attempted {
        let silence = self.shared.timeouts.keepalive_before_header;
        let kept = sent.clone();
        let (shared, target_of) = (Arc::clone(self.shared), Arc::clone(target));
        let request = Recalled {
            call: Arc::clone(&self.request.call),
            reservation: (),
            recall: Arc::clone(&self.request.recall),
        };
        let key = lane.key;
        let trying = async move { shared.attempt(&request, &target_of, sent, key, false).await };
        let mut trying: Trying = Box::pin(trying.instrument(span.clone()));
        match tokio::time::timeout(silence, &mut trying).await {
            Ok(outcome) => {
                spans::answered(&span, &outcome);
                Attempted::Ended(outcome, lane)
            }
            Err(_) => Attempted::Late(Box::new(self.begun(target, kept, lane, trying, span))),
        }
    }

    /// The reply that has begun.
    fn begun(
        &self,
        target: &Arc<Target>,
        sent: Prepared,
        lane: Lane,
        trying: Trying,
        span: Span,
    ) -> Routed<UpstreamBody> {
        let every = self.shared.timeouts.keepalive_before_header;
        let (shared, target_of, n_targets) = (Arc::clone(self.shared), Arc::clone(target), self.n_targets);
        let dialect = self.request.call.payload.chat().map(ChatRequest::dialect).unwrap_or_default();
        let body = async move {
            let outcome = trying.await;
            spans::answered(&span, &outcome);
            shared.note_late(&target_of, &lane, &outcome, n_targets);
            stream_of(outcome, dialect)
        };
        let body = UpstreamBody::late(Box::pin(body), every);
        let mut response = Response::new(body);
        *response.status_mut() = StatusCode::OK;
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
        self.shared.routed(response, sent, target, self.attempts)
    }
}

impl Shared {
    /// Notes how an attempt went whose stream had begun without it.
    fn note_late(&self, target: &Target, lane: &Lane, outcome: &Outcome, n_targets: usize) {
        let (on, asked) = match outcome {
            Ok(_) | Err(Failure::Overflow(..)) => return lane.succeeded(),
            Err(Failure::Answer(answer, on)) => (*on, answer.0.extensions().get().map(|AskedToWait(wait)| *wait)),
            Err(Failure::None(error)) => (On::error(error), None),
        };
        self.failed(target, lane, on, asked, n_targets);
    }
}

/// What the stream goes on with: upstream's own, or one event that says why there is none.
fn stream_of(outcome: Outcome, dialect: Dialect) -> UpstreamBody {
    match outcome {
        Ok(answer) => {
            let sse = is_sse(&answer.0);
            let body = answer.0.into_body();
            // A reply that is no stream is one event: whole, and as upstream wrote it.
            if sse { body } else { body.into_event("") }
        }
        Err(Failure::Answer(answer, _) | Failure::Overflow(answer, _)) => {
            answer.0.into_body().into_event(match dialect {
                Dialect::Chat | Dialect::Responses => "",
                Dialect::Messages => "error",
            })
        }
        Err(Failure::None(error)) => UpstreamBody::of(fault::event(dialect, &unanswered(&error))),
    }
}
