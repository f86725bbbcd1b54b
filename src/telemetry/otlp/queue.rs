//! Spans that have ended and wait to be exported.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use opentelemetry_sdk::trace::SpanData;

/// Most spans that wait; one more is dropped. Some 8 MB.
const CAPACITY: usize = 8192;
/// So many are sent at a time; when so many wait, they are sent before their time.
pub(super) const BATCH: usize = 512;

/// A bounded queue, which nobody waits for. Whoever ends a span pays for a lock and a push; the exporter is woken once a batch.
#[derive(Debug, Default)]
pub struct SpanQueue {
    spans: Mutex<Vec<SpanData>>,
    filled: Notify,
    dropped: AtomicU64,
}

impl SpanQueue {
    /// Puts a span in, or drops and counts it.
    pub(super) fn push(&self, span: SpanData) {
        let mut spans = self.spans.lock().unwrap_or_else(PoisonError::into_inner);
        if spans.len() >= CAPACITY {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        spans.push(span);
        if spans.len() == BATCH {
            self.filled.notify_one();
        }
    }

    /// Takes out all that is there.
    pub(in crate::telemetry) fn take(&self) -> Vec<SpanData> {
        std::mem::take(&mut *self.spans.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Resolves when a batch waits.
    pub(super) fn filled(&self) -> Notified<'_> {
        self.filled.notified()
    }

    /// Spans that found it full.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::super::spans::tests::span;
    use super::*;

    #[test]
    fn what_finds_it_full_is_dropped_and_counted() {
        let queue = SpanQueue::default();
        for _ in 0..CAPACITY + 3 {
            queue.push(span("s", Vec::new()));
        }
        assert_eq!((queue.take().len(), queue.dropped()), (CAPACITY, 3));
        queue.push(span("s", Vec::new()));
        assert_eq!((queue.take().len(), queue.dropped()), (1, 3), "there is room again");
    }

    #[tokio::test]
    async fn a_full_batch_wakes_the_exporter() {
        let queue = SpanQueue::default();
        for _ in 0..BATCH {
            queue.push(span("s", Vec::new()));
        }
        queue.filled().await;
    }
}
