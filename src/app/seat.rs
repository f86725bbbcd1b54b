//! A place that is taken by one after another: whom we ask for something of ours, while the providers behind it change.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use async_trait::async_trait;

use crate::ask::{Answer, Ask, AskError, Question};
use crate::embed::{Embed, EmbedError, Generation, Side};

/// Who sits there now. A call takes it once, and keeps it to its end.
pub(super) struct Seat<T: ?Sized>(RwLock<Arc<T>>);

impl<T: ?Sized + fmt::Debug> fmt::Debug for Seat<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.now().fmt(f)
    }
}

impl<T: ?Sized> Seat<T> {
    pub(super) fn new(first: Arc<T>) -> Arc<Self> {
        Arc::new(Self(RwLock::new(first)))
    }

    pub(super) fn put(&self, next: Arc<T>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = next;
    }

    fn now(&self) -> Arc<T> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

#[async_trait]
impl Ask for Seat<dyn Ask> {
    async fn ask(&self, question: &Question) -> Result<Answer, AskError> {
        self.now().ask(question).await
    }
}

/// An embedder that may be exchanged for another one that makes the same vectors.
#[derive(Debug)]
pub(super) struct EmbedSeat {
    generation: Generation,
    seat: Arc<Seat<dyn Embed>>,
}

impl EmbedSeat {
    pub(super) fn new(seat: Arc<Seat<dyn Embed>>) -> Self {
        Self { generation: seat.now().generation().clone(), seat }
    }
}

#[async_trait]
impl Embed for EmbedSeat {
    fn generation(&self) -> &Generation {
        &self.generation
    }

    async fn embed(&self, side: Side, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        self.seat.now().embed(side, texts).await
    }

    async fn embed_each(&self, side: Side, texts: &[&str]) -> Result<Vec<Option<Vec<f32>>>, EmbedError> {
        self.seat.now().embed_each(side, texts).await
    }

    fn forget(&self) {
        self.seat.now().forget();
    }
}
