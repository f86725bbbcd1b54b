//! Bodies of requests, from clients that may be slow or never end.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use http::header::CONTENT_LENGTH;
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use pin_project_lite::pin_project;
use tokio::time::{Instant, Sleep, sleep, sleep_until};

use crate::base::{ErrorKind, GatewayError};

/// How long a client may take to send a body. Who sends a byte now and then holds a connection, and a place among the requests that run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// For all of it.
    pub total: Duration,
    /// While nothing comes.
    pub idle: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { total: Duration::from_secs(120), idle: Duration::from_secs(30) }
    }
}

/// A client was slower than [`Patience`] allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the body came too slowly: nothing of it for too long, or not all of it in time")]
pub struct TooSlow;

impl TooSlow {
    /// What the client is told.
    #[must_use]
    pub fn refusal(self) -> GatewayError {
        GatewayError::new(ErrorKind::UploadTimeout, self.to_string())
    }
}

pin_project! {
    /// A body that ends with [`TooSlow`] when it comes too slowly. No timer runs while it comes at once.
    #[derive(Debug)]
    pub struct Paced<B> {
        #[pin]
        inner: B,
        patience: Patience,
        deadline: Instant,
        #[pin]
        total: Option<Sleep>,
        #[pin]
        idle: Option<Sleep>,
        late: Option<Arc<AtomicBool>>,
    }
}

impl<B> Paced<B> {
    /// Begins to wait for a body.
    pub fn new(inner: B, patience: Patience) -> Self {
        Self { inner, patience, deadline: Instant::now() + patience.total, total: None, idle: None, late: None }
    }
}

impl<B> Paced<B> {
    /// Notes in `late` when it came too slowly, for whoever hears only of an error that others made of it.
    #[must_use]
    pub fn noting(self, late: &Arc<AtomicBool>) -> Self {
        Self { late: Some(Arc::clone(late)), ..self }
    }
}

impl<B> Body for Paced<B>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let mut this = self.project();
        if let Poll::Ready(frame) = this.inner.poll_frame(cx) {
            this.idle.set(None);
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        if this.total.is_none() {
            this.total.set(Some(sleep_until(*this.deadline)));
        }
        if this.idle.is_none() {
            this.idle.set(Some(sleep(this.patience.idle)));
        }
        let is_over = |timer: Pin<&mut Option<Sleep>>, cx: &mut Context<'_>| {
            timer.as_pin_mut().is_some_and(|timer| timer.poll(cx).is_ready())
        };
        if is_over(this.total.as_mut(), cx) || is_over(this.idle.as_mut(), cx) {
            if let Some(late) = this.late {
                late.store(true, Ordering::Relaxed);
            }
            return Poll::Ready(Some(Err(Box::new(TooSlow))));
        }
        Poll::Pending
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// Reads a whole body.
///
/// # Errors
/// 413 over `max_bytes`, also when it is only announced or comes in chunks; 408 when it comes too slowly; 400 when it breaks off.
pub async fn read_body<B>(
    headers: &HeaderMap,
    body: B,
    max_bytes: usize,
    patience: Patience,
) -> Result<Bytes, GatewayError>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let too_large =
        || GatewayError::new(ErrorKind::TooLarge, format!("the body is larger than the limit of {max_bytes} bytes"));
    let announced = headers.get(CONTENT_LENGTH).and_then(|v| v.to_str().ok()).and_then(|v| v.parse::<u64>().ok());
    if announced.is_some_and(|n| n > max_bytes as u64) {
        return Err(too_large());
    }
    match Limited::new(Paced::new(body, patience), max_bytes).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(too_large()),
        Err(error) => match error.downcast_ref::<TooSlow>() {
            Some(slow) => Err(slow.refusal()),
            None => {
                Err(GatewayError::new(ErrorKind::BadRequest, "the body broke off before its end").with_source(error))
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures_util::{Stream, StreamExt, stream};
    use http_body_util::StreamBody;

    use super::*;

    const PATIENCE: Patience = Patience { total: Duration::from_millis(200), idle: Duration::from_millis(60) };

    /// So many bytes, one each time after a pause. Without one they are there at once: also the shortest sleep takes a tick of the timer.
    fn drip(n: usize, pause: Duration) -> impl Stream<Item = Result<Frame<Bytes>, Infallible>> {
        stream::iter(0..n).then(move |_| async move {
            if !pause.is_zero() {
                sleep(pause).await;
            }
            Ok(Frame::data(Bytes::from_static(b"x")))
        })
    }

    async fn read(body: impl Stream<Item = Result<Frame<Bytes>, Infallible>>) -> Result<Bytes, ErrorKind> {
        let read = read_body(&HeaderMap::new(), StreamBody::new(body), 100, PATIENCE).await;
        read.map_err(|error| error.kind)
    }

    #[tokio::test]
    async fn a_body_may_come_in_pieces_but_not_stop_and_not_go_on_for_ever() {
        assert_eq!(read(drip(4, Duration::ZERO)).await.unwrap(), "xxxx");
        let stops = drip(4, Duration::ZERO).chain(stream::pending());
        assert_eq!(read(stops).await, Err(ErrorKind::UploadTimeout));
        assert_eq!(read(drip(90, Duration::from_millis(20))).await, Err(ErrorKind::UploadTimeout));
        assert_eq!(read(drip(101, Duration::ZERO)).await, Err(ErrorKind::TooLarge));
    }
}
