//! From `tracing` spans to OpenTelemetry's: which are kept, and what they are called.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use opentelemetry::trace::{Link, SpanId, SpanKind, TraceId, TracerProvider};
use opentelemetry::{Context, InstrumentationScope, KeyValue};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{
    IdGenerator, Sampler, SamplingDecision, SamplingResult, SdkTracer, SdkTracerProvider, ShouldSample, Span, SpanData,
    SpanProcessor,
};
use tracing::Subscriber;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::FilterFn;
use tracing_subscriber::registry::LookupSpan;

use super::queue::SpanQueue;
use crate::base::Random;
use crate::telemetry::names;

/// What this program calls its spans' origin.
pub(super) const SCOPE: &str = "backstory";

/// The tracer, and where the spans that it ended wait.
#[derive(Clone)]
pub struct Traces {
    tracer: SdkTracer,
    queue: Arc<SpanQueue>,
}

impl fmt::Debug for Traces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Traces")
    }
}

impl Traces {
    /// Keeps `sample` (0 to 1) of the traces that begin here; of those that a client began, the ones that it keeps.
    #[must_use]
    pub fn new(sample: f64, random: Arc<dyn Random>) -> Self {
        let queue = Arc::new(SpanQueue::default());
        let provider = SdkTracerProvider::builder()
            .with_sampler(Sampler::parent_based(Roots(Sampler::TraceIdRatioBased(sample))))
            .with_id_generator(Ids(random))
            .with_span_processor(Queueing(Arc::clone(&queue)))
            // The exporter says who we are, for the numbers as well.
            .with_resource(Resource::builder_empty().build())
            .build();
        let scope = InstrumentationScope::builder(SCOPE).with_version(env!("CARGO_PKG_VERSION")).build();
        Self { tracer: provider.tracer_with_scope(scope), queue }
    }

    /// Where spans wait to be exported.
    #[must_use]
    pub fn queue(&self) -> Arc<SpanQueue> {
        Arc::clone(&self.queue)
    }

    /// Listens to our own spans, whatever the log listens to; to no event, so that what is logged stays in the log.
    pub fn layer<S>(&self) -> impl Layer<S> + Send + Sync + use<S>
    where
        S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
    {
        let ours = FilterFn::new(|metadata| metadata.is_span() && metadata.target().starts_with(SCOPE));
        tracing_opentelemetry::layer()
            .with_tracer(self.tracer.clone())
            .with_location(false)
            .with_threads(false)
            .with_level(false)
            .with_target(false)
            .with_tracked_inactivity(false)
            .with_filter(ours.with_max_level_hint(LevelFilter::DEBUG))
    }
}

/// Decides on traces that begin here.
#[derive(Clone, Debug)]
struct Roots(Sampler);

impl ShouldSample for Roots {
    fn should_sample(
        &self,
        parent: Option<&Context>,
        trace: TraceId,
        name: &str,
        kind: &SpanKind,
        attributes: &[KeyValue],
        links: &[Link],
    ) -> SamplingResult {
        // The background looks into the store every other second, for nobody: a trace of one span each.
        if name == names::STORE {
            return SamplingResult {
                decision: SamplingDecision::Drop,
                attributes: Vec::new(),
                trace_state: Default::default(),
            };
        }
        // What a request left to be done is kept if the request is.
        let sampler = match links {
            [] => &self.0,
            _ if links.iter().any(|link| link.span_context.is_sampled()) => &Sampler::AlwaysOn,
            _ => &Sampler::AlwaysOff,
        };
        sampler.should_sample(parent, trace, name, kind, attributes, links)
    }
}

/// Makes ids. Zero is none.
#[derive(Debug)]
struct Ids(Arc<dyn Random>);

impl Ids {
    fn word(&self) -> u64 {
        self.0.next_u64().max(1)
    }
}

impl IdGenerator for Ids {
    fn new_trace_id(&self) -> TraceId {
        let id = (u128::from(self.word()) << 64) | u128::from(self.word());
        TraceId::from_bytes(id.to_be_bytes())
    }

    fn new_span_id(&self) -> SpanId {
        SpanId::from_bytes(self.word().to_be_bytes())
    }
}

/// Hands ended spans over; the exporter does the rest, in its own time.
#[derive(Debug)]
struct Queueing(Arc<SpanQueue>);

impl SpanProcessor for Queueing {
    fn on_start(&self, _: &mut Span, _: &Context) {}

    fn on_end(&self, span: SpanData) {
        if span.span_context.is_sampled() {
            self.0.push(span);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue};
    use tracing::subscriber::with_default;
    use tracing::{debug_span, info};
    use tracing_subscriber::layer::SubscriberExt;
    use tracing_subscriber::registry;

    use super::*;
    use crate::base::{SeededRandom, TraceParent};
    use crate::telemetry::trace_context::{adopt, inject, link, of};

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn traced(sample: f64, work: impl FnOnce()) -> Vec<SpanData> {
        let traces = Traces::new(sample, Arc::new(SeededRandom::new(7)));
        with_default(registry().with(traces.layer()), work);
        traces.queue().take()
    }

    fn headers(parent: &'static str) -> HeaderMap {
        [("traceparent", parent), ("tracestate", "vendor=opaque")]
            .into_iter()
            .map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value)))
            .collect()
    }

    #[test]
    fn spans_are_kept_by_the_share_of_traces_and_never_in_part() {
        let work = || {
            for _ in 0..200 {
                debug_span!("request").in_scope(|| debug_span!("attempt").in_scope(|| {}));
            }
        };
        assert_eq!(traced(0.0, work).len(), 0);
        assert_eq!(traced(1.0, work).len(), 400);
        let half = traced(0.5, work).len();
        assert!((120..280).contains(&half) && half.is_multiple_of(2), "{half}");
    }

    #[test]
    fn a_client_decides_on_the_trace_that_it_began() {
        let work = |parent| {
            move || {
                let span = debug_span!("request");
                adopt(&span, &headers(parent));
                span.in_scope(|| {});
            }
        };
        let kept = traced(0.0, work(PARENT));
        assert_eq!(kept.len(), 1);
        assert_eq!(kept[0].span_context.trace_id().to_string(), "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(kept[0].parent_span_id.to_string(), "b7ad6b7169203331");
        let unsampled = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";
        assert_eq!(traced(1.0, work(unsampled)).len(), 0);
        let own = traced(1.0, work("00-malformed"));
        assert_eq!(own.len(), 1);
        assert_ne!(own[0].span_context.trace_id().to_string(), "0af7651916cd43dd8448eb211c80319c");
    }

    #[test]
    fn what_is_sent_on_names_our_span_and_keeps_the_state() {
        let mut sent = headers("00-00000000000000000000000000000001-0000000000000001-01");
        let spans = traced(1.0, || {
            let span = debug_span!("attempt");
            adopt(&span, &headers(PARENT));
            span.in_scope(|| inject(&mut sent));
        });
        let parent: TraceParent = sent["traceparent"].to_str().unwrap().parse().unwrap();
        assert_eq!(format!("{:x}", parent.trace), "af7651916cd43dd8448eb211c80319c");
        assert_eq!(format!("{:016x}", parent.span), spans[0].span_context.span_id().to_string());
        assert_eq!(sent["tracestate"], "vendor=opaque");
    }

    #[test]
    fn a_job_points_to_its_request_and_has_a_trace_of_its_own() {
        let spans = traced(1.0, || {
            let request = debug_span!("request");
            let cause = of(&request);
            drop(request);
            let job = debug_span!("extract");
            link(&job, cause);
        });
        let [request, job] = &spans[..] else { panic!("{spans:?}") };
        assert_eq!(job.links[0].span_context.span_id(), request.span_context.span_id());
        assert_ne!(job.span_context.trace_id(), request.span_context.trace_id());
        assert_eq!(job.parent_span_id, SpanId::INVALID);
    }

    #[test]
    fn a_job_is_kept_if_its_request_is() {
        let job = |flags: &str| {
            let cause: TraceParent = PARENT.replace("-01", flags).parse().unwrap();
            move || {
                let job = debug_span!("extract");
                link(&job, Some(cause));
            }
        };
        assert_eq!(traced(0.0, job("-01")).len(), 1);
        assert_eq!(traced(1.0, job("-00")).len(), 0);
    }

    #[test]
    fn neither_what_is_logged_nor_what_others_trace_is_exported() {
        let spans = traced(1.0, || {
            debug_span!("request").in_scope(|| info!(secret = "canary", "a message"));
            debug_span!(target: "another::query", "a query").in_scope(|| {});
            debug_span!("store").in_scope(|| {});
        });
        assert_eq!(spans.len(), 1);
        assert!(spans[0].events.is_empty());
    }

    #[test]
    fn without_an_exporter_headers_stay_as_they_came() {
        let mut sent = headers("not even a traceparent");
        let before = sent.clone();
        with_default(registry(), || {
            let span = debug_span!("attempt");
            adopt(&span, &before);
            span.in_scope(|| inject(&mut sent));
            assert_eq!(of(&span), None);
        });
        assert_eq!(sent, before);
    }
}
