//! The reply body on its way to the client: every byte passes at once, a copy is read beside it, the end waits for the outbox.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Instant, Sleep};

use super::body::BodyError;
use super::record::{Ending, Outcome};
use crate::access::Running;
use crate::jobs::Committed;
use crate::telemetry::{Held, Metrics};
use crate::upstream::UpstreamBody;
use crate::wire::{Dialect, JsonRelay, RelayOptions, StreamEnd, StreamRelay, Verdict};

/// Of a reply that is not streamed, so much is kept to be read, in bytes; of a longer one its usage.
const COLLECT_BYTES: usize = 4 * 1024 * 1024;

/// How one reply is to be passed on.
#[derive(Clone, Copy, Debug)]
pub(super) struct TeeOptions {
    /// How it is written.
    pub(super) dialect: Dialect,
    /// It is an event stream.
    pub(super) sse: bool,
    /// There is something to learn from it: its end waits for the outbox.
    pub(super) record: bool,
    /// It can be gone on from by its name: its end waits until that is noted.
    pub(super) named: bool,
    /// Someone wants to know what upstream counted.
    pub(super) books: bool,
    /// The usage event was asked for by us alone.
    pub(super) withhold_usage: bool,
    /// How long the end waits.
    pub(super) commit_wait: Duration,
    /// After how much silence a comment is sent; zero = never.
    pub(super) keepalive: Duration,
}

enum Relay {
    Stream(Box<StreamRelay>),
    Json(Box<JsonRelay>),
}

/// What the end of the reply waits for.
struct Wait {
    committed: Pin<Box<Committed>>,
    /// When it is released all the same.
    due: Pin<Box<Sleep>>,
}

/// The reply body.
pub(super) struct Tee {
    upstream: UpstreamBody,
    relay: Relay,
    out: VecDeque<Bytes>,
    outcome: Option<Outcome>,
    wait: Option<Wait>,
    commit_wait: Duration,
    ended: bool,
    /// The error that ends the reply once `out` is empty.
    error: Option<BodyError>,
    keepalive: Duration,
    last: Instant,
    first: Option<std::time::Instant>,
    silence: Option<Pin<Box<Sleep>>>,
    metrics: Arc<Metrics>,
    _open: Option<Held>,
    /// Its place among the requests that its key, its person and so on may have at a time.
    _running: Option<Running>,
}

impl Tee {
    pub(super) fn new(
        upstream: UpstreamBody,
        outcome: Outcome,
        options: &TeeOptions,
        metrics: Arc<Metrics>,
        running: Option<Running>,
    ) -> Self {
        let relay = if options.sse {
            Relay::Stream(Box::new(StreamRelay::new(RelayOptions {
                dialect: options.dialect,
                withhold_usage: options.withhold_usage,
                hold_end: options.record || options.named,
                collect: options.record,
            })))
        } else {
            let limit = if options.record || options.named || options.books { COLLECT_BYTES } else { 0 };
            let relay = JsonRelay::new(options.record || options.named, limit);
            let relay = relay.with_content_length(upstream.remaining()).in_dialect(options.dialect);
            Relay::Json(Box::new(if options.record { relay } else { relay.without_text() }))
        };
        Self {
            upstream,
            relay,
            out: VecDeque::new(),
            outcome: Some(outcome),
            wait: None,
            commit_wait: options.commit_wait,
            ended: false,
            error: None,
            keepalive: options.keepalive,
            last: Instant::now(),
            first: None,
            silence: None,
            _open: options.sse.then(|| metrics.stream_open()),
            metrics,
            _running: running,
        }
    }

    /// Takes bytes from upstream.
    fn take(&mut self, bytes: Bytes) {
        self.last = Instant::now();
        self.first.get_or_insert_with(|| self.last.into_std());
        match &mut self.relay {
            Relay::Stream(relay) => {
                self.out.extend(relay.push(bytes));
                if relay.holds_end() {
                    // `[DONE]` came: nothing more will be said, so the recording need not wait for the connection to end.
                    let verdict = relay.verdict_now();
                    self.finish(verdict);
                }
            }
            Relay::Json(relay) => {
                self.out.extend(relay.push(bytes));
                // hyper drops a body whose length is reached without asking for its end.
                if relay.has_passed() {
                    self.end(StreamEnd::Clean, None);
                }
            }
        }
    }

    /// Upstream's body ended.
    fn end(&mut self, how: StreamEnd, error: Option<BodyError>) {
        self.ended = true;
        let verdict = match &mut self.relay {
            Relay::Stream(relay) => {
                self.out.extend(relay.end(how));
                relay.verdict()
            }
            Relay::Json(relay) => {
                self.out.extend(relay.end(how));
                // Nothing can be said inside a JSON body that broke off: the connection is broken as well.
                self.error = error;
                relay.verdict()
            }
        };
        self.finish(verdict);
    }

    /// Hands the exchange to the outbox, once, and lets the end of the reply wait for it.
    fn finish(&mut self, verdict: Verdict) {
        let Some(outcome) = self.outcome.take() else {
            return;
        };
        let committed = outcome.finish(&self.ending(verdict, false));
        if let Some(committed) = committed {
            self.wait =
                Some(Wait { committed: Box::pin(committed), due: Box::pin(tokio::time::sleep(self.commit_wait)) });
        }
    }

    fn ending(&self, verdict: Verdict, client_left: bool) -> Ending<'_> {
        let (reply, bytes) = match &self.relay {
            Relay::Stream(relay) => (relay.reply(), 0),
            Relay::Json(relay) => (relay.reply(), relay.passed()),
        };
        Ending { reply, bytes, verdict, client_left, first: self.first }
    }

    fn held(&mut self) -> Bytes {
        match &mut self.relay {
            Relay::Stream(relay) => relay.take_held(),
            Relay::Json(relay) => relay.take_held(),
        }
    }

    /// Ready when the end may be released: the exchange is durable, or has been waited for long enough.
    fn poll_wait(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(wait) = &mut self.wait else {
            return Poll::Ready(());
        };
        match wait.committed.as_mut().poll(cx) {
            // Durable; or given up by the writer, which counts that.
            Poll::Ready(_) => {}
            Poll::Pending => {
                std::task::ready!(wait.due.as_mut().poll(cx));
                self.metrics.outbox_released_by_timeout.inc();
            }
        }
        self.wait = None;
        Poll::Ready(())
    }

    /// Ready when upstream has been silent for long enough to say a word in its place.
    fn poll_silence(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.keepalive.is_zero() {
            return Poll::Pending;
        }
        loop {
            let due = self.last + self.keepalive;
            if Instant::now() >= due {
                self.last = Instant::now();
                return Poll::Ready(());
            }
            let silence = self.silence.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(due)));
            if silence.deadline() != due {
                silence.as_mut().reset(due);
            }
            std::task::ready!(silence.as_mut().poll(cx));
        }
    }

    /// A comment line, where one may stand now.
    fn comment(&self) -> Option<Bytes> {
        match &self.relay {
            Relay::Stream(relay) => relay.keepalive(),
            Relay::Json(_) => None,
        }
    }
}

impl Body for Tee {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = &mut *self;
        loop {
            if let Some(bytes) = this.out.pop_front() {
                return Poll::Ready(Some(Ok(Frame::data(bytes))));
            }
            if this.outcome.is_none() {
                std::task::ready!(this.poll_wait(cx));
                let held = this.held();
                if !held.is_empty() {
                    return Poll::Ready(Some(Ok(Frame::data(held))));
                }
            }
            if this.ended {
                return Poll::Ready(this.error.take().map(Err));
            }
            match this.upstream.poll_next(cx) {
                Poll::Ready(Some(Ok(bytes))) => this.take(bytes),
                Poll::Ready(Some(Err(error))) => {
                    tracing::debug!(%error, "upstream's reply was cut");
                    this.end(StreamEnd::Failed, Some(error.into()));
                }
                Poll::Ready(None) => this.end(StreamEnd::Clean, None),
                Poll::Pending => {
                    std::task::ready!(this.poll_silence(cx));
                    if let Some(comment) = this.comment() {
                        return Poll::Ready(Some(Ok(Frame::data(comment))));
                    }
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.ended
            && self.out.is_empty()
            && self.error.is_none()
            && self.wait.is_none()
            && self.outcome.is_none()
            && match &self.relay {
                Relay::Stream(relay) => !relay.holds_end(),
                Relay::Json(_) => false,
            }
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

impl Drop for Tee {
    fn drop(&mut self) {
        // The client left. What it saw is recorded; it is complete when every choice had come to its end.
        let verdict = match &self.relay {
            Relay::Stream(relay) => relay.verdict_now(),
            Relay::Json(_) => Verdict::Cut,
        };
        if let Some(outcome) = self.outcome.take() {
            let _not_awaited = outcome.finish(&self.ending(verdict, true));
        }
    }
}
