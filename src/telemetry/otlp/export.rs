//! The one task that sends: spans in batches, numbers every minute.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use opentelemetry_proto::tonic::collector::metrics::v1::{ExportMetricsServiceRequest, ExportMetricsServiceResponse};
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use prost::Message;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::numbers;
use super::queue::BATCH;
use super::resource::Origin;
use super::{Collector, Numbers, SendError, SpanQueue, spans};
use crate::base::{Clock, Random};
use crate::telemetry::Metrics;
use crate::telemetry::labels::{ExportOutcome, Signal, SpanOutcome};

/// How long spans wait for others, at most.
const SPAN_DELAY: Duration = Duration::from_secs(2);
/// How often a message is tried; then it is given up, since newer ones wait.
const TRIES: u32 = 3;
/// The pause after the first try; it doubles.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// However long a collector wants to be left alone, it is tried again after this.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// What is exported, and how.
#[derive(Clone, Debug)]
pub struct ExportSettings {
    /// Send the numbers, too.
    pub metrics: bool,
    /// How often numbers are sent.
    pub metrics_every: Duration,
    /// How long one try may take.
    pub timeout: Duration,
    /// What this process is called.
    pub service_name: String,
    /// What else is said of it: attribute and value.
    pub resource: Vec<(String, String)>,
}

/// Sends spans and numbers to a collector.
pub struct Exporter {
    queue: Arc<SpanQueue>,
    numbers: Arc<dyn Numbers>,
    collector: Arc<dyn Collector>,
    metrics: Arc<Metrics>,
    clock: Arc<dyn Clock>,
    settings: ExportSettings,
    origin: Origin,
    /// Nanoseconds since the epoch at which counting began.
    start: u64,
    failing: AtomicBool,
    span_delay: Duration,
    first_pause: Duration,
}

impl fmt::Debug for Exporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exporter").field("collector", &self.collector).finish_non_exhaustive()
    }
}

impl Exporter {
    /// Sends what is in `queue`, and what `numbers` says, to `collector`; counts in `metrics` what becomes of it.
    #[must_use]
    pub fn new(
        queue: Arc<SpanQueue>,
        numbers: Arc<dyn Numbers>,
        collector: Arc<dyn Collector>,
        metrics: Arc<Metrics>,
        (clock, random): (Arc<dyn Clock>, &dyn Random),
        settings: ExportSettings,
    ) -> Self {
        let origin = Origin::new(&settings.service_name, &settings.resource, random);
        let start = nanos(&*clock);
        Self {
            queue,
            numbers,
            collector,
            metrics,
            clock,
            settings,
            origin,
            start,
            failing: AtomicBool::new(false),
            span_delay: SPAN_DELAY,
            first_pause: FIRST_PAUSE,
        }
    }

    /// Works until `stop`, then sends once more what there is. Whoever stops it waits no longer than he likes.
    pub async fn run(self, stop: CancellationToken) {
        let mut due = Instant::now() + self.settings.metrics_every;
        while !stop.is_cancelled() {
            tokio::select! {
                () = stop.cancelled() => break,
                () = self.queue.filled() => {}
                () = tokio::time::sleep(self.span_delay) => {}
            }
            self.send_spans(&stop).await;
            if Instant::now() >= due {
                self.send_numbers(&stop).await;
                due = Instant::now() + self.settings.metrics_every;
            }
        }
        self.send_spans(&stop).await;
        self.send_numbers(&stop).await;
    }

    async fn send_spans(&self, stop: &CancellationToken) {
        let mut waiting = self.queue.take().into_iter().peekable();
        while waiting.peek().is_some() {
            let batch: Vec<_> = waiting.by_ref().take(BATCH).collect();
            let count = batch.len() as u64;
            let message = spans::message(batch, self.origin.of_spans()).encode_to_vec();
            let answer = self.send(Signal::Traces, message.into(), stop).await;
            let refused = answer.as_ref().map_or(count, |answer| refused_spans(answer).min(count));
            self.metrics.otlp_spans.add(SpanOutcome::Exported, count - refused);
            self.metrics.otlp_spans.add(SpanOutcome::Failed, refused);
        }
        self.metrics.otlp_spans.raise_to(SpanOutcome::Dropped, self.queue.dropped());
    }

    async fn send_numbers(&self, stop: &CancellationToken) {
        if !self.settings.metrics {
            return;
        }
        let text = self.numbers.text().await;
        let span = numbers::Span { start: self.start, now: nanos(&*self.clock) };
        let message = numbers::message(&text, self.origin.of_numbers(), span).encode_to_vec();
        if let Some(answer) = self.send(Signal::Metrics, message.into(), stop).await
            && let refused @ 1.. = refused_points(&answer)
        {
            tracing::warn!(refused, "the OpenTelemetry collector refuses some of the metrics");
        }
    }

    /// Sends a message, a few times where that may help; the collector's answer, or `None` when it was given up. Once stopped there is
    /// one try, and no pause.
    async fn send(&self, signal: Signal, message: Bytes, stop: &CancellationToken) -> Option<Bytes> {
        let mut pause = self.first_pause;
        for left in (0..TRIES).rev() {
            let error = match self.once(signal, message.clone()).await {
                Ok(answer) => {
                    self.works(signal);
                    return Some(answer);
                }
                Err(error) => error,
            };
            let SendError::Later { after, .. } = &error else {
                self.fails(signal, &error);
                return None;
            };
            if left == 0 || stop.is_cancelled() {
                self.fails(signal, &error);
                return None;
            }
            let wait = after.unwrap_or(pause).min(LONGEST_PAUSE);
            stop.run_until_cancelled(tokio::time::sleep(wait)).await;
            pause *= 2;
        }
        None
    }

    async fn once(&self, signal: Signal, message: Bytes) -> Result<Bytes, SendError> {
        let limit = self.settings.timeout;
        tokio::time::timeout(limit, self.collector.send(signal, message)).await.unwrap_or_else(|_| {
            Err(SendError::Later { reason: format!("no answer within {} ms", limit.as_millis()), after: None })
        })
    }

    fn works(&self, signal: Signal) {
        self.metrics.otlp_exports.inc(signal, ExportOutcome::Ok);
        if self.failing.swap(false, Ordering::Relaxed) {
            tracing::info!("the OpenTelemetry collector takes what is sent again");
        }
    }

    fn fails(&self, signal: Signal, error: &SendError) {
        self.metrics.otlp_exports.inc(signal, ExportOutcome::Failed);
        // Once per outage, not once per message.
        if !self.failing.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                %error,
                "the OpenTelemetry collector does not take what is sent, which is dropped and counted meanwhile; requests are not \
                 affected. Look at [telemetry] otlp_endpoint and otlp_protocol, or run `backstory doctor`"
            );
        }
    }
}

/// A message with nothing in it: tells whether a collector takes what is sent.
#[must_use]
pub fn empty_message(signal: Signal) -> Bytes {
    match signal {
        Signal::Traces => ExportTraceServiceRequest::default().encode_to_vec().into(),
        Signal::Metrics => ExportMetricsServiceRequest::default().encode_to_vec().into(),
    }
}

/// An answer that cannot be read refuses nothing.
fn refused_spans(answer: &Bytes) -> u64 {
    let answer = ExportTraceServiceResponse::decode(answer.clone()).ok();
    let partial = answer.and_then(|answer| answer.partial_success);
    partial.map_or(0, |partial| u64::try_from(partial.rejected_spans).unwrap_or(0))
}

fn refused_points(answer: &Bytes) -> u64 {
    let answer = ExportMetricsServiceResponse::decode(answer.clone()).ok();
    let partial = answer.and_then(|answer| answer.partial_success);
    partial.map_or(0, |partial| u64::try_from(partial.rejected_data_points).unwrap_or(0))
}

fn nanos(clock: &dyn Clock) -> u64 {
    u64::try_from(clock.now().0).unwrap_or(0).saturating_mul(1_000_000)
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::Mutex;

    use async_trait::async_trait;
    use opentelemetry_proto::tonic::collector::trace::v1::ExportTracePartialSuccess;

    use super::super::spans::tests::span;
    use super::*;
    use crate::base::{ManualClock, SeededRandom, Time};

    /// Says what it was told to say, then takes everything.
    #[derive(Debug, Default)]
    struct Scripted {
        answers: Mutex<VecDeque<Result<Bytes, SendError>>>,
        got: Mutex<Vec<(Signal, Bytes)>>,
        hangs: bool,
    }

    #[async_trait]
    impl Collector for Scripted {
        async fn send(&self, signal: Signal, message: Bytes) -> Result<Bytes, SendError> {
            if self.hangs {
                std::future::pending::<()>().await;
            }
            self.got.lock().unwrap().push((signal, message));
            self.answers.lock().unwrap().pop_front().unwrap_or_else(|| Ok(Bytes::new()))
        }
    }

    struct Text;

    #[async_trait]
    impl Numbers for Text {
        async fn text(&self) -> String {
            "# TYPE a counter\na_total 1\n# EOF\n".to_owned()
        }
    }

    fn later() -> Result<Bytes, SendError> {
        Err(SendError::Later { reason: "busy".to_owned(), after: None })
    }

    struct Fixture {
        exporter: Exporter,
        collector: Arc<Scripted>,
        queue: Arc<SpanQueue>,
        metrics: Arc<Metrics>,
    }

    fn fixture(collector: Scripted) -> Fixture {
        let (collector, queue, metrics) =
            (Arc::new(collector), Arc::new(SpanQueue::default()), Arc::new(Metrics::new()));
        let settings = ExportSettings {
            metrics: true,
            metrics_every: Duration::from_secs(60),
            timeout: Duration::from_secs(10),
            service_name: "test".to_owned(),
            resource: Vec::new(),
        };
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::new(Time(1_000)));
        let (queued, taker) = (Arc::clone(&queue), Arc::clone(&collector));
        let random = SeededRandom::new(1);
        let mut exporter =
            Exporter::new(queued, Arc::new(Text), taker, Arc::clone(&metrics), (clock, &random), settings);
        exporter.first_pause = Duration::ZERO;
        Fixture { exporter, collector, queue, metrics }
    }

    fn spans_of(metrics: &Metrics) -> (u64, u64) {
        (metrics.otlp_spans.get(SpanOutcome::Exported), metrics.otlp_spans.get(SpanOutcome::Failed))
    }

    #[tokio::test]
    async fn what_waits_when_it_is_stopped_is_sent_in_batches_and_so_are_the_numbers() {
        let f = fixture(Scripted::default());
        (0..BATCH + 1).for_each(|_| f.queue.push(span("s", Vec::new())));
        let stop = CancellationToken::new();
        stop.cancel();
        f.exporter.run(stop).await;
        let got = f.collector.got.lock().unwrap();
        assert_eq!(
            got.iter().map(|(signal, _)| *signal).collect::<Vec<_>>(),
            [Signal::Traces, Signal::Traces, Signal::Metrics]
        );
        assert_eq!(spans_of(&f.metrics), (BATCH as u64 + 1, 0));
    }

    #[tokio::test]
    async fn spans_and_numbers_leave_when_they_are_due() {
        let mut f = fixture(Scripted::default());
        (f.exporter.span_delay, f.exporter.settings.metrics_every) = (Duration::from_millis(1), Duration::ZERO);
        f.queue.push(span("s", Vec::new()));
        let (collector, stop) = (Arc::clone(&f.collector), CancellationToken::new());
        let came = async {
            while collector.got.lock().unwrap().len() < 2 {
                tokio::task::yield_now().await;
            }
            stop.cancel();
        };
        tokio::join!(f.exporter.run(stop.clone()), came);
        let got = collector.got.lock().unwrap();
        assert_eq!((got[0].0, got[1].0), (Signal::Traces, Signal::Metrics));
    }

    #[tokio::test]
    async fn a_busy_collector_is_tried_again_and_then_given_up() {
        let f = fixture(Scripted { answers: Mutex::new((0..4).map(|_| later()).collect()), ..Scripted::default() });
        let stop = CancellationToken::new();
        f.queue.push(span("s", Vec::new()));
        f.exporter.send_spans(&stop).await;
        assert_eq!(spans_of(&f.metrics), (0, 1));
        f.queue.push(span("s", Vec::new()));
        f.exporter.send_spans(&stop).await;
        assert_eq!(spans_of(&f.metrics), (1, 1), "the second try was taken");
        assert_eq!(f.collector.got.lock().unwrap().len(), 5);
    }

    #[tokio::test]
    async fn what_is_refused_is_not_sent_again() {
        let refusal = Err(SendError::Refused("it answers 400".to_owned()));
        let f = fixture(Scripted { answers: Mutex::new([refusal].into()), ..Scripted::default() });
        f.queue.push(span("s", Vec::new()));
        f.exporter.send_spans(&CancellationToken::new()).await;
        assert_eq!((f.collector.got.lock().unwrap().len(), spans_of(&f.metrics)), (1, (0, 1)));
    }

    #[tokio::test]
    async fn what_a_collector_takes_in_part_is_counted_in_part() {
        let partial = ExportTracePartialSuccess { rejected_spans: 1, error_message: String::new() };
        let answer = ExportTraceServiceResponse { partial_success: Some(partial) }.encode_to_vec();
        let f = fixture(Scripted { answers: Mutex::new([Ok(answer.into())].into()), ..Scripted::default() });
        (0..3).for_each(|_| f.queue.push(span("s", Vec::new())));
        f.exporter.send_spans(&CancellationToken::new()).await;
        assert_eq!(spans_of(&f.metrics), (2, 1));
    }

    #[tokio::test]
    async fn a_collector_that_hangs_is_left_when_its_time_is_up() {
        let mut f = fixture(Scripted { hangs: true, ..Scripted::default() });
        f.exporter.settings.timeout = Duration::from_millis(2);
        f.queue.push(span("s", Vec::new()));
        f.exporter.send_spans(&CancellationToken::new()).await;
        assert_eq!(spans_of(&f.metrics), (0, 1));
    }
}
