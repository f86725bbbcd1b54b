//! Upstream's body, with a watch on its silence.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use async_compression::tokio::bufread::{GzipDecoder, ZlibDecoder};
use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, TRANSFER_ENCODING};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyStream;
use hyper::body::Incoming;
use tokio::time::{Instant, Sleep};
use tokio_util::io::{ReaderStream, StreamReader};

use super::event::event_of;
use crate::wire::translate::Translator;

/// Error bodies are read up to this size, to mask keys and to see what they say, …
pub(super) const MAX_ERROR_BYTES: usize = 64 * 1024;
/// … and for so long: one that trickles must not hold up the next target.
const MAX_ERROR_TIME: Duration = Duration::from_secs(5);

/// Why upstream's body did not end as it should. The texts may be shown to the client.
#[derive(Debug, thiserror::Error)]
pub enum UpstreamBodyError {
    /// Nothing came for too long.
    #[error("upstream sent nothing for {} ms", .0.as_millis())]
    Idle(Duration),
    /// The connection broke, or the body could not be decoded.
    #[error("upstream's reply broke off")]
    Broken(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The whole reply took too long.
    #[error("upstream's reply took longer than {} ms", .0.as_millis())]
    Total(Duration),
}

/// Silence and length limits of one body. Zero = none.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BodyLimits {
    /// Until it begins: comments, as some send while a model is not there yet, are no beginning.
    pub(super) first: Duration,
    /// Between bytes.
    pub(super) idle: Duration,
    /// For the whole body; not for streams.
    pub(super) total: Duration,
}

/// A body as it comes from the wire.
pub(super) enum Wire {
    /// By the short way.
    Direct(Incoming),
    /// By way of `reqwest`.
    General(reqwest::Body),
}

impl From<Incoming> for Wire {
    fn from(body: Incoming) -> Self {
        Self::Direct(body)
    }
}

impl From<reqwest::Body> for Wire {
    fn from(body: reqwest::Body) -> Self {
        Self::General(body)
    }
}

impl Body for Wire {
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match self.get_mut() {
            Self::Direct(body) => Pin::new(body).poll_frame(cx).map_err(Into::into),
            Self::General(body) => Pin::new(body).poll_frame(cx).map_err(Into::into),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Direct(body) => body.size_hint(),
            Self::General(body) => body.size_hint(),
        }
    }
}

enum Inner {
    Plain(Wire),
    Decoded(Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>),
    /// All of it stands in `front`.
    Known,
    /// A body in one event.
    Event(Box<UpstreamBody>, &'static str),
    /// A body in another dialect.
    Translated(Box<(UpstreamBody, Translator)>),
    Late(Late),
}

/// A body that is not there yet, and a comment every now and then until it is.
struct Late {
    body: Pin<Box<dyn Future<Output = UpstreamBody> + Send>>,
    every: Duration,
    next: Pin<Box<Sleep>>,
}

/// What a body says that is not there yet. Nothing but comments stands before it, so it is at the start of a line.
const COMMENT: &[u8] = b": keep-alive\n\n";

/// A body that is put into one event is at most so long.
const MAX_EVENT_BYTES: usize = 4 * 1024 * 1024;

/// Upstream's body: bytes put back in front, then what comes from the wire.
pub struct UpstreamBody {
    front: VecDeque<Bytes>,
    inner: Inner,
    limits: BodyLimits,
    opened: Instant,
    last: Instant,
    begun: bool,
    /// Whether the next byte begins a line, while only comments came.
    at_line: bool,
    ended: bool,
    /// Armed when upstream is first found silent, and not moved at every frame: it looks at `last` when it fires.
    watch: Option<Pin<Box<Sleep>>>,
}

impl fmt::Debug for UpstreamBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UpstreamBody").field("begun", &self.begun).field("ended", &self.ended).finish_non_exhaustive()
    }
}

impl UpstreamBody {
    /// Wraps a body. One that is compressed although `identity` was asked for is decoded, and its headers mended: we and
    /// the client have to be able to read it (Kong/kong#14893).
    #[must_use]
    pub(super) fn new(body: Wire, headers: &mut HeaderMap, limits: BodyLimits) -> Self {
        let encoding = headers.get(CONTENT_ENCODING).and_then(|v| v.to_str().ok()).map(str::to_ascii_lowercase);
        let inner = match encoding.as_deref() {
            Some("gzip" | "x-gzip") => Inner::Decoded(Box::pin(ReaderStream::new(GzipDecoder::new(reader(body))))),
            Some("deflate") => Inner::Decoded(Box::pin(ReaderStream::new(ZlibDecoder::new(reader(body))))),
            _ => Inner::Plain(body),
        };
        if matches!(inner, Inner::Decoded(_)) {
            headers.remove(CONTENT_ENCODING);
            headers.remove(CONTENT_LENGTH);
        }
        // Of two lengths the chunks' holds (RFC 9112, section 6.3).
        if headers.contains_key(TRANSFER_ENCODING) {
            headers.remove(CONTENT_LENGTH);
        }
        Self::with(inner, limits)
    }

    fn with(inner: Inner, limits: BodyLimits) -> Self {
        let now = Instant::now();
        Self {
            front: VecDeque::new(),
            inner,
            limits,
            opened: now,
            last: now,
            begun: false,
            at_line: true,
            ended: false,
            watch: None,
        }
    }

    /// A body of these bytes.
    pub(super) fn of(bytes: Bytes) -> Self {
        let mut body = Self::with(Inner::Known, BodyLimits::default());
        body.put_back(bytes);
        body
    }

    /// A body that is not there yet: a comment at once, and again whenever so long passes, until it is.
    pub(super) fn late(body: Pin<Box<dyn Future<Output = Self> + Send>>, every: Duration) -> Self {
        let next = Box::pin(tokio::time::sleep(Duration::ZERO));
        Self::with(Inner::Late(Late { body, every, next }), BodyLimits::default())
    }

    /// This body as one event of a stream, with a name if it is not empty; of a very long one the first 4 MB.
    pub(super) fn into_event(self, name: &'static str) -> Self {
        Self::with(Inner::Event(Box::new(self), name), BodyLimits::default())
    }

    /// This body as `translator` writes it, as it comes.
    pub(super) fn translated(self, translator: Translator) -> Self {
        Self::with(Inner::Translated(Box::new((self, translator))), BodyLimits::default())
    }

    /// Puts bytes back, to be read first.
    pub fn put_back(&mut self, bytes: Bytes) {
        if !bytes.is_empty() {
            self.front.push_front(bytes);
        }
    }

    /// Waits for the next bytes; `None` at the end.
    pub async fn next(&mut self) -> Option<Result<Bytes, UpstreamBodyError>> {
        std::future::poll_fn(|cx| self.poll_next(cx)).await
    }

    /// Reads to the end, but at most about `limit` bytes.
    pub async fn read_up_to(&mut self, limit: usize) -> Bytes {
        self.read_until(limit, None).await
    }

    /// Reads what an error says: to the end, but at most 64 KB and 5 seconds. What comes later can still be read.
    pub(super) async fn read_error(&mut self) -> Bytes {
        self.read_until(MAX_ERROR_BYTES, Some(Instant::now() + MAX_ERROR_TIME)).await
    }

    async fn read_until(&mut self, limit: usize, due: Option<Instant>) -> Bytes {
        let mut out = Vec::new();
        while out.len() < limit {
            let next = match due {
                Some(due) => tokio::time::timeout_at(due, self.next()).await.ok().flatten(),
                None => self.next().await,
            };
            match next {
                Some(Ok(bytes)) => out.extend_from_slice(&bytes),
                Some(Err(_)) | None => break,
            }
        }
        out.into()
    }

    /// Polls for the next bytes; `None` at the end. After an error the body is at its end.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, UpstreamBodyError>>> {
        if let Some(bytes) = self.front.pop_front() {
            return Poll::Ready(Some(Ok(bytes)));
        }
        if self.ended {
            return Poll::Ready(None);
        }
        loop {
            let polled = match &mut self.inner {
                Inner::Known => Poll::Ready(None),
                Inner::Event(body, name) => {
                    let said = ready!(poll_collect(body, cx));
                    let event = event_of(name, &said);
                    self.inner = Inner::Known;
                    Poll::Ready(Some(Ok(Frame::data(event))))
                }
                Inner::Translated(translated) => {
                    let (body, translator) = &mut **translated;
                    // What comes to nothing yet is empty, and passed over below.
                    Poll::Ready(match ready!(body.poll_next(cx)) {
                        Some(Ok(bytes)) => Some(Ok(Frame::data(translator.push(bytes)))),
                        Some(Err(error)) => Some(Err(error)),
                        None => {
                            let rest = translator.end();
                            self.inner = Inner::Known;
                            Some(Ok(Frame::data(rest)))
                        }
                    })
                }
                Inner::Late(late) => {
                    if let Poll::Ready(body) = late.body.as_mut().poll(cx) {
                        // Its own limits hold from here on.
                        *self = body;
                        return self.poll_next(cx);
                    }
                    ready!(late.next.as_mut().poll(cx));
                    late.next.as_mut().reset(Instant::now() + late.every);
                    return Poll::Ready(Some(Ok(Bytes::from_static(COMMENT))));
                }
                Inner::Plain(body) => Pin::new(body).poll_frame(cx).map_err(UpstreamBodyError::Broken),
                Inner::Decoded(stream) => stream.poll_next_unpin(cx).map(|bytes| {
                    bytes.map(|bytes| bytes.map(Frame::data).map_err(|e| UpstreamBodyError::Broken(Box::new(e))))
                }),
            };
            match polled {
                Poll::Ready(Some(Ok(frame))) => {
                    self.last = Instant::now();
                    // Trailers carry nothing that a client of this API reads.
                    if let Ok(data) = frame.into_data()
                        && !data.is_empty()
                    {
                        self.begun = self.begun || self.begins(&data);
                        return Poll::Ready(Some(Ok(data)));
                    }
                }
                Poll::Ready(Some(Err(error))) => {
                    self.ended = true;
                    return Poll::Ready(Some(Err(error)));
                }
                Poll::Ready(None) => {
                    self.ended = true;
                    return Poll::Ready(None);
                }
                Poll::Pending => {
                    let error = ready!(self.poll_watch(cx));
                    self.ended = true;
                    return Poll::Ready(Some(Err(error)));
                }
            }
        }
    }

    /// Whether there is more in these bytes than comments of a stream and empty lines.
    fn begins(&mut self, bytes: &[u8]) -> bool {
        for line in bytes.split_inclusive(|byte| matches!(byte, b'\n' | b'\r')) {
            if self.at_line && !matches!(line[0], b':' | b'\n' | b'\r') {
                return true;
            }
            self.at_line = line.ends_with(b"\n") || line.ends_with(b"\r");
        }
        false
    }

    /// Ready when upstream has been silent, or talking, for too long.
    fn poll_watch(&mut self, cx: &mut Context<'_>) -> Poll<UpstreamBodyError> {
        loop {
            let (silence, since) =
                if self.begun { (self.limits.idle, self.last) } else { (self.limits.first, self.opened) };
            let idle_at = (!silence.is_zero()).then(|| since + silence);
            let total_at = (!self.limits.total.is_zero()).then(|| self.opened + self.limits.total);
            let Some(due) = idle_at.into_iter().chain(total_at).min() else {
                return Poll::Pending;
            };
            if Instant::now() >= due {
                return Poll::Ready(if total_at == Some(due) {
                    UpstreamBodyError::Total(self.limits.total)
                } else {
                    UpstreamBodyError::Idle(silence)
                });
            }
            let watch = self.watch.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(due)));
            // A watch that fires early, because bytes came since it was armed, is armed anew.
            if watch.is_elapsed() || watch.deadline() > due {
                watch.as_mut().reset(due);
            }
            ready!(watch.as_mut().poll(cx));
        }
    }

    /// The number of bytes to come, where that is known.
    #[must_use]
    pub fn remaining(&self) -> Option<u64> {
        let front: u64 = self.front.iter().map(|b| b.len() as u64).sum();
        match &self.inner {
            Inner::Plain(body) => body.size_hint().exact().map(|n| n + front),
            Inner::Known => Some(front),
            Inner::Decoded(_) | Inner::Event(..) | Inner::Translated(_) | Inner::Late(_) => None,
        }
    }
}

/// Reads a body to its end, into its own `front`; a broken one to where it broke.
fn poll_collect(body: &mut UpstreamBody, cx: &mut Context<'_>) -> Poll<Bytes> {
    let mut read: Vec<Bytes> = body.front.drain(..).collect();
    let mut length: usize = read.iter().map(Bytes::len).sum();
    while length < MAX_EVENT_BYTES {
        match body.poll_next(cx) {
            Poll::Ready(Some(Ok(bytes))) => {
                length += bytes.len();
                read.push(bytes);
            }
            Poll::Ready(Some(Err(_)) | None) => break,
            Poll::Pending => {
                body.front = read.into();
                return Poll::Pending;
            }
        }
    }
    Poll::Ready(read.concat().into())
}

fn reader(body: Wire) -> StreamReader<impl Stream<Item = io::Result<Bytes>> + Send, Bytes> {
    let frames = BodyStream::new(body).filter_map(|frame| {
        std::future::ready(match frame {
            Ok(frame) => frame.into_data().ok().map(Ok),
            Err(error) => Some(Err(io::Error::other(error))),
        })
    });
    StreamReader::new(Box::pin(frames))
}
