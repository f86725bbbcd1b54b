//! An `async fn` as a tower layer.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tower::{Layer, Service};

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
}

impl<S, T> Layer<T> for StageLayer<S> {
    type Service = Staged<S, T>;

    fn layer(&self, inner: T) -> Self::Service {
        Staged { stage: Arc::clone(&self.0), inner, marker: PhantomData }
    }
}

/// A service with a [`Stage`] in front of it.
#[derive(Debug)]
pub struct Staged<S, T> {
    stage: Arc<S>,
    inner: T,
    marker: PhantomData<fn() -> S>,
}

impl<S, T: Clone> Clone for Staged<S, T> {
    fn clone(&self) -> Self {
        Self { stage: Arc::clone(&self.stage), inner: self.inner.clone(), marker: PhantomData }
    }
}

impl<In, S, T> Service<In> for Staged<S, T>
where
    In: Send + 'static,
    S: Stage<In>,
    S::Out: 'static,
    T: Service<S::Out, Error = GatewayError> + Clone + Send + 'static,
    T::Future: Send,
{
    type Response = T::Response;
    type Error = GatewayError;
    type Future = Pin<Box<dyn Future<Output = Result<T::Response, GatewayError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), GatewayError>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, input: In) -> Self::Future {
        // The service that was polled ready is the one to call; the clone stays behind.
        let clone = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, clone);
        let stage = Arc::clone(&self.stage);
        Box::pin(async move {
            let out = stage.run(input).await?;
            inner.call(out).await
        })
    }
}
