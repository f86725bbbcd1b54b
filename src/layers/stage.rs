//! An `async fn` as a tower layer.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tower::{Layer, Service, ServiceExt};

use crate::base::GatewayError;

/// Turns one request type into the next, or refuses.
pub trait Stage<In>: Send + Sync + 'static {
    /// What comes out.
    type Out: Send;

    /// Does the work. May be dropped at any await: what must happen belongs into a guard or a queue.
    fn run(&self, input: In) -> impl Future<Output = Result<Self::Out, GatewayError>> + Send;
}

/// Puts a [`Stage`] in front of a service.
#[derive(Debug)]
pub struct StageLayer<S>(Arc<S>);

impl<S> StageLayer<S> {
    /// Makes a layer of a stage.
    pub fn new(stage: S) -> Self {
        Self(Arc::new(stage))
    }

    /// Puts another stage behind.
    #[must_use]
    pub fn then<N>(self, next: N) -> StageLayer<Then<S, N>> {
        StageLayer::new(Then(self.0, next))
    }
}

impl<S, T> Layer<T> for StageLayer<S> {
    type Service = Staged<S, T>;

    fn layer(&self, inner: T) -> Self::Service {
        Staged { shared: Arc::new((Arc::clone(&self.0), inner)) }
    }
}

/// A service with a [`Stage`] in front of it. One pointer, however much stands behind it: it is cloned for each request.
#[derive(Debug)]
pub struct Staged<S, T> {
    shared: Arc<(Arc<S>, T)>,
}

impl<S, T> Clone for Staged<S, T> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<In, S, T> Service<In> for Staged<S, T>
where
    In: Send + 'static,
    S: Stage<In>,
    S::Out: 'static,
    T: Service<S::Out, Error = GatewayError> + Clone + Send + Sync + 'static,
    T::Future: Send,
{
    type Response = T::Response;
    type Error = GatewayError;
    type Future = Pin<Box<dyn Future<Output = Result<T::Response, GatewayError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), GatewayError>> {
        // What stands behind is asked when its turn comes.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, input: In) -> Self::Future {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move {
            let (stage, inner) = &*shared;
            let out = stage.run(input).await?;
            inner.clone().oneshot(out).await
        })
    }
}

/// One stage behind another, as one: nothing is boxed or cloned between the two.
#[derive(Debug)]
pub struct Then<A, B>(Arc<A>, B);

impl<In, A, B> Stage<In> for Then<A, B>
where
    In: Send,
    A: Stage<In>,
    B: Stage<A::Out>,
{
    type Out = B::Out;

    async fn run(&self, input: In) -> Result<Self::Out, GatewayError> {
        let between = self.0.run(input).await?;
        self.1.run(between).await
    }
}
