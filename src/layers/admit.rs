//! `Admit`: how many requests at a time, counted until the reply's *body* ends.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use pin_project_lite::pin_project;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tower::{Layer, Service};

use super::body::{BodyError, ReplyBody};
use crate::base::{ErrorKind, GatewayError};
use crate::telemetry::{Held, Metrics};

/// Refuses with 503 when `max_concurrency` requests are being served. It does not queue: a client that retries is
/// better off than one that waits unseen.
#[derive(Clone, Debug)]
pub struct Admit(Arc<Shared>);

/// One pointer to clone per request, not two.
#[derive(Debug)]
struct Shared {
    permits: Arc<Semaphore>,
    metrics: Arc<Metrics>,
}

impl Admit {
    /// Makes the layer over permits that several routes may share.
    #[must_use]
    pub fn new(permits: Arc<Semaphore>, metrics: Arc<Metrics>) -> Self {
        Self(Arc::new(Shared { permits, metrics }))
    }
}

impl<S> Layer<S> for Admit {
    type Service = Admitting<S>;

    fn layer(&self, inner: S) -> Admitting<S> {
        Admitting { inner, shared: self.clone() }
    }
}

/// The service of [`Admit`].
#[derive(Clone, Debug)]
pub struct Admitting<S> {
    inner: S,
    shared: Admit,
}

impl<S, R> Service<R> for Admitting<S>
where
    S: Service<R, Response = Response<ReplyBody>, Error = GatewayError>,
    S::Future: Send + 'static,
{
    type Response = Response<ReplyBody>;
    type Error = GatewayError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, GatewayError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), GatewayError>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: R) -> Self::Future {
        let Ok(permit) = Arc::clone(&self.shared.0.permits).try_acquire_owned() else {
            return Box::pin(async {
                Err(GatewayError::new(
                    ErrorKind::Overloaded,
                    "the gateway serves as many requests as it may; try again",
                )
                .with_retry_after(Duration::from_secs(1)))
            });
        };
        let held = (permit, self.shared.0.metrics.in_flight());
        let reply = self.inner.call(request);
        Box::pin(async move {
            let reply = reply.await?;
            Ok(reply.map(|inner| AdmittedBody { inner, held: Some(held) }.boxed_unsync()))
        })
    }
}

pin_project! {
    /// A body that gives its permit back when it ends or is dropped.
    struct AdmittedBody {
        #[pin]
        inner: ReplyBody,
        held: Option<(OwnedSemaphorePermit, Held)>,
    }
}

impl Body for AdmittedBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.project();
        let frame = this.inner.poll_frame(cx);
        if matches!(frame, Poll::Ready(None | Some(Err(_)))) {
            *this.held = None;
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::super::body::full;
    use super::*;
    use tower::{ServiceBuilder, ServiceExt, service_fn};

    /// tower-rs/tower-http PR#447; constructorfabric/gears-rust#4880.
    #[tokio::test]
    async fn a_slot_is_held_until_the_body_ends() {
        let permits = Arc::new(Semaphore::new(1));
        let service = ServiceBuilder::new()
            .layer(Admit::new(Arc::clone(&permits), Arc::default()))
            .service(service_fn(|(): ()| async { Ok::<_, GatewayError>(Response::new(full("reply"))) }));

        let reply = service.clone().oneshot(()).await.unwrap();
        let refused = service.clone().oneshot(()).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Overloaded);
        assert!(refused.retry_after.is_some());

        drop(reply);
        let reply = service.oneshot(()).await.unwrap();
        assert_eq!(reply.into_body().collect().await.unwrap().to_bytes(), "reply");
        assert_eq!(permits.available_permits(), 1);
    }
}
